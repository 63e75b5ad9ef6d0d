"""Analysts who log in with a password, by their SCRAM verifiers."""

from __future__ import annotations

from budget.account import AnalystExists
from budget.store import Conflict, PostgresStore


class Analysts:
    """Who may log in with a password."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    def add(self, name: str, verifier: str) -> None:
        """Adds an analyst with a SCRAM verifier; AnalystExists."""
        try:
            self._store.rows(
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
        return bool(self._store.rows(sql, name=name, verifier=verifier))

    def remove(self, name: str) -> bool:
        """Removes an analyst, whose account and history stay; False where there is no such analyst."""
        return bool(
            self._store.rows("DELETE FROM dpproxy_ledger.analyst WHERE name = %(n)s RETURNING name", n=name)
        )

    def verifier(self, name: str) -> str | None:
        """An analyst's SCRAM verifier, None where there is no such analyst."""
        rows = self._store.rows("SELECT verifier FROM dpproxy_ledger.analyst WHERE name = %(n)s", n=name)
        return rows[0][0] if rows else None

    def names(self) -> tuple[str, ...]:
        """Every analyst, in order of name."""
        return tuple(
            row[0] for row in self._store.rows("SELECT name FROM dpproxy_ledger.analyst ORDER BY name")
        )
