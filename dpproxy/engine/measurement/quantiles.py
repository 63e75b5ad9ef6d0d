"""Quantiles in groups already selected: few of them chosen bin by bin, many read from a tree of noisy counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpproxy.engine.bins import Bins, bins_of
from dpproxy.engine.measurement.base import GroupBound
from dpproxy.engine.planner import BoundNode
from dpproxy.engine.selection.groups import FREE, Fetch, Measured, MeasuredColumn, width_of
from mechanisms.choose import MechanismSettings
from mechanisms.histogram import Cost, Counts, Histogram
from mechanisms.quantile import COST, QuantileChoice, QuantileTree, tree_interval, tree_quantile
from mechanisms.randomness import Plain, Stream
from mechanisms.unit_clip import root_up
from rewriter.ir.measure import ROW, Quantiles
from rewriter.plan import Cells, HistogramQuery

MOST_CHOSEN = 3
"""More quantiles are more exact in a tree, which has all of them for one price."""


@dataclass(frozen=True)
class QuantileMeter:
    """The quantiles `place` of a node, cut into at most `most_bins` bins, of many groups into fewer: one information
    unit for each group that a unit can be in, or for all of them where its rows are weighted.

    Under unit clips up to three quantiles between least and largest value are chosen, which share the unit; all others
    come from one tree.
    """

    node: BoundNode
    place: int
    settings: MechanismSettings
    changed: GroupBound
    most_bins: int
    rounds: int = 1

    @property
    def _measure(self) -> Quantiles:
        measure = self.node.aggregate.measures[self.place]
        assert isinstance(measure, Quantiles)
        return measure

    def bins(self, groups: int) -> Bins:
        """How the range is cut in each of `groups` groups."""
        return bins_of(self._measure, self.most_bins, groups)

    @property
    def _row(self) -> int:
        """What a row counts for, or a unit's rows together where they are weighted."""
        return ROW if self._measure.weighted else 1

    @property
    def _tau(self) -> int:
        """The most that a unit counts in all bins of a group, or of all groups where its rows are weighted."""
        return self._measure.tau * self._row

    def tree(self, groups: int) -> QuantileTree:
        """The tree of one of `groups` groups."""
        return QuantileTree(self.settings.eps_per, self._tau, self.bins(groups).levels, self.settings.noise)

    def choices(self, groups: int) -> tuple[QuantileChoice, ...]:
        """The choices of one of `groups` groups, by fraction in ascending order; none where a tree answers.

        Of n choices each costs 1/n of a unit. A fraction of 0 or 1 has no bins on its one side, so that its choice
        would fall anywhere in the empty part of the range.
        """
        fractions = sorted({f for f in self._measure.fractions if f is not None and 0 < f < 1})
        clips = self.node.policy.unit_clips and self.settings.noise == "gaussian"
        if not clips or len(fractions) != len({*self._measure.fractions}) or len(fractions) > MOST_CHOSEN:
            return ()
        eps_per = 1 / root_up(len(fractions) / self.settings.eps_per**2)
        try:
            bins = 1 << self.bins(groups).levels
            return tuple(QuantileChoice(eps_per, self._tau, bins, f) for f in fractions)
        except ValueError:  # a fraction of too many digits, or a scale beyond what is drawn
            return ()

    @property
    def weights(self) -> str:
        """How the rows of a unit count, empty where each counts for itself."""
        if not self._measure.weighted:
            return ""
        rows = "1 row" if self._measure.tau == 1 else f"{self._measure.tau} rows"
        return f"all rows of one unit together count for {rows} at most, each for the same share"

    @property
    def name(self) -> str:
        return QuantileChoice.__name__ if self.choices(1) else QuantileTree.__name__

    @property
    def _each(self) -> Cost:
        return COST if self.choices(1) else self.tree(1).cost_at_most

    def cost(self, groups: int) -> Cost:
        if self._measure.weighted:  # a unit's weights are bounded over all groups
            return self._each if groups else FREE
        return self._each.times(self.changed.of(groups))

    def parameters(self, groups: int) -> Plain:
        law = [one.parameters for one in self.choices(groups)] or self.tree(groups).parameters
        kept = None if self._measure.weighted else self.node.kept
        return self.place, kept, self.name, law, self._measure.fractions

    def queries(self, cells: Cells) -> tuple[HistogramQuery, ...]:
        return (self.node.over(cells).bins(self.place, 1 << self.bins(len(cells)).levels),)

    def measure(self, cells: Cells, fetch: Fetch, stream: Stream) -> Measured:
        tables = self.counted(cells, fetch)
        read = self._chosen if self.choices(len(cells)) else self._from_trees
        return Measured(
            {(self.place, fraction): column for fraction, column in read(tables, stream).items()},
            self.cost(len(cells)),
        )

    def _column(
        self, places: tuple[int, ...], ends: tuple[tuple[int, int], ...] = (), *notes: str
    ) -> MeasuredColumn:
        weights = (self.weights,) if self.weights else ()
        return MeasuredColumn(places, notes=(*weights, *notes), bins=self.bins(len(places)), ends=ends)

    def _chosen(self, tables: Counts, stream: Stream) -> dict[Fraction, MeasuredColumn]:
        """A bin of each group for each fraction; those of one group ascend with their fractions."""
        choices, rows = self.choices(len(tables)), []
        for cell, table in enumerate(tables):
            drawn = stream.child("choices", cell)
            found = [
                one.release(Histogram(table, True), drawn.child(number)).indices[0]
                for number, one in enumerate(choices)
            ]
            rows.append(sorted(map(int, found)))
        columns = zip(*rows, strict=True) if rows else [()] * len(choices)
        return {
            one.quantile: self._column(tuple(column), (), self._ranks(one, len(choices)))
            for one, column in zip(choices, columns, strict=True)
        }

    def _ranks(self, choice: QuantileChoice, together: int) -> str:
        rows = math.ceil(choice.ranks(together) / self._row)
        counted = " that count so" if self._measure.weighted else ""
        return (
            f"quantile {float(choice.quantile):g} is within {rows:,} rows{counted} of its rank with 95%, "
            "no interval of its value is known"
        )

    def _from_trees(self, tables: Counts, stream: Stream) -> dict[Fraction, MeasuredColumn]:
        """The bins that hold the quantiles by one tree a group, with their intervals."""
        tree, nodes = self.tree(len(tables)), []
        for cell, table in enumerate(tables):
            release = tree.release(Histogram(table, True), stream.child("tree", cell))
            assert release.values is not None
            nodes.append(release.values)
        margin = width_of(tree.noise) * tree.stddev
        columns = {}
        for fraction in [f for f in self._measure.fractions if f is not None]:
            places = tuple(tree_quantile(n, fraction) for n in nodes)
            held = [tree_interval(n, fraction, margin, self._row) for n in nodes]
            ends = tuple(
                (min(first, place), max(last, place))
                for (first, last), place in zip(held, places, strict=True)
            )
            columns[fraction] = self._column(places, ends)
        return columns

    def counted(self, cells: Cells, fetch: Fetch) -> Counts:
        """How many rows are in each bin of each group, shape (groups, bins)."""
        counts = np.zeros((len(cells), 1 << self.bins(len(cells)).levels), dtype=np.int64)
        if not cells:
            return counts
        fetched = fetch(self.queries(cells)[0])
        rows, bins = fetched.counts(0) - 1, fetched.counts(1)
        if fetched.rows > counts.size or (
            fetched.rows
            and (min(rows.min(), bins.min()) < 0 or rows.max() >= len(cells) or bins.max() >= counts.shape[1])
        ):
            raise ValueError("the backend returned a bin that does not exist, or one twice")
        np.add.at(counts, (rows, bins), fetched.counts(2))
        return counts
