"""Which running counts are over a past that never changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rewriter.logical.lasting_streams import lasting
from rewriter.logical.plan import AggregateNode
from rewriter.logical.split import split_query
from rewriter.policy import Column, Hop, Horizon, Policy, Table
from tests.rewriter.shop import EVENTS, POLICY

HORIZON = Horizon("ts", "2024-01-01", "2024-03-31", 3)
ALONE = replace(EVENTS, horizon=HORIZON, path=())
COUNT = "SUM(COUNT(*)) OVER (PARTITION BY device ORDER BY {time})"


def lasting_of(events: Table, time: str, where: str = "TRUE") -> str | None:
    """What `lasting` says of a running count of events."""
    sql = f"SELECT device, {time}, {COUNT.format(time=time)} FROM events WHERE {where} GROUP BY 1, 2"
    (node,) = split_query(sql, Policy({**POLICY.tables, ("public", "events"): events})).nodes
    assert isinstance(node, AggregateNode)
    return lasting(node)


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
    assert lasting_of(ALONE, time, where) == grain


@pytest.mark.parametrize(
    "events",
    [
        # The table of the units may lose and regain a unit, also where the path starts from the unit itself.
        replace(ALONE, path=EVENTS.path),
        replace(ALONE, path=(Hop("event_id", ("public", "sessions"), "event_id"), *EVENTS.path)),
        replace(ALONE, where="amount > 0"),
        replace(ALONE, columns=(*ALONE.columns, Column("late", "boolean", expression="amount > 0"))),
    ],
)
def test_rows_that_other_values_move_do_not_stay(events: Table) -> None:
    """Whatever the check of the policy has let through."""
    assert lasting_of(ALONE, "ts::date") == "day"
    assert lasting_of(events, "ts::date") is None
