"""Generations of policies: a deployment buys under one at a time, and under none while it changes from one to the next.

Why: docs/decisions/policies-change-in-place.md.
"""

from __future__ import annotations

from budget.account import Generation
from budget.store import PostgresStore

_BEGIN = """
INSERT INTO dpproxy_ledger.policy AS policy (deployment, generation, buying) VALUES (%(deployment)s, 1, true)
ON CONFLICT (deployment) DO UPDATE SET generation = policy.generation + 1, buying = true
RETURNING generation
"""
_NOW = "SELECT generation, buying FROM dpproxy_ledger.policy WHERE deployment = %(deployment)s"
_SUSPEND = """
UPDATE dpproxy_ledger.policy SET generation = %(number)s, buying = false WHERE deployment = %(deployment)s
RETURNING generation
"""
_RESUME = """
UPDATE dpproxy_ledger.policy SET generation = %(number)s, buying = true WHERE deployment = %(deployment)s
RETURNING generation
"""


class Generations:
    """The generation of each deployment's policy. Each method raises LedgerUnavailable."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    def begin(self, deployment: str) -> Generation:
        """A new generation, by which whatever an earlier life of the deployment has left buys nothing."""
        return Generation(deployment, self._store.rows(_BEGIN, deployment=deployment)[0][0])

    def bought_under(self, deployment: str) -> Generation | None:
        """The generation that a deployment buys under; None while it buys nothing, or has never begun."""
        rows = self._store.rows(_NOW, deployment=deployment)
        return Generation(deployment, rows[0][0]) if rows and rows[0][1] else None

    def suspend(self, at: Generation) -> None:
        """Has the deployment buy nothing until `resume`, from which on it buys under this generation or another."""
        self._store.rows(_SUSPEND, **vars(at))

    def resume(self, under: Generation) -> None:
        """Has the deployment buy under a generation: a new one or, where the change has failed, the one before."""
        self._store.rows(_RESUME, **vars(under))
