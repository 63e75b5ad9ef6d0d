"""How many different items persons have: a lower bound, each person bounded at a privately chosen l.

The proof sheet is distinct_count.md.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np

from mechanisms.histogram import Cost, Counts
from mechanisms.item_sets import ItemSets
from mechanisms.matching import greedy_counts, matching_counts
from mechanisms.noise import discrete_laplace, gumbel_order, laplace_stddev
from mechanisms.randomness import Stream
from mechanisms.tails import laplace_tail
from mechanisms.validation import LARGEST_COUNT, check_bounds, check_epsilon, check_noise, exact_texts

MOST_BOUNDS = 4096
"""The largest l_max: every two of them are compared."""
LOOKED_AT = 10
"""Items that a person may choose from, for each one that the person can count for."""
ONE = 1 << 16
"""Score 1 in fixed point."""


@dataclass(frozen=True)
class DistinctCount:
    """The released values: a lower bound of the number of items, and the l it was counted with.

    `lower_bound` fails with probability beta at most; `lower_bound + offset` is the noisy count itself, of standard
    deviation `stddev` around DC(D; l).
    """

    lower_bound: int
    bound: int
    offset: int
    stddev: float
    cost: Cost


@dataclass(frozen=True)
class PersonLevelDistinctCount:
    """A lower bound of the number of different items, however many of them a person has.

    >>> mechanism = PersonLevelDistinctCount(Fraction(3, 20), l_max=100, beta=Fraction(1, 20), counting="matching")
    >>> mechanism.cost_at_most.information
    Fraction(5, 4)

    `l_max`: the most items a person can count for, at most 4096; `beta`: the probability, from 2^-100 to 1/2, with
    which the lower bound may fail; `counting`: "matching" counts DC(D; l) exactly, "greedy" a little less in less
    time. Costs 5/4 information units. ValueError for parameters out of range. Counting Distinct Elements Under
    Person-Level DP, Algorithms 1 and 2 (distinct_count.md, Theorem 2).
    """

    eps_per: Fraction
    l_max: int
    beta: Fraction
    counting: Literal["matching", "greedy"]

    def __post_init__(self) -> None:
        check_epsilon(self.eps_per)
        check_bounds(l_max=self.l_max)
        if self.l_max > MOST_BOUNDS:
            raise ValueError(f"l_max must not exceed {MOST_BOUNDS}")
        if not isinstance(self.beta, Fraction) or not Fraction(1, 1 << 100) <= self.beta <= Fraction(1, 2):
            raise ValueError("beta must be a Fraction from 2^-100 to 1/2")
        if self.counting not in ("matching", "greedy"):
            raise ValueError("counting must be matching or greedy")
        check_noise(self.scale(self.l_max) ** 2)

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def fetch(self) -> int:
        """The most items of a person that are looked at, the first of the person's own order (matching.md, Lemma).

        More of them cost time and no privacy, and may find more: items that a person shares with others are of no
        use where these count them.
        """
        return LOOKED_AT * self.l_max

    @property
    def cost_at_most(self) -> Cost:
        return Cost(Fraction(5, 4), Fraction(0))

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        return exact_texts(self, beta_of_order=self.order_scale, penalty=self.penalty)

    @cached_property
    def order_scale(self) -> Fraction:
        """Scale of the Gumbel noise that chooses l, in 2^-16: 4/eps_per, twice 1/(eps_per/2)."""
        return ONE * 4 / self.eps_per

    @cached_property
    def penalty(self) -> Fraction:
        """What each unit of l costs a score, in items: (2/eps) ln(1/(2 beta)) + (4/eps) ln(l_max/beta), to 2^-12."""
        return (_ln(1 / (2 * self.beta)) + 2 * _ln(self.l_max / self.beta)) * 2 / self.eps_per

    def scale(self, bound: int) -> Fraction:
        """Give b of the Laplace noise on DC(D; l), in items."""
        return 2 * bound / self.eps_per

    def offset(self, bound: int) -> int:
        """Give the least n >= 0 with Pr[noise > n] <= beta, in items; at most (2l/eps) ln(1/(2 beta)), rounded up."""
        return _offset(self.scale(bound), self.beta)

    def counts(self, sets: ItemSets) -> Counts:
        """Give DC(D; l), or the greedy count in its place, for l = 1..l_max.

        ValueError where a person has an item twice.
        """
        sets.check_distinct()
        count = matching_counts if self.counting == "matching" else greedy_counts
        return count(sets, self.l_max)

    def scores(self, counts: Counts) -> Counts:
        """Give the generalised exponential mechanism's score of each l, in 2^-16, rounded down.

        s_l = min over j of (q_l - t l - (q_j - t j))/(l + j), q_l = DC(D; l) - (2l/eps) ln(1/(2 beta)),
        t = (4/eps) ln(l_max/beta).
        """
        penalty = self.penalty
        levels = [
            int(c) * penalty.denominator - i * penalty.numerator for i, c in enumerate(counts.tolist(), 1)
        ]
        return np.array(
            [
                min((x - y) * ONE // (penalty.denominator * (i + j)) for j, y in enumerate(levels, 1))
                for i, x in enumerate(levels, 1)
            ],
            dtype=np.int64,
        )

    def release(self, sets: ItemSets, stream: Stream) -> DistinctCount:
        """Count, then release as `release_counts` does."""
        return self.release_counts(self.counts(sets), stream)

    def release_counts(self, counts: Counts, stream: Stream) -> DistinctCount:
        """Choose l and release the lower bound for it, of counts that were computed before.

        `counts`: what `counts` gave, int64, shape (l_max,), ascending (ValueError).
        """
        if (
            counts.dtype != np.int64
            or counts.shape != (self.l_max,)
            or (np.diff(counts, prepend=0) < 0).any()
        ):
            raise ValueError("one int64 count for each l, ascending from 0 or more")
        if counts[-1] > LARGEST_COUNT:
            raise ValueError("counts must not exceed 2^53")
        chosen = int(gumbel_order(stream.child("bound"), self.scores(counts), self.order_scale, 1)[0])
        bound = chosen + 1
        (noise,) = discrete_laplace(stream.child("count"), self.scale(bound), 1).tolist()
        offset = self.offset(bound)
        lower = int(counts[chosen]) + noise - offset
        return DistinctCount(lower, bound, offset, laplace_stddev(self.scale(bound)), self.cost_at_most)


def _ln(x: Fraction) -> Fraction:
    """Give ln(x) to 2^-12: the guarantee holds for any constant in its place."""
    return Fraction(round(math.log(x) * 4096), 4096)


@lru_cache(maxsize=1024)
def _offset(scale: Fraction, beta: Fraction) -> int:
    end = 1
    while laplace_tail(scale, end) > beta:
        end *= 2
    return bisect_left(range(end + 1), True, key=lambda n: laplace_tail(scale, n) <= beta)
