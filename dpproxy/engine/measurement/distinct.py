"""Distinct counts of items in groups already selected: one person-level distinct count per group.

Why: docs/decisions/more-items-than-count.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpproxy.engine.group_selection import FREE, Fetch, Measured, MeasuredColumn
from dpproxy.engine.measurement.base import GroupBound
from dpproxy.engine.options import ReleaseOptions
from dpproxy.engine.planner import BoundNode
from mechanisms.distinct_count import PersonLevelDistinctCount
from mechanisms.histogram import Cost, Counts
from mechanisms.item_sets import ItemSets
from mechanisms.randomness import Plain, Stream
from rewriter.plan import Cells, HistogramQuery


@dataclass(frozen=True)
class DistinctMeter:
    """The distinct items `place` of a node: 5/4 information units for each group that a unit can be in."""

    node: BoundNode
    place: int
    terms: ReleaseOptions
    changed: GroupBound
    rounds: int = 1

    @property
    def mechanism(self) -> PersonLevelDistinctCount:
        """The count of one group."""
        return PersonLevelDistinctCount(
            self.terms.settings.eps_per, self.terms.max_items, self.terms.beta, "matching"
        )

    @property
    def name(self) -> str:
        return self.mechanism.name

    def cost(self, groups: int) -> Cost:
        return Cost(self.changed.of(groups) * self.mechanism.cost_at_most.information, Fraction(0))

    def parameters(self, groups: int) -> Plain:
        return self.place, self.node.kept, self.name, self.mechanism.parameters

    def queries(self, cells: Cells) -> tuple[HistogramQuery, ...]:
        return (self.node.over(cells).items(self.place, self.mechanism.fetch),)

    def measure(self, cells: Cells, fetch: Fetch, stream: Stream) -> Measured:
        if not cells:
            return Measured({(self.place, None): MeasuredColumn(())}, FREE)
        fetched = fetch(self.queries(cells)[0])
        rows, units, items = fetched.counts(0) - 1, fetched.codes(1), fetched.codes(2)
        order = np.lexsort((items, units, rows))
        ends = np.searchsorted(rows[order], np.arange(len(cells) + 1))
        values, deviations, bounds = [], [], []
        for cell in range(len(cells)):
            own = order[ends[cell] : ends[cell + 1]]
            release = self.mechanism.release(_sets(units[own], items[own]), stream.child("count", cell))
            values.append(max(release.lower_bound, 0))
            deviations.append(release.stddev)
            bounds.append(release.bound)
        said = f"{min(bounds)}" if len(set(bounds)) == 1 else f"{min(bounds)} to {max(bounds)}"
        note = f"a lower bound of the distinct count, each unit counted for at most {said} values"
        column = MeasuredColumn(tuple(values), tuple(deviations), (note,))
        return Measured({(self.place, None): column}, self.cost(len(cells)))


def _sets(units: Counts, items: Counts) -> ItemSets:
    """The items of each unit, pairs sorted by unit; how units and items are numbered cannot matter.

    The mechanism counts by matching: the size of a largest matching is a function of the graph alone.
    """
    _, starts = np.unique(units, return_index=True)
    distinct, numbers = np.unique(items, return_inverse=True)
    offsets = np.append(starts, len(units)).astype(np.int64)
    return ItemSets(offsets, numbers.astype(np.int64), max(len(distinct), 1))
