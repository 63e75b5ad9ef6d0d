"""How often accounts were refused: counts by day and code, for the owner's eyes.

Why: docs/decisions/refusals-are-counted.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from uuid import UUID

from budget import statements_refusals as statements
from budget.store import Store


@dataclass(frozen=True)
class RefusalRow:
    """So many `times` an account was refused on a day (UTC) with an SQLSTATE, the last about `last_at`."""

    day: date
    account: str
    code: str
    times: int
    last_at: datetime


class Refusals(Store):
    """The part of the ledger that counts what was not answered. Nothing is charged by it."""

    def count_refusals(self, counter: UUID, day: date, times: Mapping[tuple[str, str], int]) -> None:
        """Writes how often `counter` has seen each account and code on a day, in all so far.

        `counter`: of one life of a process; `times`: by account and SQLSTATE. A count never goes down, and saying
        it again changes nothing.
        """
        if times:
            accounts, codes = zip(*times, strict=True)
            self._rows(
                statements.COUNT,
                counter=counter,
                day=day,
                accounts=list(accounts),
                codes=list(codes),
                times=list(times.values()),
            )

    def refusals(self, since: date) -> tuple[RefusalRow, ...]:
        """Every count from a day on, in order of day, account and code."""
        return tuple(RefusalRow(*row) for row in self._rows(statements.REFUSALS, since=since))
