"""Mechanisms over a known domain: KnownLap, KnownGauss, KnownGumb. The proof sheet is known_domain.md."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from mechanisms.histogram import Cost, Histogram, NoiseFamily, Release
from mechanisms.noise import (
    discrete_gaussian,
    discrete_laplace,
    gaussian_stddev,
    gumbel_order,
    laplace_stddev,
)
from mechanisms.randomness import Stream
from mechanisms.validation import check_bounds, check_epsilon, check_noise, exact_texts, known_counts


class _Known:
    """Common to all mechanisms over a known domain: every cell is fetched, and there is no threshold."""

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def fetch(self) -> None:
        return None

    @property
    def threshold(self) -> None:
        return None


@dataclass(frozen=True)
class KnownLap(_Known):
    """Discrete Laplace noise of scale 2 tau/eps_per on every cell, zero counts included.

    >>> KnownLap(Fraction(3, 20), tau=1, delta0=2, cells=50).cost_at_most
    Cost(information=Fraction(2, 1), calls=Fraction(0, 1), epsilon=Fraction(1, 1))

    `tau`: the most one person changes a count; `delta0`: the most cells one person changes; `cells`: the
    size of the domain. Costs delta0 information units. ValueError for parameters out of range.
    Audience Engagements API, Algorithm 1 (known_domain.md, Theorem 1).
    """

    noise_family: ClassVar[NoiseFamily] = "laplace"

    eps_per: Fraction
    tau: int
    delta0: int
    cells: int

    def __post_init__(self) -> None:
        check_epsilon(self.eps_per)
        check_bounds(tau=self.tau, delta0=self.delta0, cells=self.cells)
        check_noise(self.scale**2)

    @cached_property
    def scale(self) -> Fraction:
        """b of the noise, in counts."""
        return 2 * self.tau / self.eps_per

    @cached_property
    def cost_at_most(self) -> Cost:
        return Cost(Fraction(self.delta0), Fraction(0), Fraction(self.delta0, 2))

    @property
    def stddev(self) -> float:
        return laplace_stddev(self.scale)

    @cached_property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        return exact_texts(self, scale=self.scale)

    def release(self, histogram: Histogram, stream: Stream) -> Release:
        """Release a noisy count for every cell, in cell order; ValueError unless every cell is there."""
        counts = known_counts(histogram, self.cells)
        values = counts + discrete_laplace(stream.child("counts"), self.scale, self.cells)
        return Release(np.arange(self.cells), values, self.stddev, self.cost_at_most)


@dataclass(frozen=True)
class KnownGauss(_Known):
    """Discrete Gaussian noise on every cell, zero counts included, accurate or cheap.

    >>> KnownGauss(Fraction(1, 5), tau=1, delta0=9, cells=50, spend="accurate").cost_at_most.information
    Fraction(9, 1)
    >>> KnownGauss(Fraction(1, 5), tau=1, delta0=9, cells=50, spend="cheap").stddev
    30.0

    `tau`, `delta0`, `cells` as for KnownLap. "accurate": sigma = 2 tau/eps_per at delta0 information
    units; "cheap": sigma = 2 tau sqrt(delta0)/eps_per at 1 unit. ValueError for parameters out of range.
    Canonne, Kamath, Steinke 2020, Theorem 4 (known_domain.md, Theorem 2).
    """

    noise_family: ClassVar[NoiseFamily] = "gaussian"

    eps_per: Fraction
    tau: int
    delta0: int
    cells: int
    spend: Literal["accurate", "cheap"]

    def __post_init__(self) -> None:
        check_epsilon(self.eps_per)
        check_bounds(tau=self.tau, delta0=self.delta0, cells=self.cells)
        if self.spend not in ("accurate", "cheap"):
            raise ValueError("spend must be accurate or cheap")
        check_noise(self.sigma_squared)

    @cached_property
    def sigma_squared(self) -> Fraction:
        """Parameter sigma^2 of the noise, in counts squared: exact where sigma is not."""
        accurate = (2 * self.tau / self.eps_per) ** 2
        return accurate if self.spend == "accurate" else accurate * self.delta0

    @cached_property
    def cost_at_most(self) -> Cost:
        return Cost(Fraction(self.delta0 if self.spend == "accurate" else 1), Fraction(0))

    @property
    def stddev(self) -> float:
        return gaussian_stddev(self.sigma_squared)

    @cached_property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        return exact_texts(self, sigma_squared=self.sigma_squared)

    def release(self, histogram: Histogram, stream: Stream) -> Release:
        """Release a noisy count for every cell, in cell order; ValueError unless every cell is there."""
        counts = known_counts(histogram, self.cells)
        values = counts + discrete_gaussian(stream.child("counts"), self.sigma_squared, self.cells)
        return Release(np.arange(self.cells), values, self.stddev, self.cost_at_most)


@dataclass(frozen=True)
class KnownGumb(_Known):
    """The k cells with the largest count + Gumbel(tau/eps_per), in that order, with fresh Laplace noise.

    >>> KnownGumb(Fraction(3, 20), tau=1, k=10, cells=300, counts=True).cost_at_most.information
    Fraction(20, 1)

    `tau`, `cells` as for KnownLap; a person may change all cells; `counts`: whether counts are shown.
    Costs 2k information units, k without counts. ValueError for parameters out of range, k > cells.
    Audience Engagements API, Algorithm 2 (known_domain.md, Theorem 3).
    """

    noise_family: ClassVar[NoiseFamily] = "gumbel"

    eps_per: Fraction
    tau: int
    k: int
    cells: int
    counts: bool

    def __post_init__(self) -> None:
        check_epsilon(self.eps_per)
        check_bounds(tau=self.tau, k=self.k, cells=self.cells)
        check_noise(self.scale**2)
        if self.k > self.cells:
            raise ValueError("k must not exceed the size of the domain")

    @cached_property
    def beta(self) -> Fraction:
        """Scale of the Gumbel noise that orders the cells, in counts."""
        return self.tau / self.eps_per

    @cached_property
    def scale(self) -> Fraction:
        """b of the Laplace noise on the shown counts, in counts."""
        return 2 * self.tau / self.eps_per

    @cached_property
    def cost_at_most(self) -> Cost:
        shown = self.k if self.counts else 0
        return Cost(Fraction(self.k + shown), Fraction(0), self.k + Fraction(shown, 2))

    @property
    def stddev(self) -> float | None:
        return laplace_stddev(self.scale) if self.counts else None

    @cached_property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        return exact_texts(self, beta=self.beta, scale=self.scale)

    def release(self, histogram: Histogram, stream: Stream) -> Release:
        """Release k cells in noisy order, with noisy counts; ValueError unless every cell is there."""
        counts = known_counts(histogram, self.cells)
        chosen = gumbel_order(stream.child("order"), counts, self.beta, self.k)
        if not self.counts:
            return Release(chosen, None, None, self.cost_at_most)
        values = counts[chosen] + discrete_laplace(stream.child("counts"), self.scale, self.k)
        return Release(chosen, values, self.stddev, self.cost_at_most)
