"""Which limits a second person has approved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from budget.store import PostgresStore


@dataclass(frozen=True)
class Approval:
    """What was approved. `verifier`: of the second person's password; `limits`: None where one person is enough."""

    at: datetime
    verifier: str
    limits: str | None


class Approvals:
    """Approvals in their order: the latest counts."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    def all(self) -> Sequence[Approval]:
        """Every approval, the earliest first."""
        rows = self._store.rows(
            "SELECT approved_at, verifier, limits FROM dpproxy_ledger.approval ORDER BY number"
        )
        return [Approval(*row) for row in rows]

    def in_force(self) -> Approval | None:
        """The latest approval, None where one person is enough."""
        latest = self.all()[-1:]
        return latest[0] if latest and latest[0].limits is not None else None

    def add(self, verifier: str, limits: str | None) -> None:
        """Notes an approval, which counts from now on."""
        self._store.rows(
            "INSERT INTO dpproxy_ledger.approval (verifier, limits) VALUES (%(verifier)s, %(limits)s) RETURNING number",
            verifier=verifier,
            limits=limits,
        )
