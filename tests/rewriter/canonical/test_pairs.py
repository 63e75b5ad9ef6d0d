"""Spellings of a question have one text, near misses another; what is merged has the same answer on data."""

from __future__ import annotations

from pathlib import Path

import duckdb
import psycopg
import pytest

from rewriter.emit.histogram import node_text
from rewriter.logical.plan import AggregateNode
from rewriter.logical.split import split_query
from tests.rewriter.engine import answer
from tests.rewriter.shop import POLICY

FOLDER = Path(__file__).parent
COUNT = "SELECT COUNT(*) FROM users WHERE "


def groups(name: str) -> list[list[str]]:
    return [block.splitlines() for block in (FOLDER / name).read_text().strip().split("\n\n")]


CONDITIONS = [[COUNT + c for c in group] for group in groups("equivalent.txt")]
QUERIES = groups("equivalent_queries.txt")
EQUIVALENT = CONDITIONS + QUERIES
NEAR_MISSES = [COUNT + line for line in (FOLDER / "near_misses.txt").read_text().splitlines()]


def texts(sql: str) -> list[tuple[str, int | None]]:
    """Each node's text, with its top-k form: that decides the mechanism."""
    nodes = [n for n in split_query(sql, POLICY).nodes if isinstance(n, AggregateNode)]
    return [(node_text(n, POLICY, ())[0], n.k) for n in nodes]


@pytest.mark.parametrize("group", EQUIVALENT, ids=lambda group: group[0][:80])
def test_equal_questions_are_one(group: list[str]) -> None:
    first = texts(group[0])
    assert [sql for sql in group if texts(sql) != first] == []


def test_unequal_questions_are_never_one() -> None:
    asked = [*NEAR_MISSES, *(group[0] for group in QUERIES)]
    found: dict[str, str] = {}
    for sql in asked:
        ((text, _),) = texts(sql)
        assert text not in found, f"{sql} became {found[text]}"
        found[text] = sql
    assert len(NEAR_MISSES) >= 60
    assert sum(len(group) - 1 for group in EQUIVALENT) >= 70


@pytest.mark.service
@pytest.mark.parametrize("group", CONDITIONS, ids=lambda group: group[0][-80:])
def test_what_is_merged_has_one_answer(
    group: list[str], backend: duckdb.DuckDBPyConnection, postgres: psycopg.Connection
) -> None:
    ours = answer(group[0], backend, postgres)
    assert [sql for sql in group if postgres.execute(sql.encode()).fetchall() != ours] == []


@pytest.mark.service
@pytest.mark.parametrize("sql", NEAR_MISSES, ids=lambda sql: sql[35:])
def test_the_canonical_form_means_what_was_written(
    sql: str, backend: duckdb.DuckDBPyConnection, postgres: psycopg.Connection
) -> None:
    assert answer(sql, backend, postgres) == postgres.execute(sql.encode()).fetchall()
