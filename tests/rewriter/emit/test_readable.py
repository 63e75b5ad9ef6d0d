"""What a history says of a question: in words, on one line, with the names that analysts see."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rewriter.emit.readable import MOST, readable
from rewriter.ir.parameter import Parameter
from rewriter.logical.plan import AggregateNode
from rewriter.logical.split import split_query
from tests.rewriter.shop import POLICY as SHOP

POLICY = replace(SHOP, unit_clips=True)

SAID = {
    "SELECT country, COUNT(*) FROM users GROUP BY country ORDER BY 2 DESC LIMIT 10": (
        "COUNT(*) of users by country, top 10"
    ),
    "SELECT SUM(amount), AVG(amount) FROM events WHERE action = 'like' OR device = 'tv'": (
        "SUM(amount), AVG(amount) of events where (action = 'like' OR device = 'tv')"
    ),
    "SELECT u.country, COUNT(*) FROM events e JOIN users u ON u.user_id = e.user_id WHERE e.amount > 1 GROUP BY 1": (
        "COUNT(*) of events, users by users.country where events.amount > 1"
    ),
    "SELECT AVG(n) FROM (SELECT user_id, COUNT(*) AS n FROM events WHERE action = 'like' GROUP BY 1) AS x": (
        "AVG(COUNT(*)) of (events per user_id where action = 'like')"
    ),
    "SELECT COUNT(*) FROM users u WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.user_id = u.user_id)": (
        "COUNT(*) of users where user_id NOT IN (user_id of events)"
    ),
    "SELECT COUNT(*) FROM (SELECT user_id FROM users UNION ALL SELECT user_id FROM events) AS t": (
        "COUNT(*) of (users UNION ALL events)"
    ),
    "SELECT COUNT(DISTINCT user_id), COUNT(*), COUNT(amount) FROM events": (
        "COUNT(DISTINCT user_id), COUNT(*), COUNT(amount) of events"
    ),
    "SELECT COUNT(DISTINCT action) FILTER (WHERE amount > 3) FROM events": (
        "COUNT(DISTINCT action) FILTER (WHERE amount > 3) of events"
    ),
    "SELECT country, SUM(amount) FILTER (WHERE action = 'like') FROM users JOIN events USING (user_id) GROUP BY 1": (
        "SUM(events.amount) FILTER (WHERE events.action = 'like') of events, users by users.country"
    ),
    "SELECT device FROM events GROUP BY device": "the values of events by device",
    "SELECT COUNT(*) FROM users WHERE country = $1": "COUNT(*) of users where country = 'FR'",
}


@pytest.mark.parametrize(("sql", "said"), SAID.items())
def test_said(sql: str, said: str) -> None:
    (node,) = (plan := split_query(sql, POLICY, [Parameter("text", "FR")])).nodes
    assert isinstance(node, AggregateNode)
    assert readable(node, plan.values) == said


def test_nested_subqueries_do_not_multiply() -> None:
    rows = "SELECT user_id, COUNT(*) AS n FROM events GROUP BY user_id"
    for _ in range(8):
        rows = f"SELECT user_id, SUM(n + n * n) AS n FROM ({rows}) AS x GROUP BY user_id"
    (node,) = (plan := split_query(f"SELECT COUNT(*) FROM ({rows}) AS x WHERE n > 3", POLICY)).nodes
    assert isinstance(node, AggregateNode)
    assert len(readable(node, plan.values)) < MOST


def test_long_questions_are_cut() -> None:
    many = f"country IN ({', '.join(repr(f'country {n}') for n in range(200))})"
    (node,) = (plan := split_query(f"SELECT COUNT(*) FROM users WHERE {many}", POLICY)).nodes
    assert isinstance(node, AggregateNode)
    text = readable(node, plan.values)
    assert len(text) == MOST
    assert text.endswith("…")
