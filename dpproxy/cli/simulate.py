"""`dpproxy budget simulate`: which analysts a limit would have stopped, from their past queries."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from fractions import Fraction
from pathlib import Path

from budget.account import Period
from budget.simulate import share_stopped
from dpproxy.config.sections import Config
from dpproxy.deployment.service import opened_vault
from dpproxy.owner.exceedance_plot import Panel, drawn, saved
from dpproxy.owner.simulation import DAY, PARTS, Tried, days_of, panels_of, refused, soonest, try_budgets
from dpproxy.reporting.rows import OutputError
from dpproxy.reporting.tables import print_json, print_table


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
        entries = [entry for entry in vault.ledger.history.entries(None, since, until) if entry.own]
    if not entries:
        raise OutputError("the ledger has no history to learn from")
    period = period or config.budget.period
    budget = config.budget
    tried = try_budgets(
        entries,
        period,
        information or [budget.information * part for part in PARTS],
        calls or [budget.calls * part for part in PARTS],
    )
    panels = panels_of(tried, days_of(entries, period))
    if plot is not None:
        saved(panels, plot)
    if as_json:
        print_json({"period": period, "budgets": [_plain(one, panels) for one in tried]})
        return
    _print(tried, panels)


def _print(tried: Sequence[Tried], panels: Sequence[Panel]) -> None:
    rows = []
    for one in tried:
        stopped = [result for result in one.results if result.stopped]
        shares = [f"{100 * float(share_stopped(one.results, DAY * days)):.1f}%" for days in (1, 7, 30)]
        rows.append(
            (
                one.unit,
                one.amount,
                f"{len(stopped)} of {len(one.results)}",
                *shares,
                str(refused(one.results)),
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
        (result.account, one.unit, one.amount, soonest(result), str(refused([result])))
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
                "after_days": float(soonest(result)) if result.stopped else None,
                "refused": refused([result]),
            }
            for result in one.results
        ],
    }
