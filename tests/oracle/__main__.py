"""`python -m tests.oracle`: removes units from random statements until its time is up, and prints what it found.

`--only WORLD SQL` asks one statement again, over the data set that a violation names. Exit code 1 for a violation or a
crash.
"""

from __future__ import annotations

import argparse
import importlib.util
import shlex
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from tests.oracle.run import Row, Tally, again, run, server_of_its_own

ENGINES = ("duckdb", "postgresql", "spark")


def options(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--seed", default=str(time.time_ns() % 10**6))
    parser.add_argument("--engines", default="duckdb,postgresql")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--until-violation", action="store_true", help="stop at the first one of each process"
    )
    parser.add_argument("--only", nargs=2, metavar=("WORLD", "SQL"), help="ask one statement again")
    return parser.parse_args(arguments)


def engines_of(listed: str) -> list[str]:
    """The engines that are asked for and that are installed here."""
    names = listed.split(",")
    if unknown := set(names) - set(ENGINES):
        raise SystemExit(f"no engine is called {', '.join(sorted(unknown))}")
    if "spark" in names and importlib.util.find_spec("pyspark") is None:
        print("spark: pyspark is not installed here, so it is left out")
        names.remove("spark")
    return names


def share(seed: str, engines: list[str], seconds: float, stopping: bool) -> Tally:
    """What one process tries."""
    deadline = time.monotonic() + seconds

    def going(tally: Tally) -> bool:
        return time.monotonic() < deadline and not (stopping and tally.violations)

    with server_of_its_own() as (server, folder):
        return run(seed, engines, going, server, folder)


def main(arguments: list[str]) -> int:
    """Runs and reports."""
    asked = options(arguments)
    started, tally = time.monotonic(), Tally()
    if asked.only:
        tally = again(*asked.only)
    else:
        engines = engines_of(asked.engines)
        part = partial(share, engines=engines, seconds=asked.seconds, stopping=asked.until_violation)
        with ProcessPoolExecutor(asked.processes) as pool:
            for found in pool.map(part, [f"{asked.seed}.{number}" for number in range(asked.processes)]):
                tally.add(found)
    report(tally)
    print(f"oracle: seed {asked.seed}, {time.monotonic() - started:.0f} s")
    return 1 if tally.violations or tally.crashes else 0


def report(tally: Tally) -> None:
    """Prints the violations, each statement once, and how much was tried."""
    for violation in sorted(tally.violations, key=lambda v: v.seconds):
        print(f"BROKEN after {violation.seconds:.0f} s: {violation.world}\n  {violation.sql}")
        for what, sql in violation.broken[:2]:
            print(f"  {what}")
            print("    " + sql.replace("\n", "\n    "))
        print(f"  once more: python -m tests.oracle --only {violation.world} {shlex.quote(violation.sql)}")
    for what, where in tally.crashes.items():
        print(f"CRASH {what}: {where}")
    columns = list(vars(Row()))
    print(f"{'engine':<12}" + "".join(f"{c:>12}" for c in columns))
    for engine, row in tally.rows.items():
        print(f"{engine:<12}" + "".join(f"{getattr(row, c):>12,}" for c in columns))
    print("refused: " + ", ".join(f"{code} {n:,}" for code, n in tally.refused.most_common()))
    where = ", ".join(f"in {databases} databases {n:,}" for databases, n in tally.failed.most_common())
    print(f"failed at the backend: {where or 'none'}")
    accepted = sum(reached.accepted > 0 for reached in tally.reached.values())
    print(f"branches of the rewriter: {len(tally.branches):,}")
    print(f"operators in each other: {len(tally.reached):,} pairs, {accepted:,} accepted")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
