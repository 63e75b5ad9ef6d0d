"""First askers of one query: one computes, the others wait, in threads, processes, and after a death."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from budget.account import Charge, LedgerUnavailable, ReserveRequest, Settlement
from budget.ledger import Ledger
from budget.single_flight import SingleFlight
from budget.store import Pool
from dpproxy.embedded.server import Embedded
from tests.budget.dying import PINNED

pytestmark = pytest.mark.service

Account = Callable[..., str]
BUYER = """
import sys, time
from fractions import Fraction
from budget.account import Charge, Pinned, ReserveRequest, Settlement
from budget.ledger import Ledger

conninfo, account, key = sys.argv[1], sys.argv[2], sys.argv[3].encode()
pinned = Pinned(Fraction("0.15"), Fraction("1e-10"), Fraction("1e-9"), "household")
ledger = Ledger.open(conninfo, pinned, instance=account)
print("ready", flush=True)
sys.stdin.readline()
with ledger.single_flight.hold([key]):
    known = ledger.stored(key)
    drew = known is None
    (held,) = ledger.reserve(
        ReserveRequest([account], [Charge(7, 1)], reached=True, queries=["q"], mechanisms=["m"])
    )
    if drew:
        print("computing", flush=True)
        time.sleep(float(sys.argv[4]))
        known = account.encode(), Charge(5, 1)
    done = ledger.settle(held, Settlement(known[1], release_key=key, request_key=key, answer=known[0],
        mechanism="m", query="q", epoch="e"))
print(drew, done.answer.decode(), flush=True)
"""


@pytest.fixture
def other(server: Embedded) -> Iterator[Ledger]:
    """The same ledger by another process's connections."""
    opened = Ledger.open(server.conninfo(), PINNED, instance="another proxy")
    yield opened
    opened.close()


def buyer(server: Embedded, account: str, key: str, seconds: float) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", BUYER, server.conninfo(), account, key, str(seconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert said(process) == "ready"
    return process


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def test_processes_draw_once(ledger: Ledger, server: Embedded, account: Account) -> None:
    names = [account() for _ in range(4)]
    processes = [buyer(server, name, f"once {names[0]}", 0.3) for name in names]
    for process in processes:
        go(process)
    lines = [line for process in processes for line in process.communicate()[0].splitlines()]
    assert lines.count("computing") == 1
    results = [line.split() for line in lines if line != "computing"]
    assert sorted(drew for drew, _ in results) == ["False"] * 3 + ["True"]
    assert len({answer for _, answer in results}) == 1
    assert {ledger.accounts.get(name).used for name in names} == {Charge(5, 1)}


def test_a_holder_that_dies_lets_go_at_once(ledger: Ledger, server: Embedded, account: Account) -> None:
    first, second = account(), account()
    dying, heir = (
        buyer(server, name, f"heir {first}", 100 if name == first else 0) for name in (first, second)
    )
    go(dying)
    assert said(dying) == "computing"
    go(heir)
    time.sleep(0.2)
    assert heir.poll() is None
    started = time.monotonic()
    dying.send_signal(signal.SIGKILL)
    dying.communicate()
    assert heir.communicate()[0].split() == ["computing", "True", second]
    assert time.monotonic() - started < 5
    Ledger.open(server.conninfo(), PINNED, instance=first).close()
    assert ledger.accounts.get(first).used == Charge(7, 1)
    assert ledger.accounts.get(second).used == Charge(5, 1)


def test_threads_and_proxies_take_turns(ledger: Ledger, other: Ledger) -> None:
    inside, most = [0], [0]

    def turn(number: int) -> None:
        with (ledger, other)[number % 2].single_flight.hold([b"turns"]):
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            time.sleep(0.01)
            inside[0] -= 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(turn, range(16)))
    assert most == [1]


def test_keys_are_taken_whole_in_any_order(ledger: Ledger, other: Ledger) -> None:
    def take(number: int) -> None:
        keys = [*[b"x", b"y", b"z"][number % 3 :], b"w"]
        with (ledger, other)[number % 2].single_flight.hold(keys[:: (-1) ** number]):
            time.sleep(0.005)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(take, range(24)))


def test_other_keys_do_not_wait(ledger: Ledger, other: Ledger) -> None:
    with (
        ledger.single_flight.hold([b"a"]),
        ledger.single_flight.hold([b"b"]),
        other.single_flight.hold([b"c"]),
        ledger.single_flight.hold([]),
    ):
        pass


@pytest.mark.parametrize("same_process", [False, True])
def test_a_wait_has_an_end(ledger: Ledger, other: Ledger, same_process: bool) -> None:
    asking = ledger if same_process else other

    def try_it() -> None:
        with asking.single_flight.hold([b"long"], seconds=0.5):
            raise AssertionError("two hold one key")

    with (
        ledger.single_flight.hold([b"long"]),
        ThreadPoolExecutor(1) as pool,
        pytest.raises(LedgerUnavailable, match="same answer"),
    ):
        pool.submit(try_it).result()


@pytest.mark.parametrize("same_process", [False, True])
def test_who_waits_can_be_called_away(ledger: Ledger, other: Ledger, same_process: bool) -> None:
    class CalledAway(Exception):
        pass

    asking, calls = ledger if same_process else other, threading.Event()

    def leave() -> None:
        calls.set()
        raise CalledAway

    def wait() -> None:
        with asking.single_flight.hold([b"away"], waiting=leave):
            raise AssertionError("two hold one key")

    with ledger.single_flight.hold([b"away"]), ThreadPoolExecutor(1) as pool, pytest.raises(CalledAway):
        pool.submit(wait).result()
    assert calls.is_set()
    with other.single_flight.hold([b"away"], seconds=1):
        pass


def test_what_fails_lets_go(ledger: Ledger, other: Ledger) -> None:
    with pytest.raises(ZeroDivisionError), ledger.single_flight.hold([b"fails"]):
        raise ZeroDivisionError
    with (
        other.single_flight.hold([b"fails"], seconds=1),
        pytest.raises(LedgerUnavailable),
        ThreadPoolExecutor(1) as pool,
    ):
        pool.submit(lambda: ledger.single_flight.hold([b"fails"], seconds=0).__enter__()).result()


def test_what_was_bought_meanwhile_is_known_once_the_keys_are_held(ledger: Ledger, account: Account) -> None:
    """An account's own requests, anybody's answers, whatever its name has in it."""
    payer, other = account(kind="o'payer \\\\ $1 %s"), account()
    (held,) = ledger.reserve(
        ReserveRequest([payer], [Charge(7, 1)], reached=True, queries=["q"], mechanisms=["m"])
    )
    requests, releases = [b"ask", b"else"], [b"answer", b"else"]
    with ledger.single_flight.hold(
        [b"one", b"two"], account=payer, requests=requests, releases=releases
    ) as known:
        assert not known
        ledger.settle(held, Settlement(Charge(5, 1), release_key=b"answer", request_key=b"ask", answer=b"rows",
            mechanism="m", query="q", epoch="e"))  # fmt: skip
    with ledger.single_flight.hold([b"one"], account=payer, requests=requests, releases=releases) as known:
        assert set(known) == {b"ask", b"answer"}
    with ledger.single_flight.hold([b"one"], account=other, requests=requests, releases=releases) as known:
        assert set(known) == {b"answer"}
    with ledger.single_flight.hold([b"one"]) as known:
        assert not known


def test_nothing_stays_behind(ledger: Ledger) -> None:
    with ledger.single_flight.hold([b"gone"]):
        pass
    assert ledger._store.rows("SELECT key FROM dpproxy_ledger.computing") == []


def test_a_server_that_cannot_be_reached_is_said_to_be(tmp_path: Path) -> None:
    nowhere = SingleFlight(Pool(f"host={tmp_path}", 1))
    with pytest.raises(LedgerUnavailable), nowhere.hold([b"key"]):
        pass
