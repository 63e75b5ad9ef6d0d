"""A ledger that is not the marked one serves nobody, and no answer leaves before its mark."""

from __future__ import annotations

import fcntl
import shutil
import threading
from fractions import Fraction
from pathlib import Path

import pytest

from budget.account import Charge, Limit
from budget.units import micro
from dpproxy.config.highwater_file import MarkFile, mark_path
from dpproxy.config.sections import ConfigError
from dpproxy.deployment.service import Service, configured, opened_vault
from dpproxy.engine.rollback_guard import Marker, MarkError, RollbackGuardedLedger
from tests.dpproxy.engine.test_executor import Analyst
from tests.dpproxy.serving import POLICY, command, make

COUNT = "SELECT COUNT(*) FROM people WHERE person_id > {}"


def asked(folder: Path, units: int = 1) -> None:
    """Charges ann, as a query does, where the ledger is the one that was marked."""
    with opened_vault(configured(folder / "dpproxy.toml")) as vault:
        RollbackGuardedLedger(vault.ledger, vault.mark).close()
        vault.ledger.accounts.seed("analyst:ann", Limit(micro(9), micro(9), "none"))
        vault.ledger.update_budget("analyst:ann", Charge(micro(units), 0))
        vault.mark.advance(vault.ledger.high_water.now)


def refused(folder: Path) -> str:
    """Why nobody is served."""
    with pytest.raises((MarkError, ConfigError)) as error:
        asked(folder)
    return str(error.value)


def spent(folder: Path) -> Fraction:
    with opened_vault(configured(folder / "dpproxy.toml")) as vault:
        return vault.ledger.accounts.budget("analyst:ann")[0].used


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A deployment that was charged once, a copy of its ledger, and a second charge after the copy."""
    folder: Path = tmp_path_factory.mktemp("marks")
    make(folder, POLICY)
    asked(folder)
    shutil.copytree(folder / ".dpproxy" / "ledger", folder / "backup")
    asked(folder)
    return folder


@pytest.fixture
def folder(used: Path, tmp_path: Path) -> Path:
    """A copy of it for one test."""
    shutil.copytree(used, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("front*"))
    return tmp_path


@pytest.mark.service
def test_a_ledger_restored_from_an_old_backup_serves_nobody_until_accepted(folder: Path) -> None:
    ledger = folder / ".dpproxy" / "ledger"
    ledger.rename(folder / "newer")
    shutil.copytree(folder / "backup", ledger)
    told = refused(folder)
    assert "older than the mark" in told
    for arguments in (("query", "--analyst", "ann", COUNT.format(9)), ("serve", "--port", "0")):
        ended = command(*arguments, folder=folder)
        assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", f"dpproxy: {told}\n")
    assert "dpproxy budget accept" in told
    assert spent(folder) == 1, "the owner may look"
    accepted = command("budget", "accept", "--uncharged", folder=folder)
    assert (accepted.returncode, accepted.stderr) == (0, "")
    asked(folder)
    assert spent(folder) == 2
    shutil.rmtree(ledger)
    (folder / "newer").rename(ledger)
    assert "dpproxy budget accept" in refused(folder), "two histories do not mix"


@pytest.mark.service
def test_another_ledger_and_none_are_refused(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    make(other, POLICY)
    asked(other)
    ledger = folder / ".dpproxy" / "ledger"
    shutil.rmtree(ledger)
    told = refused(folder)
    assert "none is in" in told
    assert not ledger.exists(), "nothing was made in its place"
    shutil.copytree(other / ".dpproxy" / "ledger", ledger)
    assert "the mark is of ledger" in refused(folder)
    (folder / ".dpproxy" / "key").unlink()
    assert "the key is missing" in refused(folder)
    shutil.copy(other / ".dpproxy" / "key", folder / ".dpproxy" / "key")
    assert "made with another key" in refused(folder)
    shutil.copy(other / ".dpproxy" / "key.mark", folder / ".dpproxy" / "key.mark")
    asked(folder)


@pytest.mark.service
def test_a_mark_that_is_gone_is_missed(folder: Path) -> None:
    (folder / ".dpproxy" / "key.mark").unlink()
    assert "key.mark is missing" in refused(folder)
    assert command("budget", "accept", "--uncharged", folder=folder).returncode == 0
    asked(folder)


@pytest.mark.service
def test_nothing_leaves_before_its_mark_is_durable(tmp_path: Path) -> None:
    with Service.start(configured(make(tmp_path)), alone=True) as service:
        ann = Analyst(service, "ann")
        ann.ask(COUNT.format(1))
        with open(mark_path(tmp_path / ".dpproxy" / "key"), "r+b") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            asking = threading.Thread(target=ann.ask, args=(COUNT.format(2),))
            asking.start()
            asking.join(2)
            assert asking.is_alive(), "it waits for its mark"
            assert Analyst(service, "ann").used() == (2, 0), "and is settled already"
            fcntl.flock(held, fcntl.LOCK_UN)
            asking.join(20)
            assert not asking.is_alive()
        mark = MarkFile(tmp_path / ".dpproxy" / "key", (tmp_path / ".dpproxy" / "key").read_bytes()).read()
        entries = [row for row in service.ledger.history.entries() if row.kind == "reserve"]
        assert mark is not None
        assert {row.number for row in entries} <= set(mark.entries)


def test_one_write_serves_all_who_wait_for_it() -> None:
    written: list[int] = []
    go_on = threading.Event()

    def write() -> None:
        written.append(len(written))
        assert go_on.wait(20)

    marker = Marker(write)
    first = marker.ask()
    while not written:
        pass
    later = {id(marker.ask()) for _ in range(50)}
    assert len(later) == 1, "those who ask during a write share the next one"
    assert id(first) not in later, "the one under way may have looked too early"
    go_on.set()
    marker.close()
    assert written == [0, 1]
