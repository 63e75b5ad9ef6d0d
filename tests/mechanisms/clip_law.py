"""What mechanisms/unit_clip.v calls `part`, in exact numbers: doubles are fractions that are rounded to 53 digits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

MARGIN = Fraction(1 - 1e-12)
DIGITS = 53


def fl(x: Fraction) -> Fraction:
    """The double next to a positive number, the even one of two; no number here is too large or too small for one."""
    if not x:
        return x
    place = x.numerator.bit_length() - x.denominator.bit_length() - DIGITS
    while x / Fraction(2) ** place >= 1 << DIGITS:
        place += 1
    while x / Fraction(2) ** place < 1 << (DIGITS - 1):
        place -= 1
    return round(x / Fraction(2) ** place) * Fraction(2) ** place


def fl_root(x: Fraction) -> Fraction:
    """The double next to the square root of a double: of 200 digits and one that says whether more follow."""
    scaled = x * 4**200
    assert scaled.denominator == 1
    root = math.isqrt(scaled.numerator)
    beyond = Fraction(1, 2) if root**2 != scaled else 0
    return fl((root + beyond) / Fraction(2) ** 200)


def part(scale: int, length: int, square: int, total: int) -> int:
    """One part of a unit's clipped vector, whose length has this square."""
    if square <= length**2:
        return scale * total
    constant = fl(fl(Fraction(scale * length)) * MARGIN)
    factor = fl(constant / fl_root(fl(Fraction(square))))
    size = math.floor(fl(fl(Fraction(abs(total))) * factor))
    return -size if total < 0 else size


def clipped(totals: Sequence[int], length: int, scale: int) -> list[int]:
    """A unit's clipped vector."""
    square = sum(total * total for total in totals)
    return [part(scale, length, square, total) for total in totals]
