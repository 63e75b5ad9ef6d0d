"""Columns by schema and table, and typed parameters, are understood as PostgreSQL understands them."""

from __future__ import annotations

import pytest

from rewriter.ir.parameter import Parameter
from rewriter.logical.split import split_query
from rewriter.policy import Column, Policy, Table
from rewriter.refusal import Refusal

COLUMNS = (
    Column("user_id", "bigint", False),
    Column("age", "integer"),
    Column("seen", "timestamp with time zone"),
)
USERS = Table(
    "app", "users", COLUMNS, False, ("app", "users"), privacy_unit="user_id", keys=(frozenset({"user_id"}),)
)
OTHER = Table("public", "users", COLUMNS, False, ("users",), privacy_unit="user_id")
POLICY = Policy({("app", "users"): USERS, ("public", "users"): OTHER}, ("app", "public"))


@pytest.mark.parametrize(
    ("text", "short"),
    [
        (
            'SELECT "app"."users"."age", COUNT(*) FROM "app"."users" GROUP BY "app"."users"."age"',
            'SELECT "users"."age", COUNT(*) FROM "app"."users" GROUP BY "users"."age"',
        ),
        (
            "SELECT COUNT(*) FROM App.Users WHERE app.users.age > 30",
            "SELECT COUNT(*) FROM App.Users WHERE users.age > 30",
        ),
        (
            "SELECT COUNT(DISTINCT app.users.user_id) FROM app.users JOIN public.users AS u USING (user_id)",
            "SELECT COUNT(DISTINCT users.user_id) FROM app.users JOIN public.users AS u USING (user_id)",
        ),
    ],
)
def test_a_schema_before_a_column_is_its_tables(text: str, short: str) -> None:
    assert split_query(text, POLICY).nodes == split_query(short, POLICY).nodes


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM app.users AS u WHERE app.users.age > 30",
        "SELECT COUNT(*) FROM app.users AS users WHERE app.users.age > 30",
        "SELECT COUNT(*) FROM app.users WHERE public.users.age > 30",
        "SELECT COUNT(*) FROM users WHERE app.users.age > 30",
    ],
)
def test_a_schema_that_no_table_in_from_has_is_refused(text: str) -> None:
    with pytest.raises(Refusal):
        split_query(text, POLICY)


def test_a_parameter_needs_no_cast_to_its_own_type() -> None:
    moment = (Parameter("timestamp with time zone", "2024-01-01 00:00:00+00"),)
    plain = split_query("SELECT COUNT(*) FROM app.users WHERE seen > $1", POLICY, moment)
    for written in ("$1::timestamptz", "CAST($1 AS TIMESTAMP WITH TIME ZONE)"):
        assert (
            split_query(f"SELECT COUNT(*) FROM app.users WHERE seen > {written}", POLICY, moment).nodes
            == plain.nodes
        )
    with pytest.raises(Refusal, match="PostgreSQL has to evaluate"):
        split_query(
            "SELECT COUNT(*) FROM app.users WHERE seen > $1::timestamptz", POLICY, (Parameter("text", "x"),)
        )
