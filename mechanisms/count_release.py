"""PrivateCountRelease: as many counts as a budget buys, each to a relative error, a person in any number of them.

Public: `PrivateCountRelease` over an unknown domain (the top k_bar + 1 rows, descending), `KnownCountRelease`
over every cell of a known one. Both have the four calls of a mechanism; `Release.stddevs` tells the noise of
each count. The proof sheet is count_release.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar, NamedTuple

import numpy as np

from mechanisms.exact import floor_ceil, interval, interval_context
from mechanisms.histogram import Cost, Counts, Histogram, NoiseFamily, Release
from mechanisms.noise import Integers, discrete_gaussian, gaussian_stddev, gumbel_order
from mechanisms.randomness import Stream
from mechanisms.validation import (
    LARGEST_EPSILON,
    SMALLEST_EPSILON,
    check_bounds,
    check_delta,
    check_epsilon,
    check_noise,
    exact_texts,
    fetched_counts,
    known_counts,
)

HALVINGS = 16
"""How often Brownian noise reduction may halve a variance: it starts at 2^16 times the last one."""
ROOT_TWO = Fraction(99, 70)
"""sqrt(2) to within 0.006%: the step of eps, rational so that every price is exact."""


@dataclass(frozen=True, kw_only=True)
class _CountRelease(ABC):
    """Common to known and unknown domains: the steps of eps, the noise of the counts, the remaining allowance."""

    noise_family: ClassVar[NoiseFamily] = "gaussian"

    eps_per: Fraction
    information: Fraction
    tau: int = 1
    relative_error: Fraction = Fraction(1, 10)
    eps_star: Fraction = Fraction(1, 2000)
    delta_star: Fraction = Fraction(1, 10**11)
    brownian: bool = False

    def __post_init__(self) -> None:
        check_epsilon(self.eps_per)
        check_delta(self.delta_star)
        check_bounds(tau=self.tau, k_bar=self._places)
        error, eps = self.relative_error, self.eps_star
        if not isinstance(error, Fraction) or not Fraction(1, 1000) <= error <= 1:
            raise ValueError("relative_error must be a Fraction from 0.001 to 1")
        if not isinstance(eps, Fraction) or not SMALLEST_EPSILON <= eps <= LARGEST_EPSILON:
            raise ValueError("eps_star must be a Fraction from 1e-6 to 16")
        if not isinstance(self.brownian, bool):
            raise ValueError("brownian must be True or False")
        if not isinstance(self.information, Fraction) or self.rho < eps**2 / 4:
            raise ValueError("information must be a Fraction that pays for one step at eps_star")
        if self.rho > LARGEST_EPSILON**2 / 4:
            raise ValueError("information must be worth a rho of at most 64")
        # x/(1+x) <= 1 - e^(-x): implies delta_star <= e^eps (1 - e^(-eps/tau)), for every larger eps as well
        if self.delta_star > eps / (self.tau + eps):
            raise ValueError("delta_star is too large for eps_star/tau")
        check_noise(self._sigma(eps) ** 2 * 2**HALVINGS)

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def rho(self) -> Fraction:
        """The allowance of information in units of zCDP: information eps_per^2/8."""
        return self.information * self.eps_per**2 / 8

    @property
    def stddev(self) -> float:
        """The largest standard deviation a count can have: that of the noise at eps_star, unreduced."""
        return gaussian_stddev(self._sigma(self.eps_star) ** 2 * self._reductions)

    @cached_property
    def least(self) -> int:
        """About what a count has to exceed where no other comes out before: the offset of bottom at the last eps.

        Bottom comes at each eps then, and the allowance pays for so many.
        """
        level, spent = 0, Fraction(0)
        while level < self.most_steps and spent + 2 * (step := self._eps(level) ** 2 / 8) <= self.rho:
            level, spent = level + 1, spent + step
        offset = self.tau * _log(self._places / self.delta_star) / self._eps(level - 1)
        return self.tau + math.ceil(offset)

    @property
    @abstractmethod
    def most_steps(self) -> int:
        """How many steps may be taken, whatever they cost."""

    @property
    @abstractmethod
    def _places(self) -> int:
        """k_bar: how many elements can come out."""

    @property
    def _reductions(self) -> int:
        """By how much the first noise's variance exceeds the last one's."""
        return 2**HALVINGS if self.brownian else 1

    def _eps(self, level: int) -> Fraction:
        """Give eps after `level` bottoms: eps_star sqrt(2)^level, made rational."""
        even = self.eps_star * (1 << level // 2)
        return even * ROOT_TWO if level % 2 else even

    def _sigma(self, eps: Fraction) -> Fraction:
        """Give tau max((r/1.5)(1 + ln(k_bar/delta_star)/eps), 2/eps), in counts."""
        logarithm = _log(self._places / self.delta_star)
        wanted = self.relative_error / Fraction(3, 2) * (1 + logarithm / eps)
        return self.tau * max(wanted, 2 / eps)

    def _walk(self, counts: Counts, left: Integers, floor: int, stream: Stream) -> _Walk:
        """Release from the positions `left`, bottom at the count `floor`, until the allowance is used up.

        All steps at one eps are one peeling until bottom: fresh Gumbel noise in each step, over what is
        left, is drawing without replacement (noise.md, Theorem 3), so one order has the law of them all.
        """
        walk = _Walk(self.rho, self.most_steps, self._places)
        level = 0
        while walk.goes_on((rung := _rung(self, level)).step):
            ahead = self._ahead(counts, left, floor, rung.eps, stream.child("order", level))
            values, parts = rung.noise.measure(stream.child("counts", level), counts[ahead])
            walk.pay(rung, ahead, values, parts)
            left = left[~np.isin(left, ahead)]
            level += 1
        return walk

    def _ahead(self, counts: Counts, left: Integers, floor: int, eps: Fraction, stream: Stream) -> Integers:
        """Give the positions above bottom in noisy order; bottom has weight k_bar/delta_star, score floor + tau."""
        scores = np.append(counts[left], floor + self.tau)
        weights = [Fraction(1)] * len(left) + [self._places / self.delta_star]
        order = gumbel_order(stream, scores, self.tau / eps, len(scores), weights)
        return left[order[: int(np.flatnonzero(order == len(left))[0])]]


class _Walk:
    """The steps taken so far, with their results and costs."""

    def __init__(self, rho: Fraction, most_steps: int, places: int) -> None:
        self._rho = rho
        self._most_steps = most_steps
        self._places = places
        self.spent = Fraction(0)
        self.steps = 0
        self.indices: list[int] = []
        self.values: list[int] = []
        self.deviations: list[float] = []
        self._ended = False

    def goes_on(self, step: Fraction) -> bool:
        """Say whether the last steps ended in bottom and another one, which costs `step`, is paid for."""
        return not self._ended and self._pays(step, 0, Fraction(0))

    def _pays(self, step: Fraction, more: int, price: Fraction) -> bool:
        """Say whether after `more` elements at eps, which cost `price`, one more step is paid for.

        It can cost `step`, eps^2/8, for the order and, since sigma >= 2 tau/eps, as much again for a count.
        """
        return (
            self.spent + price + 2 * step <= self._rho
            and self.steps + more < self._most_steps
            and len(self.indices) + more < self._places
        )

    def pay(self, rung: _Rung, ahead: Integers, values: Integers, parts: Integers) -> None:
        """Take the steps at eps that are paid for: an element each, and bottom after the last one."""
        _, step, noise = rung
        total: list[int] = [0, *np.cumsum(parts).tolist()]

        def price(n: int) -> Fraction:
            return n * step + total[n] * noise.part

        steps = bisect_left(range(len(ahead) + 1), True, key=lambda n: not self._pays(step, n, price(n)))
        n = min(steps, len(ahead))
        bottom = steps > n
        self.spent += price(n) + bottom * step
        self.steps += steps
        self.indices += ahead[:n].tolist()
        self.values += values[:n].tolist()
        self.deviations += [noise.stddev(part) for part in parts[:n].tolist()]
        self._ended = not bottom


@dataclass(frozen=True)
class _Noise:
    """Discrete Gaussian noise on the counts found at one eps, reduced step by step where reductions > 1.

    `sigma`: of the last noise, in counts; `reductions`: a power of two, the first variance over the last.
    """

    sigma: Fraction
    tau: int
    relative_error: Fraction
    reductions: int

    @cached_property
    def variance(self) -> Fraction:
        """Of the first, the largest noise."""
        return self.sigma**2 * self.reductions

    @cached_property
    def part(self) -> Fraction:
        """The price of a measurement with the first, the largest noise: tau^2/(2 sigma^2 reductions)."""
        return self.tau**2 / (2 * self.variance)

    def stddev(self, parts: int) -> float:
        """Give the standard deviation of a count that cost this many parts."""
        return _stddev(self.variance / parts)

    def measure(self, stream: Stream, true: Integers) -> tuple[Integers, Integers]:
        """Give noisy counts and how many parts each cost.

        Each round measures the counts that are not precise enough again, with the noise that doubles the precision:
        the first measurement has weight 1, the next ones 1, 2, 4, ... That is the Brownian mechanism.
        """
        parts = np.ones(len(true), dtype=np.int64)
        first = true + self._draw(stream.child(0), 1, len(true))
        above = np.zeros(len(true), dtype=np.int64)  # weighted sum of later measurements, less the first
        values = first.copy()
        for turn in range(1, self.reductions.bit_length()):
            weight = 1 << turn - 1
            coarse = np.flatnonzero((parts == weight) & (values < self._enough(weight)))
            again = true[coarse] + self._draw(stream.child(turn), weight, len(coarse))
            above[coarse] += weight * (again - first[coarse])
            parts[coarse] *= 2
            values[coarse] = first[coarse] + ((above[coarse] + weight) >> turn)  # to the nearest
        return values, parts

    def _draw(self, stream: Stream, weight: int, n: int) -> Integers:
        return discrete_gaussian(stream, self.variance / weight, n)

    def _enough(self, parts: int) -> int:
        """Give the least noisy count c with 1.5 s <= r (c - 1.5 s), s the deviation that these parts bought."""
        variance = self.variance / parts
        limit = (Fraction(3, 2) * (1 + 1 / self.relative_error)) ** 2 * variance
        return math.isqrt(math.floor(limit)) + 1


class _Rung(NamedTuple):
    """One eps of the walk, eps^2/8, which a step at it costs, and the noise of the counts found."""

    eps: Fraction
    step: Fraction
    noise: _Noise


@lru_cache(maxsize=256)
def _rung(mechanism: _CountRelease, level: int) -> _Rung:
    """Give the rung after `level` bottoms: exact numbers that take longer than the noise of a small release."""
    eps = mechanism._eps(level)
    noise = _Noise(mechanism._sigma(eps), mechanism.tau, mechanism.relative_error, mechanism._reductions)
    return _Rung(eps, eps**2 / 8, noise)


@dataclass(frozen=True, kw_only=True)
class PrivateCountRelease(_CountRelease):
    """The largest counts of an unknown domain, found one by one until the allowance is used up.

    >>> release = PrivateCountRelease(
    ...     eps_per=Fraction(3, 20), information=Fraction(50), delta_per=Fraction(1, 10**10), calls=Fraction(5)
    ... )
    >>> release.fetch, release.most_steps, release.cost_at_most
    (10001, 50, Cost(information=Fraction(50, 1), calls=Fraction(5, 1), epsilon=None))

    Attributes:
        information, calls: the allowance, in units of eps_per^2/8 of rho and of delta_per.
        tau: the most one person changes a count; a person may change all.
        k_bar: the elements that can be released.
        relative_error: r, aimed at for each count.
        eps_star, delta_star: the first eps, and the delta of each step.
        brownian: take the largest noise that still meets r instead of one fixed by eps.

    Costs what the steps cost: eps^2/8 and delta_star each, tau^2/(2 sigma^2) for a count. ValueError for parameters
    out of range. Private Count Release, Algorithm 2, corrected (count_release.md, Theorem 1).
    """

    delta_per: Fraction
    calls: Fraction
    k_bar: int = 10_000

    def __post_init__(self) -> None:
        check_delta(self.delta_per)
        super().__post_init__()
        if not isinstance(self.calls, Fraction) or self.most_steps < 1:
            raise ValueError("calls must be a Fraction that pays for one step's delta_star")

    @property
    def _places(self) -> int:
        return self.k_bar

    @property
    def fetch(self) -> int:
        return self.k_bar + 1

    @property
    def most_steps(self) -> int:
        """The steps that the calls pay for: floor(calls delta_per/delta_star)."""
        return math.floor(self.calls * self.delta_per / self.delta_star)

    @property
    def cost_at_most(self) -> Cost:
        return Cost(self.information, self.calls)

    @property
    def threshold(self) -> int:
        """The offset of bottom at eps_star, rounded up; it shrinks as eps grows."""
        return self.tau + math.ceil(self.tau * _log(self.k_bar / self.delta_star) / self.eps_star)

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        return exact_texts(self, root_two=ROOT_TWO, halvings=HALVINGS)

    def release(self, histogram: Histogram, stream: Stream) -> Release:
        """Release elements in the order they were found; ValueError unless the input is as fetched.

        The threshold row is the last one as fetched, whatever was released before.
        """
        counts = fetched_counts(histogram, self.fetch)
        floor = int(counts[-1])
        walk = self._walk(counts, np.flatnonzero(counts[:-1] > floor), floor, stream)
        return _released(walk, self, walk.steps * self.delta_star / self.delta_per)


@dataclass(frozen=True, kw_only=True)
class KnownCountRelease(_CountRelease):
    """The largest counts of a known domain, found one by one until the allowance is used up; no calls.

    >>> KnownCountRelease(eps_per=Fraction(3, 20), information=Fraction(50), cells=300).cost_at_most
    Cost(information=Fraction(50, 1), calls=Fraction(0, 1), epsilon=None)

    `cells`: the size of the domain, which is k_bar. Every cell competes, against bottom at a score that does not
    depend on the data, so nothing fails with delta; `delta_star` only says how rarely an empty cell comes
    out. Otherwise as PrivateCountRelease (count_release.md, Theorem 2).
    """

    cells: int

    def __post_init__(self) -> None:
        check_bounds(cells=self.cells)
        super().__post_init__()

    @property
    def _places(self) -> int:
        return self.cells

    @property
    def fetch(self) -> None:
        return None

    @property
    def most_steps(self) -> int:
        """More than the information can pay for."""
        return math.floor(8 * self.rho / self.eps_star**2) + 1

    @property
    def cost_at_most(self) -> Cost:
        return Cost(self.information, Fraction(0))

    @property
    def threshold(self) -> None:
        return None

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        return exact_texts(self, root_two=ROOT_TWO, halvings=HALVINGS)

    def release(self, histogram: Histogram, stream: Stream) -> Release:
        """Release cells in the order they were found; ValueError unless every cell is there."""
        counts = known_counts(histogram, self.cells)
        walk = self._walk(counts, np.arange(self.cells), 0, stream)
        return _released(walk, self, Fraction(0))


def _released(walk: _Walk, mechanism: _CountRelease, calls: Fraction) -> Release:
    deviations = np.array(walk.deviations, dtype=np.float64)
    return Release(
        indices=np.array(walk.indices, dtype=np.int64),
        values=np.array(walk.values, dtype=np.int64),
        stddev=float(deviations.max()) if len(deviations) else mechanism.stddev,
        cost=Cost(walk.spent / (mechanism.eps_per**2 / 8), calls),
        stddevs=deviations,
    )


@lru_cache(maxsize=64)
def _log(x: Fraction) -> Fraction:
    """Give ln(x), x > 1, rounded up to a multiple of 2^-32."""
    context = interval_context(128)
    return Fraction(floor_ceil(context, context.log(interval(context, x)), 32)[1], 1 << 32)


@lru_cache(maxsize=1024)
def _stddev(variance: Fraction) -> float:
    return gaussian_stddev(variance)
