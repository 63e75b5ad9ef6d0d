"""How many different items groups that are fixed already have: a person-level distinct count a group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpproxy.metering import Changed
from dpproxy.planning import PlannedNode
from dpproxy.selection import Fetch, Measured, Place
from dpproxy.terms import Terms
from mechanisms.distinct_count import PersonLevelDistinctCount
from mechanisms.histogram import Cost
from mechanisms.item_sets import encoded
from mechanisms.randomness import Stream
from rewriter.plan import Cells, HistogramQuery


@dataclass(frozen=True)
class DistinctMeter:
    """The distinct items `place` of a node: 5/4 information units for each group that a unit can be in."""

    node: PlannedNode
    place: int
    terms: Terms
    changed: Changed

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

    def parameters(self, groups: int) -> object:
        return self.place, self.name, self.mechanism.parameters

    def queries(self, cells: Cells) -> tuple[HistogramQuery, ...]:
        return (self.node.over(cells).items(self.place, self.mechanism.fetch),)

    def measure(self, cells: Cells, fetch: Fetch, stream: Stream) -> Mapping[Place, Measured]:
        if not cells:
            return {(self.place, None): Measured(())}
        fetched = fetch(self.queries(cells)[0])
        rows = fetched.counts(0) - 1
        units, items = (np.array(fetched.texts(n), dtype=object) for n in (1, 2))
        order = np.argsort(rows, kind="stable")
        ends = np.searchsorted(rows[order], np.arange(len(cells) + 1))
        key = stream.child("order").words(8).tobytes()
        values, deviations, bounds = [], [], []
        for cell in range(len(cells)):
            own = order[ends[cell] : ends[cell + 1]]
            sets, _ = encoded(key, units[own], items[own])
            release = self.mechanism.release(sets, stream.child("count", cell))
            values.append(max(release.lower_bound, 0))
            deviations.append(release.stddev)
            bounds.append(release.bound)
        said = f"{min(bounds)}" if len(set(bounds)) == 1 else f"{min(bounds)} to {max(bounds)}"
        note = f"a lower bound of the distinct count, each unit counted for at most {said} values"
        return {(self.place, None): Measured(tuple(values), tuple(deviations), (note,))}
