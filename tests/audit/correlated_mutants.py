"""Mutants of CorrelatedCounts and TopCounts."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from mechanisms.correlated_counts import CorrelatedCounts
from mechanisms.histogram import Cost, Histogram, Release
from mechanisms.randomness import Stream
from mechanisms.top_counts import TopCounts
from tests.audit import correlated_cases
from tests.audit.mutant import Mutant


class OfHalves(CorrelatedCounts):
    """The noise that X_g - n/2 needs, on 2 X_g - n."""

    @property
    def cell_variance(self) -> Fraction:
        return super().cell_variance / 4


class BareUnits(CorrelatedCounts):
    """n is not noised: noise of this size is 0."""

    @property
    def units_variance(self) -> Fraction:
        return Fraction(1, 1 << 20)


class HalfRoot(CorrelatedCounts):
    """Half of the square root."""

    @property
    def root(self) -> Fraction:
        return super().root / 2


class RoundedDown(CorrelatedCounts):
    """The square root is rounded down, and so are both variances."""

    @property
    def root(self) -> Fraction:
        return Fraction(math.isqrt(self.cells << 12), 64)


class OneNoise(CorrelatedCounts):
    """One draw serves all cells."""

    def release(self, histogram: Histogram, stream: Stream) -> Release:
        done = super().release(histogram, stream)
        assert done.values is not None
        values = histogram.counts + (done.values[0] - histogram.counts[0])
        return Release(done.indices, values, done.stddev, done.cost)


class PaidAsOne(TopCounts):
    """All counts are charged as one."""

    def _cost(self, ranks: Cost, released: int) -> Cost:
        return Cost.sum((ranks, Cost(Fraction(1), Fraction(0))))


class TooFine(TopCounts):
    """The noise of twice the price that is charged."""

    def release(self, histogram: Histogram, stream: Stream) -> Release:
        fine = replace(self.ranks, eps_per=self.ranks.eps_per * Fraction(7, 5))
        return TopCounts(fine).release(histogram, stream)


class BareCounts(TopCounts):
    """The counts as they are."""

    def release(self, histogram: Histogram, stream: Stream) -> Release:
        done = self.ranks.release(histogram, stream)
        return replace(done, values=histogram.counts[done.indices], stddev=self.stddev)


MUTANTS = (
    Mutant("noise of X - n/2 on 2 X - n", correlated_cases.price(OfHalves)),
    Mutant("noise of X - n/2 on 2 X - n", correlated_cases.noise(OfHalves)),
    Mutant("n not noised", correlated_cases.price(BareUnits)),
    Mutant("n not noised", correlated_cases.noise(BareUnits)),
    Mutant("half the square root", correlated_cases.price(HalfRoot)),
    Mutant("half the square root", correlated_cases.noise(HalfRoot)),
    Mutant("variances rounded down", correlated_cases.price(RoundedDown)),
    Mutant("one draw for all cells", correlated_cases.one_more("in one cell", OneNoise)),
    Mutant("all counts charged as one", correlated_cases.top_price(PaidAsOne)),
    Mutant("noise of twice the price", correlated_cases.top_noise(TooFine)),
    Mutant("counts as they are", correlated_cases.top_noise(BareCounts)),
)
