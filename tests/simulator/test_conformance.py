"""The ledger's own conformance suite, over the simulated ledger: the functions of tests/budget with other fixtures.

Left out is what speaks SQL behind the ledger's back, or races by threads.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.budget import (
    test_attacks,
    test_clock_jumps,
    test_failures,
    test_generations,
    test_ledger,
    test_ledger_model,
    test_ledger_owner,
    test_ledger_streams,
    test_ledger_time,
    test_memberships,
    test_period_changes,
    test_single_flight,
)

pytestmark = pytest.mark.unit

SUITE: tuple[Any, ...] = (
    *(test_attacks, test_clock_jumps, test_failures, test_generations, test_ledger, test_ledger_model),
    *(
        test_ledger_owner,
        test_ledger_streams,
        test_ledger_time,
        test_memberships,
        test_period_changes,
        test_single_flight,
    ),
)
OTHERWISE = {"sql", "copies", "tmp_path", "other"}
"""Fixtures of PostgreSQL alone."""
RACES = {
    "test_budget_01",
    "test_processes_draw_once",
    "test_a_holder_that_dies_lets_go_at_once",
    "test_nothing_stays_behind",
}


def suite() -> Iterator[tuple[str, Callable[..., None]]]:
    """The tests by name."""
    for module in SUITE:
        for name, test in vars(module).items():
            ours = name.startswith("test_") and callable(test) and name not in RACES
            if ours and not OTHERWISE & inspect.signature(test).parameters.keys():
                yield f"{name}__{module.__name__.rpartition('.')[2]}", test


globals().update(suite())
