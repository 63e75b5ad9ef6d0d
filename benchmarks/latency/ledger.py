"""`make bench-ledger`: queries a second through reserve and settle, with fsync on.

A query is two calls, each of which returns when it is on disk. Beside the ledger's figures stand the disk's own:
what one flush takes bounds one thread, whatever the ledger does. `--url URL` measures a PostgreSQL of yours
instead of a second embedded one by TCP (through a forwarding process, which takes its time too). Exit code 1 where
a target is missed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from urllib.parse import quote

from rich.console import Console
from rich.table import Table

from budget.account import Charge, Limit, Pinned, ReserveRequest, Settlement
from budget.ledger import Ledger
from dpproxy.embedded.server import Embedded

TARGET = 300
"""Queries a second that one account and 100 have to reach by many threads."""
SECONDS = 5.0
THREADS = (1, 4, 16)
ANSWER = bytes(500)
FORWARD = """
import asyncio, sys

async def pump(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()

async def serve(reader, writer):
    there = await asyncio.open_unix_connection(sys.argv[1])
    await asyncio.gather(pump(reader, there[1]), pump(there[0], writer), return_exceptions=True)

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""
_PINNED = Pinned(Fraction("0.15"), Fraction("1e-10"), Fraction("1e-9"), "household")


@dataclass(frozen=True)
class Run:
    """One measurement: how many `threads` asked for how many `accounts`; seconds of each query, in order."""

    where: str
    threads: int
    accounts: int
    elapsed: float
    times: tuple[float, ...]

    @property
    def rate(self) -> float:
        """Queries a second."""
        return len(self.times) / self.elapsed

    def quantile(self, part: float) -> float:
        """Milliseconds that so large a part of the queries stayed below."""
        return 1000 * self.times[int(len(self.times) * part)]


def measured(ledger: Ledger, where: str, threads: int, accounts: int, seconds: float = SECONDS) -> Run:
    """Lets threads ask for so long, each the accounts in turn, starting at different ones."""
    names = [f"analyst:{where} {threads} {number} of {accounts}" for number in range(accounts)]
    for name in names:
        ledger.accounts.seed(name, Limit(10**15, 10**15, "month"))
    times: list[float] = []
    started = time.perf_counter()

    def ask(number: int) -> None:
        turn = number * accounts // threads
        while time.perf_counter() < started + seconds:
            begun = time.perf_counter()
            query(ledger, names[turn % accounts])
            times.append(time.perf_counter() - begun)
            turn += 1

    running = [threading.Thread(target=ask, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return Run(where, threads, accounts, time.perf_counter() - started, tuple(sorted(times)))


def query(ledger: Ledger, account: str) -> None:
    """Reserve and settle, as for a top-10 of an unknown domain."""
    (held,) = ledger.reserve(
        ReserveRequest(
            [account], [Charge(21 * 10**6, 10**6)], reached=True, queries=["SELECT q"], mechanisms=["UnkGumb"]
        )
    )
    ledger.settle(
        held,
        Settlement(
            Charge(7 * 10**6, 10**6),
            release_key=held.id.bytes,
            request_key=held.id.bytes,
            answer=ANSWER,
            mechanism="UnkGumb",
            query="SELECT q",
            epoch="2026-01-01",
        ),
    )


def flush_milliseconds(folder: str, turns: int = 200) -> float:
    """The median time of one fdatasync of 8 KiB in a file that is there already."""
    times = []
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(bytes(8192 * turns))
        file.flush()
        os.fsync(file.fileno())
        for turn in range(turns):
            begun = time.perf_counter()
            os.pwrite(file.fileno(), b"1" * 8192, 8192 * turn)
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - begun)
    return 1000 * sorted(times)[turns // 2]


@contextmanager
def ledgers(folder: str, url: str | None) -> Iterator[dict[str, Ledger]]:
    """The embedded ledger by its socket, and one by a URL with TCP in it."""
    with (
        Embedded.start(Path(folder) / "embedded", durable=True) as near,
        Embedded.start(Path(folder) / "other", durable=True) as far,
        tcp(far) as conninfo,
    ):
        opened = {
            where: Ledger.open(conninfo, _PINNED, instance="benchmark")
            for where, conninfo in (("embedded", near.conninfo()), ("URL", url or conninfo))
        }
        yield opened
        for ledger in opened.values():
            ledger.close()


@contextmanager
def tcp(server: Embedded) -> Iterator[str]:
    """A URL of an embedded server, which has no port of its own: a process forwards to its socket."""
    forwarding = [sys.executable, "-c", FORWARD, str(server.socket_path)]
    with subprocess.Popen(forwarding, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        yield f"postgresql://{quote(server.user)}:{quote(server.password)}@127.0.0.1:{port}/postgres"
        process.terminate()


def main(url: str | None = None) -> bool:
    """Prints the table; whether the targets are reached."""
    with tempfile.TemporaryDirectory() as folder, ledgers(folder, url) as opened:
        flush = flush_milliseconds(folder)
        runs = [
            measured(ledger, where, threads, accounts)
            for where, ledger in opened.items()
            for accounts in (1, 100)
            for threads in THREADS
        ]
    table = Table("ledger", "accounts", "threads", "queries/s", "p50 ms", "p99 ms")
    for run in runs:
        row = (run.where, run.accounts, run.threads, f"{run.rate:.0f}")
        table.add_row(*map(str, row), f"{run.quantile(0.5):.1f}", f"{run.quantile(0.99):.1f}")
    Console().print(table)
    print(
        f"A flush of this disk takes {flush:.2f} ms, a query waits for two: at most {500 / flush:.0f}/s by one"
        " thread. More threads share flushes, of one account as well: no row is locked while the disk writes."
    )
    best = {(run.where, run.accounts): run.rate for run in runs if run.threads == max(THREADS)}
    missed = [f"{where}, {accounts} accounts" for (where, accounts), rate in best.items() if rate < TARGET]
    print(
        f"target {TARGET}/s by {max(THREADS)} threads: "
        + (f"missed at {'; '.join(missed)}" if missed else "reached")
    )
    return not missed


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[2] if sys.argv[1:2] == ["--url"] else None) else 1)
