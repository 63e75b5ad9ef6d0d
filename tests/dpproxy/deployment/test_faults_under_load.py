"""Faults while two proxies on one ledger answer six sessions: whatever was answered is charged, and all goes on."""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

import psycopg
import pytest

from budget.ledger import Ledger
from dpproxy.deployment.service import BoundConfig, configured
from dpproxy.embedded.server import Embedded
from tests.conftest import missing
from tests.dpproxy.engine.test_over_postgres import PEOPLE
from tests.dpproxy.postgres_data import Databases
from tests.dpproxy.serving import POLICY, Running, serving

pytestmark = pytest.mark.service

ANALYSTS = ("ann", "ben", "cat")
COUNT = "SELECT COUNT(*) FROM people WHERE person_id > {}"
USERS = 900
SETTINGS = (
    '[server]\nauth = "trust"\n[privacy]\nepoch = "day"\n[budget]\ninformation = 100000\ncalls = 100000\n'
)
UNAVAILABLE = {"57P03", "PV090", "57P01", "08006", "08001"}
"""What a statement may end with while something is away; none of it has a row."""
PATIENCE = 30
"""Seconds until all sessions are answered again after a fault."""


class Load:
    """Sessions that ask one new question after the other, and what they were answered."""

    def __init__(self, proxies: list[Running]) -> None:
        self.answers: dict[tuple[str, int], list[tuple[object, ...]]] = {}
        self.ends: Counter[str] = Counter()
        self._numbers = {analyst: count() for analyst in ANALYSTS}
        self._stopping = threading.Event()
        self._answered = {(analyst, n): 0 for analyst in ANALYSTS for n in range(len(proxies))}
        self._threads = [
            threading.Thread(target=self._ask, args=(analyst, n, proxies[n])) for analyst, n in self._answered
        ]
        for thread in self._threads:
            thread.start()

    def _ask(self, analyst: str, place: int, proxy: Running) -> None:
        connection: psycopg.Connection | None = None
        while not self._stopping.is_set():
            number = next(self._numbers[analyst])
            try:
                if connection is None or connection.closed:
                    connection = proxy.connect(analyst)
                rows = connection.execute(COUNT.format(number).encode()).fetchall()
            except psycopg.Error as error:
                self.ends[error.sqlstate or "08006"] += 1
                if connection is not None and connection.broken:
                    connection.close()
                time.sleep(0.05)
            else:
                self.answers[analyst, number] = rows
                self._answered[analyst, place] += 1
                time.sleep(0.01)
        if connection is not None:
            connection.close()

    def answered_again(self) -> None:
        """Waits until each session has had two more answers."""
        before, deadline = dict(self._answered), time.monotonic() + PATIENCE
        while any(self._answered[key] < before[key] + 2 for key in before):
            assert time.monotonic() < deadline, (before, self._answered, self.ends)
            time.sleep(0.05)

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(60)


PROGRAM = "from dpproxy.cli.app import app\napp()"
WRONG = """
import datetime as dt
from pathlib import Path
from dpproxy.engine import epochs
class Wrong(dt.datetime):
    @classmethod
    def now(cls, tz=None):
        return dt.datetime.now(tz) + dt.timedelta(seconds=int(Path({!r}).read_text()))
epochs.datetime = Wrong
"""
"""A proxy's own clock decides epochs alone; libfaketime cannot be in a process that sleeps as Python does."""


@contextmanager
def wrong_clock(clock: Path | None) -> Iterator[None]:
    """What is started meanwhile has the clock that a file says."""
    with pytest.MonkeyPatch.context() as patch:
        if clock is not None:
            patch.setenv("LD_PRELOAD", str(FAKED))
            patch.setenv("FAKETIME_TIMESTAMP_FILE", str(clock))
            patch.setenv("FAKETIME_NO_CACHE", "1")
            patch.setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        yield


class World:
    """Two proxies with data in PostgreSQL and one ledger in another."""

    def __init__(self, folder: Path, stack: ExitStack, clock: Path | None = None) -> None:
        self.folder, self._stack, self.epochs = folder, stack, 1 if clock is None else 3
        with wrong_clock(clock):
            self.ledger = stack.enter_context(Embedded.start(folder / "ledger", durable=True))
        self.backend = stack.enter_context(Embedded.start(folder / "data", durable=False))
        data = Databases(self.backend)
        url = self.ledger.conninfo().replace("\\", "\\\\").replace('"', '\\"')
        policy = POLICY.replace("duckdb:///people.duckdb", data.url(data.make(PEOPLE))) + SETTINGS
        self.proxies: list[Running] = []
        for name in ("one", "two"):
            keys = folder / name / ".dpproxy"
            keys.mkdir(parents=True)
            (keys / "key").write_bytes(bytes(range(32)))
            (keys / "key").chmod(0o600)
            if self.proxies:
                (keys / "key.mark").write_bytes((folder / "one/.dpproxy/key.mark").read_bytes())
            (folder / name / "dpproxy.toml").write_text(f'{policy}[ledger]\nurl = "{url}"\n')
            program = ("-c", PROGRAM if clock is None else WRONG.format(str(clock)) + PROGRAM)
            serve = serving(["serve", "--port", "0"], folder=folder / name, program=program)
            self.proxies.append(stack.enter_context(serve))
        self.load = Load(self.proxies)
        stack.callback(self.load.stop)
        self.load.answered_again()

    def restart_backend(self) -> None:
        """Its owner stops the server of the data, and starts it again a second later."""
        self.backend.stop()
        time.sleep(1)
        self.backend = self._stack.enter_context(Embedded.start(self.folder / "data", durable=False))

    def kill_ledger(self) -> None:
        """The ledger's server ends at once, without a word to its clients, and comes back."""
        pid = (self.ledger.data_dir / "cluster" / "postmaster.pid").read_text().split()[0]
        os.kill(int(pid), signal.SIGQUIT)

    @contextmanager
    def full_disk(self) -> Iterator[None]:
        """The first proxy can write no mark."""
        process = self.proxies[0].process.pid
        before = resource.prlimit(process, resource.RLIMIT_FSIZE)
        resource.prlimit(process, resource.RLIMIT_FSIZE, (1000, before[1]))
        yield
        resource.prlimit(process, resource.RLIMIT_FSIZE, before)

    def ahead(self) -> float:
        """By how many seconds the ledger's clock is ahead of the true time."""
        with psycopg.connect(self.ledger.conninfo()) as connection:
            ((now,),) = connection.execute("SELECT extract(epoch FROM clock_timestamp())").fetchall()
        return float(now) - time.time()

    def settle_up(self) -> None:
        """What was answered is charged, once each, is the same for everybody, and is answered again for nothing."""
        self.load.stop()
        answers = self.load.answers
        assert set(self.load.ends) <= UNAVAILABLE, self.load.ends
        checked = BoundConfig.open(configured(self.folder / "one" / "dpproxy.toml"))
        ledger = Ledger.open(self.ledger.conninfo(), checked.pinned, instance="the test")
        try:
            assert ledger.history.verify() is None
            bought = Counter(
                entry.account
                for entry in ledger.history.entries()
                if entry.kind == "settle" and entry.charged.information
            )
            for analyst in ANALYSTS:
                answered = sum(who == analyst for who, _ in answers)
                assert bought[f"analyst:{analyst}"] >= answered > 0
        finally:
            ledger.close()
            checked.backend.close()
        same: dict[int, set[str]] = {}
        for (_, number), rows in answers.items():
            same.setdefault(number, set()).add(str(rows))
        assert all(len(rows) <= self.epochs for rows in same.values()), "one question has one answer an epoch"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(tmp_path, stack)


def test_servers_that_go_and_come_back_and_a_full_disk(world: World) -> None:
    world.restart_backend()
    world.load.answered_again()
    world.kill_ledger()
    world.load.answered_again()
    with world.full_disk():
        time.sleep(1)
    world.load.answered_again()
    world.settle_up()


FAKED = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)


@pytest.fixture
def clock(tmp_path: Path) -> Path:
    """A file that says by how many seconds the clocks of a world are wrong."""
    if FAKED is None:
        missing("libfaketime")
    file = tmp_path / "clock"
    file.write_text("+0")
    return file


def test_a_clock_that_jumps_both_ways(tmp_path: Path, clock: Path) -> None:
    """An hour back, forty days forth and to the true time again, for both proxies and the ledger's server."""
    with ExitStack() as stack:
        world = World(tmp_path, stack, clock)
        for seconds in (-3600, 40 * 86400, 0):
            clock.write_text(f"{seconds:+}")
            assert abs(world.ahead() - seconds) < 60
            world.load.answered_again()
        world.settle_up()
