"""Seeds: two releases of one count at two scales under one reservation, and one answer twice."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from fractions import Fraction
from typing import Any

import numpy as np

from mechanisms.histogram import Histogram
from mechanisms.known_domain import KnownLap
from mechanisms.randomness import Stream, release_key, seed
from tests.audit.claims import pure
from tests.audit.experiment import Draw, Experiment
from tests.audit.finding import Check

NAME = "seeds"
SCALES = (Fraction(1), Fraction(1, 10))
Seeding = Callable[[bytes, KnownLap], Stream]


def covering(key: bytes, mechanism: KnownLap) -> Stream:
    """The project's seed: its release key covers every parameter of the mechanism."""
    parts = [text.encode() for pair in mechanism.parameters for text in pair]
    return seed(key, release_key(key, [b"epoch", b"query", *parts]), b"reservation")


def two_scales(seeding: Seeding = covering) -> Experiment:
    """The count 40 or 41 at b = 2 and b = 20: eps/2 of each release."""
    mechanisms = [KnownLap(eps, 1, 1, 1) for eps in SCALES]

    def side(count: int) -> Draw:
        histogram = Histogram(np.array([count], dtype=np.int64), complete=True)

        def pair(key: bytes) -> tuple[int, ...]:
            releases = [mechanism.release(histogram, seeding(key, mechanism)) for mechanism in mechanisms]
            return tuple(int(r.values[0]) for r in releases if r.values is not None)

        return lambda stream, n: [pair(stream.child(i).words(4).tobytes()) for i in range(n)]

    views: dict[str, Callable[[Any], Hashable]] = {
        "raw": lambda o: o,
        "(10a - b)/9": lambda o: round((10 * o[0] - o[1]) / 9),
        "equal": lambda o: o[0] == o[1],
        "at 40": lambda o: (o[0] - 40 == 0, o[1] - 40 == 0),
    }
    assert all(mechanism.cost_at_most.information == 1 for mechanism in mechanisms)
    claims = (pure(sum(SCALES, Fraction(0)) / 2),)
    return Experiment(NAME, "one count at two scales", claims, (side(40), side(41)), views, 3000)


CASES: tuple[Check, ...] = (two_scales(),)
