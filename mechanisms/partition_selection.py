"""Which items may be named: WeightedGaussian, DP-SIPS, and DP-SIPS that sets aside items of little weight.

The proof sheet is partition_selection.md.

Their input is every person's set of items; only labels leave, never a weight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from mechanisms.histogram import Cost, Counts, Release
from mechanisms.item_sets import ItemSets
from mechanisms.noise import Integers, discrete_gaussian
from mechanisms.randomness import Stream
from mechanisms.tails import weighted_gaussian_threshold
from mechanisms.validation import (
    LARGEST_COUNT,
    check_bounds,
    check_delta,
    check_epsilon,
    check_noise,
    exact_texts,
)

ONE = 1 << 20
"""Weight 1 in fixed point."""
MOST_ITEMS = 200_000
"""The largest delta0: up to here float64 gives the same weights, so SQL engines can compute them."""
SMALLEST_RHO, LARGEST_RHO = Fraction(1, 10**12), Fraction(1000)
SMALLEST_DELTA = Fraction(1, 1 << 200)
SHARES = Fraction(1, 13), Fraction(3, 13), Fraction(9, 13)
"""What the rounds of DP-SIPS spend of rho and delta."""
LOOKED_AT = 10
"""Items that a person may choose from, for each one that gets weight, where items are set aside."""
BEHIND = 2
"""An item is set aside whose noisy weight is so many standard deviations below the last round's threshold."""


@dataclass(frozen=True)
class WeightRound:
    """One round: a weight for each label, noise, and the labels above the threshold.

    >>> WeightRound(Fraction(1, 10), Fraction(1, 10**5), delta0=100).threshold / 2**20
    11.726070404052734

    `rho`, `delta`: what the round spends; `delta0`: the most items of one person that get weight; `floor`: labels of
    less weight (in 2^-20) need not be handed over, which lifts the threshold by as much: 1 for every label that has
    any; `aside`: labels of less noisy weight get none in later rounds, None for no such labels; with a number every
    label that anybody has is handed over. ValueError for parameters out of range. DP-SIPS, Algorithm 2
    (partition_selection.md, Theorem 1).
    """

    rho: Fraction
    delta: Fraction
    delta0: int
    floor: int = 1
    aside: int | None = None

    def __post_init__(self) -> None:
        check_bounds(delta0=self.delta0, floor=self.floor)
        if self.delta0 > MOST_ITEMS:
            raise ValueError(f"delta0 must not exceed {MOST_ITEMS}")
        if not isinstance(self.rho, Fraction) or not SMALLEST_RHO <= self.rho <= LARGEST_RHO:
            raise ValueError("rho must be a Fraction from 1e-12 to 1000")
        if not isinstance(self.delta, Fraction) or not SMALLEST_DELTA <= self.delta < Fraction(1, 2):
            raise ValueError("delta must be a Fraction from 2^-200 to below 1/2")

    @property
    def least(self) -> int:
        """The least weight of the labels that are handed over: 0 for all that are in a set, kept there or not."""
        return self.floor if self.aside is None else 0

    @cached_property
    def sigma_squared(self) -> Fraction:
        """Parameter sigma^2 of the noise, in 2^-40."""
        return ONE**2 / (2 * self.rho)

    @cached_property
    def threshold(self) -> int:
        """A label comes out if its noisy weight lies above, in 2^-20."""
        least = weighted_gaussian_threshold(self.rho, self.delta, self.delta0)
        return math.ceil(ONE * least) + self.floor - 1  # up

    def weights(self, sets: ItemSets) -> Counts:
        """Give every item's weight: floor(2^20/sqrt(n)) of each person who keeps it among n of at most delta0.

        int64, shape (sets.size,). The kept ones are the first of the person's own order.
        """
        kept = sets.capped(self.delta0)
        each = _weight_table(self.delta0)[kept.degrees]
        sums = np.bincount(kept.items, weights=each[kept.owners], minlength=sets.size)
        return sums.astype(np.int64)  # integers below 2^53: float64 adds them exactly, in any order

    def decide(self, weights: Counts, stream: Stream) -> Integers:
        """Give the positions of the labels that come out, ascending.

        `weights`: int64, one a label, each label once, none below `least` (ValueError); `stream`: one that was not
        used before.
        """
        return self.sort_out(weights, stream)[0]

    def sort_out(self, weights: Counts, stream: Stream) -> tuple[Integers, Integers]:
        """Give the positions of the labels that come out, as `decide` does, and of those that are set aside.

        Those set aside are private: they serve to leave their labels out of later rounds, and do not leave.
        """
        if weights.dtype != np.int64 or weights.ndim != 1:
            raise ValueError("weights must be int64, one a label")
        if len(weights) and (weights.min() < self.least or weights.max() > LARGEST_COUNT):
            raise ValueError("weights must lie between the floor and 2^53")
        noisy = weights + discrete_gaussian(stream, self.sigma_squared, len(weights))
        behind = noisy < self.aside if self.aside is not None else np.zeros(len(noisy), dtype=np.bool_)
        out = (noisy > self.threshold) & (weights >= self.floor)
        return np.flatnonzero(out).astype(np.int64), np.flatnonzero(behind & ~out).astype(np.int64)


@dataclass(frozen=True)
class WeightedGaussian:
    """The labels whose noisy weight, 1/sqrt(n) from each person with n items, lies above a threshold.

    >>> mechanism = WeightedGaussian(Fraction(1), Fraction(1, 10**5), Fraction(4, 5), Fraction(1), delta0=100)
    >>> mechanism.rounds
    (WeightRound(rho=Fraction(1, 10), delta=Fraction(1, 100000), delta0=100, floor=1, aside=None),)

    `information`, `calls`: what it spends, in units: rho = information eps_per^2/8, delta = calls delta_per, below
    1/2; `delta0`: the most items of one person that get weight; `floor`: as in WeightRound. ValueError for parameters
    out of range. DP-SIPS, Algorithm 2 (partition_selection.md, Theorem 2).
    """

    eps_per: Fraction
    delta_per: Fraction
    information: Fraction
    calls: Fraction
    delta0: int
    floor: int = 1

    def __post_init__(self) -> None:
        check_epsilon(self.eps_per)
        check_delta(self.delta_per)
        if not isinstance(self.information, Fraction) or not isinstance(self.calls, Fraction):
            raise ValueError("information and calls must be Fractions")
        for this in (WeightRound(self.rho, self.delta, self.delta0, self.floor), *self.rounds):
            check_noise(this.sigma_squared)

    @property
    def rho(self) -> Fraction:
        """What all rounds spend together."""
        return self.information * self.eps_per**2 / 8

    @property
    def delta(self) -> Fraction:
        """What all rounds spend together."""
        return self.calls * self.delta_per

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def fetch(self) -> None:
        """Every pair of person and item is needed."""

    @property
    def cost_at_most(self) -> Cost:
        return Cost(self.information, self.calls)

    @property
    def stddev(self) -> None:
        """No count is shown."""

    @property
    def largest(self) -> int | None:
        """To how many items each person's set is cut before the first round, None for any number."""
        return None

    @property
    def most_rows(self) -> int:
        """By how many labels one person changes what is handed over in a round."""
        return self.delta0

    @property
    def threshold(self) -> int:
        """The last round's, in 2^-20."""
        return self.rounds[-1].threshold

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        rounds = "; ".join(f"{r.sigma_squared} {r.threshold}" for r in self.rounds)
        return (*exact_texts(self), ("rounds", rounds))

    @cached_property
    def rounds(self) -> tuple[WeightRound, ...]:
        """The rounds, each over the labels that earlier rounds have not released."""
        return (WeightRound(self.rho, self.delta, self.delta0, self.floor),)

    def release(self, sets: ItemSets, stream: Stream) -> Release:
        """Release items by number, round after round, ascending; ValueError where a person has an item twice."""
        sets.check_distinct()
        sets = sets if self.largest is None else sets.capped(self.largest)
        chosen = [np.empty(0, dtype=np.int64)]
        for i, this in enumerate(self.rounds):
            weights = this.weights(sets)
            present = np.flatnonzero(weights >= this.floor) if this.least else np.unique(sets.items)
            released, aside = this.sort_out(weights[present], stream.child("round", i))
            chosen.append(present[released])
            sets = sets.without(present[np.concatenate([released, aside])])
        return Release(np.concatenate(chosen), None, None, self.cost_at_most)


class DPSips(WeightedGaussian):
    """WeightedGaussian three times with growing budgets, each time on the items not yet released.

    >>> mechanism = DPSips(Fraction(1), Fraction(1, 10**5), Fraction(13), Fraction(1), delta0=100)
    >>> [str(this.rho) for this in mechanism.rounds]
    ['1/8', '3/8', '9/8']

    Parameters, price and errors as for WeightedGaussian; round i of I = 3 spends r^(I-1-i) (1-r)/(1-r^I) of rho and
    of delta, r = 1/3. DP-SIPS, Algorithm 3 (partition_selection.md, Theorem 3).
    """

    @cached_property
    def rounds(self) -> tuple[WeightRound, ...]:
        return tuple(WeightRound(s * self.rho, s * self.delta, self.delta0, self.floor) for s in SHARES)


class PrunedSips(DPSips):
    """DPSips whose later rounds leave out what is hardly going to come out, so that other items have more weight.

    >>> mechanism = PrunedSips(Fraction(1), Fraction(1, 10**5), Fraction(13), Fraction(1), delta0=100)
    >>> [this.aside and round(this.aside / 2**20, 3) for this in mechanism.rounds]
    [-0.102, 1.588, None]

    Parameters, price and errors as for DPSips; `floor` must be 1. Each person's set is cut to 10 `delta0` items first,
    so that one person hands over no more. partition_selection.md, Theorem 4; why:
    docs/decisions/selection-sets-groups-aside.md.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.floor != 1:
            raise ValueError("floor must be 1 where items are set aside")

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        aside = "; ".join(str(this.aside) for this in self.rounds)
        return (*super().parameters, ("aside", aside), ("largest", str(self.largest)))

    @property
    def largest(self) -> int:
        return LOOKED_AT * self.delta0

    @property
    def most_rows(self) -> int:
        return self.largest

    @cached_property
    def rounds(self) -> tuple[WeightRound, ...]:
        *earlier, last = super().rounds
        return (
            *(replace(this, aside=last.threshold - BEHIND * _root(this.sigma_squared)) for this in earlier),
            last,
        )


def _root(variance: Fraction) -> int:
    """Give the integer part of its square root."""
    return math.isqrt(math.floor(variance))


@lru_cache(maxsize=16)
def _weight_table(delta0: int) -> Counts:
    """Give floor(2^20/sqrt(n)) for n = 0..delta0, exact; 0 for n = 0."""
    return np.array([0, *(math.isqrt(ONE**2 // n) for n in range(1, delta0 + 1))], dtype=np.int64)
