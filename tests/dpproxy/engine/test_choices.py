"""The length of units' vectors is chosen once for an account, and is no other account's."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from dpproxy.backends.base import Fetched
from dpproxy.deployment.service import Service, configured
from dpproxy.engine.group_selection import Choice
from dpproxy.engine.measurement.totals import TotalsMeasurement
from dpproxy.engine.optimizer import choices, plan_release, with_choices
from dpproxy.engine.options import terms
from dpproxy.engine.planner import BoundNode, Planner
from dpproxy.engine.release_keys import ReleaseKeys
from dpproxy.engine.release_plan import ReleasePlan
from mechanisms.randomness import seed
from mechanisms.unit_clip import UnitClip
from rewriter.ir.measure import Total
from tests.dpproxy.engine.test_executor import Analyst
from tests.dpproxy.serving import POLICY, make

pytestmark = pytest.mark.service

KEYS = ReleaseKeys(bytes(32), b"nonce", b"streams")
TABLES = """
[budget]
information = 100
calls = 20
period = "none"

[tables.orders]
privacy_unit = "person_id"
[tables.orders.columns]
shop = { domain = ["north", "south"] }
amount = {}
"""
ROWS = """
CREATE TABLE orders (person_id INTEGER NOT NULL, shop VARCHAR, amount DOUBLE);
INSERT INTO orders SELECT i // 2, ['north', 'south'][1 + i % 2], (i % 100) + 0.25 FROM range(6000) r(i)
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder: Path = tmp_path_factory.mktemp("choices")
    make(folder, POLICY + TABLES)
    with duckdb.connect(folder / "people.duckdb") as connection:
        connection.execute(ROWS)
    with Service.start(configured(folder / "dpproxy.toml"), alone=True) as running:
        yield running


@pytest.fixture
def planned(service: Service) -> Planner:
    return Planner(service.checked.policy, service.front, service.checked.backend.dialect)


def plan(planner: Planner, service: Service, sql: str, keys: ReleaseKeys = KEYS) -> ReleasePlan:
    planner.prepare(sql, ())
    (node,) = planner.plan(sql, (), ())
    assert isinstance(node, BoundNode)
    return plan_release(node, terms(service.config.privacy, {}), keys)


def keys(planner: Planner, service: Service, sql: str) -> set[bytes]:
    return set(choices(plan(planner, service, sql)).values())


def test_what_a_length_is_kept_for(planned: Planner, service: Service) -> None:
    """Measure, bounds, rows and cells; not what else is asked."""
    (one,) = keys(planned, service, "SELECT shop, SUM(amount) FROM orders GROUP BY shop")
    assert one in keys(planned, service, "SELECT shop, SUM(amount), COUNT(*) FROM orders GROUP BY shop")
    assert one in keys(planned, service, "SELECT shop, COUNT(*), SUM(amount) / 2 FROM orders GROUP BY shop")
    others = (
        "SELECT SUM(amount) FROM orders",
        "SELECT shop, SUM(2 * amount + 1) FROM orders GROUP BY shop",
        "SELECT shop, SUM(amount) FROM orders WHERE amount > 5 GROUP BY shop",
        "SELECT shop, SUM(amount) FILTER (WHERE amount > 5) FROM orders GROUP BY shop",
        "SELECT shop, AVG(amount) FROM orders GROUP BY shop",
        "SELECT shop, COUNT(*) FROM orders GROUP BY shop",
    )
    found = [keys(planned, service, sql) for sql in others]
    assert all(len(k) == 1 for k in found)
    assert len({one, *(key for k in found for key in k)}) == 1 + len(others)
    sql = "SELECT shop, SUM(amount) FROM orders GROUP BY shop"
    again = plan(planned, service, sql, replace(KEYS, epoch=b"another epoch"))
    assert one not in choices(again).values()
    assert not choices(plan(planned, service, "SELECT amount, SUM(amount) FROM orders GROUP BY amount"))


@pytest.mark.parametrize("aggregate", ["SUM(amount)", "COUNT(*)", "AVG(amount)", "VAR_POP(amount)"])
def test_with_a_length_the_whole_price_is_noise(planned: Planner, service: Service, aggregate: str) -> None:
    fresh = plan(planned, service, f"SELECT {aggregate} FROM orders")
    known = with_choices(fresh, {0: Choice(7 if aggregate[0] in "AV" else 0, 5000)})
    (meter,), eps = known.meters, known.terms.settings.eps_per
    assert isinstance(meter, TotalsMeasurement)
    (clip,) = meter.mechanisms(1)
    assert isinstance(clip, UnitClip)
    assert clip.sigma_squared == 4 / eps**2
    assert known.cost_at_most == fresh.cost_at_most
    assert known.release_key != fresh.release_key
    assert known.request_key == fresh.request_key
    assert known.rounds == 1 < fresh.rounds
    assert known.release_key != with_choices(fresh, {0: Choice(0, 5001)}).release_key
    assert replace(known, meters=()).release_key == known.release_key


def clip(analyst: Analyst) -> str:
    """What the last notice says of the clip, without the noise."""
    return analyst.notices[-1].partition("one unit counts for at most ")[2].partition(" in a")[0]


def spread(analyst: Analyst) -> float:
    return float(analyst.notices[-1].partition("standard deviation ")[2].partition(")")[0])


def test_an_account_chooses_once_and_no_other_has_its_choice(service: Service) -> None:
    ann, bob = Analyst(service, "ann"), Analyst(service, "bob")
    ann.ask("SELECT SUM(amount) AS a FROM orders")
    first, chosen = spread(ann), clip(ann)
    ann.ask("SELECT SUM(amount) AS a, COUNT(*) FROM orders")
    assert clip(ann) == chosen != ""
    known = spread(ann)
    assert math.isclose(known, first * math.sqrt(0.84), rel_tol=0.01)
    assert ann.used() == (3, 0)
    assert not service.ledger.choices("bob", choices_of(service))
    bob.ask("SELECT SUM(amount) AS a, COUNT(*) FROM orders")
    ratio = spread(bob) / known * math.sqrt(0.84)
    assert any(math.isclose(ratio, 2 ** (n / 4), rel_tol=0.02) for n in range(-40, 41)), "bob pays to choose"
    assert bob.used() == (2, 0)


@pytest.mark.parametrize("aggregate", ["SUM(amount)", "AVG(amount)"])
def test_nothing_is_asked_or_paid_where_no_length_was_found(
    planned: Planner, service: Service, aggregate: str
) -> None:
    fresh = plan(planned, service, f"SELECT shop, {aggregate}, COUNT(*) FROM orders GROUP BY shop")
    (place,) = (n for n, m in enumerate(fresh.node.aggregate.measures) if m != Total(None, None, 1))
    known = with_choices(fresh, {place: Choice(0, 0)})
    assert known.cost_at_most.information == 1
    assert known.rounds == 2, "those of the count of rows"
    assert known.release_key != fresh.release_key
    known = with_choices(fresh, {0: Choice(0, 0), 1: Choice(0, 0)})
    assert known.cost_at_most.information == 0
    assert known.rounds == 0
    assert not list(known.queries())

    def fetch(_: object) -> Fetched:
        raise AssertionError("the backend is asked")

    released = known.release(fetch, seed(bytes(32), known.release_key, b"a reservation"))
    assert released.cost.information == 0
    assert [c.values for c in known.shown(released).columns] == [(None, None), (None, None)]
    assert "no length of units' totals serves so few units" in released.notes[0]
    assert [released.choice(place) for place in (0, 1)] == [Choice(0, 0)] * 2


def test_what_came_to_no_length_is_not_tried_again(service: Service) -> None:
    eve = Analyst(service, "eve")
    # Without units 19 of 20 choices come to no length.
    amounts, paid = (f"SUM(amount) FILTER (WHERE amount > {least})" for least in range(1000, 1010)), 0.0
    for amount in amounts:
        ((answer,),) = eve.ask(f"SELECT {amount} AS a FROM orders")
        paid = eve.used()[0]
        if answer is None:
            break
    ((again, _),) = eve.ask(f"SELECT {amount} AS a, COUNT(*) AS n FROM orders")
    assert again is None
    assert eve.used() == (paid + 1, 0)


def choices_of(service: Service) -> list[bytes]:
    """The keys of all choices that are kept."""
    rows = service.ledger._ledger._store.rows("SELECT choice_key FROM dpproxy_ledger.choice")
    return [key for (key,) in rows]
