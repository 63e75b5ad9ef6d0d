"""`make ledger-torture`, short: three processes of two connections for six seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpproxy.embedded.server import Embedded
from tests.budget.torture import race

pytestmark = pytest.mark.service


def test_a_short_race(tmp_path: Path) -> None:
    with Embedded.start(tmp_path / "ledger", durable=True) as server:
        figures = race(server, seconds=6, processes=3, connections=2)
    assert figures.answers > 50
    assert figures.refusals > 5
    assert figures.spent > 0
    assert figures.given_back > 0
    assert figures.killed > 0
    assert figures.tightest < 7, "no account was raced to its limit"
