"""Runs a plan without noise: domains and types from PostgreSQL, histograms from DuckDB, the presentation on top."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import duckdb
import psycopg

from dpproxy.backends.base import text
from rewriter.emit.engines.duckdb import DUCKDB
from rewriter.emit.histogram import histogram_query, types_query
from rewriter.logical.key_domains import known_cells
from rewriter.logical.plan import AggregateNode, SystemTableNode
from rewriter.logical.presentation import ReleasedColumns, node_columns, present
from rewriter.logical.split import split_query
from rewriter.plan import Cell, Cells, HistogramQuery
from rewriter.scalar.typecheck import Parameter
from tests.rewriter.shop import POLICY

Key = tuple[str | None, ...]
MANY = 1_000_000


def cells_of(
    node: AggregateNode, postgres: psycopg.Connection, parameters: Sequence[Parameter] = ()
) -> Cells | None:
    """The known domain's cells, as texts."""
    if not node.keys:
        return ((),)
    return known_cells(node.relation, node.keys, POLICY, parameters, partial(texts, postgres))


def histogram(
    node: AggregateNode,
    backend: duckdb.DuckDBPyConnection,
    cells: Cells | None,
    parameters: Sequence[Parameter] = (),
) -> dict[Key, tuple[int, ...]]:
    """Exact counts by group, over every cell of a known domain."""
    return counts(written(node, cells, parameters), len(node.keys), backend, cells)


def written(node: AggregateNode, cells: Cells | None, parameters: Sequence[Parameter] = ()) -> HistogramQuery:
    """What DuckDB runs for the counts of a node."""
    return histogram_query(node, POLICY, parameters, cells, node.bound.value, MANY, DUCKDB)


def counts(
    query: HistogramQuery, width: int, backend: duckdb.DuckDBPyConnection, cells: Cells | None
) -> dict[Key, tuple[int, ...]]:
    """What a query of so many keys counts in a database."""
    bound: list[Any] = [list(a) for a in query.arrays] + (["secret"] if query.rank_key else [])
    found = backend.execute(query.sql, bound).fetchall()
    if cells is not None:
        assert sorted(row[0] for row in found) == list(range(1, len(cells) + 1))
        return {cells[row[0] - 1]: tuple(row[1:]) for row in found}
    return {tuple(text(v) for v in row[:width]): tuple(row[width:]) for row in found}


def texts(postgres: psycopg.Connection, sql: str) -> list[Cell]:
    """The rows of a statement in PostgreSQL, as the texts that it prints."""
    result = postgres.execute(sql.encode()).pgresult
    assert result is not None
    rows = [
        [result.get_value(row, column) for column in range(result.nfields)] for row in range(result.ntuples)
    ]
    return [tuple(None if value is None else value.decode() for value in row) for row in rows]


def executed(
    postgres: psycopg.Connection,
    sql: str,
    parameters: Sequence[Parameter] = (),
    arrays: Sequence[list[Any]] = (),
) -> list[tuple[Any, ...]]:
    """The rows of a statement in PostgreSQL: $1.. are the parameters, arrays of whole numbers or texts follow."""
    if not parameters and not arrays:
        return postgres.execute(sql.encode()).fetchall()
    types = [p.type for p in parameters]
    types += ["bigint[]" if any(isinstance(v, int) for v in a) else "text[]" for a in arrays]
    postgres.execute(f"PREPARE q ({', '.join(types)}) AS {sql}".encode())
    try:
        values = [*(p.value for p in parameters), *arrays]
        places = ", ".join(["%s"] * len(values))
        return psycopg.ClientCursor(postgres).execute(f"EXECUTE q ({places})".encode(), values).fetchall()
    finally:
        postgres.execute("DEALLOCATE q")


def released_columns(
    node: AggregateNode, postgres: psycopg.Connection, parameters: Sequence[Parameter] = ()
) -> ReleasedColumns:
    """The node's columns with PostgreSQL's types for its keys."""
    return node_columns(node, described(postgres, types_query(node, parameters, len(parameters)), parameters))


def described(postgres: psycopg.Connection, sql: str, parameters: Sequence[Parameter] = ()) -> list[str]:
    """The types of a statement's columns as PostgreSQL names them; no row of it is computed."""
    types = f"({', '.join(p.type for p in parameters)})" if parameters else ""
    postgres.execute(f"PREPARE t {types} AS SELECT * FROM ({sql}) AS k LIMIT 0".encode())
    try:
        nulls = f"({', '.join(['NULL'] * len(parameters))})" if parameters else ""
        columns = postgres.execute(f"EXECUTE t {nulls}".encode()).description or ()
        names = [postgres.execute("SELECT format_type(%s, NULL)", [c.type_code]).fetchone() for c in columns]
        return [str(name[0]) for name in names if name is not None]
    finally:
        postgres.execute("DEALLOCATE t")


def answer(
    sql: str,
    backend: duckdb.DuckDBPyConnection,
    postgres: psycopg.Connection,
    parameters: Sequence[Parameter] = (),
) -> list[tuple[Any, ...]]:
    """What an analyst would get if mechanisms added nothing."""
    logical = split_query(sql, POLICY, parameters)
    columns: list[ReleasedColumns] = []
    arrays: list[list[Any]] = []
    for node in logical.nodes:
        assert not isinstance(node, SystemTableNode)
        counted = histogram(node, backend, cells_of(node, postgres, parameters), parameters)
        columns.append(released_columns(node, postgres, parameters))
        arrays += [[key[n] for key in counted] for n in range(len(node.keys))]
        arrays += [[value[o.measures[0]] for value in counted.values()] for o in node.outputs]
    presentation = present(logical, columns, None)
    return executed(postgres, presentation.sql, parameters, arrays)
