"""The short audit of the whole path from SQL to rows: no neighbours told apart beyond the price, mutants caught."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.audit import sequence_cases
from tests.audit.finding import Finding
from tests.audit.sql_cases import QUESTIONS, found
from tests.audit.sql_world import World, world

pytestmark = pytest.mark.statistical

Findings = tuple[list[Finding], list[Finding]]


@pytest.fixture(scope="module")
def neighbours() -> Iterator[World]:
    with world(whole=False) as made:
        yield made


@pytest.fixture(scope="module")
def findings(neighbours: World) -> Findings:
    return found(neighbours, 1)


@pytest.mark.parametrize("number", range(len(QUESTIONS)), ids=lambda n: QUESTIONS[n].mechanism)
def test_question(number: int, findings: Findings) -> None:
    assert findings[0][number].passed, findings[0][number]


def test_bounds_that_are_not_enforced_are_found(findings: Findings) -> None:
    assert len(findings[1]) == 4
    assert not any(finding.passed for finding in findings[1]), findings[1]


def test_what_is_implied_tells_no_more_than_what_was_bought(neighbours: World) -> None:
    """60 draws a sequence: the limit is five standard deviations above the claim, and the mutants are beyond it."""
    cases, afresh = sequence_cases.found(neighbours, 1)
    assert all(finding.passed for finding in cases), cases
    assert not any(finding.passed for finding in afresh), afresh
