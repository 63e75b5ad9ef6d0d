"""A limit's period made shorter and longer again: what was used counts for as long as the new period is."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from budget.account import Charge, Exhausted, Limit, LimitRow, LimitTooLow, Period, ReserveRequest, Settlement
from budget.ledger import Ledger
from budget.trail import first_excess
from tests.budget.conftest import Jumping

pytestmark = pytest.mark.service

Account = Callable[..., str]
UNIT = 10**6
ALL = Charge(50 * UNIT, UNIT)
HOURS = {"day": 24, "week": 7 * 24, "month": 30 * 24}
_names = itertools.count()


def limit(period: Period, information: int = 50, calls: int = 10) -> Limit:
    return Limit(information * UNIT, calls * UNIT, period)


def seeded(ledger: Ledger, period: Period, kind: str = "analyst") -> str:
    name = f"{kind}:changed {next(_names)}"
    ledger.accounts.seed(name, limit(period))
    return name


@pytest.mark.parametrize("kind", ["analyst", "team", "dataset"])
def test_a_limit_without_a_period_is_not_passed_by_a_day_in_between(jumping: Jumping, kind: str) -> None:
    ledger = jumping.ledger
    name = seeded(ledger, "none", kind)
    ledger.update_budget(name, ALL)
    jumping.ahead(hours=25)
    ledger.accounts.set_limit(name, limit("day"))
    ledger.update_budget(name, ALL)
    with pytest.raises(LimitTooLow, match="has spent 100 information units and 2 calls and reserved 0"):
        ledger.accounts.set_limit(name, limit("none"))
    assert ledger.accounts.limit(name) == limit("day")
    ledger.accounts.set_limit(name, limit("none", 110))
    assert (ledger.accounts.get(name).used.information, ledger.accounts.left(name).information) == (
        100 * UNIT,
        10 * UNIT,
    )
    with pytest.raises(Exhausted):
        ledger.update_budget(name, Charge(11 * UNIT, 0))
    jumping.ahead(days=4000)
    with pytest.raises(Exhausted):
        ledger.update_budget(name, Charge(11 * UNIT, 0))
    ledger.update_budget(name, Charge(10 * UNIT, 0))


@pytest.mark.parametrize(("short", "long"), [("day", "week"), ("day", "month"), ("week", "month")])
def test_a_longer_period_covers_all_that_was_used_within_its_length(
    jumping: Jumping, short: Period, long: Period
) -> None:
    ledger, hours = jumping.ledger, HOURS[short]
    name = seeded(ledger, long)
    ledger.update_budget(name, ALL)
    ledger.accounts.set_limit(name, limit(short))
    jumping.ahead(hours=hours + 1)
    ledger.update_budget(name, ALL)
    with pytest.raises(LimitTooLow, match=f"100 information units and 2 calls within a {long}"):
        ledger.accounts.set_limit(name, limit(long))
    ledger.accounts.set_limit(name, limit(long, 120))
    assert ledger.accounts.left(name).information == 20 * UNIT
    row = ledger.accounts.get(name)
    assert row.refreshes_at is not None
    jumping.ahead(hours=HOURS[long] - 1)
    assert ledger.accounts.left(name).information == 20 * UNIT, (
        "the first of it was used less than the new period ago"
    )
    jumping.ahead(hours=HOURS[long] + 1)
    assert ledger.accounts.left(name).information == 120 * UNIT


def test_what_was_used_longer_ago_than_the_new_period_is_over(jumping: Jumping) -> None:
    ledger = jumping.ledger
    name = seeded(ledger, "day")
    ledger.update_budget(name, ALL)
    jumping.ahead(days=8)
    ledger.update_budget(name, Charge(20 * UNIT, 0))
    ledger.accounts.set_limit(name, limit("week"))
    assert ledger.accounts.left(name).information == 30 * UNIT


def test_what_is_held_counts_with_what_was_used(jumping: Jumping) -> None:
    ledger = jumping.ledger
    name = seeded(ledger, "day")
    ledger.update_budget(name, Charge(30 * UNIT, 0))
    jumping.ahead(hours=25)
    (held,) = ledger.reserve(
        ReserveRequest([name], [Charge(21 * UNIT, 0)], reached=True, queries=["q"], mechanisms=["m"])
    )
    with pytest.raises(LimitTooLow, match=r"spent 30 .* reserved 21 "):
        ledger.accounts.set_limit(name, limit("none"))
    ledger.accounts.set_limit(name, limit("none", 51))
    ledger.spend(held)
    assert ledger.accounts.left(name).information == 0


def test_pruned_answers_change_nothing_of_what_was_used(jumping: Jumping) -> None:
    ledger = jumping.ledger
    name = seeded(ledger, "day")
    (held,) = ledger.reserve(ReserveRequest([name], [ALL], reached=True, queries=["q"], mechanisms=["m"]))
    key = name.encode()
    ledger.settle(
        held,
        Settlement(
            ALL, release_key=key, request_key=key, answer=b"a", mechanism="m", query="q", epoch="over"
        ),
    )
    assert ledger.epochs.prune(["another"]) >= 1
    jumping.ahead(hours=25)
    with pytest.raises(LimitTooLow):
        ledger.accounts.set_limit(name, limit("none", 49))


def test_the_same_length_and_shorter_ones_leave_the_period_as_it_is(jumping: Jumping) -> None:
    ledger = jumping.ledger
    name = seeded(ledger, "month")
    ledger.update_budget(name, ALL)
    for period in ("month", "week", "day"):
        ledger.accounts.set_limit(name, limit(period))
        assert ledger.accounts.left(name).information == 0


def test_the_audit_finds_a_limit_without_a_period_that_was_passed(jumping: Jumping) -> None:
    """As versions before let it be passed: the balance of the last period alone was looked at."""
    ledger = jumping.ledger
    name = seeded(ledger, "none")
    ledger.update_budget(name, ALL)
    with ledger.history.trail() as trail:
        assert first_excess(trail.entries, {name: trail.limits[name]}) is None
    jumping.ahead(hours=25)
    ledger.accounts.set_limit(name, limit("day"))
    ledger.update_budget(name, ALL)
    jumping.ahead(hours=50)
    ledger.update_budget(name, ALL)
    with ledger.history.trail() as trail:
        assert first_excess(trail.entries, {name: trail.limits[name]}) is None, "a day's limit, on each day"
        had = trail.limits[name]
    last = max(entry.time for entry in ledger.history.entries(name))
    back = [*had, LimitRow(last, limit("none"), False)]
    with ledger.history.trail() as trail:
        found = first_excess(trail.entries, {name: back})
    assert found is not None
    assert (found.account, found.entry) == (name, None)
    assert "without a period" in found.what
