"""Counts of refusals: they add up over processes, saying them again changes nothing, they never go down."""

from __future__ import annotations

from datetime import date
from uuid import uuid4

import pytest

from budget.ledger import Ledger

pytestmark = pytest.mark.service

DAY, NEXT = date(2026, 3, 1), date(2026, 3, 2)
LATER, LATEST = date(2026, 4, 1), date(2026, 4, 2)
ANN, BEN = ("analyst:ann", "PV010"), ("analyst:ben", "PV001")


def test_counts_of_processes_add_up_and_never_go_down(ledger: Ledger) -> None:
    first, second = uuid4(), uuid4()
    ledger.refusals.count(first, DAY, {ANN: 2, BEN: 1})
    ledger.refusals.count(first, DAY, {ANN: 5})
    ledger.refusals.count(first, DAY, {ANN: 5})
    ledger.refusals.count(first, DAY, {ANN: 4})
    ledger.refusals.count(second, DAY, {ANN: 10})
    ledger.refusals.count(second, NEXT, {ANN: 1})
    ledger.refusals.count(second, NEXT, {})
    assert ledger.refusals.by_day(DAY) == {(DAY, "PV010"): 15, (DAY, "PV001"): 1, (NEXT, "PV010"): 1}
    assert ledger.refusals.by_day(NEXT) == {(NEXT, "PV010"): 1}


def test_accounts_come_by_how_often_they_were_refused(ledger: Ledger) -> None:
    ledger.refusals.count(uuid4(), LATER, {ANN: 2, BEN: 1})
    ledger.refusals.count(uuid4(), LATEST, {ANN: 3, BEN: 6})
    rows = ledger.refusals.by_account(LATER, 9)
    assert [(row.account, row.code, row.times) for row in rows] == [(*BEN, 7), (*ANN, 5)]
    assert ledger.refusals.by_account(LATEST, 1)[0].times == 6
    assert len(ledger.refusals.by_account(LATER, 1)) == 1


def test_shapes_add_up_the_most_frequent_first(ledger: Ledger) -> None:
    first, second = uuid4(), uuid4()
    rare, often = ("PV020", "select ? from rare"), ("PV020", "select ? from often")
    ledger.refusals.count_shapes(first, DAY, {rare: 2, often: 1})
    ledger.refusals.count_shapes(first, DAY, {rare: 1, often: 5})
    ledger.refusals.count_shapes(second, NEXT, {often: 3, ("PV010", "x"): 1})
    assert [(r.code, r.shape, r.times) for r in ledger.refusals.shapes(DAY, 2)] == [(*often, 8), (*rare, 2)]
    assert len(ledger.refusals.shapes(NEXT, 9)) == 2


def test_a_count_charges_nothing(ledger: Ledger) -> None:
    before = ledger.high_water.now()
    ledger.refusals.count(uuid4(), DAY, {ANN: 7})
    assert ledger.high_water.now() == before
