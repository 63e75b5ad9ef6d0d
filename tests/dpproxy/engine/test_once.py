"""A statement is executed against private data once per Execute of a fresh portal: counted at the backend."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

import psycopg
import pytest

from dpproxy.backends.base import Cancellation
from dpproxy.backends.duckdb.adapter import DuckDBSlot
from dpproxy.config.sections import load
from dpproxy.deployment.service import Service
from dpproxy.pgwire import messages as m
from dpproxy.pgwire.startup import startup_packet
from dpproxy.server.listener import Server
from rewriter.plan import HistogramQuery
from tests.dpproxy.serving import POLICY, make
from tests.dpproxy.wire import FLUSH, SYNC, Raw, bound, errors, query, rows

pytestmark = pytest.mark.service

TRUST = """
[server]
auth = "trust"
port = 0
[budget.dataset]
"""
ASKED = "SELECT town, COUNT(*) AS n FROM people WHERE person_id <> {} GROUP BY town ORDER BY town"
WITH_PARAMETER = ASKED.format("$1::int")


class Running:
    """A whole service in this process, its loop in a thread."""

    def __init__(self, service: Service) -> None:
        self._loop, self._server = asyncio.new_event_loop(), service.server()
        self._ready: Future[int] = Future()
        self._thread = threading.Thread(target=self._run, args=(self._server,))
        self._thread.start()
        self.port = self._ready.result(20)
        self.fetches = 0
        self._next = 0

    def _run(self, server: Server) -> None:
        asyncio.set_event_loop(self._loop)
        self._ready.set_result(self._loop.run_until_complete(server.start())[1])
        self._loop.run_forever()
        self._loop.run_until_complete(asyncio.sleep(0.05))
        self._loop.close()

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._server.drain(0.5), self._loop).result(20)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def question(self) -> str:
        """One that nobody has asked before."""
        self._next += 1
        return ASKED.format(self._next)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder: Path = tmp_path_factory.mktemp("once")
    with Service.start(load(make(folder, POLICY + TRUST)), alone=True) as service:
        yield service


@pytest.fixture(scope="module")
def whole(service: Service) -> Iterator[Running]:
    running = Running(service)
    yield running
    running.stop()


@pytest.fixture
def running(whole: Running, monkeypatch: pytest.MonkeyPatch) -> Running:
    """The service, with the backend's fetches counted."""
    fetch = DuckDBSlot.fetch

    def counted(
        slot: DuckDBSlot, histogram: HistogramQuery, rank_key: str, cancellation: Cancellation, most: int
    ) -> object:
        whole.fetches += 1
        return fetch(slot, histogram, rank_key, cancellation, most)

    monkeypatch.setattr(DuckDBSlot, "fetch", counted)
    whole.fetches = 0
    return whole


@pytest.fixture
def raw(running: Running) -> Iterator[Raw]:
    with Raw.open(running.port) as raw:
        raw.send(startup_packet({"user": "ann"}))
        raw.until("Z")
        yield raw


def test_neither_parse_nor_bind_nor_describe_reads(running: Running, raw: Raw) -> None:
    text = running.question()
    raw.send(m.parse("s", text), m.describe("S", "s"), bound("p", "s"), m.describe("P", "p"), FLUSH)
    raw.send(m.close("P", "p"), bound("", "s"), SYNC)
    assert raw.kinds() == "1tT2T32Z"
    raw.query(f"EXPLAIN {text}")
    raw.query(f"PREPARE q AS {text}")
    assert running.fetches == 0


def test_a_portal_reads_once_however_it_is_fetched(running: Running, raw: Raw) -> None:
    raw.send(query("BEGIN"), m.parse("s", running.question()), bound("p", "s"), m.execute("p", 1), FLUSH)
    raw.until("s")
    assert running.fetches == 1
    raw.send(m.execute("p", 1), m.execute("p", 0), m.execute("p", 0), m.describe("P", "p"), SYNC)
    assert len(rows(raw.until("Z"))) == 2
    raw.query("MOVE BACKWARD ALL FROM p")
    assert running.fetches == 1


CARRIED: list[Callable[[str], tuple[str, ...]]] = [
    lambda text: (text,),
    lambda text: (f"BEGIN; DECLARE c SCROLL CURSOR FOR {text}", "FETCH ALL c", "FETCH FIRST c", "COMMIT"),
    lambda text: (f"DECLARE c CURSOR WITH HOLD FOR {text}", "FETCH ALL c", "CLOSE c"),
    lambda text: (f"COPY ({text}) TO STDOUT",),
    lambda text: (f"PREPARE p AS {text}", "EXECUTE p", "DEALLOCATE p"),
    lambda text: (f"SELECT 1; {text}; SELECT 2",),
]


@pytest.mark.parametrize("carried", CARRIED)
@pytest.mark.parametrize("simple", [True, False])
def test_every_form_reads_once(
    running: Running, raw: Raw, carried: Callable[[str], tuple[str, ...]], simple: bool
) -> None:
    for text in carried(running.question()):
        if simple or ";" in text:
            seen = raw.query(text)
        else:
            raw.send(m.parse("", text), bound("", ""), m.describe("P", ""), m.execute(""), SYNC)
            seen = raw.until("Z")
        assert errors(seen) == []
    assert running.fetches == 1


@pytest.mark.parametrize("before", ["SELECT 1/0", "SELECT nothing", "DROP TABLE people"])
def test_what_fails_before_reads_nothing(running: Running, raw: Raw, before: str) -> None:
    text = running.question()
    assert errors(raw.query(f"{before}; {text}"))
    raw.send(m.parse("", before), bound("", ""), m.execute(""))
    raw.send(m.parse("", text), bound("", ""), m.execute(""), SYNC)
    assert errors(raw.until("Z"))
    assert errors(raw.query(f"DECLARE c CURSOR FOR {text}"))[0]["C"] == "25P01"
    assert errors(raw.query(f"COPY ({text}) TO STDOUT (FORMAT nonsense)"))
    assert running.fetches == 0


def test_a_driver_reads_once_each(running: Running) -> None:
    conninfo = f"host=127.0.0.1 port={running.port} user=ann dbname=any"
    with psycopg.connect(conninfo, autocommit=True) as connection:
        for number in range(10):
            text = WITH_PARAMETER.replace("$1", "%s").encode()
            connection.execute(text, (5000 + number,), prepare=True, binary=bool(number % 2)).fetchall()
        assert running.fetches == 10
        with connection.transaction(), connection.cursor("named") as named:
            named.execute(running.question().encode())
            assert len([*named.fetchmany(1), *named.fetchall()]) == 3
        assert running.fetches == 11
        for options in ("", " (FORMAT csv)", " (FORMAT binary)"):
            with connection.cursor().copy(f"COPY ({running.question()}) TO STDOUT{options}".encode()) as copy:
                assert b"".join(copy)
        assert running.fetches == 14
        with connection.pipeline():
            for _ in range(5):
                connection.execute(running.question().encode())
        assert running.fetches == 19
