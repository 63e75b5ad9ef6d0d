"""Times with T and Z mean what they mean to PostgreSQL, beside a column of timestamps and nowhere else."""

from __future__ import annotations

import pytest

from rewriter.logical.split import split_query
from rewriter.policy import Column, Policy, Table
from rewriter.refusal import Refusal

COLUMNS = (
    Column("user_id", "bigint", False),
    Column("at", "timestamp without time zone"),
    Column("seen", "timestamp with time zone"),
    Column("note", "text"),
)
USERS = Table(
    "public", "users", COLUMNS, False, ("users",), privacy_unit="user_id", keys=(frozenset({"user_id"}),)
)
POLICY = Policy({("public", "users"): USERS})
COUNT = "SELECT COUNT(*) FROM users WHERE "


@pytest.mark.parametrize(
    ("iso", "plain"),
    [
        ("at >= '2024-01-01T10:00:00Z'", "at >= '2024-01-01 10:00:00'"),
        ("at < ('2024-01-01T10:00')", "at < '2024-01-01 10:00'"),
        ("at = '2024-01-01T10:00:00.25Z'", "at = '2024-01-01 10:00:00.25'"),
        (
            "at BETWEEN '2024-01-01T00:00:00Z' AND '2024-01-05T23:59:59.999Z'",
            "at BETWEEN '2024-01-01 00:00:00' AND '2024-01-05 23:59:59.999'",
        ),
        ("at IN ('2024-01-01T00:00:00Z', '2024-01-02')", "at IN ('2024-01-01 00:00:00', '2024-01-02')"),
        ("seen >= '2024-01-01T10:00:00Z'", "seen >= '2024-01-01 10:00:00+00'"),
        ("seen >= '2024-01-01T10:00:00'", "seen >= '2024-01-01 10:00:00'"),
    ],
)
def test_a_time_in_iso_8601(iso: str, plain: str) -> None:
    assert split_query(COUNT + iso, POLICY).nodes == split_query(COUNT + plain, POLICY).nodes


def test_the_text_of_the_client_stays_as_it_is() -> None:
    tree = split_query(COUNT + "seen >= '2024-01-01T10:00:00Z'", POLICY).tree
    assert "'2024-01-01T10:00:00Z'" in tree.sql("postgres")


def test_a_text_stays_a_text() -> None:
    nodes = split_query(COUNT + "note > '2024-01-01T10:00:00Z'", POLICY).nodes
    assert nodes != split_query(COUNT + "note > '2024-01-01 10:00:00'", POLICY).nodes


@pytest.mark.parametrize("written", ["2024-01-01T10:00:00+01:00", "2024-01-01T", "2024-01-01t10:00:00z"])
def test_other_spellings_are_refused(written: str) -> None:
    with pytest.raises(Refusal, match="spelling"):
        split_query(f"{COUNT}at >= '{written}'", POLICY)
