"""Statements that are asked again: what an answer that was paid for is shown as, without planning and computing it.

The ledger decides each time whether the account has paid for the answer, and notes it. What is kept is a function of
the stored answer, the plan of the epoch, the policy, and the session's settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from dpproxy.engine.kept import Kept
from dpproxy.engine.last_release import LastRow
from dpproxy.engine.planner import BYTES_A_STEP, Planner, PreparedQuery
from dpproxy.engine.request import QueryRequest, StepResult
from dpproxy.engine.result.released_table import ReleasedTable
from dpproxy.engine.rollback_guard import RollbackGuardedLedger


@dataclass(frozen=True)
class _Repeat:
    """How `stored`, the answer of `request_key` that `account` has paid for, was shown."""

    account: str
    prepared: PreparedQuery
    errors: bool
    request_key: bytes
    stored: bytes
    rows: tuple[LastRow, ...]
    result: StepResult

    def shown(self, request: QueryRequest) -> StepResult:
        """The answer, shown once more."""
        request.paid.replayed = 1
        request.last.again(self.rows)
        return self.result


class Repeats:
    """The statements that were answered by one replay each; for any thread."""

    def __init__(self, planner: Planner, ledger: RollbackGuardedLedger) -> None:
        self._planner, self._ledger, self._kept = planner, ledger, Kept()

    def answer(self, request: QueryRequest, epoch: str) -> StepResult | None:
        """The answer as it was shown before, if the account has paid for it and nothing has changed; else None.

        Raises LedgerError.
        """
        found = self._current(request, epoch)
        if found is None:
            return None
        with request.stages.during("replay"):
            stored = self._ledger.replay(found.account, found.request_key, request.attributed)
        return found.shown(request) if stored == found.stored else None

    def at_once(self, request: QueryRequest, epoch: str) -> StepResult | None:
        """As `answer`, without I/O: None, too, where the ledger has to be asked."""
        found = self._current(request, epoch)
        if found is None or not self._ledger.again(found.account, found.request_key, request.attributed):
            return None
        return found.shown(request)

    def _current(self, request: QueryRequest, epoch: str) -> _Repeat | None:
        """The answer, if the plan is the one of then, and of what the session has shown: another epoch's public tables,
        or another policy, make another."""
        found = cast(_Repeat | None, self._kept.known(_key(request, epoch)))
        if found is None:
            return None
        prepared, shown = found.prepared, request.planned
        if shown and (shown.presentation, shown.array_oids) != (prepared.presentation, prepared.array_oids):
            return None
        known = self._planner.known(request.text, request.oids, found.errors)
        return found if known is prepared else None

    def keep(
        self,
        request: QueryRequest,
        account: str,
        epoch: str,
        prepared: PreparedQuery,
        errors: bool,
        results: Mapping[bytes, ReleasedTable],
        result: StepResult,
    ) -> None:
        """Keeps how a statement was answered, if by one replay alone, and by nothing that time or others decide."""
        alone = len(prepared.nodes) == 1 and not prepared.constants and request.kept is None
        if alone and len(results) == 1 and request.replays.keys() == results.keys():
            ((request_key, stored),) = request.replays.items()
            size = len(stored) + sum(map(len, result.arrays)) + BYTES_A_STEP * prepared.steps
            found = _Repeat(account, prepared, errors, request_key, stored, request.last.rows, result)
            self._kept.put(_key(request, epoch), found, size)


def _key(request: QueryRequest, epoch: str) -> tuple[object, ...]:
    # The ledger has taken a note of this attribution: one that it cannot write would keep all others waiting.
    by = request.analyst, request.attributed
    return epoch, by, request.text, request.oids, request.parameters, tuple(request.settings.items())
