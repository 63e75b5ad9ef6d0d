"""Exact budget units: costs and limits as integers of a millionth of an information or call unit."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor

MICRO = 1_000_000
"""Micro-units in a unit."""
MOST = 2**60
"""No amount is above this many micro-units: sums of four fit a 64-bit integer."""
UNBOUNDED = MOST
"""The pure epsilon of what has none: no limit is as high."""
MOST_UNITS = 2
"""The most information units that may come with one unit of pure epsilon: those of two Laplace counts."""


def micro(units: Fraction | int) -> int:
    """A cost in micro-units, rounded up: against the spender.

    >>> micro(Fraction(41, 2)), micro(Fraction(1, 3))
    (20500000, 333334)

    `units`: information or call units, not negative. ValueError for a negative or an immense cost.
    """
    return ceil(_checked(units) * MICRO)


def micro_limit(units: Fraction | int) -> int:
    """A limit in micro-units, rounded down: against the spender.

    >>> micro_limit(Fraction(300)), micro_limit(Fraction(1, 3))
    (300000000, 333333)

    `units`: information or call units, not negative. ValueError for a negative or an immense limit.
    """
    return floor(_checked(units) * MICRO)


def units(amount: int) -> Fraction:
    """The exact number of units in `amount` micro-units.

    >>> units(20_500_000)
    Fraction(41, 2)
    """
    return Fraction(amount, MICRO)


def shown(amount: int) -> str:
    """Micro-units for people, exact, in units.

    >>> shown(21_000_000), shown(20_500_000), shown(333_334), shown(-1)
    ('21', '20.5', '0.333334', '-0.000001')
    """
    whole, rest = divmod(abs(amount), MICRO)
    digits = f"{whole}.{rest:06d}".rstrip("0").rstrip(".")
    return f"-{digits}" if amount < 0 else digits


def _checked(units: Fraction | int) -> Fraction:
    if not 0 <= units * MICRO <= MOST:
        raise ValueError(f"{units} units are out of range (0 to {shown(MOST)})")
    return Fraction(units)
