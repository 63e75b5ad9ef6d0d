"""No row decides whether a set operation of unlike numbers fails."""

from __future__ import annotations

from typing import Any

import duckdb
import psycopg
import pytest
from sqlglot import exp

from rewriter.emit.engines.base import Engine
from rewriter.emit.engines.duckdb import DUCKDB
from rewriter.emit.engines.neutral import NEUTRAL
from rewriter.emit.engines.postgres import POSTGRES
from rewriter.ir.trees import select
from rewriter.ir.types import Type
from rewriter.logical.plan import AggregateNode
from rewriter.logical.split import split_query
from tests.rewriter.emit.test_engines import rows_of
from tests.rewriter.shop import POLICY

UNHELD = (
    "SELECT user_id, quantity * 1e200 * 1e200 AS x FROM events UNION ALL SELECT user_id, amount FROM events",
    "SELECT user_id, amount AS x FROM events EXCEPT SELECT user_id, quantity * 1e200 * 1e200 FROM events",
    "SELECT user_id, event_id * 1000 AS x FROM events UNION ALL SELECT user_id, 1e-36 FROM users",
    "SELECT user_id, event_id * 1000.5 AS x FROM events UNION SELECT user_id, 1e-36 FROM users",
    "SELECT user_id, SUM(quantity) * 100000000 AS x FROM events GROUP BY user_id "
    "UNION ALL SELECT user_id, 0.123456789012345678901234567890123456 FROM users",
)


@pytest.mark.service
@pytest.mark.parametrize("rows", UNHELD)
def test_numbers_that_the_common_type_cannot_hold_are_null(
    rows: str, backend: duckdb.DuckDBPyConnection, postgres: psycopg.Connection
) -> None:
    (node,) = split_query(f"SELECT COUNT(*) FROM ({rows}) t", POLICY).nodes
    assert isinstance(node, AggregateNode)
    for engine, dialect in ((backend, DUCKDB), (postgres, POSTGRES)):
        assert rows_of(node, engine, dialect, None)


VALUES: tuple[tuple[str, Type, Type, Any, Any], ...] = (
    # A number, its type and that of both sides, and what PostgreSQL and DuckDB make of it.
    ("0.1::numeric", Type.NUMERIC, Type.FLOAT4, 0.1, 0.1),
    ("16777217", Type.INT4, Type.FLOAT4, 16777216.0, 16777216.0),
    ("0.5::numeric", Type.NUMERIC, Type.FLOAT8, 0.5, 0.5),
    ("0::numeric", Type.NUMERIC, Type.FLOAT4, 0.0, 0.0),
    ("9007199254740993", Type.INT8, Type.FLOAT8, 9007199254740992.0, 9007199254740992.0),
    ("1e39::numeric", Type.NUMERIC, Type.FLOAT4, None, ...),
    ("-1e39::numeric", Type.NUMERIC, Type.FLOAT4, None, ...),
    ("1e-46::numeric", Type.NUMERIC, Type.FLOAT4, None, ...),
    ("1e-44::numeric", Type.NUMERIC, Type.FLOAT4, 1e-44, ...),
    ("3.4e38::numeric", Type.NUMERIC, Type.FLOAT4, 3.4e38, ...),
    ("1e400::numeric", Type.NUMERIC, Type.FLOAT8, None, ...),
    ("1e-400::numeric", Type.NUMERIC, Type.FLOAT8, None, ...),
    ("1.7e308::numeric", Type.NUMERIC, Type.FLOAT8, 1.7e308, ...),
    ("-1e-320::numeric", Type.NUMERIC, Type.FLOAT8, -1e-320, ...),
    ("'Infinity'::numeric", Type.NUMERIC, Type.FLOAT8, float("inf"), ...),
    ("'NaN'::numeric", Type.NUMERIC, Type.FLOAT4, float("nan"), ...),
    ("340282366920938463463374607431768211455::uhugeint", Type.NUMERIC, Type.NUMERIC, ..., None),
    ("repeat('9', 400)::bignum", Type.NUMERIC, Type.FLOAT4, ..., None),
    ("'12'::bignum", Type.NUMERIC, Type.FLOAT4, ..., 12.0),
    ("['99999999999999999999999999999'::hugeint, 1]", Type.NUMERIC_ARRAY, Type.NUMERIC_ARRAY, ..., [None, 1]),
)


@pytest.mark.service
@pytest.mark.parametrize(("text", "own", "target", "in_postgres", "in_duckdb"), VALUES)
def test_the_conversion_of_a_side(
    text: str,
    own: Type,
    target: Type,
    in_postgres: object,
    in_duckdb: object,
    backend: duckdb.DuckDBPyConnection,
    postgres: psycopg.Connection,
) -> None:
    def sql(dialect: Engine) -> str:
        value = dialect.converted(exp.column("v"), own, target)
        return f"{dialect.sql(select(value))} FROM (SELECT {text} AS v) AS s"

    if in_postgres is not ...:
        assert postgres.execute(sql(POSTGRES).encode()).fetchall() == [
            (pytest.approx(in_postgres, nan_ok=True),)
        ]
    if in_duckdb is not ...:
        assert backend.execute(sql(DUCKDB)).fetchall() == [(pytest.approx(in_duckdb),)]


def test_a_release_key_has_no_conversion() -> None:
    value = exp.column("v")
    assert NEUTRAL.converted(value, Type.NUMERIC, Type.FLOAT8) is value
