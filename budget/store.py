"""What the parts of the ledger need of its database, without naming a driver."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from budget.account import Charge, LedgerError

Row = tuple[Any, ...]
Step = tuple[str, Mapping[str, object]]


class Conflict(LedgerError):
    """A row that may be there once is there already; `constraint` says which."""

    def __init__(self, constraint: str) -> None:
        self.constraint = constraint
        super().__init__(f"{constraint} is violated")


class OutOfBounds(Conflict):
    """An amount that a constraint forbids."""


class Store(ABC):
    """Statements in transactions that are durable when the call returns."""

    @abstractmethod
    def _transaction(
        self, steps: Sequence[Step], resume: Mapping[str, object] | None = None
    ) -> list[list[Row]]:
        """The rows of each statement; raises Conflict, OutOfBounds, LedgerUnavailable."""

    def _rows(self, sql: str, **values: object) -> list[Row]:
        return self._transaction([(sql, values)])[0]


def left_of(information: int, calls: int) -> Charge:
    """What is left as an amount: nothing where an account in mode `track` is beyond its limit."""
    return Charge(max(0, information), max(0, calls))
