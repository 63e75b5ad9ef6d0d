"""Who may log in, and the nonces that make each epoch's releases its own."""

from __future__ import annotations

from budget import statements
from budget.account import AnalystExists
from budget.store import Conflict, Store


class Analysts(Store):
    """The part of the ledger that every proxy needs before and beside charging."""

    def __init__(self) -> None:
        self._nonces: dict[str, bytes] = {}

    def epoch_nonce(self, epoch: str) -> bytes:
        """The 32 bytes that make an epoch's releases its own: drawn once, the same for every process."""
        while epoch not in self._nonces:
            for (nonce,) in self._rows(statements.EPOCH, epoch=epoch)[:1]:
                self._nonces[epoch] = nonce
        return self._nonces[epoch]

    def add_analyst(self, name: str, verifier: str) -> None:
        """Adds an analyst with a SCRAM verifier; AnalystExists."""
        try:
            self._rows(
                "INSERT INTO dpproxy_ledger.analyst (name, verifier) VALUES (%(name)s, %(verifier)s)"
                " RETURNING name",
                name=name,
                verifier=verifier,
            )
        except Conflict as error:
            raise AnalystExists(f"there is an analyst {name}") from error

    def set_verifier(self, name: str, verifier: str) -> bool:
        """Replaces an analyst's verifier; False where there is no such analyst."""
        sql = "UPDATE dpproxy_ledger.analyst SET verifier = %(verifier)s WHERE name = %(name)s RETURNING name"
        return bool(self._rows(sql, name=name, verifier=verifier))

    def remove_analyst(self, name: str) -> bool:
        """Removes an analyst, whose account and history stay; False where there is no such analyst."""
        return bool(
            self._rows("DELETE FROM dpproxy_ledger.analyst WHERE name = %(n)s RETURNING name", n=name)
        )

    def verifier(self, name: str) -> str | None:
        """An analyst's SCRAM verifier, None where there is no such analyst."""
        rows = self._rows("SELECT verifier FROM dpproxy_ledger.analyst WHERE name = %(n)s", n=name)
        return rows[0][0] if rows else None

    def analysts(self) -> tuple[str, ...]:
        """Every analyst, in order of name."""
        return tuple(row[0] for row in self._rows("SELECT name FROM dpproxy_ledger.analyst ORDER BY name"))
