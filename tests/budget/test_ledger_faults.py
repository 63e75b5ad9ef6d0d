"""Threads that race, connections that are lost, processes that are dead: the sum never exceeds the limit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import psycopg
import pytest

import budget.store as module
from budget.account import (
    AlreadyResolved,
    Charge,
    Exhausted,
    LedgerError,
    LedgerUnavailable,
    Limit,
    Pinned,
    PinnedMismatch,
    Reservation,
    ReserveRequest,
    Settlement,
)
from budget.ledger import Ledger
from budget.store import Step
from dpproxy.embedded.server import Embedded

pytestmark = pytest.mark.service

Account = Callable[..., str]
Sql = Callable[..., list[tuple[Any, ...]]]
PINNED = Pinned(Fraction("0.15"), Fraction("1e-10"), Fraction("1e-9"), "household")
SEVEN = Charge(7_000_000, 1_000_000)
END_CONNECTIONS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"


def hold(ledger: Ledger, *chain: str, reached: bool = True) -> Reservation:
    (held,) = ledger.reserve(ReserveRequest(chain, [SEVEN], reached=reached, queries=["q"], mechanisms=["m"]))
    return held


def settle(ledger: Ledger, held: Reservation, key: bytes | None = None, answer: bytes = b"a") -> bytes:
    key = held.id.bytes if key is None else key
    return ledger.settle(
        held,
        Settlement(
            Charge(5_000_000, 1_000_000),
            release_key=key,
            request_key=key,
            answer=answer,
            mechanism="m",
            query="q",
            epoch="e",
        ),
    ).answer


def at_once(count: int, act: Callable[[int], Any]) -> list[Any]:
    """Runs `act` in so many threads that start together."""
    start = threading.Barrier(count)

    def run(number: int) -> Any:
        start.wait()
        return act(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def test_threads_racing_for_one_account_never_exceed_it(ledger: Ledger, account: Account) -> None:
    """No settlement gives anything back here, so that exactly floor(100/7) = 14 reservations fit."""
    alice, team = account(100, 100), account(1000, 1000, kind="team")

    def ask(_: int) -> int:
        held = 0
        for _ in range(4):
            try:
                ledger.spend(hold(ledger, alice, team))
                held += 1
            except Exhausted:
                pass
        return held

    assert sum(at_once(12, ask)) == 14
    assert ledger.accounts.budget(alice)[0].used == 98
    assert ledger.accounts.budget(team)[0].used == 98


def test_chains_in_any_order_do_not_deadlock(ledger: Ledger, account: Account) -> None:
    names = [account(1000, 1000) for _ in range(3)]

    def ask(number: int) -> None:
        chain = names[number % 3 :] + names[: number % 3]
        for _ in range(5):
            settle(ledger, hold(ledger, *chain))

    at_once(9, ask)
    assert sum(int(ledger.accounts.budget(name)[0].used) for name in names) == 45 * (5 + 7 + 7)


def test_first_askers_of_one_query_get_one_answer(ledger: Ledger, account: Account) -> None:
    names = [account() for _ in range(8)]
    key = names[0].encode()

    def ask(number: int) -> bytes:
        return settle(ledger, hold(ledger, names[number]), key, f"answer {number}".encode())

    answers = at_once(8, ask)
    assert len(set(answers)) == 1
    assert {ledger.accounts.budget(name)[0].used for name in names} == {Fraction(5)}


def test_one_account_asking_the_same_at_once_pays_once(ledger: Ledger, account: Account) -> None:
    alice = account(100, 100)
    answers = at_once(8, lambda n: settle(ledger, hold(ledger, alice), alice.encode(), b"answer %d" % n))
    assert len(set(answers)) == 1
    assert ledger.accounts.budget(alice)[0].used == 5
    assert ledger.replay(alice, alice.encode()) == answers[0]


def test_two_resolutions_at_once(ledger: Ledger, account: Account) -> None:
    alice = account(100, 100)
    for _ in range(5):
        held = hold(ledger, alice)

        def resolve(number: int, held: Reservation = held) -> bool:
            try:
                if number % 2:
                    ledger.spend(held)
                else:
                    settle(ledger, held)
            except AlreadyResolved:
                return False
            return True

        assert sum(at_once(4, resolve)) == 1
    assert ledger.accounts.budget(alice)[0].reserved == 0


def while_held(server: Embedded, statement: str, values: Sequence[object], act: Callable[[], Any]) -> Any:
    """Runs `act` in a thread, up to where it waits for an uncommitted statement, which then commits."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    with psycopg.connect(server.conninfo()) as other, ThreadPoolExecutor(1) as pool:
        other.execute(statement.encode(), values)
        acting = pool.submit(act)
        with psycopg.connect(server.conninfo(), autocommit=True) as watching:
            while watching.execute(waiting.encode()).fetchone() == (0,):
                assert not acting.done()
        other.commit()
        return acting.result()


def test_an_answer_that_is_just_being_stored_wins(ledger: Ledger, server: Embedded, account: Account) -> None:
    alice, bob = account(), account()
    settle(ledger, hold(ledger, alice))
    storing = (
        "INSERT INTO dpproxy_ledger.answer"
        " SELECT %s, gen_random_uuid(), 'theirs'::bytea, 3000000, 0, 'e', now(), 3000000"
    )
    key, held = bob.encode(), hold(ledger, bob)
    assert while_held(server, storing, [key], lambda: settle(ledger, held, key)) == b"theirs"
    assert ledger.accounts.budget(bob)[0].used == 3


def test_a_settlement_belongs_to_the_period_that_is_just_beginning(
    ledger: Ledger, server: Embedded, account: Account
) -> None:
    """The check of balances against entries, after each test, is what this is for."""
    alice = account()
    ledger.update_budget(alice, SEVEN)
    held = hold(ledger, alice)
    refreshing = (
        "UPDATE dpproxy_ledger.account SET period_number = period_number + 1, period_first = period_number + 1,"
        " used_information = 0, used_calls = 0 WHERE name = %s"
    )
    while_held(server, refreshing, [alice], lambda: settle(ledger, held))
    assert ledger.accounts.budget(alice)[0].used == 5


def test_lost_connections_are_replaced(ledger: Ledger, account: Account, sql: Sql) -> None:
    alice = account(100, 100)
    for _ in range(3):
        sql(END_CONNECTIONS)
        held = hold(ledger, alice)
        sql(END_CONNECTIONS)
        settle(ledger, held)
    assert ledger.accounts.budget(alice)[0].used == 15


def losing(monkeypatch: pytest.MonkeyPatch, after: bool) -> list[int]:
    """Loses the next connection, before its statements or after their commit."""
    real, lost = module._run, [0]

    def run(connection: psycopg.Connection[Any], steps: Sequence[Step], seal: Step | None) -> Any:
        if lost[0]:
            return real(connection, steps, seal)
        lost[0] = 1
        if after:
            real(connection, steps, seal)
        connection.close()
        raise psycopg.OperationalError("the connection is lost")

    monkeypatch.setattr(module, "_run", run)
    return lost


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("act", ["reserve", "settle", "spend", "release", "reach"])
def test_a_connection_lost_around_the_commit_changes_nothing(
    ledger: Ledger, account: Account, monkeypatch: pytest.MonkeyPatch, act: str, after: bool
) -> None:
    alice = account(100, 100)
    held = hold(ledger, alice, reached=act not in ("release", "reach"))
    lost = losing(monkeypatch, after)
    if act == "reserve":
        held = hold(ledger, alice)
    elif act == "settle":
        assert settle(ledger, held) == b"a"
    else:
        {"spend": ledger.spend, "release": ledger.release, "reach": ledger.reach}[act](held)
    assert lost == [1]
    row = ledger.accounts.budget(alice)[0]
    assert (int(row.used), int(row.reserved)) == {
        "reserve": (0, 14),
        "settle": (5, 0),
        "spend": (7, 0),
        "release": (0, 0),
        "reach": (0, 7),
    }[act]


def test_a_lost_settlement_is_not_mistaken_for_somebody_elses_spend(
    ledger: Ledger, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = hold(ledger, account())
    ledger.spend(held)
    losing(monkeypatch, after=False)
    with pytest.raises(AlreadyResolved):
        settle(ledger, held)


def test_the_dead_are_found_by_their_name(ledger: Ledger, server: Embedded, account: Account) -> None:
    alice, bob = account(100, 100), account(100, 100)
    before = Ledger.open(server.conninfo(), PINNED, instance="proxy 1")
    living = Ledger.open(server.conninfo(), PINNED, instance="proxy 2")
    unreached, reached = hold(before, alice, reached=False), hold(before, alice)
    others = hold(living, bob)
    before.close()
    again = Ledger.open(server.conninfo(), PINNED, instance="proxy 1")
    row = ledger.accounts.budget(alice)[0]
    assert (row.used, row.reserved) == (Fraction(7), Fraction(0))
    for held in (unreached, reached):
        with pytest.raises(AlreadyResolved):
            again.reach(held) if held is unreached else settle(again, held)
    assert ledger.accounts.budget(bob)[0].reserved == 7
    settle(living, others)
    again.close()
    living.close()


def test_leases_run_out_where_budget_is_wanted(ledger: Ledger, server: Embedded, account: Account) -> None:
    alice = account(7, 100)
    short = Ledger.open(server.conninfo(), PINNED, instance="short", lease=timedelta(0))
    hold(short, alice, reached=False)
    short.close()
    assert ledger.accounts.budget(alice)[0].reserved == 7
    held = hold(ledger, alice)
    with pytest.raises(Exhausted):
        hold(ledger, alice)
    assert ledger.accounts.budget(alice)[0].reserved == 7, "one's own living reservation was taken for dead"
    ledger.spend(held)


def test_a_dead_one_that_reached_the_backend_stays_charged(
    ledger: Ledger, server: Embedded, account: Account
) -> None:
    alice = account(7, 100)
    short = Ledger.open(server.conninfo(), PINNED, instance="short", lease=timedelta(0))
    hold(short, alice)
    short.close()
    with pytest.raises(Exhausted):
        hold(ledger, alice)
    assert ledger.recover() == 0
    assert ledger.accounts.budget(alice)[0].used == 7


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epsilon_per", Fraction("0.2")),
        ("delta_per", Fraction("1e-9")),
        ("delta_prime", Fraction("2e-9")),
        ("privacy_unit", "person"),
    ],
)
def test_pinned_parameters_stay(shared_ledger: Ledger, server: Embedded, name: str, value: object) -> None:
    with pytest.raises(PinnedMismatch, match=name):
        Ledger.open(server.conninfo(), replace(PINNED, **{name: value}), instance="x")  # type: ignore[arg-type]


def test_eight_processes_make_one_schema(server: Embedded, sql: Sql) -> None:
    sql("CREATE DATABASE together")
    conninfo = server.conninfo(dbname="together")
    opened = at_once(8, lambda n: Ledger.open(conninfo, PINNED, instance=f"proxy {n}"))
    opened[0].accounts.seed("analyst:a", Limit(10_000_000, 1_000_000, "day"))
    opened[7].spend(hold(opened[7], "analyst:a"))
    assert opened[3].accounts.left("analyst:a") == Charge(3_000_000, 0)
    with psycopg.connect(conninfo) as connection:
        connection.execute("INSERT INTO dpproxy_ledger.migration (version) VALUES (99)")
    with pytest.raises(LedgerError, match="newer"):
        Ledger.open(conninfo, PINNED, instance="old")
    for ledger in opened:
        ledger.close()


def test_a_server_that_forgets_is_refused(tmp_path: Path) -> None:
    with (
        Embedded.start(tmp_path / "front", durable=False) as forgetful,
        pytest.raises(LedgerError, match="fsync"),
    ):
        Ledger.open(forgetful.conninfo(), PINNED, instance="x")


def test_without_a_server_nothing_goes(tmp_path: Path) -> None:
    with pytest.raises(LedgerUnavailable):
        Ledger.open(f"host={tmp_path} dbname=postgres", PINNED, instance="x")
    with Embedded.start(tmp_path / "ledger", durable=True) as server:
        ledger = Ledger.open(server.conninfo(), PINNED, instance="x")
        ledger.accounts.seed("analyst:a", Limit(10_000_000, 10_000_000, "day"))
        held = hold(ledger, "analyst:a")
    for call in (
        lambda: hold(ledger, "analyst:a"),
        lambda: settle(ledger, held),
        lambda: ledger.accounts.left("x"),
    ):
        with pytest.raises(LedgerUnavailable):
            call()
    with Embedded.start(tmp_path / "ledger", durable=True):
        assert settle(ledger, held) == b"a"
        ledger.close()
