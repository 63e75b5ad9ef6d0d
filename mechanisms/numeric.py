"""ClampedSum, and averages and variances from released moments. The proof sheet is numeric.md.

Numbers are fixed-point integers: a value x with d decimals is the integer x 10^d, so that a sum does not
depend on the order of its rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np

from mechanisms.histogram import Cost, Counts, Release
from mechanisms.noise import (
    Integers,
    discrete_gaussian,
    discrete_laplace,
    gaussian_stddev,
    laplace_stddev,
)
from mechanisms.randomness import Stream
from mechanisms.validation import check_bounds, check_epsilon, check_noise, exact_texts

LARGEST_SUM = 1 << 61
LARGEST_VALUE = 1 << 40


@dataclass(frozen=True, kw_only=True)
class ClampedSum:
    """Noise on the sums of clamped values of released keys.

    >>> total = ClampedSum(eps_per=Fraction(1, 2), lo=0, hi=500, tau=1, keys=3)
    >>> total.bound, total.cost_at_most.information, round(total.stddev, 1)
    (500, Fraction(3, 1), 2000.0)

    Attributes:
        lo, hi: what a row's value, or with tau = 1 a person's sum in a key, is clamped to, in fixed-point units.
        tau: the most rows of one person in a key.
        keys: n, how many keys' sums are released.
        delta0: the most keys of one person, None if unrestricted.
        noise: discrete Gaussian, sigma = 2 B/eps_per, or discrete Laplace, b = 2 B/eps_per.
        spend: "cheap" makes it sigma = 2 B sqrt(min(delta0, n))/eps_per.
        centred: sums are of 2x - lo - hi, to be undone by `uncentred`.

    B = tau max(|lo|, |hi|), centred tau (hi - lo) in half units. Costs min(delta0, n) information units, cheap 1, and
    no calls. ValueError for parameters out of range. Lemma G of known_domain.md (numeric.md, Theorem 1).
    """

    eps_per: Fraction
    lo: int
    hi: int
    tau: int
    keys: int
    delta0: int | None = None
    noise: Literal["gaussian", "laplace"] = "gaussian"
    spend: Literal["accurate", "cheap"] = "accurate"
    centred: bool = False

    def __post_init__(self) -> None:
        check_epsilon(self.eps_per)
        check_bounds(tau=self.tau, keys=self.keys)
        if self.delta0 is not None:
            check_bounds(delta0=self.delta0)
        if any(type(end) is not int or abs(end) > LARGEST_VALUE for end in (self.lo, self.hi)):
            raise ValueError("lo and hi must be integers of at most 2^40 in size")
        if self.lo >= self.hi:
            raise ValueError("lo must be below hi")
        if self.noise not in ("gaussian", "laplace") or self.spend not in ("accurate", "cheap"):
            raise ValueError("noise must be gaussian or laplace, spend accurate or cheap")
        if self.noise == "laplace" and self.spend == "cheap":
            raise ValueError("spend must be accurate with laplace noise")
        if not isinstance(self.centred, bool):
            raise ValueError("centred must be True or False")
        check_noise(self.sigma_squared)

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def bound(self) -> int:
        """B: the most one person changes a sum, in fixed-point units (centred: half units)."""
        return self.tau * (self.hi - self.lo if self.centred else max(abs(self.lo), abs(self.hi)))

    @property
    def changed(self) -> int:
        """The most sums one person changes: min(delta0, n)."""
        return self.keys if self.delta0 is None else min(self.delta0, self.keys)

    @cached_property
    def scale(self) -> Fraction:
        """b of Laplace noise, in units of the sums."""
        return 2 * self.bound / self.eps_per

    @cached_property
    def sigma_squared(self) -> Fraction:
        """Parameter sigma^2 of Gaussian noise, in units of the sums squared."""
        return self.scale**2 * (self.changed if self.spend == "cheap" else 1)

    @cached_property
    def cost_at_most(self) -> Cost:
        epsilon = Fraction(self.changed, 2) if self.noise == "laplace" else None
        return Cost(Fraction(1 if self.spend == "cheap" else self.changed), Fraction(0), epsilon)

    @property
    def stddev(self) -> float:
        """Standard deviation of each sum's noise, in units of the sums."""
        return gaussian_stddev(self.sigma_squared) if self.noise == "gaussian" else laplace_stddev(self.scale)

    @cached_property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        return exact_texts(self, bound=self.bound, scale=self.scale, sigma_squared=self.sigma_squared)

    def contributions(self, values: Integers) -> Integers:
        """Give what each row adds to its key's sum: the clamped value, centred 2x - lo - hi.

        >>> ClampedSum(eps_per=Fraction(1), lo=0, hi=9, tau=1, keys=1).contributions(np.array([-5, 4, 99])).tolist()
        [0, 4, 9]
        """
        clamped = np.clip(values, self.lo, self.hi)
        return 2 * clamped - self.lo - self.hi if self.centred else clamped

    def release(self, sums: Counts, stream: Stream) -> Release:
        """Release a noisy sum for every key, in their order; ValueError unless there is one of each.

        `sums`: int64, shape (keys,), of `contributions`, at most tau rows of a person in each.
        """
        if sums.dtype != np.int64 or sums.shape != (self.keys,):
            raise ValueError("sums must be int64, one for each key")
        if sums.min() < -LARGEST_SUM or sums.max() > LARGEST_SUM:
            raise ValueError("sums must be at most 2^61 in size")
        values = sums + self._draw(stream.child("sums"))
        return Release(np.arange(self.keys), values, self.stddev, self.cost_at_most)

    def _draw(self, stream: Stream) -> Integers:
        if self.noise == "gaussian":
            return discrete_gaussian(stream, self.sigma_squared, self.keys)
        return discrete_laplace(stream, self.scale, self.keys)


def uncentred(centred: int, count: int, lo: int, hi: int) -> Fraction:
    """Give a sum in fixed-point units from a released centred one and a released count of its rows.

    >>> uncentred(-18, 4, 0, 9)
    Fraction(9, 1)
    """
    return Fraction(centred + (lo + hi) * count, 2)


def average(total: Fraction, count: int, lo: int, hi: int) -> Fraction | None:
    """Give a released sum over a released count, kept within [lo, hi]; None where the count is not positive.

    >>> average(Fraction(90), 4, 0, 9), average(Fraction(9), 0, 0, 9)
    (Fraction(9, 1), None)
    """
    return None if count < 1 else min(max(total / count, Fraction(lo)), Fraction(hi))


def variance(squares: Fraction, total: Fraction, count: int, *, sample: bool) -> Fraction | None:
    """Give the variance from released moments, at least 0; None where the count is too small.

    >>> variance(Fraction(30), Fraction(10), 4, sample=False), variance(Fraction(30), Fraction(10), 1, sample=True)
    (Fraction(5, 4), None)

    `squares`, `total`, `count`: sums of x^2, of x and of 1; `sample`: divided by count - 1 (VAR_SAMP) or by
    count (VAR_POP).
    """
    freedom = count - 1 if sample else count
    return None if freedom < 1 else max((squares - total**2 / count) / freedom, Fraction(0))


def stddev(squares: Fraction, total: Fraction, count: int, *, sample: bool) -> float | None:
    """Give the square root of `variance`, for showing.

    >>> stddev(Fraction(30), Fraction(10), 4, sample=False)
    1.118033988749895
    """
    spread = variance(squares, total, count, sample=sample)
    return None if spread is None else math.sqrt(spread)
