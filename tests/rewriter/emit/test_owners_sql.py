"""What the owner wrote stands innermost, word for word, and in nothing that analysts see."""

from __future__ import annotations

import pytest

from rewriter.emit.engines.base import Engine
from rewriter.emit.engines.duckdb import DUCKDB
from rewriter.emit.engines.neutral import NEUTRAL
from rewriter.emit.engines.postgres import POSTGRES
from rewriter.policy import Column, Table

TABLE = Table(
    "clinic",
    "Patients",
    (
        Column("id", "bigint"),
        Column("consent", "boolean", expression="(doc->>'c')::boolean"),
        Column("doc", "jsonb", hidden=True),
    ),
    False,
    ("clinic", "Patients"),
    privacy_unit="id",
    where='gone IS NULL\nAND "Patients".ok',
)


@pytest.mark.parametrize(
    ("engine", "sql"),
    [
        (
            DUCKDB,
            '(SELECT "id", TRY((doc->>\'c\')::boolean) AS "consent" FROM "clinic"."Patients" '
            'WHERE TRY(gone IS NULL AND "Patients".ok)) AS s',
        ),
        (
            POSTGRES,
            '(SELECT "id", ((doc->>\'c\')::boolean) AS "consent" FROM "clinic"."Patients" '
            'WHERE (gone IS NULL AND "Patients".ok) OFFSET 0) AS s',
        ),
        (
            NEUTRAL,
            '(SELECT "id", ((doc->>\'c\')::boolean) AS "consent" FROM "clinic"."Patients" '
            'WHERE (gone IS NULL AND "Patients".ok)) AS s',
        ),
    ],
    ids=["duckdb", "postgres", "neutral"],
)
def test_the_rows_of_a_table(engine: Engine, sql: str) -> None:
    written = " ".join(engine.sql(engine.rows(TABLE, ["consent", "id"], "s")).split())
    assert written.replace("( ", "(").replace(" )", ")") == sql
    shown = engine.closed().rows(TABLE, ["consent", "id"], "s")
    assert shown.sql() == '"clinic"."Patients" AS s'


@pytest.mark.parametrize(
    "text", ["a OR b", "f(a, (b))", "CASE WHEN a THEN 'it''s )' END", "a = '--' OR b = ';'"]
)
@pytest.mark.parametrize("engine", [DUCKDB, POSTGRES], ids=["duckdb", "postgres"])
def test_quotes_hold_what_they_hold(engine: Engine, text: str) -> None:
    engine.called_functions(text)


OUTSIDE = ("", "a)", "(a", "a) OR (b", "a; b", "a -- b", "a /* b", "'a", "SELECT 1", "(SELECT 1)")


@pytest.mark.parametrize("text", OUTSIDE)
@pytest.mark.parametrize("engine", [DUCKDB, POSTGRES], ids=["duckdb", "postgres"])
def test_nothing_leaves_its_parentheses(engine: Engine, text: str) -> None:
    with pytest.raises(ValueError, match=r"is not understood|has a "):
        engine.called_functions(text)
