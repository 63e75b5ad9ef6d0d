"""Mechanisms that are wrong in one place each: what tests and the audit must catch."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from mechanisms.histogram import Counts, Histogram, Release
from mechanisms.known_domain import KnownGauss, KnownGumb, KnownLap
from mechanisms.noise import Integers, discrete_gaussian, discrete_laplace
from mechanisms.randomness import Stream
from mechanisms.unknown_domain import UnkGauss, UnkGumb, UnkLap


@dataclass(frozen=True)
class ScaledLap(KnownLap):
    factor: Fraction = Fraction(1)

    @property
    def scale(self) -> Fraction:
        return super().scale * self.factor


@dataclass(frozen=True)
class ScaledGauss(KnownGauss):
    factor: Fraction = Fraction(1)

    @property
    def sigma_squared(self) -> Fraction:
        return super().sigma_squared * self.factor**2


class HalfBeta(KnownGumb):
    @property
    def beta(self) -> Fraction:
        return super().beta / 2


class OneDraw(KnownGumb):
    """Shows the values that won the order: biased upwards, and what the price does not cover."""

    def release(self, histogram: Histogram, stream: Stream) -> Release:
        noisy = histogram.counts + discrete_laplace(stream.child("both"), self.scale, self.cells)
        chosen = np.argsort(-noisy)[: self.k]
        return Release(chosen, noisy[chosen], self.stddev, self.cost_at_most)


class HalfLap(UnkLap):
    """Half the scale, at the right threshold."""

    factor = Fraction(1, 2)

    def _noise(self, stream: Stream) -> Integers:
        return discrete_laplace(stream, self.scale * self.factor, self.fetch)


class LessLap(HalfLap):
    factor = Fraction(17, 20)


class MoreLap(HalfLap):
    factor = Fraction(23, 20)


class LowLap(UnkLap):
    """Threshold off by tau; with tau = 1 also what a comparison that is not strict amounts to."""

    @property
    def threshold(self) -> int:
        return super().threshold - self.tau


class HighLap(UnkLap):
    @property
    def threshold(self) -> int:
        return super().threshold + self.tau


class BareLap(UnkLap):
    """No noise on the threshold."""

    def _noise(self, stream: Stream) -> Integers:
        noise = super()._noise(stream)
        noise[-1] = 0
        return noise


class RankLap(UnkLap):
    """Equal noisy counts in the order of the true ones."""

    def release(self, histogram: Histogram, stream: Stream) -> Release:
        release = super().release(histogram, stream)
        assert release.values is not None
        order = np.lexsort((release.indices, -release.values))
        return Release(release.indices[order], release.values[order], release.stddev, release.cost)


class HalfGauss(UnkGauss):
    """Half the sigma, at the right threshold."""

    factor = Fraction(1, 4)

    def _noise(self, stream: Stream) -> Integers:
        return discrete_gaussian(stream, self.sigma_squared * self.factor, self.fetch)


class LessGauss(HalfGauss):
    factor = Fraction(81, 100)


class MoreGauss(HalfGauss):
    factor = Fraction(121, 100)


class LowGauss(UnkGauss):
    @property
    def threshold(self) -> int:
        return super().threshold - self.tau


class BareGauss(UnkGauss):
    def _noise(self, stream: Stream) -> Integers:
        noise = super()._noise(stream)
        noise[-1] = 0
        return noise


class Argmin(UnkGumb):
    """The papers' sign: the argmin of a quantity with Gumbel noise."""

    def _index(self, counts: Counts, stream: Stream) -> int:
        e = -np.log(stream.words(self.d_bar - self.k + 1).astype(np.float64) * 2.0**-64)
        noise = -float(self.beta) * np.log(e)
        i = np.arange(self.k, self.d_bar + 1)
        return self.k + int(np.argmin(counts[self.k :] + float(self.beta) * np.log(i) + noise))


class NoIndexNoise(UnkGumb):
    def _index(self, counts: Counts, stream: Stream) -> int:
        i = np.arange(self.k, self.d_bar + 1)
        return self.k + int(np.argmin(counts[self.k :] + float(self.beta) * np.log(i)))


class TopK(UnkGumb):
    """k instead of d_bar: no index step, the threshold at row k + 1."""

    def _index(self, counts: Counts, stream: Stream) -> int:
        return self.k


class LowBottom(UnkGumb):
    """The threshold off by tau."""

    def _top(self, counts: Counts, k_bar: int, stream: Stream) -> Integers:
        lowered = counts.copy()
        lowered[k_bar:] -= self.tau
        return super()._top(lowered, k_bar, stream)


class HalfGumb(UnkGumb):
    @property
    def beta(self) -> Fraction:
        return super().beta / 2
