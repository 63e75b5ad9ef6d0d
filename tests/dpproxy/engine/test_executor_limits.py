"""Accounts at their limits: races, faults at every step, shared and tracked accounts, policies of another kind."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from budget.ledger import Ledger
from dpproxy.backends.base import Cancellation, Fetched
from dpproxy.backends.duckdb.adapter import DuckDBSlot
from dpproxy.deployment.service import Service, configured
from dpproxy.engine.release_plan import ReleasePlan
from dpproxy.engine.result.released_table import ReleasedTable
from rewriter.plan import HistogramQuery
from rewriter.refusal import Refusal
from tests.dpproxy.engine.test_executor import Analyst
from tests.dpproxy.serving import POLICY, command, make

pytestmark = pytest.mark.service

BUDGET = """
[privacy]
epoch = "forever"
[budget]
information = 6
calls = 2
period = "none"
[budget.analysts]
nobody = { information = 0, calls = 0 }
watched = { information = 0, calls = 0, mode = "track" }
[budget.teams.pair]
members = ["one", "two"]
information = 7.7
calls = 9
"""
COUNT = "SELECT COUNT(*) FROM people WHERE person_id > {}"
TOP = "SELECT seconds, COUNT(DISTINCT person_id) AS n FROM visits GROUP BY seconds ORDER BY n DESC LIMIT 2"
"""One group is there: 5 units are reserved, 4 are spent."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder: Path = tmp_path_factory.mktemp("limits")
    with Service.start(configured(make(folder, POLICY + BUDGET)), alone=True) as running:
        yield running


Answered = tuple[str, tuple[tuple[Any, ...], ...]]


def race(analysts: Sequence[Analyst], questions: Sequence[str]) -> tuple[list[Answered], list[str]]:
    """Every analyst asks every question at once; gives (question, answer) and the codes of refusals."""
    answers: list[Answered] = []
    refused: list[str] = []
    start = threading.Barrier(len(analysts) * len(questions))

    def run(analyst: Analyst, question: str) -> None:
        start.wait(60)
        try:
            answers.append((question, tuple(analyst.ask(question))))
        except Refusal as refusal:
            refused.append(refusal.code)

    threads = [threading.Thread(target=run, args=(a, q)) for a in analysts for q in questions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers, refused


def test_a_race_near_the_limit_never_goes_above_it(service: Service) -> None:
    racer = Analyst(service, "racer")
    answers, refused = race([racer, racer], [COUNT.format(n) for n in range(12)])
    assert len(answers) + len(refused) == 24
    assert len(set(answers)) == 6, "as many questions as units, each with one answer"
    assert set(refused) == {"PV001"}
    assert racer.used() == (6, 0)


def test_two_processes_on_one_ledger_race_for_one_account(service: Service) -> None:
    torn, questions = Analyst(service, "torn"), [COUNT.format(n) for n in range(100, 106)]
    theirs: list[CompletedProcess[str]] = []

    def other(question: str) -> None:
        theirs.append(command("query", "-c", str(service.config.file), "--analyst", "torn", question))

    others = [threading.Thread(target=other, args=(q,)) for q in questions[-2:]]
    for thread in others:
        thread.start()
    answers, refused = race([torn], [*questions, COUNT.format(200)])
    for thread in others:
        thread.join()
    assert set(refused) <= {"PV001"}
    told = dict(answers)
    for question, process in zip((t.args[-1] for t in theirs), theirs, strict=True):
        assert process.returncode == 0 or "PV001" in process.stderr, process.stderr
        if process.returncode == 0 and question in told:
            assert str(told[question][0][0]) in process.stdout
    assert torn.used() == (6, 0)


@pytest.mark.parametrize(
    ("owner", "step", "charged"),
    [
        (DuckDBSlot, "fetch", 4.5),
        (ReleasePlan, "release", 4.5),
        (Ledger, "settle", 4.5),
        (ReleasePlan, "noise", 4.5),
        (ReleasedTable, "load", None),
    ],
)
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_what_fails_after_the_reservation_is_spent_and_not_answered(
    service: Service,
    monkeypatch: pytest.MonkeyPatch,
    owner: type,
    step: str,
    charged: float | None,
    error: type[BaseException],
) -> None:
    """A failed step costs all that was reserved; an answer that was stored before the failure costs what it did."""
    analyst = Analyst(service, f"faulty {step} {error.__name__}")

    def fail(*_: object, **__: object) -> None:
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(owner, step, fail)
        with pytest.raises(error):
            analyst.ask(TOP.replace("visits", f"visits WHERE person_id <> {error is RuntimeError:d}"))
    information, calls = analyst.used()
    assert calls == 1
    assert information == charged if charged is not None else information == 4
    rows = analyst.ask("SELECT reserved FROM dpproxy.budget")
    assert {float(row[0]) for row in rows} == {0}


def test_an_account_of_nothing_gets_nothing(service: Service) -> None:
    nobody = Analyst(service, "nobody")
    for sql in (COUNT.format(0), TOP):
        with pytest.raises(Refusal, match="exhausted"):
            nobody.ask(sql)
    assert nobody.used() == (0, 0)


def test_a_tracked_account_is_answered_and_counted(service: Service) -> None:
    watched = Analyst(service, "watched")
    assert len(watched.ask(COUNT.format(0))) == 1
    assert watched.used() == (1, 0)


def test_a_team_pays_the_most_and_shows_no_numbers(service: Service) -> None:
    one, two = Analyst(service, "one"), Analyst(service, "two")
    one.ask(TOP)
    assert one.used() == (4, 1)
    assert float(service.ledger.accounts.left("team:pair").information) == 3_200_000
    with pytest.raises(Refusal) as refused:
        two.ask(TOP)
    assert refused.value.code == "PV001"
    assert "a shared budget" in refused.value.message
    assert "3.2" not in refused.value.message
    assert two.used() == (0, 0)
    assert {row[0] for row in two.ask("SELECT account FROM dpproxy.budget")} == {"analyst:two"}


def test_of_several_nodes_only_the_new_ones_are_paid(service: Service) -> None:
    asker = Analyst(service, "asker")
    ((known,),) = asker.ask(COUNT.format(500))
    rows = asker.ask(f"SELECT ({COUNT.format(500)}), ({COUNT.format(501)}), ({COUNT.format(500)})")
    assert rows[0][0] == rows[0][2] == known
    assert asker.used() == (2, 0)


def test_an_epoch_that_turns_during_a_query_keeps_the_querys_own(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    asker, epoch, fetch = Analyst(service, "night"), ["2030-01-07"], DuckDBSlot.fetch

    def midnight(slot: DuckDBSlot, query: HistogramQuery, key: str, stop: Cancellation, rows: int) -> Fetched:
        epoch[0] = "2030-01-08"
        return fetch(slot, query, key, stop, rows)

    monkeypatch.setattr("dpproxy.engine.epochs.epoch_name", lambda *_: epoch[0])
    monkeypatch.setattr(DuckDBSlot, "fetch", midnight)
    first = asker.ask(COUNT.format(700))
    second = asker.ask(COUNT.format(700))
    assert asker.ask(COUNT.format(700)) == second
    epoch[0] = "2030-01-07"
    assert asker.ask(COUNT.format(700)) == first
    assert asker.used() == (2, 0), "paid once an epoch"


STRICT = """
[privacy]
delta_per = 0
noise = "laplace"
min_units = 290
nonnegative = true
"""


def test_without_delta_and_with_suppression(tmp_path: Path) -> None:
    with Service.start(configured(make(tmp_path, POLICY + STRICT)), alone=True) as running:
        ann = Analyst(running, "ann")
        with pytest.raises(Refusal) as refused:
            ann.ask(TOP)
        assert refused.value.code == "PV022"
        assert ann.used() == (0, 0)
        towns = ann.ask("SELECT town, COUNT(*) AS n FROM people GROUP BY town")
        assert all(int(n) >= 290 for _, n in towns)
        assert "KnownLap" in ann.notices[0]
        assert ann.ask("SELECT town, COUNT(*) FROM people WHERE person_id < 3 GROUP BY town") == []
        assert ann.used() == (2, 0)
