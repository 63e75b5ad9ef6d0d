"""`dpproxy advise`: from wishes to parameters and back, as tables, plots and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_DOWN, Context, Decimal
from fractions import Fraction
from pathlib import Path

from budget.accounting import shown_up
from dpproxy.config.sections import Budget, Config, Privacy, nearest
from dpproxy.config.values import exact
from dpproxy.deployment.service import opened_vault
from dpproxy.engine.bounded_range import Accounting
from dpproxy.owner.advise import (
    TYPICAL,
    Setting,
    attacks,
    changed,
    for_analysts,
    for_error,
    for_guarantee,
    kinds,
    thresholds,
)
from dpproxy.owner.advise_plot import Chart, Line, as_image, in_characters
from dpproxy.owner.attacker_advantage import lessons, together
from dpproxy.owner.check import limits_of
from dpproxy.reporting.rows import OutputError
from dpproxy.reporting.tables import print_json, print_table

PARAMETERS = ("epsilon_per", "delta_per", "delta_prime", "information", "calls")
_COUNTS = tuple(round(10 ** (1 + n / 12)) for n in range(49))
_DOWN = Context(prec=10, rounding=ROUND_DOWN)
_L0 = (1, 2, 3, 5, 10, 20, 50, 100)


@dataclass(frozen=True)
class Wishes:
    """What the owner wants; None where nothing is said.

    `epsilon`, `delta`: a guarantee; `unnoticed`: the percentage of analysts whom no limit stops; `error` in
    percent at a `count`.
    """

    epsilon: Fraction | None = None
    delta: Fraction | None = None
    unnoticed: Fraction | None = None
    error: Fraction | None = None
    count: int = 1000


def advise(
    config: Config | None,
    changes: str | None,
    wishes: Wishes,
    compare: str | None,
    plot: Path | None,
    *,
    as_json: bool,
) -> None:
    """Prints what a setting means.

    `config`: where parameters and history come from, None for the defaults; `changes`, `compare`: other values,
    like "epsilon_per=0.3,information=500", of the setting and of a second one beside it. Raises OutputError.
    """
    setting = _fulfilled(changed(_setting(config), _read(changes), "setting"), wishes, config)
    settings = [setting]
    if compare is not None:
        settings.append(changed(setting, _read(compare), compare))
    charts = _charts(settings)
    if plot is not None:
        as_image(charts, plot)
    if as_json:
        print_json([{**_plain(one), "learnt": [*_learnt(one, config)]} for one in settings])
        return
    _print(settings)
    for one in settings:
        print(f"\n{one.label}: what an analyst could learn about one person, at most")
        print("\n".join(f"- {words}" for words in _learnt(one, config)))
    for chart in charts:
        print("\n" + in_characters(chart))
    if wishes != Wishes():
        print("\n" + _to_paste(setting))


def _setting(config: Config | None) -> Setting:
    privacy = Privacy() if config is None else config.privacy
    budget = Budget() if config is None else config.budget
    return Setting(
        "setting",
        *(privacy.epsilon_per, privacy.delta_per, privacy.delta_prime, budget.information, budget.calls),
        privacy.noise,
        privacy.d_bar,
        privacy.noise == "laplace" and (config is None or _only_laplace(config)),
    )


def _only_laplace(config: Config) -> bool:
    """Whether the ledger of a configuration with Laplace noise has held nothing else, if there is one."""
    if not config.ledger.url and not (config.path(config.ledger.data_dir) / "cluster").exists():
        return True
    with opened_vault(config) as vault:
        return Accounting.read(config.privacy, vault.ledger).together.noise == "laplace"


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


def _fulfilled(setting: Setting, wishes: Wishes, config: Config | None) -> Setting:
    """Budgets first, which the guarantee rests on; of an error and a guarantee only one decides epsilon_per."""
    if wishes.unnoticed is not None:
        if config is None:
            raise OutputError("who would notice is learnt from a ledger: name a configuration by --config")
        with opened_vault(config) as vault:
            entries = [entry for entry in vault.ledger.entries(None, None, None) if entry.own]
        setting = for_analysts(setting, entries, wishes.unnoticed / 100, config.budget.period)
    if wishes.error is not None:
        setting = for_error(setting, wishes.error / 100, wishes.count)
    if wishes.epsilon is not None:
        best = next(bound for bound in setting.bounds() if bound.smallest)
        setting = for_guarantee(setting, wishes.epsilon, wishes.delta or best.delta)
    return setting


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


def _learnt(setting: Setting, config: Config | None) -> Iterator[str]:
    """In words, for each account of the configuration, the analysts' own with the setting's limits."""
    given, budget = (Privacy(), Budget()) if config is None else (config.privacy, config.budget)
    parameters = {name: getattr(setting, name) for name in PARAMETERS[:3]}
    parameters["noise"] = "laplace" if setting.bounded_range else "gaussian"
    privacy = given.model_copy(update=parameters)
    limits = limits_of(budget.model_copy(update={n: getattr(setting, n) for n in PARAMETERS[3:]}))
    for limit in limits:
        yield from (one.words for one in lessons(privacy, limit))
    uncapped = together(limits)
    if uncapped is not None:
        yield uncapped


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


def _charts(settings: Sequence[Setting]) -> list[Chart]:
    several = len(settings) > 1
    errors, needed = [], []
    for style, one in enumerate(settings):
        suffix = f" ({one.label})" if several else ""
        for kind in (kinds(one)[0], *kinds(one)[2:4]):
            points = tuple(100 * (kind.error(n) or 0) for n in _COUNTS)
            errors.append(Line(kind.question + suffix, _COUNTS, points, style))
        found = thresholds(one, _L0)
        if found:
            needed.append(Line("unknown groups" + suffix, _L0, tuple(map(float, found)), style))
    charts = [Chart("Error of 95% of counts", "count", "%", tuple(errors))]
    if needed:
        charts.append(
            Chart("Threshold", "groups of one unit (l0)", "units that a group needs", tuple(needed))
        )
    return charts


def _to_paste(setting: Setting) -> str:
    """The setting as dpproxy.toml has it."""
    return "\n".join(
        (
            "[privacy]             # pinned in the ledger at its creation: other values need a new one",
            f"epsilon_per = {_decimal(setting.epsilon_per)}",
            f"delta_per = {_decimal(setting.delta_per)}",
            f"delta_prime = {_decimal(setting.delta_prime)}",
            "[budget]",
            f"information = {_decimal(setting.information)}",
            f"calls = {_decimal(setting.calls)}",
        )
    )


def _decimal(value: Fraction) -> str:
    """As a file holds it, rounded down: never more than the guarantee was computed for."""
    if value.denominator == 1:
        return str(value)
    return str(_DOWN.divide(Decimal(value.numerator), Decimal(value.denominator)).normalize(_DOWN)).lower()


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
