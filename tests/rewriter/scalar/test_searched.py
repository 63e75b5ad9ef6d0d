"""A text that is sought in a column of arrays: every engine answers as PostgreSQL does, also for NULLs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import psycopg
import pytest
from sqlglot import parse_one

from rewriter.binder.names import resolve
from rewriter.emit.engines.duckdb import DUCKDB
from rewriter.emit.engines.postgres import POSTGRES
from rewriter.ir.relation import Field, Relation, Source, leaf
from rewriter.policy import Column, Table
from rewriter.scalar.typecheck import check_condition
from rewriter.syntax.postgres_dialect import Reading

pytestmark = pytest.mark.service

TABLE = Table(
    schema="public",
    name="t",
    columns=(Column("id", "bigint"), Column("a", "text[]")),
    public=False,
    backend_name=("t",),
    privacy_unit="id",
)
RELATION = Relation(
    (Source("t0", TABLE, True),), scope=(("t0", tuple(Field(n, leaf("t0", n)) for n in ("id", "a"))),)
)
ARRAYS = ("['nuts', 'latex']", "['latex']", "['latex', NULL]", "['nuts', NULL]", "[NULL]", "[]")


@pytest.mark.parametrize(
    "sql",
    [
        "'nuts' = ANY (a)",
        "NOT 'nuts' = ANY ((a))",
        "('nuts' = ANY (a)) IS NULL",
        "'nuts' = ANY (a) AND id > 0",
    ],
)
def test_engines_agree(postgres: psycopg.Connection, sql: str) -> None:
    base = resolve(parse_one(sql, dialect=Reading), RELATION)
    check_condition(base, RELATION, ())

    def answers(run: Callable[[str], Any], text: str, array: str) -> list[object]:
        rows = [f"{array}{element}" for element in ARRAYS] + ["NULL"]
        return [
            run(f"SELECT {text} FROM (SELECT 1 AS id, CAST({r} AS text[]) AS a) AS t0").fetchall()
            for r in rows
        ]

    def in_postgres(text: str) -> Any:
        return postgres.execute(text.encode())

    meant = answers(in_postgres, sql, "ARRAY")
    assert answers(in_postgres, POSTGRES.sql(POSTGRES.expression(base, RELATION, ())), "ARRAY") == meant
    with duckdb.connect() as connection:
        assert answers(connection.execute, DUCKDB.sql(DUCKDB.expression(base, RELATION, ())), "") == meant
