"""Statements that fail at the backend: three of a login or an analyst are told, and no race or crash makes it four."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier

import pytest

from budget.account import (
    AlreadyResolved,
    Charge,
    FailureKind,
    Frozen,
    Limit,
    Period,
    Reservation,
    ReserveRequest,
    Settlement,
)
from budget.failures import Stopped
from budget.ledger import Ledger
from budget.statements import MOST_FAILURES
from dpproxy.embedded.server import Embedded
from tests.budget.conftest import PINNED, Jumping

pytestmark = pytest.mark.service

Account = Callable[..., str]
Sql = Callable[..., list[tuple[object, ...]]]
MOST = Charge(2_000_000, 0)
_names = itertools.count()


def hold(ledger: Ledger, account: str, login: str = "", *, thaw: bool = False) -> Reservation:
    request = ReserveRequest([account], [MOST], True, ["a question"], ["m"], login=login, thaw=thaw)
    return ledger.reserve(request)[0]


def settle(ledger: Ledger, held: Reservation) -> bytes:
    key = held.id.bytes * 2
    return ledger.settle(held, Settlement(Charge(1_000_000, 0), key, key, b"rows", "m", "q", "e")).answer


def told(ledger: Ledger, held: Reservation, kind: FailureKind = "failed") -> bool:
    """Whether a failure may be told."""
    try:
        ledger.fail(held, kind, b"sealed")
    except Frozen as frozen:
        return frozen.reason != "failures"
    return True


def stopped(ledger: Ledger, account: str, login: str = "") -> bool:
    """Whether nothing new is reserved."""
    try:
        ledger.spend(hold(ledger, account, login))
    except Frozen as frozen:
        return frozen.reason == "failures"
    return False


def fail_all(ledger: Ledger, account: str, login: str = "", kind: FailureKind = "failed") -> None:
    for _ in range(MOST_FAILURES[kind]):
        assert not stopped(ledger, account, login)
        assert told(ledger, hold(ledger, account, login), kind)


def test_three_failures_stop_and_replays_go_on(ledger: Ledger, account: Account) -> None:
    ann = account()
    paid = hold(ledger, ann)
    settle(ledger, paid)
    fail_all(ledger, ann)
    assert stopped(ledger, ann)
    assert ledger.replay(ann, paid.id.bytes * 2) == b"rows"
    assert ledger.accounts.get(ann).reserved == Charge(0, 0)


@pytest.mark.parametrize("fails", [True, False])
def test_what_is_under_way_ends_alike(fails: bool, ledger: Ledger, account: Account) -> None:
    ann = account()
    under_way = hold(ledger, ann)
    fail_all(ledger, ann)
    before = ledger.accounts.get(ann).used
    end = partial(ledger.fail, kind="failed") if fails else partial(settle, ledger)
    with pytest.raises(Frozen, match=r"^too many statements have failed at the backend$"):
        end(under_way)
    assert ledger.accounts.get(ann).used == Charge.sum([before, MOST])
    assert ledger.replay(ann, under_way.id.bytes * 2) is None
    assert ledger.stored(under_way.id.bytes * 2) is None
    outcome = ledger.outcome(under_way.id)
    assert outcome is not None
    assert (outcome.state, outcome.charged, outcome.answer) == ("spend", MOST, None)
    with pytest.raises(AlreadyResolved):
        ledger.spend(under_way)


def test_thirty_of_the_other_kind(ledger: Ledger, account: Account) -> None:
    ann = account(1000)
    for _ in range(2):
        assert told(ledger, hold(ledger, ann))
    fail_all(ledger, ann, kind="stopped")
    assert stopped(ledger, ann)


def test_time_outs_of_others_stop_no_login_that_acts_for_them(ledger: Ledger, account: Account) -> None:
    tool, ann, ben = account(1000), account(1000), account()
    fail_all(ledger, ann, tool, kind="stopped")
    assert stopped(ledger, ann, tool)
    assert not stopped(ledger, ben, tool)
    assert not stopped(ledger, tool)
    fail_all(ledger, tool, kind="stopped")
    assert stopped(ledger, tool), "its own do"


def test_a_login_and_those_it_acts_for_are_counted_apart(ledger: Ledger, account: Account) -> None:
    tool, ann, ben, cat = account(), account(), account(), account()
    assert told(ledger, hold(ledger, ann, tool))
    assert told(ledger, hold(ledger, ann, tool))
    assert told(ledger, hold(ledger, ben, tool))
    assert stopped(ledger, ann, tool)
    assert stopped(ledger, cat, tool)
    assert not stopped(ledger, ann)
    assert told(ledger, hold(ledger, ann))
    assert stopped(ledger, ann), "three of hers, two by the tool"
    assert not stopped(ledger, ben)
    assert ann in ledger.failures.stopped().analysts
    assert tool in ledger.failures.stopped().logins


def test_what_was_not_told_does_not_count(ledger: Ledger, account: Account) -> None:
    """Otherwise the analyst would be stopped sooner after a clearing, and so learn of it."""
    tool, ann, ben = account(), account(), account()
    under_way = hold(ledger, ben, tool)
    fail_all(ledger, ann, tool)
    assert not told(ledger, under_way)
    assert ledger.failures.clear(ann, "owner") == 3
    fail_all(ledger, ben)
    assert stopped(ledger, ben)


def test_the_owner_sees_and_clears(ledger: Ledger, account: Account) -> None:
    tool, ann = account(), account()
    fail_all(ledger, ann, tool)
    rows = [row for row in ledger.failures.all(100) if row.account == ann]
    assert {(row.login, row.kind, row.told, row.asked, row.sealed) for row in rows} == {
        (tool, "failed", True, "a question", b"sealed")
    }
    assert [(row.stops_login, row.stops_account) for row in rows] == [(True, True), *[(False, False)] * 2]
    assert ledger.failures.clear("analyst:nobody", "owner") == 0
    assert ledger.failures.clear(tool, "owner at the console") == 3
    assert ledger.failures.clear(tool, "owner again") == 0
    assert not stopped(ledger, ann, tool)
    cleared = [row for row in ledger.failures.all(100) if row.account == ann]
    assert all(row.cleared_by == "owner at the console" and row.cleared_at for row in cleared)
    assert not any(row.sealed for row in cleared), "what may hold a value of a row does not stay"
    fail_all(ledger, ann, tool)
    assert stopped(ledger, ann)
    assert ledger.failures.clear(None, "owner") >= 3
    assert ledger.failures.stopped() == Stopped((), ())


@pytest.mark.parametrize(
    ("period", "hours", "counts"),
    [("day", 25, False), ("day", 23, True), ("week", 170, False), ("month", 719, True), ("none", 9999, True)],
)
def test_failures_count_for_the_length_of_a_period(
    period: Period, hours: float, counts: bool, jumping: Jumping
) -> None:
    name = f"analyst:fails {next(_names)}"
    jumping.ledger.accounts.seed(name, Limit(10**9, 0, period))
    for _ in range(2):
        assert told(jumping.ledger, hold(jumping.ledger, name))
    jumping.ahead(hours=hours)
    assert told(jumping.ledger, hold(jumping.ledger, name))
    assert stopped(jumping.ledger, name) is counts


def test_who_is_stopped_stays_so_until_the_owner_has_looked(jumping: Jumping) -> None:
    name = f"analyst:fails {next(_names)}"
    jumping.ledger.accounts.seed(name, Limit(10**9, 0, "day"))
    fail_all(jumping.ledger, name)
    jumping.ahead(days=400)
    assert stopped(jumping.ledger, name)
    jumping.ahead(days=-400)
    assert stopped(jumping.ledger, name)
    jumping.ledger.failures.clear(name, "owner")
    assert not stopped(jumping.ledger, name)


def test_a_failure_is_noted_once(ledger: Ledger, account: Account) -> None:
    ann = account()
    held = hold(ledger, ann)
    assert told(ledger, held)
    for kind in ("failed", "stopped"):
        with pytest.raises(AlreadyResolved):
            ledger.fail(held, kind)
    answered = hold(ledger, ann)
    settle(ledger, answered)
    with pytest.raises(AlreadyResolved):
        ledger.fail(answered, "failed")
    assert len([row for row in ledger.failures.all(100) if row.account == ann]) == 1


def test_what_is_charged_for_losses_needs_no_clearing(ledger: Ledger, account: Account) -> None:
    ann = account()
    fail_all(ledger, ann)
    ledger.spend(hold(ledger, ann, thaw=True))


def test_another_process_knows_and_a_lost_process_counts(server: Embedded, account: Account) -> None:
    """What a process held when it died may be what has killed it."""
    ann = account()
    first = Ledger.open(server.conninfo(), PINNED, instance=f"first {ann}")
    hold(first, ann, ann)
    first.close()
    second = Ledger.open(server.conninfo(), PINNED, instance=f"first {ann}")
    (row,) = (row for row in second.failures.all(100) if row.account == ann)
    assert (row.kind, row.told, row.sealed) == ("stopped", True, None)
    fail_all(second, ann)
    second.close()
    third = Ledger.open(server.conninfo(), PINNED, instance=f"third {ann}")
    assert stopped(third, ann)
    third.close()


def test_however_many_are_under_way_three_are_told(sql: Sql, account: Account, server: Embedded) -> None:
    """Of twenty statements ten fail, all at once, of one login for two analysts in two processes.

    Whatever the order, what was told is in the ledger, and everything after the third failure ends alike.
    """
    tool, ann, ben = account(), account(1000), account(1000)
    ledgers = [Ledger.open(server.conninfo(), PINNED, instance=f"{n} {tool}") for n in range(2)]
    held = [hold(ledgers[n % 2], (ann, ben)[n // 2 % 2], tool) for n in range(20)]
    start = Barrier(20)

    def end(number: int) -> str:
        start.wait()
        ledger = ledgers[number // 4 % 2]
        if number % 2:
            return "failed" if told(ledger, held[number]) else "stopped"
        try:
            settle(ledger, held[number])
        except Frozen:
            return "stopped"
        return "answered"

    with ThreadPoolExecutor(20) as threads:
        ends = [*threads.map(end, range(20))]
    assert ends.count("failed") == 3
    assert len(sql("SELECT 1 FROM dpproxy_ledger.failure WHERE login = %s AND told", tool)) == 3
    ((third,),) = sql("SELECT max(failed_at) FROM dpproxy_ledger.failure WHERE login = %s AND told", tool)
    entries = sql(
        "SELECT reservation, kind, written_at FROM dpproxy_ledger.entry"
        " WHERE stage = 1 AND account = ANY(%s) ORDER BY number",
        [ann, ben],
    )
    # Accounts are locked for each of these, so their order is that of their commits.
    last = max(n for n, (_, _, at) in enumerate(entries) if at <= third)  # type: ignore[operator]
    assert not {kind for _, kind, _ in entries[last + 1 :]} - {"spend"}
    answered = {held[n].id for n, ended in enumerate(ends) if ended == "answered"}
    assert answered == {id for id, kind, _ in entries if kind == "settle"}
    assert all(stopped(ledger, account, tool) for ledger in ledgers for account in (ann, ben))
    for ledger in ledgers:
        ledger.close()
