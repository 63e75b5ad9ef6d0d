"""`python -m tests.stability corpora [UNITS]` and `python -m tests.stability generated [STATEMENTS [SEED]]`.

The first removes each of UNITS (default 50) from every statement of the corpora in $DPPROXY_SHARED that is accepted,
the second some from generated statements (default 10,000). Exit code 1 if a bound is broken.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import Manager
from pathlib import Path
from queue import Queue

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from dpproxy.embedded.server import Embedded
from tests.stability.corpora import accepted
from tests.stability.generated import Outcome, generated
from tests.stability.harness import Tally, check
from tests.stability.world import corpora_world, shop_world

UNITS, USERS = 50, 2000
STATEMENTS, GENERATED_UNITS, SHOP_USERS = 10_000, 3, 30
PROCESSES = 2
Advance = Callable[[int], None]


@contextmanager
def server() -> Iterator[tuple[Embedded, Path]]:
    """A PostgreSQL for one run, and a folder."""
    with tempfile.TemporaryDirectory() as folder:
        started = Embedded.start(Path(folder) / "server", durable=False)
        try:
            yield started, Path(folder)
        finally:
            started.stop()


def corpora_part(part: int, units: int, done: Queue[int]) -> Outcome:
    """One process's share of the corpora: every second node."""
    corpora = Path(os.environ["DPPROXY_SHARED"]) / "corpora"
    with server() as (started, folder), corpora_world(started, corpora, folder / "data", USERS) as world:
        asked = list(accepted(world, corpora))
        mine = asked[part::PROCESSES]
        tally = check(world, mine, world.some(units, 1), lambda: done.put(1))
        return Outcome(tally, len(mine), len(mine))


def generated_part(part: int, statements: int, seed: int, done: Queue[int]) -> Outcome:
    """One process's share of the generated statements."""
    with server() as (started, _), shop_world(started, SHOP_USERS) as world:
        number = statements // PROCESSES
        return generated(world, number, GENERATED_UNITS, seed * PROCESSES + part, done.put)


def main(arguments: list[str]) -> int:
    """Runs and prints what was tried and found."""
    kind, *numbers = arguments or ["corpora"]
    console, started = Console(), time.monotonic()
    first = int(numbers[0]) if numbers else UNITS if kind == "corpora" else STATEMENTS
    with Manager() as manager, ProcessPoolExecutor(PROCESSES) as pool:
        done: Queue[int] = manager.Queue()
        if kind == "corpora":
            work, total = partial(corpora_part, units=first, done=done), 2 * PROCESSES * first
        else:
            seed = int(numbers[1]) if len(numbers) > 1 else 1
            work, total = partial(generated_part, statements=first, seed=seed, done=done), first
        outcome = Outcome()
        running = [pool.submit(work, part) for part in range(PROCESSES)]
        columns = TextColumn(kind), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        with Progress(*columns, console=console, transient=True) as progress:
            bar = progress.add_task(kind, total=total)
            while not all(share.done() for share in running):
                time.sleep(0.2)
                while not done.empty():
                    progress.advance(bar, done.get())
        for share in running:
            outcome.add(share.result())
    report(kind, outcome, console, time.monotonic() - started)
    return 1 if outcome.tally.violations else 0


def report(kind: str, outcome: Outcome, console: Console, seconds: float) -> None:
    """Prints every violation, and how much was tried."""
    tally: Tally = outcome.tally
    for violation in tally.violations:
        console.print(f"[red]BROKEN[/] {violation}", highlight=False, soft_wrap=True)
    if kind == "generated":
        refused = ", ".join(f"{code} {n}" for code, n in sorted(outcome.refused.items()))
        console.print(
            f"{outcome.statements:,} statements that PostgreSQL reads, {outcome.answered:,} answered; "
            f"refused: {refused}"
        )
    console.print(
        f"{kind}: {tally.questions:,} nodes, {tally.units} units removed from each, {tally.comparisons:,} comparisons "
        f"of {tally.cells:,} cells on both engines, {len(tally.violations)} violations, {seconds:.0f} s"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
