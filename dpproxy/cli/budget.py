"""`dpproxy budget`: what each of its commands takes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from budget.account import Mode, Period
from budget.units import micro_limit
from dpproxy.cli import simulate as cli_simulate
from dpproxy.cli.options import HERE, ConfigFile, Json, Stdin, asked_password, group, reported
from dpproxy.config.values import exact
from dpproxy.deployment.service import configured
from dpproxy.owner import accounts
from dpproxy.owner import approve as owner_approve
from dpproxy.owner.export import ExportFormat, export

budget = group("budget", "Accounts: what may be spent, what was, and who would be stopped at which limit.")


def _amount(text: str) -> Fraction:
    try:
        micro_limit(value := exact(text))
    except ValueError:
        raise typer.BadParameter(f"{text} is no number of units") from None
    return value


class Amounts(tuple[Fraction, ...]):
    """Several numbers of units."""


def _amounts(text: str) -> Amounts:
    return Amounts(map(_amount, text.split(",")))


def _time(text: str) -> datetime:
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text} is no time like 2024-05-31 or 2024-05-31T10:00") from None
    return given if given.tzinfo else given.replace(tzinfo=UTC)


def _period(text: str) -> Period:
    return cast(Period, _one_of(get_args(Period), text))


def _mode(text: str) -> Mode:
    return cast(Mode, _one_of(get_args(Mode), text))


def _one_of(known: tuple[str, ...], text: str) -> str:
    if text not in known:
        raise typer.BadParameter(f"{text} is none of {', '.join(known)}")
    return text


Account = Annotated[str, typer.Argument(metavar="NAME", help="An analyst, team:NAME, or dataset.")]
Anybody = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="An analyst, team:NAME, or dataset; without one all.")
]
Since = Annotated[
    datetime | None, typer.Option("--from", parser=_time, metavar="TIME", help="From this time on (UTC).")
]
Until = Annotated[
    datetime | None, typer.Option("--to", parser=_time, metavar="TIME", help="Until before this time (UTC).")
]
Amount = typer.Option(parser=_amount, metavar="UNITS", help="The limit in units.")
Budgets = typer.Option(parser=_amounts, metavar="UNITS,...", help="Budgets to try.")
PeriodOption = Annotated[
    Period | None,
    typer.Option(parser=_period, metavar="none/day/week/month", help="How long a budget lasts."),
]


@budget.command()
def show(
    name: Anybody = None,
    config: ConfigFile = HERE,
    retention: Annotated[
        int | None, typer.Option(metavar="DAYS", help="How long data are kept; without it a period.", min=1)
    ] = None,
    json: Json = False,
) -> None:
    """Show accounts: limits, what was spent, and what the limits guarantee."""
    with reported():
        accounts.show(configured(config), name, retention, as_json=json)


@budget.command("set")
def change(
    name: Account,
    config: ConfigFile = HERE,
    information: Annotated[Fraction | None, Amount] = None,
    calls: Annotated[Fraction | None, Amount] = None,
    period: PeriodOption = None,
    mode: Annotated[
        Mode | None, typer.Option(parser=_mode, metavar="enforce/track", help="Refuse, or only count.")
    ] = None,
    freeze: Annotated[
        bool | None, typer.Option("--freeze/--unfreeze", help="Spend nothing more, or again.")
    ] = None,
    json: Json = False,
) -> None:
    """Change limits from now on; none goes below what is spent. The change is kept in the history."""
    if all(given is None for given in (information, calls, period, mode, freeze)):
        raise typer.BadParameter("nothing to change: give a limit, --period, --mode, --freeze or --unfreeze")
    with reported():
        found = configured(config)
        accounts.change(found, name, information, calls, period, mode, freeze)
        accounts.show(found, name, None, as_json=json)


@budget.command()
def approve(
    config: ConfigFile = HERE,
    password_stdin: Stdin = False,
    stop: Annotated[bool, typer.Option("--stop", help="One person is enough from now on.")] = False,
) -> None:
    """Approve the limits of the file as a second person; from then on nothing is raised without them."""

    def ask(raised: Sequence[str] | None) -> str:
        if raised is None:
            print("A second person approves limits from now on: their new password.", file=sys.stderr)
        for line in raised or ():
            print(line, file=sys.stderr)
        return asked_password(password_stdin, new=raised is None)

    with reported():
        owner_approve.approve(configured(config), ask, stop=stop)
        if not stop:
            print("Approved. A running server has the limits of before until it is reloaded: dpproxy reload")


@budget.command()
def approvals(config: ConfigFile = HERE, json: Json = False) -> None:
    """Show which limits a second person has approved, and when."""
    with reported():
        owner_approve.approvals(configured(config), as_json=json)


@budget.command()
def history(
    name: Account,
    config: ConfigFile = HERE,
    since: Since = None,
    until: Until = None,
    last: Annotated[
        int | None, typer.Option(metavar="N", help="The last N answers; without it all.", min=1)
    ] = None,
    json: Json = False,
) -> None:
    """Show an account's answers, charges and limits so far."""
    with reported():
        accounts.history(configured(config), name, since, until, last, as_json=json)


@budget.command("export")
def write(
    name: Anybody = None,
    config: ConfigFile = HERE,
    form: Annotated[
        ExportFormat, typer.Option("--format", help="How entries are written.")
    ] = ExportFormat.csv,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where to; without it standard output."),
    ] = None,
    since: Since = None,
    until: Until = None,
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Write every entry of the ledger as CSV, JSON or Parquet, or the trail for `dpproxy audit`."""
    with reported():
        export(configured(config), ExportFormat.json if json else form, output, name, since, until)


@budget.command()
def simulate(
    config: ConfigFile = HERE,
    information: Annotated[Amounts | None, Budgets] = None,
    calls: Annotated[Amounts | None, Budgets] = None,
    period: PeriodOption = None,
    since: Since = None,
    until: Until = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A plot as well, .png or .svg (needs matplotlib).")
    ] = None,
    json: Json = False,
) -> None:
    """Show which analysts each budget would have stopped, from their past queries."""
    with reported():
        cli_simulate.run(
            configured(config), information or (), calls or (), period, since, until, plot, as_json=json
        )


@budget.command()
def refusals(
    config: ConfigFile = HERE,
    days: Annotated[int, typer.Option(metavar="N", help="Of so many days.", min=1)] = 30,
    json: Json = False,
) -> None:
    """Show how often statements were refused, why, and what they were like."""
    with reported():
        accounts.refusals(configured(config), days, as_json=json)


@budget.command()
def verify(
    config: ConfigFile = HERE,
    whole: Annotated[
        bool, typer.Option("--all", help="Read every entry again, not only those since the last time.")
    ] = False,
    json: Json = False,
) -> None:
    """Recompute every balance from the ledger's entries, from where the last verification ended."""
    with reported():
        accounts.verify(configured(config), whole=whole, as_json=json)


@budget.command()
def prune(config: ConfigFile = HERE, json: Json = False) -> None:
    """Delete the answers of epochs that are over; entries and balances stay."""
    with reported():
        accounts.prune(configured(config), as_json=json)


@budget.command()
def accept(
    config: ConfigFile = HERE,
    uncharged: Annotated[
        bool,
        typer.Option("--uncharged", help="Charge nothing for what may be missing: it can be spent again."),
    ] = False,
    json: Json = False,
) -> None:
    """Take the ledger as it is; unless its mark shows that nothing is missing, accounts pay all they have left."""
    with reported():
        accounts.accept(configured(config), charged=not uncharged, as_json=json)
