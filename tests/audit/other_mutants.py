"""Mutants of sums, quantiles, running counts and seeds."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from mechanisms.continual import UnknownDomainBinary
from mechanisms.known_domain import KnownLap
from mechanisms.noise import Integers, discrete_gaussian
from mechanisms.numeric import ClampedSum
from mechanisms.quantile import QuantileChoice, QuantileTree
from mechanisms.randomness import Stream, release_key, seed
from mechanisms.square_root import PLACES, UnknownDomainSquareRoot
from mechanisms.tails import gaussian_sum_threshold
from tests.audit import continual_cases, numeric_cases, seed_cases
from tests.audit.mutant import Mutant


class Unclamped(ClampedSum):
    """Every value counts as it is."""

    def contributions(self, values: Integers) -> Integers:
        return values


class FreeRows(ClampedSum):
    """B for one row, where a person has tau."""

    @property
    def bound(self) -> int:
        return super().bound // self.tau


class CheapKeys(ClampedSum):
    """Cheap without sqrt(delta0)."""

    @property
    def sigma_squared(self) -> Fraction:
        return self.scale**2


class LessSum(ClampedSum):
    """5% less noise."""

    @property
    def scale(self) -> Fraction:
        return super().scale * Fraction(19, 20)


class OneLevel(QuantileTree):
    """Noise as if a person touched one level."""

    @property
    def sigma_squared(self) -> Fraction:
        return super().sigma_squared / (self.levels + 1)


class LessTree(QuantileTree):
    """5% less noise."""

    @property
    def scale(self) -> Fraction:
        return super().scale * Fraction(19, 20)


class Quarter(QuantileChoice):
    """A quarter of the Gumbel scale."""

    @property
    def beta(self) -> Fraction:
        return super().beta / 4


class LessChoice(QuantileChoice):
    """20% less Gumbel noise."""

    @property
    def beta(self) -> Fraction:
        return super().beta * Fraction(4, 5)


class FreshNoise(UnknownDomainBinary):
    """New noise at every time, none of it of nodes: running counts one by one."""

    def _noise(self, streams: Sequence[Stream], moments: Integers) -> Integers:
        looks, n = [stream.child("looks", len(moments)) for stream in streams], len(moments)
        return np.array([discrete_gaussian(look, self.sigma_squared, n) for look in looks])


class OneNode(UnknownDomainBinary):
    """Noise as if an event were part of one partial sum."""

    @property
    def sigma_squared(self) -> Fraction:
        return super().sigma_squared / self.partial_sums


class OneEvent(UnknownDomainBinary):
    """sigma^2 with c for c^2."""

    @property
    def sigma_squared(self) -> Fraction:
        return super().sigma_squared / self.events


class OneTime(UnknownDomainBinary):
    """T for one look, where there are L."""

    @property
    def threshold(self) -> int:
        times = self.events * self.delta0
        return gaussian_sum_threshold(
            self.sigma_squared, self.partial_sums, self.events, times, self.delta_per
        )


class LowBinary(UnknownDomainBinary):
    """T without the person's own events, and for one look."""

    @property
    def threshold(self) -> int:
        times = self.events * self.delta0
        return gaussian_sum_threshold(self.sigma_squared, 1, 0, times, 4 * self.delta_per)


class HalfColumn(UnknownDomainSquareRoot):
    """Noise for half of the factor's squared norm."""

    @property
    def column_norm_squared(self) -> int:
        return super().column_norm_squared // 2


class WholeColumn(UnknownDomainSquareRoot):
    """The norm rounded down to whole counts, where it is an integer of the factor's own scale."""

    @property
    def column_norm_squared(self) -> int:
        return super().column_norm_squared >> 2 * PLACES << 2 * PLACES


class UnscaledRow(UnknownDomainSquareRoot):
    """The first row's noise in whole counts, where it is in the factor's own scale."""

    def _draws(self, stream: Stream, last: int) -> Integers:
        drawn = super()._draws(stream, last)
        drawn[:1] >>= PLACES
        return drawn


class TreeThreshold(UnknownDomainSquareRoot):
    """T of the tree."""

    @property
    def threshold(self) -> int:
        return UnknownDomainBinary(**vars(self)).threshold


class OneDraw(UnknownDomainSquareRoot):
    """T for one draw of noise, where later counts have a weighted sum of draws."""

    @property
    def threshold(self) -> int:
        times = self.events * self.delta0 * self.horizon
        sigma_squared = self.sigma_squared / (1 << 2 * PLACES)
        return gaussian_sum_threshold(sigma_squared, 1, self.alone, times, self.delta_per)


class LowRoot(UnknownDomainSquareRoot):
    """T without the person's own events, and for one look."""

    @property
    def threshold(self) -> int:
        times = self.events * self.delta0
        sigma_squared = self.sigma_squared / (1 << 2 * PLACES)
        return gaussian_sum_threshold(sigma_squared, 1, 0, times, 4 * self.delta_per)


class OwnNoise(UnknownDomainSquareRoot):
    """Each running count has noise of its own, as large as that of the square root."""

    def _noise(self, streams: Sequence[Stream], moments: Integers) -> Integers:
        noise = super()._noise(streams, moments)
        for place in range(len(moments)):
            noise[:, place] = np.roll(noise[:, place], place)
        return noise


def same_seed(key: bytes, mechanism: KnownLap) -> Stream:
    """A seed of the query alone: the parameters of the noise are not part of it."""
    return seed(key, release_key(key, [b"epoch", b"query"]), b"reservation")


MUTANTS = (
    Mutant("values are not clamped", numeric_cases.total("far above", "gaussian", kind=Unclamped)),
    Mutant("B for one row", numeric_cases.sum_noise("gaussian", "accurate", FreeRows)),
    Mutant("cheap without sqrt(delta0)", numeric_cases.sum_noise("gaussian", "cheap", CheapKeys)),
    Mutant("5% less noise", numeric_cases.sum_noise("laplace", "accurate", LessSum), 1 / 2),
    Mutant("noise for one level", numeric_cases.tree_noise("gaussian", OneLevel)),
    Mutant("5% less noise", numeric_cases.tree_noise("laplace", LessTree), 1.0),
    Mutant(
        "a quarter of the Gumbel scale",
        numeric_cases.choice("minimum, +tau in the first bin", Quarter),
        1 / 2,
    ),
    Mutant("20% less Gumbel noise", numeric_cases.choice_law(LessChoice)),
    Mutant("fresh noise at every look", continual_cases.same_noise(FreshNoise)),
    Mutant("noise for one partial sum", continual_cases.node_noise(3, OneNode)),
    Mutant("sigma^2 with c for c^2", continual_cases.node_noise(1, OneEvent)),
    Mutant("threshold for one look", continual_cases.threshold(OneTime)),
    Mutant("threshold without own events", continual_cases.news("an item of one's own, c = 2", LowBinary)),
    Mutant("half instead of the square root", continual_cases.node_noise(3, HalfColumn)),
    Mutant("column norm rounded down", continual_cases.node_noise(1, WholeColumn)),
    Mutant("one row of the factor not scaled", continual_cases.node_noise(1, UnscaledRow)),
    Mutant(
        "one row of the factor not scaled", continual_cases.running("an event more at time 1", UnscaledRow)
    ),
    Mutant("threshold of the tree", continual_cases.threshold(TreeThreshold)),
    Mutant("threshold for one draw", continual_cases.threshold(OneDraw)),
    Mutant("threshold without own events", continual_cases.news("an item of one's own, c = 2", LowRoot)),
    Mutant("noise of its own at each time", continual_cases.added_noise(OwnNoise)),
    Mutant("same seed at two scales", seed_cases.two_scales(same_seed), 1.0),
)
