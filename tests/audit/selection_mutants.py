"""Mutants of partition selection and of the distinct count."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.distinct_count import PersonLevelDistinctCount
from mechanisms.histogram import Counts
from mechanisms.item_sets import ItemSets
from mechanisms.noise import Integers
from mechanisms.partition_selection import ONE, DPSips, PrunedSips, WeightedGaussian, WeightRound
from mechanisms.randomness import Stream
from tests.audit import distinct_cases
from tests.audit import selection_cases as cases
from tests.audit.mutant import Mutant
from tests.audit.selection_cases import Sets


def by_arrival(sets: Sets) -> tuple[ItemSets, NDArray[Any]]:
    """Every person's items in the order in which rows arrive: that of a scan whose workers race.

    Which worker is first depends on how many rows there are.
    """
    turned = sum(map(len, sets.values())) % 2 == 1
    return _coded([sorted(own, reverse=turned) for _, own in sorted(sets.items())])


def from_the_middle(sets: Sets) -> tuple[ItemSets, NDArray[Any]]:
    """Persons take turns from one on whom all rows decide; everyone's own order is fixed."""
    own = [sorted(items) for _, items in sorted(sets.items())]
    start = sum(map(sum, own)) % len(own) if own else 0
    return _coded(own[start:] + own[:start])


def _coded(items: list[list[int]]) -> tuple[ItemSets, NDArray[Any]]:
    labels = np.array(sorted({item for own in items for item in own}), dtype=np.int64)
    flat = np.searchsorted(labels, [item for own in items for item in own]).astype(np.int64)
    offsets = np.cumsum([0, *map(len, items)]).astype(np.int64)
    return ItemSets(offsets, flat, len(labels)), labels


class Sharper(WeightRound):
    """A quarter of the noise, at the right threshold."""

    factor = 16

    @property
    def sigma_squared(self) -> Fraction:
        return super().sigma_squared / self.factor


class SlightlySharper(Sharper):
    factor = Fraction(100, 81)  # type: ignore[assignment]


class OneItem(WeightRound):
    """T for j = 1 only, where a person can bring delta0 items."""

    @cached_property
    def threshold(self) -> int:
        return WeightRound(self.rho, self.delta, 1, self.floor).threshold


class Whole(WeightRound):
    """Weight 1 for each item, however many a person has."""

    def weights(self, sets: ItemSets) -> Counts:
        kept = sets.capped(self.delta0)
        whole: Counts = np.bincount(kept.items, minlength=sets.size).astype(np.int64)
        return whole * np.int64(ONE)


def rounds(kind: type[WeightRound]) -> type[WeightedGaussian]:
    class Mutated(WeightedGaussian):
        @cached_property
        def rounds(self) -> tuple[WeightRound, ...]:
            return tuple(kind(r.rho, r.delta, r.delta0) for r in super().rounds)

    return Mutated


class EachWhole(DPSips):
    """Every round spends the whole delta."""

    @cached_property
    def rounds(self) -> tuple[WeightRound, ...]:
        return tuple(WeightRound(r.rho, self.delta, r.delta0) for r in super().rounds)


class EqualRounds(DPSips):
    """Rounds of equal budgets."""

    @cached_property
    def rounds(self) -> tuple[WeightRound, ...]:
        return (WeightRound(self.rho / 3, self.delta / 3, self.delta0),) * 3


class FewAside(WeightRound):
    """At most two labels are set aside."""

    def sort_out(self, weights: Counts, stream: Stream) -> tuple[Integers, Integers]:
        out, aside = super().sort_out(weights, stream)
        return out, aside[:2]


class FewAsideSips(PrunedSips):
    @cached_property
    def rounds(self) -> tuple[WeightRound, ...]:
        return tuple(FewAside(r.rho, r.delta, r.delta0, r.floor, r.aside) for r in super().rounds)


class FlooredSips(PrunedSips):
    """Labels of less weight than 3/2 are not handed over, and so never set aside."""

    @cached_property
    def rounds(self) -> tuple[WeightRound, ...]:
        return tuple(KeptAside(r.rho, r.delta, r.delta0, 3 * ONE // 2, r.aside) for r in super().rounds)


class KeptAside(WeightRound):
    """Labels that nobody keeps are not handed over: a person who keeps one decides whether others have it later."""

    @property
    def least(self) -> int:
        return self.floor


class KeptAsideSips(PrunedSips):
    @cached_property
    def rounds(self) -> tuple[WeightRound, ...]:
        return tuple(KeptAside(r.rho, r.delta, r.delta0, r.floor, r.aside) for r in super().rounds)


class NothingAside(PrunedSips):
    @cached_property
    def rounds(self) -> tuple[WeightRound, ...]:
        return tuple(replace(this, aside=None) for this in super().rounds)


class EachWholePruned(PrunedSips):
    """Every round spends the whole delta."""

    @cached_property
    def rounds(self) -> tuple[WeightRound, ...]:
        return tuple(replace(this, delta=self.delta) for this in super().rounds)


class ScaleOfOne(PersonLevelDistinctCount):
    """Noise for l = 1, whatever l is."""

    def scale(self, bound: int) -> Fraction:
        return super().scale(1)


class HalfChoice(PersonLevelDistinctCount):
    """Half the Gumbel scale in the choice of l."""

    @property
    def order_scale(self) -> Fraction:
        return super().order_scale / 2


class RawScores(PersonLevelDistinctCount):
    """q_l itself as the score, not divided by sensitivities."""

    def scores(self, counts: Counts) -> Counts:
        slope = 2 / float(self.eps_per) * math.log(1 / (2 * float(self.beta)))
        scores: Counts = np.rint((counts - slope * np.arange(1, self.l_max + 1)) * (1 << 16)).astype(np.int64)
        return scores


class HalfOffset(PersonLevelDistinctCount):
    """Half the offset, as the authors' released code has it."""

    def offset(self, bound: int) -> int:
        return super().offset(bound) // 2


class LessScale(PersonLevelDistinctCount):
    """10% less noise."""

    def scale(self, bound: int) -> Fraction:
        return super().scale(bound) * Fraction(9, 10)


ITEMS_OF_ONES_OWN = "a person with items of one's own"
AT_THRESHOLD = "a person on items at the threshold"
MUTANTS = (
    Mutant("truncation by arrival", cases.weight_sensitivity(WeightedGaussian, by_arrival)),
    Mutant("a quarter of the noise", cases.select(WeightedGaussian, AT_THRESHOLD, rounds(Sharper))),
    Mutant("10% less noise", cases.selection_law(WeightedGaussian, rounds(SlightlySharper))),
    Mutant("threshold for one item", cases.news(WeightedGaussian, ITEMS_OF_ONES_OWN, rounds(OneItem))),
    Mutant("weight 1 for each item", cases.news(WeightedGaussian, ITEMS_OF_ONES_OWN, rounds(Whole)), 1 / 2),
    Mutant("every round spends the whole delta", cases.news(DPSips, ITEMS_OF_ONES_OWN, EachWhole)),
    Mutant("a limit on how many are set aside", cases.aside_of_others(FewAsideSips)),
    Mutant("a floor where items are set aside", cases.aside_of_others(FlooredSips)),
    Mutant("labels that nobody keeps are not looked at", cases.aside_of_others(KeptAsideSips)),
    Mutant("nothing set aside", cases.pruned_law(NothingAside)),
    Mutant(
        "every round that sets aside spends the whole delta",
        cases.news(PrunedSips, ITEMS_OF_ONES_OWN, EachWholePruned),
    ),
    Mutant("rounds of equal budgets", cases.selection_law(DPSips, EqualRounds)),
    Mutant(
        "greedy order that changes when a person leaves",
        distinct_cases.count_sensitivity("greedy", encode=from_the_middle),
    ),
    Mutant("noise for l = 1", distinct_cases.distinct("a person more", "matching", ScaleOfOne), 1.0),
    Mutant("half the Gumbel scale", distinct_cases.bounds_law(HalfChoice)),
    Mutant("scores not divided by sensitivities", distinct_cases.bounds_law(RawScores)),
    Mutant("10% less noise", distinct_cases.count_noise(LessScale), 1 / 2),
    Mutant("half the offset", distinct_cases.lower_bound(HalfOffset)),
)
