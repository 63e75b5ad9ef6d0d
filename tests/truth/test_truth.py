"""A short run of the truth oracle on each engine, and what it compares."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from tests.oracle.world import Server
from tests.truth.compare import answer_to, close, keys, same_rows
from tests.truth.run import run
from tests.truth.world import world

STATEMENTS = 150
FOUND = (
    # The keys were put in order by the constant's value, which the columns of the answer were not.
    "SELECT CASE WHEN lev IN (CAST('high' AS level), 'medium') THEN 'p' ELSE 'q' END,"
    " CASE WHEN lev >= 'medium' THEN 'r' ELSE 's' END, COUNT(*) FROM people GROUP BY 1, 2",
    # DuckDB rounds a text to the scale of the decimal that it is compared with.
    *(
        f"SELECT COUNT(*) FROM events WHERE {condition}"
        for condition in (
            "'2.500' = floor(amount)",
            "amount = '2.5004'",
            "amount IN ('2.5004', '7')",
            "amount = ANY ('{2.5004}')",
            "amount IS DISTINCT FROM '2.5004'",
            "NULLIF(amount, '2.5004') IS NULL",
            "greatest(amount, '2.5004') = 2.5004",
            "CASE WHEN amount > 0 THEN amount ELSE '2.5004' END = 2.5",
            "CASE amount WHEN '2.5004' THEN TRUE END",
            "amount < '-2.5004'",
        )
    ),
)
"""Statements whose answers were once others than PostgreSQL's."""
SAME_WITH_VALUES = (
    "SELECT lev = lower('HIGH')::level, lev = 'high', COUNT(*) FROM people GROUP BY 1, 2",
    "SELECT COUNT(*) FILTER (WHERE lev = lower('HIGH')::level), COUNT(*) FILTER (WHERE lev = 'high') FROM people",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("truth")
    for above in (folder, folder.parent):
        above.chmod(0o755)
    made = Server(folder)
    yield made
    made.close()


@pytest.mark.service
@pytest.mark.parametrize("engine", ["duckdb", "postgresql"])
def test_answers_without_noise_are_postgresqls(engine: str, server: Server, tmp_path: Path) -> None:
    with world(server, tmp_path, engine, "57") as asked:
        counted, findings = run(asked, "57", 600, STATEMENTS)
        asked.truth.execute(b"SET search_path = public")
        with asked.analyst("ben") as session:
            for sql in FOUND:
                assert same_rows(answer_to(asked.truth, sql), told := answer_to(session, sql)), (sql, told)
            for sql in SAME_WITH_VALUES:
                assert "are the same" in answer_to(session, sql).message
    assert not findings
    assert counted["answered"] > STATEMENTS / 3, counted


def test_values_that_differ_are_told() -> None:
    assert close(3, 3)
    assert not close(3, 4)
    assert close(None, 0)
    assert not close(None, 1)
    assert close(Decimal("2.5"), 2.5)
    assert not close(Decimal(1000), 1010.0)
    assert keys((Decimal("1.50"), "a"), 2) == keys((1.5, "a"), 2)
    assert keys(("a ", True), 2) != keys(("a", True), 2)
