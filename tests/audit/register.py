"""All cases and all mutants of the audit, and what each look may err with."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from statistics import median_low

from tests.audit import (
    cap_cases,
    clip_cases,
    clip_mutants,
    continual_cases,
    correlated_cases,
    correlated_mutants,
    curve_cases,
    curve_mutants,
    distinct_cases,
    domain_mutants,
    gumb_cases,
    known_cases,
    numeric_cases,
    other_mutants,
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
    *gumb_cases.CASES,
    *release_cases.CASES,
    *selection_cases.CASES,
    *distinct_cases.CASES,
    *curve_cases.CASES,
    *cap_cases.CASES,
    *numeric_cases.CASES,
    *clip_cases.CASES,
    *correlated_cases.CASES,
    *continual_cases.CASES,
    *seed_cases.CASES,
)
MUTANTS: tuple[Mutant, ...] = (
    *domain_mutants.MUTANTS,
    *release_mutants.MUTANTS,
    *selection_mutants.MUTANTS,
    *other_mutants.MUTANTS,
    *clip_mutants.MUTANTS,
    *correlated_mutants.MUTANTS,
    *curve_mutants.MUTANTS,
    *cap_cases.MUTANTS,
)
LEVELS = Levels(
    privacy=PRIVACY_LEVEL / sum(check.privacy_looks for check in CASES),
    fit=FIT_LEVEL / sum(check.fit_looks for check in CASES),
)
CHECKS: tuple[Check, ...] = (*CASES, *(mutant.check for mutant in MUTANTS))


def found(effort: int, whole: bool = True) -> Iterator[Finding]:
    """Run all checks on all cores; give their findings in order, cases first.

    Where a case need not have its `whole` samples, it gets the share in which its mutants were caught. One without
    mutants of its own gets the share in which at least half of its mechanism's were.
    """
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        caught = list(pool.map(_caught, range(len(MUTANTS)), [effort] * len(MUTANTS)))
        efforts = [float(effort)] * len(CASES) if whole else _efforts([share for _, share in caught])
        yield from pool.map(_case, range(len(CASES)), efforts)
    yield from (finding for finding, _ in caught)


def _efforts(caught: list[float]) -> list[float]:
    """The samples that each case gets, by those that the mutants took; an exact check shows nothing of samples."""
    own, near = defaultdict[tuple[str, str], list[float]](list), defaultdict[str, list[float]](list)
    for mutant, effort in zip(MUTANTS, caught, strict=True):
        own[mutant.check.mechanism, mutant.check.what].append(effort)
        if mutant.check.privacy_looks or mutant.check.fit_looks:
            near[mutant.check.mechanism].append(effort)
    return [max(own[case.mechanism, case.what], default=median_low(near[case.mechanism])) for case in CASES]


def _case(number: int, effort: float) -> Finding:
    return CASES[number].run(LEVELS, effort)


def _caught(number: int, most: int) -> tuple[Finding, float]:
    """What is found of a mutant, and with which effort: what fails in fewer samples fails."""
    effort = MUTANTS[number].share
    while (finding := MUTANTS[number].check.run(LEVELS, effort)).passed and effort < most:
        effort = min(2 * effort, most)
    return finding, effort
