"""Statements that failed at the backend, for the owner's eyes, and whom they have stopped.

Why: docs/decisions/failures-have-a-brake.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from budget.account import FailureKind
from budget.store import PostgresStore

_ALL = """
SELECT failure.reservation, failure.failed_at, failure.login, failure.account, failure.kind, failure.told,
    failure.stops_login, failure.stops_account, COALESCE(opening.query, ''), failure.sealed, failure.cleared_at,
    failure.cleared_by
FROM dpproxy_ledger.failure AS failure
LEFT JOIN dpproxy_ledger.entry AS opening
    ON opening.reservation = failure.reservation AND opening.own AND opening.stage = 0
ORDER BY failure.failed_at DESC, failure.reservation LIMIT %(most)s
"""
_STOPPED = """
SELECT 'login' AS who, login AS name FROM dpproxy_ledger.failure WHERE cleared_at IS NULL AND stops_login
UNION
SELECT 'analyst', account FROM dpproxy_ledger.failure WHERE cleared_at IS NULL AND stops_account
ORDER BY who, name
"""
_CLEAR = """
UPDATE dpproxy_ledger.failure
SET cleared_at = GREATEST(failed_at, clock_timestamp()), cleared_by = %(by)s, sealed = NULL
WHERE cleared_at IS NULL AND (%(name)s::text IS NULL OR login = %(name)s OR account = %(name)s)
RETURNING reservation
"""


@dataclass(frozen=True)
class FailureRow:
    """One statement that failed.

    Attributes:
        reservation: what it had reserved.
        at: when.
        login, account: the accounts of the login that asked and of whom it acted for.
        kind: of the failure.
        told: the client was told of it; otherwise it had been stopped before.
        stops_login, stops_account: it was one too many, and stops until it is cleared.
        asked: the question in words.
        sealed: the backend's message, encrypted; None where there is none, or it was cleared.
        cleared_at, cleared_by: when it was cleared, and by whom; None before.
    """

    reservation: UUID
    at: datetime
    login: str
    account: str
    kind: FailureKind
    told: bool
    stops_login: bool
    stops_account: bool
    asked: str
    sealed: bytes | None = field(repr=False)
    cleared_at: datetime | None
    cleared_by: str | None


@dataclass(frozen=True)
class Stopped:
    """Accounts of logins, and of analysts, that get nothing new until their failures are cleared."""

    logins: tuple[str, ...]
    analysts: tuple[str, ...]


class Failures:
    """What `Ledger.fail` has noted."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    def all(self, most: int) -> tuple[FailureRow, ...]:
        """The last `most` failures, the latest first."""
        return tuple(FailureRow(*row) for row in self._store.rows(_ALL, most=most))

    def stopped(self) -> Stopped:
        """Who is stopped now."""
        rows = self._store.rows(_STOPPED)
        logins, analysts = (tuple(name for who, name in rows if who == one) for one in ("login", "analyst"))
        return Stopped(logins, analysts)

    def clear(self, name: str | None, by: str) -> int:
        """Clears the failures of a login or an analyst, by account, or all; returns how many.

        They count no more, and stop nobody; the backend's messages, which may hold values of rows, are gone. `by`: who.
        """
        return len(self._store.rows(_CLEAR, name=name, by=by))
