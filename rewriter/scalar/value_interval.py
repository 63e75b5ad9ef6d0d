"""Intervals of values, with exact fractions: dates count in days since 1970-01-01, timestamps in seconds since then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor

from rewriter.ir.types import DATED, NUMBERS, Type
from rewriter.scalar.timestamps import DAY, moment_of

End = Fraction | None


@dataclass(frozen=True)
class Interval:
    """From `lo` to `hi`, both included, None without end; values are multiples of 10^-scale, of any number if None.

    >>> Interval(Fraction(-5), Fraction(50), 2).times(Interval(Fraction(2), Fraction(2), 0))
    Interval(lo=Fraction(-10, 1), hi=Fraction(100, 1), scale=2)
    """

    lo: End = None
    hi: End = None
    scale: int | None = None

    @property
    def point(self) -> Fraction | None:
        """The only value of the interval, or None if there are others."""
        return self.lo if self.lo is not None and self.lo == self.hi else None

    def within(self, lo: End, hi: End) -> Interval:
        """The intersection; the lower end of the two where they do not meet."""
        found = replace(self, lo=furthest(max, self.lo, lo), hi=furthest(min, self.hi, hi))
        apart = found.lo is not None and found.hi is not None and found.lo > found.hi
        return replace(self, lo=found.lo, hi=found.lo) if apart else found

    def mapped(self, value: Callable[[Fraction], Fraction], scale: int | None) -> Interval:
        """The values of an increasing function."""
        return Interval(
            None if self.lo is None else value(self.lo), None if self.hi is None else value(self.hi), scale
        )

    def whole(self) -> Interval:
        """The integers that values may be rounded to, up or down."""
        lo = None if self.lo is None else Fraction(floor(self.lo))
        return Interval(lo, None if self.hi is None else Fraction(ceil(self.hi)), 0)

    def negated(self) -> Interval:
        """What -x may be."""
        ends = [None if e is None else -e for e in (self.hi, self.lo)]
        return Interval(ends[0], ends[1], self.scale)

    def size(self) -> Interval:
        """What |x| may be."""
        ends = [None if e is None else abs(e) for e in (self.lo, self.hi)]
        above, below = self.lo is not None and self.lo > 0, self.hi is not None and self.hi < 0
        least = ends[0] if above else ends[1] if below else Fraction(0)
        return Interval(least, None if None in ends else max(e for e in ends if e is not None), self.scale)

    def plus(self, other: Interval) -> Interval:
        """What x + y may be."""
        lo = None if self.lo is None or other.lo is None else self.lo + other.lo
        hi = None if self.hi is None or other.hi is None else self.hi + other.hi
        return Interval(lo, hi, _finest(self, other))

    def times(self, other: Interval) -> Interval:
        """What x y may be."""
        scale = None if self.scale is None or other.scale is None else self.scale + other.scale
        for one, two in ((self, other), (other, self)):
            factor = one.point
            if factor is not None:
                low, high = (None if e is None else e * factor for e in (two.lo, two.hi))
                if factor == 0:
                    return Interval(factor, factor, 0)
                return Interval(low, high, scale) if factor > 0 else Interval(high, low, scale)
        if self.lo is None or self.hi is None or other.lo is None or other.hi is None:
            return Interval(scale=scale)
        products = [a * b for a in (self.lo, self.hi) for b in (other.lo, other.hi)]
        return Interval(min(products), max(products), scale)

    def inverse(self) -> Interval | None:
        """What 1/x may be; None where x may be 0."""
        if self.lo is None or self.hi is None or self.lo <= 0 <= self.hi:
            return None
        return Interval(1 / self.hi, 1 / self.lo)

    def remainder(self, divisor: Interval) -> Interval:
        """What x % y may be, which has the sign of x."""
        size = None if divisor.point is None else abs(divisor.point)
        negative = None if size is None else -size
        least = Fraction(0) if self.lo is not None and self.lo >= 0 else negative
        return Interval(least, size, self.scale)


NOTHING = Interval(Fraction(0), Fraction(0), 0)
"""Where there is no value."""


def union(parts: Sequence[Interval]) -> Interval:
    """The values of all of them."""
    if not parts:
        return NOTHING
    lows, highs = [p.lo for p in parts], [p.hi for p in parts]
    lo = None if None in lows else min(e for e in lows if e is not None)
    hi = None if None in highs else max(e for e in highs if e is not None)
    return Interval(lo, hi, _finest(*parts))


def furthest(choose: Callable[[list[Fraction]], Fraction], *ends: End) -> End:
    """The largest or the smallest of the ends that are known."""
    known = [e for e in ends if e is not None]
    return choose(known) if known else None


def written(text: str) -> Interval:
    """The value of a number's text, without ends for another text."""
    try:
        value = Fraction(text)
    except (ValueError, ZeroDivisionError):
        return Interval()
    return Interval(value, value, len(text.partition(".")[2]) if "e" not in text.lower() else None)


def parsed(text: str | None, of: Type | None) -> Interval:
    """A constant's text as a value of a type: a date as a number of days, or as a timestamp at the day's begin.

    >>> parsed("1970-01-01 00:00:01+00", Type.TIMESTAMPTZ).point, parsed("1970-01-01 00:00+02", Type.TIMESTAMPTZ).point
    (Fraction(1, 1), None)
    """
    if text is None:
        return Interval()
    if of in DATED:
        moment = moment_of(text.removesuffix("+00") if of is Type.TIMESTAMPTZ else text)
        if moment is None:
            return Interval()
        value = moment if of is not Type.DATE else Fraction(floor(moment / DAY))
        return Interval(value, value, 0)
    return written(text) if of in NUMBERS else Interval()


def _finest(*parts: Interval) -> int | None:
    return None if any(p.scale is None for p in parts) else max(p.scale or 0 for p in parts)
