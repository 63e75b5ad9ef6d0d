"""The results of the rewriter: plain values, without a tree of the SQL parser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Cells = tuple[tuple[str | None, ...], ...]
"""The cells of a known domain: one text (or NULL) a key column, as PostgreSQL prints it."""

UniqueColumn = tuple[tuple[str, ...], str]
"""(the parts of a table's name in the backend, the column)."""


@dataclass(frozen=True)
class HistogramQuery:
    """The SQL that the backend runs for one node.

    With a known domain its rows are (cell, counts...), one a cell, where `cell` numbers the node's cells from 1.
    Otherwise they are (keys..., counts...), at most a limit of rows, largest count first.

    Attributes:
        sql: the text.
        arrays: the parameters $1.., lists of text.
        rank_key: the last parameter is the secret key of the rank.
        integers: every column is an integer.
        unique: the columns along privacy unit paths that must be unique while the query runs. If a value repeated, a
            row would belong to two units.
    """

    sql: str
    arrays: tuple[tuple[str | None, ...], ...]
    rank_key: bool
    limit: int | None
    integers: bool = False
    unique: frozenset[UniqueColumn] = frozenset()


@dataclass(frozen=True)
class Presentation:
    """The statement that the front runs in place of the client's.

    Attributes:
        sql: its text. Parameters $1..$n are the client's; the released columns follow as arrays, node after node, keys
            before counts.
        transports: the element types of the arrays, "int8" or "text".
        constants: the statements of the constants, over the same parameters.
        errors: the outputs (node and place) whose standard deviations follow as arrays of text after all others.
    """

    sql: str
    transports: tuple[Literal["int8", "text"], ...]
    constants: tuple[str, ...] = ()
    errors: tuple[tuple[int, int], ...] = ()
