"""DistinctCountCurve: how many different items persons have, measured with several bounds on a person's items at once.

The proof sheet is distinct_curve.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from statistics import NormalDist
from typing import ClassVar

import numpy as np

from mechanisms.distinct_count import LOOKED_AT, MOST_BOUNDS
from mechanisms.histogram import Cost, Counts
from mechanisms.item_sets import ItemSets
from mechanisms.matching import matching_counts_at
from mechanisms.noise import discrete_gaussian, gaussian_stddev
from mechanisms.randomness import Stream
from mechanisms.validation import LARGEST_COUNT, check_bounds, check_epsilon, check_noise, exact_texts

RATIO = 3
"""From one bound to the next: a person counts for 1, 3, 9, ... items."""
CAUTION = 3.5
"""How many standard deviations a noisy count counts less where one is chosen.

With fewer, the large noise of a large bound is now and then taken for a count; with more, bounds are too small.
"""


@dataclass(frozen=True)
class DistinctEstimate:
    """The released values: a noisy DC(D; l), the l it was counted with, and a lower bound of the number of items.

    `estimate`: DC(D; l) with noise of standard deviation `stddev`; DC(D; l) is never above the number of items.
    `lower_bound`, at most `estimate`, fails with probability beta at most.
    """

    estimate: int
    lower_bound: int
    bound: int
    stddev: float
    cost: Cost


@dataclass(frozen=True)
class DistinctCountCurve:
    """DC(D; l) for l = 1, 3, 9, ... with discrete Gaussian noise, of which one is told that is large beside its noise.

    >>> mechanism = DistinctCountCurve(Fraction(3, 20), most=1000, beta=Fraction(1, 20))
    >>> mechanism.bounds, [round(mechanism.stddev(l), 1) for l in (1, 729)]
    ((1, 3, 9, 27, 81, 243, 729), [35.3, 9720.0])

    `most`: the largest bound is the last power of 3 that is not above it; at most 40,960; `beta`: the probability, from
    2^-100 to 1/2, with which the lower bound may fail. Costs one information unit. ValueError for parameters out of
    range. distinct_curve.md, Theorem 1; DC(D; l) is of Counting Distinct Elements Under Person-Level DP.
    """

    name: ClassVar[str] = "DistinctCountCurve"

    eps_per: Fraction
    most: int
    beta: Fraction

    def __post_init__(self) -> None:
        check_epsilon(self.eps_per)
        check_bounds(most=self.most)
        if self.most > LOOKED_AT * MOST_BOUNDS:
            raise ValueError(f"most must not exceed {LOOKED_AT * MOST_BOUNDS}")
        if not isinstance(self.beta, Fraction) or not Fraction(1, 1 << 100) <= self.beta <= Fraction(1, 2):
            raise ValueError("beta must be a Fraction from 2^-100 to 1/2")
        check_noise(self.sigma_squared)

    @property
    def bounds(self) -> tuple[int, ...]:
        """The bounds l, ascending."""
        return tuple(RATIO**i for i in range(self.most.bit_length()) if RATIO**i <= self.most)

    @property
    def _parts(self) -> tuple[int, ...]:
        """How often each bound is in the largest."""
        return tuple(self.bounds[-1] // bound for bound in self.bounds)

    @property
    def fetch(self) -> int:
        """The most items of a person that are looked at, the first of the person's own order (matching.md, Lemma)."""
        return self.most

    @property
    def cost_at_most(self) -> Cost:
        return Cost(Fraction(1), Fraction(0))

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        return exact_texts(self, sigma_squared=self.sigma_squared)

    @property
    def sigma_squared(self) -> Fraction:
        """Parameter sigma^2 of the noise on each step, in 1/l_max: (2 l_max/eps_per)^2."""
        return (2 * self.bounds[-1] / self.eps_per) ** 2

    def stddev(self, bound: int) -> float:
        """Give the standard deviation of the noise on DC(D; bound), in items: that of all steps from there on."""
        steps = len(self.bounds) - self.bounds.index(bound)
        return bound / self.bounds[-1] * gaussian_stddev(self.sigma_squared) * math.sqrt(steps)

    @property
    def width(self) -> float:
        """How many standard deviations DC(D; l) + noise may lie above DC(D; l), for all l with probability 1 - beta."""
        return NormalDist().inv_cdf(1 - float(self.beta) / len(self.bounds))

    def counts(self, sets: ItemSets) -> Counts:
        """Give DC(D; l) for each of the bounds; ValueError where a person has an item twice."""
        sets.check_distinct()
        return matching_counts_at(sets, self.bounds)

    def steps(self, counts: Counts) -> list[int]:
        """Give DC(D; l)/l less the same of the next bound, in 1/l_max; of the last bound all of it.

        One more person adds at least 0 to each of them, and l_max at most to all together (Lemma 2).
        """
        shares = [int(count) * part for count, part in zip(counts, self._parts, strict=True)]
        return [share - after for share, after in zip(shares, [*shares[1:], 0], strict=True)]

    def release(self, sets: ItemSets, stream: Stream) -> DistinctEstimate:
        """Count, then release as `release_counts` does."""
        return self.release_counts(self.counts(sets), stream)

    def release_counts(self, counts: Counts, stream: Stream) -> DistinctEstimate:
        """Release an estimate and a lower bound, of counts that were computed before.

        `counts`: what `counts` gave, int64, one for each bound, ascending (ValueError).
        """
        if (
            counts.dtype != np.int64
            or counts.shape != (len(self.bounds),)
            or (np.diff(counts, prepend=0) < 0).any()
        ):
            raise ValueError("one int64 count for each bound, ascending from 0 or more")
        if counts[-1] > LARGEST_COUNT:
            raise ValueError("counts must not exceed 2^53")
        noise = discrete_gaussian(stream, self.sigma_squared, len(counts)).tolist()
        noisy = [step + more for step, more in zip(self.steps(counts), noise, strict=True)]
        # From here on nothing but the noisy steps is read.
        shares = [*accumulate(reversed(noisy))][::-1]
        estimates = [_nearest(share, part) for share, part in zip(shares, self._parts, strict=True)]
        deviations = [self.stddev(bound) for bound in self.bounds]
        told = int(np.argmax(np.subtract(estimates, np.multiply(CAUTION, deviations))))
        lower = math.floor(estimates[told] - self.width * deviations[told])
        return DistinctEstimate(
            estimates[told], lower, self.bounds[told], deviations[told], self.cost_at_most
        )


def _nearest(number: int, odd: int) -> int:
    """Give the integer that is nearest to number/odd: there is one."""
    return (2 * number + odd) // (2 * odd)
