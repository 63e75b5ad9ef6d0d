"""The least length of clipped totals: what the policy says of the size of a value, else one."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from rewriter.ir.measure import Joint, Measure, Total
from rewriter.logical.plan import AggregateNode
from rewriter.logical.split import split_query
from rewriter.policy import Policy
from rewriter.refusal import Refusal
from tests.rewriter.shop import EVENTS, POLICY


def measures_of(sql: str, source: str = "events", **declared: Any) -> tuple[Measure, ...]:
    """The measures of a statement over events, with more declared of the amount."""
    columns = tuple(replace(c, **declared) if c.name == "amount" else c for c in EVENTS.columns)
    tables = {**POLICY.tables, ("public", "events"): replace(EVENTS, columns=columns)}
    (node,) = split_query(f"SELECT {sql} FROM {source}", Policy(tables, unit_clips=True)).nodes
    assert isinstance(node, AggregateNode)
    return node.measures


def total_of(sql: str, **declared: Any) -> Total | Joint:
    """The one measure of a statement over events, with more declared of the amount."""
    (measure,) = measures_of(sql, **declared)
    assert isinstance(measure, (Total, Joint))
    return measure


@pytest.mark.parametrize(
    ("declared", "scale", "anchor"),
    [
        ({}, 3, 1000),
        ({"scale": 2}, 2, 100),
        ({"scale": 0}, 0, 1),
        ({"magnitude": Fraction(250)}, 3, 250_000),
        ({"magnitude": Fraction(1, 2), "scale": 2}, 2, 50),
        ({"magnitude": Fraction(1, 1000), "scale": 0}, 0, 1),
        # Fewer decimals: longer vectors than these could not be served.
        ({"magnitude": Fraction(10**9)}, -3, 10**6),
        ({"scale": 18}, 6, 10**6),
        ({"type": "numeric(20,12)"}, 6, 10**6),
        ({"bounds": (Fraction(-5), Fraction(100)), "scale": 2}, 2, 10_000),
    ],
)
def test_the_least_length_of_a_sum(declared: dict[str, object], scale: int, anchor: int) -> None:
    measure = total_of("SUM(amount)", **declared)
    assert isinstance(measure, Total)
    assert measure.value is not None
    assert (measure.value.scale, measure.anchor) == (scale, anchor)


@pytest.mark.parametrize(
    ("sql", "anchor"),
    [
        ("SUM(2 * amount)", 200_000),
        # One decimal is left of such values.
        ("SUM(amount * amount)", 400_000),
        ("SUM(amount + 100)", 300_000),
        ("SUM(CASE WHEN action = 'like' THEN amount ELSE 0 END)", 200_000),
        # Nothing is known of the quantity.
        ("SUM(amount * quantity)", 1000),
        # The condition says more.
        ("SUM(amount) FILTER (WHERE amount BETWEEN 0 AND 10)", 10_000),
    ],
)
def test_the_size_of_a_computed_value(sql: str, anchor: int) -> None:
    measure = total_of(sql, magnitude=Fraction(200), scale=3)
    assert isinstance(measure, Total)
    assert measure.anchor == anchor


def test_a_row_of_an_average_counts_for_a_part_of_its_value() -> None:
    measure = total_of("AVG(amount)", magnitude=Fraction(640), scale=1)
    assert isinstance(measure, Joint)
    assert measure.least == 100


@pytest.mark.parametrize(
    ("sql", "source", "averages"),
    [
        ("AVG(amount)", "events", (True,)),
        ("AVG(amount), AVG(amount) * 2, COUNT(DISTINCT user_id)", "events", (True,)),
        ("AVG(amount), SUM(amount)", "events", (False,)),
        ("AVG(amount), COUNT(amount)", "events", (False,)),
        ("AVG(amount), COUNT(*)", "events", (False,)),
        ("AVG(amount), STDDEV(amount)", "events", (False,)),
        ("action, AVG(amount)", "events GROUP BY action HAVING COUNT(*) > 5", (False,)),
        ("action, AVG(amount)", "events GROUP BY action ORDER BY SUM(amount)", (False,)),
        ("AVG(amount), AVG(amount + 1), SUM(amount + 1)", "events", (True, False)),
        ("AVG(amount), SUM(amount) FILTER (WHERE action = 'like')", "events", (True,)),
    ],
)
def test_of_nothing_but_averages_neither_sum_nor_rows_are_read(
    sql: str, source: str, averages: tuple[bool, ...]
) -> None:
    """Also not by HAVING or ORDER BY."""
    found = measures_of(sql, source, required=True)
    assert tuple(m.averages for m in found if isinstance(m, Joint)) == averages


@pytest.mark.parametrize(
    ("sql", "source", "required", "measures"),
    [
        ("COUNT(*), SUM(amount), AVG(amount)", "events", True, 1),
        ("COUNT(*), SUM(amount), AVG(amount)", "events", False, 2),
        ("COUNT(*) FILTER (WHERE action = 'like'), AVG(amount)", "events", True, 2),
        ("COUNT(*), AVG(amount) FILTER (WHERE action = 'like')", "events", True, 2),
        (
            "COUNT(*) FILTER (WHERE action = 'like'), AVG(amount) FILTER (WHERE action = 'like')",
            "events",
            True,
            1,
        ),
        # The column is never NULL, what is computed from it can be.
        ("COUNT(*), AVG(NULLIF(amount, 0))", "events", True, 2),
        ("COUNT(*), AVG(amount)", "users u LEFT JOIN events e ON u.user_id = e.user_id", True, 2),
        (
            "COUNT(*), AVG(amount)",
            "(SELECT DISTINCT ON (user_id) * FROM events ORDER BY user_id, ts) s",
            True,
            2,
        ),
    ],
)
def test_rows_are_counted_with_an_average_of_what_is_never_null(
    sql: str, source: str, required: bool, measures: int
) -> None:
    assert len(measures_of(sql, source, required=required)) == measures


def test_what_is_said_of_the_size_bounds_nothing() -> None:
    measure = total_of("SUM(amount)", magnitude=Fraction(1), scale=0)
    assert measure.value is not None
    assert measure.value.lo == 1 - 2**40
    assert measure.value.hi == 2**40 - 1


@pytest.mark.parametrize(
    "sql",
    [
        "SUM(quantity * 1e200 * 1e200)",
        "AVG(quantity * 1e200)",
        "STDDEV(amount * -1e76)",
        "SUM(1e40 * 1e40)",
        "SUM(CASE WHEN action = 'like' THEN 1e200 END)",
    ],
)
def test_constants_whose_square_no_double_holds_are_no_factors(sql: str) -> None:
    with pytest.raises(Refusal, match="needs finite bounds") as refused:
        measures_of(sql, bounds=(Fraction(0), Fraction(1)))
    assert refused.value.code == "PV016"


@pytest.mark.parametrize("sql", ["COUNT(*) * 1e200 * 1e200", "SUM(amount) * 1e200 * 1e200 AS n"])
def test_released_values_are_multiplied_with_any_constant(sql: str) -> None:
    (node,) = split_query(f"SELECT {sql} FROM events", Policy(POLICY.tables, unit_clips=True)).nodes
    assert isinstance(node, AggregateNode)
    assert [*node.factors] == [1], "the noise of the multiple is not shown: no double holds it"
