"""Replays that are noted behind their answers: in order, all of them, and none where they cannot be noted."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from budget.account import LedgerError, LedgerUnavailable, ReplayNote
from dpproxy.deployment.service import Service, configured
from dpproxy.engine import replay_notes
from dpproxy.engine.replay_notes import ReplayNotes
from dpproxy.engine.request import QueryRequest
from rewriter.refusal import Refusal
from tests.dpproxy.engine.test_executor import TOWNS, Analyst
from tests.dpproxy.serving import make

OLDER = TOWNS.replace("FROM people", "FROM people WHERE person_id > 5")


class Ledger:
    """Keeps what it is given, unless it fails."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.sizes: list[int] = []
        self.failing, self.unknown = False, 0
        self.go_on = threading.Event()
        self.go_on.set()

    def write(self, notes: Sequence[ReplayNote]) -> bool:
        assert self.go_on.wait(20)
        if self.failing:
            raise LedgerUnavailable("gone")
        self.sizes.append(len(notes))
        self.written += [note.account for note in notes]
        return "stranger" not in self.written

    def forget(self) -> None:
        self.unknown += 1


def note(account: object) -> ReplayNote:
    return ReplayNote(str(account), b"request")


@pytest.mark.unit
def test_all_are_written_in_their_order_a_few_at_a_time() -> None:
    ledger = Ledger()
    notes = ReplayNotes(ledger.write, ledger.forget)
    assert all(notes.take(note(n)) for n in range(100))
    notes.write()
    assert ledger.written == [str(n) for n in range(100)]
    assert max(ledger.sizes) <= 32
    assert notes.take(note("last"))
    notes.close()
    assert ledger.written[-1] == "last"


@pytest.mark.unit
def test_nothing_is_taken_after_a_failure_until_what_waits_is_written() -> None:
    ledger = Ledger()
    notes = ReplayNotes(ledger.write, ledger.forget)
    ledger.failing = True
    assert notes.take(note(1))
    with pytest.raises(LedgerError):
        notes.write()
    assert not notes.take(note(2))
    ledger.failing = False
    notes.write()
    assert ledger.written == ["1"]
    assert notes.take(note(3))
    notes.close()
    assert ledger.written == ["1", "3"]


@pytest.mark.unit
def test_a_failure_is_got_over_without_anybody_asking() -> None:
    ledger = Ledger()
    notes = ReplayNotes(ledger.write, ledger.forget)
    ledger.failing = True
    notes.take(note(1))
    with pytest.raises(LedgerError):
        notes.write()
    ledger.failing = False
    while not notes.take(note(2)):
        pass
    notes.close()
    assert ledger.written == ["1", "2"]


@pytest.mark.unit
def test_no_more_wait_than_may() -> None:
    ledger = Ledger()
    ledger.go_on.clear()
    notes = ReplayNotes(ledger.write, ledger.forget)
    taken = [notes.take(note(n)) for n in range(replay_notes._MOST + 1)]
    assert taken == [True] * replay_notes._MOST + [False]
    ledger.go_on.set()
    notes.close()
    assert len(ledger.written) == replay_notes._MOST


@pytest.mark.unit
def test_an_answer_that_the_ledger_does_not_know_is_told() -> None:
    ledger = Ledger()
    notes = ReplayNotes(ledger.write, ledger.forget)
    notes.take(note("ann"))
    notes.write()
    assert ledger.written == ["ann"]
    notes.take(note("stranger"))
    notes.close()
    assert ledger.unknown == 1


def asked(service: Service, ann: Analyst, text: str = TOWNS, **settings: str) -> QueryRequest:
    return QueryRequest(text, (), ann.name, (), settings, last=ann.last, attributed="a tool")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Service:  # type: ignore[misc]
    with Service.start(configured(make(tmp_path_factory.mktemp("noted"))), alone=True) as running:
        yield running


def replays(service: Service, ann: Analyst) -> list[bool]:
    return [row.information == 0 for row in service.ledger.history.releases(f"analyst:{ann.name}")]


@pytest.mark.service
def test_an_answer_is_given_again_at_once_and_is_in_the_history(service: Service) -> None:
    ann, engine = Analyst(service, "ann"), service.answering
    assert engine.again(asked(service, ann)) is None, "it is not paid for"
    engine.execute(asked(service, ann))
    assert engine.again(asked(service, ann)) is None, "it has not been replayed"
    shown = engine.execute(asked(service, ann))
    first = ann.last.rows[0].at
    for number in range(1, 4):
        request = asked(service, ann)
        assert engine.again(request) == shown
        assert (request.paid.replayed, request.paid.bought) == (1, 0)
        assert ann.last.rows[0].replayed
        assert ann.last.rows[0].at > first
        assert replays(service, ann) == [False, *[True] * (1 + number)], "it is there for whoever looks"
    rows = service.ledger.history.releases("analyst:ann")[-3:]
    assert {row.attributed for row in rows} == {"a tool"}
    assert ann.used() == (1, 0)
    assert service.ledger.history.verify() is None


@pytest.mark.service
def test_what_is_bought_comes_behind_what_was_shown_before(service: Service) -> None:
    eve, engine = Analyst(service, "eve"), service.answering
    for _ in range(2):
        engine.execute(asked(service, eve))
    assert engine.again(asked(service, eve))
    engine.execute(asked(service, eve, OLDER))
    assert engine.again(asked(service, eve))
    engine.execute(asked(service, eve, OLDER))
    assert replays(service, eve) == [False, True, True, False, True, True]


@pytest.mark.service
def test_only_the_same_is_given_again(service: Service) -> None:
    joe, engine = Analyst(service, "joe"), service.answering
    for _ in range(2):
        engine.execute(asked(service, joe, timezone="UTC"))
    assert engine.again(asked(service, joe, timezone="UTC"))
    assert engine.again(asked(service, joe, timezone="Asia/Tokyo")) is None
    assert engine.again(asked(service, joe, f"{TOWNS} ", timezone="UTC")) is None
    assert engine.again(asked(service, Analyst(service, "jim"), timezone="UTC")) is None
    other = replace(asked(service, joe, timezone="UTC"), attributed="another tool")
    assert engine.again(other) is None, "that this can be noted is yet to be seen"
    service.answering.epochs.present, epoch = "another", service.answering.epochs.present
    assert engine.again(asked(service, joe, timezone="UTC")) is None
    service.answering.epochs.present = epoch
    assert engine.again(asked(service, joe, timezone="UTC"))
    engine._planner.forget()  # as a new epoch does
    assert engine.again(asked(service, joe, timezone="UTC")) is None


@pytest.mark.service
def test_an_answer_that_the_ledger_has_lost_is_not_given_for_long(service: Service) -> None:
    """As after the ledger was replaced by an older copy, under a living process."""
    kim, engine = Analyst(service, "kim"), service.answering
    for _ in range(2):
        engine.execute(asked(service, kim))
    with service.ledger._ledger._pool.connection() as connection:
        for table in ("request", "choice", "owned"):
            connection.execute(f"DELETE FROM dpproxy_ledger.{table} WHERE account = 'analyst:kim'".encode())
    assert engine.again(asked(service, kim))
    assert replays(service, kim) == [False, True]
    assert engine.again(asked(service, kim)) is None
    for _ in range(2):
        engine.execute(asked(service, kim))
    assert kim.used() == (2, 0), "it is bought as if it were new"


@pytest.mark.service
def test_nothing_is_given_again_for_long_without_the_ledger(tmp_path: Path) -> None:
    file = make(tmp_path)
    with Service.start(configured(file), alone=True) as service:
        ann, engine = Analyst(service, "ann"), service.answering
        for _ in range(2):
            engine.execute(asked(service, ann))
        assert engine.again(asked(service, ann))
        before = replays(service, ann)
        cluster = service.config.path(service.config.ledger.data_dir) / "cluster"
        os.kill(int((cluster / "postmaster.pid").read_text().split()[0]), signal.SIGQUIT)
        while engine.again(asked(service, ann)):
            pass
        with pytest.raises(Refusal) as refused:
            engine.execute(asked(service, ann))
        assert refused.value.code == "57P03"
    with Service.start(configured(file), alone=True) as service:
        ann, engine = Analyst(service, "ann"), service.answering
        assert replays(service, ann)[: len(before)] == before
        for _ in range(2):
            engine.execute(asked(service, ann))
        assert engine.again(asked(service, ann))
        number = len(replays(service, ann))
        assert engine.again(asked(service, ann))
    with Service.start(configured(file), alone=True) as service:
        assert len(replays(service, Analyst(service, "ann"))) == number + 1, (
            "a process that ends has noted all"
        )
