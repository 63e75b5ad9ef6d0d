"""The fixtures of tests/budget over a simulated ledger in place of PostgreSQL's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from budget.ledger import Ledger
from tests.budget.conftest import PINNED, account, pinned
from tests.simulator.server import Server, Surroundings, served

__all__ = ["account", "pinned"]


class Jumping(Surroundings):
    """A server whose clock goes wrong by as much as it is told, as that of tests/budget."""

    def __init__(self) -> None:
        self._ahead = timedelta()
        self.server = Server(self)
        self.conninfo = served(self.server, "conformance")
        self.ledger = Ledger.open(self.conninfo, PINNED, instance="tests")

    def now(self) -> datetime:
        """The clock."""
        return datetime.now(UTC) + self._ahead

    def ahead(self, **by: float) -> None:
        """The clock is ahead of the true time by so much from now on, or behind it."""
        self._ahead = timedelta(**by)


@pytest.fixture
def jumping() -> Iterator[Jumping]:
    """A ledger of the test's own; its balances are what its entries say at the end."""
    made = Jumping()
    yield made
    assert made.ledger.history.verify() is None


@pytest.fixture
def ledger(jumping: Jumping) -> Ledger:
    return jumping.ledger


@pytest.fixture
def server(jumping: Jumping) -> Any:
    """Where to connect to, as the embedded PostgreSQL says it."""

    class Running:
        def conninfo(self, dbname: str = "") -> str:
            return jumping.conninfo

    return Running()


@pytest.fixture
def age(jumping: Jumping) -> Callable[[str, float], None]:
    """Lets hours pass for an account: all it remembers of time moves into the past."""

    def pass_hours(name: str, hours: float) -> None:
        accounts, by = jumping.server.state.tables["account"], timedelta(hours=hours)
        row = accounts[name]
        started = row["period_started"]
        moved = {"seen_at": row["seen_at"] - by, "period_started": None if started is None else started - by}
        accounts[name] = {**row, **moved}

    return pass_hours
