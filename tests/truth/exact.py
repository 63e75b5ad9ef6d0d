"""The proxy without noise, private choices and thresholds: it answers what the backend has counted.

For the truth oracle alone, which compares such answers with PostgreSQL's: `python -m tests.truth.exact ARGUMENTS` is
`dpproxy ARGUMENTS` so. No setting can switch this on: it is the tests that replace the mechanisms' parts.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

import dpproxy.engine.executor  # noqa: F401  # what draws is imported before it is replaced
from dpproxy.cli.app import app
from dpproxy.engine import optimizer
from dpproxy.engine.measurement.presence import PresenceMeter
from mechanisms import noise
from mechanisms.count_release import KnownCountRelease, PrivateCountRelease
from mechanisms.histogram import Cost, Histogram, Release
from mechanisms.partition_selection import WeightRound
from mechanisms.randomness import Stream
from mechanisms.unit_clip import UnitClip
from mechanisms.unknown_domain import UnkGauss, UnkLap

Integers = npt.NDArray[np.int64]


def no_noise(stream: Stream, scale: Fraction, n: int) -> Integers:
    """In place of a sampler."""
    return np.zeros(n, dtype=np.int64)


def no_error(of: Fraction) -> float:
    """In place of a standard deviation, by which values are left out and bounds are chosen."""
    return 1e-9


def by_score(
    stream: Stream,
    scores: Integers,
    beta: Fraction,
    first: int,
    weights: Sequence[Fraction] | None = None,
) -> Integers:
    """In place of a noisy order: the largest first, of equal ones the first."""
    order: Integers = np.argsort(-scores, kind="stable")
    return order[:first]


def longest(clip: UnitClip, units: Integers, stream: Stream) -> int:
    """In place of a private length: one that no unit's vector is longer than."""
    held = np.flatnonzero(units)
    place = int(held[-1]) if len(held) else 0
    return clip.lengths[min(place, len(clip.lengths) - 1)]


def every_group(
    mechanism: PrivateCountRelease | KnownCountRelease, histogram: Histogram, stream: Stream
) -> Release:
    """In place of groups that are found one by one, as far as a price goes: all that have somebody."""
    found = np.flatnonzero(histogram.counts > 0)
    order = found[np.argsort(-histogram.counts[found], kind="stable")]
    return Release(order, histogram.counts[order], 0.0, Cost(Fraction(1), Fraction(1)))


def make_exact() -> None:
    """Replaces what is random in every module that has it by name, and what is decided by it."""
    for name, instead in (
        ("discrete_laplace", no_noise),
        ("discrete_gaussian", no_noise),
        ("gumbel_order", by_score),
        ("gaussian_stddev", no_error),
        ("laplace_stddev", no_error),
    ):
        original = getattr(noise, name)
        for module in [m for n, m in sys.modules.items() if n.startswith("mechanisms.")]:
            if getattr(module, name, None) is original:
                setattr(module, name, instead)
    vars(optimizer)["ONE"] = 0  # the least weight of a group that is selected
    replaced: tuple[tuple[Any, str, Any], ...] = (
        (UnitClip, "choose", longest),
        (UnkGauss, "threshold", 0),
        (UnkLap, "threshold", 0),
        (WeightRound, "threshold", 0),
        (PresenceMeter, "threshold", 1),
        (PrivateCountRelease, "release", every_group),
        (KnownCountRelease, "release", every_group),
    )
    for owner, name, instead in replaced:
        setattr(owner, name, instead)


if __name__ == "__main__":
    make_exact()
    app()
