"""How DuckDB, set up as the proxy sets it up, would join the tables of a query."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb

from dpproxy.backends.duckdb.adapter import RAISING
from rewriter.plan import HistogramQuery

_ROW_BY_ROW = ("CROSS_PRODUCT", "NESTED_LOOP_JOIN", "BLOCKWISE_NL_JOIN")
_OF_CONSTANTS = ("PROJECTION", "FILTER", "COLUMN_DATA_SCAN", "DUMMY_SCAN")
"""What a side is made of that has the few rows that the query itself lists, such as the numbers of its measures."""


def joined_row_by_row(file: Path, queries: Sequence[HistogramQuery]) -> list[str]:
    """Those of the queries in which each row of one side is compared with each row of the other, with the operator."""
    with duckdb.connect(":memory:", config={"disabled_optimizers": RAISING}) as connection:
        connection.execute(f"ATTACH '{file}' AS data (READ_ONLY)")
        connection.execute("USE data")
        plans = [(query.sql, plan(connection, query.sql, _values(query))) for query in queries]
    return [f"{operator}: {sql}" for sql, root in plans for operator in row_by_row(root)]


def plan(connection: duckdb.DuckDBPyConnection, sql: str, values: Sequence[object] = ()) -> dict[str, Any]:
    """The root of a plan, with its `name` and `children`."""
    row = connection.execute(f"EXPLAIN (FORMAT JSON) {sql}", list(values)).fetchone()
    assert row is not None
    root: dict[str, Any] = json.loads(row[1])[0]
    return root


def row_by_row(node: dict[str, Any]) -> Iterator[str]:
    """The operators of a plan that compare each row with each."""
    if node["name"] in _ROW_BY_ROW and not any(map(_lists_rows, node["children"])):
        yield node["name"]
    for child in node["children"]:
        yield from row_by_row(child)


def _lists_rows(node: dict[str, Any]) -> bool:
    return node["name"] in _OF_CONSTANTS and all(map(_lists_rows, node["children"]))


def _values(query: HistogramQuery) -> list[object]:
    """Its parameters: where the groups of a round are not known yet, one group."""
    arrays: list[object] = [["1"] for _ in query.arrays]
    with suppress(IndexError):
        arrays = [list(array) for array in query.arrays]
    return [*arrays, *(["0" * 64] if query.rank_key else [])]
