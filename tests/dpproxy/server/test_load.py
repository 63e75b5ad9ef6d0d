"""Many connections: beyond the limit, coming and going, silent ones, ones that read slowly or not at all."""

from __future__ import annotations

import gc
import os
import socket
import struct
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from dpproxy.front.front import Front
from dpproxy.pgwire import messages as m
from dpproxy.pgwire.relay import Relay
from dpproxy.pgwire.startup import startup_packet
from dpproxy.server.listener import LOGINS, LOGINS_OF_ONE_PEER
from tests.dpproxy.wire import (
    BY_COUNTRY,
    EXPECTED,
    SLOW,
    SYNC,
    VERIFIERS,
    Raw,
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

BACKENDS = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'ann'"


def logged_in(port: int) -> tuple[Raw, str]:
    """A connection, and "Z" or the SQLSTATE that it ended with."""
    raw = Raw.open(port)
    raw.send(startup_packet({"user": "ann"}))
    seen = raw.until("Z")
    return raw, "Z" if seen[-1][0] == "Z" else errors(seen)[0]["C"]


@pytest.mark.parametrize("limit", [40, pytest.param(200, marks=pytest.mark.slow)])
def test_two_and_a_half_times_as_many_as_may(wire_front: Front, limit: int) -> None:
    with served(wire_front, max_sessions=limit, max_sessions_per_login=limit) as proxy:
        with ThreadPoolExecutor(50) as pool:
            came = list(pool.map(lambda _: logged_in(proxy.port), range(limit * 5 // 2)))
        assert Counter(code for _, code in came) == {"Z": limit, "53300": limit * 3 // 2}
        for raw, code in came:
            assert code == "Z" or raw.receive() is None
        inside = [raw for raw, code in came if code == "Z"]
        assert all(rows(raw.query("SELECT 1")) == [("1",)] for raw in inside)
        for raw, _ in came:
            raw.close()
        eventually(lambda: proxy.sessions == 0)
        with proxy.raw() as raw:
            assert rows(raw.query(BY_COUNTRY))[0] == ("US", "500")


def test_half_logins_take_nobodys_place(wire_front: Front) -> None:
    with served(wire_front, max_sessions=1, auth="scram", login_seconds=20) as proxy:
        waiting = [Raw.open(proxy.port) for _ in range(20)]
        for raw in waiting[10:]:
            raw.send(startup_packet({"user": "ann"}))
        eventually(lambda: len(proxy.server._logins) == 20)
        with proxy.connect(password="pencil", autocommit=True) as connection:
            assert connection.execute(BY_COUNTRY).fetchall() == EXPECTED
        for raw in waiting:
            raw.close()


def from_address(proxy: Served, address: str) -> socket.socket:
    """A connection that says nothing."""
    return socket.create_connection(("127.0.0.1", proxy.port), 10, source_address=(address, 0))


@pytest.mark.parametrize("addresses", [1, 11])
def test_silent_connections_lock_nobody_out(wire_front: Front, addresses: int) -> None:
    with served(wire_front, auth="scram") as proxy, ExitStack() as stack:
        silent = [
            stack.enter_context(from_address(proxy, f"127.0.0.{2 + number % addresses}"))
            for number in range(LOGINS + 1)
        ]
        for address in ("127.0.0.1", "127.0.0.2"):
            raw = stack.enter_context(Raw(from_address(proxy, address)))
            raw.send(startup_packet({"user": "ann"}))
            assert shape(raw.scram("pencil")).endswith("KZ")
            assert rows(raw.query("SELECT 1")) == [("1",)]
        most = min(LOGINS_OF_ONE_PEER * addresses, LOGINS)
        eventually(lambda: len(proxy.server._logins) <= most)
        (error,) = errors(Raw(silent[0]).until("E"))
        assert (error["S"], error["C"]) == ("FATAL", "53300")


@pytest.mark.parametrize("tls", [False, True])
def test_a_startup_packet_that_takes_too_long(wire_front: Front, tls: bool) -> None:
    with served(wire_front, auth="scram", startup_seconds=0.3) as proxy, Raw.open(proxy.port) as raw:
        raw.send(struct.pack(">ii", 8, m.SSL_REQUEST) if tls else startup_packet({"user": "ann"})[:-1])
        received = b""
        while part := raw.socket.recv(4096):
            received += part
        assert received == b"S" if tls else b"57014" in received
        with proxy.connect(password="pencil", sslmode="require", autocommit=True) as connection:
            time.sleep(0.5)
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_one_login_does_not_take_all_seats(wire_front: Front) -> None:
    with served(wire_front, max_sessions=5, max_sessions_per_login=3) as proxy, ExitStack() as stack:
        mine = [stack.enter_context(proxy.raw()) for _ in range(3)]
        refused = stack.enter_context(Raw.open(proxy.port))
        refused.send(startup_packet({"user": "ann"}))
        (error,) = errors(refused.until("E"))
        assert (error["C"], error["M"]) == ("53300", 'too many connections for role "ann"')
        assert "max_sessions_per_login" in error["H"]
        stack.enter_context(proxy.raw(user="bob"))
        mine[1].close()
        eventually(lambda: proxy.sessions == 3)
        stack.enter_context(proxy.raw())


def test_one_login_that_comes_again_and_again_holds_up_no_other(
    wire_front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether its password is to be looked up, or its session opened at the front."""
    go_on = threading.Event()

    def verifier(user: str) -> str | None:
        if user == "bob":
            go_on.wait(30)
        return VERIFIERS["ann"]

    def role_for(user: str) -> tuple[str, str]:
        if user == "bob":
            go_on.wait(30)
        return wire_front.role_for(user)

    for auth, at in (("scram", 20), ("trust", 0)):
        go_on.clear()
        with served(wire_front, auth=auth) as proxy:
            monkeypatch.setattr(proxy.server._entrance, "_verifier", verifier)
            monkeypatch.setattr(proxy.server, "_rooms", replace(proxy.server._rooms, role_for=role_for))
            waiting = [Raw.open(proxy.port) for _ in range(20)]
            for raw in waiting:
                raw.send(startup_packet({"user": "bob"}))
            eventually(lambda at=at: len(proxy.server._logins) >= at)
            with proxy.connect(password="pencil", autocommit=True, connect_timeout=8) as connection:
                assert connection.execute(BY_COUNTRY).fetchall() == EXPECTED
            go_on.set()
            for raw in waiting:
                raw.close()


def memory() -> int:
    """Resident bytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def cycles(proxy: Served, front: Front, count: int) -> None:
    """Clients that come and go in every way leave no memory, descriptor, backend or thread behind."""

    def one(number: int) -> None:
        raw = Raw.open(proxy.port)
        if number % 4:
            raw.send(startup_packet({"user": "ann"}))
            raw.until("Z")
        if number % 4 == 2:
            raw.query(BY_COUNTRY)
            raw.send(m.message("X"))
        if number % 4 == 3:
            raw.send(m.parse("s", BY_COUNTRY), bound("p", "s"), m.execute("p"))
        if number % 8 == 5:
            raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raw.close()

    def run(times: int) -> None:
        for number in range(times):
            one(number)
        eventually(lambda: proxy.sessions == 0 and not proxy.server._logins and not proxy.server._jobs, 30)

    run(60)
    with admin(front) as connection:
        gc.collect()
        proxy.answering.steps.clear()
        before = (memory(), len(os.listdir("/proc/self/fd")), threading.active_count())
        run(count)
        proxy.answering.steps.clear()
        gc.collect()
        eventually(lambda: connection.execute(BACKENDS).fetchone() == (0,), 30)
        eventually(lambda: len(os.listdir("/proc/self/fd")) <= before[1])
        assert threading.active_count() <= before[2] + 40
        assert memory() - before[0] < 8 << 20


def test_coming_and_going(proxy: Served, wire_front: Front) -> None:
    cycles(proxy, wire_front, 150)


@pytest.mark.slow
def test_coming_and_going_ten_thousand_times(proxy: Served, wire_front: Front) -> None:
    cycles(proxy, wire_front, 10_000)


def test_a_silent_client_is_sent_away(wire_front: Front) -> None:
    with (
        served(wire_front, idle_seconds=1.0) as proxy,
        proxy.raw() as raw,
        proxy.raw() as talking,
        proxy.raw() as waiting,
    ):
        waiting.send(query(SLOW))
        raw.query("BEGIN")
        for _ in range(15):
            time.sleep(0.1)
            assert rows(talking.query("SELECT 1")) == [("1",)]
        (error,) = errors(raw.until("E"))
        assert (error["S"], error["C"]) == ("FATAL", "57P05")
        assert raw.receive() is None
        assert waiting.is_silent()
        proxy.answering.go_on.set()
        assert len(rows(waiting.until("Z"))) == 5


def test_a_peer_that_vanishes_is_noticed(proxy: Served) -> None:
    with proxy.raw():
        connection = proxy.session()._client.transport.get_extra_info("socket")
        wanted = {
            (socket.SOL_SOCKET, socket.SO_KEEPALIVE): 1,
            (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE): 60,
            (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT): 120_000,
        }
        assert {option: connection.getsockopt(*option) for option in wanted} == wanted


def test_a_client_that_never_reads_is_bounded_and_can_be_cancelled(proxy: Served) -> None:
    with proxy.raw() as raw:
        raw.send(query("SELECT repeat('x', 10000) FROM generate_series(1, 1000000)"))
        session = proxy.session()
        eventually(lambda: session._client.congested)
        time.sleep(0.3)
        assert session._client.transport.get_write_buffer_size() < 1 << 20
        with Raw.open(proxy.port) as other:
            other.send(struct.pack(">ii", 8 + len(raw.key), m.CANCEL_REQUEST) + raw.key)
            assert other.receive() is None
        seen = raw.until("Z")
        assert errors(seen)[0]["C"] == "57014"


def test_who_pipelines_holds_nobody_up(proxy: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight sessions send as many messages as fit in a buffer. Another login's question is taken before a half of these
    are, whatever they cost."""
    taken: list[int] = []
    take = Relay.client

    def noted(relay: Relay, kind: int, body: bytes) -> None:
        taken.append(kind)
        take(relay, kind, body)

    with ExitStack() as stack:
        many = [stack.enter_context(Raw.open(proxy.port)) for _ in range(8)]
        ann = stack.enter_context(Raw.open(proxy.port))
        for raw, user in ((ann, "ann"), *((raw, "mallory") for raw in many)):
            raw.send(startup_packet({"user": user}))
            raw.until("Z")
        monkeypatch.setattr(Relay, "client", noted)
        for raw in many:
            raw.send(m.parse("", "SELECT 1", ()) * 2000)
        assert rows(ann.query("SELECT 2")) == [("2",)]
        assert taken.index(ord("Q")) < 8 * 2000 / 2
        for raw in many:
            raw.send(SYNC)
            assert [kind for kind, _ in raw.until("Z")] == ["1"] * 2000 + ["Z"]


def test_who_pipelines_for_ever_is_ended_by_a_drain(wire_front: Front) -> None:
    """At the end of a round; what was asked before it is answered."""
    with served(wire_front) as proxy, Raw.open(proxy.port) as raw:
        raw.send(startup_packet({"user": "mallory"}))
        raw.until("Z")
        over = threading.Event()

        def send() -> None:
            with suppress(OSError):
                while not over.is_set():
                    raw.send(SYNC * 2000)

        sending = threading.Thread(target=send)
        sending.start()
        raw.until("Z")
        drained = proxy.drain(60)
        last = raw.until("E")
        assert {kind for kind, _ in last[:-1]} == {"Z"}
        assert errors(last)[0]["C"] == "57P01"
        drained.result(30)
        over.set()
        raw.close()
        sending.join()


def test_cancelling_what_does_not_run(proxy: Served) -> None:
    with proxy.raw() as raw:
        for before in (b"", query("SELECT 1"), query(BY_COUNTRY), m.parse("s", BY_COUNTRY) + SYNC):
            raw.send(before)
            if before:
                raw.until("Z")
            for _ in range(2):
                with Raw.open(proxy.port) as other:
                    other.send(struct.pack(">ii", 8 + len(raw.key), m.CANCEL_REQUEST) + raw.key)
                    assert other.receive() is None
            assert rows(raw.query("SELECT 1")) == [("1",)]
        raw.send(query("BEGIN"), query(f"DECLARE c CURSOR FOR {SLOW}"))
        assert proxy.answering.begun.wait(5)
        with Raw.open(proxy.port) as other:
            other.send(struct.pack(">ii", 8 + len(raw.key), m.CANCEL_REQUEST) + raw.key)
            assert other.receive() is None
        raw.until("Z")
        assert errors(raw.until("Z"))[0]["C"] == "57014"
        assert errors(raw.query("FETCH c"))[0]["C"] == "25P02"


@pytest.mark.parametrize(
    "text", ["SELECT 'caf\u00e9 \U0001f600 \u202e'", 'SELECT 1 AS "\u540d\u524d"', "SELECT U&'\\0041'"]
)
def test_unicode_goes_through(proxy: Served, text: str) -> None:
    with proxy.raw() as raw:
        private = BY_COUNTRY.replace("AS n", "AS caf\u00e9").replace("BY n", "BY 2")
        assert shape(raw.query(text)) == "TDCZ"
        seen = raw.query(private)
        assert "caf\u00e9".encode() in seen[0][1]
        seen = raw.query(f"{text}; {private}")
        assert shape(seen) == "TDCTDCZ"


@pytest.mark.parametrize(
    "message",
    [
        m.message("P", b"a\0b\0SELECT 1\0\0\0"),
        m.message("B", b"p\0\0s\0\0\0\0\0\0\0"),
        m.message("E", b"p\0\0\0\0\0\0\0"),
        m.message("D", b"Sx\0y\0"),
        m.message("C", b"Px\0y\0"),
        m.message("P", b"\xff\0SELECT 1\0\0\0"),
        m.message("P", b"s\0SELECT '\xc3\x28'\0\0\0"),
        m.message("B", b"\xff\0\0\0\0\0\0\0\0"),
        m.message("D", b"S\xff\0"),
        m.message("C", b"S\xff\0"),
        m.message("E", b"\xff\0\0\0\0\0"),
    ],
)
def test_zero_bytes_and_broken_utf8_in_every_field(proxy: Served, message: bytes) -> None:
    with proxy.raw() as raw:
        raw.send(message, SYNC)
        seen = raw.until("Z")
        assert seen[-1][0] == "Z"
        assert all(error["C"][:2] in ("08", "22", "26", "34", "42") for error in errors(seen))
        assert rows(raw.query(BY_COUNTRY))[0] == ("US", "500")


@pytest.mark.parametrize("sent", [m.message("X"), b"GET / HTTP/1.1\r\n\r\n"])
def test_what_is_no_startup_packet_is_closed_without_a_word(proxy: Served, sent: bytes) -> None:
    """As by PostgreSQL: node-postgres ends a connection that it has just begun by a Terminate."""
    with Raw.open(proxy.port) as raw:
        raw.send(sent)
        assert raw.receive() is None


@pytest.mark.parametrize("parameter", ["user", "database", "application_name", "options"])
def test_broken_utf8_in_the_startup_packet(proxy: Served, parameter: str) -> None:
    given = {"user": b"ann", "database": b"x", parameter: b"\xc3\x28"}
    body = b"".join(name.encode() + b"\0" + value + b"\0" for name, value in given.items()) + b"\0"
    with Raw.open(proxy.port) as raw:
        raw.send(struct.pack(">ii", 8 + len(body), m.PROTOCOL_3_0) + body)
        (error,) = errors(raw.until("E"))
        assert (error["S"], error["C"]) == ("FATAL", "22021")


def test_oversized_messages_before_the_login(wire_front: Front) -> None:
    with served(wire_front, auth="scram") as proxy:
        for head in (struct.pack(">ii", 1 << 30, m.PROTOCOL_3_0), struct.pack(">ii", 10_001, m.PROTOCOL_3_0)):
            with Raw.open(proxy.port) as raw:
                raw.send(head)
                assert raw.receive() is None, "PostgreSQL says nothing either"
        for sent in (b"p" + struct.pack(">i", 1 << 20), b"Q" + struct.pack(">i", 12), b"p\0\0\0\3"):
            with Raw.open(proxy.port) as raw:
                raw.send(startup_packet({"user": "ann"}))
                assert raw.kinds("R") == "R"
                raw.send(sent)
                assert errors(raw.until("E"))[0]["C"] in ("08P01", "54000")
                assert raw.receive() is None
