"""A disk that takes nothing more: no answer without its charge, and all goes on once there is room."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from budget.account import Charge, LedgerUnavailable, Limit, Reservation, ReserveRequest, Settlement
from budget.ledger import Ledger
from dpproxy.embedded.server import Embedded
from tests.budget.dying import PINNED

pytestmark = pytest.mark.service

TABLES, LOG = 16 * 2**20, 2**20
"""How far files may be written while the disk is full: a segment of the log is 16 MiB, so that the tables meet the
first limit alone, and the log the second."""


@contextmanager
def full(cluster: Path, room: int) -> Iterator[None]:
    """Every process of a server meets the limit as it would a full disk, and is freed of it afterwards."""
    processes = _processes(cluster)
    before = resource.prlimit(processes[0], resource.RLIMIT_FSIZE)
    try:
        for process in processes:
            resource.prlimit(process, resource.RLIMIT_FSIZE, (room, before[1]))
        yield
    finally:
        if (cluster / "postmaster.pid").exists():
            for process in _processes(cluster):
                resource.prlimit(process, resource.RLIMIT_FSIZE, before)


def _processes(cluster: Path) -> list[int]:
    main = int((cluster / "postmaster.pid").read_text().split()[0])
    return [main, *map(int, Path(f"/proc/{main}/task/{main}/children").read_text().split())]


class Asker:
    """Asks for large answers, and keeps what it was answered and what failed."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.answered: dict[bytes, bytes] = {}
        self.failed: list[Reservation] = []

    def ask(self) -> None:
        key, answer = b"key %d" % (len(self.answered) + len(self.failed)), os.urandom(300_000)
        charges = [Charge(7, 1)]
        (held,) = self.ledger.reserve(
            ReserveRequest(["analyst:a"], charges, reached=True, queries=["q"], mechanisms=["m"])
        )
        self.failed.append(held)
        done = self.ledger.settle(
            held,
            Settlement(
                Charge(5, 1),
                release_key=key,
                request_key=key,
                answer=answer,
                mechanism="m",
                query="q",
                epoch="e",
            ),
        )
        self.failed.remove(held)
        self.answered[key] = done.answer

    def ask_until(self, times: int) -> None:
        for _ in range(times):
            self.ask()

    def check(self, ledger: Ledger) -> None:
        """Whatever was answered is there and charged, and so is what failed after its backend was reached."""
        assert {key: ledger.replay("analyst:a", key) for key in self.answered} == self.answered
        outcomes = [ledger.outcome(held.id) for held in self.failed]
        spent = sum(found is not None and found.state == "spend" for found in outcomes)
        settled = sum(found is not None and found.state == "settle" for found in outcomes)
        used = 5 * (len(self.answered) + settled) + 7 * spent
        assert ledger.accounts.get("analyst:a").used.information == used
        assert ledger.accounts.get("analyst:a").reserved == Charge(0, 0)
        assert ledger.history.verify() is None


def opened(server: Embedded) -> Ledger:
    ledger = Ledger.open(server.conninfo(), PINNED, instance="x")
    ledger.accounts.seed("analyst:a", Limit(10**9, 10**9, "none"))
    return ledger


def until_it_answers(server: Embedded) -> None:
    """A server that panicked reads its log again, and takes long to stop while it does."""
    for _ in range(200):
        with suppress(psycopg.OperationalError), psycopg.connect(server.conninfo()):
            return
        time.sleep(0.1)


def test_no_room_for_answers(tmp_path: Path) -> None:
    """The tables cannot grow, the log can: a settlement fails, the server lives."""
    with Embedded.start(tmp_path / "ledger", durable=True) as server:
        asker = Asker(opened(server))
        asker.ask()
        with full(tmp_path / "ledger" / "cluster", TABLES), pytest.raises(LedgerUnavailable):
            asker.ask_until(200)
        assert 1 < len(asker.answered) < 200
        for held in asker.failed:
            asker.ledger.spend(held)
        asker.ask()
        asker.check(asker.ledger)
        asker.ledger.close()


def test_no_room_for_the_log(tmp_path: Path) -> None:
    """The server panics; with room again, and started anew, it knows whatever was answered."""
    with Embedded.start(tmp_path / "ledger", durable=True) as server:
        asker = Asker(opened(server))
        asker.ask()
        with full(tmp_path / "ledger" / "cluster", LOG), pytest.raises(LedgerUnavailable):
            asker.ask_until(200)
        asker.ledger.close()
        until_it_answers(server)
    with Embedded.start(tmp_path / "ledger", durable=True) as server:
        ledger = opened(server)
        asker.check(ledger)
        asker.ledger = ledger
        asker.ask()
        asker.check(ledger)
        ledger.close()
