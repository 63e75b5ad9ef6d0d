"""Recomputes balances from the entries alone, independently of the code that moved them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Self
from uuid import UUID

from budget.account import Charge, EntryRow
from budget.units import UNBOUNDED

Sums = tuple[int, int, int]
"""Micro-units of information, calls and pure epsilon."""


@dataclass(frozen=True)
class Balance:
    """What the ledger keeps for an account, in micro-units.

    `used` is of its periods from number `first` to number `period`: of one, unless its owner has made them longer.
    """

    account: str
    used: Charge
    reserved: Charge
    period: int
    first: int


@dataclass(frozen=True)
class Difference:
    """Where entries contradict themselves or a balance; `entry` is None for a balance."""

    account: str
    entry: int | None
    what: str

    def __str__(self) -> str:
        where = "its balance" if self.entry is None else f"entry {self.entry}"
        return f"{self.account}, {where}: {self.what}"


@dataclass
class _Account:
    period: int = 0
    used: dict[int, Sums] = field(default_factory=dict)
    reserved: Sums = (0, 0, 0)
    open: dict[UUID, Charge] = field(default_factory=dict)
    resolved: set[UUID] = field(default_factory=set)

    def take(self, entry: EntryRow) -> str | None:
        """Adds an entry; returns its contradiction to earlier ones, None without one."""
        if entry.kind == "replay":
            return None if entry.charged == Charge(0, 0) else "a replay costs nothing"
        if entry.period < self.period:
            return f"period {entry.period} after period {self.period}"
        self.period = entry.period
        return self._reserve(entry) if entry.kind == "reserve" else self._resolve(entry)

    def _reserve(self, entry: EntryRow) -> str | None:
        if entry.reservation in self.open or entry.reservation in self.resolved:
            return "reserved twice"
        self.open[entry.reservation] = entry.at_most
        self.reserved = moved(self.reserved, entry.at_most, 1)
        return None

    def _resolve(self, entry: EntryRow) -> str | None:
        opening = self.open.pop(entry.reservation, None)
        if opening is None:
            return "resolved twice" if entry.reservation in self.resolved else "resolved, never reserved"
        self.resolved.add(entry.reservation)
        self.reserved = moved(self.reserved, opening, -1)
        self.used[entry.period] = moved(self.used.get(entry.period, (0, 0, 0)), entry.charged, 1)
        again = entry.replayed and entry.charged == Charge(0, 0)
        whole = entry.kind == "spend" or (entry.kind == "settle" and not entry.own and not again)
        if entry.at_most != opening or not opening.covers(entry.charged):
            return f"{entry.charged} of a reservation of {opening}"
        if whole and entry.charged != opening:
            return f"{entry.charged} charged instead of the whole reservation"
        if entry.kind == "release" and entry.charged != Charge(0, 0):
            return f"{entry.charged} charged for what was given back"
        return None

    def dump(self) -> list[Any]:
        """As JSON has it, without `resolved`."""
        held = [[id.hex, *vars(charge).values()] for id, charge in self.open.items()]
        return [self.period, self.reserved, [[p, *sums] for p, sums in self.used.items()], held]

    @classmethod
    def load(cls, kept: list[Any]) -> Self:
        """What `dump` wrote."""
        period, reserved, used, held = kept
        return cls(
            period,
            {number: (information, calls, epsilon) for number, information, calls, epsilon in used},
            tuple(reserved),
            {UUID(id): Charge(*amounts) for id, *amounts in held},
        )


class Recomputation:
    """The balances that the entries so far come to, in order of number."""

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}

    def take(self, entry: EntryRow) -> Difference | None:
        """Adds an entry; returns what it contradicts of those before it, None if nothing."""
        wrong = self._accounts.setdefault(entry.account, _Account()).take(entry)
        return None if wrong is None else Difference(entry.account, entry.number, wrong)

    def differences(self, balances: Iterable[Balance]) -> Iterator[Difference]:
        """The balances that contradict the entries."""
        for balance in balances:
            computed = self._accounts.get(balance.account, _Account())
            counted = [
                used for period, used in computed.used.items() if balance.first <= period <= balance.period
            ]
            used = [sum(amounts) for amounts in zip((0, 0, 0), *counted, strict=True)]
            for name, kept, own in (
                ("used", balance.used, used),
                ("reserved", balance.reserved, computed.reserved),
            ):
                if (kept.information, kept.calls) != (own[0], own[1]):
                    yield Difference(
                        balance.account,
                        None,
                        f"{name} is {own[0]}, {own[1]} micro-units by its entries,"
                        f" not {kept.information}, {kept.calls}",
                    )
                elif kept.epsilon != (pure := min(UNBOUNDED, own[2])):
                    what = f"{name} pure epsilon is {pure} micro-units by its entries, not {kept.epsilon}"
                    yield Difference(balance.account, None, what)

    def dump(self) -> str:
        """All that later entries and the balances are compared with, as JSON, but for which reservations were resolved:
        `load` forgets them."""
        return json.dumps({name: account.dump() for name, account in self._accounts.items()})

    @classmethod
    def load(cls, text: str) -> Self:
        """What `dump` wrote."""
        made = cls()
        made._accounts = {name: _Account.load(kept) for name, kept in json.loads(text).items()}
        return made


def first_difference(entries: Iterable[EntryRow], balances: Iterable[Balance]) -> Difference | None:
    """The first entry that contradicts those before it, else the first balance that contradicts the entries.

    `entries`: all of a ledger, in order of number; `balances`: of its accounts.

    >>> first_difference([], [Balance("a", Charge(1, 0), Charge(0, 0), 1, 1)])
    Difference(account='a', entry=None, what='used is 0, 0 micro-units by its entries, not 1, 0')
    """
    computed = Recomputation()
    wrong = next(filter(None, map(computed.take, entries)), None)
    return wrong or next(computed.differences(balances), None)


def moved(sums: Sums, amount: Charge, sign: int) -> Sums:
    """Sums with an amount added, or taken off where `sign` is -1."""
    return (
        sums[0] + sign * amount.information,
        sums[1] + sign * amount.calls,
        sums[2] + sign * amount.epsilon,
    )
