"""The page of guarantees: of each account by the limits that it has had, and against all analysts together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, exp

from budget.account import AccountRow, LimitRow
from budget.accounting import reach
from budget.units import units
from dpproxy.catalog.build_policy import unit_words
from dpproxy.config.sections import AccountLimit, Config
from dpproxy.console.sources import Sources
from dpproxy.engine.bounded_range import Accounting
from dpproxy.owner.accounts import account_guarantee, limit_link
from dpproxy.owner.check import Guarantee, guarantee_of, marked

Limits = Mapping[str, Sequence[LimitRow]]
"""The limits that each account has had."""
_ODDS = 1000
"""Larger odds are shown as "more than" this."""


@dataclass(frozen=True)
class Promise:
    """The guarantee for `whose` questions: the smallest epsilon with its delta, and every accounting below it.

    `reason`: why there is no guarantee, if there is none.
    """

    whose: tuple[str, ...]
    information: str
    calls: str
    period: str
    best: Guarantee | None
    odds: str
    rows: tuple[tuple[str | None, ...], ...]
    reason: str = ""


def guarantees(sources: Sources, query: Mapping[str, str]) -> Mapping[str, object]:
    """The guarantees of accounts; accounts with the same limits share one."""
    config, accounts = sources.config, sources.ledger.accounts
    rows, had = accounts.all(), accounts.all_limits()
    accounting = Accounting.read(config.privacy, sources.ledger.history)
    return {
        "promises": _promises(accounting, had, [row for row in rows if row.account != "dataset"]),
        "everybody": everybody(config, accounting, had, rows),
        "unit": unit_words(sources.checked.policy),
        "epsilon_per": _plain(config.privacy.epsilon_per),
        "noise": config.privacy.noise,
    }


def everybody(config: Config, accounting: Accounting, had: Limits, rows: Sequence[AccountRow]) -> Promise:
    """Against all analysts who put their answers together: the dataset's account, or the sum of theirs."""
    own = [row for row in rows if row.account.startswith("analyst:")]
    shared = next((row for row in rows if row.account == "dataset"), None)
    if shared is not None and shared.limit.mode == "enforce":
        bounds = account_guarantee(accounting, shared, had[shared.account], None)
        return _promise(
            ("all analysts, by the account of the dataset",), limit_link(shared.account, shared.limit), bounds
        )
    whose = (f"all {len(own)} analysts together" if len(own) != 1 else "the one analyst there is",)
    periods = {row.limit.period for row in own}
    link = AccountLimit(
        "everybody",
        units(sum(row.limit.information for row in own)),
        units(sum(row.limit.calls for row in own)),
        next(iter(periods), config.budget.period),
        "enforce",
    )
    if not own:
        return _nothing(whose, link, "no analyst has asked anything yet")
    if any(row.limit.mode == "track" for row in own):
        return _nothing(whose, link, "an account is only tracked: set [budget.dataset]")
    if len(periods) > 1:
        return _nothing(whose, link, "their periods differ: set [budget.dataset]")
    reached = sum(reach(units(row.limit.information), units(row.limit.epsilon)) for row in own)
    bounds = guarantee_of(accounting.together, replace(link, information=Fraction(reached)), None)
    return _promise(whose, link, bounds)


def _promises(accounting: Accounting, had: Limits, rows: Sequence[AccountRow]) -> list[Promise]:
    alike: dict[tuple[object, ...], list[AccountRow]] = {}
    for row in rows:
        same: tuple[object, ...] = (row.account,)
        if len(had[row.account]) == 1:
            same = (row.limit, accounting.of_account(row.account).noise)
        alike.setdefault(same, []).append(row)
    return [_of_alike(accounting, of_them, had) for of_them in alike.values()]


def _of_alike(accounting: Accounting, rows: Sequence[AccountRow], had: Limits) -> Promise:
    first = rows[0]
    link = limit_link(first.account, first.limit)
    whose = tuple(row.account for row in rows)
    if first.limit.mode == "track":
        return _nothing(whose, link, "only tracked: no guarantee is claimed")
    return _promise(whose, link, account_guarantee(accounting, first, had[first.account], None))


def _promise(whose: tuple[str, ...], link: AccountLimit, bounds: Sequence[Guarantee]) -> Promise:
    best = next((bound for bound in bounds if bound.smallest), None)
    rows = tuple(
        (marked(bound), bound.epsilon, bound.delta, bound.kept_epsilon, bound.kept_delta) for bound in bounds
    )
    odds = "" if best is None or best.epsilon is None else _odds(float(best.epsilon))
    return Promise(whose, _plain(link.information), _plain(link.calls), link.period, best, odds, rows)


def _nothing(whose: tuple[str, ...], link: AccountLimit, reason: str) -> Promise:
    return Promise(whose, _plain(link.information), _plain(link.calls), link.period, None, "", (), reason)


def _odds(epsilon: float) -> str:
    """exp(epsilon) in words, rounded up.

    >>> print(_odds(0.5), _odds(9.0), sep="; ")
    a factor of 1.65 at most; a factor of exp(9) at most, which is more than 1,000
    """
    factor = exp(min(epsilon, 100.0))
    if factor > _ODDS:
        return f"a factor of exp({epsilon:g}) at most, which is more than {_ODDS:,}"
    return f"a factor of {ceil(100 * factor) / 100:.2f} at most"


def _plain(value: Fraction) -> str:
    return str(value) if value.denominator == 1 else f"{float(value):g}"
