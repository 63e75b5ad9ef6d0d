"""Streams in the ledger: paid once in a period by each account, continued look by look, and never two ways."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from budget.account import (
    AboveReservation,
    Charge,
    ContinualStep,
    Overtaken,
    Reservation,
    ReserveRequest,
    Settled,
    Settlement,
)
from budget.ledger import Ledger

pytestmark = pytest.mark.service

UNIT = 10**6
PRICE = Charge(UNIT, UNIT)
FREE = Charge(0, 0)
Sql = Callable[..., list[tuple[object, ...]]]
_numbers = itertools.count()


def key() -> bytes:
    return b"stream test %d" % next(_numbers)


def hold(ledger: Ledger, *chain: str, charge: Charge = PRICE) -> Reservation:
    return ledger.reserve(
        ReserveRequest(chain, [charge], reached=True, queries=["q"], mechanisms=["m"], looking=charge == FREE)
    )[0]


def look(ledger: Ledger, held: Reservation, stream: bytes, after: int, release_key: bytes) -> Settled:
    return ledger.settle(
        held,
        Settlement(
            PRICE,
            release_key=release_key,
            request_key=release_key,
            answer=b"rows of " + release_key,
            mechanism="m",
            query="q",
            epoch="2026-01-01",
            look=ContinualStep(stream, after),
        ),
    )


def test_a_stream_is_paid_once_and_continued(ledger: Ledger, account: Callable[..., str]) -> None:
    own, stream, first, second = account(), key(), key(), key()
    assert not ledger.stream([own], stream).paid
    settled = look(ledger, hold(ledger, own), stream, 0, first)
    assert settled.charged == PRICE
    known = ledger.stream([own], stream)
    assert (known.paid, known.looks, known.answer) == (True, 1, b"rows of " + first)
    again = look(ledger, hold(ledger, own, charge=FREE), stream, 1, second)
    assert (again.charged, again.answer) == (FREE, b"rows of " + second)
    assert ledger.stream([own], stream).looks == 2
    assert ledger.accounts.get(own).used == PRICE
    assert ledger.history.verify() is None


def test_another_account_pays_once_too(ledger: Ledger, account: Callable[..., str]) -> None:
    one, other, stream, first = account(), account(), key(), key()
    look(ledger, hold(ledger, one), stream, 0, first)
    assert not ledger.stream([other], stream).paid
    taken = look(ledger, hold(ledger, other), stream, 1, first)
    assert (taken.charged, taken.stored_before, taken.answer) == (PRICE, True, b"rows of " + first)
    assert ledger.stream([other], stream) == ledger.stream([one], stream)
    assert ledger.stream([other], stream).looks == 1, "what was stored before is no further look"


def test_who_has_not_paid_cannot_look_for_nothing(ledger: Ledger, account: Callable[..., str]) -> None:
    one, other, shared, stream, first = account(), account(), account(kind="team"), key(), key()
    look(ledger, hold(ledger, one), stream, 0, first)
    for chain in ([other], [one, shared]):
        held = hold(ledger, *chain, charge=FREE)
        with pytest.raises(AboveReservation):
            look(ledger, held, stream, 1, key())
        ledger.spend(held)
    assert ledger.stream([one], stream).looks == 1


def test_shared_accounts_pay_once_as_well(ledger: Ledger, account: Callable[..., str]) -> None:
    own, shared, stream = account(), account(kind="team"), key()
    look(ledger, hold(ledger, own, shared), stream, 0, key())
    assert ledger.stream([own, shared], stream).paid
    look(ledger, hold(ledger, own, shared, charge=FREE), stream, 1, key())
    assert ledger.accounts.get(own).used == ledger.accounts.get(shared).used == PRICE
    assert ledger.history.verify() is None


def test_a_shared_account_pays_once_for_a_stream(ledger: Ledger, account: Callable[..., str]) -> None:
    """Whoever of its members looks, and at what: each pays as if alone, and reserves the price everywhere."""
    ann, bob, eve, team, stream, first = account(), account(), account(), account(kind="team"), key(), key()
    look(ledger, hold(ledger, ann, team), stream, 0, first)
    same = look(ledger, hold(ledger, bob, team), stream, 1, first)
    assert (same.charged, same.stored_before, same.answer) == (PRICE, True, b"rows of " + first)
    assert not ledger.stream([eve, team], stream).paid
    held = hold(ledger, eve, team)
    assert ledger.accounts.get(team).reserved == PRICE
    further = look(ledger, held, stream, 1, key())
    assert (further.charged, further.stored_before) == (PRICE, False)
    assert [ledger.accounts.get(name).used for name in (ann, bob, eve, team)] == [PRICE] * 4
    ledger.spend(hold(ledger, bob, team))
    assert ledger.accounts.get(team).used == Charge(2 * UNIT, 2 * UNIT), "a failure is charged"
    assert ledger.history.verify() is None


def test_in_another_period_a_shared_account_pays_again(
    ledger: Ledger, account: Callable[..., str], sql: Sql
) -> None:
    team, stream = account(kind="team"), key()
    look(ledger, hold(ledger, account(), team), stream, 0, key())
    sql("UPDATE dpproxy_ledger.account SET period_number = period_number + 1 WHERE name = %s", team)
    look(ledger, hold(ledger, account(), team), stream, 1, key())
    assert ledger.accounts.get(team).used == Charge(2 * UNIT, 2 * UNIT)


def test_a_look_that_nobody_paid_for_is_found(ledger: Ledger, account: Callable[..., str], sql: Sql) -> None:
    """A shared account's look costs nothing only after one at the same stream that it was charged for."""
    team, stream, second = account(kind="team"), key(), key()
    look(ledger, hold(ledger, account(), team), stream, 0, key())
    look(ledger, hold(ledger, account(), team), stream, 1, second)
    assert ledger.history.verify() is None
    sql("UPDATE dpproxy_ledger.look SET stream = 'another' WHERE release_key = %s", second)
    found = ledger.history.verify()
    sql("UPDATE dpproxy_ledger.look SET stream = %s WHERE release_key = %s", stream, second)
    assert found is not None
    assert (found.account, "not paid for before" in found.what) == (team, True)


def test_of_two_looks_that_follow_the_same_one_is_thrown_away(
    ledger: Ledger, account: Callable[..., str]
) -> None:
    own, stream = account(), key()
    one, other = hold(ledger, own), hold(ledger, own)
    look(ledger, one, stream, 0, key())
    with pytest.raises(Overtaken):
        look(ledger, other, stream, 0, key())
    ledger.spend(other)
    assert ledger.stream([own], stream).looks == 1


def test_a_new_period_is_paid_anew(ledger: Ledger, account: Callable[..., str], sql: Sql) -> None:
    """What comes out in a period is within the period's limit."""
    own, stream = account(period="day"), key()
    look(ledger, hold(ledger, own), stream, 0, key())
    sql(
        "UPDATE dpproxy_ledger.account SET period_started = period_started - interval '25 hours' WHERE name = %s",
        own,
    )
    assert not ledger.stream([own], stream).paid
    assert look(ledger, hold(ledger, own), stream, 1, key()).charged == PRICE
    assert ledger.stream([own], stream).paid


def test_pruning_keeps_the_last_look(ledger: Ledger, account: Callable[..., str]) -> None:
    own, stream, first, second = account(), key(), key(), key()
    look(ledger, hold(ledger, own), stream, 0, first)
    look(ledger, hold(ledger, own, charge=FREE), stream, 1, second)
    ledger.epochs.prune(["2026-01-02"])
    assert ledger.stored(first) is None
    assert ledger.stream([own], stream).answer == b"rows of " + second


def test_only_a_look_may_cost_nothing(ledger: Ledger, account: Callable[..., str]) -> None:
    with pytest.raises(ValueError, match="costs something"):
        ledger.reserve(ReserveRequest([account()], [FREE], reached=True, queries=["q"], mechanisms=["m"]))
