"""Generations: what was planned under another policy is not bought, and limits change all together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from budget.account import Charge, Generation, Limit, LimitTooLow, PolicyChanged, Reservation, ReserveRequest
from budget.ledger import Ledger
from budget.units import MICRO

pytestmark = pytest.mark.service

ONE = Charge(MICRO, 0)


def reserved(ledger: Ledger, account: str, generation: Generation | None) -> Reservation:
    request = ReserveRequest(
        [account], [ONE], reached=True, queries=["q"], mechanisms=["m"], generation=generation
    )
    return ledger.reserve(request)[0]


def test_neither_policy_buys_while_there_are_two(ledger: Ledger) -> None:
    ledger.accounts.seed("analyst:ann", Limit(9 * MICRO, 0, "none"))
    assert ledger.generations.bought_under("here") is None
    old = ledger.generations.begin("here")
    other = ledger.generations.begin("elsewhere")
    held = reserved(ledger, "analyst:ann", old)
    new = replace(old, number=old.number + 1)
    ledger.generations.suspend(new)
    assert ledger.generations.bought_under("here") is None
    for generation in (old, new):
        with pytest.raises(PolicyChanged):
            reserved(ledger, "analyst:ann", generation)
    reserved(ledger, "analyst:ann", other)
    ledger.spend(held)
    ledger.generations.resume(new)
    reserved(ledger, "analyst:ann", new)
    with pytest.raises(PolicyChanged):
        reserved(ledger, "analyst:ann", old)
    assert ledger.generations.begin("here").number > new.number
    with pytest.raises(PolicyChanged):
        reserved(ledger, "analyst:ann", new)
    row = ledger.accounts.get("analyst:ann")
    assert (row.used.information, row.reserved.information) == (MICRO, 2 * MICRO)


def test_a_change_that_fails_leaves_the_old_policy(ledger: Ledger) -> None:
    ledger.accounts.seed("analyst:bob", Limit(9 * MICRO, 0, "none"))
    old = ledger.generations.begin("failing")
    ledger.generations.suspend(replace(old, number=old.number + 1))
    ledger.generations.resume(old)
    reserved(ledger, "analyst:bob", old)


def test_limits_change_together_or_not_at_all(ledger: Ledger) -> None:
    before = Limit(9 * MICRO, 0, "none")
    for account in ("analyst:cem", "analyst:dan"):
        ledger.accounts.seed(account, before)
    reserved(ledger, "analyst:dan", None)
    wanted = Limit(20 * MICRO, MICRO, "day")
    with pytest.raises(LimitTooLow, match="analyst:dan"):
        ledger.accounts.set_limits({"analyst:cem": wanted, "analyst:dan": Limit(0, 0, "none")})
    assert ledger.accounts.limit("analyst:cem") == ledger.accounts.limit("analyst:dan") == before
    ledger.accounts.set_limits({"analyst:cem": wanted, "analyst:dan": wanted})
    assert ledger.accounts.limit("analyst:cem") == ledger.accounts.limit("analyst:dan") == wanted
