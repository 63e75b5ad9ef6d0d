"""What an analyst may ask of an answer's precision: its price, or its error."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dpproxy.config.values import exact

LEVELS = tuple(Fraction(2) ** n for n in range(-2, 7))
"""What a measure may cost: information units from 1/4 to 64. Each level has half the variance of the one before."""
LARGEST_SHARE, LARGEST_SIZE = Fraction(1, 2), Fraction(10**15)


@dataclass(frozen=True)
class Target:
    """What half the width of a 95% interval should be at most: a share of the released value, or a size.

    >>> str(Target(Fraction(1, 20), relative=True)), str(Target(Fraction(20), relative=False))
    ('5%', '20')
    """

    size: Fraction
    relative: bool

    @staticmethod
    def read(text: str) -> Target:
        """A target as it is written; ValueError for others.

        >>> Target.read("2.5%").size
        Fraction(1, 40)
        """
        relative = text.endswith("%")
        size = exact(text.removesuffix("%")) / (100 if relative else 1)
        if not 0 < size <= (LARGEST_SHARE if relative else LARGEST_SIZE):
            raise ValueError("an error is above 0, and at most 50% or 1e15")
        return Target(size, relative)

    def __str__(self) -> str:
        return f"{float(100 * self.size):g}%" if self.relative else f"{float(self.size):g}"
