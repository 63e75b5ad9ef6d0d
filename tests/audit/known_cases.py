"""KnownLap, KnownGauss, KnownGumb: scalars c/c+tau, absent/1, all keys at once; the laws of noise and order."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Literal

import numpy as np

from mechanisms.histogram import Cost, Histogram, Mechanism
from mechanisms.known_domain import KnownGauss, KnownGumb, KnownLap
from mechanisms.randomness import Stream
from tests.audit.claims import bounded_range, concentrated, pure
from tests.audit.experiment import Experiment
from tests.audit.finding import Check
from tests.audit.fit import Fit
from tests.audit.neighbours import (
    KNOWN_VIEWS,
    ORDER_VIEWS,
    CopiedCells,
    Table,
    changed,
    released,
    sum_over,
)
from tests.mechanisms.goodness import gaussian_law, laplace_law

EPS = Fraction(1)
TAU = 3
Cells = Callable[[int], Mechanism]
"""From the number of cells, the mechanism."""
SCALARS = {"c/c+tau": (40, 40 + TAU), "absent/1": (0, 1), "0/tau": (0, TAU)}


def lap(kind: type[KnownLap] = KnownLap, delta0: int = 1) -> Cells:
    return lambda cells: kind(EPS, TAU, delta0, cells)


def gauss(spend: Literal["accurate", "cheap"], delta0: int, kind: type[KnownGauss] = KnownGauss) -> Cells:
    return lambda cells: kind(EPS, TAU, delta0, cells, spend)


def scalar_lap(what: str, make: Cells | None = None) -> Experiment:
    """One cell of KnownLap: eps_per/2-DP by its theorem, 1 unit by its cost."""
    make = make or lap()
    left, right = (CopiedCells(make, (count,)) for count in SCALARS[what])
    claims = (pure(EPS / 2), *bounded_range(Cost(Fraction(1), Fraction(0)), EPS, Fraction(0)))
    return Experiment(
        "KnownLap", what, claims, (left, right), {**KNOWN_VIEWS, "value": sum_over([0])}, 20_000
    )


def scalar_gauss(what: str, make: Cells | None = None) -> Experiment:
    """One cell of KnownGauss: 1 unit."""
    make = make or gauss("accurate", 1)
    left, right = (CopiedCells(make, (count,)) for count in SCALARS[what])
    claims = concentrated(make(1).cost_at_most, EPS, Fraction(0))
    return Experiment(
        "KnownGauss", what, claims, (left, right), {**KNOWN_VIEWS, "value": sum_over([0])}, 20_000
    )


def all_cells(name: str, make: Cells, what: str = "+tau on delta0 = 3 keys") -> Experiment:
    """+tau on all of delta0 = 3 keys, one more stays: the whole price is needed."""
    sides = CopiedCells(make, (5, 0, 9, 7)), CopiedCells(make, (5 + TAU, TAU, 9 + TAU, 7))
    promise = bounded_range if name == "KnownLap" else concentrated
    claims = promise(make(4).cost_at_most, EPS, Fraction(0))
    views = {**KNOWN_VIEWS, "sum": sum_over([0, 1, 2])}
    return Experiment(name, what, claims, sides, views, 20_000)


def noise(name: str, what: str, make: Cells, law: Callable[[], dict[int, float]], claimed: str) -> Fit:
    """The noise on every cell of a large domain."""

    def draw(stream: Stream, n: int) -> list[int]:
        counts = np.arange(n, dtype=np.int64) % 7
        release = make(n).release(Histogram(counts, complete=True), stream)
        assert release.values is not None
        return [int(x) for x in release.values - counts]

    return Fit(name, what, claimed, draw, law, 150_000)


def lap_noise(make: Cells | None = None) -> Fit:
    """Lap(2 tau/eps_per) on every cell."""
    return noise("KnownLap", "noise", make or lap(), lambda: laplace_law(6.0), "Lap(6)")


def gauss_noise(make: Cells | None = None) -> Fit:
    """N(0, (2 tau/eps_per)^2) on every cell."""
    return noise(
        "KnownGauss", "noise, accurate", make or gauss("accurate", 1), lambda: gaussian_law(36.0), "N(0, 36)"
    )


GUMB_TABLES: dict[str, tuple[Table, Table]] = {
    "+tau on all keys but one": ({0: 9, 1: 9, 2: 9}, {0: 9 + TAU, 1: 9 + TAU, 2: 9}),
    "+tau on one of equals": ({0: 9, 1: 9, 2: 9}, {0: 9 + TAU, 1: 9, 2: 9}),
    "+tau on the only key": ({0: 9}, {0: 9 + TAU}),
    "+tau on all keys": ({0: 9, 1: 6, 2: 6}, {0: 9 + TAU, 1: 6 + TAU, 2: 6 + TAU}),
}


def gumb(what: str, counts: bool, kind: type[KnownGumb] = KnownGumb) -> Experiment:
    """The first two cells with or without their counts."""
    left, right = GUMB_TABLES[what]
    parameters = EPS, TAU, min(2, len(left)), len(left), counts
    mechanism = kind(*parameters)
    sides = released(mechanism, left), released(mechanism, right)
    claims = bounded_range(KnownGumb(*parameters).cost_at_most, EPS, Fraction(0))
    views = (
        {**ORDER_VIEWS, "sum": sum_over(changed(left, right))} if counts else {"order": ORDER_VIEWS["order"]}
    )
    shown = "" if counts else ", no counts"
    return Experiment("KnownGumb", what + shown, claims, sides, views, 2000 if counts else 8000)


def pairs(kind: type[KnownGumb] = KnownGumb) -> Fit:
    """Which of two cells comes first, in many pairs at once: 1/(1 + exp(-gap eps/tau)), gap 6."""
    gap = 2 * TAU

    def draw(stream: Stream, n: int) -> list[int]:
        counts = np.tile(np.array([20 + gap, 20], dtype=np.int64), n)
        release = kind(EPS, TAU, 2 * n, 2 * n, False).release(Histogram(counts, complete=True), stream)
        place = np.empty(2 * n, dtype=np.int64)
        place[release.indices] = np.arange(2 * n)
        return [int(first) for first in place[0::2] < place[1::2]]

    likely = 1 / (1 + math.exp(-gap / TAU))
    return Fit(
        "KnownGumb", "order of pairs", "exp(h eps/tau)", draw, lambda: {1: likely, 0: 1 - likely}, 60_000
    )


def shown_counts(kind: type[KnownGumb] = KnownGumb) -> Fit:
    """The noise on the counts of what was chosen."""

    def draw(stream: Stream, n: int) -> list[int]:
        counts = np.arange(2 * n, dtype=np.int64) % 7
        release = kind(EPS, TAU, n, 2 * n, True).release(Histogram(counts, complete=True), stream)
        assert release.values is not None
        return [int(x) for x in release.values - counts[release.indices]]

    return Fit("KnownGumb", "noise on counts", "Lap(6)", draw, lambda: laplace_law(6.0), 60_000)


CASES: tuple[Check, ...] = (
    *(scalar_lap(what) for what in SCALARS),
    *(scalar_gauss(what) for what in SCALARS),
    all_cells("KnownLap", lap(delta0=3)),
    all_cells("KnownGauss", gauss("accurate", 3), "+tau on delta0 = 3 keys, accurate"),
    all_cells("KnownGauss", gauss("cheap", 3), "+tau on delta0 = 3 keys, cheap"),
    lap_noise(),
    gauss_noise(),
    noise("KnownGauss", "noise, cheap", gauss("cheap", 3), lambda: gaussian_law(108.0), "N(0, 108)"),
    *(gumb(what, counts) for what in GUMB_TABLES for counts in (True, False)),
    pairs(),
    shown_counts(),
)
