"""Conformance of the ledger: what each call does to balances, history and answers, and what it refuses."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from budget.account import (
    AboveReservation,
    AlreadyReached,
    AlreadyResolved,
    Charge,
    Exhausted,
    LedgerError,
    Limit,
    LimitTooLow,
    NotReached,
    ReplayNote,
    Reservation,
    ReserveRequest,
    Settled,
    Settlement,
    UnknownAccount,
)
from budget.ledger import Ledger

pytestmark = pytest.mark.service

Account = Callable[..., str]
Sql = Callable[..., list[tuple[Any, ...]]]
UNIT = 10**6


def charge(information: int, calls: int = 0) -> Charge:
    return Charge(information * UNIT, calls * UNIT)


def hold(ledger: Ledger, chain: Sequence[str], most: Charge, reached: bool = True) -> Reservation:
    (held,) = ledger.reserve(
        ReserveRequest(chain, [most], reached=reached, queries=["SELECT q"], mechanisms=["UnkGumb"])
    )
    return held


def settle(
    ledger: Ledger, held: Reservation, actual: Charge, release: bytes | None = None, answer: bytes = b"rows"
) -> Settled:
    key = held.id.bytes if release is None else release
    return ledger.settle(
        held,
        Settlement(
            actual,
            release_key=key,
            request_key=b"ask " + key,
            answer=answer,
            mechanism="UnkGumb",
            query="SELECT q",
            epoch="2026-01-01",
        ),
    )


def amounts(ledger: Ledger, name: str) -> list[Any]:
    """(used, reserved, left) in units, of information and of calls."""
    return [(row.used, row.reserved, row.left) for row in ledger.accounts.budget(name)]


def test_a_query_pays_what_came_out(ledger: Ledger, account: Account) -> None:
    alice = account(100, 10)
    held = hold(ledger, [alice], charge(21, 1))
    assert amounts(ledger, alice) == [(0, 21, 79), (0, 1, 9)]
    done = settle(ledger, held, charge(7, 1))
    assert done == Settled(b"rows", charge(7, 1), charge(93, 9), False)
    assert amounts(ledger, alice) == [(7, 0, 93), (1, 0, 9)]


def test_given_back_or_spent_whole(ledger: Ledger, account: Account) -> None:
    alice = account(100, 10)
    ledger.release(hold(ledger, [alice], charge(21, 1), reached=False))
    assert amounts(ledger, alice) == [(0, 0, 100), (0, 0, 10)]
    ledger.spend(hold(ledger, [alice], charge(21, 1)))
    assert amounts(ledger, alice) == [(21, 0, 79), (1, 0, 9)]


@pytest.mark.parametrize(("information", "calls"), [(101, 0), (1, 11)])
def test_either_unit_refuses_with_numbers(
    ledger: Ledger, account: Account, information: int, calls: int
) -> None:
    alice = account(100, 10)
    ledger.update_budget(alice, charge(1))
    ledger.update_budget(alice, charge(1))
    with pytest.raises(Exhausted) as refused:
        hold(ledger, [alice], charge(information, calls))
    assert refused.value.needed == charge(information, calls)
    assert refused.value.left == charge(98, 10)
    assert refused.value.refreshes_at is not None
    away = refused.value.refreshes_at - datetime.now(UTC)
    assert timedelta(days=29.9) < away < timedelta(days=30.1)
    assert amounts(ledger, alice)[0] == (2, 0, 98)


def test_to_the_last_micro_unit(ledger: Ledger, account: Account) -> None:
    alice = account(1, 0)
    ledger.update_budget(alice, Charge(UNIT - 1, 0))
    with pytest.raises(Exhausted):
        hold(ledger, [alice], Charge(2, 0))
    ledger.update_budget(alice, Charge(1, 0))
    assert ledger.accounts.left(alice) == Charge(0, 0)


def test_several_releases_of_one_query_stand_or_fall_together(ledger: Ledger, account: Account) -> None:
    alice = account(100, 10)
    with pytest.raises(Exhausted) as refused:
        ledger.reserve(
            ReserveRequest(
                [alice], [charge(60), charge(60)], reached=True, queries=["q"] * 2, mechanisms=["a", "b"]
            )
        )
    assert refused.value.needed == charge(120)
    one, two = ledger.reserve(
        ReserveRequest(
            [alice], [charge(60, 1), charge(40)], reached=True, queries=["q"] * 2, mechanisms=["a", "b"]
        )
    )
    assert (one.at_most, two.at_most) == (charge(60, 1), charge(40))
    settle(ledger, one, charge(5))
    assert amounts(ledger, alice)[0] == (5, 40, 55)
    ledger.spend(two)
    assert [row.mechanism for row in ledger.history.releases(alice)] == ["a", "b"]


def test_a_chain_pays_whole_or_nothing_and_shared_accounts_pay_the_most(
    ledger: Ledger, account: Account
) -> None:
    alice, bob, team = account(100, 10), account(100, 10), account(50, 10, kind="team")
    settle(ledger, hold(ledger, [alice, team], charge(30, 1)), charge(3, 1))
    assert amounts(ledger, alice)[0] == (3, 0, 97)
    assert amounts(ledger, team)[0] == (30, 0, 20)
    with pytest.raises(Exhausted) as refused:
        hold(ledger, [bob, team], charge(30, 1))
    assert (refused.value.left, refused.value.refreshes_at) == (None, None)
    assert "20" not in str(refused.value)
    assert amounts(ledger, bob)[0] == (0, 0, 100)
    ledger.release(hold(ledger, [bob, team], charge(20, 1), reached=False))
    assert amounts(ledger, team)[0] == (30, 0, 20)


def test_own_numbers_are_told_even_where_a_shared_account_refuses_too(
    ledger: Ledger, account: Account
) -> None:
    alice, cap = account(10), account(5, kind="dataset")
    with pytest.raises(Exhausted) as refused:
        hold(ledger, [alice, cap], charge(11))
    assert refused.value.left == charge(10, 10)


def test_a_shared_account_pays_once_for_one_answer(ledger: Ledger, account: Account, sql: Sql) -> None:
    """Whoever of its members asks; a member pays as if alone, and has to be able to reserve all the same."""
    alice, bob, eve = account(100), account(100), account(100)
    team, cap = account(100, kind="team"), account(50, kind="dataset")
    release = alice.encode()
    settle(ledger, hold(ledger, [alice, team, cap], charge(10)), charge(8), release)
    again = settle(ledger, hold(ledger, [bob, team, cap], charge(10)), charge(8), release, b"others")
    assert (again.answer, again.charged, again.stored_before) == (b"rows", charge(8), True)
    assert [amounts(ledger, name)[0] for name in (alice, bob)] == [(8, 0, 92)] * 2
    assert [amounts(ledger, name)[0][:2] for name in (team, cap)] == [(10, 0)] * 2
    settle(ledger, hold(ledger, [eve, cap], charge(10)), charge(8), release)
    assert amounts(ledger, cap)[0] == (10, 0, 40)
    other = eve.encode()
    settle(ledger, hold(ledger, [eve, cap], charge(10)), charge(8), other)
    settle(ledger, hold(ledger, [bob, team, cap], charge(10)), charge(8), other)
    assert (amounts(ledger, team)[0][0], amounts(ledger, cap)[0][0]) == (20, 20), (
        "the team had not paid for it"
    )
    ledger.spend(hold(ledger, [bob, team, cap], charge(10)))
    assert (amounts(ledger, team)[0][0], amounts(ledger, cap)[0][0]) == (30, 30), "a failure is charged"
    with pytest.raises(Exhausted):
        hold(ledger, [alice, cap], charge(21))
    assert ledger.history.verify() is None
    charged = "WHERE account = %s AND stage = 1 AND kind = 'settle' AND NOT replayed"
    sql(
        f"UPDATE dpproxy_ledger.entry SET release_key = 'of another' {charged} AND release_key = %s",
        cap,
        other,
    )
    wrong = ledger.history.verify()
    assert wrong is not None
    assert (wrong.account, wrong.what.partition(" for an")[0]) == (cap, "nothing charged")
    sql(
        f"UPDATE dpproxy_ledger.entry SET release_key = %s {charged} AND release_key = 'of another'",
        other,
        cap,
    )
    assert ledger.history.verify() is None
    sql("UPDATE dpproxy_ledger.account SET period_number = period_number + 1 WHERE name = %s", cap)
    settle(ledger, hold(ledger, [alice, cap], charge(10)), charge(8), other)
    assert amounts(ledger, cap)[0][0] == 40, "in another period it counts again"


def test_tracked_accounts_count_and_refuse_nothing(ledger: Ledger, account: Account) -> None:
    alice = account(10, 1, mode="track")
    settle(ledger, hold(ledger, [alice], charge(25, 2)), charge(20, 2))
    assert amounts(ledger, alice) == [(20, 0, 0), (2, 0, 0)]
    assert ledger.check_budget(alice, charge(1000))
    with pytest.raises(LimitTooLow):
        ledger.accounts.set_limit(alice, Limit(10 * UNIT, UNIT, "month", "enforce"))
    ledger.accounts.set_limit(alice, Limit(20 * UNIT, 2 * UNIT, "month", "enforce"))


def test_a_seed_is_for_the_first_use_and_a_change_wins(ledger: Ledger, account: Account, sql: Sql) -> None:
    alice = account(100, 10)
    ledger.accounts._seeded.clear()
    ledger.accounts.seed(alice, Limit(5, 5, "day"))
    assert ledger.accounts.limit(alice) == Limit(100 * UNIT, 10 * UNIT, "month")
    ledger.update_budget(alice, charge(40))
    held = hold(ledger, [alice], charge(10))
    with pytest.raises(LimitTooLow):
        ledger.accounts.set_limit(alice, Limit(50 * UNIT - 1, 10 * UNIT, "month"))
    ledger.accounts.set_limit(alice, Limit(50 * UNIT, 10 * UNIT, "week"))
    ledger.accounts._seeded.clear()
    ledger.accounts.seed(alice, Limit(500 * UNIT, 10 * UNIT, "month"))
    assert ledger.accounts.limit(alice) == Limit(50 * UNIT, 10 * UNIT, "week")
    ledger.spend(held)
    history = (
        "SELECT limit_information, period FROM dpproxy_ledger.limit_change WHERE account = %s ORDER BY number"
    )
    assert sql(history, alice) == [(100 * UNIT, "month"), (50 * UNIT, "week")]


RESOLUTIONS: dict[str, Callable[[Ledger, Reservation], object]] = {
    "settle": lambda ledger, held: settle(ledger, held, charge(1)),
    "spend": lambda ledger, held: ledger.spend(held),
    "release": lambda ledger, held: ledger.release(held),
}


@pytest.mark.parametrize("second", RESOLUTIONS)
@pytest.mark.parametrize("first", RESOLUTIONS)
def test_resolved_once(ledger: Ledger, account: Account, first: str, second: str) -> None:
    alice = account()
    held = hold(ledger, [alice], charge(10), reached=first != "release")
    RESOLUTIONS[first](ledger, held)
    before = amounts(ledger, alice)
    with pytest.raises((AlreadyResolved, NotReached) if first == "release" else AlreadyResolved):
        RESOLUTIONS[second](ledger, held)
    assert amounts(ledger, alice) == before


def test_what_reached_the_backend_is_not_given_back(ledger: Ledger, account: Account) -> None:
    alice = account()
    held = hold(ledger, [alice], charge(10), reached=False)
    ledger.reach(held)
    ledger.reach(held)
    with pytest.raises(AlreadyReached):
        ledger.release(held)
    ledger.spend(held)
    assert amounts(ledger, alice)[0] == (10, 0, 90)


def test_what_was_given_back_cannot_reach_the_backend(ledger: Ledger, account: Account) -> None:
    held = hold(ledger, [account()], charge(10), reached=False)
    ledger.release(held)
    with pytest.raises(AlreadyResolved):
        ledger.reach(held)


def test_a_new_answer_needs_a_backend_that_was_reached(ledger: Ledger, account: Account) -> None:
    alice = account()
    held = hold(ledger, [alice], charge(10), reached=False)
    with pytest.raises(NotReached):
        settle(ledger, held, charge(1))
    assert ledger.stored(held.id.bytes) is None
    ledger.reach(held)
    settle(ledger, held, charge(1))


def test_settling_above_the_reservation_is_impossible(ledger: Ledger, account: Account) -> None:
    alice = account()
    held = hold(ledger, [alice], charge(10, 1))
    for above in (Charge(10 * UNIT + 1, 0), Charge(0, UNIT + 1)):
        with pytest.raises(AboveReservation):
            settle(ledger, held, above)
        forged = Reservation(held.id, held.account, charge(100, 10))
        with pytest.raises(AboveReservation):
            settle(ledger, forged, above)
    assert amounts(ledger, alice)[0] == (0, 10, 90)
    assert ledger.stored(held.id.bytes) is None
    ledger.spend(held)


def test_an_answer_paid_for_is_free_even_when_exhausted(ledger: Ledger, account: Account) -> None:
    alice, bob = account(10, 1), account()
    held = hold(ledger, [alice], charge(10, 1))
    settle(ledger, held, charge(10, 1), answer=b"answer")
    asked = b"ask " + held.id.bytes
    assert ledger.accounts.left(alice) == charge(0)
    assert ledger.replay(alice, asked) == b"answer"
    assert ledger.replay(bob, asked) is None
    assert ledger.replay(alice, b"something else") is None
    assert amounts(ledger, alice)[0] == (10, 0, 0)
    rows: Any = ledger.history.releases(alice)
    assert [(row.information, row.replayed) for row in rows] == [(10, False), (0, True)]


def test_answers_that_were_shown_again_are_noted_in_their_order(ledger: Ledger, account: Account) -> None:
    alice, bob = account(10), account(10)
    asked = {}
    for name in (alice, bob):
        held = hold(ledger, [name], charge(3))
        settle(ledger, held, charge(3))
        asked[name] = b"ask " + held.id.bytes
    notes = [ReplayNote(alice, asked[alice], "first"), ReplayNote(bob, asked[bob])]
    assert ledger.note_replays([*notes, ReplayNote(alice, asked[alice], "second")])
    noted = [e for e in ledger.history.entries() if e.kind == "replay" and e.account in (alice, bob)]
    assert [e.account for e in noted] == [alice, bob, alice]
    assert {e.charged for e in noted} == {charge(0)}
    rows: Any = ledger.history.releases(alice)
    assert [row.attributed for row in rows[1:]] == ["first", "second"]
    assert not ledger.note_replays([ReplayNote(bob, asked[alice]), ReplayNote(bob, asked[bob])])
    rows = ledger.history.releases(bob)
    assert [(row.information, row.replayed) for row in rows] == [(3, False), (0, True), (0, True)]
    assert [amounts(ledger, name)[0] for name in (alice, bob)] == [(3, 0, 7)] * 2
    assert ledger.history.verify() is None


def test_the_same_request_finds_what_was_paid_with_a_smaller_k(ledger: Ledger, account: Account) -> None:
    """The request key leaves out what the account could pay; the release key has it."""
    alice = account(10, 1)
    held = hold(ledger, [alice], charge(10, 1))
    ledger.settle(
        held,
        Settlement(
            charge(9, 1),
            release_key=b"top 4 " + held.id.bytes,
            request_key=b"top 10 " + held.id.bytes,
            answer=b"four rows",
            mechanism="UnkGumb",
            query="q",
            epoch="e",
        ),
    )
    assert ledger.replay(alice, b"top 10 " + held.id.bytes) == b"four rows"


def test_a_replay_stays_what_it_was(ledger: Ledger, account: Account) -> None:
    alice = account()
    for number in range(3):
        held = hold(ledger, [alice], charge(3))
        ledger.settle(
            held,
            Settlement(
                charge(3),
                release_key=held.id.bytes,
                request_key=b"same " + alice.encode(),
                answer=b"answer %d" % number,
                mechanism="m",
                query="q",
                epoch="e",
            ),
        )
        assert ledger.replay(alice, b"same " + alice.encode()) == b"answer 0"


def test_another_account_pays_the_stored_cost_and_gets_the_same_answer(
    ledger: Ledger, account: Account
) -> None:
    alice, bob, team = account(100), account(100), account(1000, kind="team")
    first = hold(ledger, [alice], charge(21, 1))
    key = first.id.bytes
    assert ledger.stored(key) is None
    settle(ledger, first, charge(7, 1), answer=b"alice's")
    assert ledger.stored(key) == (b"alice's", charge(7, 1))
    second = hold(ledger, [bob, team], charge(21, 1), reached=False)
    done = settle(ledger, second, charge(7, 1), release=key, answer=b"alice's")
    assert done == Settled(b"alice's", charge(7, 1), charge(93, 9), True)
    assert amounts(ledger, team)[0] == (21, 0, 979)
    assert ledger.replay(bob, b"ask " + key) == b"alice's"
    assert [row.replayed for row in ledger.history.releases(bob)] == [True, True]


def test_who_loses_a_race_throws_its_answer_away(ledger: Ledger, account: Account) -> None:
    alice, bob = account(100), account(100)
    ours, again, theirs = (hold(ledger, [name], charge(21, 1)) for name in (alice, alice, bob))
    key = ours.id.bytes
    assert settle(ledger, ours, charge(7, 1), key, b"first").answer == b"first"
    late = settle(ledger, theirs, charge(9, 1), key, b"second")
    assert (late.answer, late.charged, late.stored_before) == (b"first", charge(7, 1), True)
    twice = settle(ledger, again, charge(9, 1), key, b"third")
    assert (twice.answer, twice.charged, twice.stored_before) == (b"first", charge(0), True)
    assert amounts(ledger, alice)[0] == (7, 0, 93)


def test_a_stored_answer_dearer_than_the_reservation_is_refused(ledger: Ledger, account: Account) -> None:
    alice, bob = account(), account()
    first = hold(ledger, [alice], charge(21, 1))
    settle(ledger, first, charge(20, 1))
    second = hold(ledger, [bob], charge(5, 1))
    with pytest.raises(AboveReservation):
        settle(ledger, second, charge(5, 1), first.id.bytes)
    ledger.spend(second)


def test_history_names_queries_mechanisms_and_costs(ledger: Ledger, account: Account) -> None:
    alice = account()
    settle(ledger, hold(ledger, [alice], charge(21, 1)), charge(7, 1))
    ledger.spend(hold(ledger, [alice], charge(2)))
    ledger.release(hold(ledger, [alice], charge(3), reached=False))
    rows: Any = ledger.history.releases(alice)
    assert [(row.query, row.mechanism, row.information, row.calls) for row in rows] == [
        ("SELECT q", "UnkGumb", 7, 1),
        ("SELECT q", "UnkGumb", 2, 0),
    ]
    assert all(abs(row.time - datetime.now(UTC)) < timedelta(minutes=1) for row in rows)


def test_only_the_own_account_sees_the_query(ledger: Ledger, account: Account, sql: Sql) -> None:
    alice, team = account(), account(kind="team")
    settle(ledger, hold(ledger, [alice, team], charge(21, 1)), charge(7, 1))
    assert ledger.history.releases(team) == ()
    assert sql("SELECT DISTINCT query FROM dpproxy_ledger.entry WHERE account = %s", team) == [(None,)]


def test_the_papers_three_calls(ledger: Ledger, account: Account) -> None:
    alice = account(10, 1)
    assert ledger.check_budget(alice, charge(10, 1))
    ledger.update_budget(alice, charge(4, 1))
    assert ledger.get_budget(alice) == charge(6, 0)
    assert not ledger.check_budget(alice, charge(7))
    with pytest.raises(Exhausted):
        ledger.update_budget(alice, charge(7))
    assert ledger.get_budget(alice) == charge(6, 0)


@pytest.mark.parametrize("amount", [-1, 2**60 + 1, 1.5, math.nan, True, "7", None])
def test_amounts_that_are_none(amount: Any) -> None:
    for make in (lambda: Charge(amount, 0), lambda: Charge(0, amount), lambda: Limit(amount, 0, "day")):
        with pytest.raises(ValueError, match="no amount"):
            make()


def test_calls_that_make_no_sense(ledger: Ledger, account: Account) -> None:
    alice = account()
    for chain, charges in (
        ([], [charge(1)]),
        ([alice, alice], [charge(1)]),
        ([alice], []),
        ([alice], [charge(1), charge(0)]),
        ([alice], [Charge(2**60, 0), Charge(1, 0)]),
    ):
        with pytest.raises(ValueError, match=r"chain|charges|costs|amount"):
            ledger.reserve(
                ReserveRequest(
                    chain, charges, reached=True, queries=[""] * len(charges), mechanisms=["m"] * len(charges)
                )
            )
    with pytest.raises(ValueError, match="no period"):
        Limit(1, 1, "year")  # type: ignore[arg-type]
    assert amounts(ledger, alice)[0] == (0, 0, 100)


def test_strangers(ledger: Ledger, account: Account) -> None:
    alice = account()
    for call in (
        lambda: hold(ledger, ["analyst:nobody"], charge(1)),
        lambda: hold(ledger, [alice, "team:nobody"], charge(1)),
        lambda: ledger.accounts.left("analyst:nobody"),
        lambda: ledger.accounts.budget("analyst:nobody"),
        lambda: ledger.accounts.set_limit("analyst:nobody", Limit(1, 1, "day")),
    ):
        with pytest.raises(UnknownAccount):
            call()
    assert amounts(ledger, alice)[0] == (0, 0, 100)
    forged = Reservation(hold(ledger, [alice], charge(1)).id.__class__(int=1), alice, charge(1))
    for act in (ledger.spend, ledger.release, ledger.reach, lambda held: settle(ledger, held, charge(1))):
        with pytest.raises(LedgerError, match="no such reservation"):
            act(forged)


def test_epochs_have_one_nonce_each(ledger: Ledger) -> None:
    first = ledger.epochs.nonce("2026-01-01")
    ledger.epochs._nonces.clear()
    assert ledger.epochs.nonce("2026-01-01") == first
    assert len(first) == 32
    assert ledger.epochs.nonce("2026-01-02") != first
    ledger.epochs._nonces.clear()


def test_analysts(ledger: Ledger) -> None:
    ledger.analysts.add("Zoë", "SCRAM-SHA-256$4096:a")
    with pytest.raises(LedgerError, match="Zoë"):
        ledger.analysts.add("Zoë", "SCRAM-SHA-256$4096:b")
    assert ledger.analysts.verifier("Zoë") == "SCRAM-SHA-256$4096:a"
    assert ledger.analysts.set_verifier("Zoë", "SCRAM-SHA-256$4096:c")
    assert ledger.analysts.verifier("Zoë") == "SCRAM-SHA-256$4096:c"
    assert ledger.analysts.names() == ("Zoë",)
    assert ledger.analysts.remove("Zoë")
    assert not ledger.analysts.remove("Zoë")
    assert not ledger.analysts.set_verifier("Zoë", "x")
    assert ledger.analysts.verifier("Zoë") is None
