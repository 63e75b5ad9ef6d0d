"""A process killed before each of its statements: charged or not charged, never answered and not charged."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from budget.ledger import Ledger
from dpproxy.embedded.server import Embedded
from tests.budget.dying import WAYS, lives

pytestmark = pytest.mark.service


@pytest.mark.parametrize(
    "how", [pytest.param(way, marks=[pytest.mark.slow] if way == "in a pipeline" else []) for way in WAYS]
)
def test_killed_before_every_statement(
    ledger: Ledger, server: Embedded, account: Callable[..., str], how: str
) -> None:
    chains = [f"{account(100, 10)} {account(100, 10, kind='team')}" for _ in range(60)]
    used = lives(ledger, server, chains, how)
    assert used == sorted(used, key=[0, 7, 5].index), "the charge appears, then becomes the actual cost"
    assert set(used) == {0, 5, 7}, "the points of death include all three outcomes"
