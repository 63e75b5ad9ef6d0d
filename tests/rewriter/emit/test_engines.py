"""One question with one key over the same data has one histogram on every engine, ties and truncation included."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import duckdb
import psycopg
import pytest

from dpproxy.backends.base import text
from rewriter.emit.engines.base import Engine
from rewriter.emit.engines.duckdb import DUCKDB
from rewriter.emit.engines.postgres import POSTGRES
from rewriter.emit.histogram import histogram_query
from rewriter.ir.measure import Count
from rewriter.logical.plan import AggregateNode
from rewriter.logical.split import split_query
from rewriter.policy import Policy
from tests.rewriter.engine import cells_of
from tests.rewriter.queries import ANSWERED, TRUNCATED
from tests.rewriter.shop import EVENTS, POLICY

pytestmark = pytest.mark.service

TIED = (
    "SELECT birth_year, COUNT(*) FROM users GROUP BY birth_year",
    "SELECT signup_date, COUNT(*) FROM users WHERE signup_date <> '2024-01-01' GROUP BY 1",
    "SELECT amount, COUNT(DISTINCT user_id) FROM events GROUP BY amount ORDER BY 2 DESC LIMIT 30",
    "SELECT amount * 0.0, COUNT(DISTINCT user_id) FROM events GROUP BY 1 ORDER BY 2 DESC LIMIT 30",
    "SELECT ts, COUNT(DISTINCT user_id) FROM events GROUP BY ts ORDER BY 2 DESC LIMIT 30",
    "SELECT device, quantity, COUNT(DISTINCT user_id) FROM events GROUP BY 1, 2 ORDER BY 3 DESC LIMIT 30",
    "SELECT quantity * 0.5, COUNT(DISTINCT user_id) FROM events GROUP BY 1 ORDER BY 2 DESC LIMIT 30",
    "SELECT quantity > 1, device IS NULL, COUNT(DISTINCT user_id) FROM events GROUP BY 1, 2",
    "SELECT upper(job_title) || country, COUNT(*) FROM users GROUP BY 1",
    "SELECT job_title, left(email_like, 2), COUNT(*) FROM (SELECT user_id, job_title, job_title AS email_like "
    "FROM users) u GROUP BY 1, 2",
    "SELECT date_trunc('hour', ts), COUNT(DISTINCT user_id) FROM events GROUP BY 1 ORDER BY 2 DESC LIMIT 30",
)


def normal(value: object) -> object:
    if isinstance(value, float):
        return value + 0.0
    return value if value is None or isinstance(value, (int, Decimal)) else text(value)


def rows_of(
    node: AggregateNode, engine: duckdb.DuckDBPyConnection | psycopg.Connection, dialect: Engine, cells: Any
) -> list[tuple[object, ...]]:
    query = histogram_query(node, POLICY, (), cells, node.bound.value, 20, dialect)
    bound: list[Any] = [list(a) for a in query.arrays] + (["secret"] if query.rank_key else [])
    if isinstance(engine, psycopg.Connection):
        rows = psycopg.RawCursor(engine).execute(query.sql.encode(), bound or None).fetchall()
    else:
        rows = engine.execute(query.sql, bound).fetchall()
    return [tuple(map(normal, row)) for row in rows]


@pytest.mark.parametrize("sql", [*ANSWERED, *TRUNCATED, *TIED])
def test_both_engines_have_one_histogram(
    sql: str, backend: duckdb.DuckDBPyConnection, postgres: psycopg.Connection
) -> None:
    for node in split_query(sql, POLICY).nodes:
        if not isinstance(node, AggregateNode) or not node.measures or type(node.measures[0]) is not Count:
            continue
        cells = cells_of(node, postgres)
        found = rows_of(node, backend, DUCKDB, cells), rows_of(node, postgres, POSTGRES, cells)
        if cells is not None:
            found = sorted(found[0], key=str), sorted(found[1], key=str)
        assert found[0] == found[1]


@pytest.mark.parametrize(
    "condition",
    [
        "e.event_id IN (SELECT event_id FROM events WHERE action = 'like')",
        "e.quantity NOT IN (SELECT u.birth_year FROM users u WHERE u.user_id = e.user_id)",
    ],
)
def test_postgresql_joins_the_rows_that_a_condition_looks_up(
    condition: str, backend: duckdb.DuckDBPyConnection, postgres: psycopg.Connection
) -> None:
    """One by one, for each row all others, it takes hours."""
    columns = tuple(replace(c, of_unit=c.name == "event_id") for c in EVENTS.columns)
    policy = Policy({**POLICY.tables, ("public", "events"): replace(EVENTS, columns=columns)})
    (node,) = split_query(f"SELECT COUNT(*) FROM events e WHERE {condition}", policy).nodes
    assert isinstance(node, AggregateNode)
    query = histogram_query(node, policy, (), ((),), node.bound.value, 20, POSTGRES)
    plan = postgres.execute(f"EXPLAIN {query.sql}".encode()).fetchall()
    assert not any("SubPlan" in line for (line,) in plan), plan
    assert rows_of(node, backend, DUCKDB, ((),)) == rows_of(node, postgres, POSTGRES, ((),))
