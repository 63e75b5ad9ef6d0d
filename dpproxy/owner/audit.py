"""Recomputes balances and guarantees from a trail, for readers who have only that file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path
from uuid import UUID

from budget.account import EntryRow, LimitRow
from budget.audit import Balance, first_difference
from budget.trail import first_excess
from dpproxy.config.sections import PERIOD_DAYS, Privacy
from dpproxy.engine.bounded_range import UNSAID, accountable, of_bounded_range
from dpproxy.owner.accounts import largest, limit_link
from dpproxy.owner.audit_trail import TrailFile, read_trail
from dpproxy.owner.check import Guarantee, guarantee_of
from dpproxy.reporting.rows import OutputError


@dataclass(frozen=True)
class Audited:
    """One account: its balance, which its entries come to, how many they are, and what its limits guarantee."""

    balance: Balance
    limit: LimitRow
    entries: int
    guarantee: tuple[Guarantee, ...]


def audited(file: Path) -> list[Audited]:
    """Every account of a trail; raises OutputError where entries, balances, limits contradict one another."""
    counts: dict[str, int] = {}
    bounded: set[UUID] = set()
    others: set[str] = set()

    def counted(entries: Iterator[EntryRow]) -> Iterator[EntryRow]:
        for entry in entries:
            counts[entry.account] = counts.get(entry.account, 0) + 1
            if entry.own and entry.kind == "reserve" and of_bounded_range(entry.mechanism or ""):
                bounded.add(entry.reservation)
            yield entry

    def judged(entries: Iterator[EntryRow]) -> Iterator[EntryRow]:
        for entry in entries:
            if entry.kind == "reserve" and entry.reservation not in bounded:
                others.add(entry.account)
            yield entry

    with read_trail(file) as read:
        wrong = first_difference(counted(read.trail.entries), read.trail.balances)
        limits, balances, privacy = read.trail.limits, read.trail.balances, _privacy(read)
    if wrong is None and (missing := counts.keys() - {balance.account for balance in balances}):
        raise OutputError(f"{file}: {min(missing)} has entries and no balance")
    if wrong is None:
        with read_trail(file) as again:
            wrong = first_excess(judged(again.trail.entries), limits)
    if wrong is not None:
        raise OutputError(f"{file}: {wrong}")
    found = []
    for balance in balances:
        rows = limits.get(balance.account)
        if not rows:
            raise OutputError(f"{file}: {balance.account} has no limit")
        # The exporter's statement about the noise can rule this accounting out, but not in.
        held = accountable(privacy, UNSAID if balance.account in others else ())
        bounds = _guarantee(held, balance.account, rows, read.trail.at)
        found.append(Audited(balance, rows[-1], counts.get(balance.account, 0), bounds))
    return found


def _privacy(read: TrailFile) -> Privacy:
    try:
        values = {
            name: Fraction(read.trail.pinned[name]) for name in ("epsilon_per", "delta_per", "delta_prime")
        }
        if min(values.values()) < 0 or not 0 < values["delta_prime"] < 1:
            raise ValueError("no parameters")
        # Not validated: what else the file had, on which their limits depend, is not in the trail.
        return Privacy().model_copy(update={**values, "noise": read.noise})
    except (KeyError, ValueError, ZeroDivisionError):
        raise OutputError("the trail does not tell epsilon_per, delta_per, delta_prime and noise") from None


def _guarantee(
    privacy: Privacy, account: str, rows: Sequence[LimitRow], at: datetime
) -> tuple[Guarantee, ...]:
    """As `dpproxy budget show` has it: of the limits in force, and of the largest while data were kept."""
    link = limit_link(account, rows[-1].limit)
    days = PERIOD_DAYS[link.period]
    since = None if days is None else at - timedelta(days=days)
    return tuple(guarantee_of(privacy, link, largest(link, rows, since)))
