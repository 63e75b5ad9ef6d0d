"""`make ledger-torture`: processes race for one account after the other, some are killed, and nothing is lost.

In each round all threads of all processes buy from one account until it refuses. Each worker says what it was
answered before it goes on; at the end every account must have been charged at least that, and at most its limit.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from budget.account import (
    Charge,
    ContinualStep,
    Exhausted,
    LedgerError,
    Limit,
    Overtaken,
    ReserveRequest,
    Settlement,
)
from budget.ledger import Ledger
from dpproxy.embedded.server import Embedded
from tests.budget.dying import PINNED, WAYS, lives

LIMIT, MOST = Limit(600, 600, "none"), Charge(7, 1)
KILL_SECONDS = 3
TEAM = "team:all"
SHARED_KEYS = 5
"""Release keys of a round that several threads buy at once."""
STREAMS = 3
"""Streams that all accounts look at."""


_PAID_FOR_STREAMS = """
SELECT entry.account, look.stream, array_agg(entry.information) FILTER (WHERE entry.information > 0)
FROM dpproxy_ledger.entry JOIN dpproxy_ledger.look ON look.release_key = entry.release_key
WHERE entry.kind = 'settle'
GROUP BY entry.account, look.stream
"""
"""What each account, the team too, was charged for the looks at a stream that it was answered."""


@dataclass
class Figures:
    """What a race came to."""

    seconds: float
    accounts: int = 0
    answers: int = 0
    refusals: int = 0
    spent: int = 0
    given_back: int = 0
    killed: int = 0
    tightest: int = LIMIT.information
    milliseconds: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        times = sorted(self.milliseconds)
        p50, p99 = (times[int(len(times) * part)] for part in (0.5, 0.99))
        return (
            f"{self.seconds:.0f} s, {self.accounts} accounts raced for: {self.answers} answers"
            f" ({self.answers / self.seconds:.0f}/s, p50 {p50:.1f} ms, p99 {p99:.1f} ms), {self.spent} spent,"
            f" {self.given_back} given back, {self.refusals} refusals, {self.killed} processes killed;\n"
            f"no account above its limit (the fullest left {self.tightest} of {LIMIT.information}), no deadlock,"
            " no answer lost, every balance as its entries say"
        )


def work(conninfo: str, name: str, seconds: float, connections: int, seed: int) -> None:
    """One process: so many threads that race until the time is over, saying what came of it line by line."""
    ledger = Ledger.open(conninfo, PINNED, instance=name, connections=connections)
    ends, said = time.monotonic() + seconds, threading.Lock()

    def say(**facts: object) -> None:
        with said:
            print(json.dumps(facts), flush=True)

    def race(number: int) -> None:
        chance, turn = random.Random(seed * 100 + number), 0
        while time.monotonic() < ends:
            account = f"analyst:{turn}"
            ledger.accounts.seed(account, LIMIT)
            try:
                buy(ledger, account, chance, say)
            except Exhausted:
                say(kind="refused")
                row = ledger.accounts.get(account)
                if row.left.information + row.reserved.information < MOST.information:
                    turn += 1
                else:
                    time.sleep(0.02)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def buy(ledger: Ledger, account: str, chance: random.Random, say: object) -> None:
    """One life of a charge, as chance will have it; raises Exhausted."""
    assert callable(say)
    chain = [account, TEAM] if chance.random() < 0.5 else [account]
    if chance.random() < 0.1:
        watch(ledger, chain, b"stream %d" % chance.randrange(STREAMS), say)
        return
    started, what = time.monotonic(), chance.random()
    (held,) = ledger.reserve(
        ReserveRequest(chain, [MOST], reached=what > 0.1, queries=["q"], mechanisms=["m"])
    )
    if what <= 0.1:
        ledger.release(held)
        say(kind="released")
    elif what <= 0.2:
        ledger.spend(held)
        say(kind="spent", account=account, charged=held.at_most.information)
    else:
        shared = f"{account} {chance.randrange(SHARED_KEYS)}"
        key = shared.encode() if what <= 0.4 else held.id.bytes
        done = ledger.settle(
            held,
            Settlement(
                Charge(chance.randrange(1, 8), 1),
                release_key=key,
                request_key=key,
                answer=held.id.bytes,
                mechanism="m",
                query="q",
                epoch="e",
            ),
        )
        say(
            kind="answered",
            account=account,
            charged=done.charged.information,
            key=key.hex(),
            answer=done.answer.hex(),
            milliseconds=1000 * (time.monotonic() - started),
        )


def watch(ledger: Ledger, chain: list[str], stream: bytes, say: object) -> None:
    """A look at a stream, the same that others take, or one that others have overtaken; raises Exhausted."""
    assert callable(say)
    started, known = time.monotonic(), ledger.stream(chain, stream)
    most = Charge(0, 0) if known.paid else MOST
    (held,) = ledger.reserve(
        ReserveRequest(chain, [most], reached=True, queries=["q"], mechanisms=["m"], looking=True)
    )
    key = b"%s, look %d" % (stream, known.looks + 1)
    settlement = Settlement(
        MOST,
        release_key=key,
        request_key=key,
        answer=held.id.bytes,
        mechanism="m",
        query="q",
        epoch="e",
        look=ContinualStep(stream, known.looks),
    )
    try:
        done = ledger.settle(held, settlement)
    except Overtaken:
        ledger.spend(held)
        say(kind="spent", account=chain[0], charged=most.information)
        return
    say(
        kind="answered",
        account=chain[0],
        charged=done.charged.information,
        key=key.hex(),
        answer=done.answer.hex(),
        milliseconds=1000 * (time.monotonic() - started),
    )


def race(server: Embedded, seconds: float, processes: int, connections: int) -> Figures:
    """Races, killing and replacing one process every KILL_SECONDS, then checks everything that was said."""
    ledger = Ledger.open(server.conninfo(), PINNED, instance="the judge")
    ledger.accounts.seed(TEAM, Limit(10**15, 10**15, "none"))
    figures, started = Figures(seconds), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        outputs: list[Path] = []

        def begin(number: int, rest: float) -> subprocess.Popen[bytes]:
            outputs.append(Path(folder) / f"{len(outputs)}")
            worker = [
                sys.executable,
                "-m",
                "tests.budget.torture",
                "worker",
                server.conninfo(),
                f"racer {number}",
            ]
            with outputs[-1].open("wb") as output:
                return subprocess.Popen(
                    [*worker, str(rest), str(connections), str(len(outputs))], stdout=output
                )

        running = [begin(number, seconds) for number in range(processes)]
        while (rest := started + seconds - time.monotonic()) > KILL_SECONDS:
            time.sleep(KILL_SECONDS)
            number = figures.killed % processes
            running[number].send_signal(signal.SIGKILL)
            running[number].wait()
            figures.killed += 1
            running[number] = begin(number, rest - KILL_SECONDS)
        for process in running:
            assert process.wait() == 0, "a worker failed"
        lines = [line for path in outputs for line in path.read_text().splitlines(keepends=True)]
    for number in range(processes):
        Ledger.open(server.conninfo(), PINNED, instance=f"racer {number}").close()
    # A line that was cut short by a kill was not said.
    judge(ledger, server, [json.loads(line) for line in lines if line.endswith("\n")], figures)
    ledger.close()
    return figures


def judge(ledger: Ledger, server: Embedded, said: list[dict[str, object]], figures: Figures) -> None:
    """Asserts that what was said is what the ledger has, and counts it."""
    charged: dict[object, int] = defaultdict(int)
    answers: dict[tuple[object, object], object] = {}
    for one in said:
        if one["kind"] in ("answered", "spent"):
            charged[one["account"]] += int(str(one["charged"]))
        if one["kind"] == "answered":
            name = (one["account"], one["key"])
            assert answers.setdefault(name, one["answer"]) == one["answer"], (
                "two answers under one release key"
            )
            figures.milliseconds.append(float(str(one["milliseconds"])))
    for (account, key), answer in answers.items():
        kept = ledger.replay(str(account), bytes.fromhex(str(key)))
        assert kept is not None, "an answer was lost"
        assert kept.hex() == answer, "an answer has changed"
    for row in ledger.accounts.all():
        assert row.reserved == Charge(0, 0), "something is held after recovery"
        if row.account != TEAM:
            assert charged[row.account] <= row.used.information <= LIMIT.information
            figures.tightest = min(figures.tightest, row.left.information)
    assert ledger.history.verify() is None
    with psycopg.connect(server.conninfo()) as connection:
        paid = connection.execute(_PAID_FOR_STREAMS).fetchall()
        (deadlocks,) = connection.execute("SELECT sum(deadlocks) FROM pg_stat_database").fetchone() or (None,)
    assert deadlocks == 0
    assert paid, "nobody looked at a stream"
    assert all(charges == [MOST.information] for _, _, charges in paid), "a stream was not paid once"
    kinds = Counter(one["kind"] for one in said)
    figures.accounts = len(ledger.accounts.all()) - 1
    figures.answers, figures.refusals = kinds["answered"], kinds["refused"]
    figures.spent, figures.given_back = kinds["spent"], kinds["released"]


def deaths(server: Embedded) -> None:
    """Kills a process before each statement of a query's life, in each way of sending them; prints what was charged."""
    ledger = Ledger.open(server.conninfo(), PINNED, instance="the judge")
    for way, how in enumerate(WAYS):
        chains = [f"analyst:{way}-{number} {TEAM}-{way}-{number}" for number in range(60)]
        for name in " ".join(chains).split():
            ledger.accounts.seed(name, LIMIT)
        used = lives(ledger, server, chains, how)
        told = ", ".join(f"{count} {what}" for what, count in _outcomes(used).items())
        print(f"killed before each of {len(used) - 1} statements, {how}: {told}; answered implies charged")
    ledger.close()


def _outcomes(used: list[int]) -> Counter[str]:
    names = {0: "not charged", 7: "spent whole", 5: "settled"}
    return Counter(names[amount] for amount in used)


def main(seconds: int = 60, processes: int = 8, connections: int = 4) -> None:
    """Races, then kills; raises AssertionError where the ledger does not hold."""
    print(f"{processes} processes x {connections} connections")
    with (
        tempfile.TemporaryDirectory() as folder,
        Embedded.start(Path(folder) / "ledger", durable=True) as server,
    ):
        print(race(server, seconds, processes, connections), flush=True)
        deaths(server)


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        work(sys.argv[2], sys.argv[3], float(sys.argv[4]), int(sys.argv[5]), int(sys.argv[6]))
        sys.stdout.flush()
        os._exit(0)
    try:
        main(*map(int, sys.argv[1:]))
    except (AssertionError, LedgerError) as error:
        sys.exit(f"the ledger does not hold: {error}")
