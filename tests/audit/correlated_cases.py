"""CorrelatedCounts and TopCounts: one more unit in any of the cells; the price in exact numbers, the laws of noise."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from mechanisms import correlated_counts
from mechanisms.correlated_counts import CorrelatedCounts
from mechanisms.histogram import Histogram
from mechanisms.known_domain import KnownGumb
from mechanisms.randomness import Stream
from mechanisms.top_counts import TopCounts
from mechanisms.unknown_domain import UnkGumb
from tests.audit.claims import concentrated
from tests.audit.clip_cases import recorded
from tests.audit.experiment import Experiment
from tests.audit.finding import Check
from tests.audit.fit import Exact, Fit
from tests.audit.neighbours import KNOWN_VIEWS, UNKNOWN_VIEWS, released, sum_over
from tests.mechanisms.goodness import gaussian_law, stream

EPS = Fraction(2)
"""The variance of one count is 1 at one unit of price: 6 is that of the noise on four cells, 3 that on all of them."""
CROWD = (5, 0, 9, 7)
Kind = type[CorrelatedCounts]


def counts_of(kind: Kind = CorrelatedCounts, cells: int = len(CROWD), price: int = 1) -> CorrelatedCounts:
    return kind(EPS, cells, Fraction(price))


def variances(counts: CorrelatedCounts) -> tuple[Fraction, Fraction]:
    """Of the halves of noise that are on each cell by itself and on all of them, read off the calls of the sampler."""
    with recorded(correlated_counts, "discrete_gaussian") as calls:
        counts.release(Histogram(np.arange(counts.cells), complete=True), stream())
    drawn = {int(size): Fraction(variance) / 4 for _, variance, size in calls}
    return drawn[counts.cells], drawn.get(1, Fraction(0))


def spent(counts: CorrelatedCounts, cells: int) -> Fraction:
    """The share of the price that one more unit in so many cells takes: half of its move by the inverse covariance."""
    own, common = variances(counts)
    rho = (cells - common * cells**2 / (own + counts.cells * common)) / (2 * own)
    return rho / (counts.cost_at_most.information * counts.eps_per**2 / 8)


def price(kind: Kind = CorrelatedCounts) -> Exact:
    """A unit in any number of the cells, of few and of many: never more than the price, at worst not much less."""

    def compute() -> tuple[str, bool]:
        worst = []
        for cells in (2, 3, 4, 53, 64, 1000):
            for units in (1, cells):
                counts = counts_of(kind, cells, units)
                worst.append(max(spent(counts, number) for number in range(1, cells + 1)))
        found = f"{float(min(worst)):.6f} to 1{float(max(worst) - 1):+.1e} of it"
        return found, Fraction(9, 10) < min(worst) and max(worst) <= 1

    return Exact("CorrelatedCounts", "price", "all of the price", compute)


MORE: Mapping[str, tuple[int, ...]] = {
    "in one cell": (0,),
    "in three of four cells": (0, 1, 2),
    "in all cells": (0, 1, 2, 3),
}


def one_more(what: str, kind: Kind = CorrelatedCounts) -> Experiment:
    """One more unit; in three of four cells it takes the whole price."""
    counts, cells = counts_of(kind), MORE[what]
    left = dict(enumerate(CROWD))
    sides = released(counts, left), released(counts, left | {cell: left[cell] + 1 for cell in cells})

    def likelihood(outcome: Any) -> Hashable:
        """The move by the inverse covariance, in sixths of a log-likelihood."""
        values = [value for _, value in outcome.rows]
        return int(6 * sum(values[cell] for cell in cells) - len(cells) * sum(values))

    views: dict[str, Callable[[Any], Hashable]] = {
        **KNOWN_VIEWS,
        "sum": sum_over(cells),
        "likelihood": likelihood,
        "differences": lambda o: tuple((value or 0) - (o.rows[3][1] or 0) for _, value in o.rows[:3]),
    }
    claims = concentrated(counts.cost_at_most, EPS, Fraction(0))
    return Experiment("CorrelatedCounts", f"one more unit {what}", claims, sides, views, 2000)


def noise(kind: Kind = CorrelatedCounts) -> Fit:
    """Half of N(0, 6) + N(0, 3) on a count, halves to the even neighbour."""
    counts = counts_of(kind)
    histogram = Histogram(np.array(CROWD, dtype=np.int64), complete=True)

    def draw(stream: Stream, n: int) -> list[int]:
        drawn = (counts.release(histogram, stream.child(number)).values for number in range(n))
        return [int(values[1]) for values in drawn if values is not None]

    return Fit("CorrelatedCounts", "noise on a count", "(N(0, 6) + N(0, 3))/2", draw, _law(6.0, 3.0), 8000)


def _law(cells: float, units: float) -> Callable[[], dict[int, float]]:
    """Of half the sum of two discrete Gaussians of these variances, halves to the even neighbour."""

    def law() -> dict[int, float]:
        found: dict[int, float] = {}
        for x, p in gaussian_law(cells).items():
            for y, q in gaussian_law(units).items():
                half = round((x + y) / 2)
                found[half] = found.get(half, 0.0) + p * q
        return found

    return law


TOP, DELTA = 4, Fraction(1, 10)
RANKS: Mapping[str, KnownGumb | UnkGumb] = {
    "of a known domain": KnownGumb(EPS, 1, TOP, 9, False),
    "of an unknown domain": UnkGumb(EPS, DELTA, 1, TOP, 9, False),
}
RANKED = dict(enumerate((40, 30, 20, 10, 1, 1)))


def top_price(kind: type[TopCounts] = TopCounts) -> Exact:
    """The counts of any number of elements that came out: never more than is charged for them, and not much less."""

    def compute() -> tuple[str, bool]:
        worst = []
        for k in (1, 2, 3, 10, 100):
            top = kind(UnkGumb(EPS, DELTA, 1, k, k + 1, False))
            counts = top.counts_of(k)
            most = max(spent(counts, number) for number in range(1, k + 1)) * counts.cost_at_most.information
            worst.append(most / (top.cost_at_most.information - top.ranks.cost_at_most.information))
        found = f"{float(min(worst)):.6f} to 1{float(max(worst) - 1):+.1e} of it"
        return found, Fraction(9, 10) < min(worst) and max(worst) <= 1

    return Exact("TopCounts", "price of counts", "all of the price", compute)


def one_more_ranked(what: str, kind: type[TopCounts] = TopCounts) -> Experiment:
    """One more unit, in all groups."""
    top = kind(RANKS[what])
    known = what == "of a known domain"
    left = {cell: RANKED.get(cell, 0) for cell in range(9)} if known else RANKED
    sides = released(top, left), released(top, {cell: count + 1 for cell, count in left.items()})
    claims = concentrated(top.cost_at_most, EPS, Fraction(0) if known else DELTA)
    views: dict[str, Callable[[Any], Hashable]] = {
        **(KNOWN_VIEWS if known else UNKNOWN_VIEWS),
        "sum": sum_over(tuple(left)),
    }
    return Experiment("TopCounts", f"one more unit, {what}", claims, sides, views, 2000)


def top_noise(kind: type[TopCounts] = TopCounts) -> Fit:
    """Half of N(0, 8/3) + N(0, 4/3) on a count of four that came out, whose variance is that of one count."""
    top = kind(RANKS["of a known domain"])
    histogram = Histogram(np.array((900, 700, 500, 300, *(0,) * 5), dtype=np.int64), complete=True)

    def draw(stream: Stream, n: int) -> list[int]:
        drawn = (top.release(histogram, stream.child(number)).values for number in range(n))
        return [int(values[1]) - 700 for values in drawn if values is not None]

    return Fit("TopCounts", "noise on a count", "(N(0, 8/3) + N(0, 4/3))/2", draw, _law(8 / 3, 4 / 3), 8000)


CASES: tuple[Check, ...] = (
    price(),
    *(one_more(what) for what in MORE),
    noise(),
    top_price(),
    *(one_more_ranked(what) for what in RANKS),
    top_noise(),
)
