"""Backends that go and come back, clocks that jump over epochs, disks that are full under the front and the mark."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from budget.highwater import HighWater
from dpproxy.backends.postgres.adapter import PostgresSlot
from dpproxy.config.highwater_file import MarkFile
from dpproxy.deployment.service import Service, configured
from dpproxy.embedded.server import Embedded
from dpproxy.engine.request import QueryRequest
from rewriter.refusal import Refusal
from tests.budget.test_ledger_disk import LOG, full
from tests.dpproxy.deployment.test_ledger_lost import during_fetch
from tests.dpproxy.engine.test_executor import Analyst
from tests.dpproxy.engine.test_over_postgres import PEOPLE
from tests.dpproxy.postgres_data import databases
from tests.dpproxy.serving import POLICY, make, serving

pytestmark = pytest.mark.service

COUNT = "SELECT COUNT(*) FROM people WHERE person_id > {}"
SETTINGS = '[server]\nauth = "trust"\n[budget.dataset]\n[budget.analysts.ann]\npublish = true\n'
HOLDER = "import duckdb, sys; held = duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.read()"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    file = make(tmp_path_factory.mktemp("faults"), POLICY + SETTINGS)
    with Service.start(configured(file), alone=True) as running:
        yield running


def refused(analyst: Analyst, sql: str) -> str:
    with pytest.raises(Refusal) as caught:
        analyst.ask(sql)
    return caught.value.code


# The backend


def test_a_duckdb_file_that_is_held_by_its_owner_costs_nothing_and_answers_again(service: Service) -> None:
    ann, file = Analyst(service, "ann held"), service.config.path("people.duckdb")
    paid = ann.ask(COUNT.format(100))
    deadline = time.monotonic() + 60
    while True:
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert holder.stdout is not None
        if holder.stdout.readline() == "held\n":
            break
        assert holder.wait(60) != 0
        assert time.monotonic() < deadline, "the file is never let go"
    try:
        assert refused(ann, COUNT.format(101)) == "57P03"
        assert ann.ask(COUNT.format(100)) == paid
    finally:
        holder.communicate("", timeout=60)
    assert ann.used() == (1, 0)
    assert len(ann.ask(COUNT.format(101))) == 1
    assert ann.used() == (2, 0)


def test_a_duckdb_file_that_goes_while_it_is_read_stays_charged_and_answers_again(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What had reached the backend is paid, whether or not it was still answered."""
    ann, file = Analyst(service, "ann gone"), service.config.path("people.duckdb")
    away = file.with_suffix(".away")

    def go() -> None:
        file.rename(away)

    with monkeypatch.context() as patched, suppress(Refusal):
        during_fetch(patched, go)
        ann.ask(COUNT.format(200))
    assert ann.used() == (1, 0)
    assert refused(ann, COUNT.format(201)) == "57P03"
    away.rename(file)
    assert len(ann.ask(COUNT.format(201))) == 1
    assert ann.used() == (2, 0)


def test_a_postgresql_that_stops_and_starts_answers_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with databases(tmp_path / "data") as server:
        database = server.make(PEOPLE)
        url = server.url(database)
        file = make(tmp_path, POLICY.replace("duckdb:///people.duckdb", url) + SETTINGS)
        with Service.start(configured(file), alone=True) as service:
            ann = Analyst(service, "ann")
            paid = ann.ask(COUNT.format(1))
            real = PostgresSlot.fetch

            def stopping(slot: PostgresSlot, *arguments: object) -> object:
                server.server.stop()
                return real(slot, *arguments)  # type: ignore[arg-type]

            with monkeypatch.context() as patched:
                patched.setattr(PostgresSlot, "fetch", stopping)
                assert refused(ann, COUNT.format(2)) == "PV090"
            assert ann.used() == (2, 0), "it had reached the backend"
            assert refused(ann, COUNT.format(3)) == "57P03"
            assert ann.ask(COUNT.format(1)) == paid, "what was paid for needs no backend"
            assert ann.used() == (2, 0)
            with Embedded.start(tmp_path / "data", durable=False):
                assert len(ann.ask(COUNT.format(3))) == 1
                assert ann.used() == (3, 0)
            assert service.ledger.history.verify() is None


# The clock


def test_epochs_that_come_again_by_the_clock_are_the_same_epochs(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fresh noise is paid for in each one; what was paid for in one is free there, whenever it comes again."""
    ann = Analyst(service, "ann clock")
    answers: dict[str, list[tuple[Any, ...]]] = {}
    walk = ("2026-05-01", "2027-05-01", "2026-05-01", "2026-04-30", "2027-05-01", "2026-04-30", "2026-05-01")
    for epoch in walk:
        monkeypatch.setattr(service.answering.epochs, "name", lambda epoch=epoch: epoch)
        answer = ann.ask(COUNT.format(300))
        assert answers.setdefault(epoch, answer) == answer
        assert ann.used() == (len(answers), 0)
    assert len({str(answer) for answer in answers.values()}) > 1


# Full disks


def test_a_full_disk_under_the_front_publishes_later_what_was_paid_for_once(service: Service) -> None:
    """It may go down of it; it comes back once there is room, and what was asked is free then."""
    name, cluster = "analyst:ann", service.config.path(service.config.front.data_dir) / "cluster"
    create = "CREATE TABLE published.towns AS SELECT town, COUNT(*) AS n FROM people GROUP BY town"
    asker = QueryRequest(create, (), "ann", (), {})
    with full(cluster, LOG), pytest.raises(Refusal) as caught:
        service.publishing.run(asker)
    assert caught.value.code in ("57P03", "53100", "57P01", "08006")
    deadline = time.monotonic() + 60
    while service.ledger.publications.get("towns") is None:
        assert time.monotonic() < deadline, "the front does not come back"
        with suppress(Refusal):
            service.publishing.run(asker)
    assert service.ledger.accounts.get(name).used.information == 10**6
    assert service.ledger.history.verify() is None


def test_a_full_disk_under_the_mark_lets_nothing_leave_and_loses_nothing(tmp_path: Path) -> None:
    """A disk that takes the beginning of a mark alone, too: that is no error of a write, and no mark."""
    make(tmp_path, POLICY + SETTINGS)
    used = "SELECT used FROM dpproxy.budget WHERE account = 'analyst:ann' AND unit = 'information'"
    with serving(["serve", "--port", "0"], folder=tmp_path) as running, running.connect("ann") as ann:
        process = running.process.pid
        first = ann.execute(COUNT.format(1).encode()).fetchall()
        before = resource.prlimit(process, resource.RLIMIT_FSIZE)
        resource.prlimit(process, resource.RLIMIT_FSIZE, (1000, before[1]))
        try:
            for number in (2, 3, 2, 3):
                with pytest.raises(psycopg.Error) as caught:
                    ann.execute(COUNT.format(number).encode())
                assert caught.value.sqlstate == "57P03"
                assert "ledger" in str(caught.value)
            assert ann.execute(used).fetchall() == [(3,)], "settled, charged, and not told"
            assert ann.execute("SELECT 1").fetchall() == [(1,)]
        finally:
            resource.prlimit(process, resource.RLIMIT_FSIZE, before)
        answers = {n: ann.execute(COUNT.format(n).encode()).fetchall() for n in (1, 2, 3)}
        assert answers[1] == first
        assert ann.execute(used).fetchall() == [(3,)], "answered once there is room, and paid for once"
        key = tmp_path / ".dpproxy" / "key"
        mark = MarkFile(key, key.read_bytes()).read()
    with Service.start(configured(tmp_path / "dpproxy.toml"), alone=True) as service:
        assert mark is not None
        reserved = {
            row.number for row in service.ledger.history.entries() if row.kind == "reserve" and row.own
        }
        assert len(reserved) == 3
        assert reserved <= set(mark.entries), "and the mark knows all of it"


def test_a_mark_that_was_taken_in_part_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = MarkFile(tmp_path / "key", bytes(32))
    file.replace(HighWater("one", {1: "ab"}))
    real = os.pwrite
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", lambda handle, content, at: real(handle, content[:100], at))
        with pytest.raises(OSError, match="No space left"):
            file.advance(lambda _: HighWater("one", {2: "cd"}))
        with pytest.raises(OSError, match="No space left"):
            file.replace(HighWater("one", {3: "ef"}))
    assert file.read() == HighWater("one", {1: "ab"})
    file.advance(lambda _: HighWater("one", {2: "cd"}))
    assert file.read() == HighWater("one", {2: "cd"})
