"""The ledger fails a running proxy: lost connections around each commit, a dead server, a full disk, a wrong folder."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from budget import statements, store
from dpproxy.backends.duckdb.adapter import DuckDBSlot
from dpproxy.deployment.service import Service, configured
from dpproxy.embedded.server import EmbeddedError
from rewriter.refusal import Refusal
from tests.budget.test_ledger_disk import LOG, full
from tests.dpproxy.engine.test_executor import Analyst
from tests.dpproxy.serving import command, make

pytestmark = pytest.mark.service

COUNT = "SELECT COUNT(*) FROM people WHERE person_id > {}"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service.start(configured(make(tmp_path_factory.mktemp("lost"))), alone=True) as running:
        yield running


def cluster(service: Service) -> Path:
    return service.config.path(service.config.ledger.data_dir) / "cluster"


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("act", ["RESERVE", "SETTLE", "REPLAY"])
def test_a_connection_lost_around_a_commit_is_answered_and_charged_once(
    service: Service, monkeypatch: pytest.MonkeyPatch, act: str, after: bool
) -> None:
    ann = Analyst(service, f"{act} {after}")
    sql = COUNT.format(f"{len(act)} AND person_id <> {after:d}")
    if act == "REPLAY":
        ann.ask(sql)
    real, lost = store._run, [0]

    def run(connection: psycopg.Connection[Any], steps: Any, *more: Any) -> Any:
        if lost[0] or all(step[0] != getattr(statements, act) for step in steps):
            return real(connection, steps, *more)
        lost[0] = 1
        if after:
            real(connection, steps, *more)
        connection.close()
        raise psycopg.OperationalError("the connection is lost")

    monkeypatch.setattr(store, "_run", run)
    assert len(ann.ask(sql)) == 1
    assert lost == [1]
    assert ann.used() == (1, 0)


def during_fetch(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], None]) -> None:
    real = DuckDBSlot.fetch

    def fetch(*arguments: Any) -> Any:
        happens()
        return real(*arguments)

    monkeypatch.setattr(DuckDBSlot, "fetch", fetch)


def test_all_connections_lost_while_a_query_runs(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its settlement finds the ledger again."""
    ann = Analyst(service, "ann")

    def cut() -> None:
        backends = Path(f"/proc/{main}/task/{main}/children").read_text().split()
        for process in backends:
            with open(f"/proc/{process}/cmdline", "rb") as file:
                title = file.read()
            if b"[local]" in title:
                os.kill(int(process), signal.SIGTERM)

    main = int((cluster(service) / "postmaster.pid").read_text().split()[0])
    during_fetch(monkeypatch, cut)
    assert len(ann.ask(COUNT.format(700))) == 1
    assert ann.used() == (1, 0)


def test_the_ledger_dies_while_a_query_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing leaves, nothing more is begun, and the next start spends what was reserved."""
    file = make(tmp_path)
    with Service.start(configured(file), alone=True) as service:
        ann = Analyst(service, "ann")
        paid = ann.ask(COUNT.format(1))
        main = int((cluster(service) / "postmaster.pid").read_text().split()[0])
        during_fetch(monkeypatch, lambda: os.kill(main, signal.SIGQUIT))
        for number in (2, 3):
            with pytest.raises(Refusal) as refused:
                ann.ask(COUNT.format(number))
            assert refused.value.code == "57P03"
            assert "ledger" in refused.value.message
        monkeypatch.undo()
    with Service.start(configured(file), alone=True) as service:
        ann = Analyst(service, "ann")
        assert ann.used() == (2, 0), "the query that had reached the backend, not the one after it"
        assert ann.ask(COUNT.format(1)) == paid
        assert service.ledger.history.verify() is None


def test_a_full_disk_stops_the_ledger_and_what_was_answered_is_charged(tmp_path: Path) -> None:
    """Its log finds no room: nothing leaves; started again with room, it knows what was paid and spends the rest."""
    file = make(tmp_path)
    with Service.start(configured(file), alone=True) as service:
        ann = Analyst(service, "ann")
        paid = ann.ask(COUNT.format(1))
        with full(cluster(service), LOG), pytest.raises(Refusal) as refused:
            ann.ask(COUNT.format(2))
        assert refused.value.code == "57P03"
    with Service.start(configured(file), alone=True) as service:
        ann = Analyst(service, "ann")
        assert ann.ask(COUNT.format(1)) == paid
        used, _ = ann.used()
        ann.ask(COUNT.format(2))
        assert 2 <= ann.used()[0] <= used + 1
        assert service.ledger.history.verify() is None


def test_a_ledger_of_another_major_is_left_alone(tmp_path: Path) -> None:
    file = make(tmp_path)
    with Service.start(configured(file), alone=True) as service:
        version = cluster(service) / "PG_VERSION"
    version.write_text("9\n")
    with pytest.raises(EmbeddedError, match="was made by PostgreSQL 9"):
        Service.start(configured(file), alone=True)
    told = command("budget", "show", folder=tmp_path)
    assert (told.returncode, told.stdout, told.stderr.count("\n")) == (1, "", 1)
    assert "PostgreSQL 9" in told.stderr
