"""The bounds themselves: l0 and whether it is enforced, tau, or the refusal, one query a rule of the calculus."""

from __future__ import annotations

from dataclasses import replace

import duckdb
import pytest

from rewriter.emit.engines.duckdb import DUCKDB
from rewriter.emit.histogram import histogram_query
from rewriter.ir.measure import Count
from rewriter.logical.plan import AggregateNode
from rewriter.logical.split import split_query
from rewriter.policy import Column, Hop, Policy, Table
from rewriter.refusal import Refusal
from rewriter.scalar.typecheck import Parameter
from tests.rewriter.shop import ARTICLES, EVENTS, TAGS, USERS

VISITS = Table(
    schema="public",
    name="visits",
    columns=(Column("user_id", "bigint"), Column("page", "text"), Column("place", "text")),
    public=False,
    backend_name=("visits",),
    privacy_unit="user_id",
    max_rows_per_unit=40,
    max_rows_per_unit_per_group=20,
    max_groups_per_unit={frozenset({"page"}): 2, frozenset({"place"}): 1},
)
ITEMS = Table(
    schema="public",
    name="items",
    columns=(Column("event_id", "bigint"), Column("color", "text")),
    public=False,
    backend_name=("items",),
    privacy_unit="event_id",
    path=(Hop("event_id", ("public", "events"), "event_id"), *EVENTS.path),
)
PRICES = Table(
    schema="public",
    name="prices",
    columns=(Column("article_id", "bigint"), Column("country", "text"), Column("price", "integer")),
    public=True,
    backend_name=("prices",),
    in_front=True,
    keys=(frozenset({"article_id", "country"}),),
)
BOUNDED = replace(EVENTS, max_groups_per_unit={frozenset({"device"}): 3, frozenset({"article_id"}): 4})
POLICY = Policy({(t.schema, t.name): t for t in (USERS, BOUNDED, ARTICLES, TAGS, VISITS, ITEMS, PRICES)})

UNITS = "SELECT {}, COUNT(DISTINCT {}.user_id) FROM {} GROUP BY 1"
BOUNDS = (
    ("e.device, v.page", "e", "events e JOIN visits v ON e.user_id = v.user_id", 6, True),
    ("e.device", "e", "events e JOIN users u ON e.user_id = u.user_id", 3, True),
    ("u.country", "e", "events e JOIN users u ON e.user_id = u.user_id", 1, False),
    ("e.device, e.action", "e", "events e", 12, True),
    ("e.device, e.article_id", "e", "events e", 12, True),
    ("a.topic", "e", "events e JOIN articles a ON a.article_id = e.article_id", 4, True),
    (
        "a.topic",
        "e",
        "events e LEFT JOIN articles a ON a.article_id = e.article_id AND e.device = 'tv'",
        12,
        True,
    ),
    ("a.topic", "e", "events e JOIN articles a ON a.article_id = a.article_id", None, False),
    (
        "a.topic",
        "u",
        "users u CROSS JOIN articles a JOIN articles b ON a.article_id = b.article_id",
        None,
        False,
    ),
    (
        "b.topic",
        "e",
        "events e JOIN articles b ON TRUE JOIN articles a ON a.article_id = e.article_id"
        " AND b.article_id = a.article_id",
        4,
        True,
    ),
    ("p.price", "e", "events e JOIN prices p ON p.article_id = e.article_id", None, False),
    (
        "p.price",
        "e",
        "events e JOIN prices p ON p.article_id = e.article_id AND p.country = e.device",
        12,
        True,
    ),
    ("s.device", "s", "(SELECT user_id, device, COUNT(*) AS n FROM events GROUP BY 1, 2) s", 3, True),
    ("s.n", "s", "(SELECT user_id, COUNT(*) AS n FROM events GROUP BY 1) s", 1, False),
    ("s.n", "s", "(SELECT user_id, device, COUNT(*) AS n FROM events GROUP BY 1, 2) s", 3, True),
    ("s.n", "s", "(SELECT user_id, action, COUNT(*) AS n FROM events GROUP BY 1, 2) s", None, True),
    (
        "s.device",
        "s",
        "(SELECT user_id, device FROM events UNION ALL SELECT user_id, page FROM visits) s",
        5,
        True,
    ),
    (
        "s.d",
        "s",
        "(SELECT user_id, device AS d FROM events EXCEPT SELECT user_id, page FROM visits) s",
        3,
        True,
    ),
    (
        "s.q",
        "s",
        "(SELECT user_id, quantity AS q FROM events INTERSECT SELECT user_id, 1 FROM visits) s",
        1,
        False,
    ),
    (
        "s.r",
        "s",
        "(SELECT user_id, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY ts) AS r FROM events) s",
        None,
        True,
    ),
    (
        "s.action",
        "s",
        "(SELECT user_id, action, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY ts) AS r FROM events) s WHERE r < 4",
        3,
        True,
    ),
    (
        "s.action",
        "s",
        "(SELECT user_id, action, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY ts) AS r FROM events) s WHERE r = 1",
        1,
        False,
    ),
    (
        "s.action",
        "s",
        "(SELECT user_id, action, ROW_NUMBER() OVER (PARTITION BY user_id, device ORDER BY ts) AS r FROM events) s "
        "WHERE r = 1",
        None,
        True,
    ),
    ("s.n", "s", "(SELECT user_id, COUNT(*) OVER (PARTITION BY user_id) AS n FROM events) s", 1, False),
    (
        "s.n",
        "s",
        "(SELECT user_id, COUNT(*) OVER (PARTITION BY user_id, device) AS n FROM events) s",
        3,
        True,
    ),
    (
        "s.n",
        "s",
        "(SELECT user_id, COUNT(*) OVER (PARTITION BY user_id ORDER BY ts) AS n FROM events) s",
        None,
        True,
    ),
    ("s.action", "s", "(SELECT DISTINCT ON (user_id) user_id, action FROM events) s", 1, False),
    ("v.page", "v", "users u FULL JOIN visits v ON u.user_id = v.user_id", 3, True),
    ("u.job_title, e.action", "e", "events e JOIN users u ON e.user_id = u.user_id", 4, True),
    ("extract(hour FROM e.ts), e.device", "e", "events e", 75, True),
    ("extract(hour FROM e.ts - timestamp '2024-01-01'), e.device", "e", "events e", None, False),
)


def node(sql: str) -> AggregateNode:
    found = split_query(sql, POLICY).nodes[0]
    assert isinstance(found, AggregateNode)
    return found


@pytest.mark.parametrize(("keys", "unit", "rows", "value", "enforce"), BOUNDS)
def test_groups_of_one_unit(keys: str, unit: str, rows: str, value: int | None, enforce: bool) -> None:
    sql = (
        UNITS.format(keys, unit, rows).replace("BY 1", f"BY {keys}")
        if "," in keys
        else UNITS.format(keys, unit, rows)
    )
    bound = node(sql).bound
    assert bound.value == value
    assert value is None or bound.enforce == enforce


@pytest.mark.parametrize(
    ("sql", "tau"),
    [
        ("SELECT COUNT(*) FROM users", 1),
        ("SELECT COUNT(*) FROM events", 1000),
        ("SELECT device, COUNT(*) FROM events GROUP BY 1", 500),
        ("SELECT country, COUNT(*) FROM events JOIN users USING (user_id) GROUP BY 1", 1000),
        ("SELECT place, COUNT(*) FROM visits GROUP BY 1", 20),
        ("SELECT COUNT(*) FROM visits JOIN events USING (user_id)", 1000),
        ("SELECT COUNT(*) FROM users u JOIN articles a ON a.article_id = u.birth_year", 1),
        ("SELECT COUNT(*) FROM (SELECT user_id, MAX(page) AS p FROM visits GROUP BY 1) s", 1),
        ("SELECT COUNT(*) FROM (SELECT user_id, device, COUNT(*) AS n FROM events GROUP BY 1, 2) s", 3),
        (
            "SELECT device, COUNT(*) FROM (SELECT user_id, device, COUNT(*) AS n FROM events GROUP BY 1, 2) s "
            "GROUP BY 1",
            1,
        ),
        ("SELECT COUNT(*) FROM (SELECT user_id FROM users UNION ALL SELECT user_id FROM users) s", 2),
        ("SELECT COUNT(*) FROM (SELECT user_id FROM users UNION SELECT user_id FROM events) s", 1),
        ("SELECT COUNT(*) FROM (SELECT user_id FROM events EXCEPT SELECT user_id FROM visits) s", 1),
        (
            "SELECT COUNT(*) FROM (SELECT user_id, page FROM visits UNION ALL SELECT user_id, device FROM events) s",
            1040,
        ),
        ("SELECT COUNT(*) FROM (SELECT DISTINCT ON (user_id) user_id, action FROM events) s", 1),
        (
            "SELECT COUNT(*) FROM "
            "(SELECT user_id, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY ts) AS r FROM events) s WHERE r <= 3",
            3,
        ),
        ("SELECT COUNT(*) FROM users u FULL JOIN users v USING (user_id)", 1),
        ("SELECT COUNT(*) FROM users u FULL JOIN events e USING (user_id)", 1000),
        ("SELECT COUNT(*) FROM users u RIGHT JOIN events e USING (user_id)", 1000),
    ],
)
def test_rows_of_one_unit_in_a_group(sql: str, tau: int) -> None:
    assert [m.tau for m in node(sql).measures if isinstance(m, Count)] == [tau]


def test_a_parameter_in_a_subquerys_group_bounds_nothing() -> None:
    sql = (
        "SELECT h, COUNT(*) FROM (SELECT user_id, EXTRACT(hour FROM ts - $1) AS h FROM events GROUP BY 1, 2) s "
        "GROUP BY h"
    )
    (found,) = split_query(sql, POLICY, (Parameter("timestamp without time zone", "2024-01-01"),)).nodes
    assert isinstance(found, AggregateNode)
    assert found.bound.value is None


@pytest.mark.parametrize("counted", ["e.user_id", "DISTINCT e.user_id", "e.device"])
def test_what_a_left_join_adds_does_not_count(counted: str) -> None:
    sql = f"SELECT COUNT({counted}) FROM users u LEFT JOIN events e ON e.user_id = u.user_id"
    assert node(sql).measures[0].argument is not None


EXISTS = "SELECT COUNT(*) FROM users u WHERE EXISTS (SELECT 1 FROM {} WHERE y.user_id = u.user_id AND {})"
REFUSED = (
    ("SELECT COUNT(*) FROM users u JOIN tags t ON t.article_id = u.birth_year", "PV017"),
    ("SELECT COUNT(*) FROM users u JOIN events e ON e.user_id <> u.user_id", "PV012"),
    ("SELECT COUNT(*) FROM users u JOIN events e ON e.user_id <= u.user_id", "PV012"),
    ("SELECT COUNT(*) FROM users u LEFT JOIN events e ON e.user_id = e.user_id", "PV012"),
    (EXISTS.format("events y", "u.country IN (SELECT topic FROM articles)"), "PV015"),
    (EXISTS.format("events y, users z", "z.birth_year > 1990"), "PV012"),
    ("SELECT COUNT(*) FROM users WHERE user_id IN (SELECT user_id FROM events LIMIT 5)", "PV014"),
    ("SELECT COUNT(*) FROM users WHERE user_id IN (SELECT user_id FROM events GROUP BY 1 OFFSET 5)", "PV014"),
    (EXISTS.format("events y", "y.quantity > 1 LIMIT 5 OFFSET 1"), "PV014"),
    ("SELECT COUNT(*) FROM (SELECT user_id, COUNT(*) AS n FROM events GROUP BY 1 LIMIT 5) s", "PV014"),
)


@pytest.mark.parametrize(("sql", "code"), REFUSED)
def test_refused(sql: str, code: str) -> None:
    with pytest.raises(Refusal) as refused:
        split_query(sql, POLICY)
    assert refused.value.code == code


TOP = "SELECT job_title, COUNT(*) AS n FROM users GROUP BY 1 {}"


@pytest.mark.parametrize(
    ("end", "k"),
    [
        ("ORDER BY n DESC LIMIT 3", 3),
        ("ORDER BY 2 DESC LIMIT 3 OFFSET 2", 5),
        ("ORDER BY n LIMIT 3", None),
        ("ORDER BY 1 DESC LIMIT 3", None),
        ("LIMIT 3", None),
        ("ORDER BY n DESC", None),
    ],
)
def test_only_the_largest_counts_first_make_a_top_k(end: str, k: int | None) -> None:
    assert node(TOP.format(end)).k == k


@pytest.mark.parametrize(
    ("below", "parameters"), [("5", ()), ("$1", (Parameter("integer", "5"),))], ids=["constant", "parameter"]
)
def test_a_declared_reference_joins_rows_of_one_unit(
    below: str, parameters: tuple[Parameter, ...], backend: duckdb.DuckDBPyConnection
) -> None:
    rows = "items i JOIN events e ON i.event_id = e.event_id"
    sql = f"SELECT COUNT(DISTINCT e.user_id) FROM {rows} WHERE e.quantity < {below}"
    (found,) = split_query(sql, POLICY, parameters).nodes
    assert isinstance(found, AggregateNode)
    query = histogram_query(found, POLICY, parameters, ((),), found.bound.value, 10, DUCKDB)
    with backend.cursor() as cursor:
        cursor.execute(
            "CREATE TEMP TABLE items AS SELECT event_id, 'red' AS color FROM events WHERE event_id % 3 > 0"
        )
        truth = cursor.execute(
            f"SELECT COUNT(DISTINCT e.user_id) FROM {rows} JOIN users USING (user_id) WHERE e.quantity < 5"
        ).fetchall()
        assert truth[0][0] > 10
        assert cursor.execute(query.sql, [list(a) for a in query.arrays]).fetchall() == [(1, *truth[0])]
