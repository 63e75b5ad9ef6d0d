"""Presentations: what the front makes of released values."""

from __future__ import annotations

from dataclasses import replace

import psycopg
import pytest

from rewriter.logical.key_domains import known_cells
from rewriter.logical.plan import AggregateNode
from rewriter.logical.presentation import node_columns, present
from rewriter.logical.split import split_query
from rewriter.policy import Policy
from tests.rewriter.engine import executed, texts
from tests.rewriter.shop import EVENTS, POLICY

ZONED = replace(
    EVENTS,
    columns=tuple(
        replace(c, type="timestamp with time zone") if c.name == "ts" else c for c in EVENTS.columns
    ),
)
MONTHS = "SELECT date_trunc('month', ts) AS month, COUNT(*) FROM events GROUP BY 1 ORDER BY 1"


@pytest.mark.service
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kolkata"])
def test_a_moment_is_the_same_in_every_session(postgres: psycopg.Connection, zone: str) -> None:
    """Released texts are in UTC, whatever the time zone of the analyst's session is."""
    policy = Policy({**POLICY.tables, ("public", "events"): ZONED})
    plan = split_query(MONTHS, policy)
    (node,) = plan.nodes
    assert isinstance(node, AggregateNode)
    cells = known_cells(node.relation, node.keys, policy, (), lambda sql: texts(postgres, sql))
    assert cells is not None
    columns = node_columns(node, ["timestamp with time zone", "bigint"])
    months = [cell[0] for cell in cells]
    sql = f"SELECT extract(epoch FROM month) FROM ({present(plan, [columns], None).sql}) AS q ORDER BY 1"
    postgres.execute(f"SET timezone = '{zone}'".encode())
    try:
        found = [row[0] for row in executed(postgres, sql, (), [months, [1] * len(months)])]
    finally:
        postgres.execute("SET timezone = 'UTC'")
    assert found == [1704067200, 1706745600, 1709251200]
