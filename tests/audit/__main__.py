"""`python -m tests.audit [effort]`: every case must pass, every mutant must fail; exit code 1 otherwise.

`effort` multiplies the samples of the short audit (default 10).
"""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tests.audit.finding import FIT_LEVEL, PRIVACY_LEVEL, Finding
from tests.audit.register import CASES, CHECKS, LEVELS, MUTANTS, found

DEFAULT_EFFORT = 10


def audit(effort: int, console: Console) -> bool:
    """Run everything, print both tables; say whether all cases passed and all mutants were caught."""
    start = time.monotonic()
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("audit", total=len(CHECKS))
        findings = []
        for finding in found(effort):
            findings.append(finding)
            progress.advance(bar)
    cases, mutants = findings[: len(CASES)], findings[len(CASES) :]
    console.print(case_table(cases))
    console.print(mutant_table(mutants))
    passed, caught = sum(f.passed for f in cases), sum(not f.passed for f in mutants)
    console.print(
        f"{passed} of {len(cases)} cases passed, {caught} of {len(mutants)} mutants caught, "
        f"{sum(f.samples for f in findings):,} samples, {time.monotonic() - start:.0f} s, "
        f"{1 - PRIVACY_LEVEL - FIT_LEVEL:.0%} confidence overall "
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
