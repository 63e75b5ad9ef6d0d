"""Mutants of the count releases."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from mechanisms import count_release
from mechanisms.count_release import KnownCountRelease, PrivateCountRelease
from mechanisms.histogram import Counts, Histogram, Release
from mechanisms.noise import Integers, gumbel_order
from mechanisms.randomness import Stream
from mechanisms.validation import fetched_counts
from tests.audit import release_cases
from tests.audit.mutant import Mutant


class ShiftingRow(PrivateCountRelease):
    """The threshold row moves down when an element is taken out, as "remove it from h" has it."""

    def release(self, histogram: Histogram, stream: Stream) -> Release:
        counts = fetched_counts(histogram, self.fetch)
        walk = self._walk(counts, np.arange(self.k_bar), 0, stream)
        return count_release._released(walk, self, walk.steps * self.delta_star / self.delta_per)

    def _ahead(self, counts: Counts, left: Integers, floor: int, eps: Fraction, stream: Stream) -> Integers:
        out: list[int] = []
        for step in range(len(left)):
            row = self.k_bar + self.k_bar - len(left) + len(out)
            moved = int(counts[row]) if row < len(counts) else 0
            ahead = left[~np.isin(left, out) & (counts[left] > moved)]
            first = super()._ahead(counts, ahead, moved, eps, stream.child(step))[:1]
            if not len(first):
                break
            out += first.tolist()
        return np.array(out, dtype=np.int64)


class FreeTau(PrivateCountRelease):
    """Each count charged 1/(2 sigma^2), without tau^2."""

    def release(self, histogram: Histogram, stream: Stream) -> Release:
        done = super().release(histogram, stream)
        assert done.stddevs is not None
        prices = self.tau**2 / (2 * done.stddevs**2)
        saved = Fraction(float(prices.sum() * (1 - 1 / self.tau**2))) * 8 / self.eps_per**2
        return replace(done, cost=replace(done.cost, information=done.cost.information - saved))


class LowBottom(PrivateCountRelease):
    """Bottom lower by tau."""

    def _ahead(self, counts: Counts, left: Integers, floor: int, eps: Fraction, stream: Stream) -> Integers:
        return super()._ahead(counts, left, floor - self.tau, eps, stream)


class OneOverDelta(PrivateCountRelease):
    """Bottom at ln(1/delta_star): without k_bar."""

    def _ahead(self, counts: Counts, left: Integers, floor: int, eps: Fraction, stream: Stream) -> Integers:
        scores = np.append(counts[left], floor + self.tau)
        weights = [Fraction(1)] * len(left) + [1 / self.delta_star]
        order = gumbel_order(stream, scores, self.tau / eps, len(scores), weights)
        return left[order[: int(np.flatnonzero(order == len(left))[0])]]


class LessSigma(PrivateCountRelease):
    """5% less noise on counts."""

    def _sigma(self, eps: Fraction) -> Fraction:
        return super()._sigma(eps) * Fraction(19, 20)


class HalfOrder(KnownCountRelease):
    """A quarter of the Gumbel scale."""

    def _ahead(self, counts: Counts, left: Integers, floor: int, eps: Fraction, stream: Stream) -> Integers:
        return super()._ahead(counts, left, floor, 4 * eps, stream)


MUTANTS = (
    Mutant(
        "the threshold row shifts after a release",
        release_cases.walk("a row enters the fetched ones", ShiftingRow),
    ),
    Mutant("a count charged without tau^2", release_cases.price(3, FreeTau)),
    Mutant("bottom lower by tau", release_cases.news("many of tau", LowBottom), 1 / 2),
    Mutant("ln(1/delta) for ln(k_bar/delta)", release_cases.news("many of tau", OneOverDelta)),
    Mutant("5% less noise", release_cases.noise(False, LessSigma)),
    Mutant("5% less noise, to be reduced", release_cases.noise(True, LessSigma), 1 / 2),
    Mutant(
        "a quarter of the Gumbel scale", release_cases.known("+tau on all keys but one", HalfOrder), 1 / 2
    ),
)
