"""All cases and all mutants of the audit, and what each look may err with."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from tests.audit import (
    continual_cases,
    distinct_cases,
    domain_mutants,
    gumb_cases,
    known_cases,
    numeric_cases,
    other_mutants,
    positive_cases,
    release_cases,
    release_mutants,
    restricted_cases,
    seed_cases,
    selection_cases,
    selection_mutants,
)
from tests.audit.finding import FIT_LEVEL, PRIVACY_LEVEL, Check, Finding, Levels
from tests.audit.mutant import Mutant

CASES: tuple[Check, ...] = (
    *known_cases.CASES,
    *restricted_cases.CASES,
    *positive_cases.CASES,
    *gumb_cases.CASES,
    *release_cases.CASES,
    *selection_cases.CASES,
    *distinct_cases.CASES,
    *numeric_cases.CASES,
    *continual_cases.CASES,
    *seed_cases.CASES,
)
MUTANTS: tuple[Mutant, ...] = (
    *domain_mutants.MUTANTS,
    *release_mutants.MUTANTS,
    *selection_mutants.MUTANTS,
    *other_mutants.MUTANTS,
)
LEVELS = Levels(
    privacy=PRIVACY_LEVEL / sum(check.privacy_looks for check in CASES),
    fit=FIT_LEVEL / sum(check.fit_looks for check in CASES),
)
CHECKS: tuple[Check, ...] = (*CASES, *(mutant.check for mutant in MUTANTS))


def found(effort: int) -> Iterator[Finding]:
    """Run all checks, cases first, on all cores; give their findings in order."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(_found, range(len(CHECKS)), [effort] * len(CHECKS))


def _found(number: int, effort: int) -> Finding:
    """A mutant is caught by a quarter of the samples where it can be: what fails there fails."""
    check = CHECKS[number]
    if number >= len(CASES) and not (quick := check.run(LEVELS, effort / 4)).passed:
        return quick
    return check.run(LEVELS, effort)
