"""A snapshot with all that a reviewer needs to recompute a ledger's balances and guarantees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from budget.account import EntryRow, LimitRow
from budget.audit import Balance, Difference, Sums, moved


@dataclass(frozen=True)
class Trail:
    """A ledger at the time `at`: what is `pinned` (by name, exactly), every change of limits by account, the balances
    that it keeps, and its entries in order of number, fetched as they are consumed."""

    at: datetime
    pinned: Mapping[str, str]
    limits: Mapping[str, Sequence[LimitRow]]
    balances: Sequence[Balance]
    entries: Iterator[EntryRow]


def first_excess(entries: Iterable[EntryRow], limits: Mapping[str, Sequence[LimitRow]]) -> Difference | None:
    """The first entry after which an account had used and reserved more than the most that it was ever allowed.

    `entries`: of a ledger whose balances agree with them (`first_difference`), in order of number; `limits`:
    every change of each account's. A limit without a period is held against all that was ever used, whatever
    periods the account had in between. An account that was ever in mode `track` promises nothing, and is passed
    over. None where nothing is above a limit.
    """
    accounts = {
        account: _Spent(rows)
        for account, rows in limits.items()
        if rows and all(row.limit.mode == "enforce" for row in rows)
    }
    for entry in entries:
        account = accounts.get(entry.account)
        if account is not None and (wrong := account.take(entry)):
            return Difference(entry.account, entry.number, wrong)
    for name, account in accounts.items():
        if wrong := account.without_period(None):
            return Difference(name, None, wrong)
    return None


@dataclass
class _Spent:
    """An account's sums so far, of each unit."""

    limits: Sequence[LimitRow]
    reserved: Sums = (0, 0, 0)
    ever: Sums = (0, 0, 0)
    used: dict[int, Sums] = field(default_factory=dict)
    seen: int = 0
    """Changes of its limit that came before the entries so far."""

    def take(self, entry: EntryRow) -> str | None:
        """Adds an entry; returns the contradiction that it reveals, if any."""
        wrong = self.without_period(entry.time)
        sign = {"reserve": 1, "replay": 0}.get(entry.kind, -1)
        self.reserved = moved(self.reserved, entry.at_most, sign)
        if sign < 0:
            self.ever = moved(self.ever, entry.charged, 1)
            self.used[entry.period] = moved(self.used.get(entry.period, (0, 0, 0)), entry.charged, 1)
        if _above(self.used.get(entry.period, (0, 0, 0)), self.reserved, self.limits):
            wrong = wrong or "more is used and reserved than any limit allowed"
        return wrong

    def without_period(self, until: datetime | None) -> str | None:
        """Whether limits without a period that ended before `until`, or have not ended, were kept."""
        while self.seen < len(self.limits):
            end = self.limits[self.seen + 1].time if self.seen + 1 < len(self.limits) else None
            if until is not None and (end is None or end > until):
                return None
            self.seen += 1
            endless = [row for row in self.limits[: self.seen] if row.limit.period == "none"]
            if self.limits[self.seen - 1].limit.period == "none" and _above(
                self.ever, self.reserved, endless
            ):
                return "more was ever used and reserved than its limits without a period allowed"
        return None


def _above(used: Sums, reserved: Sums, limits: Sequence[LimitRow]) -> bool:
    """Whether what is spent is above the most of all limits, by both filters."""
    information, calls, epsilon = (sum(amounts) for amounts in zip(used, reserved, strict=True))
    above = information > max(row.limit.information for row in limits)
    both = above and epsilon > max(row.limit.epsilon for row in limits)
    return both or calls > max(row.limit.calls for row in limits)
