"""All that a reviewer needs to compute a ledger's balances and guarantees anew, of one moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from budget.account import EntryRow, LimitRow
from budget.audit import Balance, Difference


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
    every change of each account's. An account that was ever in mode `track` promises nothing, and is passed over.
    None where nothing is above a limit.
    """
    most = {
        account: (max(r.limit.information for r in rows), max(r.limit.calls for r in rows))
        for account, rows in limits.items()
        if rows and all(row.limit.mode == "enforce" for row in rows)
    }
    used: dict[tuple[str, int], list[int]] = {}
    reserved: dict[str, list[int]] = {}
    for entry in entries:
        held = reserved.setdefault(entry.account, [0, 0])
        spent = used.setdefault((entry.account, entry.period), [0, 0])
        sign = {"reserve": 1, "replay": 0}.get(entry.kind, -1)
        held[0] += sign * entry.at_most.information
        held[1] += sign * entry.at_most.calls
        if sign < 0:
            spent[0] += entry.charged.information
            spent[1] += entry.charged.calls
        allowed = most.get(entry.account)
        if allowed is not None and (held[0] + spent[0] > allowed[0] or held[1] + spent[1] > allowed[1]):
            return Difference(entry.account, entry.number, "more is used and reserved than any limit allowed")
    return None
