"""The procedures of the corpus of attacks (`steps` in attacks.yaml) that concern the ledger itself, by their ids.

Those that need the way of a query (cancels, Describe, noise, the backend) are tested where that is.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import psycopg
import pytest
import yaml

from budget.account import Charge, Exhausted, LedgerOlder, Limit, ReserveRequest, Settlement
from budget.ledger import Ledger
from dpproxy.embedded.server import Embedded
from tests.budget.dying import PINNED

pytestmark = pytest.mark.service

Account = Callable[..., str]
Age = Callable[[str, float], None]
UNIT = 10**6
CALL = Charge(UNIT, UNIT)


def buy(ledger: Ledger, account: str, key: bytes, most: Charge = CALL, actual: Charge = CALL) -> bytes:
    """A query from beginning to end."""
    (held,) = ledger.reserve(ReserveRequest([account], [most], reached=True, queries=["q"], mechanisms=["m"]))
    return ledger.settle(
        held,
        Settlement(
            actual,
            release_key=key,
            request_key=key,
            answer=b"drawn for " + held.id.bytes,
            mechanism="m",
            query="q",
            epoch="e",
        ),
    ).answer


def test_budget_01(ledger: Ledger, server: Embedded, account: Account) -> None:
    """64 connections ask at the same instant where 10 calls are left: 10 answers."""
    alice, start = account(1000, 10), Barrier(64)
    proxies = [Ledger.open(server.conninfo(), PINNED, instance=f"proxy {number}") for number in range(4)]

    def ask(number: int) -> bool:
        start.wait()
        try:
            buy(proxies[number % 4], alice, b"%s %d" % (alice.encode(), number))
        except Exhausted:
            return False
        return True

    with ThreadPoolExecutor(64) as pool:
        assert sum(pool.map(ask, range(64))) == 10
    assert ledger.accounts.get(alice).used == Charge(10 * UNIT, 10 * UNIT)
    for proxy in proxies:
        proxy.close()


def test_budget_08(ledger: Ledger, account: Account) -> None:
    """A query where exactly 0 is left is refused before anything is held; what was paid for stays free."""
    alice = account(1, 1)
    answer = buy(ledger, alice, alice.encode())
    for cost in (Charge(1, 0), Charge(0, 1)):
        with pytest.raises(Exhausted) as refused:
            buy(ledger, alice, b"another", cost, cost)
        assert refused.value.left == Charge(0, 0)
    assert ledger.accounts.get(alice).reserved == Charge(0, 0)
    assert ledger.replay(alice, alice.encode()) == answer


def test_budget_12(ledger: Ledger, account: Account, age: Age) -> None:
    """A clock set back refreshes nothing, and set forth again does so once; twice is no more."""
    alice = account(1, 1, period="month")
    for shift in (0, -30 * 24, 10 * 24, -365 * 24):
        if shift == 0:
            ledger.update_budget(alice, CALL)
        age(alice, shift)
        for _ in range(2):
            with pytest.raises(Exhausted):
                ledger.update_budget(alice, CALL)
    age(alice, 385 * 24 + 30 * 24)
    ledger.update_budget(alice, CALL)
    with pytest.raises(Exhausted):
        ledger.update_budget(alice, CALL)


def test_budget_14(ledger: Ledger, account: Account) -> None:
    """A top-k that may cost more than is left is refused first, even though less would have come out."""
    alice = account(10, 5)
    with pytest.raises(Exhausted):
        buy(ledger, alice, alice.encode(), most=Charge(21 * UNIT, UNIT), actual=Charge(3 * UNIT, UNIT))
    assert ledger.stored(alice.encode()) is None
    assert ledger.accounts.get(alice).used == Charge(0, 0)
    buy(ledger, alice, alice.encode(), most=Charge(10 * UNIT, UNIT), actual=Charge(3 * UNIT, UNIT))
    assert ledger.accounts.left(alice) == Charge(7 * UNIT, 4 * UNIT)


@pytest.mark.parametrize("amount", [math.nan, -1, 2**63, math.inf, -(2**63), 1e300])
def test_budget_15(ledger: Ledger, account: Account, amount: Any) -> None:
    """NaN, negative and immense costs are no amounts; the largest amounts overflow nothing."""
    alice = account(10, 5, mode="track")
    with pytest.raises(ValueError, match="no amount"):
        ledger.update_budget(alice, Charge(amount, 0))
    ledger.update_budget(alice, Charge(2**60, 0))
    with pytest.raises(Exhausted):
        ledger.update_budget(alice, Charge(1, 0))
    assert ledger.accounts.get(alice).used == Charge(2**60, 0)
    assert ledger.history.verify() is None


def test_noise_reuse_01(ledger: Ledger, account: Account) -> None:
    """The same query again and again: the stored answer for nothing, byte for byte, and a history that tells of it."""
    alice = account(1, 1)
    answer = buy(ledger, alice, alice.encode())
    assert {ledger.replay(alice, alice.encode()) for _ in range(200)} == {answer}
    assert ledger.accounts.get(alice).used == CALL
    assert len(ledger.history.releases(alice)) == 201


def test_noise_reuse_07(ledger: Ledger, account: Account) -> None:
    """Two analysts who compare see one draw, and each has paid: a collusion averages nothing."""
    alice, bob, poor = account(), account(), account(0, 0)
    answer = buy(ledger, alice, alice.encode())
    assert buy(ledger, bob, alice.encode()) == answer
    assert [ledger.accounts.get(name).used for name in (alice, bob)] == [CALL, CALL]
    with pytest.raises(Exhausted):
        buy(ledger, poor, alice.encode())
    assert ledger.replay(poor, alice.encode()) is None


def test_operations_03(server: Embedded, tmp_path: Path) -> None:
    """Yesterday's backup is no refund: the mark that was kept outside tells."""
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE today")
        today = Ledger.open(server.conninfo(dbname="today"), PINNED, instance="x")
        today.accounts.seed("analyst:a", Limit(UNIT, UNIT, "none"))
        today.close()
        connection.execute("CREATE DATABASE yesterday TEMPLATE today")
    today = Ledger.open(server.conninfo(dbname="today"), PINNED, instance="x")
    buy(today, "analyst:a", b"a")
    (tmp_path / "mark").write_text(today.high_water.now().dump())
    today.close()
    restored = Ledger.open(server.conninfo(dbname="yesterday"), PINNED, instance="x")
    assert restored.accounts.left("analyst:a") == CALL
    with pytest.raises(LedgerOlder):
        restored.high_water.check(type(restored.high_water.now()).load((tmp_path / "mark").read_text()))
    restored.close()


def test_these_are_procedures_of_the_corpus() -> None:
    if "DPPROXY_SHARED" not in os.environ:
        pytest.skip("DPPROXY_SHARED names no folder with the corpus")
    corpus = yaml.safe_load((Path(os.environ["DPPROXY_SHARED"]) / "corpora/attacks.yaml").read_text())
    procedures = {one["id"] for one in corpus if "steps" in one}
    here = {
        name.removeprefix("test_") for name in globals() if name[-1].isdigit() and name.startswith("test_")
    }
    assert len(here) == 8
    assert {f"{name[:-3]}-{name[-2:]}" for name in here} <= procedures
