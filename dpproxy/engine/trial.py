"""What a statement computes from its answer, tried with made-up answers before anything is bought.

In:  SELECT COUNT(*) / 0 FROM users
Out: PostgreSQL's 22012: it fails with each of them, and nothing is charged

What fails with some answers alone is bought. It reads no private row: docs/decisions/errors-become-null.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice

from dpproxy.engine.planner import BoundNode, Planned
from rewriter.api import ReleasedColumns
from rewriter.refusal import Refusal

NUMBERS = (1.0, 1009.0, 1_000_003.0, -1009.0, 0.25)
"""What the numbers of the made-up answers begin with. None is 0: what is divided by a released 0 is NULL."""
_INTEGERS = ("smallint", "integer", "bigint")
_FRACTIONS = ("numeric", "real", "double precision")
_ABOUT_VALUES = re.compile(r"22(?!00[78])\w{3}|21000")
"""Errors about values, and about more rows than one; not those about dates, which the client's session may read
otherwise."""

Columns = list[Sequence[object]]
"""Released columns, in the order of their arrays."""


def check(columns: Sequence[ReleasedColumns], planned: Planned, attempt: Callable[[Columns], None]) -> None:
    """Raises the Refusal that `attempt` raises with every made-up answer of these nodes, if it is about values."""
    for number in NUMBERS:
        try:
            answers = (_made_up(of, node, number) for of, node in zip(columns, planned, strict=True))
            attempt(list(chain.from_iterable(answers)))
            return
        except Refusal as refusal:
            if _ABOUT_VALUES.fullmatch(refusal.code) is None:
                return
            found = refusal
    raise Refusal(
        found.code,
        found.message,
        detail="What is computed from the answer fails whatever the answer is. Nothing was charged.",
    )


def _made_up(columns: ReleasedColumns, node: object, number: float) -> Iterator[Sequence[object]]:
    """The columns of a node with an answer of one or two rows whose numbers begin with `number`."""
    if not isinstance(node, BoundNode):
        yield from ((),) * len(columns)
        return
    keys = len(node.aggregate.keys)
    # Two rows only where it is certain that there are several.
    certain = keys and node.cells is not None and node.aggregate.k is None and not node.waits
    cells = list(islice(node.cells or (), 2)) if certain else [(None,) * keys]
    for place, column in enumerate(columns):
        if place < keys:
            yield [cell[place] for cell in cells]
        else:
            yield [_value(column.type, number, place + row) for row in range(len(cells))]


def _value(type_name: str, number: float, more: int) -> object:
    """
    >>> _value("bigint", 0.25, 2), _value("numeric(9,2)", 0.25, 2), _value("date", 1.0, 0)
    (3, '2.25', '2000-01-03')
    """
    kind = type_name.partition("(")[0]
    if kind in _INTEGERS:
        return (round(number) or 1) + more
    if kind in _FRACTIONS:
        return str(number + more)
    return {
        "date": "2000-01-03",
        "timestamp without time zone": "2000-01-03 00:00:00",
        "timestamp with time zone": "2000-01-03 00:00:00",
        "interval": "3 days",
    }.get(kind)
