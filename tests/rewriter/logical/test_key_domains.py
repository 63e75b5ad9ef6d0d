"""Known domains: every cell that a row can fall into and no other, or none where something is not known."""

from __future__ import annotations

from dataclasses import replace

import duckdb
import psycopg
import pytest

from rewriter.emit.engines.duckdb import DUCKDB
from rewriter.emit.histogram import histogram_query
from rewriter.ir.parameter import Parameter
from rewriter.logical.key_domains import domain_queries, known_cells
from rewriter.logical.plan import AggregateNode
from rewriter.logical.split import split_query
from rewriter.policy import Policy
from rewriter.refusal import Refusal
from tests.rewriter.engine import cells_of
from tests.rewriter.shop import ARTICLES, EVENTS, POLICY, TAGS, USERS

LEFT = "users u LEFT JOIN events e ON e.user_id = u.user_id"
ON_ARTICLES = "events e JOIN articles a ON a.article_id = e.article_id"
TO_ARTICLES = ON_ARTICLES.replace("JOIN", "LEFT JOIN")
CELLS: tuple[tuple[str, str, set[str | None]], ...] = (
    ("e.action", LEFT, {"view", "like", "share", None}),
    ("action", "events", {"view", "like", "share"}),
    ("country", "users WHERE country <> 'US'", {"DE", "FR", "LI"}),
    ("country", "users WHERE country IN ('US', 'DE')", {"US", "DE"}),
    ("birth_year", "users WHERE 1970 <= birth_year AND birth_year < 1972", {"1970", "1971"}),
    ("birth_year", "users WHERE birth_year BETWEEN 2009 AND 2050", {"2009", "2010"}),
    ("job_title", "users WHERE job_title IN ('King', 'Queen')", {"King", "Queen"}),
    (
        "job_title",
        "users WHERE job_title = 'King' OR ('Queen' = job_title OR job_title IN ('King', 'Jack'))",
        {"King", "Queen", "Jack"},
    ),
    ("CASE WHEN device = 'tv' THEN 'a' WHEN device = 'car' THEN 'b' END", "events", {"a", "b", None}),
    ("CASE WHEN device = 'tv' THEN 'a' ELSE 'b' END", "events", {"a", "b"}),
    ("CASE device WHEN 'tv' THEN 'a' END", "events", {"a", None}),
    ("device = 'tv'", "events", {"t", "f", None}),
    ("action = 'like'", "events", {"t", "f"}),
    ("a.topic", ON_ARTICLES, {"ai", "food", "law"}),
    ("a.topic", TO_ARTICLES, {"ai", "food", "law", None}),
    ("a.title", f"{ON_ARTICLES} WHERE a.topic = 'food' AND a.article_id < 5", {"Title 1", "Title 4"}),
    ("a.title", f"{ON_ARTICLES} WHERE e.article_id IN (1, 2)", {"Title 1", "Title 2"}),
    ("e.article_id", f"{ON_ARTICLES} WHERE a.title IN ('Title 1', 'Title 7')", {"1", "7"}),
    ("t.tag", f"{ON_ARTICLES} JOIN tags t ON t.article_id = a.article_id WHERE a.topic = 'ai'", set()),
    ("a.topic", f"{TO_ARTICLES} WHERE a.topic IS NULL", {None}),
    ("e.article_id", f"{TO_ARTICLES} WHERE a.title IN ('Title 1', 'Title 7')", {"1", "7"}),
    ("e.article_id", f"{TO_ARTICLES} AND a.topic <> 'food' WHERE a.article_id < 4", {"2", "3"}),
    ("a.topic", f"{TO_ARTICLES} AND a.topic = 'food'", {"food", None}),
    ("a.topic", "events e LEFT JOIN articles a ON a.topic = 'food'", {"food"}),
    ("a.topic", "events e LEFT JOIN articles a ON a.topic = 'no such topic'", {None}),
    (
        "u.country",
        f"{ON_ARTICLES} JOIN users u USING (user_id) WHERE a.topic = 'ai'",
        {"US", "DE", "FR", "LI", None},
    ),
    ("a.title", f"{ON_ARTICLES} WHERE a.title = 'Title 3' AND e.device = a.topic", {"Title 3"}),
    ("date_trunc('month', ts)", "events WHERE EXTRACT(month FROM ts) IN (1, 7)", {"2024-01-01 00:00:00"}),
    ("ts::date", "events WHERE EXTRACT(dow FROM ts) = 0 AND ts < '2024-01-15'", {"2024-01-07", "2024-01-14"}),
    ("date_trunc('month', ts)", "events WHERE ts::date = '2024-02-10'", {"2024-02-01 00:00:00"}),
    ("country", "users WHERE country NOT LIKE '#D_' ESCAPE '#'", {"FR", "LI", "US"}),
    ("CASE WHEN job_title LIKE 'eng#_%' ESCAPE '#' THEN 'a' ELSE 'b' END", "users", {"a", "b"}),
    (
        "e.article_id",
        "events e WHERE EXISTS (SELECT 1 FROM articles a WHERE a.article_id = e.article_id AND a.title = 'Title 3')",
        {"3"},
    ),
    (
        "e.article_id",
        "events e WHERE e.article_id NOT IN (SELECT article_id FROM articles WHERE topic <> 'ai') AND e.article_id < 7",
        {"3", "6"},
    ),
    (
        "date_trunc('month', ts)",
        "events WHERE EXTRACT(month FROM ts)::int IN (SELECT article_id FROM articles WHERE article_id < 2)",
        {"2024-01-01 00:00:00"},
    ),
    ("extract(quarter FROM signup_date)", "users WHERE signup_date >= '2024-07-01'", {"3", "4"}),
    ("date_trunc('month', ts)", "events WHERE ts < '2024-02-01'", {"2024-01-01 00:00:00"}),
    # A group has a row: the least of values that are not NULL is none.
    ("s.a", "(SELECT user_id, MIN(action) AS a FROM events GROUP BY 1) s", {"view", "like", "share"}),
    ("s.c", "(SELECT user_id, MAX(country) AS c FROM users GROUP BY 1) s", {"US", "DE", "FR", "LI", None}),
    (
        "date_trunc('month', ts::timestamptz AT TIME ZONE 'America/New_York')",
        "events WHERE ts < '2024-02-01'",
        {"2023-12-01 00:00:00", "2024-01-01 00:00:00"},
    ),
    (
        "date_trunc('month', ts AT TIME ZONE 'UTC', 'America/New_York')",
        "events WHERE ts < '2024-02-01'",
        {"2023-12-01 05:00:00+00", "2024-01-01 05:00:00+00"},
    ),
    (
        "(ts AT TIME ZONE 'UTC' AT TIME ZONE 'Asia/Tokyo')::date",
        "events WHERE ts >= '2024-03-30'",
        {"2024-03-30", "2024-03-31", "2024-04-01"},
    ),
    (
        "EXTRACT(month FROM timezone('Asia/Tokyo', ts::timestamptz))",
        "events WHERE ts >= '2024-03-30' AND ts < '2024-03-31 15:00'",
        {"3"},
    ),
)


@pytest.mark.service
@pytest.mark.parametrize(("key", "rows", "cells"), CELLS)
def test_cells(key: str, rows: str, cells: set[str | None], postgres: psycopg.Connection) -> None:
    found = cells_of(node_of(key, rows), postgres)
    assert found is not None
    assert sorted(map(repr, found)) == sorted(repr((cell,)) for cell in cells)


def node_of(key: str, rows: str, policy: Policy = POLICY) -> AggregateNode:
    """The node of one key, or of several between commas."""
    node = split_query(f"SELECT {key}, COUNT(*) FROM {rows} GROUP BY {key}", policy).nodes[0]
    assert isinstance(node, AggregateNode)
    return node


@pytest.mark.service
@pytest.mark.parametrize(
    ("keys", "rows", "public"),
    [
        ("e.article_id, a.topic", TO_ARTICLES, "SELECT article_id, topic FROM articles"),
        (
            "a.article_id, a.topic",
            TO_ARTICLES,
            "SELECT article_id, topic FROM articles UNION ALL SELECT NULL, NULL",
        ),
        (
            "e.article_id, a.topic",
            f"{TO_ARTICLES} AND e.device = 'tv'",
            "SELECT article_id, topic FROM articles UNION ALL SELECT article_id, NULL FROM articles",
        ),
        (
            "e.article_id, a.topic",
            f"{TO_ARTICLES} AND a.article_id > 18",
            "SELECT article_id, CASE WHEN article_id > 18 THEN topic END FROM articles",
        ),
        (
            "a.topic, t.tag",
            f"{TO_ARTICLES} LEFT JOIN tags t ON t.article_id = a.article_id",
            "SELECT topic, tag FROM articles LEFT JOIN tags USING (article_id) UNION SELECT NULL, NULL",
        ),
    ],
)
def test_cells_of_an_outer_join_are_those_of_its_rows(
    keys: str, rows: str, public: str, postgres: psycopg.Connection
) -> None:
    node = node_of(keys, rows)
    found = cells_of(node, postgres)
    true = postgres.execute(
        f"SELECT DISTINCT a::text, b::text FROM ({public}) AS x(a, b)".encode()
    ).fetchall()
    assert found is not None
    # Keys have an order of their own.
    assert sorted(sorted(map(repr, cell)) for cell in found) == sorted(sorted(map(repr, row)) for row in true)


@pytest.mark.parametrize(
    ("key", "rows"),
    [
        ("job_title", "users"),
        ("job_title", "users WHERE job_title IN ('King', country)"),
        ("job_title", "users WHERE job_title = country"),
        ("job_title", "users WHERE job_title = 'King' OR country = 'US'"),
        ("job_title", "users WHERE job_title = 'King' OR job_title > 'Queen'"),
        ("job_title", "users WHERE job_title <> 'King'"),
        ("quantity", "events WHERE quantity > 5"),
        ("amount", "events WHERE amount IN (1, 2)"),
        ("EXTRACT(day FROM ts - timestamp '2024-01-01')", "events"),
        ("CASE WHEN device = 'tv' THEN device ELSE 'b' END", "events"),
    ],
)
def test_unknown(key: str, rows: str) -> None:
    node = node_of(key, rows)
    assert domain_queries(node.relation, node.keys, POLICY, ()) is None


@pytest.mark.parametrize(
    ("rows", "parameters", "without"),
    [
        (
            f"{ON_ARTICLES} JOIN tags t ON t.article_id = a.article_id JOIN tags s ON s.tag = t.tag",
            (),
            '"tags"',
        ),
        (f"{ON_ARTICLES} WHERE e.article_id > $1", (Parameter("bigint", None),), '"article_id" >'),
        (f"{ON_ARTICLES} WHERE a.article_id < $1", (Parameter("bigint", None),), '"article_id" <'),
        (f"{ON_ARTICLES} WHERE e.article_id IN (3000000000, 3)", (), "CAST(3000000000"),
    ],
)
def test_what_does_not_cut_a_domain(rows: str, parameters: tuple[Parameter, ...], without: str) -> None:
    """A join that makes more rows, a constant that is not known yet, a constant beyond the column's type."""
    plan = split_query(f"SELECT a.topic, COUNT(*) FROM {rows} GROUP BY 1", POLICY, parameters)
    (node,) = plan.nodes
    assert isinstance(node, AggregateNode)
    queries = domain_queries(node.relation, node.keys, POLICY, parameters)
    assert queries is not None
    assert without not in queries[0][1].sql("postgres")


def test_a_condition_that_raises_does_not_cut_a_domain() -> None:
    """Of conditions in another order than PostgreSQL's one may divide by zero."""
    node = node_of("a.topic", f"{ON_ARTICLES} WHERE a.article_id <> 1 AND 100 / (a.article_id - 1) > 10")
    asked: list[str] = []

    def rows(sql: str) -> list[tuple[str]]:
        asked.append(sql)
        if "/" in sql:
            raise Refusal("22012", "division by zero")
        return [("ai",)]

    cells = known_cells(node.relation, node.keys, POLICY, (), rows)
    assert list(cells or ()) == [("ai",)]
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("key", "rows", "asked"),
    [
        ("date_trunc('minute', ts)", "events", None),
        (
            "date_trunc('minute', ts)",
            "events WHERE ts >= '2024-01-01' AND ts < '2024-01-02'",
            "GENERATE_SERIES",
        ),
        ("date_trunc('day', ts)", "events", "GENERATE_SERIES"),
        ("EXTRACT(hour FROM ts)", "events", "VALUES"),
        ("EXTRACT(hour FROM date_trunc('minute', ts))", "events", "VALUES"),
        ("to_char(ts, 'HH24:MI')", "events", None),
        ("to_char(ts, 'hh24')", "events", "VALUES"),
        ("to_char(ts, 'HH24:00')", "events", "VALUES"),
        ("to_char(ts, 'HH12 AM')", "events", "VALUES"),
        ("to_char(ts, 'MM')", "events", "GENERATE_SERIES"),
        ("date_bin('15 minutes', ts, timestamp '2024-01-01')", "events", None),
        (
            "date_bin('15 minutes', ts, timestamp '2024-01-01')",
            "events WHERE ts > '2020-01-01' AND ts <= '2029-01-01'",
            "GENERATE_SERIES",
        ),
        ("signup_date", "users", "GENERATE_SERIES"),
        ("signup_date", "users WHERE signup_date > '0001-01-01' OR country = 'US'", "GENERATE_SERIES"),
    ],
)
def test_times_are_listed_where_they_are_few(key: str, rows: str, asked: str | None) -> None:
    """PostgreSQL would list a thousand years' minutes for a long time before it says that they are too many."""
    wide = [replace(c, range=("1024-01-01", "2999-12-31")) if c.name == "ts" else c for c in EVENTS.columns]
    events = replace(EVENTS, columns=tuple(wide))
    policy = Policy({(t.schema, t.name): t for t in (USERS, events, ARTICLES, TAGS)})
    node = node_of(key, rows, policy)
    queries = domain_queries(node.relation, node.keys, policy, ())
    written = None if queries is None else queries[0][1].sql("postgres")
    assert (written is None) == (asked is None)
    assert (asked or "") in (written or "")


def test_a_table_that_the_front_does_not_hold_gives_no_domain() -> None:
    away = replace(ARTICLES, in_front=False)
    policy = Policy({(t.schema, t.name): t for t in (USERS, EVENTS, away, TAGS)})
    for key, rows in (("article_id", "events"), ("a.topic", ON_ARTICLES)):
        node = node_of(key, rows, policy)
        assert domain_queries(node.relation, node.keys, policy, ()) is None


def test_a_declared_key_of_the_unit_is_enforced(backend: duckdb.DuckDBPyConnection) -> None:
    declared = replace(USERS, keys=(), declared_keys=USERS.keys)
    policy = Policy({("public", "users"): declared})
    node = node_of("job_title", "users", policy)
    assert node.bound.value == 1
    query = histogram_query(node, policy, (), None, 1, 100, DUCKDB)
    backend.execute("BEGIN")
    try:
        backend.execute(
            "CREATE TEMP TABLE doubled AS FROM users UNION ALL SELECT * REPLACE (country AS job_title) FROM users"
        )
        found = backend.execute(query.sql.replace('"users"', '"doubled"'), ["secret"]).fetchall()
    finally:
        backend.execute("ROLLBACK")
    assert sum(count for _, count in found) == 120, "each unit is in one group, whatever the rows say"


def test_minus_zero_is_the_group_of_zero(backend: duckdb.DuckDBPyConnection) -> None:
    node = node_of("amount * 0", "events WHERE amount < 0")
    query = histogram_query(node, POLICY, (), None, None, 10, DUCKDB)
    found = backend.execute(query.sql, ["secret"] if query.rank_key else []).fetchall()
    assert [str(row[0]) for row in found if row[0] is not None] == ["0.0"]


@pytest.mark.service
@pytest.mark.parametrize(
    ("sql", "cells"),
    [
        ("SELECT width_bucket(amount, 0, 100, 4), COUNT(*) FROM events GROUP BY 1", 7),
        ("SELECT to_char(ts, 'YYYY-MM'), COUNT(*) FROM events GROUP BY 1", 3),
        ("SELECT to_char(signup_date, 'YYYY'), COUNT(*) FROM users GROUP BY 1", 2),
        ("SELECT to_char(ts, 'HH24:MI'), COUNT(*) FROM events GROUP BY 1 ORDER BY 2 DESC LIMIT 3", None),
    ],
)
def test_buckets_and_dates_as_texts(sql: str, cells: int | None, postgres: psycopg.Connection) -> None:
    node = split_query(sql, POLICY).nodes[0]
    assert isinstance(node, AggregateNode)
    found = cells_of(node, postgres)
    assert (None if found is None else len(found)) == cells


@pytest.mark.parametrize(
    ("keys", "rows", "places"),
    [
        (
            "country, birth_year / 10, job_title",
            "users WHERE job_title IN ('King', 'Queen')",
            [(0,), (1,), (2,)],
        ),
        ("country, birth_year / 10", "users WHERE country = 'US' OR birth_year > 1990", [(0, 1)]),
        ("country, birth_year, upper(country)", "users", [(0,), (1, 2)]),
        ("a.topic, action, a.title", ON_ARTICLES, [(0, 1), (2,)]),
    ],
)
def test_keys_that_nothing_ties_are_apart(keys: str, rows: str, places: list[tuple[int, ...]]) -> None:
    node = node_of(keys, rows)
    queries = domain_queries(node.relation, node.keys, POLICY, ())
    assert queries is not None
    assert [one for one, _ in queries] == places


def test_a_product_that_is_too_large_is_not_made() -> None:
    node = node_of("country, birth_year, action, device = 'tv'", "users JOIN events USING (user_id)")
    sizes = iter((1000, 100, 10, 2))
    asked: list[str] = []

    def rows(sql: str) -> list[tuple[str | None, ...]]:
        asked.append(sql)
        return [(str(n),) for n in range(next(sizes))]

    assert known_cells(node.relation, node.keys, POLICY, (), rows) is None
    assert [sql.rpartition(" ")[2] for sql in asked] == ["1000001", "1001", "11", "2"]
