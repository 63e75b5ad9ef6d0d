"""`dpproxy budget simulate`: who would have been stopped at which limit, from what was really asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path

from budget.account import EntryRow, Limit, Period
from budget.simulate import PERIODS, Simulated, share_stopped, simulate
from budget.units import MOST, micro_limit, shown
from dpproxy.cli_output import OutputError, print_json, print_table
from dpproxy.config import Config
from dpproxy.figure import Curve, Panel, drawn, saved
from dpproxy.service import opened_vault

_PARTS = (Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4))
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Tried:
    """One budget of one unit, the other unlimited: what would have come of each analyst."""

    unit: str
    amount: str
    results: tuple[Simulated, ...]


def run(
    config: Config,
    information: Sequence[Fraction],
    calls: Sequence[Fraction],
    period: Period | None,
    since: datetime | None,
    until: datetime | None,
    plot: Path | None,
    *,
    as_json: bool,
) -> None:
    """Prints how many analysts each budget would have stopped, and whom; `plot`: an image of it as well.

    `information`, `calls`: the budgets in units; none: parts and multiples of the file's. Raises OutputError
    where nothing was asked, and for a plot that cannot be made.
    """
    with opened_vault(config) as vault:
        entries = [entry for entry in vault.ledger.entries(None, since, until) if entry.own]
    if not entries:
        raise OutputError("the ledger has no history to learn from")
    period = period or config.budget.period
    budget = config.budget
    tried = _tried(
        entries,
        period,
        information or [budget.information * part for part in _PARTS],
        calls or [budget.calls * part for part in _PARTS],
    )
    panels = _panels(tried, _days(entries, period))
    if plot is not None:
        saved(panels, plot)
    if as_json:
        print_json({"period": period, "budgets": [_plain(one, panels) for one in tried]})
        return
    _print(tried, panels)


def _tried(
    entries: Sequence[EntryRow], period: Period, information: Sequence[Fraction], calls: Sequence[Fraction]
) -> list[Tried]:
    """All budgets in one pass over the history."""
    limits = [Limit(micro_limit(amount), MOST, period) for amount in sorted(set(information))]
    limits += [Limit(MOST, micro_limit(amount), period) for amount in sorted(set(calls))]
    results = simulate(entries, limits)
    found = []
    for limit in limits:
        unit = "information" if limit.calls == MOST else "calls"
        of_it = tuple(result for result in results if result.limit == limit)
        found.append(Tried(unit, shown(getattr(limit, unit)), of_it))
    return found


def _days(entries: Sequence[EntryRow], period: Period) -> int:
    if period in PERIODS:
        return PERIODS[period] // _DAY
    return max(1, -(-(entries[-1].time - entries[0].time) // _DAY))


def _panels(tried: Sequence[Tried], days: int) -> list[Panel]:
    return [
        Panel(
            unit,
            tuple(
                Curve(
                    one.amount,
                    tuple(100 * float(share_stopped(one.results, _DAY * day)) for day in range(days + 1)),
                )
                for one in tried
                if one.unit == unit
            ),
        )
        for unit in ("information", "calls")
    ]


def _print(tried: Sequence[Tried], panels: Sequence[Panel]) -> None:
    rows = []
    for one in tried:
        stopped = [result for result in one.results if result.stopped]
        shares = [f"{100 * float(share_stopped(one.results, _DAY * days)):.1f}%" for days in (1, 7, 30)]
        rows.append(
            (
                one.unit,
                one.amount,
                f"{len(stopped)} of {len(one.results)}",
                *shares,
                str(_refused(one.results)),
            )
        )
    heads = (
        "budget of",
        "units",
        "analysts stopped",
        "within 1 day",
        "7 days",
        "30 days",
        "releases refused",
    )
    print_table("Who would have been stopped", heads, rows, right=(1, 2, 3, 4, 5, 6))
    for panel in panels:
        print(drawn(panel) + "\n")
    whom = [
        (result.account, one.unit, one.amount, _soonest(result), str(_refused([result])))
        for one in tried
        for result in one.results
        if result.stopped
    ]
    print_table(
        "Whom",
        ("account", "budget of", "units", "after days", "releases refused"),
        sorted(whom),
        right=(2, 3, 4),
    )


def _refused(results: Sequence[Simulated]) -> int:
    return sum(period.refused for result in results for period in result.periods)


def _soonest(result: Simulated) -> str:
    after = [period.stopped_after for period in result.periods if period.stopped_after is not None]
    return f"{min(after) / _DAY:.2f}"


def _plain(one: Tried, panels: Sequence[Panel]) -> dict[str, object]:
    curve = next(
        c for panel in panels if panel.unit == one.unit for c in panel.curves if c.label == one.amount
    )
    return {
        "unit": one.unit,
        "amount": one.amount,
        "percent_stopped_by_day": curve.shares,
        "accounts": [
            {
                "account": result.account,
                "stopped": result.stopped,
                "after_days": float(_soonest(result)) if result.stopped else None,
                "refused": _refused([result]),
            }
            for result in one.results
        ],
    }
