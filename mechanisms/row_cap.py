"""RowCap: whether a result has more rows than can be taken, asked privately. The proof sheet is row_cap.md.

Why: docs/decisions/limits-on-rows-have-noise.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from mechanisms.histogram import Cost
from mechanisms.noise import discrete_gaussian, gaussian_stddev
from mechanisms.randomness import Stream
from mechanisms.validation import check_bounds, check_epsilon, check_noise

SHARE = Fraction(1, 64)
"""What asking takes of the price of a release."""
KEPT = Fraction(126, 127)
"""What is left of its eps_per: KEPT^2 + SHARE is at most 1, and rho is in proportion to the square."""


@dataclass(frozen=True)
class RowCap:
    """Noise on a cap on rows, so that no person decides whether a result passes it.

    >>> RowCap(Fraction(3, 20), Fraction(1), rows=100, most=5_000_000).stddev
    10666.666666666666

    `eps_per`, `information`: a release costs so many units, of which this has a share of 1/64; `rows`: the most rows
    of a result that one person adds; `most`: the cap; `times`: how often it is asked for that price. ValueError for
    parameters out of range. (row_cap.md, Theorem 1)
    """

    eps_per: Fraction
    information: Fraction
    rows: int
    most: int
    times: int = 1

    def __post_init__(self) -> None:
        check_epsilon(self.eps_per)
        if not isinstance(self.information, Fraction) or self.information <= 0:
            raise ValueError("information must be a Fraction above 0")
        check_bounds(rows=self.rows, most=self.most, times=self.times)
        check_noise(self.sigma_squared)

    @property
    def fitting(self) -> int:
        """How many rows one person may add, at most `rows`, for noise of less than a quarter of the cap.

        Few rows are then refused by noise alone once in 30,000 times.
        """
        return min(self.rows, math.isqrt(math.floor(self.most**2 * self.rho / 8)))

    @property
    def cost_at_most(self) -> Cost:
        """What asking `times` times spends of the release's price."""
        return Cost(SHARE * self.information, Fraction(0))

    @cached_property
    def rho(self) -> Fraction:
        """What asking once spends."""
        return self.cost_at_most.information * self.eps_per**2 / 8 / self.times

    @cached_property
    def sigma_squared(self) -> Fraction:
        """Parameter sigma^2 of the noise, in rows squared."""
        return self.rows**2 / (2 * self.rho)

    @property
    def stddev(self) -> float:
        """Of the noise, in rows."""
        return gaussian_stddev(self.sigma_squared)

    def drawn(self, stream: Stream) -> int:
        """Give the number of rows above which a result is refused, also an empty one: the cap with noise.

        `stream`: one that was not used before.
        """
        (noise,) = discrete_gaussian(stream, self.sigma_squared, 1).tolist()
        return self.most + int(noise)
