"""Who is in which team: the latest that was told, whenever it arrives."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from budget.ledger import Ledger

pytestmark = pytest.mark.service

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_the_latest_word_counts(ledger: Ledger) -> None:
    memberships = ledger.memberships
    assert memberships.teams("gwen") == ()
    memberships.note("gwen", ["b", "a", "b"], NOON)
    memberships.note("huw", ["b"], NOON)
    assert (memberships.teams("gwen"), memberships.members("b")) == (("a", "b"), ("gwen", "huw"))
    memberships.note("gwen", ["c"], NOON + timedelta(hours=1))
    for later in (timedelta(), timedelta(minutes=59)):
        memberships.note("gwen", ["a"], NOON + later)
    assert memberships.teams("gwen") == ("c",)
    assert (memberships.members("a"), memberships.members("b"), memberships.members("c")) == (
        (),
        ("huw",),
        ("gwen",),
    )


def test_a_clock_that_was_ahead_binds_nobody(ledger: Ledger) -> None:
    memberships = ledger.memberships
    memberships.note("ivy", ["a"], datetime.now(UTC) + timedelta(days=400))
    memberships.note("ivy", ["b"], datetime.now(UTC))
    assert memberships.teams("ivy") == ("b",)
