"""How often accounts were refused, and what: counts by day and code, for the owner's eyes.

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
_BY_DAY = """
SELECT day, code, sum(times)::bigint
FROM dpproxy_ledger.refusal
WHERE day >= %(since)s
GROUP BY day, code
ORDER BY day, code
"""
_BY_ACCOUNT = """
SELECT account, code, sum(times)::bigint, max(last_at)
FROM dpproxy_ledger.refusal
WHERE day >= %(since)s
GROUP BY account, code
ORDER BY sum(times) DESC, account, code
LIMIT %(most)s
"""
_COUNT_SHAPES = """
INSERT INTO dpproxy_ledger.refusal_shape (code, shape, day, counter, times)
SELECT counted.code, counted.shape, %(day)s, %(counter)s, counted.times
FROM unnest(%(codes)s::text[], %(shapes)s::text[], %(times)s::bigint[]) AS counted (code, shape, times)
ON CONFLICT (day, code, shape, counter) DO UPDATE SET times = excluded.times
WHERE refusal_shape.times < excluded.times
RETURNING times
"""
_SHAPES_SINCE = """
SELECT code, shape, sum(times)::bigint
FROM dpproxy_ledger.refusal_shape
WHERE day >= %(since)s
GROUP BY code, shape
ORDER BY sum(times) DESC, code, shape
LIMIT %(most)s
"""


@dataclass(frozen=True)
class RefusalRow:
    """So many `times` an account was refused with an SQLSTATE, the last about `last_at`."""

    account: str
    code: str
    times: int
    last_at: datetime


@dataclass(frozen=True)
class ShapeRow:
    """So many `times` statements of a shape were refused with an SQLSTATE."""

    code: str
    shape: str
    times: int


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

    def by_day(self, since: date) -> Mapping[tuple[date, str], int]:
        """How often statements were refused, by day (UTC) and SQLSTATE, from a day on."""
        return {(day, code): times for day, code, times in self._store.rows(_BY_DAY, since=since)}

    def by_account(self, since: date, most: int) -> tuple[RefusalRow, ...]:
        """The `most` accounts and codes that were refused most often from a day on, the most frequent first."""
        return tuple(RefusalRow(*row) for row in self._store.rows(_BY_ACCOUNT, since=since, most=most))

    def count_shapes(self, counter: UUID, day: date, times: Mapping[tuple[str, str], int]) -> None:
        """Writes how often `counter` has seen each code and shape of statement on a day, as `count` does."""
        if times:
            codes, shapes = zip(*times, strict=True)
            self._store.rows(
                _COUNT_SHAPES,
                counter=counter,
                day=day,
                codes=list(codes),
                shapes=list(shapes),
                times=list(times.values()),
            )

    def shapes(self, day: date, most: int) -> tuple[ShapeRow, ...]:
        """The `most` shapes that were refused most often from a day on, the most frequent first."""
        return tuple(ShapeRow(*row) for row in self._store.rows(_SHAPES_SINCE, since=day, most=most))
