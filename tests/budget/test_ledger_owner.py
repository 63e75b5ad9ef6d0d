"""What the owner does and sees: freezing, limits over time, accounts, history, entries, pruning, outcomes by id."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from budget.account import (
    Activity,
    AlreadyResolved,
    Charge,
    Frozen,
    IdUsed,
    Limit,
    Outcome,
    Reservation,
    ReserveRequest,
    Settlement,
    UnknownAccount,
)
from budget.ledger import Ledger

pytestmark = pytest.mark.service

Account = Callable[..., str]
Sql = Callable[..., list[tuple[Any, ...]]]
UNIT = 10**6
SEVEN = Charge(7 * UNIT, UNIT)


def hold(ledger: Ledger, *chain: str, reached: bool = True) -> Reservation:
    (held,) = ledger.reserve(
        ReserveRequest(chain, [SEVEN], reached=reached, queries=["SELECT q"], mechanisms=["UnkGumb"])
    )
    return held


def settle(ledger: Ledger, held: Reservation, key: bytes, epoch: str = "2026-01-01") -> bytes:
    return ledger.settle(
        held,
        Settlement(
            Charge(5 * UNIT, UNIT),
            release_key=key,
            request_key=key,
            answer=b"rows",
            mechanism="UnkGumb",
            query="SELECT q",
            epoch=epoch,
        ),
    ).answer


def test_a_frozen_account_spends_nothing_and_keeps_what_it_has(ledger: Ledger, account: Account) -> None:
    alice = account()
    settle(ledger, hold(ledger, alice), alice.encode())
    flying = hold(ledger, alice)
    ledger.accounts.freeze(alice)
    ledger.accounts.freeze(alice)
    with pytest.raises(Frozen, match=r"^the account is frozen"):
        hold(ledger, alice)
    assert not ledger.check_budget(alice, SEVEN)
    with pytest.raises(Frozen):
        ledger.update_budget(alice, SEVEN)
    assert ledger.replay(alice, alice.encode()) == b"rows"
    settle(ledger, flying, b"flying " + alice.encode())
    assert ledger.accounts.get(alice).used == Charge(10 * UNIT, 2 * UNIT)
    ledger.accounts.unfreeze(alice)
    ledger.spend(hold(ledger, alice))
    assert [row.frozen for row in ledger.accounts.limits(alice)] == [False, True, False]


def test_a_frozen_shared_account_stops_its_chain_and_shows_nothing(ledger: Ledger, account: Account) -> None:
    alice, team = account(), account(kind="team")
    ledger.accounts.freeze(team)
    with pytest.raises(Frozen, match=r"^a shared account is frozen") as refused:
        hold(ledger, alice, team)
    assert not refused.value.own
    assert ledger.accounts.get(alice).reserved == Charge(0, 0)
    ledger.spend(hold(ledger, alice))


def test_track_mode_is_frozen_too(ledger: Ledger, account: Account) -> None:
    alice = account(mode="track")
    ledger.accounts.freeze(alice)
    with pytest.raises(Frozen):
        hold(ledger, alice)


def test_limits_over_time(ledger: Ledger, account: Account) -> None:
    alice = account(100, 10)
    for limit in (
        Limit(50 * UNIT, UNIT, "week"),
        Limit(50 * UNIT, UNIT, "week"),
        Limit(0, 0, "none", "track"),
    ):
        ledger.accounts.set_limit(alice, limit)
    rows = ledger.accounts.limits(alice)
    assert [row.limit for row in rows] == [
        Limit(100 * UNIT, 10 * UNIT, "month"),
        Limit(50 * UNIT, UNIT, "week"),
        Limit(0, 0, "none", "track"),
    ]
    assert [row.time for row in rows] == sorted(row.time for row in rows)


def test_accounts_as_their_owner_sees_them(ledger: Ledger, account: Account) -> None:
    alice, team = account(100, 10), account(100, 10, kind="team", period="none")
    settle(ledger, hold(ledger, alice, team), alice.encode())
    hold(ledger, alice)
    ledger.accounts.freeze(team)
    rows = {row.account: row for row in ledger.accounts.all()}
    assert list(rows) == sorted(rows)
    assert (rows[alice].used, rows[alice].reserved) == (Charge(5 * UNIT, UNIT), SEVEN)
    assert rows[alice].left == Charge(88 * UNIT, 8 * UNIT)
    assert rows[alice] == ledger.accounts.get(alice)
    assert rows[team].used == SEVEN
    assert (rows[team].refreshes_at, rows[team].frozen) == (None, True)


def test_history_between_two_times(ledger: Ledger, account: Account, age: Any) -> None:
    alice, (before, after) = account(), (datetime.now(UTC) + timedelta(hours=h) for h in (-1, 1))
    settle(ledger, hold(ledger, alice), alice.encode())
    ledger.replay(alice, alice.encode())
    whole = ledger.history.releases(alice)
    assert [(row.query, row.mechanism, row.replayed) for row in whole] == [
        ("SELECT q", "UnkGumb", False),
        ("SELECT q", "UnkGumb", True),
    ]
    assert ledger.history.releases(alice, before, after) == whole == ledger.history.releases(alice)
    assert ledger.history.releases(alice, since=after) == ledger.history.releases(alice, until=before) == ()
    assert ledger.history.releases(alice, since=whole[0].time, until=whole[1].time) == whole[:1]
    assert ledger.history.releases(alice, most=1) == ledger.history.releases(alice, until=whole[1].time)
    assert ledger.history.releases(alice, most=1, newest=True) == whole[1:]
    assert ledger.history.releases(alice, before, after, most=9, newest=True) == whole


def test_activity_by_account_has_those_first_who_were_charged_most(ledger: Ledger, account: Account) -> None:
    since = datetime.now(UTC)
    carol, alice, bob, team = account(), account(), account(), account(kind="team")
    settle(ledger, hold(ledger, alice, team), alice.encode())
    ledger.replay(alice, alice.encode())
    ledger.spend(hold(ledger, bob))
    settle(ledger, hold(ledger, bob), bob.encode())
    ledger.release(hold(ledger, carol, reached=False))
    found = ledger.history.activity_by_account(since, most=3)
    assert list(found.items()) == [
        (bob, Activity(1, 0, 1, Charge(12 * UNIT, 2 * UNIT))),
        (alice, Activity(1, 1, 0, Charge(5 * UNIT, UNIT))),
    ]
    assert list(ledger.history.activity_by_account(since, most=1)) == [bob]
    assert ledger.history.activity_by_account(datetime.now(UTC), most=3) == {}


def test_activity_by_day_has_the_days_of_utc(ledger: Ledger, account: Account, sql: Sql) -> None:
    alice, bob, none = account(), account(), Activity(0, 0, 0, Charge(0, 0))
    for name, times in ((alice, ("03-02 00:00+00", "03-02 23:59:59.999999+00")), (bob, ("03-03 00:00+00",))):
        for number, time in enumerate(times):
            held = hold(ledger, name)
            settle(ledger, held, f"{name} {number}".encode())
            sql(
                "UPDATE dpproxy_ledger.entry SET written_at = %s WHERE reservation = %s",
                f"2001-{time}",
                held.id,
            )
    days = [date(2001, 3, day) for day in (1, 2, 3, 4)]
    one, two = (Activity(count, 0, 0, Charge(5 * count * UNIT, count * UNIT)) for count in (1, 2))
    assert ledger.history.activity_by_day(days) == (none, two, one, none)
    assert ledger.history.activity_by_day(days, alice) == (none, two, none, none)
    assert ledger.history.activity_by_day(days[::-1], bob) == (none, one, none, none)


def test_entries_are_the_facts(ledger: Ledger, account: Account) -> None:
    alice, team = account(), account(kind="team")
    settle(ledger, hold(ledger, alice, team), alice.encode())
    rows = list(ledger.history.entries(alice))
    assert [(row.kind, row.at_most, row.charged) for row in rows] == [
        ("reserve", SEVEN, Charge(0, 0)),
        ("settle", SEVEN, Charge(5 * UNIT, UNIT)),
    ]
    assert [(row.own, row.query, row.charged) for row in ledger.history.entries(team)] == [
        (False, None, Charge(0, 0)),
        (False, None, SEVEN),
    ]
    everything = list(ledger.history.entries())
    assert [row for row in everything if row.account == alice] == rows
    assert [row.number for row in everything] == sorted(row.number for row in everything)
    assert list(ledger.history.entries(alice, since=rows[1].time)) == rows[1:]
    assert list(ledger.history.entries(alice, until=rows[1].time)) == rows[:1]


def test_pruning_takes_answers_and_leaves_facts(ledger: Ledger, account: Account) -> None:
    alice, bob = account(), account()
    old, new = b"old " + alice.encode(), b"new " + alice.encode()
    settle(ledger, hold(ledger, alice), old, epoch=f"over {alice}")
    settle(ledger, hold(ledger, bob), old, epoch=f"over {alice}")
    settle(ledger, hold(ledger, alice), new, epoch="kept")
    ledger.replay(alice, old)
    facts = [list(ledger.history.entries(name)) for name in (alice, bob)]
    told = [ledger.history.releases(name) for name in (alice, bob)]
    assert ledger.epochs.prune(["kept", "2026-01-01", "e", "forever"]) >= 1
    assert ledger.epochs.prune(["kept", "2026-01-01", "e", "forever"]) == 0
    assert ledger.stored(old) is None
    assert (ledger.replay(alice, old), ledger.replay(alice, new)) == (None, b"rows")
    assert [
        list(ledger.history.entries(name))[: len(f)] for name, f in zip((alice, bob), facts, strict=True)
    ] == facts
    assert ledger.history.releases(bob) == told[1]
    assert ledger.history.releases(alice)[:-1] == told[0]
    settle(ledger, hold(ledger, alice), old, epoch="kept")
    assert ledger.accounts.get(alice).used == Charge(15 * UNIT, 3 * UNIT)


def test_the_same_ids_hold_once(ledger: Ledger, account: Account) -> None:
    alice, team = account(), account(kind="team")
    ids = ledger.new_ids(2)
    asked: dict[str, Any] = {"reached": True, "queries": ["q", "q"], "mechanisms": ["a", "b"], "ids": ids}
    first = ledger.reserve(ReserveRequest([alice, team], [SEVEN, SEVEN], **asked))
    assert [held.id for held in first] == ids
    assert ledger.reserve(ReserveRequest([alice, team], [SEVEN, SEVEN], **asked)) == first
    assert ledger.accounts.get(alice).reserved == Charge(14 * UNIT, 2 * UNIT)
    for held in first:
        ledger.spend(held)
    assert ledger.reserve(ReserveRequest([alice, team], [SEVEN, SEVEN], **asked)) == first
    assert ledger.accounts.get(alice).reserved == Charge(0, 0)


@pytest.mark.parametrize("change", ["account", "chain", "amount", "more"])
def test_ids_are_not_for_something_else(ledger: Ledger, account: Account, change: str) -> None:
    alice, bob, team = account(), account(), account(kind="team")
    ids = ledger.new_ids(2)

    def reserve(chain: list[str], charges: list[Charge]) -> None:
        names = ["m"] * len(charges)
        ledger.reserve(
            ReserveRequest(
                chain,
                charges,
                reached=True,
                queries=["q"] * len(names),
                mechanisms=names,
                ids=ids[: len(charges)],
            )
        )

    reserve([alice, team], [SEVEN])
    with pytest.raises(IdUsed):
        {
            "account": lambda: reserve([bob, team], [SEVEN]),
            "chain": lambda: reserve([alice], [SEVEN]),
            "amount": lambda: reserve([alice, team], [Charge(8 * UNIT, UNIT)]),
            "more": lambda: reserve([alice, team], [SEVEN, SEVEN]),
        }[change]()
    assert [ledger.accounts.get(name).reserved for name in (alice, bob, team)] == [SEVEN, Charge(0, 0), SEVEN]
    with pytest.raises(ValueError, match="id of its own"):
        ledger.reserve(
            ReserveRequest([alice], [SEVEN], reached=True, queries=["q"], mechanisms=["m"], ids=[])
        )


def test_what_became_of_an_id(ledger: Ledger, account: Account) -> None:
    alice = account()
    assert ledger.outcome(ledger.new_ids(1)[0]) is None
    settled, spent, released = hold(ledger, alice), hold(ledger, alice), hold(ledger, alice, reached=False)
    assert ledger.outcome(settled.id) == Outcome("open", True, Charge(0, 0), None)
    assert ledger.outcome(released.id) == Outcome("open", False, Charge(0, 0), None)
    settle(ledger, settled, alice.encode())
    ledger.spend(spent)
    ledger.release(released)
    assert ledger.outcome(settled.id) == Outcome("settle", True, Charge(5 * UNIT, UNIT), b"rows")
    assert ledger.outcome(spent.id) == Outcome("spend", True, SEVEN, None)
    assert ledger.outcome(released.id) == Outcome("release", False, Charge(0, 0), None)


def test_an_unresolved_reservation_stays_listed_for_recovery(
    ledger: Ledger, account: Account, sql: Sql
) -> None:
    """A settlement that comes to nothing must not take the reservation off the list of what is held."""
    alice = account()
    held = hold(ledger, alice, reached=False)
    listed = "SELECT count(*) FROM dpproxy_ledger.held WHERE reservation = %s"
    with pytest.raises(Exception, match="not marked as having reached the backend"):
        settle(ledger, held, alice.encode())
    assert sql(listed, held.id) == [(1,)]
    ledger.release(held)
    assert sql(listed, held.id) == [(0,)]
    with pytest.raises(AlreadyResolved):
        ledger.release(replace(held))


def test_strangers_have_no_limits(ledger: Ledger) -> None:
    for call in (
        ledger.accounts.freeze,
        ledger.accounts.unfreeze,
        ledger.accounts.limits,
        ledger.accounts.get,
    ):
        with pytest.raises(UnknownAccount):
            call("analyst:nobody")
    assert ledger.history.releases("analyst:nobody") == ()
    assert list(ledger.history.entries("analyst:nobody")) == []


def test_a_sealed_text_goes_with_its_answer(ledger: Ledger, account: Account) -> None:
    alice, bob = account(), account()
    key, epoch = b"sealed" + alice.encode(), f"sealed {alice}"
    told = Settlement(SEVEN, key, key, b"rows", "UnkGumb", "q", epoch, sealed=b"of alice")
    for name, settlement in (
        (alice, told),
        (alice, replace(told, sealed=b"again")),
        (bob, replace(told, sealed=None)),
    ):
        ledger.settle(hold(ledger, name), settlement)
    ledger.replay(alice, key)
    assert [row.sealed for row in ledger.history.releases(alice)] == [b"of alice"] * 3
    assert [row.sealed for row in ledger.history.releases(bob)] == [None]
    others = {row[0] for row in ledger._store.rows("SELECT DISTINCT epoch FROM dpproxy_ledger.answer")} - {
        epoch
    }
    assert ledger.epochs.prune(others) == 1
    assert [row.sealed for row in ledger.history.releases(alice)] == [None] * 3
    assert [row.asked for row in ledger.history.releases(alice)] == ["SELECT q"] * 3


def test_a_cap_that_comes_later_counts_what_was_spent_before(ledger: Ledger, account: Account) -> None:
    alice, bob, other = account(), account(), account()
    settle(ledger, hold(ledger, alice), alice.encode())
    ledger.spend(hold(ledger, bob))
    ledger.release(hold(ledger, bob, reached=False))
    ledger.replay(alice, alice.encode())
    settle(ledger, hold(ledger, other), other.encode())
    flying = hold(ledger, alice)
    team = f"team:late {alice}"
    limit = Limit(100 * UNIT, 10 * UNIT, "month")
    ledger.accounts.seed_shared(team, limit, [alice, bob])
    row = ledger.accounts.get(team)
    assert (row.used, row.reserved, row.limit, row.frozen) == (
        Charge(14 * UNIT, 2 * UNIT),
        SEVEN,
        limit,
        False,
    )
    assert row.refreshes_at is not None
    assert row.refreshes_at < datetime.now(UTC) + timedelta(days=30)
    settle(ledger, flying, b"flying" + alice.encode())
    ledger.accounts._seeded.clear()
    ledger.accounts.seed_shared(team, limit, [alice, bob])
    row = ledger.accounts.get(team)
    assert (row.used, row.reserved) == (Charge(21 * UNIT, 3 * UNIT), Charge(0, 0))
    assert ledger.history.mechanisms()[team] == {"UnkGumb"}
    assert ledger.history.verify() is None


@pytest.mark.parametrize(("period", "counts"), [("day", False), ("week", True), ("none", True)])
def test_a_cap_that_comes_later_counts_its_own_period(
    ledger: Ledger, account: Account, sql: Sql, period: Any, counts: bool
) -> None:
    alice = account()
    settle(ledger, hold(ledger, alice), alice.encode())
    sql(
        "UPDATE dpproxy_ledger.entry SET written_at = written_at - interval '2 days' WHERE account = %s",
        alice,
    )
    team = f"team:late {alice}"
    ledger.accounts.seed_shared(team, Limit(100 * UNIT, 10 * UNIT, period), [alice])
    assert ledger.accounts.get(team).used == (SEVEN if counts else Charge(0, 0))
    ledger.accounts.set_limit(team, Limit(100 * UNIT, 10 * UNIT, "none"))
    assert ledger.accounts.get(team).used == SEVEN


def test_a_cap_below_what_was_spent_is_frozen(ledger: Ledger, account: Account) -> None:
    alice = account()
    ledger.spend(hold(ledger, alice))
    team = f"team:late {alice}"
    ledger.accounts.seed_shared(team, Limit(6 * UNIT, 9 * UNIT, "month"), [alice])
    row = ledger.accounts.get(team)
    assert (row.used, row.left, row.frozen) == (SEVEN, Charge(0, 8 * UNIT), True)
    with pytest.raises(Frozen):
        hold(ledger, alice, team)
    assert ledger.accounts.limits(team)[-1].frozen
