"""The short audit, with fixed seeds: every mechanism passes every case, every mutant fails its own."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections import Counter

import pytest

import mechanisms
from tests.audit.bounds import bound, clopper_pearson
from tests.audit.claims import Claim
from tests.audit.experiment import Draw, Experiment
from tests.audit.finding import Check, Finding, Levels
from tests.audit.register import CASES, MUTANTS, found
from tests.audit.sequential import sequential

pytestmark = pytest.mark.statistical

SHORT = 1


def name(case: Check) -> str:
    return f"{case.mechanism}: {case.what}"


@pytest.fixture(scope="module")
def findings() -> tuple[Finding, ...]:
    """All of them at once, on all cores."""
    return tuple(found(SHORT, whole=False))


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda n: name(CASES[n]))
def test_case(number: int, findings: tuple[Finding, ...]) -> None:
    assert findings[number].passed, findings[number]


@pytest.mark.parametrize(
    "number", range(len(MUTANTS)), ids=lambda n: f"{MUTANTS[n].check.mechanism}: {MUTANTS[n].name}"
)
def test_mutant_is_caught(number: int, findings: tuple[Finding, ...]) -> None:
    finding = findings[len(CASES) + number]
    assert not finding.passed, finding


def test_every_mutant_fails_a_case_that_the_truth_passes() -> None:
    assert {name(mutant.check) for mutant in MUTANTS} <= set(map(name, CASES))
    assert max(Counter(map(name, CASES)).values()) == 1


def test_every_mechanism_is_audited() -> None:
    """Every public class of the room that has a price has cases."""
    classes = {
        cls.__name__
        for module in pkgutil.iter_modules(mechanisms.__path__, "mechanisms.")
        for cls in vars(importlib.import_module(module.name)).values()
        if inspect.isclass(cls) and hasattr(cls, "cost_at_most")
        if not cls.__name__.startswith("_") and not inspect.isabstract(cls)
    }
    assert classes - {"Mechanism"} == {case.mechanism for case in CASES} - {"seeds"}


def test_enough_mutants() -> None:
    assert len(MUTANTS) >= 18
    assert {mutant.check.mechanism for mutant in MUTANTS} >= {case.mechanism for case in CASES}


def test_bounds_find_randomised_response() -> None:
    """A coin that is 3/4 heads on one side: eps = ln 3, of which 4,000 samples prove more than 0.9."""
    p, q = [i // 2 % 4 != 3 for i in range(4000)], [i // 2 % 4 == 3 for i in range(4000)]
    found = bound(p, q, [Claim(1.0, 0.0)], 1e-3)
    assert 0.9 < found.epsilon < 1.0986
    assert found.share == found.epsilon


def test_bounds_find_nothing_in_equals() -> None:
    same = [i % 7 for i in range(7000)]
    found = bound(same, same, [Claim(0.01, 0.01), Claim(0.1, 0.0)], 1e-3)
    assert found.share == 0
    assert str(found) == "delta >= 0"


def coin(likely: bool) -> Draw:
    """Heads with 3/4, or with 1/4."""
    return lambda stream, n: [(word >> 62 > 0) == likely for word in stream.words(n).tolist()]


def test_a_sequential_test_stops_where_it_is_certain_and_tells_its_power() -> None:
    """A coin of eps = ln 3: a claim of 0.9 is refuted, one of ln 3 is not in 8,000 pairs, and 1.25 would have been."""
    views = {"raw": lambda heads: bool(heads)}
    low, right = (
        Experiment("coin", "ln 3", (Claim(epsilon, 0.0),), (coin(True), coin(False)), views, 4000)
        for epsilon in (0.9, 1.0987)
    )
    levels = Levels(1e-6, 1e-6)
    refuted, _ = sequential(low, levels, lambda total: total < 64_000)
    assert not refuted.passed
    passed, power = sequential(right, levels, lambda total: total < 8000)
    assert passed.passed
    assert 1 < power < 1.25


def test_clopper_pearson_covers() -> None:
    """Bounds of 0, all and some successes hold the rate; a smaller level gives a wider interval."""
    assert clopper_pearson(0, 100, 0.02)[0] == 0
    assert clopper_pearson(100, 100, 0.02)[1] == 1
    narrow, wide = clopper_pearson(40, 100, 0.1), clopper_pearson(40, 100, 1e-6)
    assert wide[0] < narrow[0] < 0.4 < narrow[1] < wide[1]
