"""Deviations of expressions over released columns, compared with those of draws of the columns' noise."""

from __future__ import annotations

import duckdb
import numpy as np
import pytest
from sqlglot import exp, parse_one

from rewriter.logical.error_propagation import Expressions, Noise, NoisyRows

VALUES = ((1000.0, 400.0, 9.0), (2000.0, 500.0, 16.0), (1500.0, 800.0, 25.0))
"""c0, c1 and c2 of three rows, released with these deviations:"""
NOISE = (6.0, 3.0, 0.05)
DRAWS = 20_000
EXPRESSIONS = Expressions(NoisyRows({("r", f"c{n}"): Noise.OWN for n in range(3)}))


def evaluated(sql: str, columns: np.ndarray) -> np.ndarray:
    """The values of an expression over rows that have a draw, a number and the columns: one a draw and row."""
    with duckdb.connect() as connection:
        draws, rows, _ = columns.shape
        at = np.indices((draws, rows)).reshape(2, -1)
        flat = columns.reshape(-1, 3)
        frame = {"draw": at[0], "k": at[1], "c0": flat[:, 0], "c1": flat[:, 1], "c2": flat[:, 2]}
        frame |= {f"e_c{n}": np.full(draws * rows, noise) for n, noise in enumerate(NOISE)}
        connection.register("drawn", {name: np.ascontiguousarray(part) for name, part in frame.items()})
        found = connection.execute(f"SELECT draw, k, {sql} FROM drawn AS r ORDER BY 1, 2").fetchnumpy()
        values: np.ndarray = np.ma.filled(np.ma.asarray(found[[*found][2]], dtype=float), np.nan)
        return values.reshape(draws, rows)


def of_each_draw(node: exp.Expr) -> str:
    """As SQL, with windows over the rows of one draw."""
    tree = node.copy()
    for window in tree.find_all(exp.Window):
        window.set("partition_by", [exp.column("draw", table="r")])
    return tree.sql("duckdb")


@pytest.mark.parametrize(
    "sql",
    [
        "r.c0",
        "r.c0 / 100",
        "-2 * r.c0 + 7",
        "r.c0 - r.c1",
        "r.c0 - r.c0",
        "r.c0 * r.c2",
        "100.0 * r.c1 / r.c0",
        "ROUND(r.c0 / r.c1, 2)",
        "(r.c0 - r.c1) / NULLIF(r.c0, 0)",
        "COALESCE(r.c0 / r.c2, 0)",
        "CASE WHEN r.c1 > 600 THEN r.c0 / r.c1 WHEN r.c0 > 1500 THEN r.c1 ELSE r.c2 END",
        "GREATEST(r.c0, 0) + ABS(-r.c1)",
        "SUM(r.c0) OVER (ORDER BY r.k)",
        "AVG(r.c0 + r.c1) OVER (ORDER BY r.k ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
        "r.c0 - LAG(r.c0) OVER (ORDER BY r.k)",
        "r.c0 / SUM(r.c1) OVER ()",
        "100.0 * r.c0 / SUM(r.c0) OVER ()",
        "r.c0 + SUM(r.c0) OVER (ORDER BY r.k)",
        "r.c0 - AVG(r.c0) OVER (ORDER BY r.k ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
    ],
)
def test_a_deviation_is_that_of_what_is_shown(sql: str) -> None:
    node = parse_one(sql, read="postgres")
    error = EXPRESSIONS.of(node)
    assert error is not None
    exact = np.array([VALUES])
    told = evaluated(of_each_draw(error), exact)[0]
    noise = np.random.default_rng(7).normal(size=(DRAWS, *exact.shape[1:])) * NOISE
    shown = evaluated(of_each_draw(node), exact + noise)
    known = ~np.isnan(told)
    assert known.sum() == (2 if "LAG" in sql else 3)
    assert told[known] == pytest.approx(shown.std(axis=0)[known], rel=0.04, abs=1e-9)


@pytest.mark.parametrize(
    "sql",
    [
        "UPPER(r.c0::text)",
        "r.c0 > 9",
        "RANK() OVER (ORDER BY r.c0)",
        "SUM(r.c0) OVER (ORDER BY r.c1)",
        "COALESCE(r.c0, r.c1)",
        "LN(r.c0)",
    ],
)
def test_no_deviation_is_made_up(sql: str) -> None:
    assert EXPRESSIONS.of(parse_one(sql, read="postgres")) is None


@pytest.mark.parametrize("sql", ["r.g0", "7", "r.g0 || 'a'", "ROW_NUMBER() OVER (ORDER BY r.g0)"])
def test_what_is_exact_has_none(sql: str) -> None:
    assert EXPRESSIONS.of(parse_one(sql, read="postgres")) == exp.Literal.number(0)
