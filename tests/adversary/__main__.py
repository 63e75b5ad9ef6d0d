"""`python -m tests.adversary`: walks by seeds until the time is up, each over a deployment of its own.

`--mutants` plants the mutants instead, one after the other, and says after how many steps each is found. Exit code 1
for a finding, or for a mutant that is not found.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from random import Random

from tests.adversary.deployment import SIDES, Pair, pair
from tests.adversary.mutants import MUTANTS, Mutant
from tests.adversary.walk import Tally, Walk
from tests.oracle.world import Server

STEPS = 80
"""Of a walk."""


def options(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.adversary", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--seed", default=str(time.time_ns() % 10**6))
    parser.add_argument("--walk", help="one walk alone, by the name that a finding tells")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--mutants", metavar="WORDS", nargs="?", const="", help="all, or those with these words"
    )
    return parser.parse_args(arguments)


@contextmanager
def started() -> Iterator[tuple[Server, Path]]:
    """A server of its own, and a folder."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder) / "server", ledgers=True)
        try:
            yield server, Path(folder)
        finally:
            server.close()


def walked(seed: str, made: Pair, tally: Tally, steps: int = STEPS, mutant: Mutant | None = None) -> None:
    """A walk, up to what is wrong first; the pair can be walked over again."""
    with mutant.active() if mutant else nullcontext():
        walk = Walk(seed, made, tally, mutant.actions if mutant else None)
        try:
            walk.run(steps)
        finally:
            walk.close()


def alone(seed: str, server: Server, folder: Path, mutant: Mutant | None = None) -> Tally:
    """A walk over a deployment of its own, in which a unit is added, or removed."""
    tally, order = Tally(), SIDES if Random(seed).random() < 0.5 else SIDES[::-1]
    with tempfile.TemporaryDirectory(dir=folder) as place, pair(server, Path(place), order) as made:
        walked(seed, made, tally, mutant=mutant)
    return tally


def share(seed: str, seconds: float) -> Tally:
    """What one process tries."""
    deadline, found = time.monotonic() + seconds, Tally()
    with started() as (server, folder):
        while time.monotonic() < deadline:
            found.add(alone(f"{seed}.{found.walks}", server, folder))
    return found


def mutants(seed: str, words: str) -> int:
    """How many mutants are not found."""
    missed = 0
    with started() as (server, folder):
        for mutant in (one for one in MUTANTS if words in one.name):
            since = time.monotonic()
            tally = alone(seed, server, folder, mutant)
            missed += not tally.findings
            what = tally.findings[0].what if tally.findings else "NOT FOUND"
            print(
                f"{tally.steps:3} steps, {time.monotonic() - since:5.1f} s  {mutant.name}: {what}", flush=True
            )
    return missed


def main(arguments: list[str]) -> int:
    """Runs and reports."""
    asked = options(arguments)
    if asked.mutants is not None:
        return 1 if mutants(asked.seed, asked.mutants) else 0
    since, tally = time.monotonic(), Tally()
    if asked.walk:
        with started() as (server, folder):
            tally = alone(asked.walk, server, folder)
    else:
        part = partial(share, seconds=asked.seconds)
        with ProcessPoolExecutor(asked.processes) as pool:
            for found in pool.map(part, [f"{asked.seed}.{n}" for n in range(asked.processes)]):
                tally.add(found)
    report(tally)
    print(f"adversary: seed {asked.walk or asked.seed}, {time.monotonic() - since:.0f} s")
    return 1 if tally.findings else 0


def report(tally: Tally) -> None:
    """Prints the findings and how much was tried."""
    for finding in tally.findings:
        print(f"FOUND {finding}")
    print("actions: " + ", ".join(f"{name} {n:,}" for name, n in tally.actions.most_common()))
    where = ", ".join(f"on {sides} sides {n:,}" for sides, n in tally.failed.most_common())
    print(f"failed at the backend: {where or 'none'}")
    print("refused: " + ", ".join(f"{code} {n:,}" for code, n in tally.refused.most_common()))
    print(
        f"{tally.walks:,} walks, {tally.steps:,} steps, {tally.answered:,} statements with an answer, {tally.free:,} "
        f"of them free, {tally.draws:,} draws, {tally.tight:.6f} of its charges lost by an account at most, "
        f"{len(tally.findings)} findings"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
