"""EXPLAIN of a private query: what would answer it and at what price, without touching data or budget."""

from __future__ import annotations

from collections.abc import Iterator

from budget.account import Charge
from budget.units import micro
from dpproxy.pricing import Ask, counts_of


def explanation(one: Ask, left: Charge | None) -> Iterator[str]:
    """The lines for one DP node; `left` is what the analyst's own account has."""
    node = one.node
    domain = "unknown domain" if node.cells is None else f"known domain of {len(node.cells)} cells"
    groups = "unrestricted" if node.delta0 is None else f"at most {node.delta0} groups of one unit"
    yield f"Private count over {domain}, {groups}"
    for mechanism, measure in zip(one.mechanisms, counts_of(node.draft), strict=False):
        yield f"  Mechanism: {mechanism.name}" + (
            f", top {one.k}" if one.k is not None and mechanism.name.endswith("Gumb") else ""
        )
        if mechanism.stddev is not None:
            yield f"  Noise: standard deviation {mechanism.stddev:.2f} on each count"
        if measure.tau > 1:
            yield f"  Clamp: at most {measure.tau} rows of one unit count in a group"
        if mechanism.threshold is not None:
            yield f"  Threshold: {mechanism.threshold} above the first count that is not fetched"
    if not one.mechanisms:
        yield "  Cost: nothing, no rows can come out"
        return
    cost = one.cost_at_most
    yield f"  Cost: at most {Charge(micro(cost.information), micro(cost.calls))}"
    if left is not None:
        yield f"  Left: {left}"
    query = one.query
    yield "  Backend:"
    yield from (f"    {line}" for line in query.sql.splitlines())
    for number, array in enumerate(query.arrays, 1):
        shown = ", ".join("NULL" if v is None else v for v in array[:5])
        yield f"    ${number}: {len(array)} cells: {shown}{', ...' if len(array) > 5 else ''}"
    if query.rank_key:
        yield f"    ${len(query.arrays) + 1}: the secret of the keyed order"
