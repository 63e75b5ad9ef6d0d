"""EXPLAIN of a private query: what would answer it and at what price, without touching data or budget."""

from __future__ import annotations

from collections.abc import Iterator

from budget.account import Charge
from dpproxy.metering import Sums
from dpproxy.pricing import Ask, charge
from dpproxy.selection import ByCount
from mechanisms.histogram import Mechanism
from mechanisms.numeric import ClampedSum
from rewriter.measure import Count, Measure, Moment
from rewriter.plan import HistogramQuery


def explanation(one: Ask, left: Charge | None) -> Iterator[str]:
    """The lines for one DP node; `left` is what the analyst's own account has."""
    node = one.node
    domain = "unknown domain" if node.cells is None else f"known domain of {len(node.cells)} cells"
    groups = "unrestricted" if node.delta0 is None else f"at most {node.delta0} groups of one unit"
    yield f"Groups of {domain}, {groups}"
    if one.selection is None:
        yield "  Cost: nothing, no rows can come out"
        return
    if isinstance(one.selection, ByCount):
        top = f", top {one.k}" if one.lowered or one.selection.mechanism.name.endswith("Gumb") else ""
        yield from _mechanism(one.selection.mechanism, one.node.draft.measures, one.selection.place, top)
    for meter in one.meters:
        if isinstance(meter, Sums):
            for place, mechanism in zip(meter.places, meter.mechanisms(one.selection.most), strict=True):
                yield from _mechanism(mechanism, meter.node.draft.measures, place, "")
    yield f"  Cost: at most {charge(one.cost_at_most)}"
    if left is not None:
        yield f"  Left: {left}"
    for query in one.queries():
        yield from _query(query)


def _mechanism(
    mechanism: Mechanism | ClampedSum, measures: tuple[Measure, ...], place: int, top: str
) -> Iterator[str]:
    yield f"  Mechanism: {mechanism.name}{top}"
    if mechanism.stddev is not None:
        what = "sum" if isinstance(mechanism, ClampedSum) else "count"
        yield f"  Noise: standard deviation {mechanism.stddev:.2f} on each {what}"
    measure = measures[place] if place < len(measures) else None
    if isinstance(measure, (Count, Moment)) and measure.tau > 1:
        yield f"  Clamp: at most {measure.tau} rows of one unit count in a group"
    threshold = None if isinstance(mechanism, ClampedSum) else mechanism.threshold
    if threshold is not None:
        yield f"  Threshold: {threshold} above the first count that is not fetched"


def _query(query: HistogramQuery) -> Iterator[str]:
    yield "  Backend:"
    yield from (f"    {line}" for line in query.sql.splitlines())
    for number, array in enumerate(query.arrays, 1):
        shown = ", ".join("NULL" if v is None else v for v in array[:5])
        yield f"    ${number}: {len(array)} cells: {shown}{', ...' if len(array) > 5 else ''}"
    if query.rank_key:
        yield f"    ${len(query.arrays) + 1}: the secret of the keyed order"
