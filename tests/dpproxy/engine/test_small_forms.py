"""Forms of grouping that reporting tools and query libraries send, from the text to PostgreSQL's rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from dpproxy.deployment.service import Service, configured
from rewriter.refusal import Refusal
from tests.dpproxy.engine.test_executor import Analyst

pytestmark = pytest.mark.service

SCHEMA = (
    "CREATE TABLE users (user_id BIGINT PRIMARY KEY, country VARCHAR NOT NULL, kind VARCHAR NOT NULL)",
    "CREATE TABLE categories (category_id BIGINT PRIMARY KEY, name VARCHAR NOT NULL, floor INTEGER NOT NULL)",
    "CREATE TABLE orders (order_id BIGINT PRIMARY KEY, user_id BIGINT NOT NULL REFERENCES users (user_id),"
    " category_id BIGINT, price INTEGER)",
    "INSERT INTO users SELECT i, CASE WHEN i % 3 = 0 THEN 'DE' ELSE 'FR' END, 'k' || i % 2"
    " FROM generate_series(0, 2999) AS r(i)",
    "INSERT INTO categories SELECT i, 'category ' || i, i % 2 FROM generate_series(1, 4) AS r(i)",
    "INSERT INTO orders SELECT i, i % 3000, 1 + i % 3, 50 FROM generate_series(0, 5999) AS r(i)",
    "INSERT INTO orders SELECT 6000 + i, i, NULL, 50 FROM generate_series(0, 599) AS r(i)",
)
"""Nobody orders of category 4, and 600 orders are of none."""
POLICY = """
[backend]
url = "duckdb:///small.duckdb"
[privacy]
epsilon_per = 8
query_information = 8
[budget]
mode = "track"
[tables.users]
privacy_unit = "user_id"
[tables.users.columns]
country = { domain = ["DE", "FR"] }
kind = { domain = ["k0", "k1"] }
[tables.orders]
privacy_unit_path = ["user_id -> users.user_id"]
[tables.orders.columns]
price = { bounds = [0, 100] }
[tables.categories]
public = true
"""


@pytest.fixture(scope="module")
def ann(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Analyst]:
    folder: Path = tmp_path_factory.mktemp("small_forms")
    with duckdb.connect(folder / "small.duckdb") as connection:
        for statement in SCHEMA:
            connection.execute(statement)
    (folder / "dpproxy.toml").write_text(POLICY)
    with Service.start(configured(folder / "dpproxy.toml"), alone=True) as service:
        yield Analyst(service, "ann")


def test_grouping_sets_without_an_aggregate(ann: Analyst) -> None:
    assert sorted(ann.ask("SELECT country FROM users GROUP BY ROLLUP (country)"), key=str) == [
        ("DE",),
        ("FR",),
        (None,),
    ]
    assert ann.ask(
        "SELECT GROUPING(country) FROM users GROUP BY GROUPING SETS ((), (country)) ORDER BY 1"
    ) == [
        ("0",),
        ("0",),
        ("1",),
    ]


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        (
            "SELECT country, kind, GROUPING(country), GROUPING(country, kind) FROM users GROUP BY CUBE (country, kind)",
            9,
        ),
        (
            "SELECT * FROM (SELECT country, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS r FROM users"
            " GROUP BY ROLLUP (country)) q WHERE r <= 2",
            2,
        ),
        (
            "SELECT * FROM (SELECT country, kind, n, RANK() OVER (PARTITION BY country ORDER BY n DESC) AS r FROM"
            " (SELECT country, kind, COUNT(*) AS n FROM users GROUP BY ROLLUP (country, kind)) a) b WHERE r <= 1"
            " ORDER BY country, r LIMIT 100",
            3,
        ),
        (
            "SELECT country, kind, GROUPING(country) + GROUPING(kind) AS level, RANK() OVER (PARTITION BY"
            " GROUPING(country) + GROUPING(kind), CASE WHEN GROUPING(kind) = 0 THEN country END ORDER BY COUNT(*) DESC)"
            " FROM users GROUP BY ROLLUP (country, kind) ORDER BY level DESC, CASE WHEN GROUPING(kind) = 0 THEN country"
            " END",
            7,
        ),
        (
            "WITH q AS (SELECT country, COUNT(*) AS n FROM users GROUP BY ROLLUP (country)) SELECT a.country,"
            " RANK() OVER (ORDER BY a.n) FROM q a JOIN q b ON a.n >= b.n",
            6,
        ),
        (
            "SELECT country, n FROM (SELECT country, COUNT(*) AS n, ROW_NUMBER() OVER (ORDER BY COUNT(*) DESC) AS r"
            " FROM users GROUP BY ROLLUP (country) HAVING COUNT(*) > 10) q WHERE r = 1",
            1,
        ),
        (
            "SELECT DISTINCT country FROM users INTERSECT SELECT country FROM users WHERE kind = 'k1' GROUP BY country",
            2,
        ),
        ("SELECT country FROM users GROUP BY country EXCEPT SELECT 'DE'", 1),
        ("SELECT country, COUNT(*) FROM users GROUP BY 1 UNION ALL SELECT 'total', 0", 3),
        (
            "SELECT 'total' AS country, 0 AS n UNION ALL SELECT country, COUNT(*) FROM users GROUP BY 1 ORDER BY 2",
            3,
        ),
    ],
)
def test_released_groups_are_ordinary_rows(ann: Analyst, sql: str, rows: int) -> None:
    assert len(ann.ask(sql)) == rows


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        (
            "SELECT d, (SELECT COUNT(*) FROM orders o WHERE o.order_id <= d) FROM generate_series(1, 9) AS d",
            "PV015",
        ),
        (
            "SELECT name FROM categories c WHERE 3 < (SELECT COUNT(*) FROM orders o WHERE o.price > c.floor)",
            "PV015",
        ),
        (
            "SELECT name FROM categories c WHERE 3 < (SELECT COUNT(*) FROM orders o WHERE o.price > c.flor)",
            "42703",
        ),
    ],
)
def test_a_subquery_on_private_rows_is_not_correlated_with_public_ones(
    ann: Analyst, sql: str, code: str
) -> None:
    with pytest.raises(Refusal) as refused:
        ann.ask(sql)
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        (
            "SELECT COUNT(*), COUNT(DISTINCT user_id), COUNT(DISTINCT country) FROM users WHERE country = NULL",
            [("0", "0", "0")],
        ),
        (
            "SELECT COUNT(*) AS n, SUM(price), AVG(price), MAX(price), VARIANCE(price) FROM orders "
            "WHERE price NOT IN (50, NULL)",
            [("0", None, None, None, None)],
        ),
        ("SELECT SUM(price) FROM orders JOIN users USING (user_id) WHERE FALSE", [(None,)]),
        ("SELECT COUNT(*) FROM users WHERE country <> ALL (ARRAY['DE', NULL]) AND kind = 'k0'", [("0",)]),
        ("SELECT COUNT(*) FROM users WHERE NULL", [("0",)]),
        ("SELECT country, COUNT(*) FROM users WHERE kind <> NULL GROUP BY ROLLUP (country)", [(None, "0")]),
        ("SELECT country, COUNT(*) FROM users WHERE kind <> NULL GROUP BY country", []),
        ("SELECT country, kind FROM users WHERE kind NOT IN ('k0', NULL)", []),
    ],
)
def test_conditions_that_no_row_meets_are_free(
    sql: str, rows: list[tuple[str | None, ...]], ann: Analyst
) -> None:
    before = ann.used()
    assert ann.ask(sql) == rows
    assert ann.used() == before


def test_conditions_that_rows_may_meet_are_asked(ann: Analyst) -> None:
    for condition in (
        "country IN ('DE', NULL)",
        "country = NULL OR country = 'DE'",
        "country <> ALL (ARRAY['FR'])",
    ):
        ((n,),) = ann.ask(f"SELECT COUNT(*) FROM users WHERE {condition}")
        assert abs(int(n) - 1000) < 50


@pytest.mark.parametrize(
    ("sql", "part"),
    [
        ("SELECT AVG(price * 2 ^ 2), COUNT(*) FROM orders WHERE price > 3", "price * 2 ^ 2"),
        ("SELECT country, COUNT(*) FROM users WHERE kind = 'k0' AND +user_id > 3 GROUP BY 1", "+user_id > 3"),
    ],
)
def test_what_postgresql_reads_otherwise_is_named(ann: Analyst, sql: str, part: str) -> None:
    """Where it is answered one day, there is nothing to name."""
    refused: list[Refusal] = []
    try:
        ann.ask(sql)
    except Refusal as refusal:
        refused.append(refusal)
    named = [(r.message, r.detail, r.position) for r in refused]
    message = "PostgreSQL and dpproxy read this query differently"
    assert named in ([], [(message, f"They differ in {part}", sql.index(part) + 1)])
