"""Every client on the whole way, nothing scripted: one analyst's question has one answer, whoever asks and however."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pandas
import psycopg
import pytest
import sqlalchemy

from tests.dpproxy.serving import POLICY, Running, make, serving

pytestmark = pytest.mark.client

TRUST = """
[server]
auth = "trust"
[budget.dataset]
"""
LEAST = 17
SQL = "SELECT town, COUNT(*) AS n FROM people WHERE person_id >= {} GROUP BY town ORDER BY town"
SAME = Path(__file__).with_name("Same.java")
Rows = list[tuple[str, int]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("whole")
    make(folder, POLICY + TRUST)
    with serving(["serve", "--port", "0"], folder=folder) as running:
        yield running


@pytest.fixture(scope="module")
def answer(server: Running) -> Rows:
    """What ann got first, by the simple protocol."""
    with server.connect("ann") as connection:
        rows = connection.execute(SQL.format(LEAST).encode(), prepare=False).fetchall()
    assert [town for town, _ in rows] == ["Bonn", "Jena", "Ulm"]
    assert all(abs(n - 294) < 100 for _, n in rows)
    return rows


def used(server: Running) -> int:
    with server.connect("ann") as connection:
        row = connection.execute("SELECT used FROM dpproxy.budget WHERE unit = 'information'").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("prepare", [False, True])
def test_psycopg(server: Running, answer: Rows, binary: bool, prepare: bool) -> None:
    with server.connect("ann") as connection:
        for _ in range(2):
            cursor = connection.execute(SQL.format("%s").encode(), (LEAST,), binary=binary, prepare=prepare)
            assert cursor.fetchall() == answer
            assert [c.name for c in cursor.description or ()] == ["town", "n"]
    assert used(server) == 1


def test_psycopg_takes_portions_of_one_answer(server: Running, answer: Rows) -> None:
    with server.connect("ann") as connection, connection.transaction():
        assert list(connection.cursor().stream(SQL.format(LEAST).encode(), size=1)) == answer
    assert used(server) == 1


def test_psql(psql: str, server: Running, answer: Rows) -> None:
    conninfo = f"host=127.0.0.1 port={server.port} user=ann dbname=any"
    done = subprocess.run(
        [
            psql,
            "-X",
            "-A",
            "-t",
            "-F",
            " ",
            "-d",
            conninfo,
            "-c",
            SQL.format(LEAST),
            "-c",
            "SELECT * FROM people",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.splitlines() == [f"{town} {n}" for town, n in answer]
    assert "NOTICE:  dpproxy: KnownGauss" in done.stderr
    assert "row-level output from private table" in done.stderr
    assert done.stderr.count("LINE 1: SELECT * FROM people") == 1


@pytest.mark.parametrize("mode", ["simple", "extended", "extendedForPrepared", "extendedCacheEverything"])
def test_pgjdbc(pgjdbc: tuple[str, Path], server: Running, answer: Rows, mode: str) -> None:
    java, jar = pgjdbc
    url = f"jdbc:postgresql://127.0.0.1:{server.port}/any?user=ann"
    done = subprocess.run(
        [java, "-cp", str(jar), str(SAME), url, mode, str(LEAST)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{town} {n}" for town, n in answer] * 2


def test_pandas_through_sqlalchemy(server: Running, answer: Rows) -> None:
    engine = sqlalchemy.create_engine(f"postgresql+psycopg://ann@127.0.0.1:{server.port}/any")
    try:
        question = sqlalchemy.text(SQL.format(":least"))
        frame = pandas.read_sql(question, engine, params={"least": LEAST})
        names = sqlalchemy.inspect(engine).get_table_names()
    finally:
        engine.dispose()
    assert list(frame.itertuples(index=False, name=None)) == answer
    assert str(frame["n"].dtype) == "int64"
    assert {"people", "visits", "rooms"} <= set(names)


def test_a_private_query_in_a_failed_transaction_is_not_charged(server: Running, answer: Rows) -> None:
    before = used(server)
    with server.connect("ann") as connection:
        connection.execute("BEGIN")
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("SELECT 1/0")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute(b"SELECT COUNT(*) FROM people WHERE person_id > 5")
        connection.execute("ROLLBACK")
        assert connection.execute(SQL.format(LEAST).encode()).fetchall() == answer
    assert used(server) == before


def test_what_was_asked_in_a_transaction_that_is_rolled_back_stays_paid(server: Running) -> None:
    before = used(server)
    sql = b"SELECT COUNT(*) FROM people WHERE person_id > 33"
    with server.connect("ann") as connection:
        connection.execute("BEGIN")
        first = connection.execute(sql).fetchall()
        connection.execute("ROLLBACK")
        assert connection.execute(sql).fetchall() == first
    assert used(server) == before + 1
