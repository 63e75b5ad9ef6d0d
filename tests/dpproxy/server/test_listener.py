"""The server: who gets in and how, limits, garbage, cancelling, and the drain."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import psycopg
import pytest

from dpproxy.front.front import Front
from dpproxy.pgwire import messages as m
from dpproxy.pgwire.startup import startup_packet
from dpproxy.server.listener import Rooms, Server, ServerError, ServerSettings
from tests.dpproxy.wire import (
    BY_AGE,
    BY_COUNTRY,
    ENDLESS,
    EXPECTED,
    SLOW,
    SYNC,
    Raw,
    Scripted,
    Served,
    admin,
    bound,
    errors,
    eventually,
    query,
    rows,
    served,
    shape,
)

pytestmark = pytest.mark.service


def code_of(connect: Any) -> str:
    """The SQLSTATE that a raw connection ends with."""
    with connect as raw:
        (error,) = errors(raw.until("E"))
        assert raw.receive() is None
        assert error["S"] == "FATAL"
        return error["C"]


def started(port: int, **parameters: str) -> Raw:
    """A connection with its startup packet sent."""
    raw = Raw.open(port)
    raw.send(startup_packet({"user": "ann", **parameters}))
    return raw


def test_a_password_over_tls(wire_front: Front) -> None:
    with served(wire_front, auth="scram") as proxy:
        with proxy.connect(password="pencil", sslmode="require", autocommit=True) as connection:
            assert connection.pgconn.ssl_in_use
            assert connection.execute(BY_COUNTRY).fetchall() == EXPECTED
            assert connection.info.parameter_status("session_authorization") == "ann"
        for user, password in (("ann", "pen"), ("eve", "pencil"), ("ann", "")):
            with pytest.raises(psycopg.OperationalError, match=r"password"):
                proxy.connect(user=user, password=password)
        assert proxy.sessions == 0


def test_wrong_passwords_and_unknown_users_look_alike(wire_front: Front) -> None:
    with served(wire_front, auth="scram") as proxy:
        seen = []
        for user, password in (("ann", "pen"), ("eve", "pencil")):
            with started(proxy.port, user=user) as raw:
                answers = raw.scram(password)
                seen.append((shape(answers), errors(answers)[0]["C"]))
        assert seen == [("E", "28P01")] * 2


def test_names_and_settings_that_are_refused(proxy: Served) -> None:
    assert code_of(started(proxy.port, user="pg_signal_backend")) == "28000"
    assert code_of(started(proxy.port, user="public")) == "28000"
    assert code_of(started(proxy.port, replication="true")) == "42501"
    assert code_of(started(proxy.port, client_encoding="LATIN1")) == "0A000"
    assert code_of(started(proxy.port, standard_conforming_strings="off")) == "0A000"
    assert code_of(started(proxy.port, TimeZone="Nowhere/Land")) == "22023"


def test_settings_reach_the_front_and_the_step(proxy: Served) -> None:
    with proxy.connect(options="-c dpproxy.notices=off -c statement_timeout=1min") as connection:
        assert connection.execute("SHOW statement_timeout").fetchone() == ("1min",)
        connection.execute(BY_COUNTRY)
        assert proxy.answering.steps[0][2]["dpproxy.notices"] == "off"


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        bytes(100),
        b"\xff" * 5000,
        struct.pack(">ii", 8, 12345),
        struct.pack(">ii", 9, m.PROTOCOL_3_0) + b"x",
    ],
)
def test_garbage_on_the_port(proxy: Served, garbage: bytes) -> None:
    with Raw.open(proxy.port) as raw:
        raw.send(garbage)
        seen = raw.until("E")
        # What has no length of a startup packet is closed without a word.
        assert bool(seen) == (garbage[:3] == bytes(3) and garbage[3] >= 8)
        assert not seen or errors(seen)[0]["S"] == "FATAL"
    with proxy.raw() as raw:
        assert rows(raw.query("SELECT 1")) == [("1",)]


@pytest.mark.parametrize("garbage", [b"\0\0\0\0\0", b"Q\0\0\0\1", b"z\0\0\0\4", b"X", b"\xff" * 9000])
def test_garbage_after_the_login_ends_that_session(proxy: Served, garbage: bytes) -> None:
    with proxy.raw() as raw, proxy.raw() as other:
        raw.send(garbage)
        raw.socket.shutdown(socket.SHUT_WR)
        assert shape(raw.until("E")) in ("E", "")
        assert rows(other.query("SELECT 1")) == [("1",)]
        eventually(lambda: proxy.sessions == 1)


def test_messages_beyond_their_limit(proxy: Served) -> None:
    with proxy.raw() as raw:
        (error,) = errors(raw.query(BY_COUNTRY + " " * (1 << 20)))
        assert error["C"] == "54000"
        assert rows(raw.query("SELECT 1")) == [("1",)]
        raw.send(b"Q" + struct.pack(">i", 1 << 30))
        (error,) = errors(raw.until("E"))
        assert (error["S"], error["C"]) == ("FATAL", "54000")
        assert raw.receive() is None


def test_a_login_that_takes_too_long(wire_front: Front) -> None:
    with served(wire_front, auth="scram", login_seconds=0.2) as proxy, Raw.open(proxy.port) as raw:
        raw.send(startup_packet({"user": "ann"}))
        seen = raw.until("E")
        assert shape(seen) == "RE"
        assert errors(seen)[0]["C"] == "57014"
        assert raw.receive() is None


def cancel(port: int, key: bytes) -> None:
    """A CancelRequest, up to the moment that the server hangs up."""
    with Raw.open(port) as raw:
        raw.send(struct.pack(">ii", 8 + len(key), m.CANCEL_REQUEST) + key)
        assert raw.receive() is None


@pytest.mark.parametrize("simple", [True, False])
def test_cancelling_a_step(proxy: Served, simple: bool) -> None:
    with proxy.raw() as raw:
        raw.send(query(SLOW) if simple else m.parse("", SLOW) + bound("", "") + m.execute("") + SYNC)
        assert proxy.answering.begun.wait(5)
        cancel(proxy.port, raw.key)
        seen = raw.until("Z")
        assert [error["C"] for error in errors(seen)] == ["57014"]
        assert rows(raw.query(BY_COUNTRY))[0] == ("US", "500")
        deadline = time.monotonic() + 5
        while not proxy.answering.outcomes and time.monotonic() < deadline:
            time.sleep(0.01)
        assert proxy.answering.outcomes == ["cancelled"]


def test_cancelling_a_statement_of_the_front(proxy: Served) -> None:
    with proxy.raw() as raw:
        raw.send(query(ENDLESS))
        assert raw.is_silent(0.2)
        cancel(proxy.port, raw.key)
        assert errors(raw.until("Z"))[0]["C"] == "57014"


def test_only_the_secret_cancels(proxy: Served) -> None:
    with proxy.raw() as raw:
        raw.send(query(SLOW))
        assert proxy.answering.begun.wait(5)
        for key in (raw.key[:4] + bytes(4), raw.key[:4], bytes(4) + raw.key[4:], raw.key + b"x", b""):
            cancel(proxy.port, key)
        assert raw.is_silent(0.2)
        proxy.answering.go_on.set()
        assert len(rows(raw.until("Z"))) == 5


def test_the_step_has_a_timeout(wire_front: Front) -> None:
    with served(wire_front, statement_timeout=0.5) as proxy, proxy.raw() as raw:
        for _ in range(2):
            (error,) = errors(raw.query(SLOW))
            assert error["C"] == "57014"
            assert error["M"] == "canceling statement due to statement timeout"
        assert rows(raw.query(BY_COUNTRY))[0] == ("US", "500")


@pytest.mark.parametrize("simple", [True, False])
def test_the_sessions_own_timeout_holds_for_a_step(proxy: Served, simple: bool) -> None:
    with proxy.raw() as raw:
        raw.query("SET statement_timeout = '200ms'")
        raw.query("SET idle_in_transaction_session_timeout = '50ms'")
        raw.send(query(SLOW) if simple else m.parse("", SLOW) + bound("", "") + m.execute("") + SYNC)
        (error,) = errors(raw.until("Z"))
        assert error["C"] == "57014"
        assert error["M"] == "canceling statement due to statement timeout"
        eventually(lambda: proxy.answering.outcomes == ["cancelled"])
        assert rows(raw.query(BY_COUNTRY))[0] == ("US", "500")


@pytest.mark.parametrize(
    "lift", ["SET statement_timeout = 0", "SELECT set_config('statement_timeout', '1h', false)"]
)
def test_no_setting_lifts_the_servers_timeout(wire_front: Front, lift: str) -> None:
    with served(wire_front, statement_timeout=0.5) as proxy, proxy.raw() as raw:
        assert errors(raw.query(lift)) == []
        (error,) = errors(raw.query("SELECT count(*) FROM (SELECT generate_series(1, 1000000000)) AS s"))
        assert error["C"] == "57014"
        assert rows(raw.query("SELECT 1")) == [("1",)]


def test_a_client_that_leaves_during_a_step(proxy: Served) -> None:
    with proxy.raw() as raw:
        raw.send(query(SLOW))
        assert proxy.answering.begun.wait(5)
    eventually(lambda: proxy.sessions == 0)
    assert proxy.answering.outcomes == []
    proxy.answering.go_on.set()
    eventually(lambda: proxy.answering.outcomes == ["done"])


def test_a_client_that_leaves_during_a_statement_of_the_front(proxy: Served, wire_front: Front) -> None:
    with proxy.raw() as raw:
        raw.send(query(ENDLESS + " /* left alone */"))
        assert raw.is_silent(0.2)
    with admin(wire_front) as connection:
        left = "SELECT 1 FROM pg_stat_activity WHERE query LIKE '%left alone%' AND pid <> pg_backend_pid()"
        eventually(lambda: connection.execute(left).fetchone() is None)


def test_a_slow_reader_holds_the_front_back(proxy: Served) -> None:
    with proxy.raw() as raw:
        raw.send(query("SELECT repeat('x', 1000) FROM generate_series(1, 100000)"))
        session = proxy.session()
        eventually(lambda: session._client.congested)
        time.sleep(0.5)
        assert session._client.transport.get_write_buffer_size() < 1 << 20
        assert len(rows(raw.until("Z"))) == 100000


def test_a_client_that_sends_without_end_is_held_back_during_a_step(proxy: Served) -> None:
    more = query("SELECT 1") * 1000
    with proxy.raw() as raw:
        raw.send(query(SLOW))
        assert proxy.answering.begun.wait(5)
        raw.socket.settimeout(0.5)
        sent = 0
        with suppress(TimeoutError):
            while sent < 100 << 20:
                sent += raw.socket.send(more)
        assert sent < 100 << 20
        assert len(proxy.session()._client.inbound) < 1 << 20
        raw.socket.settimeout(10)
        proxy.answering.go_on.set()
        assert len(rows(raw.until("Z"))) == 5
        assert rows(raw.until("Z")) == [("1",)]


def test_the_front_ends_a_session(proxy: Served, wire_front: Front) -> None:
    with proxy.raw() as raw, admin(wire_front) as connection:
        (row,) = rows(raw.query("SELECT pg_backend_pid()"))
        assert int(row[0] or 0) == int.from_bytes(raw.key[:4], "big")
        connection.execute("SELECT pg_terminate_backend(%s)", (int(row[0] or 0),))
        (error,) = errors(raw.until("E"))
        assert (error["S"], error["C"]) == ("FATAL", "57P01")
        assert raw.receive() is None
        eventually(lambda: proxy.sessions == 0)


def test_a_front_that_is_not_there(tmp_path: Path) -> None:
    async def one() -> bytes:
        rooms = Rooms(
            Scripted(), tmp_path / "none", "x", lambda _: ("a", "b"), lambda _: None, fake_salt_key=bytes(32)
        )
        server = Server(ServerSettings(port=0, auth="trust"), rooms)
        reader, writer = await asyncio.open_connection(*await server.start())
        writer.write(startup_packet({"user": "ann"}))
        data = await reader.read()
        writer.close()
        await server.drain(1)
        return data

    assert b"57P03" in asyncio.run(one())


def test_draining_ends_idle_sessions_and_lets_steps_finish(proxy: Served) -> None:
    with proxy.raw() as idle, proxy.raw() as in_block, proxy.raw() as busy, proxy.raw() as in_front:
        in_block.query("BEGIN")
        busy.send(query(SLOW))
        in_front.send(query("SELECT count(*) FROM generate_series(1, 2000) a, generate_series(1, 2000) b"))
        assert proxy.answering.begun.wait(5)
        drained = proxy.drain()
        for raw in (idle, in_block):
            assert errors(raw.until("E"))[0]["C"] == "57P01"
            assert raw.receive() is None
        with pytest.raises(OSError, match=r"refused|reset"):
            Raw.open(proxy.port)
        assert rows(in_front.until("Z")) == [("4000000",)]
        assert not drained.done()
        proxy.answering.go_on.set()
        assert len(rows(busy.until("Z"))) == 5
        assert errors(busy.until("E"))[0]["C"] == "57P01"
        drained.result(5)


def test_draining_waits_longer_for_steps_and_delivers_them(proxy: Served) -> None:
    with proxy.raw() as raw:
        raw.send(query(SLOW))
        assert proxy.answering.begun.wait(5)
        drained = proxy.drain(0.2)
        wait([drained], 0.6)
        proxy.answering.go_on.set()
        assert len(rows(raw.until("Z"))) == 5
        drained.result(5)


def test_draining_waits_for_the_step_of_a_client_that_left(proxy: Served) -> None:
    with proxy.raw() as raw:
        raw.send(query(SLOW))
        assert proxy.answering.begun.wait(5)
    drained = proxy.drain()
    wait([drained], 0.2)
    assert not drained.done()
    proxy.answering.go_on.set()
    drained.result(5)
    assert proxy.answering.outcomes == ["done"]


def test_one_connected_socket_is_served_without_a_port(proxy: Served) -> None:
    ours, theirs = socket.socketpair()
    asyncio.run_coroutine_threadsafe(proxy.server.admit(theirs), proxy.loop).result(5)
    with Raw(ours) as raw:
        raw.send(startup_packet({"user": "ann"}))
        raw.until("Z")
        assert len(rows(raw.query(BY_COUNTRY))) == 5


def test_many_at_once(proxy: Served) -> None:
    failures: list[BaseException] = []

    def ask() -> None:
        try:
            with proxy.raw() as raw:
                for _ in range(10):
                    assert len(rows(raw.query(BY_AGE))) == 2000
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(proxy.answering.steps) == 200


def test_sessions_leave_nothing_behind(proxy: Served, wire_front: Front) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    with admin(wire_front) as connection:
        backends = "SELECT 1 FROM pg_stat_activity WHERE usename = 'ann'"
        proxy.raw().close()
        eventually(lambda: proxy.sessions == 0)
        before = descriptors()
        for _ in range(50):
            proxy.raw().close()
            started(proxy.port).close()
            Raw.open(proxy.port).close()
        eventually(lambda: proxy.sessions == 0 and descriptors() <= before)
        eventually(lambda: connection.execute(backends).fetchone() is None)


def test_logs_hold_no_statements_and_no_data(proxy: Served, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with proxy.raw() as raw:
        for text in (
            BY_COUNTRY,
            "SELECT country, count(*) AS broken FROM people GROUP BY country",
            "SELEC 42",
        ):
            raw.query(text)
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("dpproxy")]
    assert any("ZeroDivisionError" in line for line in ours)
    assert not any("SELE" in line or "42" in line or "country" in line for line in ours)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (ServerSettings(host="0.0.0.0"), "tls_cert"),
        (ServerSettings(host="192.0.2.1", tls_cert="x"), "tls_cert"),
        (ServerSettings(host="example.org", auth="trust"), "loopback"),
        (ServerSettings(host="0.0.0.0", auth="trust", tls_cert="x", tls_key="y"), "loopback"),
        (
            ServerSettings(tls_cert="/none/cert", tls_key="/none/key"),
            "tls_cert /none/cert cannot be read",
        ),
    ],
)
def test_what_would_let_others_listen_is_refused(settings: ServerSettings, message: str) -> None:
    rooms = Rooms(Scripted(), Path("x"), "x", lambda _: ("a", "b"), lambda _: None, fake_salt_key=bytes(32))
    with pytest.raises(ServerError, match=message):
        Server(settings, rooms)


def test_a_port_in_use(proxy: Served) -> None:
    rooms = Rooms(Scripted(), Path("x"), "x", lambda _: ("a", "b"), lambda _: None, fake_salt_key=bytes(32))

    async def second() -> None:
        server = Server(ServerSettings(port=proxy.port), rooms)
        try:
            await server.start()
        finally:
            await server.drain(0)

    with pytest.raises(ServerError, match="cannot listen"):
        asyncio.run(second())


_SERVE = """
import asyncio, sys, time
from pathlib import Path
from dpproxy.server.shutdown import leave
from dpproxy.server.listener import Rooms, Server, ServerSettings
from tests.dpproxy.wire import Scripted

class Endless(Scripted):
    def prepare(self, text, oids, errors=False):
        print("planning", flush=True)
        while True:
            time.sleep(0.01)

role = (sys.argv[3], sys.argv[4])
rooms = Rooms(Endless(), Path(sys.argv[1]), sys.argv[2], lambda _: role, lambda _: None, bytes(32))
server = Server(ServerSettings(port=0, auth="trust"), rooms)
asyncio.run(server.serve(lambda host, port: print(port, flush=True)))
leave()
"""


@contextmanager
def serving(front: Front) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """A server whose planning never ends, and what it says: first its port."""
    command = [sys.executable, "-c", _SERVE, str(front.address), front.database, *front.role_for("ann")]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout
        finally:
            process.kill()


def test_planning_that_never_ends_keeps_no_server_alive(wire_front: Front) -> None:
    with serving(wire_front) as (process, said):
        with started(int(said.readline())) as raw:
            raw.until("Z")
            raw.send(query(BY_COUNTRY))
            assert said.readline() == b"planning\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(25) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_drain_a_server(wire_front: Front, number: signal.Signals) -> None:
    with serving(wire_front) as (process, said):
        with started(int(said.readline())) as raw:
            raw.until("Z")
            process.send_signal(number)
            assert errors(raw.until("E"))[0]["C"] == "57P01"
        assert process.wait(10) == 0
