"""The queries that refusals suggest are answered when they are pasted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rewriter.binder.rejections import example
from rewriter.logical.split import split_query
from rewriter.policy import Column, Policy, Table
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
