"""TopCounts: the top k by rank alone, then correlated counts of what came out. Proof sheet: top_counts.md."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

from mechanisms.correlated_counts import CorrelatedCounts, price_of_one
from mechanisms.histogram import Cost, Histogram, NoiseFamily, Release
from mechanisms.known_domain import KnownGumb
from mechanisms.randomness import Stream
from mechanisms.unknown_domain import UnkGumb


@dataclass(frozen=True)
class TopCounts:
    """The order that KnownGumb or UnkGumb finds, each count with the noise of a single one for one information unit.

    >>> top = TopCounts(KnownGumb(Fraction(3, 20), tau=1, k=9, cells=300, counts=False))
    >>> top.cost_at_most.information, round(top.stddev, 1)
    (Fraction(13, 1), 13.3)

    `ranks`: finds the order; shows no counts itself, and a unit adds at most 1 to each. Costs what `ranks` does, and
    (r + 2 sqrt(r) + 1)/4 information units, rounded up to a twentieth, for the counts of r released elements.
    ValueError for other `ranks`.
    top_counts.md, Theorem 1.
    """

    noise_family: ClassVar[NoiseFamily] = "gaussian"

    ranks: KnownGumb | UnkGumb

    def __post_init__(self) -> None:
        if self.ranks.counts or self.ranks.tau != 1:
            raise ValueError("ranks must show no counts, of which a unit changes each by 1 at most")

    @property
    def name(self) -> str:
        return f"{self.ranks.name}, {CorrelatedCounts.name}"

    @property
    def fetch(self) -> int | None:
        return self.ranks.fetch

    @property
    def threshold(self) -> int | None:
        return self.ranks.threshold

    def counts_of(self, released: int) -> CorrelatedCounts:
        """The noise on the counts of so many released elements."""
        return CorrelatedCounts(self.ranks.eps_per, released, price_of_one(released))

    def _cost(self, ranks: Cost, released: int) -> Cost:
        """Without a pure epsilon, which Gaussian noise has none of, even where nothing came out that it would be on."""
        counts = self.counts_of(released).cost_at_most if released else Cost(Fraction(0), Fraction(0))
        return Cost.sum((ranks, counts))

    @property
    def cost_at_most(self) -> Cost:
        return self._cost(self.ranks.cost_at_most, self.ranks.k)

    @property
    def stddev(self) -> float:
        return self.counts_of(self.ranks.k).stddev

    @property
    def common_stddev(self) -> float:
        """Standard deviation of the part of the noise that all of k counts have in common."""
        return self.counts_of(self.ranks.k).common_stddev

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        return (*self.ranks.parameters, *self.counts_of(self.ranks.k).parameters)

    def release(self, histogram: Histogram, stream: Stream) -> Release:
        """Release the elements in noisy order with noisy counts; ValueError unless the input is as fetched."""
        ranks = self.ranks.release(histogram, stream)
        cost, released = self._cost(ranks.cost, len(ranks.indices)), len(ranks.indices)
        if not released:
            return replace(ranks, values=ranks.indices, stddev=self.stddev, cost=cost)
        chosen = Histogram(histogram.counts[ranks.indices], complete=True)
        counts = self.counts_of(released).release(chosen, stream.child("counts"))
        return replace(counts, indices=ranks.indices, cost=cost)
