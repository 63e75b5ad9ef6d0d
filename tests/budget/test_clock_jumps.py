"""The server's clock jumps an hour, a day or a year, forth and back: that gives nothing that time would not give."""

from __future__ import annotations

import itertools
from datetime import timedelta
from random import Random

import pytest

from budget.account import (
    AlreadyResolved,
    Charge,
    Exhausted,
    Limit,
    Period,
    Reservation,
    ReserveRequest,
    Settlement,
)
from budget.ledger import Ledger
from tests.budget.conftest import PINNED, Jumping

pytestmark = pytest.mark.service

UNIT = 10**6
ALL = Charge(100 * UNIT, UNIT)
JUMPS = {"hour": 1.0, "day": 24.0, "year": 365 * 24.0}
LENGTHS = {"day": 24.0, "week": 7 * 24.0, "month": 30 * 24.0}
_names = itertools.count()


def seeded(ledger: Ledger, period: Period) -> str:
    name = f"analyst:jumps {next(_names)}"
    ledger.accounts.seed(name, Limit(100 * UNIT, UNIT, period))
    return name


def spends(ledger: Ledger, name: str) -> bool:
    """Whether all of a limit can be spent just now; if so it is."""
    try:
        ledger.update_budget(name, ALL)
    except Exhausted:
        return False
    return True


def hold(ledger: Ledger, name: str, *, reached: bool = True) -> Reservation:
    return ledger.reserve(ReserveRequest([name], [ALL], reached=reached, queries=["q"], mechanisms=["m"]))[0]


def settle(ledger: Ledger, held: Reservation) -> bytes:
    key = held.id.bytes
    return ledger.settle(
        held,
        Settlement(
            ALL, release_key=key, request_key=key, answer=b"rows", mechanism="m", query="q", epoch="e"
        ),
    ).answer


@pytest.mark.parametrize("jump", JUMPS)
@pytest.mark.parametrize("period", ["day", "month", "none"])
def test_a_jump_back_refreshes_nothing_and_its_end_neither(
    jumping: Jumping, period: Period, jump: str
) -> None:
    ledger = jumping.ledger
    name = seeded(ledger, period)
    assert spends(ledger, name)
    for behind in (-JUMPS[jump], 0.0, -JUMPS[jump], 0.0):
        jumping.ahead(hours=behind)
        assert not spends(ledger, name)


@pytest.mark.parametrize("jump", JUMPS)
def test_a_jump_forth_ends_a_period_once_and_the_clock_has_to_catch_up(jumping: Jumping, jump: str) -> None:
    """What a clock says is all that a ledger knows of time; what it has seen stays seen when it is set right."""
    ledger, ahead = jumping.ledger, JUMPS[jump] + 0.01
    name = seeded(ledger, "day")
    assert spends(ledger, name)
    jumping.ahead(hours=ahead)
    refreshed = spends(ledger, name)
    assert refreshed == (ahead > LENGTHS["day"])
    for hours in (0.0, ahead, -ahead, ahead, ahead / 2, ahead):
        jumping.ahead(hours=hours)
        assert not spends(ledger, name), "one period's budget for all jumps to the same time"
    jumping.ahead(hours=(ahead if refreshed else 0.0) + LENGTHS["day"] + 0.01)
    assert spends(ledger, name)


@pytest.mark.parametrize("period", LENGTHS)
def test_no_walk_of_the_clock_gives_more_than_its_furthest_time(jumping: Jumping, period: Period) -> None:
    ledger, chance = jumping.ledger, Random(18)
    name = seeded(ledger, period)
    ahead, clock, spent, first = 0.0, 0.0, 0, 0.0
    for _ in range(40):
        ahead += chance.choice((-1, 1)) * chance.choice((1.0, 24.0, 24.0, 168.0, 720.0))
        clock = max(clock, ahead)
        jumping.ahead(hours=ahead)
        if spends(ledger, name):
            first, spent = first if spent else clock, spent + 1
        assert spent <= 1 + (clock + 0.1 - first) // LENGTHS[period]
    assert spent > 1


@pytest.mark.parametrize("hours", [*JUMPS.values(), *(-hours for hours in JUMPS.values())])
def test_what_was_reserved_before_a_jump_is_charged_after_it(jumping: Jumping, hours: float) -> None:
    ledger = jumping.ledger
    name = seeded(ledger, "day")
    held = hold(ledger, name)
    jumping.ahead(hours=hours)
    assert settle(ledger, held) == b"rows"
    found = ledger.outcome(held.id)
    assert found is not None
    assert (found.state, found.charged) == ("settle", ALL)
    jumping.ahead()
    if hours < LENGTHS["day"]:
        assert not spends(ledger, name)


def test_what_a_new_period_finds_held_is_spent_before_it_and_comes_out_no_more(jumping: Jumping) -> None:
    """Its lease is over, too: whoever wants the budget ends it."""
    ledger = jumping.ledger
    name = seeded(ledger, "day")
    held = hold(ledger, name)
    jumping.ahead(hours=25)
    assert spends(ledger, name)
    assert not spends(ledger, name)
    with pytest.raises(AlreadyResolved):
        settle(ledger, held)


def test_a_jump_beyond_the_lease_ends_what_runs_and_nothing_of_it_leaves(jumping: Jumping) -> None:
    """Recovery takes what is held for left behind: what had reached the backend is spent, the rest given back."""
    jumping.ledger.recover()
    ledger = Ledger.open(jumping.conninfo, PINNED, instance="runs", lease=timedelta(hours=1))
    one, two = seeded(ledger, "none"), seeded(ledger, "none")
    reached, not_yet = hold(ledger, one), hold(ledger, two, reached=False)
    jumping.ahead(hours=24)
    assert jumping.ledger.recover() == 2
    with pytest.raises(AlreadyResolved):
        settle(ledger, reached)
    with pytest.raises(AlreadyResolved):
        ledger.reach(not_yet)
    assert (ledger.accounts.get(one).used, ledger.accounts.get(two).used) == (ALL, Charge(0, 0))
    ledger.close()
