"""A short fuzz of the parser path: nothing but a refusal leaves the rewriter."""

from __future__ import annotations

import pytest

from tests.rewriter.fuzz import fuzz, texts, through

INPUTS = 2500


def test_nothing_but_a_refusal_leaves_the_rewriter() -> None:
    left = iter(range(INPUTS))
    found = fuzz(texts(20261121), lambda: next(left, None) is not None)
    assert not found.crashes
    assert found.inputs == INPUTS
    assert found.outcomes["answered"] > INPUTS // 40
    assert found.outcomes["42601"] < INPUTS * 3 // 4


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("SELECT COUNT(*) FROM users WHERE user_id = $2e", "42601"),
        ("SELECT COUNT(*) FROM users WHERE user_id = $" + "9" * 5000, "54001"),
        ("SELECT COUNT(*) FROM users GROUP BY " + "9" * 5000, "54001"),
        ("SELECT COUNT() FROM users", "42883"),
    ],
    ids=lambda value: value[:60],
)
def test_what_once_left_it(text: str, outcome: str) -> None:
    assert through(text) == outcome
