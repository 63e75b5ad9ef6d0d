"""Value ranges: interval arithmetic over declarations, conditions and the form of expressions, each as it should be."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from random import Random

import psycopg
import pytest
from sqlglot import exp, parse_one

from rewriter.binder.names import resolve
from rewriter.binder.scan_filter import scan, where
from rewriter.binder.value_ranges import Ranges
from rewriter.scalar.typecheck import Parameter
from rewriter.scalar.value_interval import Interval
from tests.rewriter.shop import EVENTS, USERS

BOUNDED = replace(
    EVENTS,
    columns=tuple(
        replace(c, bounds=(Fraction(-5), Fraction(100)), scale=2) if c.name == "amount" else c
        for c in EVENTS.columns
    ),
)


def found(sql: str, condition: str | None = None, *parameters: Parameter) -> Interval:
    """The range of an expression over the rows of events, or of users where it is about their columns."""
    about = parse_one(sql, dialect="postgres")
    names = {c.name for c in about.find_all(exp.Column)}
    table = USERS if names & {"birth_year", "signup_date", "job_title", "country"} else BOUNDED
    relation = scan(table, "t0", table.name)
    for part in [] if condition is None else [parse_one(condition, dialect="postgres")]:
        for one in part.flatten() if isinstance(part, exp.And) else [part]:
            relation = where(relation, one, parameters)
    return Ranges.of(relation, parameters).interval(resolve(about, relation))


def ends(lo: float | None, hi: float | None) -> tuple[Fraction | None, Fraction | None]:
    return None if lo is None else Fraction(str(lo)), None if hi is None else Fraction(str(hi))


@pytest.mark.parametrize(
    ("sql", "condition", "lo", "hi", "scale"),
    [
        ("amount", None, -5, 100, 2),
        ("-amount", None, -100, 5, 2),
        ("amount + 0.125", None, -4.875, 100.125, 3),
        ("amount * -2", None, -200, 10, 2),
        ("amount * amount", None, -500, 10000, 4),
        ("amount / 4", None, -1.25, 25, None),
        ("amount / (1 + 1)", None, -2.5, 50, None),
        ("amount / amount", None, None, None, None),
        ("abs(amount)", None, 0, 100, 2),
        ("quantity & 6", None, 0, 6, 0),
        ("quantity & -6", None, None, None, None),
        ("birth_year & 7", None, 0, 7, 0),
        ("round(amount)", None, -5, 100, 0),
        ("round(amount, 1)", None, -5, 100, 1),
        ("trunc(amount, -2)", None, -100, 100, 0),
        ("sign(amount)", None, -1, 1, 0),
        ("sign(abs(amount))", None, 0, 1, 0),
        ("width_bucket(amount, 0, 10, 5)", None, 0, 6, 0),
        ("strpos(country, 'U')", None, 0, None, 0),
        ("sqrt(amount)", None, 0, None, None),
        ("floor(amount / 10)", None, -1, 10, 0),
        ("birth_year / 10", None, 194, 201, 0),
        ("birth_year % 7", None, 0, 7, 0),
        ("quantity % 7", None, -7, 7, 0),
        ("amount", "amount BETWEEN 5 AND 7", 5, 7, 2),
        ("amount", "amount > 5 AND 7 >= amount", 5, 7, 2),
        ("amount", "amount IN (3, 1, 2)", 1, 3, 2),
        ("amount", "amount = 3", 3, 3, 2),
        ("amount", "amount > 1000", 1000, 1000, 2),
        ("amount", "amount < 5 OR amount < 7", -5, 100, 2),
        ("amount", "quantity < 5", -5, 100, 2),
        ("quantity", "quantity <= 5", None, 5, 0),
        ("quantity + 1", "quantity + 1 BETWEEN 0 AND 9", 0, 9, 0),
        ("LEAST(GREATEST(quantity, 0), 9)", None, 0, 9, 0),
        ("GREATEST(LEAST(quantity, 9), 0)", None, 0, 9, 0),
        ("LEAST(quantity, 9)", None, None, 9, 0),
        ("GREATEST(quantity, amount)", None, None, None, 2),
        ("LEAST(GREATEST(birth_year / 10, 0), 500)", None, 0, 201, 0),
        ("LEAST(birth_year, 3000)", None, 1940, 3000, 0),
        ("LEAST(COALESCE(birth_year, 7), 3000)", None, 7, 2010, 0),
        ("GREATEST(LEAST(ts, '2024-02-01'), TIMESTAMP '2024-01-02')", None, 1704153600, 1706745600, 6),
        ("CASE WHEN quantity > 9 THEN 1 ELSE 0 END", None, 0, 1, 0),
        ("CASE WHEN quantity BETWEEN 1 AND 3 THEN quantity WHEN amount > 5 THEN NULL END", None, 1, 3, 0),
        ("CASE WHEN quantity > 9 THEN quantity ELSE 0 END", None, 0, None, 0),
        ("CASE quantity WHEN 1 THEN 7 ELSE 8 END", None, 7, 8, 0),
        ("COALESCE(amount, 500)", None, -5, 500, 2),
        ("NULLIF(amount, 0)", None, -5, 100, 2),
        ("length(job_title)", None, 0, None, 0),
        ("length(job_title)", "length(job_title) < 20", 0, 20, 0),
        ("EXTRACT(hour FROM ts)", None, 0, 23, 0),
        ("EXTRACT(day FROM ts - TIMESTAMP '2023-01-01')", None, None, None, None),
        ("EXTRACT(month FROM age(ts, TIMESTAMP '2023-01-01'))", None, None, None, None),
        ("EXTRACT(year FROM ts)", None, 2024, 2024, 0),
        ("EXTRACT(year FROM signup_date)", "signup_date >= '2024-02-01'", 2024, 2024, 0),
        ("CAST(amount > 5 AS integer)", None, 0, 1, 0),
        ("ts", None, 1704067200, 1711843200, 6),
        ("ts", "ts < DATE '2024-01-02'", 1704067200, 1704153600, 6),
        ("ts", "'2024-01-01 00:00:05' < ts", 1704067205, 1711843200, 6),
        ("CAST(ts AS date)", None, 19723, 19813, 0),
        ("signup_date", "signup_date BETWEEN '2024-01-01' AND '2024-01-31'", 19723, 19753, 0),
        ("signup_date", "signup_date <= TIMESTAMP '2024-01-01 12:00:00'", 19358, 19723.5, 0),
        ("date_trunc('month', ts)", "ts >= '2024-02-15'", 1706745600, 1711843200, 0),
        ("5", None, 5, 5, 0),
        ("2.50", None, 2.5, 2.5, 2),
    ],
)
def test_range(
    sql: str, condition: str | None, lo: float | None, hi: float | None, scale: int | None
) -> None:
    interval = found(sql, condition)
    assert (interval.lo, interval.hi) == ends(lo, hi)
    assert interval.scale == scale or lo is None


def test_parameters_bound_once_they_are_known() -> None:
    condition = "quantity BETWEEN $1 AND $2"
    types = ("integer", "integer")
    known = [Parameter(t, v) for t, v in zip(types, ("1", "9"), strict=True)]
    assert found("quantity", condition, *known) == Interval(Fraction(1), Fraction(9), 0)
    relation = scan(BOUNDED, "t0", "events")
    unknown = [Parameter(t, None) for t in types]
    relation = where(relation, parse_one(condition, dialect="postgres"), unknown)
    ranges = Ranges.of(relation, unknown)
    value = resolve(exp.column("quantity"), relation)
    assert ranges.interval(value).lo is None
    assert ranges.pending(value)
    assert not Ranges.of(relation, known).pending(value)


@pytest.mark.parametrize(
    ("sql", "condition", "centre", "spread", "bounded"),
    [
        ("(quantity - $1) / $2", None, "1", "2", False),
        ("(quantity - $1) / $2", None, None, "2", True),
        ("(quantity - $1) / $2", None, "1", None, True),
        ("(quantity - $1) / $2", None, "1", "0.0", True),
        ("quantity % $2", None, "1", "0", True),
        ("quantity", "$2 > 1", "1", "0.5", True),
        ("quantity", "$2 > 1", "1", "1.5", False),
        ("quantity", "quantity > $1", None, "1.5", True),
        ("GREATEST($1, quantity)", None, None, "1", False),
        ("COALESCE(quantity, $1)", None, None, "1", False),
    ],
)
def test_constants_that_leave_no_value_leave_nothing_to_bound(
    sql: str, condition: str | None, centre: str | None, spread: str | None, bounded: bool
) -> None:
    constants = [Parameter("double precision", v, null=v is None) for v in (centre, spread)]
    interval = found(sql, condition, *constants)
    assert (interval.lo is not None and interval.hi is not None) == bounded


OPERATORS = ("+", "-", "*", "/", "%")


def expression(rng: Random, depth: int) -> str:
    """A random number over bounded columns."""
    if depth == 0:
        return rng.choice(("amount", "quantity", "article_id", "3", "0.25", "-7"))
    one, other = expression(rng, depth - 1), expression(rng, depth - 1)
    forms = (
        f"({one} {rng.choice(OPERATORS)} {rng.choice(('2', '-3', '0.5', other))})",
        f"LEAST({one}, {other})",
        f"GREATEST({one}, {other})",
        f"abs({one})",
        f"floor({one})",
        f"COALESCE({one}, {other})",
        f"CASE WHEN {one} > 1 THEN {one} ELSE {other} END",
        f"NULLIF({one}, 2)",
    )
    return rng.choice(forms)


CONDITION = "quantity BETWEEN -7 AND 5 AND article_id <= 20 AND article_id > 0"


@pytest.mark.service
def test_no_value_lies_outside_its_range(postgres: psycopg.Connection) -> None:
    rng, checked = Random(3), 0
    for _ in range(300):
        sql = expression(rng, 2)
        interval = found(sql, CONDITION)
        query = f"SELECT MIN(x), MAX(x) FROM (SELECT {sql} AS x FROM events WHERE {CONDITION}) t"
        try:
            least, most = postgres.execute(query.encode()).fetchall()[0]
        except (psycopg.errors.DataError, psycopg.errors.UndefinedFunction):
            continue
        slack = 1e-9 * max(abs(float(least or 0)), abs(float(most or 0)), 1)
        assert interval.lo is None or least is None or float(interval.lo) <= float(least) + slack, sql
        assert interval.hi is None or most is None or float(interval.hi) >= float(most) - slack, sql
        checked += interval.lo is not None and interval.hi is not None and least is not None
    assert checked > 100
