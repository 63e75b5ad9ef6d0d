"""`python -m tests.audit [effort]`: every case must pass, every mutant must fail; exit code 1 otherwise.

`effort` multiplies the samples of the short audit (default 10).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor

from rich.console import Console
from rich.progress import track
from rich.table import Table

from tests.audit.finding import FIT_LEVEL, PRIVACY_LEVEL, Finding
from tests.audit.register import CASES, LEVELS, MUTANTS

DEFAULT_EFFORT = 10


def run_case(job: tuple[int, int]) -> Finding:
    """Run a case by its number, with an effort."""
    number, effort = job
    return CASES[number].run(LEVELS, effort)


def run_mutant(job: tuple[int, int]) -> Finding:
    """Run a mutant's check by its number, with an effort."""
    number, effort = job
    return MUTANTS[number].check.run(LEVELS, effort)


def audit(effort: int, console: Console) -> bool:
    """Run everything, print both tables; say whether all cases passed and all mutants were caught."""
    start = time.monotonic()
    with ProcessPoolExecutor(os.cpu_count()) as pool:

        def run(function: Callable[[tuple[int, int]], Finding], n: int, what: str) -> Iterator[Finding]:
            findings = pool.map(function, [(number, effort) for number in range(n)])
            return iter(track(findings, what, n, console=console))

        cases = list(run(run_case, len(CASES), "cases"))
        mutants = list(run(run_mutant, len(MUTANTS), "mutants"))
    console.print(case_table(cases))
    console.print(mutant_table(mutants))
    passed, caught = sum(f.passed for f in cases), sum(not f.passed for f in mutants)
    samples = sum(f.samples for f in (*cases, *mutants))
    console.print(
        f"{passed} of {len(cases)} cases passed, {caught} of {len(mutants)} mutants caught, {samples:,} samples, "
        f"{time.monotonic() - start:.0f} s, {1 - PRIVACY_LEVEL - FIT_LEVEL:.0%} confidence overall "
        f"({LEVELS.privacy:.1e} a look, {LEVELS.fit:.1e} a fit)"
    )
    return passed == len(cases) and caught == len(mutants)


def case_table(findings: list[Finding]) -> Table:
    """What was claimed and found of the mechanisms."""
    table = Table("mechanism", "case", "claimed (eps, delta)", "found", "samples", "verdict", title="Audit")
    for f in findings:
        table.add_row(
            f.mechanism, f.what, f.claimed, f.found, f"{f.samples:,}", "ok" if f.passed else "[red]BROKEN"
        )
    return table


def mutant_table(findings: list[Finding]) -> Table:
    """What was found of the mutants."""
    table = Table("mechanism", "mutant", "case", "claimed", "found", "samples", "verdict", title="Mutants")
    for mutant, f in zip(MUTANTS, findings, strict=True):
        verdict = "[red]MISSED" if f.passed else "caught"
        table.add_row(f.mechanism, mutant.name, f.what, f.claimed, f.found, f"{f.samples:,}", verdict)
    return table


if __name__ == "__main__":
    effort = int(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_EFFORT
    sys.exit(0 if audit(effort, Console(width=170)) else 1)
