"""Balances computed anew: each kind of lie about a ledger is found, at the first entry that tells it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from budget.account import AnotherLedger, Charge, EntryRow, ReserveRequest, Settlement
from budget.audit import Balance, Difference, first_difference
from budget.checkpoint import Checkpoint
from budget.ledger import Ledger
from dpproxy.embedded.server import Embedded

pytestmark = pytest.mark.service

Account = Callable[..., str]
Sql = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def facts(ledger: Ledger, account: Account) -> tuple[list[EntryRow], list[Balance]]:
    """A real history of two accounts with everything in it, and the balances that it comes to."""
    alice, team = account(), account(kind="team")

    def hold(reached: bool = True) -> Any:
        charges = [Charge(7, 1)]
        return ledger.reserve(
            ReserveRequest([alice, team], charges, reached=reached, queries=["q"], mechanisms=["m"])
        )[0]

    held, key = hold(), alice.encode()
    ledger.settle(
        held,
        Settlement(
            Charge(5, 1), release_key=key, request_key=key, answer=b"a", mechanism="m", query="q", epoch="e"
        ),
    )
    ledger.replay(alice, key)
    ledger.spend(hold())
    ledger.release(hold(reached=False))
    hold()
    entries = sorted(
        [*ledger.history.entries(alice), *ledger.history.entries(team)], key=lambda entry: entry.number
    )
    rows = [ledger.accounts.get(name) for name in (alice, team)]
    return entries, [Balance(row.account, row.used, row.reserved, 1, 1) for row in rows]


def test_the_truth_is_in_order(facts: tuple[list[EntryRow], list[Balance]], ledger: Ledger) -> None:
    assert first_difference(*facts) is None
    assert ledger.history.verify() is None


LIES: dict[str, tuple[Callable[[EntryRow], bool], dict[str, Any], str]] = {
    "dearer than reserved": (
        lambda e: e.kind == "settle" and e.own,
        {"charged": Charge(8, 1)},
        "of a reservation",
    ),
    "a shared account's refund for an answer that was stored": (
        lambda e: e.kind == "settle" and not e.own,
        {"charged": Charge(5, 1), "replayed": True},
        "whole",
    ),
    "a shared account's refund": (
        lambda e: e.kind == "settle" and not e.own,
        {"charged": Charge(5, 1)},
        "whole",
    ),
    "a cheap spend": (lambda e: e.kind == "spend", {"charged": Charge(1, 1)}, "whole"),
    "a charged release": (lambda e: e.kind == "release", {"charged": Charge(1, 0)}, "given back"),
    "a charged replay": (lambda e: e.kind == "replay", {"charged": Charge(1, 0)}, "costs nothing"),
    "another reservation": (lambda e: e.kind == "spend", {"at_most": Charge(9, 1)}, "of a reservation"),
    "a period that went back": (lambda e: e.kind == "spend", {"period": 0}, "period 0 after period 1"),
    "a settlement of nothing": (
        lambda e: e.kind == "reserve",
        {"kind": "replay", "at_most": Charge(0, 0)},
        "never reserved",
    ),
}


@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_found_where_it_is_told(facts: tuple[list[EntryRow], list[Balance]], name: str) -> None:
    entries, balances = facts
    told, change, what = LIES[name]
    at = next(number for number, entry in enumerate(entries) if told(entry))
    entries[at] = replace(entries[at], **change)
    found = first_difference(entries, balances)
    assert found is not None
    assert found.entry is not None
    assert found.entry >= entries[at].number
    assert what in str(found)


@pytest.mark.parametrize("kind", ["reserve", "settle", "spend", "release"])
def test_an_entry_told_twice_is_found(facts: tuple[list[EntryRow], list[Balance]], kind: str) -> None:
    entries, balances = facts
    twice = replace(next(entry for entry in entries if entry.kind == kind), number=10**9)
    found = first_difference([*entries, twice], balances)
    assert found is not None
    assert (found.entry, "twice" in found.what) == (10**9, True)


@pytest.mark.parametrize("kind", ["reserve", "settle", "spend", "release"])
def test_an_entry_left_out_is_found(facts: tuple[list[EntryRow], list[Balance]], kind: str) -> None:
    entries, balances = facts
    entries.remove(next(entry for entry in entries if entry.kind == kind))
    assert first_difference(entries, balances) is not None


@pytest.mark.parametrize(
    "column", ["used_information", "used_calls", "reserved_information", "reserved_calls"]
)
def test_a_balance_moved_behind_the_ledgers_back(
    facts: tuple[list[EntryRow], list[Balance]], ledger: Ledger, sql: Sql, column: str
) -> None:
    name = facts[0][0].account
    sql(f"UPDATE dpproxy_ledger.account SET {column} = {column} + 1 WHERE name = %s", name)
    found = ledger.history.verify()
    sql(f"UPDATE dpproxy_ledger.account SET {column} = {column} - 1 WHERE name = %s", name)
    assert isinstance(found, Difference)
    assert (found.account, found.entry) == (name, None)
    assert column.partition("_")[0] in str(found)


def test_one_moment_is_checked_while_others_write(ledger: Ledger, server: Embedded, account: Account) -> None:
    """The reading of balances and of entries see the same state."""
    alice = account()
    with psycopg.connect(server.conninfo()), ledger._store.snapshot() as snapshot:
        before = list(
            snapshot.rows("SELECT used_information FROM dpproxy_ledger.account WHERE name = %(n)s", n=alice)
        )
        ledger.update_budget(alice, Charge(7, 1))
        after = list(
            snapshot.rows("SELECT used_information FROM dpproxy_ledger.account WHERE name = %(n)s", n=alice)
        )
    assert before == after == [(0,)]


NOW = timedelta(0)


def test_a_verification_goes_on_where_the_last_one_ended(
    facts: tuple[list[EntryRow], list[Balance]], ledger: Ledger
) -> None:
    name = facts[0][0].account
    first = ledger.history.verified(settled=NOW)
    assert first.checkpoint is not None
    ledger.update_budget(name, Charge(1, 1))
    again = ledger.history.verified(Checkpoint.load(first.checkpoint.dump()), settled=NOW)
    assert (again.difference, again.entries) == (None, 2)
    assert again.checkpoint is not None
    whole = ledger.history.verified(again.checkpoint, whole=True, settled=NOW)
    assert whole.entries == first.entries + 2
    assert replace(again.checkpoint, state="") == replace(whole.checkpoint or again.checkpoint, state="")
    assert ledger.history.verified(again.checkpoint).checkpoint == again.checkpoint, "nothing new to read"


def test_a_checkpoint_waits_for_entries_that_may_yet_be_committed(
    facts: tuple[list[EntryRow], list[Balance]], ledger: Ledger
) -> None:
    first = ledger.history.verified()
    assert first.checkpoint is not None
    assert first.entries == ledger.history.verified(first.checkpoint).entries > 0


@pytest.mark.parametrize("changed", ["query = 'another'", "written_at = written_at + interval '1 second'"])
def test_a_change_before_the_checkpoint_is_found(
    facts: tuple[list[EntryRow], list[Balance]], ledger: Ledger, sql: Sql, changed: str
) -> None:
    """Even one that no balance depends on."""
    since, number = ledger.history.verified(settled=NOW).checkpoint, facts[0][0].number
    assert since is not None
    ((query, time),) = sql("SELECT query, written_at FROM dpproxy_ledger.entry WHERE number = %s", number)
    sql(f"UPDATE dpproxy_ledger.entry SET {changed} WHERE number = %s", number)
    found = [ledger.history.verified(since, whole=whole).difference for whole in (False, True)]
    sql(
        "UPDATE dpproxy_ledger.entry SET query = %s, written_at = %s WHERE number = %s",
        query,
        time,
        number,
    )
    assert ledger.history.verify() is None, "the entries alone say nothing of it"
    assert ["not those that were verified" in str(one) for one in found] == [True, True]
    assert ledger.history.verified(since).difference is None


def test_what_is_said_again_after_the_checkpoint_is_found(
    facts: tuple[list[EntryRow], list[Balance]], ledger: Ledger, sql: Sql
) -> None:
    since = ledger.history.verified(settled=NOW).checkpoint
    assert since is not None
    settled = next(entry for entry in facts[0] if entry.kind == "settle" and entry.own)
    sql("ALTER TABLE dpproxy_ledger.entry DROP CONSTRAINT entry_once")
    try:
        sql(
            "INSERT INTO dpproxy_ledger.entry (reservation, account, own, stage, kind, at_most_information,"
            " at_most_calls, at_most_epsilon, information, calls, epsilon, period_number, written_at)"
            " VALUES (%s, %s, true, 0, 'reserve', 8, 1, 4, 0, 0, 0, 1, now())",
            settled.reservation,
            settled.account,
        )
        found = [ledger.history.verified(one).difference for one in (since, None)]
    finally:
        sql("DELETE FROM dpproxy_ledger.entry WHERE number > %s", since.number)
        sql("ALTER TABLE dpproxy_ledger.entry ADD CONSTRAINT entry_once UNIQUE (reservation, account, stage)")
    assert [one and one.account for one in found] == [settled.account, settled.account]


def test_a_checkpoint_of_another_ledger_is_refused(ledger: Ledger) -> None:
    with pytest.raises(AnotherLedger):
        ledger.history.verified(Checkpoint("another", 1, "", "{}"))
