"""A query's life in a process of its own, which is killed before its N-th statement."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from fractions import Fraction

import psycopg

from budget.account import Charge, Pinned
from budget.ledger import Ledger
from dpproxy.embedded.server import Embedded

ASKS = """
import os, signal, sys
from fractions import Fraction
import psycopg
from budget.account import Charge, Pinned, ReserveRequest, Settlement
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
key = account.encode()
with ledger.single_flight.hold([key]):
    (held,) = ledger.reserve(ReserveRequest(
        account.split(), [Charge(7, 1)], reached=how == "reached at once", queries=["q"], mechanisms=["m"]
    ))
    if how != "reached at once":
        ledger.reach(held)
    done = ledger.settle(held, Settlement(Charge(5, 1), release_key=key, request_key=key, answer=b"rows",
        mechanism="m", query="q", epoch="e"))
    ledger.high_water.now()
    print("answered", done.answer.decode(), flush=True)
"""
DIES = "dies"
PINNED = Pinned(Fraction("0.15"), Fraction("1e-10"), Fraction("1e-9"), "household")
WAYS = ("one by one", "in a pipeline", "reached at once")


def life(server: Embedded, chain: str, last: int, how: str) -> tuple[list[str], int]:
    """What a process said that was killed before its statement number `last`, and how it ended."""
    said = subprocess.run(
        [sys.executable, "-c", ASKS, f"{server.conninfo()} application_name={DIES}", chain, str(last), how],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    return said.stdout.splitlines(), said.returncode


def lives(ledger: Ledger, server: Embedded, chains: list[str], how: str) -> list[int]:
    """What was charged, in micro-units, when the process was killed before statement 0, 1, ... of a life.

    `chains`: a new chain of accounts (names with spaces between) for each death. Asserts after each, and
    after recovery, that nothing is held, that what was answered was charged, and that what is stored is what
    was charged.
    """
    charged: list[int] = []
    for last, chain in enumerate(chains):
        own, *shared = chain.split()
        said, status = life(server, chain, last, how)
        _gone(server)
        Ledger.open(server.conninfo(), PINNED, instance="the killed one").close()
        row = ledger.accounts.get(own)
        assert row.reserved == Charge(0, 0)
        kept = ledger.replay(own, chain.encode())
        assert (kept == b"rows") == (row.used == Charge(5, 1))
        assert row.used in (Charge(0, 0), Charge(5, 1), Charge(7, 1))
        whole = Charge(0, 0) if row.used == Charge(0, 0) else Charge(7, 1)
        assert all(ledger.accounts.get(name).used == whole for name in shared)
        charged.append(row.used.information)
        if "answered rows" in said:
            assert row.used == Charge(5, 1)
        if status == 0:
            assert said[-1] == "answered rows"
            return charged
        assert status == -signal.SIGKILL
        assert said in (["ran"] * last, ["ran"] * last + ["answered rows"])
    raise AssertionError("the life has more statements than chains")


def _gone(server: Embedded) -> None:
    """Waits until the server has ended what a killed process sent: a commit may come after its death."""
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        for _ in range(1000):
            counted = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
            if connection.execute(counted, [DIES]).fetchone() == (0,):
                return
            time.sleep(0.01)
    raise AssertionError("the backends of a killed process stay")
