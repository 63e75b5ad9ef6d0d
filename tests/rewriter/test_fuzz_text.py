"""A short fuzz of the parser path: nothing but a refusal leaves the rewriter."""

from __future__ import annotations

import pytest

from tests.rewriter.fuzz import fuzz, texts, through

INPUTS = 2500


@pytest.mark.statistical
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
        ("SELECT SUM(0e) FROM users", "42601"),
        ("SELECT COUNT(*) FROM events e WHERE e.amount > (SELECT f WHERE f.user_id = e.user_id)", "answered"),
        ("SELECT COUNT(CASE WHEN quantity > 1 THEN 'p' WHEN 'x' <> 0.5 THEN 'q' END) FROM events", "PV020"),
        ("SELECT COUNT(*) FROM users WHERE user_id NOT IN (1, 2) AND NOT TRUE", "answered"),
        ("SELECT PERCENTILE_CONT(0.99) WITHIN GROUP (ORDER BY amount + 1e9991) FROM events", "22003"),
        (
            "SELECT width_bucket(, 0, 100, 4), COUNT(*) FROM events GROUP BY width_bucket(, amount, 100, 4)",
            "PV020",
        ),
        ("SELECT COUNT(*) FROM users WHERE substring(job_title, = 'Eng'", "PV020"),
        ("SELECT date_trunc('', now()), COUNT(*) FROM users", "answered"),
        ("SELECT date_trunc(', now()), COUNT(*) FROM users", "42601"),
        ("SELECT date_part('', signup_date), COUNT(*) FROM users GROUP BY 1", "PV020"),
        (
            "SELECT a.article_id,LATERALCOUNT(*) FILTER (WHERE NOT (e.amount IS NULL)) FROM articles a "
            "LEFT JOIN events e ON e.article_id = a.article_id GROUP BY a.article_id",
            "PV018",
        ),
    ],
    ids=lambda value: value[:60],
)
def test_what_once_left_it(text: str, outcome: str) -> None:
    assert through(text) == outcome
