"""All cases and all mutants of the audit, and what each look may err with."""

from __future__ import annotations

from tests.audit import gumb_cases, known_cases, mutants, restricted_cases
from tests.audit.finding import FIT_LEVEL, PRIVACY_LEVEL, Check, Levels
from tests.audit.mutants import Mutant

CASES: tuple[Check, ...] = (*known_cases.CASES, *restricted_cases.CASES, *gumb_cases.CASES)
MUTANTS: tuple[Mutant, ...] = mutants.MUTANTS
LEVELS = Levels(
    privacy=PRIVACY_LEVEL / sum(check.privacy_looks for check in CASES),
    fit=FIT_LEVEL / sum(check.fit_looks for check in CASES),
)
