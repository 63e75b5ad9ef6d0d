"""The whole way of a query over a PostgreSQL backend."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from tests.dpproxy.postgres_data import Databases, databases
from tests.dpproxy.serving import POLICY, TOWNS, USERS, Running, command, make, serving

pytestmark = pytest.mark.service

SERVER = """
[server]
auth = "trust"
[budget.dataset]
[privacy]
epsilon_per = 8
query_information = 8
"""
TOWN = f"(ARRAY['{TOWNS[0]}', '{TOWNS[1]}', '{TOWNS[2]}'])[1 + i % 3]"
PEOPLE = (
    "CREATE TABLE people (person_id integer PRIMARY KEY, town character varying(20) NOT NULL)",
    f"INSERT INTO people SELECT i, {TOWN} FROM generate_series(0, {USERS - 1}) r(i)",
    "CREATE TABLE visits (person_id integer NOT NULL, room integer, seconds integer)",
    f"INSERT INTO visits SELECT i, i % 4, 30 FROM generate_series(0, {USERS - 1}) r(i)",
    "CREATE TABLE rooms (room integer PRIMARY KEY, floor integer NOT NULL)",
    "INSERT INTO rooms SELECT i, i % 2 FROM generate_series(0, 3) r(i)",
)
QUESTIONS = (
    "SELECT town, COUNT(*) AS n FROM people GROUP BY town ORDER BY town",
    "SELECT town, COUNT(*) FROM people WHERE person_id % 7 < 3 AND lower(town) LIKE '%n%' GROUP BY 1 ORDER BY 1",
    "SELECT room, COUNT(DISTINCT person_id) FROM visits GROUP BY room ORDER BY 2 DESC LIMIT 3",
    "SELECT floor, COUNT(*) FROM visits JOIN rooms USING (room) GROUP BY floor ORDER BY floor",
    "SELECT COUNT(*) FROM people WHERE person_id IN (SELECT person_id FROM visits WHERE seconds / (room - 1) > 9)",
)


@dataclass(frozen=True)
class Whole:
    """A deployment and the server with its data."""

    running: Running
    database: str
    server: Databases
    folder: Path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    folder: Path = tmp_path_factory.mktemp("postgres_whole")
    with databases(folder / "data") as server:
        database = server.make(PEOPLE)
        make(folder, POLICY.replace("duckdb:///people.duckdb", server.url(database)) + SERVER)
        (folder / "people.duckdb").unlink()
        with serving(["serve", "--port", "0"], folder=folder) as running:
            yield Whole(running, database, server, folder)


def test_check(whole: Whole) -> None:
    done = command("check", "--json", folder=whole.folder)
    assert done.returncode == 0, done.stderr
    assert {"people", "visits", "rooms"} <= {
        name.rpartition(".")[2] for name in json.loads(done.stdout)["tables"]
    }


@pytest.mark.parametrize("sql", QUESTIONS)
def test_answers_are_near_the_truth(whole: Whole, sql: str) -> None:
    with whole.running.connect("ann") as connection:
        released = connection.execute(sql.encode()).fetchall()
        again = connection.execute(sql.encode()).fetchall()
    with whole.server.owner(whole.database) as owner:
        truth = {row[:-1]: row[-1] for row in owner.execute(exact(sql).encode())}
    assert released
    assert again == released
    assert all(abs(row[-1] - truth[row[:-1]]) < 40 for row in released)


def exact(sql: str) -> str:
    """What PostgreSQL can compute over all groups."""
    return sql.replace(" LIMIT 3", "").replace("(room - 1)", "NULLIF(room - 1, 0)")


def test_public_tables_are_copied(whole: Whole) -> None:
    with whole.running.connect("ann") as connection:
        assert connection.execute("SELECT room, floor FROM rooms ORDER BY room").fetchall() == [
            (0, 0),
            (1, 1),
            (2, 0),
            (3, 1),
        ]


def test_an_error_of_the_backend_is_masked_and_another_question_is_answered(whole: Whole) -> None:
    with whole.server.owner(whole.database) as owner, whole.running.connect("ann") as connection:
        owner.execute("REVOKE SELECT ON visits FROM reader")
        try:
            with pytest.raises(psycopg.Error) as caught:
                connection.execute("SELECT COUNT(*) FROM visits WHERE seconds > 29")
        finally:
            owner.execute("GRANT SELECT ON visits TO reader")
        assert caught.value.diag.sqlstate == "PV090"
        assert "permission" not in str(caught.value)
        row = connection.execute("SELECT COUNT(*) FROM visits WHERE seconds > 28").fetchone()
        assert row is not None
        assert abs(row[0] - USERS) < 200


def test_connections_that_the_server_ended_are_made_anew(whole: Whole) -> None:
    with whole.server.owner("postgres") as owner:
        owner.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'reader'")
    with whole.running.connect("ann") as connection:
        row = connection.execute("SELECT COUNT(*) FROM people WHERE person_id > 3").fetchone()
    assert row is not None
    assert abs(row[0] - USERS) < 100


def test_a_role_that_may_write_is_told_to_the_owner(whole: Whole, tmp_path: Path) -> None:
    url = whole.server.url(whole.database, whole.server.server.user, whole.server.server.password)
    (tmp_path / "dpproxy.toml").write_text(POLICY.replace("duckdb:///people.duckdb", url) + SERVER)
    done = command("check", folder=tmp_path)
    assert done.returncode != 0
    assert "superuser" in done.stderr
    assert "CREATE ROLE reader" in done.stderr
