"""Which running counts are over a past that never changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rewriter.logical.lasting_streams import lasting
from rewriter.logical.plan import AggregateNode
from rewriter.logical.split import split_query
from rewriter.policy import Horizon, Policy
from tests.rewriter.shop import EVENTS, POLICY

HORIZON = Horizon("ts", "2024-01-01", "2024-03-31", 3)
TABLES = {**POLICY.tables, ("public", "events"): replace(EVENTS, horizon=HORIZON)}


@pytest.mark.parametrize(
    ("time", "where", "grain"),
    [
        ("ts::date", "TRUE", "day"),
        ("date_trunc('month', ts)", "device = 'phone'", "month"),
        ("ts::date", "EXTRACT(hour FROM ts::timestamptz AT TIME ZONE 'UTC') > 8", "day"),
        # The tz database may change what the clock showed.
        ("ts::date", "EXTRACT(hour FROM ts::timestamptz AT TIME ZONE 'Asia/Tokyo') > 8", None),
        # Other rows of the unit may come later.
        ("ts::date", "user_id IN (SELECT user_id FROM users WHERE country = 'DE')", None),
    ],
)
def test_the_past_stays(time: str, where: str, grain: str | None) -> None:
    count = f"SUM(COUNT(*)) OVER (PARTITION BY device ORDER BY {time})"
    sql = f"SELECT device, {time}, {count} FROM events WHERE {where} GROUP BY 1, 2"
    (node,) = split_query(sql, Policy(TABLES)).nodes
    assert isinstance(node, AggregateNode)
    assert lasting(node) == grain
