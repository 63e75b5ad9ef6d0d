"""Runs histories for so many seconds, or one seed again."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, process_time

from tests.branches import Branches
from tests.simulator.history import History
from tests.simulator.mutants import MUTANTS, mutated
from tests.simulator.parts import Parts, parts
from tests.simulator.world import Reached


def run(parts: Parts, seed: int, reached: Reached) -> tuple[str | None, History]:
    """A history: what it has found, None for nothing."""
    history = History(seed, parts, reached)
    try:
        history.run()
    except Exception as error:
        return f"{type(error).__name__}: {error}", history
    return None, history


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulator")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, help="this history alone, with its traceback")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--branches", action="store_true", help="watch them, which takes time")
    parser.add_argument("--mutants", action="store_true", help="how soon each mutant is found")
    given = parser.parse_args()
    with TemporaryDirectory() as folder, parts(Path(folder)) as made:
        if given.seed is not None:
            history = History(given.seed, made, Reached())
            history.run()
            print(f"seed {given.seed}: nothing found; trace {history.world.trace}")
            return 0
        if given.mutants:
            return 0 if all(hunt(made, name, given.first, given.seconds) for name in MUTANTS) else 1
        branches = Branches("budget", "dpproxy/engine")
        with branches.watched() if given.branches else nullcontext():
            code = simulate(made, given.first, given.seconds)
        if given.branches:
            print(f"branches: {branches}")
        return code


def hunt(made: Parts, name: str, first: int, seconds: float) -> bool:
    """Whether a mutant is found in time; says by which seed."""
    begun, seed, said = process_time(), first, None
    with mutated(name):
        while said is None and process_time() - begun < seconds:
            said, _ = run(made, seed, Reached())
            seed += 1
    past = process_time() - begun
    print(
        f"{name}: {f'seed {seed - 1}: {said}' if said else 'NOT FOUND'} ({seed - first} histories, {past:.1f} s)",
        flush=True,
    )
    return said is not None


def simulate(made: Parts, first: int, seconds: float) -> int:
    """Runs histories from a seed on; says what they have reached and found."""
    reached, found, answers = Reached(), Counter[str](), 0
    begun, seed = monotonic(), first
    while (past := monotonic() - begun) < seconds:
        said, history = run(made, seed, reached)
        answers += history.checks.answers
        if said is not None:
            found[said] += 1
            if found[said] <= 3:
                print(f"seed {seed}: {said}", flush=True)
        seed += 1
    histories = seed - first
    for title, counts in (
        ("awaits", reached.awaits),
        ("crashes", reached.crashes),
        ("statements", reached.ends),
    ):
        print(f"{title}:")
        for name, times in sorted(counts.items()):
            print(f"{times:9} {name}")
    print(
        f"{histories} histories, {60 * histories / past:.0f} a minute, {answers} answers,"
        f" {sum(reached.crashes.values())} crashes, {sum(found.values())} findings of {len(found)} kinds"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
