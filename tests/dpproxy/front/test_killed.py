"""The front killed under load: it comes back, sessions are told, and nothing is charged twice."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from dpproxy.front.front import Front
from dpproxy.pgwire.startup import startup_packet
from tests.dpproxy.serving import POLICY, Running, make, serving
from tests.dpproxy.wire import BY_COUNTRY, Raw, Served, admin, errors, eventually, rows, served, start_front

pytestmark = pytest.mark.service

TRUST = """
[server]
auth = "trust"
[budget.dataset]
"""
ASKED = "SELECT town, COUNT(*) AS n FROM people WHERE person_id <> {} GROUP BY town ORDER BY town"
USED = "SELECT used, reserved FROM dpproxy.budget WHERE account = 'analyst:ann' AND unit = 'information'"
QUESTIONS, ASKERS, KILLS = 60, 4, 3


def kill_head(data_dir: Path) -> None:
    """SIGKILL for the process at the head of an embedded server."""
    file = data_dir / "cluster" / "postmaster.pid"

    def killed() -> bool:
        """Not where the file is still that of one that was killed before."""
        if not file.exists() or "ready" not in (text := file.read_text()):
            return False
        with suppress(ProcessLookupError):
            os.kill(int(text.split("\n")[0]), signal.SIGKILL)
            return True
        return False

    eventually(killed, 30)


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    with start_front(tmp_path / "front") as front:
        yield front


def connected_again(proxy: Served) -> Raw:
    """A session of the front that has come back."""
    deadline = time.monotonic() + 30
    while True:
        raw = Raw.open(proxy.port)
        raw.send(startup_packet({"user": "ann"}))
        seen = raw.until("Z")
        if seen and seen[-1][0] == "Z":
            return raw
        raw.close()
        assert errors(seen)[0]["S"] == "FATAL"
        assert time.monotonic() < deadline, "the front did not come back"
        time.sleep(0.02)


def answered_again(proxy: Served) -> Raw:
    """A session that has been answered: the front may take one in before it has noticed that a process was killed."""
    while True:
        raw = connected_again(proxy)
        answer = raw.query(BY_COUNTRY)
        if rows(answer):
            assert rows(answer)[0] == ("US", "500")
            return raw
        assert errors(answer)[-1]["C"] == "57P01"
        raw.close()


@pytest.mark.parametrize("whole", [True, False])
def test_sessions_are_told_and_the_front_comes_back(front: Front, tmp_path: Path, whole: bool) -> None:
    with served(front) as proxy:
        raw = proxy.raw()
        for _ in range(3):
            if whole:
                kill_head(tmp_path / "front")
            else:
                with admin(front) as connection:
                    connection.execute("SET application_name = 'mine'")
                    found = connection.execute("SELECT pid FROM pg_stat_activity WHERE usename = 'ann'")
                    os.kill(found.fetchall()[0][0], signal.SIGKILL)
            assert errors(raw.until("E"))[-1]["C"] == "57P01"
            assert raw.receive() is None
            raw.close()
            raw = answered_again(proxy)
            assert rows(raw.query("SELECT count(*) FROM articles")) == [("5000",)]
        raw.close()
        assert len(proxy.answering.steps) == 3


def ask(running: Running, numbers: Iterator[int], heard: list[str | None]) -> None:
    """Asks one question after the other, each until it is answered; notes the errors on the way."""
    connection: psycopg.Connection | None = None
    for number in numbers:
        while True:
            try:
                if connection is None or connection.closed:
                    connection = running.connect("ann")
                assert len(connection.execute(ASKED.format(number).encode()).fetchall()) == 3
                break
            except psycopg.Error as error:
                heard.append(error.sqlstate)
                time.sleep(0.02)
    if connection is not None:
        connection.close()


def test_nothing_is_charged_twice(tmp_path: Path) -> None:
    make(tmp_path, POLICY + TRUST)
    heard: list[str | None] = []
    numbers, taking = iter(range(QUESTIONS)), threading.Lock()

    def shared() -> Iterator[int]:
        while True:
            with taking:
                number = next(numbers, None)
            if number is None:
                return
            yield number

    with serving(["serve", "--port", "0"], folder=tmp_path) as running:
        askers = [threading.Thread(target=ask, args=(running, shared(), heard)) for _ in range(ASKERS)]
        for one in askers:
            one.start()
        for _ in range(KILLS):
            time.sleep(0.4)
            kill_head(tmp_path / ".dpproxy" / "front")
        for one in askers:
            one.join(60)
        with running.connect("ann") as connection:
            (found,) = connection.execute(USED).fetchall()
        assert found == (QUESTIONS, 0), heard
        assert set(heard) <= {"57P01", "57P03", None}
        assert "57P01" in heard or None in heard
