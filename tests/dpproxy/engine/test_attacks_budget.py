"""The procedures of the corpus of attacks (`steps`) about budget and noise reuse that go through the proxy, by id.

What concerns the ledger alone is in tests/budget/test_attacks.py.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dpproxy.deployment.service import Service, configured
from dpproxy.engine import epochs as module
from tests.dpproxy.engine.test_executor import Analyst
from tests.dpproxy.serving import POLICY, Running, make, owner_of, serving

pytestmark = pytest.mark.service

BUDGET = """
[server]
max_sessions_per_login = 64
auth = "trust"
[budget]
information = 60
calls = 10
period = "none"
[budget.analysts]
poor = { information = 2, calls = 1 }
broke = { information = 0, calls = 0 }
[budget.dataset]
information = 100000
calls = 10000
"""
TOWNS = "SELECT town, COUNT(*) AS n FROM people WHERE person_id <> {} GROUP BY town ORDER BY town"
TOP = "SELECT room, COUNT(DISTINCT person_id) AS n FROM visits WHERE seconds <> {} GROUP BY room"
TOP_K = "SELECT seconds, COUNT(DISTINCT person_id) FROM visits GROUP BY seconds ORDER BY 2 DESC LIMIT {}"
USED = "SELECT used FROM dpproxy.budget WHERE account LIKE 'analyst:%' ORDER BY unit DESC"
"""Information, then calls."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("attacks")
    make(path, POLICY + BUDGET)
    return path


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Running]:
    """Two processes, so that every procedure meets both."""
    with serving(["serve", "--port", "0", "--workers", "2"], folder=folder) as running:
        yield running


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """The same in this process, with an epoch that the test turns."""
    with Service.start(configured(make(tmp_path, POLICY + BUDGET)), alone=True) as running:
        yield running


def rows(connection: psycopg.Connection, sql: str) -> list[tuple[Any, ...]]:
    return connection.execute(sql.encode()).fetchall()


def used(server: Running, name: str) -> tuple[float, float]:
    with server.connect(name) as connection:
        information, calls = (float(row[0]) for row in rows(connection, USED))
    return information, calls


def test_budget_01(server: Running) -> None:
    """64 connections send an affordable query at one instant: as many answers as calls."""
    barrier = threading.Barrier(64)
    connections = [server.connect("racer") for _ in range(64)]

    def ask(number: int) -> str | None:
        barrier.wait(60)
        try:
            rows(connections[number], TOP.format(number + 1000))
        except psycopg.Error as error:
            return error.sqlstate
        return None

    with ThreadPoolExecutor(64) as threads:
        outcomes = list(threads.map(ask, range(64)))
    for connection in connections:
        connection.close()
    assert set(outcomes) == {None, "PV001"}
    assert outcomes.count(None) == 10
    assert used(server, "racer") == (10, 10)


def test_budget_03(server: Running) -> None:
    """A CancelRequest as the first row arrives refunds nothing."""
    with server.connect("canceller") as connection, connection.cursor() as cursor:
        first = next(iter(cursor.stream(TOWNS.format(3).encode())))
        connection.cancel()
        assert first[0] == "Bonn"
    assert used(server, "canceller") == (1, 0)


def test_budget_06(server: Running) -> None:
    """Describe runs nothing on the backend and is free, a thousand times."""
    with server.connect("describer") as connection:
        connection.pgconn.prepare(b"s", TOWNS.format(6).encode())
        for _ in range(1000):
            described = connection.pgconn.describe_prepared(b"s")
        assert [described.fname(n) for n in range(described.nfields)] == [b"town", b"n"]
        assert rows(connection, "SELECT * FROM dpproxy.releases") == []
    assert used(server, "describer") == (0, 0)


def test_budget_08(server: Running) -> None:
    """With nothing left a query is refused before data are touched: the same whatever they are."""
    told = set()
    with server.connect("broke") as connection:
        for number in (8, -1):
            with pytest.raises(psycopg.Error) as refused:
                rows(connection, TOWNS.format(number))
            assert refused.value.sqlstate == "PV001"
            told.add(str(refused.value))
    assert len(told) == 1
    assert used(server, "broke") == (0, 0)


def test_budget_14(server: Running) -> None:
    """A top-k that costs more than what is left is refused, with the LIMIT that could be paid."""
    with server.connect("poor") as connection:
        with pytest.raises(psycopg.Error) as refused:
            rows(connection, TOP_K.format(50))
        assert refused.value.sqlstate == "PV001"
    assert used(server, "poor") == (0, 0)
    with server.connect("rich") as connection:
        with pytest.raises(psycopg.Error) as refused:
            rows(connection, TOP_K.format(100))
        assert refused.value.sqlstate == "PV001"
        assert refused.value.diag.message_hint == "LIMIT 44"
    assert used(server, "rich") == (0, 0)


@pytest.mark.parametrize(
    "limit", ["-1", "9223372036854775808", "'NaN'::float8", "99999999999999999999999999"]
)
def test_budget_15(server: Running, limit: str) -> None:
    """No k overflows the ledger: it is refused, and nothing is charged."""
    with server.connect("overflow") as connection, pytest.raises(psycopg.Error) as refused:
        rows(connection, TOP_K.format(limit))
    assert (refused.value.sqlstate or "")[:2] in ("22", "42", "0A", "PV", "54")
    assert used(server, "overflow") == (0, 0)


def test_noise_reuse_01(server: Running) -> None:
    """The same query again and again: one stored answer, charged once."""
    with server.connect("repeater") as connection:
        answers = {tuple(rows(connection, TOWNS.format(11))) for _ in range(300)}
    assert len(answers) == 1
    assert used(server, "repeater") == (1, 0)


def test_noise_reuse_03(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody is inserted: in the epoch the answer stays as it was, in the next it is drawn anew and charged."""
    ann = Analyst(service, "ann")
    first = ann.ask(TOWNS.format(-1))
    with owner_of(tmp_path / "people.duckdb") as connection:
        connection.execute("INSERT INTO people VALUES (100000, 'Ulm')")
    assert ann.ask(TOWNS.format(-1)) == first
    assert ann.used() == (1, 0)
    monkeypatch.setattr(module, "epoch_name", lambda *_: "2100-01-01")
    second = ann.ask(TOWNS.format(-1))
    assert ann.used() == (2, 0)
    differences = [abs(int(b[1]) - int(a[1])) for a, b in zip(first, second, strict=True)]
    assert max(differences) > 1, "no noise cancels; all three within 1 has a chance below 1 in 3000"


def test_a_clock_set_back_gives_nothing_fresh_and_free(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """budget-12 above the ledger: an epoch that comes again has its old answers, a new one is paid for."""
    ann = Analyst(service, "ann")
    today = ann.ask(TOWNS.format(-2))
    monkeypatch.setattr(module, "epoch_name", lambda *_: "2020-01-01")
    before = ann.ask(TOWNS.format(-2))
    assert ann.used() == (2, 0)
    monkeypatch.undo()
    assert ann.ask(TOWNS.format(-2)) == today
    monkeypatch.setattr(module, "epoch_name", lambda *_: "2020-01-01")
    assert ann.ask(TOWNS.format(-2)) == before
    assert ann.used() == (2, 0)


def test_noise_reuse_04(server: Running) -> None:
    """One query at two scales: both are charged, and no common noise solves for the count."""
    sql = "SELECT room, COUNT(DISTINCT person_id) FROM visits WHERE room IN (0, 1, 2) AND seconds <> 41 GROUP BY room"
    answers = []
    with server.connect("scales") as connection:
        connection.execute("SET dpproxy.reuse = off")
        for spend in ("accurate", "cheap"):
            connection.execute(f"SET dpproxy.spend = {spend}".encode())
            found = sorted(rows(connection, sql))
            (scale,) = rows(connection, "SELECT stddev FROM dpproxy.last_release")
            answers.append(([int(n) for _, n in found], float(scale[0])))
    (fine, low), (coarse, high) = answers
    assert low < high
    assert used(server, "scales") == (2.9, 0)
    solved = [(b * low - a * high) / (low - high) for a, b in zip(fine, coarse, strict=True)]
    assert any(abs(value - 225) > 2 for value in solved), "x + low g = a, x + high g = b would give x"


def test_noise_reuse_05(server: Running) -> None:
    """Two predicates with the same rows: each is charged, and the noise of their groups does not cancel."""
    with server.connect("differ") as connection:
        one, two = (rows(connection, TOWNS.format(number)) for number in (-5, -6))
    assert [town for town, _ in one] == [town for town, _ in two]
    assert one != two, "equal by chance once in 50000"
    assert used(server, "differ") == (2, 0)


def test_noise_reuse_07(server: Running) -> None:
    """Two analysts who ask the same get the same draw, and each pays for it."""
    found = []
    for name in ("left", "right"):
        with server.connect(name) as connection:
            found.append(rows(connection, TOWNS.format(-7)))
    assert found[0] == found[1]
    assert used(server, "left") == used(server, "right") == (1, 0)


def test_noise_reuse_09(server: Running, folder: Path) -> None:
    """The key is in no environment, no command line and no database, and no SQL reads a file or a variable."""
    key = (folder / ".dpproxy" / "key").read_bytes()
    main = server.process.pid
    children = [int(c) for f in Path(f"/proc/{main}/task").glob("*/children") for c in f.read_text().split()]
    for process in (main, *children):
        seen = b"".join(Path(f"/proc/{process}/{name}").read_bytes() for name in ("environ", "cmdline"))
        assert key not in seen
        assert key.hex().encode() not in seen
    for cluster in (folder / ".dpproxy").glob("*/cluster"):
        for file in (path for path in cluster.rglob("*") if path.is_file()):
            content = file.read_bytes()
            assert key not in content
            assert key.hex().encode() not in content
    with server.connect("thief") as connection:
        for sql in (
            "SELECT getenv('HOME')",
            "SELECT pg_read_file('key')",
            f"SELECT COUNT(*) FROM '{folder / '.dpproxy' / 'key'}'",
            f"SELECT COUNT(*) FROM people, read_blob('{folder / '.dpproxy' / 'key'}')",
        ):
            with pytest.raises(psycopg.Error):
                rows(connection, sql)


def test_noise_reuse_11(server: Running) -> None:
    """Two workers: different queries have independent noise, the same query one answer."""
    with ThreadPoolExecutor(8) as threads:

        def ask(number: int) -> tuple[tuple[Any, ...], ...]:
            with server.connect("forks") as connection:
                return tuple(rows(connection, TOWNS.format(-100 - number)))

        different = list(threads.map(ask, range(12)))
        same = set(threads.map(ask, [3] * 12))
    assert len(set(different)) == 12
    assert same == {different[3]}
    assert used(server, "forks") == (12, 0)


def test_noise_reuse_12(server: Running) -> None:
    """Counts leave as integers: there are no low bits to read."""
    with server.connect("bits") as connection:
        found = rows(connection, TOWNS.format(-12))
        assert all(type(n) is int for _, n in found)
        kinds = rows(connection, f"SELECT pg_typeof(n)::text FROM ({TOWNS.format(-12)}) AS t")
    assert set(kinds) == {("bigint",)}


def test_these_are_procedures_of_the_corpus(shared: Path) -> None:
    """Every id named here is one with steps, and none about budget or noise reuse is left out."""
    yaml = pytest.importorskip("yaml")
    entries = yaml.safe_load((shared / "corpora" / "attacks.yaml").read_text())
    steps = {e["id"].replace("-", "_") for e in entries if "steps" in e}
    named = {
        name.removeprefix("test_") for name in globals() if name.startswith(("test_budget", "test_noise"))
    }
    assert named <= steps
    wanted = {name for name in steps if name.startswith(("budget", "noise_reuse"))}
    assert wanted - named == {"budget_12", "noise_reuse_14"}, "the clock is the ledger's, sums are elsewhere"
