"""`python -m tests.replay`: records statements and replays them on neighbouring databases until its time is up.

`--mutants` plants the mutants instead, one after the other, and says after how long each is found. Exit code 1 for a
finding, or for a mutant that is not found.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path

from tests.branches import Arc, Branches
from tests.oracle.__main__ import engines_of
from tests.oracle.world import Server
from tests.replay.mutants import MUTANTS, TERMS
from tests.replay.recorder import Recorder
from tests.replay.replay import Tally, replayed
from tests.replay.run import run
from tests.replay.world import WITH, WITHOUT, audited, world

ROOMS = ("mechanisms", "dpproxy/engine")


def options(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.replay", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--seed", default=str(time.time_ns() % 10**6))
    parser.add_argument("--engines", default="duckdb,postgresql")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--branches", action="store_true", help="watch them, which takes time")
    parser.add_argument("--mutants", action="store_true")
    return parser.parse_args(arguments)


@contextmanager
def server_of_its_own() -> Iterator[tuple[Server, Path]]:
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder), ledgers=True)
        try:
            yield server, Path(folder)
        finally:
            server.close()


def share(seed: str, engines: Sequence[str], seconds: float, watch: bool) -> tuple[Tally, set[Arc]]:
    """What one process tries, and the branches that it took."""
    deadline = time.monotonic() + seconds
    shared = os.environ.get("DPPROXY_SHARED")
    branches = Branches(*ROOMS)
    with server_of_its_own() as (server, folder), branches.watched() if watch else nullcontext():
        tally = run(
            seed,
            engines,
            lambda tally: time.monotonic() < deadline,
            server,
            folder,
            Path(shared) if shared else None,
        )
    return tally, branches.seen


def mutants() -> int:
    """How many mutants are not found."""
    missed = 0
    with (
        server_of_its_own() as (server, folder),
        world("audited-duckdb-0", audited(), TERMS, server, folder) as made,
    ):
        for number, mutant in enumerate(MUTANTS):
            started, recorder = time.monotonic(), Recorder()
            with mutant.active(), recorder.active():
                asked = mutant.asked(number)
                found = replayed(made, (WITHOUT, WITH), f"{number}", asked, {}, recorder, Tally())
            missed += not found
            what = found[0] if found else "NOT FOUND"
            print(f"{time.monotonic() - started:6.2f} s  {mutant.name}: {what}")
    return missed


def main(arguments: list[str]) -> int:
    """Runs and reports."""
    asked = options(arguments)
    if asked.mutants:
        return 1 if mutants() else 0
    started, tally, branches = time.monotonic(), Tally(), Branches(*ROOMS)
    part = partial(share, engines=engines_of(asked.engines), seconds=asked.seconds, watch=asked.branches)
    with ProcessPoolExecutor(asked.processes) as pool:
        for found, taken in pool.map(part, [f"{asked.seed}.{n}" for n in range(asked.processes)]):
            tally.add(found)
            branches.seen |= taken
    report(tally, branches)
    print(f"replay: seed {asked.seed}, {time.monotonic() - started:.0f} s")
    return 1 if tally.findings else 0


def report(tally: Tally, branches: Branches) -> None:
    """Prints the findings, the first of each data set, and how much was tried."""
    for finding in sorted(tally.findings, key=lambda f: f.seconds):
        print(f"FOUND after {finding.seconds:.0f} s: {finding.place}: {finding.what}\n  {finding.sql}")
    print(f"{'mechanism':<44}{'blocks':>10}{'draws':>10}{'tightest':>10}")
    for name, row in sorted(tally.rows.items()):
        print(f"{name:<44}{row.blocks:>10,}{row.steps:>10,}{row.tight:>10.3f}")
    if branches.seen:
        print(f"branches: {branches}")
    where = ", ".join(f"on {sides} sides {n:,}" for sides, n in tally.failed.most_common())
    print(f"failed at the backend: {where or 'none'}")
    print("refused: " + ", ".join(f"{code} {n:,}" for code, n in tally.refused.most_common()))
    print(
        f"{tally.statements:,} statements ({', '.join(f'{e} {n:,}' for e, n in sorted(tally.engines.items()))}), "
        f"{tally.answered:,} answered, {tally.nodes:,} nodes, {tally.replays:,} replays, "
        f"{sum(row.steps for row in tally.rows.values()):,} draws compared, {len(tally.findings)} findings"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
