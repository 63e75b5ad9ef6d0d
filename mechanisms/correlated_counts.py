"""CorrelatedCounts: counts of units over known cells, of which a unit may be in any number.

A part of the noise is the same on all counts. Proof sheet: correlated_counts.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from mechanisms.histogram import Cost, Histogram, NoiseFamily, Release
from mechanisms.noise import discrete_gaussian, gaussian_stddev
from mechanisms.randomness import Stream
from mechanisms.validation import check_bounds, check_epsilon, check_noise, exact_texts, known_counts

ROUNDING = Fraction(1, 8)
"""Variance of the rounding of halves, of which every second sum is one, to whole counts."""


@dataclass(frozen=True)
class CorrelatedCounts:
    """Half of (2 X_g - n) + n, each with discrete Gaussian noise: X_g are the units in cell g, n those in any cell.

    >>> counts = CorrelatedCounts(Fraction(3, 20), cells=49, price=Fraction(1))
    >>> round(counts.stddev / (4 / 3 * 10), 2), counts.units_variance / Fraction(1600, 9)
    (4.0, Fraction(8, 1))

    `cells`: G; `price`: information units for all of it. The standard deviation of a count is (sqrt(G) + 1)/2 times
    that of a single count at this price, where independent noise needs sqrt(G) times it. ValueError for parameters out
    of range. Lebeda 2025 (correlated_counts.md, Theorem 1).
    """

    name: ClassVar[str] = "CorrelatedCounts"
    noise_family: ClassVar[NoiseFamily] = "gaussian"
    fetch: ClassVar[None] = None
    threshold: ClassVar[None] = None

    eps_per: Fraction
    cells: int
    price: Fraction

    def __post_init__(self) -> None:
        check_epsilon(self.eps_per)
        check_bounds(cells=self.cells)
        if not isinstance(self.price, Fraction) or not Fraction(1, 64) <= self.price <= 1 << 31:
            raise ValueError("price must be a Fraction from 1/64 to 2^31")
        check_noise(self.cell_variance)

    @cached_property
    def root(self) -> Fraction:
        """sqrt(G), rounded up to a multiple of 1/64: so both variances are rounded up."""
        return _root_up(self.cells)

    @property
    def _alone(self) -> Fraction:
        """sigma^2 of one count at this price."""
        return 4 / (self.price * self.eps_per**2)

    @cached_property
    def cell_variance(self) -> Fraction:
        """Parameter sigma^2 of the noise on each 2 X_g - n."""
        return self._alone * (self.cells + self.root)

    @cached_property
    def units_variance(self) -> Fraction:
        """Parameter sigma^2 of the noise on n."""
        return self._alone * (self.root + 1)

    @cached_property
    def cost_at_most(self) -> Cost:
        return Cost(self.price, Fraction(0))

    @property
    def stddev(self) -> float:
        """Standard deviation of each count's noise, rounding included."""
        return math.hypot(gaussian_stddev(self.cell_variance) / 2, self.common_stddev, math.sqrt(ROUNDING))

    @property
    def common_stddev(self) -> float:
        """Standard deviation of the part of the noise that all counts have in common."""
        return gaussian_stddev(self.units_variance) / 2

    @cached_property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        return exact_texts(self, cell_variance=self.cell_variance, units_variance=self.units_variance)

    def release(self, histogram: Histogram, stream: Stream) -> Release:
        """Release a noisy count for every cell, in cell order; ValueError unless every cell is there."""
        counts = known_counts(histogram, self.cells)
        noise = discrete_gaussian(stream.child("cells"), self.cell_variance, self.cells)
        common = discrete_gaussian(stream.child("units"), self.units_variance, 1)
        # (2 X - n + noise) + (n + common): n is in both measurements, so that half their sum is known without it.
        twice = 2 * counts + noise + common
        halves = twice >> 1
        values = halves + (
            twice & halves & 1
        )  # a half goes to the even neighbour, which is up as often as down
        return Release(
            np.arange(self.cells), values, self.stddev, self.cost_at_most, common_stddev=self.common_stddev
        )


def price_of_one(cells: int) -> Fraction:
    """Information units at which each of so many counts has the noise of a single count for one unit.

    >>> price_of_one(1), price_of_one(9), float(price_of_one(10))
    (Fraction(1, 1), Fraction(4, 1), 4.35)

    Rounded up to a twentieth.
    """
    return Fraction(math.ceil(5 * (cells + 2 * _root_up(cells) + 1)), 20)


def _root_up(number: int) -> Fraction:
    return Fraction(math.isqrt((number << 12) - 1) + 1, 64)
