"""What the owner wrote stands innermost, word for word, and in nothing that analysts see."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rewriter.emit.engines.base import Engine
from rewriter.emit.engines.duckdb import DUCKDB
from rewriter.emit.engines.neutral import NEUTRAL
from rewriter.emit.engines.postgres import POSTGRES
from rewriter.plan import HistogramQuery
from rewriter.policy import Column, Policy, Table
from tests.rewriter.emit import test_enforced_sql
from tests.rewriter.emit.test_enforced_sql import nodes_of, unbounded
from tests.rewriter.queries import ANSWERED, TRUNCATED
from tests.rewriter.shop import POLICY

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


@pytest.mark.statistical
def test_each_query_is_sent_with_the_trials_of_what_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    marks = {name: f"'{name} stays' <> ''" for _, name in POLICY.tables}
    policy = Policy(
        {key: replace(table, where=marks[table.name]) for key, table in POLICY.tables.items()},
    )
    made: list[HistogramQuery] = []
    make = HistogramQuery.__init__

    def noted(query: HistogramQuery, *args: Any, **named: Any) -> None:
        make(query, *args, **named)
        made.append(query)

    monkeypatch.setattr(HistogramQuery, "__init__", noted)
    monkeypatch.setattr(test_enforced_sql, "DIALECTS", (("postgres", POSTGRES),))
    for sql in (*ANSWERED, *TRUNCATED):
        assert not [*unbounded(sql, nodes_of(sql, policy), policy)]
    assert len(made) > 150
    for query in made:
        tried = "".join(query.trials)
        assert {m for m in marks.values() if m in query.sql} == {m for m in marks.values() if m in tried}, (
            query.sql
        )
