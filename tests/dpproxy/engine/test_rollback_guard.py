"""A ledger that is not the marked one serves nobody, and no answer leaves before its mark."""

from __future__ import annotations

import fcntl
import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path

import pytest

from budget.account import (
    Charge,
    LedgerUnavailable,
    Limit,
    Reservation,
    ReserveRequest,
    Settled,
    Settlement,
)
from budget.units import micro
from dpproxy.config.highwater_file import MarkFile, mark_path
from dpproxy.config.sections import ConfigError
from dpproxy.deployment.service import Service, configured, opened_vault
from dpproxy.engine.rollback_guard import Marker, MarkError, RollbackGuardedLedger
from rewriter.refusal import Refusal
from tests.dpproxy.engine.test_executor import Analyst
from tests.dpproxy.serving import POLICY, command, make

TOWNS = "SELECT town, COUNT(*), COUNT(*) FILTER (WHERE person_id > 9) FROM people GROUP BY town"
COUNT = "SELECT COUNT(*) FROM people WHERE person_id > {}"


def asked(folder: Path, units: int = 1) -> None:
    """Charges ann, as a query does, where the ledger is the one that was marked."""
    with opened_vault(configured(folder / "dpproxy.toml")) as vault:
        RollbackGuardedLedger(vault.ledger, vault.mark).close()
        vault.ledger.accounts.seed("analyst:ann", Limit(micro(9), micro(9), "none"))
        vault.ledger.update_budget("analyst:ann", Charge(micro(units), 0))
        vault.mark.advance(vault.ledger.high_water.after)


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


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, Path]]:
    """A service, and the key beside its mark."""
    folder = tmp_path_factory.mktemp("served")
    with Service.start(configured(make(folder)), alone=True) as service:
        yield service, folder / ".dpproxy" / "key"


def marks_all_reservations(service: Service, key: Path) -> bool:
    mark = MarkFile(key, key.read_bytes()).read()
    assert mark is not None
    return {row.number for row in service.ledger.history.entries() if row.kind == "reserve"} <= set(
        mark.entries
    )


@pytest.mark.service
def test_nothing_leaves_before_its_mark_is_durable(served: tuple[Service, Path]) -> None:
    service, key = served
    ann = Analyst(service, "ann")
    ann.ask(COUNT.format(1))
    with open(mark_path(key), "r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        asking = threading.Thread(target=ann.ask, args=(COUNT.format(2),))
        asking.start()
        asking.join(2)
        assert asking.is_alive(), "it waits for its mark"
        assert Analyst(service, "ann").used() == (2, 0), "and is settled already"
        fcntl.flock(held, fcntl.LOCK_UN)
        asking.join(20)
        assert not asking.is_alive()
    assert marks_all_reservations(service, key)


@pytest.mark.service
def test_a_mark_is_taken_after_the_reservation_that_it_covers(
    served: tuple[Service, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    service, key = served
    reserve = service.ledger._ledger.reserve

    def late(request: ReserveRequest) -> tuple[Reservation, ...]:
        time.sleep(0.5)
        return reserve(request)

    monkeypatch.setattr(service.ledger._ledger, "reserve", late)
    Analyst(service, "eve").ask(COUNT.format(3))
    assert marks_all_reservations(service, key)


@pytest.mark.service
def test_an_answer_without_a_mark_is_not_replayed(served: tuple[Service, Path]) -> None:
    service, key = served
    ann, mark = Analyst(service, "ann"), mark_path(key)
    mark.rename(aside := mark.with_suffix(".aside"))
    mark.mkdir()
    try:
        for _ in range(2):
            with pytest.raises(Refusal, match="ledger"):
                ann.ask(COUNT.format(4))
    finally:
        mark.rmdir()
        aside.rename(mark)
    used = ann.used()
    ann.ask(COUNT.format(4))
    assert ann.used() == used, "it was stored and paid for the first time"
    assert marks_all_reservations(service, key)


@pytest.mark.service
def test_what_is_bought_again_has_other_noise(
    served: tuple[Service, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the difference of two answers over changed data would be exact."""
    service, _ = served
    settle, answers = service.ledger._ledger.settle, []

    def lost(reservation: Reservation, settlement: Settlement) -> Settled:
        answers.append((settlement.release_key, settlement.answer))
        if len(answers) == 1:
            raise LedgerUnavailable("the first one is lost")
        return settle(reservation, settlement)

    monkeypatch.setattr(service.ledger._ledger, "settle", lost)
    ann = Analyst(service, "ann")
    with pytest.raises(Refusal, match="ledger"):
        ann.ask(TOWNS)
    ann.ask(TOWNS)
    (first_key, first), (second_key, second) = answers
    assert first_key == second_key
    assert first != second


@pytest.mark.service
def test_what_another_process_has_stored_leaves_no_sooner_than_its_mark(tmp_path: Path) -> None:
    make(tmp_path)
    with opened_vault(configured(tmp_path / "dpproxy.toml"), new=True) as vault, ExitStack() as stack:
        first, second = (RollbackGuardedLedger(vault.ledger, vault.mark) for _ in range(2))
        stack.callback(first.close)
        stack.callback(second.close)
        first.accounts.seed("analyst:ann", Limit(micro(9), micro(9), "none"))
        one = Charge(micro(1), 0)
        held = first.reserve(ReserveRequest(["analyst:ann"], [one], True, ["q"], ["m"]))[0]
        first._marks[held.id].result()
        settlement = Settlement(one, b"release", b"request", b"rows", "m", "q", "e", choices={b"choice": 0})
        vault.ledger.settle(held, settlement)
        with open(mark_path(tmp_path / ".dpproxy" / "key"), "r+b") as locked:
            fcntl.flock(locked, fcntl.LOCK_EX)
            with ThreadPoolExecutor(2) as asking:
                calls = (
                    lambda: second.replay("analyst:ann", b"request"),
                    lambda: second.choices("analyst:ann", [b"choice"]),
                )
                asked = [asking.submit(call) for call in calls]
                assert not wait(asked, 1).done, "they wait for a mark"
                fcntl.flock(locked, fcntl.LOCK_UN)
                assert [call.result(20) for call in asked] == [b"rows", {b"choice": (0, b"rows")}]
            fcntl.flock(locked, fcntl.LOCK_EX)
            assert second.replay("analyst:ann", b"request") == b"rows", "it is known to be covered"


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
