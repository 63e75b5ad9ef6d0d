"""Mutants of the curve of distinct counts."""

from __future__ import annotations

from fractions import Fraction

from mechanisms.distinct_curve import DistinctCountCurve
from mechanisms.histogram import Counts
from tests.audit import curve_cases
from tests.audit.mutant import Mutant


class EachByItself(DistinctCountCurve):
    """Noise on each DC(D; l)/l, not on the steps from one to the next."""

    def steps(self, counts: Counts) -> list[int]:
        return [int(c) * (self.bounds[-1] // b) for c, b in zip(counts, self.bounds, strict=True)]


class StepsOfCounts(DistinctCountCurve):
    """Steps from one DC(D; l) to the next, not divided by l."""

    def steps(self, counts: Counts) -> list[int]:
        values = counts.tolist()
        return [9 * (x - y) for x, y in zip(values, [*values[1:], 0], strict=True)]


class ScaleOfOne(DistinctCountCurve):
    """Noise for l = 1."""

    @property
    def sigma_squared(self) -> Fraction:
        return (2 / self.eps_per) ** 2


class LessNoise(DistinctCountCurve):
    """10% less of it."""

    @property
    def sigma_squared(self) -> Fraction:
        return super().sigma_squared * Fraction(81, 100)


class HalfWidth(DistinctCountCurve):
    """Half of what the lower bound takes off."""

    @property
    def width(self) -> float:
        return super().width / 2


MUTANTS = (
    Mutant("noise on each count by itself", curve_cases.price(EachByItself)),
    Mutant("steps of counts that are not divided by l", curve_cases.price(StepsOfCounts)),
    Mutant("10% less noise, by its price", curve_cases.price(LessNoise)),
    Mutant("10% less noise", curve_cases.noise(LessNoise), 1 / 2),
    Mutant("noise for l = 1", curve_cases.one_more("a person with all items", ScaleOfOne), 1.0),
    Mutant("half the width", curve_cases.lower_bound(HalfWidth)),
)
