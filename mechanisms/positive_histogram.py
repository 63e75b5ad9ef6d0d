"""PositiveHistogram: every group's noisy count above a fixed threshold. The proof sheet is positive_histogram.md."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np

from mechanisms.histogram import Cost, Histogram, NoiseFamily, Release
from mechanisms.noise import Integers, discrete_gaussian, discrete_laplace, gaussian_stddev, laplace_stddev
from mechanisms.randomness import Stream
from mechanisms.tails import positive_gaussian_threshold, positive_laplace_threshold
from mechanisms.validation import (
    all_counts,
    check_bounds,
    check_delta,
    check_epsilon,
    check_noise,
    exact_texts,
)


@dataclass(frozen=True)
class PositiveHistogram:
    """Noise on every count of an unknown domain, and no noise on the threshold T, since no row is left out.

    >>> PositiveHistogram(Fraction(3, 20), Fraction(1, 10**10), 1, 1, most_rows=10**6, noise="gaussian").threshold
    86

    `tau`: the most one person changes a count; `delta0`: the most counts one person changes; `most_rows`: the
    cap on the groups of a result, over which there is none; `noise`: discrete Gaussian of
    sigma = 2 tau sqrt(delta0)/eps_per or discrete Laplace of b = 2 tau delta0/eps_per. Costs 1 information and
    1 call unit. ValueError for parameters out of range. Unknown Domain Framework, Algorithm 1
    (positive_histogram.md, Theorem 1).
    """

    eps_per: Fraction
    delta_per: Fraction
    tau: int
    delta0: int
    most_rows: int
    noise: Literal["gaussian", "laplace"]

    def __post_init__(self) -> None:
        check_epsilon(self.eps_per)
        check_delta(self.delta_per)
        check_bounds(tau=self.tau, delta0=self.delta0, most_rows=self.most_rows)
        check_noise(self.scale**2)
        if self.noise not in ("gaussian", "laplace"):
            raise ValueError("noise must be gaussian or laplace")

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def noise_family(self) -> NoiseFamily:
        return self.noise

    @property
    def fetch(self) -> int:
        """One row more than the cap, which shows whether there are more rows."""
        return self.most_rows + 1

    @cached_property
    def scale(self) -> Fraction:
        """b of Laplace noise, in counts."""
        return 2 * self.tau * self.delta0 / self.eps_per

    @cached_property
    def sigma_squared(self) -> Fraction:
        """Parameter sigma^2 of Gaussian noise, in counts squared."""
        return (2 * self.tau / self.eps_per) ** 2 * self.delta0

    @cached_property
    def cost_at_most(self) -> Cost:
        return Cost(Fraction(1), Fraction(1))

    @property
    def stddev(self) -> float:
        gaussian = self.noise == "gaussian"
        return gaussian_stddev(self.sigma_squared) if gaussian else laplace_stddev(self.scale)

    @cached_property
    def threshold(self) -> int:
        if self.noise == "gaussian":
            return positive_gaussian_threshold(self.sigma_squared, self.tau, self.delta0, self.delta_per)
        return positive_laplace_threshold(self.scale, self.tau, self.delta0, self.delta_per)

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        scale = self.sigma_squared if self.noise == "gaussian" else self.scale
        return exact_texts(self, scale=scale, threshold=self.threshold)

    def _draw(self, stream: Stream, n: int) -> Integers:
        if self.noise == "gaussian":
            return discrete_gaussian(stream, self.sigma_squared, n)
        return discrete_laplace(stream, self.scale, n)

    def release(self, histogram: Histogram, stream: Stream) -> Release:
        """Release what lies strictly above T, by noisy count, equal ones in random order.

        ValueError where rows are missing or over the cap: the caller then keeps the whole reservation.
        """
        counts = all_counts(histogram, self.most_rows)
        noisy = counts + self._draw(stream.child("counts"), len(counts))
        above = np.flatnonzero((noisy > self.threshold) & (counts > 0))
        ties = stream.child("ties").words(len(above))
        chosen = above[np.lexsort((ties, -noisy[above]))].astype(np.int64)
        return Release(chosen, noisy[chosen], self.stddev, self.cost_at_most)
