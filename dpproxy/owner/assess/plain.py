"""A node's measures as they are: without noise, and without the bound on a unit's rows and groups.

For the data owner alone: no result may be sent, stored or logged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from dpproxy.engine.measurement.base import GroupBound
from dpproxy.engine.measurement.quantiles import QuantileMeter
from dpproxy.engine.measurement.totals import by_cell
from dpproxy.engine.planner import BoundNode
from dpproxy.engine.release_plan import ReleasePlan
from dpproxy.engine.selection.groups import ROWS, SQUARES, SUM, Fetch, MeasuredColumn, Place, in_cell_order
from mechanisms.histogram import Counts
from mechanisms.unit_clip import LARGEST_TOTAL
from rewriter.binder.contribution_bounds import Bound
from rewriter.ir.measure import (
    Count,
    DistinctItems,
    Joint,
    Measure,
    Moment,
    Quantiles,
    Running,
    Total,
    Vector,
)
from rewriter.logical.plan import UNITS
from rewriter.plan import Cells

UNCLAMPED = 1_000_000_000
"""More rows than a unit has."""
MOST_GROUPS = 100_000


def groups(one: ReleasePlan, fetch: Fetch) -> Cells:
    """Every group that has rows, of a known domain every cell; at most 100,000 of an unknown one, the largest first."""
    node = unclamped(one.node)
    if node.cells is not None:
        return node.cells
    if any(isinstance(m, Running) for m in node.aggregate.measures):
        return tuple(_running(node, fetch))
    aggregate = replace(node.aggregate, measures=(UNITS,), order_by=0, outputs=(), names=())
    fetched = fetch(replace(node, aggregate=aggregate).histogram((0,), MOST_GROUPS))
    keys = len(node.aggregate.keys)
    return tuple(zip(*(fetched.texts(n) for n in range(keys)), strict=True))


def measured(one: ReleasePlan, cells: Cells, fetch: Fetch) -> dict[Place, MeasuredColumn]:
    """The exact measures of these groups, from which the node's outputs are computed."""
    node = unclamped(one.node)
    found: dict[Place, MeasuredColumn] = {}
    if not cells or not node.aggregate.measures:
        return {(n, None): _exact(()) for n in range(len(node.aggregate.measures))}
    numbers = [n for n, m in enumerate(node.aggregate.measures) if isinstance(m, (Count, Moment))]
    if numbers:
        fetched = fetch(node.over(cells).histogram(numbers, None))
        for column, place in enumerate(numbers, 1):
            values = in_cell_order(fetched, column, len(cells))
            found[place, None] = _exact(values.tolist())
    for place, measure in enumerate(node.aggregate.measures):
        if isinstance(measure, (Total, Joint)):
            found |= _totals(node, place, cells, fetch)
        elif isinstance(measure, Quantiles):
            found |= _quantiles(one, node, place, measure, cells, fetch)
        elif isinstance(measure, DistinctItems):
            found[place, None] = _distinct(node, place, cells, fetch)
        elif isinstance(measure, Running):
            counts = _running(node, fetch)
            found[place, None] = _exact([counts.get(cell, 0) for cell in cells])
    return found


def _exact(values: Sequence[int]) -> MeasuredColumn:
    return MeasuredColumn(tuple(values), (0.0,) * len(values))


def unclamped(node: BoundNode) -> BoundNode:
    """The node as if no unit had to be bounded; values stay within their bounds."""
    measures = tuple(map(_unclamped, node.aggregate.measures))
    return replace(node, aggregate=replace(node.aggregate, measures=measures, bound=Bound(None, False)))


def _unclamped(measure: Measure) -> Measure:
    """The measure without its bound. A count with tau 1 still counts units; a unit's bounded sum stays one value."""
    if isinstance(measure, Running):
        return replace(measure, events=UNCLAMPED)
    if isinstance(measure, Quantiles) and measure.weighted:
        return replace(measure, tau=UNCLAMPED, weighted=False)
    if isinstance(measure, (DistinctItems, Total, Joint)) or measure.tau == 1:
        return measure
    return replace(measure, tau=UNCLAMPED)


def _totals(node: BoundNode, place: int, cells: Cells, fetch: Fetch) -> Mapping[Place, MeasuredColumn]:
    """The sums of vectors of all lengths."""
    measure = node.aggregate.measures[place]
    squares = isinstance(measure, Joint) and measure.squares
    parts = [SUM, ROWS, SQUARES] if squares else [SUM, ROWS] if isinstance(measure, Joint) else [SUM]
    sums = by_cell(
        fetch(node.over(cells).clipped([Vector(place)], [(LARGEST_TOTAL, 1)])), len(cells), len(parts)
    )
    return {(place, part): _exact(row.tolist()) for part, row in zip(parts, sums, strict=True)}


def _quantiles(
    one: ReleasePlan, node: BoundNode, place: int, measure: Quantiles, cells: Cells, fetch: Fetch
) -> Mapping[Place, MeasuredColumn]:
    meter = QuantileMeter(node, place, one.terms.settings, GroupBound(None), one.terms.bins)
    tables = meter.counted(cells, fetch)
    return {
        (place, fraction): MeasuredColumn(
            tuple(_place(row, fraction) for row in tables), bins=meter.bins(len(tables))
        )
        for fraction in measure.fractions
        if fraction is not None
    }


def _place(counts: Counts, fraction: Fraction) -> int:
    """The first bin that has the fraction of all rows at it or below it."""
    wanted = max(math.ceil(fraction * int(counts.sum())), 1)
    reached = np.flatnonzero(np.cumsum(counts) >= wanted)
    return int(reached[0]) if len(reached) else 0


def _distinct(node: BoundNode, place: int, cells: Cells, fetch: Fetch) -> MeasuredColumn:
    fetched = fetch(node.over(cells).items(place, UNCLAMPED))
    pairs = {*zip(fetched.counts(0).tolist(), fetched.codes(2).tolist(), strict=True)}
    counts = np.bincount([cell - 1 for cell, _ in pairs], minlength=len(cells))
    return _exact(counts.tolist())


def _running(node: BoundNode, fetch: Fetch) -> dict[tuple[str | None, ...], int]:
    """The running count of each item at each time from its first row on."""
    (measure,) = node.aggregate.measures
    assert isinstance(measure, Running)
    keys, times = len(node.aggregate.keys), node.times
    fetched = fetch(node.running(len(times)))
    events: dict[tuple[str | None, ...], np.ndarray[tuple[int], np.dtype[np.int64]]] = {}
    items: Sequence[tuple[str | None, ...]] = [
        *zip(*(fetched.texts(n) for n in range(keys - 1)), strict=True)
    ] or [()] * fetched.rows
    numbers = zip(items, fetched.counts(keys - 1).tolist(), fetched.counts(keys).tolist(), strict=True)
    for item, time, count in numbers:
        events.setdefault(item, np.zeros(len(times), dtype=np.int64))[time - 1] += count
    place = measure.time
    return {
        (*item[:place], times[n], *item[place:]): total
        for item, row in events.items()
        for n, total in enumerate(np.cumsum(row).tolist())
        if total
    }
