"""`dpproxy advise`: from targets to parameters and back, as tables, plots and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path

from budget.accounting import shown_up
from dpproxy.cli.assess import print_accounts
from dpproxy.config.sections import Config, nearest
from dpproxy.config.values import exact
from dpproxy.owner.advise import (
    PARAMETERS,
    TYPICAL,
    Setting,
    Wishes,
    as_toml,
    attacks,
    changed,
    fulfilled,
    kinds,
    learnt,
    setting_of,
)
from dpproxy.owner.advise_plot import as_image, charts_of, in_characters
from dpproxy.owner.assess.listed import read
from dpproxy.owner.assess.report import account_of
from dpproxy.owner.assess.spending import Spending, spending, thrown_away
from dpproxy.reporting.rows import OutputError
from dpproxy.reporting.tables import print_json, print_table

NOT_PRIVATE = (
    "NOT PRIVATE. What accounts would pay depends in part on the data themselves. Nothing is charged and nothing is "
    "stored; do not pass it on."
)


def advise(
    config: Config | None,
    changes: str | None,
    wishes: Wishes,
    log: Path | None,
    compare: str | None,
    plot: Path | None,
    *,
    as_json: bool,
) -> None:
    """Prints what a setting means.

    `config`: where parameters and history come from, None for the defaults; `changes`, `compare`: other values,
    like "epsilon_per=0.3,information=500", of the setting and of a second one to compare with; `log`: statements whose
    analysts the budgets have to be enough for. Raises OutputError, and what starting a deployment raises.
    """
    given = changed(setting_of(config), _read(changes), "setting")
    spent = () if log is None else _spent(config, log)
    own = [one for one in spent if one.always is not None]
    setting = fulfilled(given, wishes, config, [one.reused for one in own])
    settings = [setting]
    if own:
        afresh = fulfilled(given, wishes, config, [one.afresh for one in own])
        settings.append(replace(afresh, label="reuse = off"))
    accounts = [*map(account_of, spent)]
    if compare is not None:
        settings.append(changed(setting, _read(compare), compare))
    charts = charts_of(settings)
    if plot is not None:
        as_image(charts, plot)
    if as_json:
        shown = (
            {"not_private": NOT_PRIVATE, "accounts": [asdict(one) for one in accounts]} if accounts else {}
        )
        print_json([{**_plain(one), "learnt": [*learnt(one, config)], **shown} for one in settings])
        return
    if accounts:
        print(NOT_PRIVATE + "\n")
        print_accounts(accounts)
    _print(settings)
    for one in settings:
        print(f"\n{one.label}: what an analyst could learn about one person, at most")
        print("\n".join(f"- {words}" for words in learnt(one, config)))
    for chart in charts:
        print("\n" + in_characters(chart))
    if own or wishes != Wishes():
        print("\n" + as_toml(setting))


def _spent(config: Config | None, log: Path) -> tuple[Spending, ...]:
    """What the accounts of a log would pay, each analyst for all their statements once."""
    if config is None:
        raise OutputError("what a log costs depends on a policy: name a configuration by --config")
    statements = [one for one in read(log).statements if not one.open]
    with thrown_away(config, statements) as service:
        found = spending(service, statements, iter)
    if not found:
        raise OutputError(f"no statement of {log} is answered as it stands: dpproxy assess says why")
    return found


def _read(changes: str | None) -> list[tuple[str, Fraction]]:
    """The names and values of "a=1,b=2"."""
    found = []
    for part in filter(None, (changes or "").split(",")):
        name, _, value = (text.strip() for text in part.partition("="))
        if name not in PARAMETERS:
            close = nearest(name, PARAMETERS)
            hint = f"did you mean {close}?" if close else f"known are {', '.join(PARAMETERS)}"
            raise OutputError(f"no parameter {name}; {hint}")
        try:
            found.append((name, exact(value)))
        except ValueError as error:
            raise OutputError(f"{name}: {error}") from None
    return found


def _print(settings: Sequence[Setting]) -> None:
    names = [one.label for one in settings]
    right = tuple(range(1, len(names) + 1))
    rows = [(name, *(f"{float(getattr(one, name)):.6g}" for one in settings)) for name in PARAMETERS]
    print_table("Parameters", ("", *names), rows, right)
    accountings = [bound.accounting for bound in settings[0].bounds()]
    shown = [{bound.accounting: bound for bound in one.bounds()} for one in settings]
    rows = [
        (name, *(f"({shown_up(b[name].epsilon, 4)}, {shown_up(b[name].delta, 3)})" for b in shown))
        for name in accountings
    ]
    print_table("Guarantee of a period: (epsilon, delta), by accounting", ("", *names), rows, right)
    told = [dict(attacks(one)) for one in settings]
    rows = [(question, *(one[question] for one in told)) for question in told[0]]
    print_table("What an attacker gets ([AEA] 8.3; estimates)", ("", *names), rows, right)
    for one in settings:
        _print_errors(one)


def _print_errors(setting: Setting) -> None:
    heads = ("question", "mechanism", "units", "calls", "noise", "threshold", *(f"at {n:,}" for n in TYPICAL))
    rows = []
    for kind in kinds(setting):
        found = kind.mechanism
        rows.append(
            (
                kind.question,
                found.name,
                f"{float(found.cost_at_most.information):g}",
                f"{float(found.cost_at_most.calls):g}",
                None if found.stddev is None else f"{found.stddev:.1f}",
                None if found.threshold is None else str(found.threshold),
                *(_percent(kind.error(count)) for count in TYPICAL),
            )
        )
    title = f"{setting.label}: price, standard deviation, threshold; error of 95% of counts of a size"
    print_table(title, heads, rows, right=tuple(range(2, len(heads))))


def _percent(error: float | None) -> str | None:
    return None if error is None else f"{100 * error:.3g}%"


def _plain(setting: Setting) -> dict[str, object]:
    return {
        "label": setting.label,
        **{name: float(getattr(setting, name)) for name in PARAMETERS},
        "noise": setting.noise,
        "guarantee": [
            {
                "accounting": bound.accounting,
                "epsilon": shown_up(bound.epsilon, 6),
                "delta": shown_up(bound.delta, 6),
                "smallest": bound.smallest,
            }
            for bound in setting.bounds()
        ],
        "attacks": dict(attacks(setting)),
        "questions": [
            {
                "question": kind.question,
                "mechanism": kind.mechanism.name,
                "information": float(kind.mechanism.cost_at_most.information),
                "calls": float(kind.mechanism.cost_at_most.calls),
                "stddev": kind.mechanism.stddev,
                "threshold": kind.mechanism.threshold,
                "error_percent": {str(n): None if (e := kind.error(n)) is None else 100 * e for n in TYPICAL},
            }
            for kind in kinds(setting)
        ],
    }
