"""Mutants of sums, quantiles, running counts and seeds."""

from __future__ import annotations

from fractions import Fraction

from mechanisms.continual import UnknownDomainBinary
from mechanisms.known_domain import KnownLap
from mechanisms.noise import Integers, discrete_gaussian
from mechanisms.numeric import ClampedSum
from mechanisms.quantile import QuantileChoice, QuantileTree
from mechanisms.randomness import Stream, release_key, seed
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

    def _noise(self, stream: Stream, moments: Integers) -> Integers:
        return discrete_gaussian(stream.child("looks", len(moments)), self.sigma_squared, len(moments))


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
    Mutant("same seed at two scales", seed_cases.two_scales(same_seed), 1.0),
)
