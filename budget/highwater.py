"""The high-water mark: what a ledger must still remember, to be kept outside of it.

A mark holds the ledger's id and its latest entries, each with its number and the SHA-256 of what it says. A copy
that is older than the mark lacks one of them, or has other facts under their numbers. Numbers are drawn before a
commit, so that one entry alone would not do: the copy could have it and lack one of a lower number that was
committed later. Transactions that overlap are at most as many as connections; a mark holds more entries than that.

Why: docs/decisions/high-water-mark.md.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Self
from uuid import UUID

from budget import statements_accounts as statements
from budget.account import AnotherLedger, LedgerOlder
from budget.statements import FLUSH
from budget.store import PostgresStore, Row

_LATEST = 128
_OWN = 32


@dataclass(frozen=True)
class HighWater:
    """The entries that a ledger must still have: its id, and entries by number with the SHA-256 of their facts (hex).

    >>> mark = HighWater("a ledger", {7: "ab"})
    >>> HighWater.load(mark.dump()) == mark
    True
    """

    ledger: str
    entries: Mapping[int, str]

    @property
    def number(self) -> int:
        """The highest entry's number, 0 for an empty ledger."""
        return max(self.entries, default=0)

    def dump(self) -> str:
        """One line of JSON."""
        return json.dumps({"ledger": self.ledger, "entries": sorted(self.entries.items())})

    @classmethod
    def load(cls, text: str) -> Self:
        """What `dump` wrote; ValueError for anything else."""
        try:
            read = json.loads(text)
            return cls(str(read["ledger"]), {int(number): str(digest) for number, digest in read["entries"]})
        except (KeyError, TypeError, ValueError):
            raise ValueError("this is no high-water mark") from None


class OwnEntries:
    """The latest resolutions that this process has written, which a ledger that was restored lacks."""

    def __init__(self) -> None:
        self._latest: deque[tuple[int, UUID]] = deque(maxlen=_OWN)

    def note(self, number: int, reservation: UUID) -> None:
        """Remembers a resolution by the number of its entry."""
        self._latest.append((number, reservation))

    def by_number(self) -> dict[int, UUID]:
        """The reservations that they resolved."""
        return dict(tuple(self._latest))

    def check(self, run: Callable[[str, Mapping[str, object]], list[Row]]) -> None:
        """Refuses a new connection to a ledger that has been replaced while this process lived."""
        own = self.by_number()
        found = {row[0]: row[1] for row in run(statements.AT, {"numbers": list(own)})} if own else {}
        if found != own:
            raise LedgerOlder("the ledger has forgotten what it wrote a moment ago: it was restored")


class HighWaterMarks:
    """Marks of the ledger `id`, which detect that the ledger was replaced by an older copy."""

    def __init__(self, store: PostgresStore, id: str, own: OwnEntries) -> None:
        self._store, self._id, self._own = store, id, own

    def now(self) -> HighWater:
        """The mark as of now, which covers every reservation, settlement and spend that has returned.

        Processes that share one file take it while they hold the file's lock.
        """
        values = {"last": _LATEST, "numbers": list(self._own.by_number())}
        # What another process has just committed may not be on disk yet: a mark must not outlive it.
        rows, _ = self._store.transaction([(statements.HIGH_WATER, values)], seal=(FLUSH, {}))
        return HighWater(self._id, _digests(rows))

    def after(self, last: HighWater) -> HighWater:
        """The mark as of now, of a ledger that still has what `last` says; raises as `check`.

        An older copy that a process has written to may have as many entries as the mark, and is not the same.
        """
        # A copy that takes the ledger's place in between is found, too.
        mark = self.now()
        self.check(last)
        return mark

    def check(self, mark: HighWater) -> None:
        """Raises AnotherLedger where the mark is of another ledger, LedgerOlder where this one has forgotten."""
        if mark.ledger != self._id:
            raise AnotherLedger(f"the mark is of ledger {mark.ledger}, this one is {self._id}")
        found = _digests(self._store.rows(statements.AT, numbers=list(mark.entries)))
        missing = [number for number, digest in mark.entries.items() if found.get(number) != digest]
        if missing:
            raise LedgerOlder(
                f"the ledger has forgotten entry {min(missing)} and maybe others: it is older than the mark,"
                f" which ends at entry {mark.number}"
            )


def _digests(rows: Iterable[Row]) -> dict[int, str]:
    return {row[0]: sha256("|".join(map(str, row)).encode()).hexdigest() for row in rows}
