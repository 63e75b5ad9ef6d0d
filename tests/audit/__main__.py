"""`python -m tests.audit [effort] [sql]`: every case must pass, every mutant must fail; exit code 1 otherwise.

First the mechanisms by themselves, then the whole path from SQL to rows, or with `sql` only that.

`effort` multiplies the samples of the short audit (default 10). `sequential SECONDS`: experiments alone, each until
it is certain or has used its part of SECONDS, with the power that was reached.
"""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tests.audit import sequence_cases, sql_cases
from tests.audit.experiment import Experiment
from tests.audit.finding import FIT_LEVEL, PRIVACY_LEVEL, Finding
from tests.audit.register import CASES, CHECKS, LEVELS, MUTANTS, found
from tests.audit.sequential import CONFIDENCE, sequential, until
from tests.audit.sql_world import world

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


def audit_sql(effort: int, console: Console) -> bool:
    """The same for the whole path from SQL to rows."""
    start = time.monotonic()
    with world(whole=True) as neighbours:
        cases, changed = sql_cases.found(neighbours, effort)
        together, afresh = sequence_cases.found(neighbours, effort)
    console.print(case_table(cases, "From SQL to rows"))
    for f in changed:
        verdict = "[red]MISSED" if f.passed else "caught"
        console.print(
            f"mutant of {f.mechanism}, a declared bound believed: {f.found} of {f.claimed}, {verdict}"
        )
    console.print(case_table(together, "Sequences of statements: squared distance of two sides"))
    for f in afresh:
        verdict = "[red]MISSED" if f.passed else "caught"
        console.print(f"mutant, implied answers drawn: {f.found} of {f.claimed}, {verdict}")
    cases, changed = [*cases, *together], [*changed, *afresh]
    passed, caught = all(f.passed for f in cases), not any(f.passed for f in changed)
    draws = sum(f.samples for f in [*cases, *changed])
    console.print(
        f"{draws:,} draws, {time.monotonic() - start:.0f} s, {1 - PRIVACY_LEVEL:.1%} confidence overall"
    )
    return passed and caught


def audit_in_time(seconds: float, console: Console) -> bool:
    """Every experiment, and every mutant that is one, in equal parts of the time that is left."""
    start = time.monotonic()
    mutants = {id(m.check): m.name for m in MUTANTS if isinstance(m.check, Experiment)}
    checks = [c for c in CHECKS if isinstance(c, Experiment)]
    found = []
    for place, check in enumerate(checks):
        left = start + seconds - time.monotonic()
        now = time.monotonic()
        finding, power = sequential(check, LEVELS, until(now + left / (len(checks) - place)))
        found.append((check, finding, power))
    table = Table("mechanism", "case", "claimed (eps, delta)", "found", "samples", "power", "verdict")
    right = True
    for check, finding, power in found:
        mutant = mutants.get(id(check))
        right &= finding.passed == (mutant is None)
        what = finding.what if mutant is None else f"{finding.what}, {mutant}"
        verdict = (
            ("ok" if finding.passed else "[red]BROKEN")
            if mutant is None
            else ("[red]MISSED" if finding.passed else "caught")
        )
        table.add_row(
            finding.mechanism,
            what,
            finding.claimed,
            finding.found,
            f"{finding.samples:,}",
            f"{power:.2f} eps",
            verdict,
        )
    console.print(table)
    powers = sorted(power for check, _, power in found if id(check) not in mutants)
    caught = sum(not finding.passed for check, finding, _ in found if id(check) in mutants)
    half, most = (f"{powers[part * len(powers) // 4]:.2f}" for part in (2, 3))
    console.print(
        f"{len(powers)} experiments: half would have found {half} times the claimed epsilon at {CONFIDENCE:.0e}, "
        f"three quarters {most}; {caught} of {len(mutants)} mutants caught, "
        f"{sum(f.samples for _, f, _ in found):,} samples, {time.monotonic() - start:.0f} s"
    )
    return right


def case_table(findings: list[Finding], title: str = "Audit") -> Table:
    """What was claimed and found of the mechanisms."""
    table = Table("mechanism", "case", "claimed (eps, delta)", "found", "samples", "verdict", title=title)
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
    words = sys.argv[1:]
    if words[:1] == ["sequential"]:
        sys.exit(0 if audit_in_time(float(words[1]), Console(width=170)) else 1)
    effort = int(words.pop(0)) if words and words[0].isdigit() else DEFAULT_EFFORT
    parts = [audit_sql] if words == ["sql"] else [audit, audit_sql]
    passed = [part(effort, Console(width=170)) for part in parts]
    sys.exit(0 if all(passed) else 1)
