"""Which data a ledger's answers are computed from: pinned at first use, changed only by the owner.

Why: docs/decisions/ledgers-are-of-one-backend.md.
"""

from __future__ import annotations

from budget.account import OtherData
from budget.store import Conflict, PostgresStore

_PIN = """
INSERT INTO dpproxy_ledger.pinned (name, value) VALUES (%(name)s, %(value)s) ON CONFLICT (name) DO NOTHING
RETURNING name
"""
_READ = "SELECT name, value FROM dpproxy_ledger.pinned WHERE name = 'data' OR name LIKE 'accepted %%'"
_ATTEMPTS = 10


class Origins:
    """The data that the ledger's answers are computed from, named by a text of the caller."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    def keep_to(self, data: str) -> None:
        """Pins what the answers are of, where nothing is pinned yet; raises OtherData where it is something else."""
        self._store.rows(_PIN, name="data", value=data)
        known = self._origins()
        if data not in known.values():
            raise OtherData(f"the ledger's answers are of {known.get('data', 'a copy')}, not of {data}")

    def accept(self, data: str) -> None:
        """Accepts the ledger as it is, and `data` as a further place of the data that its answers are computed from.

        What may have been released twice must not be released with the same noise: see `accepted`.
        """
        self._store.rows(_PIN, name="data", value=data)
        for _ in range(_ATTEMPTS):
            if self._store.rows(_PIN, name=f"accepted {self.accepted() + 1}", value=data):
                return
        raise Conflict("pinned_once")

    def accepted(self) -> int:
        """How often the ledger was accepted as it is."""
        return sum(name != "data" for name in self._origins())

    def _origins(self) -> dict[str, str]:
        return dict(self._store.rows(_READ))
