"""Owners change tables while a proxy runs: noticed when an epoch begins, before anything is paid."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpproxy.deployment.service import Service, configured
from rewriter.refusal import Refusal
from tests.dpproxy.engine.test_executor import Analyst
from tests.dpproxy.serving import POLICY, make, owner_of

pytestmark = pytest.mark.service

COUNT = "SELECT COUNT(*) FROM people WHERE person_id <> {}"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Shared, and of no use once a test has taken a key away."""
    file = make(tmp_path_factory.mktemp("drift"), POLICY)
    with Service.start(configured(file), alone=True) as running:
        yield running


def owner_does(service: Service, *statements: str) -> None:
    """While the proxy runs: soon after a query it holds the file no longer."""
    with owner_of(service.config.folder / "people.duckdb") as owner:
        for statement in statements:
            owner.execute(statement)


def test_what_the_policy_does_not_speak_of_may_change(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = Analyst(service, "ann")
    owner_does(service, "CREATE TABLE scratch (x INTEGER)", "INSERT INTO people VALUES (100000, 'Ulm')")
    monkeypatch.setattr("dpproxy.engine.epochs.epoch_name", lambda *_: "2100-01-01")
    ann.ask(COUNT.format(-2))
    assert ann.used() == (1, 0)


def test_what_the_policy_rests_on_is_gone(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    ann = Analyst(service, "bob")
    ann.ask(COUNT.format(-1))
    owner_does(
        service,
        "CREATE TABLE others AS SELECT * FROM people",
        "DROP TABLE people",
        "ALTER TABLE others RENAME TO people",
    )
    monkeypatch.setattr("dpproxy.engine.epochs.epoch_name", lambda *_: "2200-01-01")
    for _ in range(2):
        with pytest.raises(Refusal) as refused:
            ann.ask(COUNT.format(-2))
        assert refused.value.code == "55000"
        assert "restart" in (refused.value.hint or "")
    monkeypatch.undo()
    assert ann.used() == (1, 0)
