"""Deviations of expressions over released columns, compared with those of draws of the columns' noise."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial

import duckdb
import numpy as np
import pytest
from sqlglot import exp, parse_one

from rewriter.logical.error_propagation import (
    Expressions,
    Noise,
    NoisyRows,
    ReleasedNoise,
    Sizes,
    StatementErrors,
)
from rewriter.logical.plan import NODE

VALUES = ((1000.0, 400.0, 9.0), (2000.0, 500.0, 16.0), (1500.0, 800.0, 25.0))
"""c0, c1 and c2 of three rows, released with these deviations:"""
NOISE = (6.0, 3.0, 0.05)
COMMON = 8.0
"""The deviation of the noise that c0 has in all rows alike, where it has one besides its own."""
DRAWS = 20_000
OUTPUTS = {("r", f"c{n}"): Noise.OWN for n in range(3)}
EXPRESSIONS, WITH_COMMON = (
    Expressions(NoisyRows(OUTPUTS)),
    Expressions(NoisyRows(OUTPUTS, common={("r", "c0"): "n"})),
)


def evaluated(sql: str, columns: np.ndarray) -> np.ndarray:
    """The values of an expression over rows that have a draw, a number and the columns: one a draw and row."""
    with duckdb.connect() as connection:
        draws, rows, _ = columns.shape
        at = np.indices((draws, rows)).reshape(2, -1)
        flat = columns.reshape(-1, 3)
        frame = {"draw": at[0], "k": at[1], "c0": flat[:, 0], "c1": flat[:, 1], "c2": flat[:, 2]}
        frame |= {f"e_c{n}": np.full(draws * rows, noise) for n, noise in enumerate(NOISE)}
        frame |= {"own_e_c0": frame["e_c0"], "common_e_c0": np.full(draws * rows, COMMON)}
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


@pytest.mark.parametrize("common", [False, True])
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
def test_a_deviation_is_that_of_what_is_shown(sql: str, common: bool) -> None:
    node = parse_one(sql, read="postgres")
    error = (WITH_COMMON if common else EXPRESSIONS).of(node)
    assert error is not None
    exact = np.array([VALUES])
    told = evaluated(of_each_draw(error), exact)[0]
    drawn = np.random.default_rng(7)
    noise = drawn.normal(size=(DRAWS, *exact.shape[1:])) * NOISE
    if common:
        noise[:, :, 0] += COMMON * drawn.normal(size=(DRAWS, 1))
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


ROWS, WORLDS = 12, 400
LEVEL = (
    np.where(np.arange(ROWS) < 6, 1000.0, 400.0 + 10 * np.arange(ROWS)),
    np.full(ROWS, 250.0),
    np.full(ROWS, 30.0),
    np.full(ROWS, 7.0),
)
SIZES = (8.0, 4.0, 9.0, 6.0)
EW: Sizes = frozenset(("e", "w"))
KNOWN = {0: {f"c{n}": ReleasedNoise(EW) for n in range(len(SIZES))}}
LEAST = 364
"""Of 400 intervals of at least 95%, fewer hold the true value with a probability below 1e-3."""


def of_known(function: Callable[[float], float], value: float | None) -> float | None:
    return None if value is None else function(value)


def over_released(sql: str) -> exp.Select:
    tree = parse_one(sql, read="postgres")
    for table in tree.find_all(exp.Table):
        if table.name == "r":
            table.meta[NODE] = 0
    assert isinstance(tree, exp.Select)
    return tree


EXACT = (
    "SELECT AVG(n) FROM (SELECT r.c0 AS n FROM r) AS q",
    "SELECT d FROM (SELECT r.k, r.c0 - LAG(r.c0) OVER (ORDER BY r.k) AS d FROM r) AS q WHERE k = 3",
    "SELECT SUM(s) FROM (SELECT r.k % 3 AS g, SUM(2 * r.c0) AS s FROM r GROUP BY 1) AS h WHERE h.g > 0",
    "WITH q AS (SELECT r.k, SUM(r.c0) AS n FROM r GROUP BY r.k % 2, r.k) SELECT SUM(q.n) FROM q",
    "SELECT 100 * q.n / q.m FROM (SELECT r.k, r.c0 AS n, r.c1 AS m FROM r) AS q WHERE q.k = 3",
)
AT_MOST = (
    "SELECT n + m FROM (SELECT r.k, r.c0 AS n, r.c0 AS m FROM r) AS q WHERE k = 3",
    "SELECT SUM(q.n) / SUM(q.m) FROM (SELECT r.c0 AS n, r.c1 AS m FROM r) AS q",
    "SELECT AVG(total) FROM (SELECT SUM(r.c0) OVER (ORDER BY r.k) AS total FROM r) AS q",
    "SELECT n / (SELECT SUM(r.c0) FROM r) FROM (SELECT r.k, r.c0 AS n FROM r) AS q WHERE k = 3",
    "WITH q AS (SELECT r.k, r.c0 AS n FROM r) SELECT a.n - b.n FROM q AS a JOIN q AS b ON a.k = b.k + 1 WHERE a.k = 3",
    "WITH q AS (SELECT r.c0 AS n FROM r) SELECT MAX(n) FROM q",
    "SELECT MAX(n) - MIN(n) FROM (SELECT r.c0 + r.c1 AS n FROM r) AS q",
    "SELECT r.c1 / r.c2 FROM r WHERE r.k = 3",
    "SELECT r.c3 / r.c2 FROM r WHERE r.k = 4",
    "SELECT ROUND(r.c0 / 2000) FROM r WHERE r.k = 3",
    "SELECT r.c2 * r.c3 FROM r WHERE r.k = 5",
    "SELECT r.c2 * r.c2 - r.c3 FROM r WHERE r.k = 6",
    "SELECT MAX(h.s) FROM (SELECT r.k % 3 AS g, SUM(r.c0) AS s FROM r GROUP BY 1) AS h",
)


@pytest.mark.parametrize(("law", "common"), [("gaussian", 0.0), ("laplace", 0.0), ("gaussian", 0.75)])
def test_intervals_of_what_is_made_of_released_rows_hold_the_truth(law: str, common: float) -> None:
    """Each statement over draws of the released rows: values with their own intervals, and without noise.

    `common`: how much of the noise of c0 and of c1 is the same in all rows, by its deviation.
    """
    shown = []
    known = {0: {name: replace(one, common=common > 0 and name < "c2") for name, one in KNOWN[0].items()}}
    for sql in (*EXACT, *AT_MOST):
        tree = over_released(sql)
        size = StatementErrors(tree, known).of(tree, tree.expressions[0].unalias(), "w")
        assert size is not None, sql
        sized = tree.copy()
        sized.set("expressions", [size])
        shown += [tree.sql("sqlite"), sized.sql("sqlite")]
    asked = f"SELECT {', '.join(f'({sql})' for sql in shown)}"
    drawn = np.random.default_rng(11)
    found = []
    with closing(sqlite3.connect(":memory:")) as connection:
        for name, function in (("sqrt", math.sqrt), ("ln", math.log)):
            connection.create_function(name, 1, partial(of_known, function), deterministic=True)
        connection.create_function("pg_typeof", 1, lambda _: "double precision", deterministic=True)
        parts = ("c", "w_c", "own_w_c", "common_w_c")
        names = [f"{part}{n}" for part in parts for n in range(len(SIZES))]
        connection.execute(f"CREATE TABLE r (k INT, {', '.join(f'{name} REAL' for name in names)})")
        for world in range(WORLDS + 1):
            shape = (len(SIZES), ROWS)
            noise = drawn.normal(size=shape) if law == "gaussian" else drawn.laplace(size=shape) / 2**0.5
            if common:
                noise[:2] = (1 - common**2) ** 0.5 * noise[:2] + common * drawn.normal(size=(2, 1))
            values = [LEVEL[n] + noise[n] * SIZES[n] * (world > 0) for n in range(len(SIZES))]
            widths = [np.full(ROWS, size * (1.96 if law == "gaussian" else 2.12)) for size in SIZES]
            connection.execute("DELETE FROM r")
            sides = [[width * share for width in widths] for share in ((1 - common**2) ** 0.5, common)]
            rows = np.column_stack([np.arange(ROWS), *values, *widths, *sides[0], *sides[1]]).tolist()
            connection.executemany(f"INSERT INTO r VALUES (?{', ?' * len(names)})", rows)
            found.append(connection.execute(asked).fetchone())
    answers, sizes = (np.array(found, dtype=float)[:, part::2] for part in (0, 1))
    # Where no interval is told (NULL), none is wrong.
    held = (~(abs(answers[1:] - answers[0]) > sizes[1:])).sum(axis=0)
    assert np.isnan(sizes[1:]).mean(axis=0).max() < 0.2
    assert min(held) >= LEAST, dict(zip((*EXACT, *AT_MOST), held, strict=True))
    if law == "gaussian":
        # Two noises in common, as in the last of them, might depend on each other.
        exact = len(EXACT) - (common > 0)
        assert answers[1:].std(axis=0)[:exact] * 1.96 == pytest.approx(sizes[0][:exact], rel=0.12)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT AVG(q.n) FROM (SELECT r.c0 AS n FROM r UNION ALL SELECT 1) AS q",
        "SELECT AVG(q.n) FROM (SELECT r.c0 AS n FROM r LIMIT 2) AS q",
        "SELECT AVG(q.n) FROM (SELECT r.c0 AS n FROM r) AS q WHERE q.n > 9",
        "SELECT AVG(q.n) FROM (SELECT * FROM r) AS q",
        "SELECT COUNT(*) FROM r",
        "SELECT SUM(r.k) FROM r GROUP BY r.c0",
        "SELECT CASE WHEN r.c0 > 9 THEN 1 ELSE 0 END FROM r",
        "SELECT CASE WHEN r.c0 > 9 THEN r.c0 ELSE r.c1 END FROM r",
        "SELECT EXISTS (SELECT 1 FROM r WHERE r.c0 > 9)",
        "SELECT (SELECT r.k FROM r ORDER BY r.c0 LIMIT 1)",
        "SELECT (SELECT r.c0 FROM r ORDER BY r.c0 LIMIT 1)",
        "SELECT (q).n FROM (SELECT r.c0 AS n FROM r) AS q",
        "SELECT (SELECT n + 1) FROM (SELECT r.c0 AS n FROM r) AS q",
        "SELECT COUNT(*) FILTER (WHERE r.c0 > 9) FROM r",
        "SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY r.c0) FROM r",
        "WITH RECURSIVE q AS (SELECT r.c0 AS n FROM r UNION ALL SELECT n FROM q) SELECT q.n FROM q",
    ],
)
def test_no_interval_is_made_up_of_released_rows(sql: str) -> None:
    tree = over_released(sql)
    assert StatementErrors(tree, KNOWN).of(tree, tree.expressions[0], "w") is None


def test_rows_that_share_noise_are_added_up() -> None:
    sums = []
    for apart in (True, False):
        tree = over_released("SELECT SUM(r.c0) FROM r")
        known = {0: {"c0": ReleasedNoise(EW, apart=apart)}}
        size = StatementErrors(tree, known).of(tree, tree.expressions[0], "w")
        assert size is not None
        sums.append(size.sql())
    assert sums == ['SQRT(SUM(("r"."w_c0") * ("r"."w_c0")))', 'SUM("r"."w_c0")']


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT q.k FROM (SELECT r.k, r.c0 AS n FROM r) AS q",
        "WITH r AS (SELECT 1 AS c0 FROM r) SELECT t.a FROM t",
        "SELECT (SELECT MAX(t.a) FROM t) FROM r",
        "SELECT q.k IN (SELECT t.a FROM t) FROM (SELECT r.k FROM r) AS q",
    ],
)
def test_what_is_exact_beside_released_rows_is_exact(sql: str) -> None:
    tree = over_released(sql)
    size = StatementErrors(tree, KNOWN).of(tree, tree.expressions[0], "w")
    assert size == exp.Literal.number(0)
