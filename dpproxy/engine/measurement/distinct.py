"""Distinct counts of items in groups already selected: for each group a curve of counts, or the paper's one count.

Why: docs/decisions/more-items-than-count.md, docs/decisions/distinct-counts-are-a-curve.md.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dpproxy.engine.measurement.base import GroupBound
from dpproxy.engine.options import ReleaseOptions
from dpproxy.engine.planner import BoundNode
from dpproxy.engine.selection.groups import FREE, Fetch, Measured, MeasuredColumn, capped
from mechanisms.distinct_count import LOOKED_AT, DistinctCount, PersonLevelDistinctCount
from mechanisms.distinct_curve import DistinctCountCurve, DistinctEstimate
from mechanisms.histogram import Cost, Counts
from mechanisms.item_sets import ItemSets
from mechanisms.randomness import Plain, Stream
from mechanisms.row_cap import KEPT, RowCap
from rewriter.plan import Cells, HistogramQuery


@dataclass(frozen=True)
class DistinctMeter:
    """The distinct items `place` of a node: one information unit for each group that a unit can be in, or 5/4 with the
    paper's mechanism."""

    node: BoundNode
    place: int
    terms: ReleaseOptions
    changed: GroupBound
    rounds: int = 1

    @property
    def mechanism(self) -> DistinctCountCurve | PersonLevelDistinctCount:
        """The count of one group."""
        eps_per, most, beta = KEPT * self.terms.settings.eps_per, self.terms.max_items, self.terms.beta
        if self.node.policy.unit_clips:
            return DistinctCountCurve(eps_per, LOOKED_AT * most, beta)
        return PersonLevelDistinctCount(eps_per, most, beta, "matching")

    def cap(self, groups: int) -> RowCap:
        """What bounds the rows of `groups` groups: of a unit they are its items in each that it can be in."""
        changed, price = max(self.changed.of(groups), 1), self.cost(max(groups, 1)).information
        eps_per, most = self.terms.settings.eps_per, self.terms.max_rows
        wanted = RowCap(eps_per, price, changed * self.mechanism.fetch, most)
        return replace(wanted, rows=changed * max(wanted.fitting // changed, 1))

    def looked_at(self, groups: int) -> int:
        """The most items of a unit in one of `groups` groups that are looked at: few where the price is low."""
        return self.cap(groups).rows // max(self.changed.of(groups), 1)

    @property
    def name(self) -> str:
        return self.mechanism.name

    def cost(self, groups: int) -> Cost:
        return Cost(self.changed.of(groups) * self.mechanism.cost_at_most.information, Fraction(0))

    def parameters(self, groups: int) -> Plain:
        most, looked_at = self.node.most.get(self.place), self.looked_at(groups)
        known = () if most is None else (most,)
        fewer = () if looked_at == self.mechanism.fetch else (("looked at", looked_at),)
        return self.place, self.node.kept, self.name, self.mechanism.parameters, *known, *fewer

    def queries(self, cells: Cells) -> tuple[HistogramQuery, ...]:
        return (self.node.over(cells).items(self.place, self.looked_at(len(cells))),)

    def measure(self, cells: Cells, fetch: Fetch, stream: Stream) -> Measured:
        if not cells:
            return Measured({(self.place, None): MeasuredColumn(())}, FREE)
        fetched = capped(self.queries(cells)[0], self.cap(len(cells)), fetch, stream.child("cap"))
        rows, units, items = fetched.counts(0) - 1, fetched.codes(1), fetched.codes(2)
        order = np.lexsort((items, units, rows))
        ends = np.searchsorted(rows[order], np.arange(len(cells) + 1))
        releases = []
        for cell in range(len(cells)):
            own = order[ends[cell] : ends[cell + 1]]
            releases.append(
                self.mechanism.release(_sets(units[own], items[own]), stream.child("count", cell))
            )
        # No count is larger than the domain, which is public.
        most = self.node.most.get(self.place, sys.maxsize)
        column = MeasuredColumn(
            tuple(min(max(_value(release), 0), most) for release in releases),
            tuple(release.stddev for release in releases),
            (self._note(releases),),
        )
        return Measured({(self.place, None): column}, self.cost(len(cells)))

    def _note(self, releases: Sequence[DistinctCount | DistinctEstimate]) -> str:
        bounds = [release.bound for release in releases]
        counted = f"each unit counted for at most {_span(bounds)} value{'s' if max(bounds) > 1 else ''}"
        below = [r.estimate - r.lower_bound for r in releases if isinstance(r, DistinctEstimate)]
        if not below:
            return f"a lower bound of the distinct count, {counted}"
        least = f"{max(releases[0].lower_bound, 0):,}" if len(below) == 1 else f"that less {_span(below)}"
        return (
            f"an estimate from below of the distinct count, {counted}, at least {least} "
            f"with {100 * (1 - float(self.terms.beta)):g}%"
        )


def _value(release: DistinctCount | DistinctEstimate) -> int:
    return release.estimate if isinstance(release, DistinctEstimate) else release.lower_bound


def _span(numbers: Collection[int]) -> str:
    """
    >>> _span([81, 81]), _span([81, 9])
    ('81', '9 to 81')
    """
    least, most = min(numbers), max(numbers)
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _sets(units: Counts, items: Counts) -> ItemSets:
    """The items of each unit, pairs sorted by unit; how units and items are numbered cannot matter.

    The mechanism counts by matching: the size of a largest matching is a function of the graph alone.
    """
    _, starts = np.unique(units, return_index=True)
    distinct, numbers = np.unique(items, return_inverse=True)
    offsets = np.append(starts, len(units)).astype(np.int64)
    return ItemSets(offsets, numbers.astype(np.int64), max(len(distinct), 1))
