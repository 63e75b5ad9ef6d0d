"""What becomes of a purchase that raised: a failure of the backend is in the ledger before anybody is told of it.

Why: docs/decisions/failures-have-a-brake.md.
"""

from __future__ import annotations

from contextlib import suppress

from budget.account import FailureKind, LedgerError, Reservation
from dpproxy.backends.base import Backend, BackendError, BackendUnavailable, Cancellation, Cancelled
from dpproxy.engine.request import QueryRequest
from dpproxy.engine.rollback_guard import RollbackGuardedLedger
from dpproxy.engine.sealed_texts import SealedTexts
from rewriter.policy import Policy
from rewriter.refusal import Refusal

_OUR_OWN = "what the backend has answered could not be used: more rows, or values of another kind, than were asked for"


class Failures:
    """Charges what raised, and notes the failures of one backend; `texts`: what seals its messages."""

    def __init__(
        self, backend: Backend, ledger: RollbackGuardedLedger, policy: Policy, texts: SealedTexts
    ) -> None:
        self._backend, self._ledger, self._policy, self._texts = backend, ledger, policy, texts

    def charge(self, request: QueryRequest, reservation: Reservation, error: Exception) -> None:
        """Charges a reservation in full whose release has raised; `error` may be told once this returns.

        Raises Frozen where the login or the analyst was stopped before, LedgerError where the failure could not be
        noted: what is held then is a failure once it is recovered.
        """
        kind, message = self._seen(error, request.cancellation)
        if kind is None:
            with suppress(LedgerError):
                self._ledger.spend(reservation)
            return
        request.watcher.failed(kind)
        sealed = self._texts.seal(message, reservation.account, reservation.id.bytes)
        self._ledger.fail(reservation, kind, sealed)

    def _seen(self, error: Exception, cancellation: Cancellation) -> tuple[FailureKind | None, str]:
        """The kind of a failure, and what the owner is told; None for what no row decides, as of a cap with noise."""
        match error:
            case Cancelled():
                return ("stopped" if cancellation.timed_out else None), "it ran into statement_timeout"
            case LedgerError() | Refusal() | BackendError(kind="changed"):
                return None, ""
            case BackendError(kind="undefined"):
                return (None if self._gone() else "failed"), error.message
            case BackendError():
                return ("stopped" if error.kind == "stopped" else "failed"), error.message or _OUR_OWN
        return ("stopped" if isinstance(error, MemoryError) else "failed"), f"{type(error).__name__}: {error}"

    def _gone(self) -> bool:
        """Whether a table or a column that the policy had read is no longer there."""
        try:
            there = {table.backend_name: table for table in self._backend.schema().relations.values()}
        except (BackendError, BackendUnavailable):
            return False
        for table in self._policy.tables.values():
            if table.view is not None:
                continue
            found = there.get(table.backend_name)
            stored = (c.name for c in table.columns if not c.virtual and c.expression is None)
            if found is None or any(found.column(name) is None for name in stored):
                return True
        return False
