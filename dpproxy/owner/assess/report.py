"""What an assessment says, ready to be shown: in a terminal, as HTML, as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from statistics import median

from budget.account import Charge
from budget.units import shown
from dpproxy.catalog.build_policy import unit_words
from dpproxy.config.sections import Budget, Config
from dpproxy.owner.assess.advice import Advice, advice
from dpproxy.owner.assess.assessor import Assessed, Assessor, Outcome, assessing
from dpproxy.owner.assess.cubes import Cube, cubes
from dpproxy.owner.assess.fit import Fit
from dpproxy.owner.assess.listed import Listed, StatementFile, read
from dpproxy.owner.assess.spending import Spending, spending, thrown_away

NOT_PRIVATE = (
    "NOT PRIVATE. This report was made of the data themselves, without noise: how far off released numbers would be "
    "tells about true ones. It is for the data owner alone. Nothing was charged, and nothing is kept."
)
GOOD, USABLE = 0.1, 0.5
"""Relative errors up to which an answer is called good, and usable."""
WORDS: dict[Outcome, str] = {
    "answered": "answered",
    "free": "free: no private rows are read",
    "needs values": "needs values of its parameters",
    "refused": "refused",
}


@dataclass(frozen=True)
class Row:
    """A statement with the report on it, each part in words; empty where there is none."""

    name: str
    text: str
    times: int
    outcome: str
    price: str = ""
    error: str = ""
    groups: str = ""
    mechanism: str = ""
    columns: tuple[tuple[str, str], ...] = ()
    code: str = ""
    message: str = ""
    hint: str = ""
    lines: tuple[str, ...] = ()
    meanings: tuple[str, ...] = ()
    keys: int = 0


@dataclass(frozen=True)
class Account:
    """What an account would pay for its statements, in words, by the value of dpproxy.reuse; `always`: empty for shared
    accounts."""

    name: str
    statements: int
    off: str
    on: str
    always: str = ""


@dataclass(frozen=True)
class Proposed:
    """A cube that saves units; its price and what the statements over its tables cost before and after, in words."""

    sql: str
    price: str
    statements: int
    before: str
    after: str


@dataclass(frozen=True)
class Report:
    """A whole assessment: how many statements of each outcome, what they cost together, and one row each."""

    file: str
    format: str
    passed_over: tuple[str, ...]
    unit: str
    counts: tuple[tuple[str, int], ...]
    quality: tuple[tuple[str, int], ...]
    refused: tuple[tuple[str, int], ...]
    price: str
    budget: str
    accounts: tuple[Account, ...]
    cubes: tuple[Proposed, ...]
    turned: int
    rows: tuple[Row, ...]


def assessment(
    config: Config,
    file: Path,
    watched: Callable[[Sequence[Listed]], Iterable[Listed]],
    *,
    with_cubes: bool = False,
) -> Report:
    """Assesses the statements of a file; for refused ones it is tried which line of policy would help.

    `watched`: passes the statements on as they are taken; `with_cubes`: proposes cubes. Raises OutputError,
    ConfigError, and what starting backend and front raises.
    """
    listing = read(file)
    with assessing(config) as assessor:
        assessed = [_with_advice(assessor, listed) for listed in watched(listing.statements)]
        unit = unit_words(assessor.checked.policy)
    answered = [one.listed for one, _ in assessed if one.outcome == "answered"]
    spent: Sequence[Spending] = ()
    proposed: Sequence[Cube] = ()
    if answered:
        with thrown_away(config, answered) as service:
            spent = spending(service, answered, watched)
            proposed = [*cubes(service, answered, watched)] if with_cubes else ()
    return report(file.name, listing, assessed, unit, config.budget, spent, proposed)


def _with_advice(assessor: Assessor, listed: Listed) -> tuple[Assessed, Advice | None]:
    assessed = assessor.assess(listed)
    if assessed.outcome != "refused" or assessed.refusal is None:
        return assessed, None
    return assessed, advice(assessor, listed, assessed.refusal)


def report(
    file: str,
    listing: StatementFile,
    found: Sequence[tuple[Assessed, Advice | None]],
    unit: str,
    budget: Budget,
    spent: Sequence[Spending],
    proposed: Sequence[Cube],
) -> Report:
    """The report of what was assessed, each statement with the advice about it, and of what accounts would pay."""
    assessed = [one for one, _ in found]
    counts = [(word, sum(one.outcome == outcome for one in assessed)) for outcome, word in WORDS.items()]
    codes = Counter(
        one.refusal.code for one in assessed if one.outcome == "refused" and one.refusal is not None
    )
    needed = _sum(assessed)
    return Report(
        file,
        listing.format,
        listing.passed_over,
        unit,
        tuple(counts),
        _qualities(assessed),
        tuple(codes.most_common()),
        str(needed),
        _beside(budget),
        tuple(map(account_of, spent)),
        tuple(
            Proposed(one.sql, _price(one.price), one.statements, _price(one.before), _price(one.after))
            for one in proposed
        ),
        sum(one.outcome == "refused" and advice is not None for one, advice in found),
        tuple(_row(one, advice) for one, advice in found),
    )


def _sum(assessed: Sequence[Assessed]) -> Charge:
    prices = [one.price for one in assessed if one.price is not None]
    return Charge.sum(prices)


def _beside(budget: Budget) -> str:
    """An analyst's budget of a period, compared with the cost of all statements once."""
    period = "" if budget.period == "none" else f" a {budget.period}"
    return f"an analyst has {_units(budget.information)} information units and {_units(budget.calls)} calls{period}"


def _units(value: Fraction) -> str:
    return f"{float(value):,.10g}"


def _qualities(assessed: Sequence[Assessed]) -> tuple[tuple[str, int], ...]:
    """Answered statements by how good their answers would be."""
    kinds = Counter(_quality(one) for one in assessed if one.outcome == "answered")
    order = (
        f"within {GOOD:.0%}",
        f"within {USABLE:.0%}",
        f"beyond {USABLE:.0%}",
        "no numbers",
        "no rows",
        "not compared",
    )
    return tuple((name, kinds[name]) for name in order if kinds[name])


def _quality(one: Assessed) -> str:
    if one.unread:
        return "not compared"
    if one.fits and all(fit.released < 0.5 for fit in one.fits):
        return "no rows"
    error = _error(one.fits)
    if error is None:
        return "no numbers"
    return next((f"within {at:.0%}" for at in (GOOD, USABLE) if error <= at), f"beyond {USABLE:.0%}")


def _error(fits: Sequence[Fit]) -> float | None:
    """The middle one of the columns' errors."""
    errors = [c.error for fit in fits for c in fit.columns if c.error is not None]
    return median(errors) if errors else None


def _row(one: Assessed, advice: Advice | None) -> Row:
    listed, refusal = one.listed, one.refusal
    if one.outcome == "refused" and refusal is not None:
        given = advice or Advice((), (), 0)
        message = refusal.message if refusal.detail is None else f"{refusal.message}. {refusal.detail}"
        return Row(
            listed.name,
            listed.text,
            listed.times,
            one.outcome,
            code=refusal.code,
            message=message,
            hint=refusal.hint or "",
            lines=given.lines,
            meanings=given.meanings,
            keys=given.keys,
        )
    error = _error(one.fits)
    return Row(
        listed.name,
        listed.text,
        listed.times,
        one.outcome,
        price="" if one.price is None else _price(one.price),
        error="not compared" if one.unread else percent(error),
        groups="; ".join(map(_groups, one.fits)),
        mechanism="; ".join(dict.fromkeys(fit.mechanism for fit in one.fits)),
        columns=tuple((c.name, percent(c.error)) for fit in one.fits for c in fit.columns),
        message=one.why,
    )


def account_of(spent: Spending) -> Account:
    """What an account would pay, in words."""
    always = "" if spent.always is None else _price(spent.always)
    return Account(spent.account, spent.statements, _price(spent.afresh), _price(spent.reused), always)


def _price(price: Charge) -> str:
    calls = f" + {shown(price.calls)} call{'' if shown(price.calls) == '1' else 's'}" if price.calls else ""
    return f"{shown(price.information)}{calls}" if price.information or price.calls else "free"


def _groups(fit: Fit) -> str:
    if fit.groups == 1 and fit.released == 1:
        return "1"
    return f"{fit.released:.0f} of {fit.groups:,}"


def percent(error: float | None) -> str:
    """A relative error for people.

    >>> percent(0.01234), percent(0.4), percent(25.0), percent(None)
    ('1.2%', '40%', '> 999%', '')
    """
    if error is None:
        return ""
    return "> 999%" if error > 9.99 else f"{100 * error:.2g}%" if error < 0.995 else f"{100 * error:.0f}%"
