"""psql and psycopg where answers are scripted: notices, pipelines and errors in them, and one step an execution.

tests/clients has every client and feature over a whole service.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from typing import Any, LiteralString

import psycopg
import pytest

from dpproxy.front.front import Front
from tests.dpproxy.wire import (
    AGES,
    BY_AGE,
    BY_COUNTRY,
    EXHAUSTED,
    EXPECTED,
    NOTED,
    OLDER,
    ROWS,
    Served,
    served,
)

pytestmark = pytest.mark.client

OLDER_THAN = OLDER.replace("$1", "%s")


@pytest.fixture(scope="module")
def shared_server(wire_front: Front) -> Iterator[Served]:
    """One server with passwords for all clients."""
    with served(wire_front, auth="scram") as server:
        yield server


@pytest.fixture
def scram(shared_server: Served) -> Served:
    """That server, with nothing asked yet."""
    shared_server.answering.steps.clear()
    return shared_server


def connected(server: Served, **more: Any) -> psycopg.Connection[tuple[Any, ...]]:
    """psycopg with TLS and the right password."""
    return server.connect(password="pencil", sslmode="require", **more)


def run_psql(
    psql: str, server: Served, *commands: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """psql with these commands, without a start-up file."""
    arguments = [part for command in commands for part in ("-c", command)]
    return subprocess.run(
        [psql, "-X", "-d", server.conninfo(sslmode="require"), *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={**os.environ, "PGPASSWORD": "pencil", **environment},
    )


def test_psql_asks(psql: str, scram: Served) -> None:
    done = run_psql(psql, scram, BY_COUNTRY, NOTED)
    assert done.stdout.splitlines()[:4] == [
        " country |  n  ",
        "---------+-----",
        " US      | 500",
        " DE      | 400",
    ]
    assert done.stderr.splitlines() == ["NOTICE:  noise of 3", "NOTICE:  in full", "WARNING:  in vain"]
    assert len(scram.answering.steps) == 2


def test_psql_points_at_what_is_refused(psql: str, scram: Served) -> None:
    done = run_psql(psql, scram, r"\set VERBOSITY verbose", ROWS, "SELECT 'and on'")
    assert done.stderr.splitlines() == [
        "ERROR:  PV010: row-level output",
        "LINE 1: SELECT * FROM people",
        "               ^",
        "DETAIL:  rule 43",
        "HINT:  aggregate it",
    ]
    assert "and on" in done.stdout


def test_psql_in_a_transaction(psql: str, scram: Served) -> None:
    done = run_psql(psql, scram, "BEGIN", EXHAUSTED, BY_COUNTRY, "ROLLBACK", BY_COUNTRY)
    assert "privacy budget exhausted" in done.stderr
    assert "current transaction is aborted" in done.stderr
    assert done.stdout.count("US") == 1


@pytest.mark.parametrize("binary", [False, True])
def test_psycopg(scram: Served, binary: bool) -> None:
    with connected(scram, autocommit=True) as connection:
        cursor = connection.cursor(binary=binary)
        assert cursor.execute(BY_COUNTRY).fetchall() == EXPECTED
        assert cursor.execute(OLDER_THAN, (30,)).fetchall() == [(c, n + 30) for c, n in EXPECTED]
        assert [step[1] for step in scram.answering.steps] == [(), ("30",)]


@pytest.mark.parametrize("binary", [False, True])
def test_psycopg_prepared(scram: Served, binary: bool) -> None:
    with connected(scram, autocommit=True) as connection:
        for age in range(3):
            cursor = connection.execute(OLDER_THAN, (age,), prepare=True, binary=binary)
            assert cursor.fetchall() == [(c, n + age) for c, n in EXPECTED]
        connection.execute("DEALLOCATE ALL")
        assert [step[1] for step in scram.answering.steps] == [("0",), ("1",), ("2",)]


def test_psycopg_in_a_transaction(scram: Served) -> None:
    with connected(scram) as connection:
        assert connection.execute(BY_COUNTRY).fetchall() == EXPECTED
        with pytest.raises(psycopg.Error) as caught, connection.transaction():
            connection.execute(EXHAUSTED)
        assert caught.value.sqlstate == "PV001"
        assert caught.value.diag.message_hint == "wait"
        assert connection.execute(BY_COUNTRY).fetchall() == EXPECTED
        connection.commit()


def test_psycopg_in_a_pipeline(scram: Served) -> None:
    with connected(scram, autocommit=True) as connection:
        with connection.pipeline():
            cursors = [connection.execute(OLDER_THAN, (age,)) for age in range(10)]
            public = connection.execute("SELECT count(*) FROM articles")
        assert [c.fetchone() for c in cursors] == [("US", 500 + age) for age in range(10)]
        assert public.fetchone() == (5000,)
        assert len(scram.answering.steps) == 10


def in_a_pipeline(connection: psycopg.Connection[tuple[Any, ...]], *texts: LiteralString) -> None:
    """Executes these before the first Sync."""
    with connection.pipeline():
        for text in texts:
            connection.execute(text)


def test_psycopg_with_an_error_within_a_pipeline(scram: Served) -> None:
    with connected(scram, autocommit=True) as connection:
        with pytest.raises(psycopg.Error) as caught:
            in_a_pipeline(connection, BY_COUNTRY, ROWS, BY_AGE)
        assert caught.value.sqlstate == "PV010"
        assert [step[0] for step in scram.answering.steps] == [BY_COUNTRY]
        assert connection.execute(BY_COUNTRY).fetchall() == EXPECTED


def test_psycopg_executemany_and_stream(scram: Served) -> None:
    with connected(scram, autocommit=True) as connection:
        cursor = connection.cursor()
        cursor.executemany(OLDER_THAN, [(1,), (2,)], returning=True)
        found = [result.fetchone() for result in cursor.results()]
        assert found == [("US", 501), ("US", 502)]
        assert sum(1 for _ in cursor.stream(BY_AGE)) == AGES
        assert len(scram.answering.steps) == 3


def test_psycopg_hears_notices(scram: Served) -> None:
    heard: list[str | None] = []
    with connected(scram, autocommit=True) as connection:
        connection.add_notice_handler(lambda diagnostic: heard.append(diagnostic.message_primary))
        connection.execute(NOTED)
        connection.execute("SET client_min_messages = warning")
        connection.execute(NOTED)
        connection.execute("SET client_min_messages = error")
        connection.execute(NOTED)
    assert heard == ["noise of 3", "in full", "in vain", "in vain"]
