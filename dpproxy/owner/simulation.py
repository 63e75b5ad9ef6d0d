"""Which analysts a limit would have stopped, for the command and the console: budgets simulated on a history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction

from budget.account import EntryRow, Limit, Period
from budget.simulate import PERIODS, Simulated, share_stopped, simulate
from budget.units import MOST, micro_limit, shown
from dpproxy.owner.exceedance_plot import Curve, Panel

PARTS = (Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4))
"""Of the budget in force: what is tried where nothing is asked for."""
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Tried:
    """One budget of one unit, the other unlimited: what would have come of each analyst."""

    unit: str
    amount: str
    results: tuple[Simulated, ...]


def try_budgets(
    entries: Sequence[EntryRow], period: Period, information: Sequence[Fraction], calls: Sequence[Fraction]
) -> list[Tried]:
    """What each budget would have done to the accounts of a history, all in one pass.

    `entries`: own ones of the ledger, in order; `information`, `calls`: the budgets in units.
    """
    limits = [Limit(micro_limit(amount), MOST, period) for amount in sorted(set(information))]
    limits += [Limit(MOST, micro_limit(amount), period) for amount in sorted(set(calls))]
    results = simulate(entries, limits)
    found = []
    for limit in limits:
        unit = "information" if limit.calls == MOST else "calls"
        of_it = tuple(result for result in results if result.limit == limit)
        found.append(Tried(unit, shown(getattr(limit, unit)), of_it))
    return found


def days_of(entries: Sequence[EntryRow], period: Period) -> int:
    """How many days after a refresh a plot shows: a period, or the whole history where it never ends."""
    if period in PERIODS:
        return PERIODS[period] // DAY
    return max(1, -(-(entries[-1].time - entries[0].time) // DAY))


def panels_of(tried: Sequence[Tried], days: int) -> list[Panel]:
    """[AEA] Figure 5 for both units: who was stopped within 0, 1, 2 ... days."""
    return [
        Panel(
            unit,
            tuple(
                Curve(
                    one.amount,
                    tuple(100 * float(share_stopped(one.results, DAY * day)) for day in range(days + 1)),
                )
                for one in tried
                if one.unit == unit
            ),
        )
        for unit in ("information", "calls")
    ]


def refused(results: Sequence[Simulated]) -> int:
    """How many releases would have been refused."""
    return sum(period.refused for result in results for period in result.periods)


def soonest(result: Simulated) -> str:
    """The days from a refresh to the soonest refusal of an account that was stopped."""
    after = [period.stopped_after for period in result.periods if period.stopped_after is not None]
    return f"{min(after) / DAY:.2f}"
