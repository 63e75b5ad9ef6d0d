"""The bins into which the range of a quantile's values is cut."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from rewriter.ir.measure import Quantiles


@dataclass(frozen=True)
class Bins:
    """2^levels bins over `size` fixed-point values from `lo` on: bin b holds lo + i for i 2^levels // size = b."""

    lo: int
    size: int
    levels: int

    def ends(self, place: int) -> tuple[int, int]:
        """The first and the last value of a bin; of one without values the next value twice.

        >>> Bins(10, 20, 2).ends(1), Bins(0, 3, 2).ends(3)
        ((15, 19), (3, 3))
        """
        first, after = (-(-n * self.size >> self.levels) for n in (place, place + 1))
        return self.lo + first, self.lo + max(first, after - 1)

    def shown(self, place: int, fraction: Fraction, *, real: bool) -> Fraction:
        """The value shown for a bin: its middle, or, if it has to be a `real` value, its end on the quantile's side."""
        first, last = self.ends(place)
        if real:
            return Fraction(first if fraction <= Fraction(1, 2) else last)
        return Fraction(first + last, 2)


MOST_TOGETHER, LEAST = 1 << 20, 1 << 4
"""Bins of all groups of a query together, which are counted and searched one by one; and the fewest of one group."""


def bins_of(measure: Quantiles, most: int, groups: int = 1) -> Bins:
    """At most `most` bins, rounded down to a power of two, that cover the values of a measure in a group of `groups`.

    Of many groups each has fewer bins, `LEAST` at least, so that all together have no more than `MOST_TOGETHER`. Bounds
    that wait for a constant are 0 and 1, as in the backend's SQL.
    """
    most = max(min(most, MOST_TOGETHER // max(groups, 1)), LEAST)
    lo, hi = measure.value.lo, measure.value.hi
    if lo is None or hi is None:
        lo, hi = 0, 1
    size = hi - lo + 1
    return Bins(lo, size, max(1, min(most.bit_length() - 1, (size - 1).bit_length())))
