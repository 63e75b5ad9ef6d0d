"""Quantiles in groups already selected: one tree of noisy bin counts per group, from which all are read."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpproxy.engine.bins import Bins, bins_of
from dpproxy.engine.group_selection import FREE, Fetch, Measured, MeasuredColumn, Place
from dpproxy.engine.measurement import GroupBound
from dpproxy.engine.planner import BoundNode
from mechanisms.choose import MechanismSettings
from mechanisms.histogram import Cost, Counts, Histogram
from mechanisms.quantile import QuantileTree, tree_quantile
from mechanisms.randomness import Stream
from rewriter.ir.measure import ROW, Quantiles
from rewriter.plan import Cells, HistogramQuery


@dataclass(frozen=True)
class QuantileMeter:
    """The quantiles `place` of a node, cut into at most 2^levels bins: one information unit for each group that a
    unit can be in, or for all of them where its rows are weighted."""

    node: BoundNode
    place: int
    settings: MechanismSettings
    changed: GroupBound
    most_bins: int
    rounds: int = 1

    @property
    def _measure(self) -> Quantiles:
        measure = self.node.draft.measures[self.place]
        assert isinstance(measure, Quantiles)
        return measure

    @property
    def bins(self) -> Bins:
        """How the range is cut."""
        return bins_of(self._measure, self.most_bins)

    @property
    def mechanism(self) -> QuantileTree:
        """The tree of one group."""
        tau = self._measure.tau * (ROW if self._measure.weighted else 1)
        return QuantileTree(self.settings.eps_per, tau, self.bins.levels, self.settings.noise)

    @property
    def weights(self) -> str:
        """How the rows of a unit count, empty where each counts for itself."""
        if not self._measure.weighted:
            return ""
        rows = "1 row" if self._measure.tau == 1 else f"{self._measure.tau} rows"
        return f"all rows of one unit together count for {rows} at most, each for the same share"

    @property
    def name(self) -> str:
        return self.mechanism.name

    def cost(self, groups: int) -> Cost:
        information = self.mechanism.cost_at_most.information
        if self._measure.weighted:  # a unit's weights are bounded over all groups
            return Cost(information, Fraction(0)) if groups else FREE
        return Cost(self.changed.of(groups) * information, Fraction(0))

    def parameters(self, groups: int) -> object:
        return self.place, self.name, self.mechanism.parameters, self._measure.fractions

    def queries(self, cells: Cells) -> tuple[HistogramQuery, ...]:
        return (self.node.over(cells).bins(self.place, 1 << self.bins.levels),)

    def measure(self, cells: Cells, fetch: Fetch, stream: Stream) -> Measured:
        tables = self.counted(cells, fetch)
        mechanism = self.mechanism
        nodes = []
        for cell in range(len(cells)):
            release = mechanism.release(Histogram(tables[cell], True), stream.child("tree", cell))
            assert release.values is not None
            nodes.append(release.values)
        measured: dict[Place, MeasuredColumn] = {}
        notes = (self.weights,) if self.weights else ()
        for fraction in self._measure.fractions:
            assert fraction is not None
            places = tuple(tree_quantile(n, fraction) for n in nodes)
            measured[self.place, fraction] = MeasuredColumn(places, notes=notes, bins=self.bins)
        return Measured(measured, self.cost(len(cells)))

    def counted(self, cells: Cells, fetch: Fetch) -> Counts:
        """How many rows are in each bin of each group, shape (groups, bins)."""
        counts = np.zeros((len(cells), 1 << self.bins.levels), dtype=np.int64)
        if not cells:
            return counts
        fetched = fetch(self.queries(cells)[0])
        rows, bins = fetched.counts(0) - 1, fetched.counts(1)
        if fetched.rows and (
            min(rows.min(), bins.min()) < 0 or rows.max() >= len(cells) or bins.max() >= counts.shape[1]
        ):
            raise ValueError("the backend returned a bin that does not exist")
        np.add.at(counts, (rows, bins), fetched.counts(2))
        return counts
