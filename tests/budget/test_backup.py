"""Backups of a ledger: put back as they were or not at all, with nothing given back that may have been spent."""

from __future__ import annotations

import io
import itertools
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from zipfile import ZipFile

import psycopg
import pytest

from budget import backup
from budget.account import (
    Charge,
    Exhausted,
    Frozen,
    LedgerError,
    LedgerOlder,
    Limit,
    ReserveRequest,
    Settlement,
)
from budget.backup import BackupError, Saved
from budget.ledger import Ledger
from budget.schema import MIGRATIONS, version_of
from dpproxy.embedded.server import Embedded
from tests.budget.dying import PINNED

pytestmark = pytest.mark.service

UNIT = 10**6
LIMIT = Limit(9 * UNIT, 9 * UNIT, "none")
_numbers = itertools.count()
DYING = """
import os, signal, sys
from zipfile import ZipFile
import psycopg
from budget import backup
from budget.backup import Saved

conninfo, file, last = sys.argv[1], sys.argv[2], int(sys.argv[3])
real, count = psycopg.Connection.execute, 0

def execute(self, *rest, **more):
    global count
    if count == last:
        os.kill(os.getpid(), signal.SIGKILL)
    count += 1
    return real(self, *rest, **more)

psycopg.Connection.execute = execute
with ZipFile(file) as archive:
    backup.restore(conninfo, archive, Saved.load(archive.read("saved").decode()))
print(count)
"""


@pytest.fixture
def database(server: Embedded) -> Callable[[], str]:
    """Makes a new database and gives its conninfo."""

    def make() -> str:
        name = f"backup_{next(_numbers)}"
        with psycopg.connect(server.conninfo(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return server.conninfo(dbname=name)

    return make


@pytest.fixture
def used(database: Callable[[], str]) -> Iterator[tuple[Ledger, str]]:
    """A ledger, and its conninfo: alice has an answer of 2 units, and holds 3 whose backend was not reached."""
    ledger = Ledger.open(conninfo := database(), PINNED, instance="the one before")
    ledger.accounts.seed("analyst:alice", LIMIT)
    ledger.epochs.nonce("2026-01")
    paid(ledger, "analyst:alice", 2)
    ledger.reserve(ReserveRequest(["analyst:alice"], [Charge(3 * UNIT, UNIT)], False, ["q"], ["m"]))
    yield ledger, conninfo
    ledger.close()


def paid(ledger: Ledger, account: str, units: int) -> None:
    """An answer, from beginning to end."""
    cost, key = Charge(units * UNIT, UNIT), b"%d" % next(_numbers)
    (held,) = ledger.reserve(ReserveRequest([account], [cost], True, ["q"], ["m"]))
    settlement = Settlement(
        cost, release_key=key, request_key=key, answer=b"rows", mechanism="m", query="q", epoch="2026-01"
    )
    ledger.settle(held, settlement)


def saved_in(conninfo: str) -> tuple[ZipFile, Saved]:
    with ZipFile(file := io.BytesIO(), "w") as archive:
        saved = backup.save(conninfo, archive)
        archive.writestr("saved", saved.dump())
    return ZipFile(file), saved


def contents(conninfo: str) -> dict[str, object]:
    """Every row of a ledger, by table."""
    with psycopg.connect(conninfo) as connection:
        tables = [name for (name,) in connection.execute(backup._TABLES.encode()).fetchall()]
        return {
            name: connection.execute(
                f"SELECT t::text FROM dpproxy_ledger.{name} t ORDER BY 1".encode()
            ).fetchall()
            for name in tables
        }


def test_a_restored_ledger_has_every_row_and_goes_on(
    used: tuple[Ledger, str], database: Callable[[], str]
) -> None:
    source, conninfo = used
    source.origins.keep_to("these data")
    mark = source.high_water.now()
    archive, saved = saved_in(conninfo)
    assert (saved.ledger, saved.entry, saved.version) == (source.id, mark.number, len(MIGRATIONS))
    before, other = contents(conninfo), database()
    backup.restore(other, archive, saved)
    reached = before.pop("mark")
    assert isinstance(reached, list)
    after = contents(other)
    assert len(after.pop("mark")) == len(reached) + 1  # type: ignore[arg-type]
    pinned, restored = before.pop("pinned"), after.pop("pinned")
    assert set(restored) - set(pinned) == {('("accepted 1","these data")',)}  # type: ignore[call-overload]
    assert after == before
    again = Ledger.open(other, PINNED, instance="the one before")
    again.high_water.check(mark)
    again.origins.keep_to("these data")
    assert again.origins.accepted() == 1, "running counts begin again"
    assert again.accounts.get("analyst:alice").used == Charge(5 * UNIT, 2 * UNIT), "what was held is charged"
    paid(again, "analyst:alice", 1)
    assert again.history.verify() is None
    assert again.high_water.now().number > mark.number
    again.close()


def test_a_backup_of_the_first_version_is_an_upgrade(database: Callable[[], str]) -> None:
    old, new = database(), database()
    with psycopg.connect(old) as connection:
        connection.execute(files("budget.migrations").joinpath("01.sql").read_bytes())
        connection.execute(Path(__file__).with_name("version_1.sql").read_bytes())
        connection.execute("INSERT INTO dpproxy_ledger.pinned VALUES ('ledger', 'of version 1')")
    archive, saved = saved_in(old)
    with psycopg.connect(old) as connection:
        assert (version_of(connection), saved.version) == (1, 1), "saving migrates nothing"
    backup.restore(new, archive, saved)
    ledger = Ledger.open(new, PINNED, instance="another")
    assert ledger.id == "of version 1"
    assert ledger.history.verify() is None
    assert ledger.replay("analyst:bob", b"request one") == b"rows"
    ledger.close()


def test_killed_at_any_statement_a_restore_leaves_the_ledger_that_was_there(
    used: tuple[Ledger, str], database: Callable[[], str], tmp_path: Path
) -> None:
    _, conninfo = used
    archive, _ = saved_in(conninfo)
    (tmp_path / "backup").write_bytes(archive.fp.getvalue())  # type: ignore[union-attr]
    other = database()
    Ledger.open(other, PINNED, instance="another").close()
    before = contents(other)

    def restoring(last: int) -> subprocess.CompletedProcess[str]:
        program = [sys.executable, "-c", DYING, other, str(tmp_path / "backup"), str(last)]
        return subprocess.run(program, capture_output=True, text=True)

    for last in (1, 20, 40):
        assert restoring(last).returncode == -signal.SIGKILL
        assert contents(other) == before
    whole = restoring(1000)
    assert int(whole.stdout) > 40, whole.stderr
    assert contents(other)["entry"] == contents(conninfo)["entry"]


def test_nothing_but_what_was_saved_is_put_back(
    used: tuple[Ledger, str], database: Callable[[], str]
) -> None:
    source, conninfo = used
    archive, saved = saved_in(conninfo)
    with ZipFile(io.BytesIO(), "w") as other:
        for name in saved.tables:
            content = archive.read(backup.member(name))
            other.writestr(backup.member(name), content.replace(b"alice", b"malice"))
        before = contents(conninfo)
        source.close()
        with pytest.raises(BackupError, match="is damaged"):
            backup.restore(conninfo, other, saved)
    for wrong in (
        replace(saved, version=len(MIGRATIONS) + 1),
        replace(saved, version=len(MIGRATIONS) - 1),
        replace(saved, tables={"entry": ""}),
    ):
        with pytest.raises(BackupError):
            backup.restore(conninfo, archive, wrong)
    assert contents(conninfo) == before
    with pytest.raises(BackupError, match="no ledger"), ZipFile(io.BytesIO(), "w") as empty:
        backup.save(database(), empty)


def test_a_ledger_in_use_is_not_replaced(used: tuple[Ledger, str]) -> None:
    source, conninfo = used
    archive, saved = saved_in(conninfo)
    with pytest.raises(LedgerError, match="in use"):
        backup.restore(conninfo, archive, saved)
    paid(source, "analyst:alice", 1)


def test_a_loss_is_charged_with_all_that_is_left(
    used: tuple[Ledger, str], database: Callable[[], str]
) -> None:
    source, conninfo = used
    accounts = source.accounts
    per = accounts.epsilon_limit(4 * UNIT)
    accounts.seed("analyst:bounded", Limit(4 * UNIT, 9 * UNIT, "month", epsilon=per))
    accounts.seed("analyst:beyond", Limit(4 * UNIT, 9 * UNIT, "month", epsilon=per))
    # By its pure epsilon it has spent more units than its limit has.
    source.update_budget("analyst:beyond", Charge(5 * UNIT, 0, 5 * UNIT // 2))
    accounts.seed("analyst:frozen", LIMIT)
    accounts.freeze("analyst:frozen")
    accounts.seed("analyst:watched", replace(LIMIT, mode="track"))
    accounts.seed("dataset", Limit(20 * UNIT, 20 * UNIT, "week"))
    archive, saved = saved_in(conninfo)
    paid(source, "analyst:alice", 3)
    mark = source.high_water.now()
    backup.restore(other := database(), archive, saved)
    ledger = Ledger.open(other, PINNED, instance="the one before")
    with pytest.raises(LedgerOlder):
        ledger.high_water.check(mark)
    assert set(ledger.charge_for_loss()) == {row.account for row in accounts.all()} - {"analyst:watched"}
    assert ledger.charge_for_loss() == {}
    rows = {row.account: row for row in ledger.accounts.all()}
    assert rows["analyst:watched"].used == Charge(0, 0)
    assert rows["analyst:frozen"].frozen
    ledger.accounts.unfreeze("analyst:frozen")
    for name in rows.keys() - {"analyst:watched"}:
        for least in (Charge(1, 0, 1), Charge(0, 1, 0), Charge(1, 1)):
            with pytest.raises(Exhausted):
                ledger.reserve(ReserveRequest([name], [least], True, ["q"], ["m"]))
    assert ledger.accounts.get("dataset").refreshes_at is not None
    for name, period in (("analyst:new", "none"), ("analyst:other", "day")):
        ledger.accounts.seed(name, Limit(9 * UNIT, 9 * UNIT, period))  # type: ignore[arg-type]
        with pytest.raises(Frozen):
            paid(ledger, name, 1)
    with psycopg.connect(other, autocommit=True) as connection:
        connection.execute(
            "UPDATE dpproxy_ledger.pinned SET value = (now() - %s)::text WHERE name LIKE 'lost %%'",
            [timedelta(days=2)],
        )
    ledger.accounts.seed("analyst:later", Limit(9 * UNIT, 9 * UNIT, "day"))
    paid(ledger, "analyst:later", 1)
    assert ledger.history.verify() is None
    ledger.close()
