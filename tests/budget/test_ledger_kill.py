"""A process killed before each of its statements: charged or not charged, never answered and not charged."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from budget.account import Pinned
from budget.ledger import Ledger
from dpproxy.embedded import Embedded

ASKS = """
import os, signal, sys
from fractions import Fraction
import psycopg
from budget.account import Charge, Pinned
from budget.ledger import Ledger

conninfo, account, last, how = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
pinned = Pinned(Fraction("0.15"), Fraction("1e-10"), Fraction("1e-9"), "household")
ledger = Ledger.open(conninfo, pinned, instance="the killed one")
real, count = psycopg.Connection.execute, 0

def execute(self, query, *rest, **more):
    global count
    if count == last:
        os.kill(os.getpid(), signal.SIGKILL)
    count += 1
    print("ran", flush=True)
    return real(self, query, *rest, **more)

psycopg.Connection.execute = execute
if how == "one by one":
    psycopg.Pipeline.is_supported = classmethod(lambda cls: False)
(held,) = ledger.reserve(
    [account], [Charge(7, 1)], reached=how == "reached at once", query="q", mechanisms=["m"]
)
if how != "reached at once":
    ledger.reach(held)
key = account.encode()
done = ledger.settle(held, Charge(5, 1), release_key=key, request_key=key, answer=b"rows",
    mechanism="m", query="q", epoch="e")
print("answered", done.answer.decode(), flush=True)
"""


def life(server: Embedded, account: str, last: int, how: str) -> tuple[list[str], int]:
    """What a process said that was killed before its statement number `last`, and how it ended."""
    said = subprocess.run(
        [sys.executable, "-c", ASKS, server.conninfo(), account, str(last), how],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    return said.stdout.splitlines(), said.returncode


@pytest.mark.parametrize("how", ["one by one", "in a pipeline", "reached at once"])
def test_killed_before_every_statement(
    ledger: Ledger, server: Embedded, account: Callable[..., str], pinned: Pinned, how: str
) -> None:
    used: list[Any] = []
    for last in range(50):
        alice = account(100, 10)
        said, status = life(server, alice, last, how)
        Ledger.open(server.conninfo(), pinned, instance="the killed one").close()
        row = ledger.budget(alice)[0]
        used.append(int(row.used * 10**6))
        assert row.reserved == 0
        assert row.used in (Fraction(0), Fraction(5, 10**6), Fraction(7, 10**6))
        kept = ledger.replay(alice, alice.encode())
        assert (kept == b"rows") == (row.used == Fraction(5, 10**6))
        if status == 0:
            assert said[-1] == "answered rows"
            assert row.used == Fraction(5, 10**6)
            break
        assert status == -signal.SIGKILL
        assert said == ["ran"] * last
    assert used == sorted(used, key=[0, 7, 5].index), "the charge appears, then becomes the actual cost"
    assert set(used) == {0, 5, 7}, "the points of death include all three outcomes"
