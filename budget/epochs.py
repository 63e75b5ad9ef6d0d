"""Epochs: the nonce of each, and the answers that are kept for it."""

from __future__ import annotations

from collections.abc import Collection

from budget import statements
from budget.store import PostgresStore

_PRUNED_AT_ONCE = 1000


class Epochs:
    """What the ledger keeps by the name of an epoch."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._nonces: dict[str, bytes] = {}

    def nonce(self, epoch: str) -> bytes:
        """The 32 bytes that make an epoch's releases its own: drawn once, the same for every process."""
        while epoch not in self._nonces:
            for (nonce,) in self._store.rows(statements.EPOCH, epoch=epoch)[:1]:
                self._nonces[epoch] = nonce
        return self._nonces[epoch]

    def prune(self, keep: Collection[str]) -> int:
        """Deletes the answers of all epochs but those of `keep`, which are over; returns how many.

        Entries, balances and histories stay as they are; what is asked again is bought again.
        """
        pruned = 0
        while True:
            values = {"keep": list(keep), "batch": _PRUNED_AT_ONCE}
            count = int(self._store.rows(statements.PRUNE, **values)[0][0])
            pruned += count
            if count < _PRUNED_AT_ONCE:
                return pruned
