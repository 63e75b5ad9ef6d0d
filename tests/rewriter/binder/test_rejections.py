"""The queries that refusals suggest are answered when they are pasted."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from rewriter.binder.rejections import example
from rewriter.logical.split import split_query
from rewriter.policy import Column, Hop, Policy, Table
from rewriter.refusal import Refusal
from tests.rewriter.shop import EVENTS, POLICY, USERS

MIXED = replace(
    USERS,
    name="Users of 'ours'",
    columns=(Column("UserId", "bigint"), Column("E-mail", "text"), Column("Born", "jsonb")),
    privacy_unit="UserId",
    keys=(frozenset({"UserId"}), frozenset({"E-mail"})),
)
KEYED = replace(EVENTS, keys=(frozenset({"event_id"}), frozenset({"device"})))


@pytest.mark.parametrize("table", [USERS, EVENTS, MIXED, KEYED], ids=lambda table: str(table.name))
def test_the_example_of_a_table_is_answered(table: Table) -> None:
    policy = Policy({**POLICY.tables, (table.schema, table.name): table})
    assert split_query(example(table), policy).nodes
    name = '"' + table.name.replace('"', '""') + '"'
    with pytest.raises(Refusal) as refused:
        split_query(f"SELECT * FROM {name}", policy)
    hint = refused.value.hint or ""
    assert split_query(hint.split("`")[1], policy).nodes


EVENTS_WITH_A_KEY = replace(EVENTS, keys=(frozenset({"event_id"}),), declared_keys=())
LIKES = Table(
    schema="public",
    name="likes",
    columns=(
        Column("like_id", "bigint", nullable=False),
        Column("event_id", "bigint", nullable=False),
        Column("user_id", "bigint"),
        Column("users_user_id", "bigint", nullable=False, declared=False, virtual=True),
    ),
    public=False,
    backend_name=("likes",),
    privacy_unit="users_user_id",
    path=(Hop("event_id", ("public", "events"), "event_id"), Hop("user_id", ("public", "users"), "user_id")),
    keys=(frozenset({"like_id"}),),
    max_rows_per_unit=100,
)
"""Those of a user's events: who likes is another user."""
FORUM = Policy({**POLICY.tables, ("public", "events"): EVENTS_WITH_A_KEY, ("public", "likes"): LIKES})


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ("users u LEFT JOIN likes l ON u.user_id = l.user_id", "PV012"),
        ("users u, likes l WHERE l.user_id = u.user_id AND u.country = 'US'", "PV012"),
        ("users u FULL JOIN likes l ON u.user_id = l.user_id", "PV012"),
        ("likes l JOIN likes k ON l.user_id = k.user_id", "PV012"),
        ("users u JOIN (SELECT user_id AS who FROM likes) l ON l.who = u.user_id", "PV012"),
        ("users WHERE user_id IN (SELECT l.user_id FROM likes l)", "PV015"),
        ("users u WHERE NOT EXISTS (SELECT 1 FROM likes l WHERE l.user_id = u.user_id)", "PV015"),
        ("users u WHERE (user_id, 1) IN (SELECT l.user_id, l.like_id FROM likes l)", "PV015"),
    ],
)
def test_no_hint_answers_another_question_about_rows_of_two_persons(rows: str, code: str) -> None:
    with pytest.raises(Refusal) as refused:
        split_query(f"SELECT COUNT(*) FROM {rows}", FORUM)
    hint = refused.value.hint or ""
    assert refused.value.code == code
    assert "`" not in hint
    owner = (
        r'(the unit that "event_id" leads to|a unit of its own), whatever is in "(user_id|who)": no statement'
    )
    assert re.match(rf'A row of "l(ikes)?" belongs to {owner} asks about both', hint), hint


def test_a_join_that_lacks_the_unit_is_completed() -> None:
    with pytest.raises(Refusal) as refused:
        split_query("SELECT COUNT(*) FROM users u JOIN likes l ON u.birth_year = l.like_id", FORUM)
    assert "Add `u.user_id = l.users_user_id` to WHERE" in (refused.value.hint or "")
