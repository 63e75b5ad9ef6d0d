"""Which accounts a limit would have stopped, from their history: [AEA] Figure 5 and section 8.1."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from fractions import Fraction
from uuid import UUID

from budget.account import LOST_CHARGES, Charge, EntryRow, Limit
from budget.audit import Sums, moved

PERIODS = {"day": timedelta(hours=24), "week": timedelta(hours=168), "month": timedelta(hours=720)}


@dataclass(frozen=True)
class SimulatedPeriod:
    """One period under a limit: `releases` asked for in it, how many `refused`, and how soon the first."""

    started: datetime
    releases: int = 0
    refused: int = 0
    stopped_after: timedelta | None = None


@dataclass(frozen=True)
class Simulated:
    """An account under a limit, period by period."""

    account: str
    limit: Limit
    periods: tuple[SimulatedPeriod, ...]

    @property
    def stopped(self) -> bool:
        """Whether the limit would have refused anything."""
        return any(period.refused for period in self.periods)


@dataclass
class _Life:
    limit: Limit
    used: Sums = (0, 0, 0)
    held: dict[UUID, Charge] = field(default_factory=dict)
    periods: list[SimulatedPeriod] = field(default_factory=list)

    def take(self, entry: EntryRow) -> None:
        if entry.kind == "reserve":
            self._reserve(entry)
        elif entry.reservation in self.held:
            del self.held[entry.reservation]
            self.used = moved(self.used, entry.charged, 1)

    def _reserve(self, entry: EntryRow) -> None:
        length = PERIODS.get(self.limit.period)
        if not self.periods or (length is not None and entry.time >= self.periods[-1].started + length):
            self.periods.append(SimulatedPeriod(entry.time))
            self.used = 0, 0, 0
        now = self.periods[-1]
        now = replace(now, releases=now.releases + 1)
        if self._pays(entry.at_most):
            self.held[entry.reservation] = entry.at_most
        else:
            after = entry.time - now.started if now.stopped_after is None else now.stopped_after
            now = replace(now, refused=now.refused + 1, stopped_after=after)
        self.periods[-1] = now

    def _pays(self, charge: Charge) -> bool:
        spent = self.used
        for one in (charge, *self.held.values()):
            spent = moved(spent, one, 1)
        either = spent[0] <= self.limit.information or spent[2] <= self.limit.epsilon
        return either and spent[1] <= self.limit.calls


def simulate(entries: Iterable[EntryRow], limits: Sequence[Limit]) -> tuple[Simulated, ...]:
    """Each account of a history under each of `limits`: what would have been refused, and when.

    `entries`: of the ledger, in order of number (`Ledger.history.entries`). A release that a limit refuses costs
    nothing under that limit; those after it are tried again. A limit's mode makes no difference. What the real
    limits refused is in no ledger, so that a history of mode `track` is the most informative. Accounts come in order of
    their first entry, under each limit in turn.
    """
    lives: dict[str, list[_Life]] = {}
    lost: set[UUID] = set()
    for entry in entries:
        if entry.query == LOST_CHARGES:
            lost.add(entry.reservation)
        if entry.reservation in lost:
            continue  # nobody asked that
        if entry.account not in lives:
            lives[entry.account] = [_Life(limit) for limit in limits]
        for life in lives[entry.account]:
            life.take(entry)
    return tuple(
        Simulated(account, life.limit, tuple(life.periods))
        for account, each in lives.items()
        for life in each
    )


def share_stopped(results: Iterable[Simulated], within: timedelta) -> Fraction:
    """The share of accounts stopped so soon after a refresh: one point of [AEA] Figure 5.

    `results`: of `simulate`, for one limit; 0 where there are none.

    >>> at = datetime(2026, 1, 1)
    >>> stopped = SimulatedPeriod(at, 9, 1, timedelta(days=2))
    >>> limit = Limit(300, 30, "month")
    >>> both = [Simulated("a", limit, (stopped,)), Simulated("b", limit, (SimulatedPeriod(at, 4),))]
    >>> share_stopped(both, timedelta(days=1)), share_stopped(both, timedelta(days=3))
    (Fraction(0, 1), Fraction(1, 2))
    """
    soon = [
        any(p.stopped_after is not None and p.stopped_after <= within for p in result.periods)
        for result in results
    ]
    return Fraction(sum(soon), len(soon)) if soon else Fraction(0)
