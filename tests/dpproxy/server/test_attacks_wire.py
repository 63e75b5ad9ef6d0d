"""The corpora's attacks by protocol and by catalog, by their ids, against a served policy over their data."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
import yaml

from dpproxy.pgwire import messages as m
from dpproxy.pgwire.startup import startup_packet
from tests.dpproxy.serving import Running, serving
from tests.dpproxy.wire import SYNC, Raw, bound, errors, rows

pytestmark = pytest.mark.service

TABLES = ("users", "articles", "events")
USED = "SELECT used FROM dpproxy.budget WHERE account = 'analyst:ann' AND unit = 'information'"
TOWNS = "SELECT country, COUNT(DISTINCT user_id) FROM users GROUP BY country"


@pytest.fixture(scope="module")
def server(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The corpora's data and policy, served to whoever names themselves."""
    folder, corpora = tmp_path_factory.mktemp("attacks"), shared / "corpora"
    subprocess.run([sys.executable, str(corpora / "make_data.py"), str(folder)], check=True, timeout=120)
    with duckdb.connect(folder / "data.duckdb") as connection:
        connection.execute((corpora / "schema.sql").read_text())
        for table in TABLES:
            connection.execute(
                f"INSERT INTO {table} SELECT * FROM read_csv('{folder / table}.csv', header = true)"
            )
    server = '[backend]\nurl = "duckdb:///data.duckdb"\n[server]\nauth = "trust"\n[budget.dataset]\n'
    (folder / "dpproxy.toml").write_text(server + (corpora / "dpproxy.toml").read_text())
    with serving(["serve", "--port", "0"], folder=folder) as running:
        yield running


def entries(shared: Path, kind: str) -> dict[str, dict[str, Any]]:
    found = yaml.safe_load((shared / "corpora" / "attacks.yaml").read_text())
    return {entry["id"]: entry for entry in found if entry["class"] == kind}


def raw(server: Running, **more: str) -> Raw:
    """A raw connection of ann's."""
    connection = Raw.open(server.port)
    connection.send(startup_packet({"user": "ann", **more}))
    connection.until("Z")
    return connection


def run(
    connection: Raw,
    text: str,
    values: tuple[bytes | None, ...],
    oids: tuple[int, ...] = (),
    binary: bool = False,
) -> list[tuple[str, bytes]]:
    """Parse, Bind, Execute, Sync."""
    formats = (1,) if binary else ()
    connection.send(m.parse("", text, oids), bound("", "", values, formats), m.execute(""), SYNC)
    return connection.until("Z")


def no_limit(server: Running) -> None:
    with raw(server) as connection:
        limited = rows(run(connection, f"{TOWNS} LIMIT $1", (None,)))
        assert sorted(map(str, limited)) == sorted(map(str, rows(connection.query(TOWNS))))
        assert len(rows(run(connection, f"{TOWNS} LIMIT $1", (b"2",)))) == 2


def parameter_as_column(server: Running) -> None:
    with raw(server) as connection:
        text = "SELECT $1::text, COUNT(DISTINCT user_id) FROM users GROUP BY $1::text"
        seen = run(connection, text, (b"job_title",))
        assert [row[0] for row in rows(seen)] == ["job_title"] or errors(seen)
        assert len(rows(seen)) <= 1


def wrong_types(server: Running) -> None:
    with raw(server) as connection:
        before = rows(connection.query(USED))
        text = "SELECT COUNT(*) FROM users WHERE user_id = $1"
        codes = [
            errors(run(connection, text, (b"abc",), oids))[0]["C"]
            for oids in ((), (20,), (25,), (2205,), (114,), (2249,))
        ]
        assert codes[:2] == ["22P02"] * 2
        assert {code[:2] for code in codes} <= {"22", "42", "0A", "PV"}
        assert rows(connection.query(USED)) == before


def wrong_binaries(server: Running) -> None:
    with raw(server) as connection:
        before = rows(connection.query(USED))
        text = "SELECT COUNT(*) FROM users WHERE birth_year > $1"
        for value in (b"", b"\0", struct.pack(">q", 1 << 62), struct.pack(">d", float("nan")), bytes(1000)):
            (error,) = errors(run(connection, text, (value,), (23,), binary=True))
            assert error["C"] in ("22P03", "08P01")
        assert rows(connection.query(USED)) == before


def name_in_use(server: Running) -> None:
    with raw(server) as connection:
        connection.send(m.parse("s", "SELECT 1"), SYNC, m.parse("s", TOWNS), SYNC)
        assert connection.kinds() == "1Z"
        assert errors(connection.until("Z"))[0]["C"] == "42P05"
        connection.send(bound("", "s"), m.execute(""), SYNC)
        assert rows(connection.until("Z")) == [("1",)]


def startup_options(server: Running) -> None:
    for given in (
        {"options": "-c session_preload_libraries=x -c statement_timeout=1"},
        {"replication": "database"},
        {"user": "postgres", "options": "-csession_preload_libraries=x"},
        {"user": "postgres", "role": "x"},
    ):
        with Raw.open(server.port) as connection:
            connection.send(startup_packet({"user": "ann", **given}))
            (error,) = errors(connection.until("Z"))
            assert (error["S"], error["C"]) == ("FATAL", "42501")
    with raw(server, user="postgres") as connection:
        assert rows(connection.query("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")) == [
            ("f",)
        ]


def tools(server: Running) -> None:
    with server.connect("ann") as connection:
        found = connection.execute(
            "SELECT relname, reltuples FROM pg_class WHERE relname = ANY (%s)", (list(TABLES),)
        ).fetchall()
        assert {name for name, _ in found} == set(TABLES)
        assert all(count <= 0 for name, count in found if name != "articles")
        assert (
            connection.execute("SELECT * FROM pg_stats WHERE tablename IN ('users', 'events')").fetchall()
            == []
        )


PROCEDURES: dict[str, Callable[[Running], None]] = {
    "wire-02": no_limit,
    "wire-03": parameter_as_column,
    "wire-04": wrong_types,
    "wire-05": wrong_binaries,
    "wire-06": name_in_use,
    "wire-09": startup_options,
    "wire-14": tools,
}
SHOWN = {
    "catalog-01": [],
    "catalog-03": [(-1.0,)],
    "catalog-08": None,
    "catalog-09": None,
    "catalog-10": [(0,)],
}
"""Rows of a catalog entry, None for an error; of the others no row holds what only the data know."""


def test_every_wire_entry_has_its_procedure(shared: Path) -> None:
    assert set(entries(shared, "wire")) == set(PROCEDURES)


@pytest.mark.parametrize("name", PROCEDURES)
def test_wire(server: Running, name: str) -> None:
    PROCEDURES[name](server)


def test_catalogs_hold_no_data(server: Running, shared: Path) -> None:
    with server.connect("eve") as other, server.connect("ann") as connection:
        other.execute("SELECT 'what eve alone knows'")
        for name, entry in entries(shared, "catalog").items():
            try:
                found: list[Any] | None = connection.execute(entry["sql"].encode()).fetchall()
            except psycopg.DatabaseError:
                found = None
            if name in SHOWN:
                assert found == SHOWN[name], name
            assert "eve alone" not in str(found), name
            known = {4000, 4001, 5000, 20000, 60000}
            numbers = {value for row in found or () for value in row if isinstance(value, int)}
            assert name == "catalog-04" or not numbers & known, name


MIXED = (
    "SELECT COUNT(*) FROM users, pg_class",
    "SELECT COUNT(*) FROM users u JOIN information_schema.tables t ON t.table_name = u.country",
    "SELECT country, COUNT(*) FROM users WHERE country IN (SELECT relname FROM pg_class) GROUP BY country",
    "SELECT COUNT(*), (SELECT COUNT(*) FROM pg_class) FROM users",
    "SELECT COUNT(*) FROM users UNION ALL SELECT COUNT(*) FROM pg_class",
    "SELECT c.relname, n FROM pg_class c, LATERAL (SELECT COUNT(*) AS n FROM users) x",
    "SELECT relname FROM pg_class WHERE EXISTS (SELECT 1 FROM users WHERE country = relname)",
)


@pytest.mark.parametrize("text", MIXED)
@pytest.mark.parametrize(
    "form", ["{}", "COPY ({}) TO STDOUT", "DECLARE c CURSOR WITH HOLD FOR {}", "EXPLAIN {}"]
)
def test_catalogs_are_not_mixed_with_private_tables(server: Running, form: str, text: str) -> None:
    with raw(server) as connection:
        before = rows(connection.query(USED))
        (error,) = errors(connection.query(form.format(text)))
        assert error["C"][:2] in ("0A", "42", "PV")
        assert rows(connection.query(USED)) == before
