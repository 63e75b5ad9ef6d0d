"""What parameters mean, and which parameters meet a target: guarantees, attacks, errors and thresholds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, Context, Decimal
from fractions import Fraction
from typing import Literal

from budget.account import Charge, EntryRow, Limit
from budget.accounting import PrivacyBound, guarantee, solve
from budget.advice import (
    averaging_attack,
    close_count,
    differencing_budget,
    differencing_limit,
    unique_count_shown,
)
from budget.simulate import simulate
from budget.units import MICRO, MOST
from dpproxy.config.sections import Budget, Config, Privacy
from dpproxy.deployment.service import opened_vault
from dpproxy.engine.bounded_range import Accounting
from dpproxy.engine.selection.groups import width_of
from dpproxy.owner.attacker_advantage import lessons, together
from dpproxy.owner.check import limits_of
from dpproxy.reporting.rows import OutputError
from mechanisms.choose import MechanismSettings, choose
from mechanisms.histogram import Mechanism

TYPICAL = (100, 1_000, 10_000)
"""Counts at which errors are shown."""
DAYS = 30
"""Of the averaging attack: one fresh answer a day."""
_MILLION = 1_000_000


PARAMETERS = ("epsilon_per", "delta_per", "delta_prime", "information", "calls")
"""What a setting is made of, by the names of dpproxy.toml."""
_DOWN = Context(prec=10, rounding=ROUND_DOWN)


@dataclass(frozen=True)
class Setting:
    """The parameters of a deployment that its guarantee and its errors follow from, under a `label`.

    `bounded_range`: whether all that was ever released is of bounded range, so that this accounting applies, too.
    """

    label: str
    epsilon_per: Fraction
    delta_per: Fraction
    delta_prime: Fraction
    information: Fraction
    calls: Fraction
    noise: Literal["gaussian", "laplace"]
    d_bar: int
    bounded_range: bool = False
    paper: bool = False

    def bounds(self) -> tuple[PrivacyBound, ...]:
        """(epsilon, delta) of a period by every accounting that applies."""
        return guarantee(
            *(self.information, self.calls, self.epsilon_per, self.delta_per, self.delta_prime),
            bounded_range_only=self.bounded_range,
        )


@dataclass(frozen=True)
class TypicalQuestion:
    """A typical question and the mechanism that answers it."""

    question: str
    mechanism: Mechanism

    def error(self, count: int) -> float | None:
        """The relative error that 95% of counts of this size stay within."""
        deviation = self.mechanism.stddev
        return None if deviation is None else width_of(self.mechanism.noise_family) * deviation / count


@dataclass(frozen=True)
class Wishes:
    """The owner's targets; None where there is no target.

    `epsilon`, `delta`: a guarantee; `unnoticed`: the percentage of analysts whom no limit stops, those of a log where
    there is one; `error` in percent at a `count`.
    """

    epsilon: Fraction | None = None
    delta: Fraction | None = None
    unnoticed: Fraction | None = None
    error: Fraction | None = None
    count: int = 1000


def setting_of(config: Config | None) -> Setting:
    """The parameters of a configuration, the defaults for None."""
    privacy = Privacy() if config is None else config.privacy
    budget = Budget() if config is None else config.budget
    return Setting(
        "setting",
        *(privacy.epsilon_per, privacy.delta_per, privacy.delta_prime, budget.information, budget.calls),
        privacy.noise,
        privacy.d_bar,
        privacy.noise == "laplace" and (config is None or _only_laplace(config)),
        privacy.mechanisms == "paper",
    )


def _only_laplace(config: Config) -> bool:
    """Whether the ledger of a configuration with Laplace noise has held nothing else, if there is one."""
    if not config.ledger.url and not (config.path(config.ledger.data_dir) / "cluster").exists():
        return True
    with opened_vault(config) as vault:
        return Accounting.read(config.privacy, vault.ledger.history).together.noise == "laplace"


def _settings(setting: Setting) -> MechanismSettings:
    """What the choice of a mechanism depends on."""
    parameters = setting.epsilon_per, setting.delta_per, setting.noise, None, setting.d_bar
    return MechanismSettings(*parameters, setting.paper)


def kinds(setting: Setting) -> tuple[TypicalQuestion, ...]:
    """The typical questions of [AEA] Table 1, each with the mechanism of this setting; tau is 1.

    Those over unknown values are left out where delta_per is 0.
    """
    settings = _settings(setting)
    questions: list[tuple[str, int | None, int | None, int | None]] = [
        ("one count", 1, 1, None),
        ("known groups, one of a unit", 50, 1, None),
        ("known groups, ten of a unit", 50, 10, None),
        ("top 10 of many known groups", 10_000, None, 10),
    ]
    if setting.delta_per:
        questions += [
            ("unknown groups, one of a unit", None, 1, None),
            ("unknown groups, ten of a unit", None, 10, None),
            ("top 10 of unknown groups", None, None, 10),
        ]
    return tuple(
        TypicalQuestion(question, choose(settings, domain_size=size, delta0=delta0, tau=1, k=k, counts=True))
        for question, size, delta0, k in questions
    )


def thresholds(setting: Setting, bounds: Sequence[int]) -> tuple[int, ...]:
    """Of unknown groups, what a group needs above the first one that is not fetched, by l0; empty without delta."""
    if not setting.delta_per:
        return ()
    settings = _settings(setting)
    found = [
        choose(settings, domain_size=None, delta0=d, tau=1, k=None, counts=True).threshold for d in bounds
    ]
    return tuple(threshold for threshold in found if threshold is not None)


def learnt(setting: Setting, config: Config | None) -> Iterator[str]:
    """What an analyst could learn about one person, in words: by each account of the configuration, with the
    setting's limits for the analysts' own."""
    given, budget = (Privacy(), Budget()) if config is None else (config.privacy, config.budget)
    parameters = {name: getattr(setting, name) for name in PARAMETERS[:3]}
    parameters["noise"] = "laplace" if setting.bounded_range else "gaussian"
    privacy = given.model_copy(update=parameters)
    limits = limits_of(
        budget.model_copy(update={n: getattr(setting, n) for n in PARAMETERS[3:]}),
        privacy.model_copy(update={"noise": setting.noise}),
    )
    for limit in limits:
        yield from (one.words for one in lessons(privacy, limit))
    uncapped = together(limits)
    if uncapped is not None:
        yield uncapped


def attacks(setting: Setting) -> tuple[tuple[str, str], ...]:
    """What [AEA] section 8.3 asks, each with this setting's answer: estimates, not guarantees."""
    eps, shown = (
        setting.epsilon_per,
        unique_count_shown(setting.calls, setting.delta_per, setting.epsilon_per),
    )
    odds = f"1 in {1 / shown:,.0f}" if shown else "never"
    return (
        (
            f"averaging {DAYS} fresh Laplace counts of unchanged data comes within 1/2 of the truth",
            f"{100 * averaging_attack(eps, DAYS):.2f}%",
        ),
        ("one Laplace count lies within 1/2 of the truth", f"{100 * close_count(eps):.2f}%"),
        ("two top-k answers share less than one such count, up to k", f"{differencing_limit(eps):,}"),
        ("information units that differencing them costs", f"{differencing_budget(eps):,}"),
        ("a value that one person alone has is ever shown", odds),
    )


def fulfilled(
    setting: Setting, wishes: Wishes, config: Config | None, needed: Sequence[Charge] = ()
) -> Setting:
    """The setting that meets the targets; `config`: the ledger of its deployment has the history. Raises OutputError.

    `needed`: what each analyst of a log pays in a period. Budgets come first, since the guarantee depends on them.
    Either an error or a guarantee decides epsilon_per.
    """
    if needed:
        setting = for_log(setting, needed, (wishes.unnoticed or 100) / Fraction(100))
    elif wishes.unnoticed is not None:
        if config is None:
            raise OutputError("who would notice is learnt from a ledger: name a configuration by --config")
        with opened_vault(config) as vault:
            entries = [entry for entry in vault.ledger.history.entries(None, None, None) if entry.own]
        setting = for_analysts(setting, entries, wishes.unnoticed / 100, config.budget.period)
    if wishes.error is not None:
        setting = for_error(setting, wishes.error / 100, wishes.count)
    if wishes.epsilon is not None:
        best = next(bound for bound in setting.bounds() if bound.smallest)
        setting = for_guarantee(setting, wishes.epsilon, wishes.delta or best.delta)
    return setting


def for_guarantee(setting: Setting, epsilon: Fraction, delta: Fraction) -> Setting:
    """The same budgets with parameters whose guarantee is at most (epsilon, delta); OutputError where none is."""
    budget, only = (setting.information, setting.calls), setting.bounded_range
    try:
        found = solve(epsilon, delta, *budget, bounded_range_only=only)
    except ValueError as error:
        raise OutputError(f"no parameters: {error}") from None
    eps_per, delta_per, slack = found
    return replace(setting, epsilon_per=eps_per, delta_per=delta_per, delta_prime=slack)


def for_error(setting: Setting, error: Fraction, count: int) -> Setting:
    """The least epsilon_per, a multiple of 1e-6, at which 95% of counts of that size are within a relative error.

    >>> paper = Setting("", Fraction(1), Fraction(1, 10**10), Fraction(1, 10**9), Fraction(300), Fraction(30),
    ...                 "gaussian", 1000)
    >>> float(for_error(paper, Fraction(1, 20), 1000).epsilon_per)
    0.0784

    Of one count, at one information unit: standard deviation 2/epsilon_per, or sqrt(2) as much for Laplace.
    """
    interval = width_of(setting.noise) * 2 * (math.sqrt(2) if setting.noise == "laplace" else 1)
    needed = interval / (float(error) * count)
    return replace(setting, epsilon_per=Fraction(math.ceil(round(needed * _MILLION, 6)), _MILLION))


def for_analysts(setting: Setting, entries: Sequence[EntryRow], share: Fraction, period: str) -> Setting:
    """The least whole budgets of which at least `share` of the analysts would not have noticed anything.

    `entries`: the analysts' own, in order; `period`: how long a budget lasts. What the real limits refused is
    in no ledger, so that a history of mode "track" is the most informative. OutputError where nothing was asked.
    """
    if not entries:
        raise OutputError("the ledger has no history to learn from")
    information = _least(entries, share, period, of_calls=False)
    return replace(setting, information=information, calls=_least(entries, share, period, of_calls=True))


def for_log(setting: Setting, needed: Sequence[Charge], share: Fraction) -> Setting:
    """The least whole budgets that at least `share` of the analysts of a log do not exceed, by what each pays.

    >>> found = for_log(setting_of(None), [Charge(1_500_000, 0), Charge(7_000_000, 2_000_000)], Fraction(1, 2))
    >>> str(found.information), str(found.calls)
    ('2', '0')
    """
    last = math.ceil(share * len(needed)) - 1
    information, calls = (
        Fraction(-(-sorted(getattr(one, unit) for one in needed)[last] // MICRO))
        for unit in ("information", "calls")
    )
    return replace(setting, information=information, calls=calls)


def _least(entries: Sequence[EntryRow], share: Fraction, period: str, *, of_calls: bool) -> Fraction:
    """By bisection: who is not stopped by a limit is not stopped by a higher one."""

    def enough(units: int) -> bool:
        amount = min(units * MICRO, MOST)
        limit = Limit(MOST if of_calls else amount, amount if of_calls else MOST, period)  # type: ignore[arg-type]
        results = simulate(entries, [limit])
        return sum(not result.stopped for result in results) >= share * len(results)

    high = 1
    while not enough(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return Fraction(high)


def changed(setting: Setting, changes: Iterable[tuple[str, Fraction]], label: str) -> Setting:
    """The same with other values of some parameters; OutputError for values that cannot be."""
    found = replace(setting, label=label, **dict(changes))  # type: ignore[arg-type]
    if not (found.epsilon_per > 0 and 0 <= found.delta_per < 1 and 0 < found.delta_prime < 1):
        raise OutputError("epsilon_per is above 0, delta_per and delta_prime lie between 0 and 1")
    if min(found.information, found.calls) < 0:
        raise OutputError("budgets are not negative")
    return found


def as_toml(setting: Setting) -> str:
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
