"""Mutants of CorrelatedCounts."""

from __future__ import annotations

import math
from fractions import Fraction

from mechanisms.correlated_counts import CorrelatedCounts
from mechanisms.histogram import Histogram, Release
from mechanisms.randomness import Stream
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


MUTANTS = (
    Mutant("noise of X - n/2 on 2 X - n", correlated_cases.price(OfHalves)),
    Mutant("noise of X - n/2 on 2 X - n", correlated_cases.noise(OfHalves)),
    Mutant("n not noised", correlated_cases.price(BareUnits)),
    Mutant("n not noised", correlated_cases.noise(BareUnits)),
    Mutant("half the square root", correlated_cases.price(HalfRoot)),
    Mutant("half the square root", correlated_cases.noise(HalfRoot)),
    Mutant("variances rounded down", correlated_cases.price(RoundedDown)),
    Mutant("one draw for all cells", correlated_cases.one_more("in one cell", OneNoise)),
)
