"""Bad input on a served port: a clear error each time, and ledger and server are whole afterwards."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path

import duckdb
import psycopg
import pytest

from tests.dpproxy.serving import POLICY, Running, command, make, serving

pytestmark = pytest.mark.service

BUDGET = """
[budget]
information = 3
calls = 1
"""
TOWNS = "SELECT town, COUNT(*) AS n FROM people GROUP BY town"
SLOW = "SELECT COUNT(*) FROM large WHERE abs(a * 7 - b * 3) % 11 = 3 AND substring(c, 1, 3) LIKE '%7%'"
SPENT = "SELECT used, reserved FROM dpproxy.budget WHERE unit = 'information'"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("bad")
    make(folder, POLICY + '[tables.large]\nprivacy_unit = "person_id"\nmax_rows_per_unit = 10\n' + BUDGET)
    with duckdb.connect(folder / "people.duckdb") as connection:
        connection.execute(
            "CREATE TABLE large AS SELECT i % 900 AS person_id, i AS a, i % 17 AS b, md5(i::text) AS c"
            " FROM range(3000000) r(i)"
        )
    for name in ("ann", "bob", "eve", "gil"):
        command("user", "add", name, "--password-stdin", folder=folder, entry="red-pencil\n")
    with serving(["serve", "--port", "0"], folder=folder) as running:
        yield running


@pytest.fixture
def whole(server: Running) -> Iterator[Running]:
    """The server; after the test it still answers, and the test has charged nothing to bob."""
    yield server
    with server.connect("bob", "red-pencil") as connection:
        assert len(connection.execute(TOWNS).fetchall()) == 3
        used = connection.execute("SELECT used, reserved FROM dpproxy.budget ORDER BY unit").fetchall()
        assert used == [(0, 0), (1, 0)]


@pytest.mark.parametrize(
    ("sql", "state", "words"),
    [
        ("SELECT * FROM people", "PV010", "GROUP BY town"),
        ("SELECT twon, COUNT(*) FROM people GROUP BY 1", "42703", "twon"),
        ("SELECT COUNT(*) FROM poeple", "42P01", "poeple"),
        ("DROP TABLE people", "25006", "DROP"),
        ("SELECT COUNT(*) FROM people; DROP TABLE people", "0A000", "nothing of the string was executed"),
        ("SELEC COUNT(*) FROM people", "42601", "SELEC"),
        ("SELECT COUNT(* FROM people", "42601", "syntax error"),
        ("SELECT COUNT(*) FROM people WHERE town = 'x" + "y" * 1_000_000 + "'", "54000", "64 kB"),
        ("SELECT COUNT(*) FROM people WHERE " + "(" * 500 + "true" + ")" * 500, "54001", "nested"),
        ("SELECT COUNT(*) FROM " + "(SELECT * FROM " * 30 + "people" + ") t" * 30, "54001", "nested"),
        ("SELECT COUNT(*) FROM people WHERE " + " OR ".join(["town = 'x'"] * 400), "54001", "IN (...)"),
        ("SELECT town, COUNT(*) FROM people GROUP BY town LIMIT -1", "2201W", "LIMIT"),
        ("SELECT COUNT(*) FROM people LIMIT -1", "2201W", "LIMIT"),
        ("SELECT COUNT(*) FROM people OFFSET -1", "2201X", "OFFSET"),
        ("", None, ""),
        (";;", None, ""),
    ],
    ids=range(16),
)
def test_a_bad_statement_gets_a_clear_error(whole: Running, sql: str, state: str | None, words: str) -> None:
    with whole.connect("bob", "red-pencil") as connection:
        with nullcontext() if state is None else pytest.raises(psycopg.Error) as refused:
            connection.execute(sql.encode())
        if refused is not None:
            told = refused.value.diag
            assert refused.value.sqlstate == state
            assert words in f"{told.message_primary} {told.message_detail} {told.message_hint}"
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_wrong_password_and_an_unknown_name_are_told_alike(whole: Running) -> None:
    told = set()
    for name in ("bob", "nobody"):
        with pytest.raises(psycopg.OperationalError) as refused:
            whole.connect(name, "wrong")
        told.add(str(refused.value).rpartition("FATAL:")[2].replace(name, "NAME"))
    assert len(told) == 1
    assert "password authentication failed" in told.pop()


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)) * 64, b"\0" * 8])
def test_garbage_on_the_port_is_dropped(whole: Running, garbage: bytes) -> None:
    with socket.create_connection(("127.0.0.1", whole.port), timeout=10) as line:
        line.sendall(garbage)
        line.shutdown(socket.SHUT_WR)
        while line.recv(4096):
            pass


def test_a_client_that_leaves_in_mid_query_has_paid(whole: Running) -> None:
    with whole.connect("eve", "red-pencil") as again:

        def eventually(wanted: Callable[[Decimal, Decimal], bool]) -> None:
            deadline = time.monotonic() + 30
            while not wanted(*(found := again.execute(SPENT).fetchall()[0])):
                assert time.monotonic() < deadline, found
                time.sleep(0.02)

        connection = whole.connect("eve", "red-pencil")
        thread = threading.Thread(target=lambda: _ignored(connection))
        thread.start()
        eventually(lambda used, reserved: used + reserved > 0)
        with socket.socket(fileno=os.dup(connection.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)
        thread.join(30)
        connection.close()
        eventually(lambda used, reserved: used == 1 and reserved == 0)


def _ignored(connection: psycopg.Connection) -> None:
    try:
        connection.execute(SLOW)
    except psycopg.Error:
        return


def test_an_exhausted_budget_says_what_is_left_and_when_it_refreshes(whole: Running) -> None:
    with whole.connect("gil", "red-pencil") as connection:
        for number in range(3):
            connection.execute(f"SELECT COUNT(*) FROM people WHERE person_id > {number}")
        with pytest.raises(psycopg.Error) as refused:
            connection.execute("SELECT COUNT(*) FROM people WHERE person_id > 100")
        assert refused.value.sqlstate == "PV001"
        told = refused.value.diag.message_primary or ""
        assert "needs 1 information unit" in told
        assert "0 information units and 1 call left until" in told
        assert connection.execute("SELECT COUNT(*) FROM people WHERE person_id > 1").fetchone()
