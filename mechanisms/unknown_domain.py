"""Mechanisms over an unknown domain: UnkLap, UnkGauss, UnkGumb. The proof sheet is unknown_domain.md.

Their input is the top d_bar + 1 counts in descending order, ties broken by a rule that does not depend
on the data; a count past the end of a complete histogram is 0.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np

from mechanisms.histogram import Cost, Counts, Histogram, NoiseFamily, Release
from mechanisms.noise import (
    Integers,
    discrete_gaussian,
    discrete_laplace,
    gaussian_stddev,
    gumbel_order,
    laplace_stddev,
)
from mechanisms.randomness import Stream
from mechanisms.tails import gaussian_threshold, laplace_threshold
from mechanisms.validation import (
    check_bounds,
    check_delta,
    check_epsilon,
    check_noise,
    exact_texts,
    fetched_counts,
)


class _Unknown:
    """Common to all mechanisms over an unknown domain: the top d_bar + 1 counts are fetched."""

    d_bar: int

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def fetch(self) -> int:
        return self.d_bar + 1


@dataclass(frozen=True)
class _Restricted(_Unknown, ABC):
    """UnkLap and UnkGauss: one algorithm, two noises."""

    eps_per: Fraction
    delta_per: Fraction
    tau: int
    delta0: int
    d_bar: int

    def __post_init__(self) -> None:
        check_epsilon(self.eps_per)
        check_delta(self.delta_per)
        check_bounds(tau=self.tau, delta0=self.delta0, d_bar=self.d_bar)
        check_noise((2 * self.tau * self.delta0 / self.eps_per) ** 2)

    @property
    @abstractmethod
    def cost_at_most(self) -> Cost: ...

    @property
    @abstractmethod
    def stddev(self) -> float: ...

    @property
    @abstractmethod
    def threshold(self) -> int: ...

    @abstractmethod
    def _noise(self, stream: Stream) -> Integers:
        """Draw noise for d_bar counts and the threshold, shape (d_bar + 1,)."""

    def release(self, histogram: Histogram, stream: Stream) -> Release:
        """Release what lies strictly above the noisy threshold, by noisy count, equal ones in random order.

        The order as fetched would tell which of two true counts is larger. A place without a person in
        it has no key to release. ValueError unless the input is as fetched.
        """
        counts = fetched_counts(histogram, self.fetch)
        noisy = counts + self._noise(stream.child("counts"))
        above = np.flatnonzero((noisy[:-1] > noisy[-1] + self.threshold) & (counts[:-1] > 0))
        ties = stream.child("ties").words(len(above))
        chosen = above[np.lexsort((ties, -noisy[above]))].astype(np.int64)
        return Release(chosen, noisy[chosen], self.stddev, self.cost_at_most)


class UnkLap(_Restricted):
    """Discrete Laplace noise on the top d_bar counts and on the threshold h_(d_bar+1) + T.

    >>> UnkLap(Fraction(3, 20), Fraction(1, 10**10), tau=1, delta0=1, d_bar=1000).threshold
    333

    `tau`: the most one person changes a count; `delta0`: the most counts one person changes; `d_bar`:
    the elements that can be released. Costs 1 information and 1 call unit. ValueError for parameters out
    of range. Audience Engagements API, Algorithm 3, its T replaced (unknown_domain.md, Theorem 1).
    """

    noise_family: ClassVar[NoiseFamily] = "laplace"

    @cached_property
    def cost_at_most(self) -> Cost:
        return Cost(Fraction(1), Fraction(1), Fraction(1, 2))

    @cached_property
    def scale(self) -> Fraction:
        """b of the noise on counts and threshold, in counts."""
        return 2 * self.tau * self.delta0 / self.eps_per

    @property
    def stddev(self) -> float:
        return laplace_stddev(self.scale)

    @cached_property
    def threshold(self) -> int:
        return laplace_threshold(self.scale, self.tau, self.delta0, self.delta_per)

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        return exact_texts(self, scale=self.scale, threshold=self.threshold)

    def _noise(self, stream: Stream) -> Integers:
        return discrete_laplace(stream, self.scale, self.fetch)


class UnkGauss(_Restricted):
    """Discrete Gaussian noise on the top d_bar counts and on the threshold h_(d_bar+1) + T.

    >>> UnkGauss(Fraction(3, 20), Fraction(1, 10**10), tau=1, delta0=1, d_bar=1000).threshold
    121

    Parameters, price and errors as for UnkLap; sigma = 2 tau sqrt(delta0)/eps_per. Unknown Domain
    Framework, Algorithm 2, proved for discrete noise in unknown_domain.md, Theorem 2.
    """

    noise_family: ClassVar[NoiseFamily] = "gaussian"

    @cached_property
    def cost_at_most(self) -> Cost:
        return Cost(Fraction(1), Fraction(1))

    @cached_property
    def sigma_squared(self) -> Fraction:
        """Parameter sigma^2 of the noise on counts and threshold, in counts squared."""
        return (2 * self.tau / self.eps_per) ** 2 * self.delta0

    @property
    def stddev(self) -> float:
        return gaussian_stddev(self.sigma_squared)

    @cached_property
    def threshold(self) -> int:
        return gaussian_threshold(self.sigma_squared, self.tau, self.delta0, self.delta_per)

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        return exact_texts(self, sigma_squared=self.sigma_squared, threshold=self.threshold)

    def _noise(self, stream: Stream) -> Integers:
        return discrete_gaussian(stream, self.sigma_squared, self.fetch)


@dataclass(frozen=True)
class UnkGumb(_Unknown):
    """The top k by exponential mechanisms against a threshold ("bottom") that adapts to the data.

    >>> UnkGumb(Fraction(3, 20), Fraction(1, 10**10), tau=1, k=10, d_bar=1000, counts=True).cost_at_most
    Cost(information=Fraction(21, 1), calls=Fraction(1, 1), epsilon=Fraction(16, 1))

    Attributes:
        tau: the most one person changes a count; a person may change all of them.
        k: the elements asked for.
        d_bar: the elements that can be released, more than k.
        counts: whether counts are shown.
        index_step: row k_bar + 1, which sets bottom, is chosen privately among k + 1..d_bar + 1; else it is
            row d_bar + 1.

    Costs 2|o| + 1 - [o ends in bottom] information units, |o| + 1 without counts, where the outcome o counts bottom;
    1 less without the index step; and 1 call unit. ValueError for parameters out of range. Audience Engagements API,
    Algorithm 4, corrected; without the index step Unknown Domain Framework, Algorithm 3 (unknown_domain.md, Theorem 3).
    """

    noise_family: ClassVar[NoiseFamily] = "gumbel"

    eps_per: Fraction
    delta_per: Fraction
    tau: int
    k: int
    d_bar: int
    counts: bool
    index_step: bool = True

    def __post_init__(self) -> None:
        check_epsilon(self.eps_per)
        check_delta(self.delta_per)
        check_bounds(tau=self.tau, k=self.k, d_bar=self.d_bar)
        check_noise(self.scale**2)
        if self.d_bar <= self.k:
            raise ValueError("d_bar must exceed k")
        # x/(1+x) <= 1 - e^(-x): implies the condition delta_per <= e^eps_per (1 - e^(-eps_per/tau))
        x = self.eps_per / self.tau
        if self.delta_per > x / (1 + x):
            raise ValueError("delta_per is too large for eps_per/tau")

    @cached_property
    def beta(self) -> Fraction:
        """Scale of the Gumbel noise in the index step and in the release, in counts."""
        return self.tau / self.eps_per

    @cached_property
    def scale(self) -> Fraction:
        """b of the Laplace noise on the shown counts, in counts."""
        return 2 * self.tau / self.eps_per

    @cached_property
    def cost_at_most(self) -> Cost:
        return self._cost(self.k)

    def _cost(self, released: int) -> Cost:
        ends_in_bottom = released < self.k
        draws = self.index_step + released + ends_in_bottom
        shown = released if self.counts else 0
        return Cost(Fraction(draws + shown), Fraction(1), draws + Fraction(shown, 2))

    @property
    def stddev(self) -> float | None:
        return laplace_stddev(self.scale) if self.counts else None

    @cached_property
    def threshold(self) -> int:
        """The most that bottom lies above its count: the offset at k_bar = d_bar, rounded up."""
        logarithm = math.log(self.d_bar / self.delta_per)
        return self.tau + math.ceil(float(self.beta) * logarithm)  # shown only; the release decides exactly

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        return exact_texts(self, beta=self.beta, scale=self.scale)

    def release(self, histogram: Histogram, stream: Stream) -> Release:
        """Release at most k elements in noisy order; ValueError unless the input is as fetched."""
        counts = fetched_counts(histogram, self.fetch)
        k_bar = self._index(counts, stream.child("index")) if self.index_step else self.d_bar
        chosen = self._top(counts, k_bar, stream.child("order"))
        cost = self._cost(len(chosen))
        if not self.counts:
            return Release(chosen, None, None, cost)
        noise = discrete_laplace(stream.child("counts"), self.scale, self.k)
        return Release(chosen, counts[chosen] + noise[: len(chosen)], self.stddev, cost)

    def _index(self, counts: Counts, stream: Stream) -> int:
        """Choose k_bar of k..d_bar: argmax of -(h_(i+1) + tau + tau ln(i/delta)/eps) + Gumbel(tau/eps).

        tau and tau ln(1/delta)/eps are the same for all i and left out.
        """
        scores = -counts[self.k :]
        return self.k + int(gumbel_order(stream, scores, self.beta, 1, _one_over(self.k, self.d_bar))[0])

    def _top(self, counts: Counts, k_bar: int, stream: Stream) -> Integers:
        """Give the positions above bottom in noisy order, at most k, of those with h_(j) > h_(k_bar+1)."""
        floor = int(counts[k_bar])
        candidates = counts[:k_bar][counts[:k_bar] > floor]
        bottom = len(candidates)
        scores = np.append(candidates, floor + self.tau)
        weights = [Fraction(1)] * bottom + [k_bar / self.delta_per]
        order = gumbel_order(stream, scores, self.beta, self.k, weights)
        ended = np.flatnonzero(order == bottom)
        return order[: ended[0]] if len(ended) else order


@lru_cache(maxsize=64)
def _one_over(first: int, last: int) -> tuple[Fraction, ...]:
    return tuple(Fraction(1, i) for i in range(first, last + 1))
