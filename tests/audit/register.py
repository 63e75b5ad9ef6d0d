"""All cases and all mutants of the audit, and what each look may err with."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from tests.audit import (
    clip_cases,
    clip_mutants,
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
    *clip_cases.CASES,
    *continual_cases.CASES,
    *seed_cases.CASES,
)
MUTANTS: tuple[Mutant, ...] = (
    *domain_mutants.MUTANTS,
    *release_mutants.MUTANTS,
    *selection_mutants.MUTANTS,
    *other_mutants.MUTANTS,
    *clip_mutants.MUTANTS,
)
LEVELS = Levels(
    privacy=PRIVACY_LEVEL / sum(check.privacy_looks for check in CASES),
    fit=FIT_LEVEL / sum(check.fit_looks for check in CASES),
)
CHECKS: tuple[Check, ...] = (*CASES, *(mutant.check for mutant in MUTANTS))


SHARES = (1 / 4, 1 / 2, 1.0)
"""Of its samples a mutant gets so many, until it is caught."""


def found(effort: int, least: float = 1.0) -> Iterator[Finding]:
    """Run all checks on all cores; give their findings in order, cases first.

    A case gets the share of its samples in which its mutants were caught, `least` at least.
    """
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        caught = list(pool.map(_caught, range(len(MUTANTS)), [effort] * len(MUTANTS)))
        shares = dict.fromkeys(((case.mechanism, case.what) for case in CASES), least)
        for mutant, (_, share) in zip(MUTANTS, caught, strict=True):
            case = (mutant.check.mechanism, mutant.check.what)
            shares[case] = max(shares[case], share)
        yield from pool.map(_case, range(len(CASES)), [effort * share for share in shares.values()])
    yield from (finding for finding, _ in caught)


def _case(number: int, effort: float) -> Finding:
    return CASES[number].run(LEVELS, effort)


def _caught(number: int, effort: int) -> tuple[Finding, float]:
    """What is found of a mutant, and in which share of the samples: what fails in fewer fails."""
    for share in SHARES:
        finding = MUTANTS[number].check.run(LEVELS, effort * share)
        if not finding.passed:
            break
    return finding, share
