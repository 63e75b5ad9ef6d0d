"""An analysis without values is the same as one with them, unless it says that it depends on them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rewriter.emit.engines.duckdb import DUCKDB
from rewriter.emit.engines.postgres import POSTGRES
from rewriter.emit.histogram import histogram_query, node_text, types_query
from rewriter.emit.readable import readable
from rewriter.ir.parameter import Parameter, Unbound
from rewriter.logical.plan import AggregateNode
from rewriter.logical.split import split_query
from tests.rewriter.bounded import MEASURED

TYPES = {
    "i": "integer",
    "d": "date",
    "t": "text",
    "ts": "timestamp without time zone",
    "a": "text[]",
    "n": "numeric",
}


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("SELECT COUNT(*) FROM events WHERE ts >= $1 AND ts < $2", "ts 2024-01-01|ts 2024-02-01"),
        (
            "SELECT ts::date, COUNT(*) FROM events WHERE ts BETWEEN $1 AND $2 GROUP BY 1",
            "d 2024-01-01|d 2024-01-09",
        ),
        (
            "SELECT action, AVG(amount) FROM events WHERE ts >= $1 AND device = $2 GROUP BY 1",
            "ts 2024-01-01|t phone",
        ),
        ("SELECT country, COUNT(*) FROM users WHERE country IN ($1, $2) GROUP BY 1", "t DE|t FR"),
        ("SELECT COUNT(*) FROM users WHERE birth_year > $1", "n 1950.5"),
        ("SELECT COUNT(*) FROM users WHERE birth_year > $1", "i "),
    ],
)
def test_values_that_decide_nothing(sql: str, values: str) -> None:
    unbound, bound = _parameters(values)
    prepared = split_query(sql, MEASURED, unbound)
    assert all(u.takes(b) for u, b in zip(unbound, bound, strict=True))
    assert prepared.nodes == split_query(sql, MEASURED, bound).nodes


def test_no_value_stays_in_a_node() -> None:
    """A node is shared by all plans with values of their own."""
    sql = "SELECT action, COUNT(*), SUM(amount) FROM events WHERE ts >= $1 AND device = $2 AND amount < 9 GROUP BY 1"
    unbound, first = _parameters("ts 2024-01-01|t phone")
    _, second = _parameters("ts 2024-02-01|t tablet")
    (shared,) = split_query(sql, MEASURED, unbound).nodes
    (own,) = split_query(sql, MEASURED, second).nodes
    assert isinstance(shared, AggregateNode)
    assert isinstance(own, AggregateNode)
    assert _written(shared, first) != _written(own, second)
    assert _written(shared, second) == _written(own, second)


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("SELECT action, COUNT(*) AS n FROM events GROUP BY 1 ORDER BY n DESC LIMIT $1", "i 3"),
        ("SELECT COUNT(*) FROM users WHERE country = ANY($1)", "a {DE,FR}"),
        ("SELECT SUM(amount) FROM events WHERE amount BETWEEN 0 AND $1", "i 10"),
        ("SELECT SUM(LEAST(quantity, $1)) FROM events WHERE quantity >= 0", "i 10"),
        ("SELECT PERCENTILE_CONT($1) WITHIN GROUP (ORDER BY amount) FROM events", "n 0.9"),
    ],
)
def test_values_that_decide(sql: str, values: str) -> None:
    unbound, bound = _parameters(values)
    prepared = split_query(sql, MEASURED, unbound)
    assert not all(u.takes(b) for u, b in zip(unbound, bound, strict=True))
    assert prepared.nodes != split_query(sql, MEASURED, bound).nodes


@pytest.mark.parametrize("value", ["d today", "d 31.1.2024", f"n {'9' * 39}"])
def test_values_that_are_refused(value: str) -> None:
    (unbound,), (bound,) = _parameters(value)
    split_query("SELECT COUNT(*) FROM users WHERE signup_date > $1", MEASURED, (unbound,))
    assert not unbound.takes(bound)


def test_constants_that_are_null() -> None:
    unbound = Unbound("integer", None)
    assert unbound.takes(Parameter("integer", None))
    assert not unbound.takes(Parameter("integer", None, null=True))


def _parameters(values: str) -> tuple[list[Unbound], list[Parameter]]:
    """Parameters of a type and a value each, without it and with it; no text is NULL."""
    said = [value.split(" ", 1) for value in values.split("|")]
    bound = [Parameter(TYPES[of], text or None) for of, text in said]
    return [Unbound(p.type, None) for p in bound], bound


def _written(node: AggregateNode, values: Sequence[Parameter]) -> list[str]:
    """All that is written of a node."""
    types = types_query(node, values, len(values))
    sql = [histogram_query(node, MEASURED, values, (), None, None, e).sql for e in (DUCKDB, POSTGRES)]
    return [node_text(node, MEASURED, values)[0], readable(node, values), types, *sql]
