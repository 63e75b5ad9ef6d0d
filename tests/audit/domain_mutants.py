"""Mechanisms, fetches, prices and seeds that are wrong in one place each: every one must fail its check."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from mechanisms.histogram import Cost, Counts, Histogram, Mechanism, Release
from mechanisms.known_domain import KnownGumb
from mechanisms.noise import Integers, gumbel_order
from mechanisms.randomness import Stream
from mechanisms.unknown_domain import UnkGauss, UnkGumb, UnkLap
from tests.audit import gumb_cases, known_cases, restricted_cases
from tests.audit.mutant import Mutant
from tests.audit.neighbours import Fetched, Table, fetched
from tests.mechanisms import mutants as wrong


def engine_ties(table: Table, mechanism: Mechanism) -> Fetched:
    """Equal counts in an order that depends on the data: as a parallel scan gives them."""
    turned = {label if sum(table.values()) % 2 else -label: count for label, count in table.items()}
    labels, histogram = fetched(turned, mechanism)
    return Fetched(tuple(map(abs, labels)), histogram)


def limited(table: Table, mechanism: Mechanism) -> Fetched:
    """The top k instead of d_bar + 1 rows, taken for all there are: the threshold row counts 0."""
    assert mechanism.fetch is not None
    labels, histogram = fetched(table, mechanism)
    k = mechanism.fetch - 1
    return Fetched(labels[:k], Histogram(histogram.counts[:k], complete=True))


class FiveLessLap(wrong.HalfLap):
    factor = Fraction(19, 20)


class FiveMoreLap(wrong.HalfLap):
    factor = Fraction(21, 20)


class FiveLessGauss(wrong.HalfGauss):
    factor = Fraction(19, 20) ** 2


class RoundedDownLap(UnkLap):
    """T one below the smallest that holds, as rounding a real number down gives it."""

    @property
    def threshold(self) -> int:
        return super().threshold - 1


class RoundedDownGauss(UnkGauss):
    @property
    def threshold(self) -> int:
        return super().threshold - 1


class OneSidedLap(UnkLap):
    """T from the tail of one noise, as if the threshold had none."""

    @property
    def threshold(self) -> int:
        tail = np.exp(-1 / float(self.scale))
        n = 0
        while self.delta0 * tail ** (n + 1) / (1 + tail) > self.delta_per:
            n += 1
        return self.tau + n


class ShownScore(KnownGumb):
    """The count shown is the Gumbel score that won, rounded."""

    def release(self, histogram: Histogram, stream: Stream) -> Release:
        scores, order = gumbel_scores(histogram.counts, self.beta, stream)
        return Release(order[: self.k], scores[order[: self.k]], self.stddev, self.cost_at_most)


def gumbel_scores(counts: Counts, beta: Fraction, stream: Stream) -> tuple[Integers, Integers]:
    u = (stream.words(len(counts)).astype(np.float64) + 0.5) * 2.0**-64
    scores = np.rint(counts - float(beta) * np.log(-np.log(u))).astype(np.int64)
    return scores, np.argsort(-scores, kind="stable")


class FiveLessOrder(KnownGumb):
    @property
    def beta(self) -> Fraction:
        return super().beta * Fraction(19, 20)


class FiveLessGumb(UnkGumb):
    @property
    def beta(self) -> Fraction:
        return super().beta * Fraction(19, 20)


class HalfCounts(UnkGumb):
    """Half the scale on the counts that are shown."""

    @property
    def scale(self) -> Fraction:
        return super().scale / 2


class Bottom(UnkGumb):
    """The release step with a bottom of one's own: its rise above the threshold row and its k_bar."""

    def _numerator(self, k_bar: int) -> int:
        return k_bar

    def _rise(self) -> int:
        return self.tau

    def _top(self, counts: Counts, k_bar: int, stream: Stream) -> Integers:
        floor = int(counts[k_bar])
        candidates = counts[:k_bar][counts[:k_bar] > floor]
        scores = np.append(candidates, floor + self._rise())
        weights = [Fraction(1)] * len(candidates) + [self._numerator(k_bar) / self.delta_per]
        order = gumbel_order(stream, scores, self.beta, self.k, weights)
        ended = np.flatnonzero(order == len(candidates))
        return order[: ended[0]] if len(ended) else order


class LowerBottom(Bottom):
    """Bottom lower by tau."""

    def _rise(self) -> int:
        return 0


class OneOverDelta(Bottom):
    """Bottom at ln(1/delta): without k_bar, as for one element."""

    def _numerator(self, k_bar: int) -> int:
        return 1


class PrintedBottom(Bottom):
    """Bottom at ln(min(k_bar, d_bar - k_bar)/delta), as printed."""

    def _numerator(self, k_bar: int) -> int:
        return max(1, min(k_bar, self.d_bar - k_bar))


class CheapCounts(UnkGumb):
    """Shows counts at the price without them."""

    def _cost(self, released: int) -> Cost:
        return Cost(Fraction(released + (released < self.k) + 1), Fraction(1))


class BareBottom(UnkGumb):
    """No noise on bottom."""

    def _top(self, counts: Counts, k_bar: int, stream: Stream) -> Integers:
        floor = int(counts[k_bar])
        candidates = counts[:k_bar][counts[:k_bar] > floor]
        scores, order = gumbel_scores(candidates, self.beta, stream)
        bottom = floor + self.tau + float(self.beta) * np.log(k_bar / float(self.delta_per))
        above: Integers = order[scores[order] > bottom]
        return above[: self.k]


HALF = Fraction(1, 2)
LESS = Fraction(19, 20)


def _scaled_lap(factor: Fraction) -> known_cases.Cells:
    return lambda cells: wrong.ScaledLap(known_cases.EPS, known_cases.TAU, 1, cells, factor)


def _scaled_gauss(factor: Fraction) -> known_cases.Cells:
    return lambda cells: wrong.ScaledGauss(known_cases.EPS, known_cases.TAU, 1, cells, "accurate", factor)


KNOWN = (
    Mutant("half the scale", known_cases.scalar_lap("c/c+tau", _scaled_lap(HALF))),
    Mutant("5% less noise", known_cases.lap_noise(_scaled_lap(LESS))),
    Mutant("5% more noise", known_cases.lap_noise(_scaled_lap(1 / LESS))),
    Mutant("half the sigma", known_cases.scalar_gauss("c/c+tau", _scaled_gauss(HALF)), 1 / 2),
    Mutant("5% less noise", known_cases.gauss_noise(_scaled_gauss(LESS))),
    Mutant("half the Gumbel scale", known_cases.gumb("+tau on one of equals", False, wrong.HalfBeta), 1.0),
    Mutant("5% less Gumbel noise", known_cases.pairs(FiveLessOrder), 1 / 2),
    Mutant(
        "the winning Gumbel score is shown", known_cases.gumb("+tau on the only key", True, ShownScore), 1.0
    ),
    Mutant("one draw for order and count", known_cases.shown_counts(wrong.OneDraw)),
)
RESTRICTED = (
    Mutant("half the scale", restricted_cases.restricted(UnkLap, "equals part", wrong.HalfLap)),
    Mutant("5% less noise", restricted_cases.noise(UnkLap, FiveLessLap)),
    Mutant("5% more noise", restricted_cases.noise(UnkLap, FiveMoreLap)),
    Mutant("threshold lower by tau", restricted_cases.news(UnkLap, "absent/tau", wrong.LowLap)),
    Mutant("threshold higher by tau", restricted_cases.joint_law(UnkLap, wrong.HighLap)),
    Mutant("threshold rounded down", restricted_cases.threshold(UnkLap, 1, 1, RoundedDownLap)),
    Mutant("threshold for one noise", restricted_cases.news(UnkLap, "delta0 new keys", OneSidedLap)),
    Mutant(
        "no noise on the threshold",
        restricted_cases.restricted(UnkLap, "the threshold row moves", wrong.BareLap),
    ),
    Mutant(
        "equal values in true order", restricted_cases.restricted(UnkLap, "equals part", wrong.RankLap), 1.0
    ),
    Mutant(
        "engine-order ties",
        restricted_cases.restricted(UnkLap, "a crowd of ties at d_bar", fetch=engine_ties),
    ),
    Mutant(
        "top k for d_bar", restricted_cases.restricted(UnkLap, "ties at d_bar and d_bar+1", fetch=limited)
    ),
    Mutant("half the sigma", restricted_cases.restricted(UnkGauss, "equals part", wrong.HalfGauss)),
    Mutant("5% less noise", restricted_cases.noise(UnkGauss, FiveLessGauss)),
    Mutant("threshold lower by tau", restricted_cases.news(UnkGauss, "absent/tau", wrong.LowGauss)),
    Mutant("threshold rounded down", restricted_cases.threshold(UnkGauss, 2, 3, RoundedDownGauss)),
    Mutant(
        "no noise on the threshold",
        restricted_cases.restricted(UnkGauss, "the threshold row moves", wrong.BareGauss),
    ),
    Mutant(
        "engine-order ties",
        restricted_cases.restricted(UnkGauss, "a crowd of ties at d_bar", fetch=engine_ties),
    ),
    Mutant(
        "top k for d_bar", restricted_cases.restricted(UnkGauss, "ties at d_bar and d_bar+1", fetch=limited)
    ),
)
GUMB = (
    Mutant("half the Gumbel scale", gumb_cases.places(wrong.HalfGumb)),
    Mutant("5% less Gumbel noise", gumb_cases.pairs(FiveLessGumb)),
    Mutant("half the scale on counts", gumb_cases.shown_counts(HalfCounts)),
    Mutant("bottom lower by tau", gumb_cases.news("many of tau at the edge", LowerBottom)),
    Mutant("ln(1/delta) for ln(k_bar/delta)", gumb_cases.news("many at the edge of d_bar", OneOverDelta)),
    Mutant("ln(min(k_bar, d_bar-k_bar)/delta)", gumb_cases.news("many at the edge of d_bar", PrintedBottom)),
    Mutant("no noise on bottom", gumb_cases.places(BareBottom)),
    Mutant("top k for d_bar", gumb_cases.places(wrong.TopK)),
    Mutant("argmin of Gumbel noise", gumb_cases.index_step("all but one row move", wrong.Argmin)),
    Mutant("no noise in the index step", gumb_cases.index_step("one row moves", wrong.NoIndexNoise)),
    Mutant("counts at the price without", gumb_cases.price(True, CheapCounts)),
)
MUTANTS = (*KNOWN, *RESTRICTED, *GUMB)
