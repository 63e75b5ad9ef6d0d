"""Relations below the DP boundary: what would let one unit's rows decide about another's, tried as an attack."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import duckdb
import psycopg
import pytest

from rewriter.emit.engines.postgres import POSTGRES
from rewriter.emit.histogram import histogram_query
from rewriter.logical.plan import AggregateNode
from rewriter.logical.split import split_query
from rewriter.refusal import Refusal
from tests.rewriter.conftest import load_duckdb
from tests.rewriter.engine import answer, cells_of, histogram
from tests.rewriter.queries import ANSWERED
from tests.rewriter.shop import POLICY, Rows, rows

PER_UNIT = "SELECT COUNT(*) FROM users u WHERE "
ZERO = "SELECT a.topic, {} FROM articles a LEFT JOIN events e ON e.article_id = a.article_id GROUP BY a.topic"
REFUSED = (
    ("user_id IN (SELECT a.user_id FROM events a, events b GROUP BY a.user_id HAVING COUNT(*) > 5)", "PV012"),
    ("user_id IN (SELECT a.user_id FROM events a, events b WHERE b.action = 'like')", "PV012"),
    ("EXISTS (SELECT 1 FROM events a, events b WHERE a.user_id = u.user_id)", "PV012"),
    (
        "EXISTS (SELECT RANK() OVER (PARTITION BY e.user_id) FROM events e WHERE e.user_id = u.user_id)",
        "PV015",
    ),
    ("EXISTS (SELECT DISTINCT ON (e.user_id) 1 FROM events e WHERE e.user_id = u.user_id)", "PV015"),
    ("EXISTS (SELECT 1 FROM events e WHERE e.user_id = u.user_id OR e.action = 'x')", "PV015"),
    (
        "EXISTS (SELECT 1 FROM users v LEFT JOIN events e USING (user_id) WHERE e.user_id = u.user_id)",
        "PV015",
    ),
    (
        "EXISTS (SELECT 1 FROM events e WHERE e.user_id = u.user_id AND EXISTS (SELECT 1 FROM users v WHERE "
        "v.user_id = e.user_id AND v.country = u.country))",
        "PV015",
    ),
    ("EXISTS (SELECT 1 FROM articles a WHERE a.article_id IN (SELECT article_id FROM events))", "PV015"),
    ("u.birth_year IN (SELECT quantity FROM events)", "PV015"),
    ("u.birth_year = ANY (SELECT quantity FROM events)", "PV015"),
    ("u.birth_year <> ALL (SELECT quantity FROM events)", "PV015"),
    ("(u.birth_year, u.country) NOT IN (SELECT v.birth_year, v.country FROM users v)", "PV015"),
    ("(u.user_id, 'x') IN (SELECT e.quantity, e.action FROM events e)", "PV015"),
    ("user_id IN (SELECT user_id FROM events ORDER BY ts LIMIT 5)", "PV014"),
)
TABLES = (
    ("(SELECT user_id FROM users UNION SELECT article_id FROM events) t", "PV014"),
    ("(SELECT country FROM users INTERSECT SELECT action FROM events) t", "PV014"),
    ("(SELECT user_id FROM users EXCEPT SELECT user_id + 1 FROM users) t", "PV014"),
    ("(SELECT user_id FROM users UNION ALL SELECT article_id FROM events) t", "PV014"),
    ("(SELECT user_id FROM users UNION SELECT e.user_id FROM users LEFT JOIN events e USING (user_id)) t", "PV014"),
    ("(SELECT user_id FROM users UNION ALL (SELECT user_id FROM events LIMIT 5)) t", "PV014"),
    ("(SELECT user_id FROM users UNION ALL SELECT user_id FROM events LIMIT 5) t", "PV014"),
    ("(SELECT user_id FROM users UNION ALL SELECT article_id FROM articles) t", "PV019"),
    ("(SELECT user_id FROM users UNION SELECT COUNT(*) FROM users) t", "PV019"),
    ("(SELECT user_id, country FROM users UNION ALL SELECT user_id FROM users) t", "42601"),
    ("(SELECT user_id, country FROM users UNION ALL SELECT user_id, birth_year FROM users) t", "42804"),
    ("(SELECT user_id, signup_date FROM users UNION ALL SELECT user_id, 'x' FROM users) t", "PV020"),
    ("(SELECT ROW_NUMBER() OVER (ORDER BY user_id) AS r FROM users) t", "PV014"),
    ("(SELECT ROW_NUMBER() OVER (PARTITION BY country ORDER BY user_id) AS r FROM users) t", "PV014"),
    ("(SELECT ROW_NUMBER() OVER (PARTITION BY user_id % 2) AS r FROM users) t", "PV014"),
    ("(SELECT ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY 1) AS r FROM users) t", "PV014"),
    ("(SELECT LAG(action, 99999999999) OVER (PARTITION BY user_id) AS r FROM events) t", "PV018"),
    ("(SELECT LAG(action, article_id) OVER (PARTITION BY user_id) AS r FROM events) t", "PV018"),
    ("(SELECT NTILE(0) OVER (PARTITION BY user_id) AS r FROM events) t", "PV018"),
    ("(SELECT COUNT(*) OVER (PARTITION BY e.user_id) AS n FROM users u LEFT JOIN events e USING (user_id)) t", "PV014"),
    ("(SELECT COUNT(*) OVER (PARTITION BY b.user_id) AS n FROM users a FULL JOIN events b ON a.user_id = b.user_id) t",
     "PV014"),
    ("(SELECT MAX(amount) OVER (PARTITION BY user_id ORDER BY ts RANGE 1 PRECEDING) AS s FROM events) t", "PV018"),
    ("(SELECT user_id, STRING_AGG(action, ',') AS s FROM events GROUP BY user_id) t", "PV018"),
    ("(SELECT DISTINCT ON (country) user_id FROM users ORDER BY country, birth_year) t", "PV014"),
    ("(SELECT DISTINCT ON (user_id) user_id FROM events ORDER BY ts) t", "42P10"),
    ("(SELECT user_id, MAX(ts - signup_date) AS d FROM events JOIN users USING (user_id) GROUP BY user_id) t", "PV020"),
    ("users u FULL JOIN articles a ON a.article_id = u.user_id", "PV021"),
    ("users u FULL JOIN events e ON e.article_id = u.birth_year", "PV012"),
    ("users u FULL JOIN events e ON e.user_id = u.user_id OR e.action = u.country", "PV012"),
    ("users u FULL JOIN events e ON e.user_id = u.user_id AND e.quantity > 3", "0A000"),
    ("articles a LEFT JOIN events e ON e.article_id = a.article_id", "PV021"),
    ("(SELECT a.topic, e.user_id FROM articles a LEFT JOIN events e USING (article_id)) t", "PV021"),
    ("(SELECT e.user_id FROM articles a LEFT JOIN events e USING (article_id) GROUP BY e.user_id) t", "PV021"),
    ("articles a LEFT JOIN (events e JOIN users u ON u.country = e.device) USING (article_id)", "PV012"),
    ("events a JOIN events b ON a.article_id = b.article_id", "PV012"),
)  # fmt: skip
COUNTED = (
    "COUNT(*)",
    "COUNT(a.title)",
    "COUNT(COALESCE(e.action, 'x'))",
    "COUNT(e.action = 'x' AND a.topic = 'ai')",
    "COUNT(CASE WHEN e.event_id IS NULL THEN 1 END)",
    "COUNT(CASE WHEN e.action = 'x' THEN 1 ELSE 0 END)",
    "COUNT(*) FILTER (WHERE e.event_id IS NULL)",
    "COUNT(e.event_id), COUNT(*)",
)


@pytest.mark.parametrize(("condition", "code"), REFUSED)
def test_a_condition_that_reads_across_units_is_refused(condition: str, code: str) -> None:
    assert _refused(PER_UNIT + condition) == code


@pytest.mark.parametrize(("table", "code"), TABLES)
def test_a_source_that_mixes_units_is_refused(table: str, code: str) -> None:
    assert _refused(f"SELECT COUNT(*) FROM {table}") == code


@pytest.mark.parametrize("counted", COUNTED)
def test_what_counts_rows_of_no_unit_is_refused(counted: str) -> None:
    assert _refused(ZERO.format(counted)) == "PV021"


def _refused(sql: str) -> str:
    with pytest.raises(Refusal) as refused:
        split_query(sql, POLICY)
    assert refused.value.hint or not refused.value.code.startswith("PV")
    return refused.value.code


def tied(data: Rows) -> Rows:
    """The same units with events that are full of ties, at times and in amounts."""
    midnight = {"day": 1, "hour": 0, "minute": 0, "second": 0}
    events = []
    for number, *kept, amount, quantity, stamp in data["events"]:
        uneven = None if amount is None else amount * 1e-3 + 1e15 * (number % 3 - 1)
        events.append((number, *kept, uneven, quantity, stamp.replace(**midnight)))
    return {**data, "events": events}


ORDERED = tuple(Path(__file__).with_name("ties.sql").read_text().splitlines())
"""Queries over rows with ties, and over doubles whose sum depends on the order in which they are added."""


@pytest.fixture(scope="module")
def shuffled() -> Iterator[list[duckdb.DuckDBPyConnection]]:
    """The same rows in three orders."""
    databases = []
    for seed in (1, 2, 3):
        data = tied(rows())
        for table in data:
            Random(seed).shuffle(data[table])
        databases.append(load_duckdb(data))
    yield databases
    for database in databases:
        database.close()


@pytest.mark.service
@pytest.mark.parametrize("sql", ORDERED)
def test_the_order_of_rows_decides_nothing(
    sql: str, shuffled: list[duckdb.DuckDBPyConnection], postgres: psycopg.Connection
) -> None:
    node = split_query(sql, POLICY).nodes[0]
    assert isinstance(node, AggregateNode)
    cells = cells_of(node, postgres)
    found = [histogram(node, database, cells) for database in shuffled]
    assert found[0] == found[1] == found[2]


def test_such_rows_would_be_decided_by_their_order(shuffled: list[duckdb.DuckDBPyConnection]) -> None:
    sums = "SELECT SUM(amount) FROM events GROUP BY user_id ORDER BY user_id"
    first = "SELECT action FROM (SELECT user_id, action, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY ts) AS r "
    first += "FROM events) t WHERE r = 1 ORDER BY user_id"
    for sql in (sums, first):
        assert len({str(database.execute(sql).fetchall()) for database in shuffled}) > 1


EXTREME = (
    "SELECT COUNT(*) FROM (SELECT user_id, {} AS x FROM events GROUP BY user_id) t WHERE x > 1",
    "SELECT COUNT(*) FROM (SELECT user_id, {} OVER (PARTITION BY user_id) AS x FROM events) t WHERE x > 1",
)


@pytest.mark.service
@pytest.mark.parametrize("sql", EXTREME)
@pytest.mark.parametrize(
    "call",
    [
        "SUM(amount)",
        "AVG(amount)",
        "STDDEV(amount)",
        "STDDEV(quantity)",
        "SUM(event_id)",
        "AVG(event_id * 2)",
    ],
)
def test_no_value_makes_an_aggregate_raise(sql: str, call: str, postgres: psycopg.Connection) -> None:
    if "OVER" in sql and "STDDEV" in call:
        pytest.skip("no window function")
    data = rows(20)
    sample = data["events"][0]
    huge = (float("nan"), float("inf"), float("-inf"), 1.7e308, -1.7e308, 9.9e14, -0.0, None)
    data["events"] += [
        (2**63 - 1 - n, 3, *sample[2:5], value, 2**31 - 1, sample[7]) for n, value in enumerate(huge)
    ]
    database = load_duckdb(data)
    try:
        assert answer(sql.format(call), database, postgres)
    finally:
        database.close()


def test_every_construct_is_among_the_executed_queries() -> None:
    text = "\n".join(ANSWERED)
    assert [c for c in CONSTRUCTS if c not in text] == []


CONSTRUCTS = (
    *(
        "UNION ALL",
        "INTERSECT",
        "EXCEPT ALL",
        "FULL JOIN",
        "RIGHT JOIN",
        "articles a LEFT JOIN",
        "DISTINCT ON",
    ),
    *("OVER (PARTITION", "STDDEV(", "bool_or(", "NOT IN (SELECT", "NOT EXISTS", "= ANY (", "<> ALL ("),
)


@pytest.mark.service
@pytest.mark.parametrize("value", ["NaN", "Infinity", "1.7e308", "-1.7e308", "9.9e14", "-0.0"])
def test_no_value_makes_an_aggregate_raise_in_postgresql(value: str, postgres: psycopg.Connection) -> None:
    calls = (
        "SUM(amount) AS x, AVG(amount) AS a, STDDEV(quantity) AS d, VAR_POP(amount) AS v, SUM(event_id) AS s"
    )
    over = (
        calls.replace("STDDEV(quantity)", "SUM(quantity)")
        .replace("VAR_POP", "MAX")
        .replace(") AS", ") OVER (PARTITION BY user_id) AS")
    )
    grouped = f"(SELECT user_id, {calls} FROM events GROUP BY user_id) t"
    windowed = f"(SELECT user_id, {over} FROM events) t"
    with postgres.transaction(force_rollback=True):
        postgres.execute(
            f"UPDATE events SET amount = '{value}', quantity = 2147483647, event_id = {2**63 - 1}".encode()
        )
        for rows_of in (grouped, windowed):
            node = split_query(f"SELECT COUNT(*) FROM {rows_of} WHERE x > a OR d > 1 OR v > s", POLICY).nodes[
                0
            ]
            assert isinstance(node, AggregateNode)
            query = histogram_query(node, POLICY, (), ((),), None, None, POSTGRES)
            assert psycopg.RawCursor(postgres).execute(query.sql.encode()).fetchall()
