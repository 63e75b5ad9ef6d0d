"""Published answers in later epochs: asked anew once by one process, charged once, and old ones that stay are told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from budget.account import Charge, Limit, ReserveRequest
from budget.units import MICRO
from dpproxy.deployment.service import Service, configured
from dpproxy.embedded.server import Embedded
from dpproxy.engine.published_tables import RETRY
from dpproxy.engine.request import QueryRequest
from rewriter.refusal import Refusal
from tests.dpproxy.serving import POLICY, make
from tests.published.dashboard import SETTINGS, Clock

pytestmark = pytest.mark.service

BY_TOWN = "SELECT town, COUNT(*) AS n FROM people GROUP BY town"
NAME = "analyst:ann"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    make(tmp_path, POLICY + SETTINGS)
    with Service.start(configured(tmp_path / "dpproxy.toml"), alone=True) as started:
        yield started


def publish(service: Service, sql: str, refresh: str = "epoch") -> None:
    service.publishing.run(QueryRequest(sql, (), "ann", (), {"dpproxy.refresh": refresh}))


def rows(service: Service, sql: str) -> list[tuple[Any, ...]]:
    role, password = service.front.role_for("bob")
    host = str(service.front.address.parent)  # type: ignore[union-attr]
    with psycopg.connect(host=host, user=role, password=password, dbname=service.front.database) as bob:
        return bob.execute(sql.encode()).fetchall()


def told(service: Service) -> tuple[Any, ...]:
    (row,) = rows(
        service, "SELECT refreshed_at, next_refresh, last_error FROM dpproxy.published WHERE name = 'towns'"
    )
    return row


def used(service: Service) -> int:
    return service.ledger.accounts.get(NAME).used.information // MICRO


def test_each_epoch_once_and_what_is_made_of_it_after_it(service: Service) -> None:
    clock = Clock(service)
    publish(service, f"CREATE TABLE published.zebra AS {BY_TOWN}")
    publish(service, "CREATE TABLE published.aardvark AS SELECT SUM(n) AS n FROM published.zebra")
    publish(service, f"CREATE TABLE published.once AS {BY_TOWN}", "once")
    service.publishing.refresh_due(clock.now)
    assert used(service) == 1, "nothing is due yet"
    first = rows(service, "SELECT town, n FROM published.zebra ORDER BY town")
    assert rows(service, "SELECT town, n FROM published.once ORDER BY town") == first
    for day in (1, 2):
        clock.tomorrow(service)
        service.publishing.refresh_due(clock.now)
        assert used(service) == 1 + day
        found = rows(service, "SELECT town, n FROM published.zebra ORDER BY town")
        assert found != first, "another epoch's noise"
        assert rows(service, "SELECT n FROM published.aardvark") == [(sum(n for _, n in found),)]
        assert rows(service, "SELECT town, n FROM published.once ORDER BY town") == first


def test_a_length_is_chosen_once_for_all_refreshes(service: Service) -> None:
    clock = Clock(service)
    publish(
        service, "CREATE TABLE published.towns AS SELECT SUM(seconds) AS s, AVG(seconds) AS a FROM visits"
    )
    (first,) = rows(service, "SELECT s, s_stddev, a_stddev FROM published.towns")
    kept = [first]
    for _ in range(2):
        clock.tomorrow(service)
        kept += rows(service, "SELECT s, s_stddev, a_stddev FROM published.towns")
    assert len({s for s, _, _ in kept}) == 3, "another epoch's noise"
    deviations = [float(s) for _, s, _ in kept]
    # What the choice cost at first is spent on noise later.
    assert deviations[1:] == pytest.approx([deviations[0] * 0.675**0.5] * 2, rel=0.05)
    (answer,) = service.ledger.publications.all()
    assert len(answer.choices) == 1
    assert used(service) == 3


def test_totals_are_added_up_from_what_the_same_answer_bought(service: Service) -> None:
    clock = Clock(service)
    visits = "SELECT town, SUM(seconds) AS s FROM visits JOIN people USING (person_id)"
    for name in ("again", "towns"):
        publish(service, f"CREATE TABLE published.{name} AS {visits} GROUP BY ROLLUP (town)")
        assert used(service) == 1, "and nothing for the same again"
    publish(service, f"CREATE TABLE published.whole AS {visits.replace('town, ', '')}")
    assert used(service) == 2, "what other statements have bought implies nothing"
    for day in (1, 2):
        (parts,) = rows(service, "SELECT SUM(s) FROM published.towns WHERE town IS NOT NULL")
        (whole,) = rows(service, "SELECT s FROM published.towns WHERE town IS NULL")
        assert abs(parts[0] - whole[0]) <= 2, "four numbers are rounded"
        assert [whole] != rows(service, "SELECT s FROM published.whole")
        clock.tomorrow(service)
        service.publishing.refresh_due(clock.now)
        assert used(service) == 2 + 2 * day


def test_what_a_published_total_lacks_is_bought_once(service: Service) -> None:
    by_town = "SELECT town, COUNT(*) AS n FROM people GROUP BY ROLLUP (town)"
    asyncio.run(service.ask("bob", by_town))
    publish(service, f"CREATE TABLE published.towns AS {by_town}")
    asked, published = (service.ledger.accounts.get(f"analyst:{who}").used for who in ("bob", "ann"))
    assert asked == published


def test_one_of_two_proxies_renews_and_both_show_it(tmp_path: Path) -> None:
    """Two fronts on one ledger; the second reads what the first publishes."""
    with Embedded.start(tmp_path / "server", durable=True) as server, ExitStack() as stack:
        url = server.conninfo().replace("\\", "\\\\").replace('"', '\\"')
        services = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            policy = POLICY.replace("duckdb:///", "duckdb:///../one/") + SETTINGS
            file = make(tmp_path / name, f'{policy}[ledger]\nurl = "{url}"\n')
            key = tmp_path / name / ".dpproxy" / "key"
            key.parent.mkdir()
            key.write_bytes(bytes(range(32)))
            key.chmod(0o600)
            if name == "two":
                (key.parent / "key.mark").write_bytes((tmp_path / "one/.dpproxy/key.mark").read_bytes())
            services.append(stack.enter_context(Service.start(configured(file), alone=True)))
        clocks = [Clock(service) for service in services]
        publish(services[0], f"CREATE TABLE published.towns AS {BY_TOWN}")
        services[1].publishing.refresh_due(clocks[1].now)
        shown = "SELECT * FROM published.towns ORDER BY town"
        assert rows(services[0], shown) == rows(services[1], shown)
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(Clock.tomorrow, clocks, services))
        for service in services:
            service.publishing.synchronise()
        assert used(services[0]) == 2, "one of them paid, once"
        assert rows(services[0], shown) == rows(services[1], shown)
        with pytest.raises(Refusal) as taken:
            publish(services[1], "CREATE TABLE published.towns AS SELECT 1 AS a")
        assert taken.value.code == "42P07"
        publish(services[1], "DROP TABLE published.towns")
        services[0].publishing.synchronise()
        assert rows(services[0], "SELECT name FROM dpproxy.published") == []


def test_an_exhausted_publisher_leaves_the_old_answer_and_its_age(service: Service) -> None:
    clock = Clock(service)
    publish(service, f"CREATE TABLE published.towns AS {BY_TOWN}")
    first, released_at = rows(service, "SELECT * FROM published.towns"), told(service)[0]
    service.ledger.accounts.set_limit(NAME, Limit(MICRO, 0, "month"))
    clock.tomorrow(service)
    assert rows(service, "SELECT * FROM published.towns") == first
    assert told(service) == (
        released_at,
        clock.now + RETRY,
        "PV001: the publisher's budget does not cover it",
    )
    (comment,) = rows(service, "SELECT obj_description('published.towns'::regclass)")
    assert "the last refresh failed" in str(comment)
    service.ledger.accounts.set_limit(NAME, Limit(9 * MICRO, 0, "month"))
    service.publishing.refresh_due(clock.now)
    assert used(service) == 1, "not before its time"
    clock.now += RETRY
    service.publishing.refresh_due(clock.now)
    assert (told(service)[0], told(service)[2], used(service)) == (clock.now, None, 2)


def test_who_may_no_longer_publish_renews_nothing(tmp_path: Path) -> None:
    """The right is asked for at each refresh, as the configuration of now has it; what is published stays."""
    file = make(tmp_path, POLICY + SETTINGS)
    with Service.start(configured(file), alone=True) as service:
        publish(service, f"CREATE TABLE published.towns AS {BY_TOWN}")
        first = rows(service, "SELECT * FROM published.towns")
    file.write_text((POLICY + SETTINGS).replace("publish = true", "publish = false"))
    with Service.start(configured(file), alone=True) as service:
        clock = Clock(service)
        clock.tomorrow(service)
        assert rows(service, "SELECT * FROM published.towns") == first
        assert (told(service)[1:], used(service)) == (
            (clock.now + RETRY, '42501: "ann" may not publish answers'),
            1,
        )


def failing(service: Service, monkeypatch: pytest.MonkeyPatch, spend: bool) -> Callable[[], int]:
    """Lets every query fail, charged or not; gives how many were asked."""
    asked: list[QueryRequest] = []

    def execute(asker: QueryRequest) -> None:
        asked.append(asker)
        if spend:
            cost = ReserveRequest(
                [NAME], [Charge(MICRO, 0)], reached=True, queries=[""], mechanisms=["fails"]
            )
            service.ledger.spend(*service.ledger.reserve(cost))
        raise Refusal("PV090", "the backend could not run this query")

    monkeypatch.setattr(service.answering, "execute", execute)
    return lambda: len(asked)


@pytest.mark.parametrize(("spend", "again"), [(True, 1), (False, 2)])
def test_what_failed_is_tried_again_before_its_turn_only_if_it_cost_nothing(
    service: Service, monkeypatch: pytest.MonkeyPatch, spend: bool, again: int
) -> None:
    clock = Clock(service)
    publish(service, f"CREATE TABLE published.towns AS {BY_TOWN}")
    count = failing(service, monkeypatch, spend)
    clock.tomorrow(service)
    assert told(service)[2].startswith("PV090")
    clock.now += RETRY
    service.publishing.refresh_due(clock.now)
    assert count() == again
    assert used(service) == 1 + spend


def test_a_process_that_dies_meanwhile_is_told_and_charged_once(service: Service) -> None:
    clock = Clock(service)
    publish(service, f"CREATE TABLE published.towns AS {BY_TOWN}")
    one = service.ledger.publications.get("towns")
    assert one is not None
    assert one.due_at is not None
    clock.now = one.due_at
    assert service.ledger.publications.claim_refresh(
        one, clock.now + 2 * RETRY, "begun and not ended yet", due=clock.now
    )
    service.publishing.refresh_due(clock.now)
    assert told(service)[2] == "begun and not ended yet"
    assert used(service) == 1
    renewed = service.publishing.refresh("towns")
    assert renewed is not None
    assert (renewed.failure, used(service)) == (None, 2), "the owner may ask out of turn"


def test_an_answer_whose_columns_change_takes_the_place_of_the_old_one(service: Service) -> None:
    clock = Clock(service)
    publish(service, f"CREATE TABLE published.zebra AS {BY_TOWN}", "once")
    publish(service, "CREATE TABLE published.towns AS SELECT * FROM published.zebra")
    publish(service, "DROP TABLE published.zebra")
    publish(service, "CREATE TABLE published.zebra AS SELECT 1 AS other", "once")
    clock.tomorrow(service)
    assert rows(service, "SELECT * FROM published.towns") == [(1,)]
    publish(service, "DROP TABLE published.zebra")
    clock.tomorrow(service)
    assert rows(service, "SELECT * FROM published.towns") == [(1,)]
    assert told(service)[2].startswith("42P01")
