"""The length of units' vectors is chosen once for an account, and is no other account's."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from budget.account import Limit
from dpproxy.backends.base import Cancellation, Fetched
from dpproxy.deployment.service import Service, configured
from dpproxy.engine.measurement.totals import TotalsMeasurement
from dpproxy.engine.optimizer import choices, plan_release, weighs, with_choices, with_weights
from dpproxy.engine.options import terms
from dpproxy.engine.planner import BoundNode, Planner
from dpproxy.engine.purchase import _measured
from dpproxy.engine.release_keys import ReleaseKeys
from dpproxy.engine.release_plan import ReleasePlan
from dpproxy.engine.request import QueryRequest
from dpproxy.engine.result.released_table import ReleasedTable
from dpproxy.engine.selection.groups import Choice, MeasuredColumn
from dpproxy.front.waiting import working_for
from dpproxy.telemetry.observer import Observer
from mechanisms.randomness import seed
from mechanisms.unit_clip import UnitClip
from rewriter.ir.measure import Total
from rewriter.refusal import Refusal
from tests.dpproxy.engine.test_executor import Analyst
from tests.dpproxy.serving import POLICY, make

pytestmark = pytest.mark.service

NUMERIC = 1700
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
kind = { domain = ["a", "b", "c", "d", "e", "none"] }
amount = {}
"""
ROWS = """
CREATE TABLE orders (person_id INTEGER NOT NULL, shop VARCHAR, amount DOUBLE, kind VARCHAR);
INSERT INTO orders SELECT i // 2, ['north', 'south'][1 + i % 2], (i % 100) + 0.25,
    CASE WHEN i % 500 = 7 THEN 'e' WHEN i % 100 = 7 THEN 'd' WHEN i % 50 = 6 THEN 'c'
         WHEN i % 9 = 5 THEN 'b' ELSE 'a' END
FROM range(6000) r(i)
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
    ann.ask("SELECT SUM(amount) AS a, COUNT(*) FROM orders", {"dpproxy.reuse": "off"})
    assert clip(ann) == chosen != ""
    known = spread(ann)
    assert math.isclose(known, first * math.sqrt(0.75), rel_tol=0.01)
    assert ann.used() == (3, 0)
    assert not service.ledger.choices("bob", choices_of(service))
    bob.ask("SELECT SUM(amount) AS a, COUNT(*) FROM orders")
    ratio = spread(bob) / known * math.sqrt(0.75)
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


PEOPLE, SHOPS = (
    "SELECT COUNT(DISTINCT person_id) AS n FROM orders",
    "SELECT shop, SUM(amount) FROM orders GROUP BY shop",
)


def at(units: str) -> dict[str, str]:
    return {"dpproxy.units": units}


def test_a_better_answer_pays_for_what_it_adds(service: Service) -> None:
    ann, bob = Analyst(service, "level ann"), Analyst(service, "level bob")
    spreads, paid = [], []
    for units in ("1", "4", "16", "16", "2"):
        (answer,) = ann.ask(PEOPLE, at(units))
        spreads.append(spread(ann))
        paid.append(ann.used()[0])
        if paid[-1] == 16 == float(units):
            assert bob.ask(PEOPLE, at(units)) == [answer], "who buys it at once gets the same number"
    assert paid == [1, 4, 16, 16, 16]
    assert spreads == pytest.approx([13.3, 6.7, 3.3, 3.3, 9.4], abs=0.06)
    assert bob.used() == (16, 0)
    ann.ask(PEOPLE, at("0.25"))
    assert (spread(ann), ann.used()[0]) == (3.3, 16), "what is bought is better, and free"
    ann.ask(PEOPLE, at("0.25") | {"dpproxy.reuse": "off"})
    assert spread(ann) == 26.7
    assert ann.used()[0] == 16.25


def test_a_length_serves_twice_the_price_it_was_chosen_for(service: Service) -> None:
    ann = Analyst(service, "length ann")
    paid, clips = [], []
    for units in ("1", "2", "4", "8"):
        ann.ask("SELECT SUM(amount) AS a FROM orders", at(units))
        clips.append(clip(ann))
        paid.append(ann.used()[0])
    assert paid == [1, 2, 6, 10]
    assert clips[0] == clips[1]
    assert clips[2] == clips[3]
    rows = ann.ask("SELECT mechanism, information FROM dpproxy.releases")
    said = sorted((mechanism, float(units)) for mechanism, units in rows if float(units))
    at_4, rung = ("UnitClip at 4 units", 4), ("UnitClip at 4 units, rung 1", 4)
    assert said == [("UnitClip", 1), at_4, rung, ("UnitClip, rung 1", 1)]


KINDS = "SELECT kind, COUNT(*) AS n FROM orders GROUP BY kind"


def levels(planner: Planner, service: Service, units: str, sql: str = KINDS) -> ReleasePlan:
    planner.prepare(sql, ())
    (node,) = planner.plan(sql, (), ())
    assert isinstance(node, BoundNode)
    return plan_release(node, terms(service.config.privacy, at(units)), KEYS)


def test_small_groups_are_measured_with_weights(service: Service) -> None:
    """Half is for all groups alike; what was bought is not bought again."""
    ann, bob = Analyst(service, "weights ann"), Analyst(service, "weights bob")
    said = "\n".join(line for (line,) in ann.ask(f"EXPLAIN {KINDS}", at("4")))
    assert (
        "Weights: 2 of 4 units for all groups alike; then a group of 1/n of the largest n^(2/3) times" in said
    )
    assert (
        "dpproxy.units = 4 costs 4 information units and 0 calls; standard deviation 7.3 times that" in said
    )
    assert "length; up to 64 times less on small groups, if half gain by it" in said
    paid, answers = [], []
    for units in ("1", "2", "4", "8", "8"):
        answers.append(ann.ask(KINDS, at(units)))
        paid.append(ann.used()[0])
    assert paid == [1, 2, 6, 10, 10]
    assert answers[3] == answers[4] == bob.ask(KINDS, at("8")), "who buys it at once gets the same numbers"
    assert "small groups count more in the measurements after the first" in bob.notices[0]
    low, _, high = bob.notices[0].partition("standard deviation ")[2].partition(")")[0].partition(" to ")
    assert float(high) > 2 * float(low) > 0
    assert bob.used() == (8, 0)
    rows = bob.ask("SELECT mechanism, information FROM dpproxy.releases")
    assert sorted((mechanism, float(units)) for mechanism, units in rows if float(units)) == [
        ("UnitClip at 2 units", 2),
        ("UnitClip at 2 units, rung 1", 2),
        ("UnitClip at 4 units, rung 2", 4),
    ]


def test_what_has_weights(planned: Planner, service: Service) -> None:
    """Totals alone, of more than four cells, of which a unit may be in several."""
    both = "SELECT kind, COUNT(*), SUM(amount) FROM orders GROUP BY kind"
    assert weighs(levels(planned, service, "2"))
    assert weighs(levels(planned, service, "8", both))
    assert not any(weighs(levels(planned, service, units)) for units in ("0.25", "0.5", "1"))
    for sql in (
        "SELECT shop, COUNT(*) FROM orders GROUP BY shop",
        "SELECT kind, COUNT(*), AVG(amount) FROM orders GROUP BY kind",
        "SELECT kind, COUNT(*), COUNT(DISTINCT person_id) FROM orders GROUP BY kind",
    ):
        assert not weighs(levels(planned, service, "8", sql))


def test_weights_are_in_the_key_and_come_from_what_was_released(planned: Planner, service: Service) -> None:
    (rung,) = levels(planned, service, "2").rungs

    def first(*values: int) -> ReleasedTable:
        column = MeasuredColumn(values, (100.0,) * 6, length=9)
        return ReleasedTable((), {(0, None): column}, (0,), "UnitClip", (), rung.cost_at_most)

    one, other = first(8000, 1000, 100, 0, -1, 9), first(8000, 4000, 100, 0, -1, 9)
    keys = [with_weights(rung, table, {}).release_key for table in (one, other, one)]
    assert keys[0] == keys[2] != keys[1]
    assert {with_weights(rung, table, {}).request_key for table in (one, other)} == {rung.request_key}
    alike, known = first(*[8000] * 6), {0: Choice(0, 9)}
    assert with_weights(rung, alike, {}).release_key == rung.release_key, "none"
    assert with_weights(rung, alike, known).release_key == with_choices(rung, known).release_key
    assert with_weights(rung, one, known).release_key == keys[0], "another vector has a length of its own"
    assert with_weights(rung, one, {}).cost_at_most == rung.cost_at_most


def test_a_length_serves_a_rung_of_its_own_price_without_weights(planned: Planner, service: Service) -> None:
    plan = levels(planned, service, "2")
    (rung,) = plan.rungs
    assert rung.level == plan.terms.units
    column = MeasuredColumn((8000,) * 6, (100.0,) * 6, length=9)
    first = ReleasedTable((), {(0, None): column}, (0,), "UnitClip", (), rung.cost_at_most)
    bought: list[ReleasePlan] = []

    def buy(plans: Sequence[ReleasePlan]) -> list[ReleasedTable]:
        bought.extend(plans)
        return [first]

    _measured(plan, first, buy)
    assert [one.release_key for one in bought] == [with_choices(rung, {0: Choice(0, 9)}).release_key]


def test_rungs_are_paid_as_a_whole_or_not_at_all(service: Service) -> None:
    ann = Analyst(service, "poor ann")
    service.ledger.accounts.seed("analyst:poor ann", Limit(3_000_000, 0, "none"))
    with pytest.raises(Refusal, match="budget exhausted: this query needs 4 information units") as refused:
        ann.ask(PEOPLE, at("4"))
    assert refused.value.code == "PV001"
    assert ann.used() == (0, 0)
    with pytest.raises(Refusal, match=r"costs up to 8 .*more than dpproxy\.max_cost"):
        ann.ask(PEOPLE, at("8") | {"dpproxy.max_cost": "7"})
    ann.ask(PEOPLE, at("2"))
    assert ann.used() == (2, 0)


def test_an_error_is_reached_level_by_level(service: Service) -> None:
    ann = Analyst(service, "error ann")
    ann.ask(PEOPLE, {"dpproxy.error": "20"})
    # Two levels below one unit, and one and two units after them: +- 52, 26 and 18.5.
    assert spread(ann) <= 20 / 1.96
    assert "for an error of 20" in ann.notices[0]
    first = ann.used()[0]
    assert first <= 2.5
    ann.ask(PEOPLE, {"dpproxy.error": "21"})
    assert ann.used()[0] == first, "what was bought is enough"
    ann.ask(PEOPLE, {"dpproxy.error": "5"})
    assert spread(ann) <= 5 / 1.96
    assert ann.used()[0] == 32.25


def test_a_search_buys_nothing_more_once_its_session_has_ended(service: Service) -> None:
    gone = Cancellation()

    class Leaving(Observer):
        def slot(self) -> AbstractContextManager[object]:
            gone.cancel()
            return super().slot()

    request = QueryRequest(PEOPLE, (), "gone ann", (), {"dpproxy.error": "5"}, watcher=Leaving())
    with working_for("gone ann", gone), pytest.raises(Refusal) as refused:
        service.answering.execute(request)
    assert refused.value.code == "57014"
    assert Analyst(service, "gone ann").used() == (0.25, 0), "what was reserved is finished"


def test_an_error_out_of_reach_is_not_paid_for(service: Service) -> None:
    ann = Analyst(service, "far ann")
    ann.ask(PEOPLE, {"dpproxy.error": "0.1"})
    assert "too few for an error of 0.1 of n: it needs more than 64" in ann.notices[0]
    assert ann.used() == (0.25, 0)
    ann.ask(f"{PEOPLE} WHERE amount > 50", {"dpproxy.error": "10", "dpproxy.most_units": "3"})
    assert "too few for an error of 10 of n: it needs about 8" in ann.notices[0]
    assert ann.used()[0] <= 3.25
    for settings in ({"dpproxy.most_units": "3"}, {"dpproxy.most_units": "3", "dpproxy.notices": "off"}):
        ann.ask(f"{PEOPLE} WHERE amount > 50", {"dpproxy.error": "10"} | settings)
    assert ann.used()[0] <= 3.25, "what was paid before counts"
    eve = Analyst(service, "capped eve")
    eve.ask(PEOPLE, {"dpproxy.error": "5", "dpproxy.max_cost": "2"})
    assert 0 < eve.used()[0] <= 2


BOTH = f"SELECT ({PEOPLE} WHERE amount < 30), ({PEOPLE} WHERE amount > 60)"


def test_one_answer_twice_in_a_statement_is_one_answer(service: Service) -> None:
    ann = Analyst(service, "twice ann")
    twice = f"SELECT n FROM ({PEOPLE}) AS x UNION ALL SELECT n FROM ({PEOPLE}) AS y"
    ann.ask(twice, at("8") | {"dpproxy.max_cost": "8"})
    assert spread(ann) == pytest.approx(13.33 / 8**0.5, abs=0.06)
    assert ann.used() == (8, 0)


def test_the_whole_statement_is_accepted_before_any_of_it_is_bought(service: Service) -> None:
    ann = Analyst(service, "whole ann")
    ann.ask(BOTH)
    with pytest.raises(Refusal, match="costs up to 14 ") as refused:
        ann.ask(BOTH, at("8") | {"dpproxy.max_cost": "10"})
    assert refused.value.code == "PV026"
    with pytest.raises(Refusal, match="costs up to 18 "):
        ann.ask(BOTH, {"dpproxy.error": "4", "dpproxy.most_units": "10", "dpproxy.price_first": "9"})
    with pytest.raises(Refusal, match="costs up to 126 ") as refused:
        ann.ask(BOTH, at("64") | {"dpproxy.price_first": "100"})
    assert refused.value.code == "PV027"
    assert ann.used() == (2, 0)
    ann.ask(BOTH, {"dpproxy.error": "5", "dpproxy.max_cost": "20"})
    assert 2 < ann.used()[0] <= 22


def test_a_search_leaves_the_rest_of_the_statement_its_price(service: Service) -> None:
    ann = Analyst(service, "rest ann")
    service.ledger.accounts.seed("analyst:rest ann", Limit(4_000_000, 0, "none"))
    ann.ask(BOTH, {"dpproxy.error": "3"})
    assert "too few" in ann.notices[1]
    assert 3 < ann.used()[0] <= 4
    waits = f"{PEOPLE} WHERE amount < (SELECT AVG(amount) FROM orders)"
    eve = Analyst(service, "rest eve")
    eve.ask(waits, {"dpproxy.error": "50%", "dpproxy.max_cost": "3"})
    assert eve.used()[0] <= 3


def test_an_account_that_cannot_go_on_has_what_it_paid_for(service: Service) -> None:
    ann = Analyst(service, "stopped ann")
    service.ledger.accounts.seed("analyst:stopped ann", Limit(300_000, 0, "none"))
    ann.ask(PEOPLE, {"dpproxy.error": "5"})
    assert "too few for an error of 5" in ann.notices[0]
    service.ledger.accounts.freeze("analyst:stopped ann")
    ann.ask(PEOPLE, {"dpproxy.error": "5"})
    assert "no charge" in ann.notices[0]


def test_a_price_that_is_nearer_than_an_error_counts(service: Service) -> None:
    ann = Analyst(service, "near ann")
    ann.ask(f"/* dpproxy.units = 4 */ {PEOPLE}", {"dpproxy.error": "1"})
    assert ann.used() == (4, 0)
    ann.ask(f"/* sales; never dpproxy.units = 64 */ {PEOPLE}")
    assert ann.used() == (5 - 1, 0), "prose buys nothing: the first rung is paid for"
    said = "\n".join(line for (line,) in ann.ask(f"EXPLAIN {PEOPLE}", {"dpproxy.error": "1"}))
    assert "Cost: at most 60 information units and 0 calls, for an error of 1; 0 information units" in said


def test_where_a_precision_is_asked_for(service: Service) -> None:
    ann = Analyst(service, "hint ann")
    ann.ask(f"/* dpproxy.units = 4 */ {PEOPLE}", at("0.25"))
    assert ann.used() == (4, 0)
    huge = "1e30000000"  # as a fraction it has 100 million digits
    settings = [("units", "3"), ("units", "128"), ("units", huge), ("error", "60%"), ("error", huge)]
    for name, value in (*settings, ("most_units", "-1"), ("max_cost", huge), ("query_information", huge)):
        wrong = {f"dpproxy.{name}": value} | ({"dpproxy.error": "5%"} if name == "most_units" else {})
        with pytest.raises(Refusal) as refused:
            ann.ask(PEOPLE, wrong)
        assert refused.value.code == "22023"
        assert name in refused.value.message
    assert ann.used() == (4, 0)


def test_explain_has_the_price_of_each_level(service: Service) -> None:
    ann = Analyst(service, "ladder ann")
    ann.ask(PEOPLE)
    said = "\n".join(line for (line,) in ann.ask(f"EXPLAIN {PEOPLE}", at("4")))
    assert "Noise: standard deviation 6.67 on each count" in said
    assert "Price: 4 information units, for all groups together" in said
    assert "Cost: at most 4 information units" in said
    assert "dpproxy.units = 1 is bought; standard deviation 13.33 on each count" in said
    assert "dpproxy.units = 4 costs 3 information units and 0 calls; standard deviation 6.67" in said
    assert ann.used() == (1, 0)


def test_error_columns_change_nothing_that_is_planned(planned: Planner) -> None:
    sql = "SELECT shop, AVG(amount) FROM orders WHERE amount < $1 GROUP BY shop"
    shown = planned.prepare(sql, (NUMERIC,), errors=True)
    plan = planned.plan(sql, (NUMERIC,), ("50",))
    assert planned.known(sql, (NUMERIC,)) is None, "analysed once"
    assert shown.nodes == planned.prepare(sql, (NUMERIC,)).nodes
    planned.forget()
    planned.prepare(sql, (NUMERIC,))
    assert plan == planned.plan(sql, (NUMERIC,), ("50",))


def test_a_length_is_kept_in_units_of_the_scale(service: Service) -> None:
    """Vectors with squares are finer than that."""
    cid, precise = Analyst(service, "cid"), {"dpproxy.units": "16"}
    ((first,),) = cid.ask("SELECT VAR_POP(amount) FROM orders", precise)
    sql = "SELECT VAR_POP(amount), COUNT(DISTINCT person_id) FROM orders"
    ((again, _),) = cid.ask(sql, {**precise, "dpproxy.reuse": "off"})
    assert "UnitClip" in cid.notices[-1], "which has a length that was chosen before"
    assert float(first) == pytest.approx(833.25, rel=0.1)
    assert float(again) == pytest.approx(833.25, rel=0.1)
