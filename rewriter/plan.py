"""What the rewriter hands over: plain values that can be read without knowing a SQL parser."""

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

    With a known domain the rows are (cell, counts...), `cell` counting from 1 over the node's cells, one row a cell;
    otherwise (keys..., counts...), at most `limit` rows, largest count first.
    `arrays` are bound as $1.. (lists of text); `rank_key` says that the last parameter is the
    secret of the keyed order; `integers`, that nothing but integers come. `unique` are the columns along privacy unit
    paths that have to be unique while the query runs: with two rows of one key a row would be of two units.
    """

    sql: str
    arrays: tuple[tuple[str | None, ...], ...]
    rank_key: bool
    limit: int | None
    integers: bool = False
    unique: frozenset[UniqueColumn] = frozenset()


@dataclass(frozen=True)
class Presentation:
    """The statement that the front runs in place of the client's: parameters $1..$n are the client's own,
    the released columns follow, as arrays of `transports` ("int8" or "text"), node after node, keys
    before counts. `constants` are the statements of the constants, over the same parameters. `errors` are the
    outputs (node and place) whose standard deviations follow, as arrays of text behind all others."""

    sql: str
    transports: tuple[Literal["int8", "text"], ...]
    constants: tuple[str, ...] = ()
    errors: tuple[tuple[int, int], ...] = ()
