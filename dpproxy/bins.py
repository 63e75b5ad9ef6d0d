"""The bins into which the range of a quantile's values is cut."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from rewriter.measure import Quantiles


@dataclass(frozen=True)
class Bins:
    """2^levels bins of `width` fixed-point values each, from `lo`: the last ones may lie beyond the range."""

    lo: int
    width: int
    levels: int

    def ends(self, place: int) -> tuple[int, int]:
        """The first and the last value of a bin.

        >>> Bins(10, 5, 3).ends(1)
        (15, 19)
        """
        first = self.lo + place * self.width
        return first, first + self.width - 1

    def shown(self, place: int, fraction: Fraction, *, real: bool) -> Fraction:
        """What stands for a bin: its middle, or, where it has to be a `real` value, its end on the quantile's side."""
        first, last = self.ends(place)
        if real:
            return Fraction(first if fraction <= Fraction(1, 2) else last)
        return Fraction(first + last, 2)


def bins_of(measure: Quantiles, most: int) -> Bins:
    """At most `most` bins, rounded down to a power of two, that cover the values of a measure."""
    lo, hi = measure.value.lo, measure.value.hi
    assert lo is not None
    assert hi is not None
    size = hi - lo + 1
    levels = max(1, min(most.bit_length() - 1, (size - 1).bit_length()))
    return Bins(lo, -(-size >> levels), levels)
