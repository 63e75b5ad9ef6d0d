"""What becomes of a purchase that raised: a failure of the backend is in the ledger before anybody is told of it.

Why: docs/decisions/failures-have-a-brake.md.
"""

from __future__ import annotations

from contextlib import suppress

from budget.account import FailureKind, LedgerError, Reservation
from dpproxy.backends.base import BackendError, Cancellation, Cancelled
from dpproxy.engine.request import QueryRequest
from dpproxy.engine.rollback_guard import RollbackGuardedLedger
from dpproxy.engine.sealed_texts import SealedTexts
from rewriter.refusal import Refusal

_OUR_OWN = "what the backend has answered could not be used: more rows, or values of another kind, than were asked for"


class Failures:
    """Charges what raised, and notes failures; `texts`: what seals the backend's messages."""

    def __init__(self, ledger: RollbackGuardedLedger, texts: SealedTexts) -> None:
        self._ledger, self._texts = ledger, texts

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
            case LedgerError() | Refusal() | BackendError(kind="undefined" | "changed"):
                return None, ""
            case BackendError():
                return ("stopped" if error.kind == "stopped" else "failed"), error.message or _OUR_OWN
        return ("stopped" if isinstance(error, MemoryError) else "failed"), f"{type(error).__name__}: {error}"
