"""A ledger restored from a copy is noticed, by a new process and by one that lives on; a crash is no restore."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from budget.account import AnotherLedger, Charge, LedgerOlder, Limit, Outcome, ReserveRequest
from budget.highwater import HighWater
from budget.ledger import Ledger
from dpproxy.embedded.server import Embedded
from tests.budget.dying import PINNED

pytestmark = pytest.mark.service

_numbers = itertools.count()
Sql = Callable[..., list[tuple[object, ...]]]


class Copies:
    """A ledger in a database of its own that can be copied and put back, as a backup is."""

    def __init__(self, server: Embedded) -> None:
        self.server, self.name = server, f"water_{next(_numbers)}"
        self.admin(f"CREATE DATABASE {self.name}")
        self.ledger = self.open()
        self.ledger.accounts.seed("analyst:a", Limit(10**9, 10**9, "none"))

    def open(self) -> Ledger:
        return Ledger.open(self.server.conninfo(dbname=self.name), PINNED, instance="x")

    def admin(self, statement: str) -> None:
        with psycopg.connect(self.server.conninfo(), autocommit=True) as connection:
            connection.execute(statement.encode())

    def ask(self, ledger: Ledger | None = None) -> None:
        (ledger or self.ledger).update_budget("analyst:a", Charge(1, 1))

    def copy(self) -> None:
        self.admin(f"CREATE DATABASE {self.name}_copy TEMPLATE {self.name} STRATEGY file_copy")

    def restore(self) -> None:
        """Puts the copy in the ledger's place; its sessions are cut off, as by a server that was stopped."""
        self.admin(f"DROP DATABASE {self.name} WITH (FORCE)")
        self.admin(f"ALTER DATABASE {self.name}_copy RENAME TO {self.name}")


@pytest.fixture
def copies(server: Embedded) -> Iterator[Copies]:
    made = Copies(server)
    yield made
    made.ledger.close()


def copied(copies: Copies) -> None:
    """Copies a ledger that is being used."""
    copies.ask()
    copies.ledger.close()
    copies.copy()
    copies.ledger = copies.open()


def test_a_ledger_reaches_its_own_mark(copies: Copies) -> None:
    copies.ledger.high_water.check(copies.ledger.high_water.now())
    for _ in range(3):
        copies.ask()
        mark = copies.ledger.high_water.now()
        copies.ask()
        copies.ledger.high_water.check(mark)
    copies.ledger.close()
    again = copies.open()
    again.high_water.check(HighWater.load(mark.dump()))
    assert again.high_water.now().number == mark.number + 2
    again.close()


def test_a_restored_copy_is_older_than_its_mark(copies: Copies) -> None:
    copied(copies)
    copies.ask()
    mark = copies.ledger.high_water.now()
    copies.ledger.close()
    copies.restore()
    copies.ledger = copies.open()
    with pytest.raises(LedgerOlder, match="forgotten entry"):
        copies.ledger.high_water.check(mark)
    assert copies.ledger.history.verify() is None, "within itself the old ledger is in order"


def test_a_restored_copy_that_went_on_is_not_the_same(copies: Copies) -> None:
    """Entries of other facts under the numbers of the mark."""
    copied(copies)
    copies.ask()
    mark = copies.ledger.high_water.now()
    copies.ledger.close()
    copies.restore()
    copies.ledger = copies.open()
    for _ in range(5):
        copies.ask()
    assert copies.ledger.high_water.now().number > mark.number
    with pytest.raises(LedgerOlder):
        copies.ledger.high_water.check(mark)
    with pytest.raises(LedgerOlder):
        copies.ledger.high_water.after(mark)


def test_a_process_that_lives_through_a_restore_writes_nothing_more(copies: Copies) -> None:
    copied(copies)
    copies.ask()
    copies.restore()
    for _ in range(2):
        with pytest.raises(LedgerOlder, match="restored"):
            copies.ask()
    fresh = copies.open()
    assert fresh.accounts.get("analyst:a").used == Charge(1, 1)
    fresh.close()


def test_a_copy_that_lacks_only_what_was_committed_out_of_turn(copies: Copies) -> None:
    """It has the highest entry of the mark, and lacks one of a lower number."""
    for _ in range(3):
        copies.ask()
    mark = copies.ledger.high_water.now()
    with psycopg.connect(copies.server.conninfo(dbname=copies.name)) as owner:
        owner.execute(
            "DELETE FROM dpproxy_ledger.entry WHERE stage = 1 AND number = "
            "(SELECT max(number) - 2 FROM dpproxy_ledger.entry)"
        )
    assert copies.ledger.high_water.now().number == mark.number
    with pytest.raises(LedgerOlder):
        copies.ledger.high_water.check(mark)


def test_a_fact_that_was_edited_is_not_the_same(copies: Copies) -> None:
    copies.ask()
    mark = copies.ledger.high_water.now()
    with psycopg.connect(copies.server.conninfo(dbname=copies.name)) as owner:
        owner.execute("UPDATE dpproxy_ledger.entry SET information = 0 WHERE stage = 1")
    with pytest.raises(LedgerOlder):
        copies.ledger.high_water.check(mark)


def test_another_ledger_is_not_this_one(copies: Copies, server: Embedded) -> None:
    """Two ledgers by mistake: the same numbers, even the same facts, under another id."""
    other = Copies(server)
    with pytest.raises(AnotherLedger):
        other.ledger.high_water.check(copies.ledger.high_water.now())
    with pytest.raises(AnotherLedger):
        copies.ledger.high_water.check(replace(copies.ledger.high_water.now(), ledger=other.ledger.id))
    other.ledger.close()


def test_a_mark_covers_what_has_returned(copies: Copies) -> None:
    """Also where many entries of other processes have come after it."""
    copies.ask()
    own = copies.ledger.high_water.now().number
    other = copies.open()
    for _ in range(80):
        copies.ask(other)
    mark = copies.ledger.high_water.now()
    assert own in mark.entries
    assert own not in other.high_water.now().entries
    assert len(mark.dump()) < 2**14
    other.close()


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "null", '{"ledger": "a"}', '{"ledger": "a", "entries": [[1]]}']
)
def test_what_is_no_mark(text: str) -> None:
    with pytest.raises(ValueError, match="no high-water mark"):
        HighWater.load(text)


def test_a_crash_of_the_server_is_no_restore(tmp_path: Path) -> None:
    """What returned, and what a mark names, is on disk, though rows are let go before."""
    with Embedded.start(tmp_path / "ledger", durable=True) as server:
        ledger = Ledger.open(server.conninfo(), PINNED, instance="x")
        ledger.accounts.seed("analyst:a", Limit(10**9, 10**9, "none"))
        for turn in range(1, 4):
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(lambda _: ledger.update_budget("analyst:a", Charge(1, 1)), range(8)))
            (held,) = ledger.reserve(
                ReserveRequest(["analyst:a"], [Charge(5, 1)], reached=True, queries=["q"], mechanisms=["m"])
            )
            mark = ledger.high_water.now()
            crash(tmp_path / "ledger" / "cluster", server.conninfo())
            ledger.high_water.check(mark)
            assert ledger.outcome(held.id) == Outcome("open", True, Charge(0, 0), None)
            ledger.spend(held)
            assert ledger.accounts.get("analyst:a").used == Charge(13 * turn, 9 * turn)
        assert ledger.history.verify() is None
        ledger.close()


def crash(cluster: Path, conninfo: str) -> None:
    """Kills a server's session, which makes the server throw away all memory and read its log again."""
    main = int((cluster / "postmaster.pid").read_text().split()[0])
    children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
    sessions = [child for child in children if b"idle" in Path(f"/proc/{child}/cmdline").read_bytes()]
    os.kill(int(sessions[0]), signal.SIGKILL)
    for _ in range(100):
        time.sleep(0.05)
        with suppress(psycopg.OperationalError), psycopg.connect(conninfo):
            return
    raise AssertionError("the server does not come back")
