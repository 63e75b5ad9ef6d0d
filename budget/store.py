"""What the parts of the ledger need of its database, without naming a driver."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from budget.account import Charge, LedgerError

Row = tuple[Any, ...]
Step = tuple[str, Mapping[str, object]]


class Conflict(LedgerError):
    """A row that may be there once is there already; `constraint` says which.

    `after_loss`: an earlier attempt was lost on its way, and may be what put it there.
    """

    def __init__(self, constraint: str, after_loss: bool = False) -> None:
        self.constraint, self.after_loss = constraint, after_loss
        super().__init__(f"{constraint} is violated")


class OutOfBounds(Conflict):
    """An amount that a constraint forbids."""


class Snapshot(Protocol):
    """One state of the ledger, read by several statements."""

    def rows(self, sql: str, **values: object) -> Iterator[Row]:
        """The rows of a statement, fetched as they are consumed."""


class Store(ABC):
    """Statements in transactions that are durable when the call returns."""

    @abstractmethod
    def _transaction(self, steps: Sequence[Step], seal: Step | None = None) -> list[list[Row]]:
        """The rows of each statement; raises Conflict, OutOfBounds, LedgerUnavailable.

        Without `seal` the commit waits until it is on disk. With it, that commit doesn't wait (no row stays
        locked for the time of a disk's flush), and `seal` follows as a transaction of its own that does: the
        log is written in order, so what is on disk then includes what was committed before.
        """

    @abstractmethod
    def _snapshot(self) -> AbstractContextManager[Snapshot]:
        """One state of the whole ledger; LedgerUnavailable."""

    def _rows(self, sql: str, **values: object) -> list[Row]:
        return self._transaction([(sql, values)])[0]


def left_of(information: int, calls: int) -> Charge:
    """What is left as an amount: nothing where an account in mode `track` is beyond its limit."""
    return Charge(max(0, information), max(0, calls))
