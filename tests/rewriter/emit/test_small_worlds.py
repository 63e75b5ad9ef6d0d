"""Clipped totals over all small databases and all their neighbours, by the SQL that the backend runs.

Up to two units, three cells, totals from -1 to 2, lengths from 1 to 3: what one unit moves is no longer than the price
assumes, and is what mechanisms/unit_clip.v proves it of. Mistakes by one are found. All worlds are asked in one query:
each has cells and units of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import combinations_with_replacement, product

import duckdb
import pytest

from dpproxy.backends.duckdb.adapter import RAISING
from rewriter.emit.clipped_totals import Vectors, clipped_query
from rewriter.emit.engines.duckdb import DUCKDB
from rewriter.emit.other_queries import QueryContext
from rewriter.ir.measure import Vector
from rewriter.logical.plan import AggregateNode
from rewriter.logical.split import split_query
from rewriter.plan import HistogramQuery
from rewriter.policy import Column, Policy, Table
from tests.mechanisms import clip_law

CELLS, LENGTHS, SCALE = range(3), (1, 2, 3), 1
TOTALS = tuple(product(range(-1, 3), repeat=len(CELLS)))
WORLDS = [w for units in range(3) for w in combinations_with_replacement(range(len(TOTALS)), units)]
"""Each unit of a world has one of TOTALS."""
COLUMNS = tuple(Column(name, "bigint") for name in ("w", "unit", "k", "n"))
"""The unit is found by its name: one that comes behind it in the alphabet stands before it."""
POLICY = Policy(
    {("public", "t"): Table("public", "t", COLUMNS, False, ("t",), privacy_unit="unit")}, unit_clips=True
)
SQL = """
    SELECT w, k, SUM(n), SUM(n) FILTER (WHERE n < 100), SUM(n) FILTER (WHERE n < 101) FROM t GROUP BY w, k
"""
"""The same total for each of the lengths."""
Moved = list[int]


@cache
def asked() -> HistogramQuery:
    (node,) = split_query(SQL, POLICY).nodes
    assert isinstance(node, AggregateNode)
    # Keys are in canonical order: k, then w.
    cells = tuple((str(cell), str(world)) for world in range(len(WORLDS)) for cell in CELLS)
    vectors = [Vector(place) for place in range(len(LENGTHS))]
    query = Vectors(node, vectors, cells, QueryContext(POLICY, (), DUCKDB))
    return clipped_query(query, [(length, SCALE) for length in LENGTHS])


@cache
def database() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": "1", "disabled_optimizers": RAISING})
    rows = [
        (number, 2 * number + unit, cell, total)
        for number, world in enumerate(WORLDS)
        for unit, place in enumerate(world)
        for cell, total in enumerate(TOTALS[place])
    ]
    columns = [list(column) for column in zip(*rows, strict=True)]
    shown = ", ".join(f"unnest(?) AS {column.name}" for column in COLUMNS)
    connection.execute(f"CREATE TABLE t AS SELECT {shown}", columns)
    return connection


def moves(sql: str) -> Iterator[tuple[int, int, Moved]]:
    """For all neighbours: a length, whose totals the removed unit has, and what its removal moves in each cell."""
    found = {
        row[0] - 1: row[1:] for row in database().execute(sql, [list(a) for a in asked().arrays]).fetchall()
    }
    at, nothing = {world: number for number, world in enumerate(WORLDS)}, (0,) * len(LENGTHS)
    for world, number in at.items():
        for place, unit in enumerate(world):
            fewer = at[world[:place] + world[place + 1 :]]
            for n, length in enumerate(LENGTHS):
                sums = [
                    [found.get(len(CELLS) * w + cell, nothing)[n] for cell in CELLS] for w in (number, fewer)
                ]
                yield length, unit, [more - less for more, less in zip(*sums, strict=True)]


def too_long(sql: str) -> bool:
    """Whether some unit of some world moves more than the price of some length assumes."""
    return any(sum(v * v for v in moved) > (SCALE * length) ** 2 for length, _, moved in moves(sql))


def test_one_unit_of_any_small_world_moves_no_more_than_the_length() -> None:
    assert not too_long(asked().sql)


def test_it_moves_what_the_proof_is_about() -> None:
    expected = {
        (length, unit): clip_law.clipped(totals, length, SCALE)
        for length in LENGTHS
        for unit, totals in enumerate(TOTALS)
    }
    for length, unit, moved in moves(asked().sql):
        assert moved == expected[length, unit]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (r"FLOOR\(", "ROUND("),
        (r"FLOOR\(", "CEIL("),
        (r"(n\.q\d) <= 1", r"\1 <= 2"),
        (r"(n\.q\d) <= 4", r"\1 <= 5"),
        (r"n\.q(\d)", r"(u.v\1 * u.v\1)"),
        (r"JOIN n\s+ON u._o = n._o", "CROSS JOIN (SELECT * FROM n ORDER BY q0 LIMIT 1) AS n"),
    ],
    ids=["to nearest", "up", "longer at 1", "longer at 2", "length of a cell", "length of another unit"],
)
def test_small_worlds_tell_a_mistake(old: str, new: str) -> None:
    mutant, times = re.subn(old, new, asked().sql)
    assert times
    assert too_long(mutant)
