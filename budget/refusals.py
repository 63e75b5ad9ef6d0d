"""How often accounts were refused: counts by day and code, for the owner's eyes.

Why: docs/decisions/refusals-are-counted.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from uuid import UUID

from budget.store import PostgresStore

_COUNT = """
INSERT INTO dpproxy_ledger.refusal (account, code, day, counter, times)
SELECT counted.account, counted.code, %(day)s, %(counter)s, counted.times
FROM unnest(%(accounts)s::text[], %(codes)s::text[], %(times)s::bigint[]) AS counted (account, code, times)
ON CONFLICT (day, account, code, counter) DO UPDATE SET times = excluded.times, last_at = excluded.last_at
WHERE refusal.times < excluded.times
RETURNING times
"""
_SINCE = """
SELECT day, account, code, sum(times)::bigint, max(last_at)
FROM dpproxy_ledger.refusal
WHERE day >= %(since)s
GROUP BY day, account, code
ORDER BY day, account, code
"""


@dataclass(frozen=True)
class RefusalRow:
    """So many `times` an account was refused on a day (UTC) with an SQLSTATE, the last about `last_at`."""

    day: date
    account: str
    code: str
    times: int
    last_at: datetime


class Refusals:
    """Counts of refused statements. They charge nothing, and no guarantee depends on them."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    def count(self, counter: UUID, day: date, times: Mapping[tuple[str, str], int]) -> None:
        """Writes how often `counter` has seen each account and code on a day, in all so far.

        `counter`: of one life of a process; `times`: by account and SQLSTATE. A count never goes down, and saying
        it again changes nothing.
        """
        if times:
            accounts, codes = zip(*times, strict=True)
            self._store.rows(
                _COUNT,
                counter=counter,
                day=day,
                accounts=list(accounts),
                codes=list(codes),
                times=list(times.values()),
            )

    def since(self, day: date) -> tuple[RefusalRow, ...]:
        """Every count from a day on, in order of day, account and code."""
        return tuple(RefusalRow(*row) for row in self._store.rows(_SINCE, since=day))
