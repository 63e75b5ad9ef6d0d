"""Periods: they run from the first query, refresh lazily, and a clock that goes backwards gives nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from budget.account import Charge, Exhausted, Limit, ReserveRequest, Settlement
from budget.ledger import Ledger

pytestmark = pytest.mark.service

Account = Callable[..., str]
Age = Callable[[str, float], None]
Sql = Callable[..., list[tuple[Any, ...]]]
HOURS = {"day": 24, "week": 7 * 24, "month": 30 * 24}
ALL = Charge(100_000_000, 0)


def spend(ledger: Ledger, name: str) -> None:
    ledger.update_budget(name, ALL)


@pytest.mark.parametrize(("period", "hours"), HOURS.items())
def test_a_period_ends_so_long_after_its_first_query(
    ledger: Ledger, account: Account, age: Age, period: str, hours: int
) -> None:
    alice = account(100, 0, period=period)
    assert ledger.accounts.budget(alice)[0].refreshes_at is None
    spend(ledger, alice)
    age(alice, hours - 0.01)
    with pytest.raises(Exhausted):
        spend(ledger, alice)
    assert ledger.accounts.left(alice) == Charge(0, 0)
    age(alice, 0.02)
    row: Any = ledger.accounts.budget(alice)[0]
    assert (row.used, row.refreshes_at) == (0, None)
    spend(ledger, alice)
    with pytest.raises(Exhausted):
        spend(ledger, alice)


def test_a_period_starts_with_a_query_not_with_the_calendar(
    ledger: Ledger, account: Account, age: Age
) -> None:
    alice = account(100, 0, period="day")
    age(alice, 1000)
    spend(ledger, alice)
    age(alice, 23)
    with pytest.raises(Exhausted) as refused:
        spend(ledger, alice)
    assert refused.value.refreshes_at is not None
    age(alice, 5000)
    spend(ledger, alice)
    age(alice, 23)
    with pytest.raises(Exhausted):
        spend(ledger, alice)


def test_without_a_period_nothing_ever_comes_back(ledger: Ledger, account: Account, age: Age) -> None:
    alice = account(100, 0, period="none")
    spend(ledger, alice)
    age(alice, 10**5)
    with pytest.raises(Exhausted) as refused:
        spend(ledger, alice)
    assert refused.value.refreshes_at is None


def test_a_clock_set_back_refreshes_nothing(ledger: Ledger, account: Account, age: Age) -> None:
    """The account has seen a time 30 days ahead of the clock; its clock stands still until that time."""
    alice = account(100, 0, period="month")
    spend(ledger, alice)
    age(alice, -30 * 24)
    with pytest.raises(Exhausted):
        spend(ledger, alice)
    age(alice, 59 * 24)
    with pytest.raises(Exhausted):
        spend(ledger, alice)
    age(alice, 1.1 * 24)
    spend(ledger, alice)


def test_a_period_begun_while_the_clock_is_behind_is_not_over_when_it_is_set_right(
    ledger: Ledger, account: Account, age: Age
) -> None:
    alice = account(100, 0, period="month")
    age(alice, -30 * 24)
    spend(ledger, alice)
    age(alice, 30 * 24)
    with pytest.raises(Exhausted):
        spend(ledger, alice)


def test_entries_of_an_account_never_go_back_in_time(
    ledger: Ledger, account: Account, age: Age, sql: Sql
) -> None:
    alice = account(100, 0)
    ledger.update_budget(alice, Charge(1, 0))
    age(alice, -10)
    ledger.update_budget(alice, Charge(1, 0))
    (held,) = ledger.reserve(
        ReserveRequest([alice], [Charge(1, 0)], reached=True, queries=[""], mechanisms=["m"])
    )
    ledger.spend(held)
    times = sql(
        "SELECT written_at FROM dpproxy_ledger.entry WHERE account = %s ORDER BY number OFFSET 2", alice
    )
    assert times == sorted(times)
    assert len(times) == 4


def test_what_is_held_moves_into_the_new_period(ledger: Ledger, account: Account, age: Age) -> None:
    """Its answer comes out in the new period, so that is where it counts."""
    alice = account(100, 0, period="day")
    (held,) = ledger.reserve(
        ReserveRequest([alice], [Charge(60_000_000, 0)], reached=True, queries=[""], mechanisms=["m"])
    )
    age(alice, 25)
    with pytest.raises(Exhausted):
        spend(ledger, alice)
    ledger.update_budget(alice, Charge(40_000_000, 0))
    ledger.spend(held)
    row: Any = ledger.accounts.budget(alice)[0]
    assert (row.used, row.reserved, row.left) == (100, 0, 0)


def test_an_answer_stays_free_when_the_period_is_over(ledger: Ledger, account: Account, age: Age) -> None:
    alice = account(100, 0, period="day")
    (held,) = ledger.reserve(ReserveRequest([alice], [ALL], reached=True, queries=["q"], mechanisms=["m"]))
    key = held.id.bytes
    ledger.settle(
        held,
        Settlement(
            ALL, release_key=key, request_key=key, answer=b"a", mechanism="m", query="q", epoch="forever"
        ),
    )
    age(alice, 100)
    assert ledger.replay(alice, key) == b"a"
    spend(ledger, alice)
    assert ledger.replay(alice, key) == b"a"


def test_each_account_of_a_chain_has_its_own_period(ledger: Ledger, account: Account, age: Age) -> None:
    alice, team = account(100, 0, period="day"), account(100, 0, kind="team", period="week")

    def ask() -> None:
        (held,) = ledger.reserve(
            ReserveRequest([alice, team], [ALL], reached=True, queries=[""], mechanisms=["m"])
        )
        ledger.spend(held)

    ask()
    age(alice, 25)
    age(team, 25)
    with pytest.raises(Exhausted) as refused:
        ask()
    assert refused.value.left is None
    age(team, 7 * 24)
    ask()


def test_a_limit_may_be_set_after_a_period_that_is_over(ledger: Ledger, account: Account, age: Age) -> None:
    alice = account(100, 0, period="day")
    spend(ledger, alice)
    age(alice, 25)
    ledger.accounts.set_limit(alice, Limit(10_000_000, 0, "day"))
    assert ledger.accounts.left(alice) == Charge(10_000_000, 0)
    ledger.update_budget(alice, Charge(10_000_000, 0))
    assert ledger.accounts.budget(alice)[0].refreshes_at is not None
