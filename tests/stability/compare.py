"""What removing one privacy unit may do to a node's histogram, and whether it did more."""

from __future__ import annotations

from collections.abc import Iterator

from rewriter.ir.measure import Count, Measure, Moment
from tests.stability.question import Histogram, Question


def violations(question: Question, whole: Histogram, fewer: Histogram, alone: Histogram) -> Iterator[str]:
    """What is wrong with the histogram of all units beside those of all but one, and of that one `alone`.

    Every row depends on one unit and public data, so the unit moves each cell by exactly what the cell holds of
    the unit alone: no cell that others own moves otherwise, at most delta0 cells do, and each within its reach.
    """
    node = question.counted
    nothing = (0,) * len(node.measures)
    reaches = [reach(m) for m in node.measures]
    moved = 0
    for cell in whole.keys() | fewer.keys() | alone.keys():
        before, after, own = (h.get(cell, nothing) for h in (whole, fewer, alone))
        differences = tuple(b - a for b, a in zip(before, after, strict=True))
        moved += any(differences)
        if differences != own:
            yield "a cell moves by something else than the unit has in it"
        for number, (low, high) in enumerate(reaches):
            if not low <= differences[number] <= high:
                yield f"measure {number} moves by {differences[number]}, its reach is {low} to {high}"
    if node.bound.value is not None and moved > node.bound.value:
        yield f"{moved} cells move, the bound is {node.bound.value}"


def reach(measure: Measure) -> tuple[int, int]:
    """How far one unit can move a measure in one group, from below to above.

    >>> reach(Count(None, 7))
    (0, 7)
    """
    if isinstance(measure, Count):
        return 0, measure.tau
    assert isinstance(measure, Moment)
    low, high = measure.value.lo, measure.value.hi
    assert low is not None
    assert high is not None
    if measure.centred:
        low, high = low - high, high - low
    if measure.power == 2:
        low, high = 0, max(low * low, high * high)
    return min(0, low * measure.tau), max(0, high * measure.tau)
