"""The options of a release: the deployment's parameters, and what the analyst has set."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, cast, get_args

from budget.account import Charge
from budget.units import MOST, micro, shown, units
from dpproxy.config.epoch import Epoch, epoch_begin
from dpproxy.config.precision import LEVELS, Target
from dpproxy.config.sections import Allowances, Privacy
from dpproxy.config.values import exact
from dpproxy.engine import refusals
from mechanisms.choose import MechanismSettings
from mechanisms.count_release import PrivateCountRelease
from mechanisms.histogram import Cost
from mechanisms.partition_selection import ONE
from mechanisms.unit_clip import root_up
from mechanisms.validation import LARGEST_EPSILON

UNITS, ERROR, MOST_UNITS = "dpproxy.units", "dpproxy.error", "dpproxy.most_units"
REUSE = "dpproxy.reuse"
Reuse = Literal["on", "off", "always"]
TERMS = (
    "dpproxy.spend",
    "dpproxy.distinct_values",
    "dpproxy.query_information",
    "dpproxy.query_calls",
    UNITS,
)
"""The settings that `terms` reads."""


@dataclass(frozen=True)
class ReleaseOptions:
    """Public parameters of every release: the deployment's, and what the analyst has set.

    Attributes:
        settings: what the choice of a mechanism depends on; its eps_per is that of the level.
        eps_per: the deployment's, for what spends an allowance.
        max_k: the largest LIMIT of a top-k query.
        allowance: the most that a query without LIMIT may spend.
        relative_error: of each count where an allowance is spent on as many counts as it pays for.
        max_items: the most distinct items of one unit that count in a group, and the most of its groups in a list.
        bins: the most bins of a quantile.
        present: SELECT DISTINCT over a known domain returns the values in the data, not the domain.
        kinds: the owner's allowances for costly kinds of queries.
        beta: the probability with which the lower bound of a distinct count may fail.
        length, epoch: how long an epoch lasts, and the name of the present one.
        scans: tools' bare lists of values are answered, and charged.
        floor: the least weight in partition selection, in 2^-20.
        units: the level, which is what a measure costs that costs one unit by default; of a rung, what that one costs.
        rung: 0 for an answer by itself, n for the n-th further measurement that makes an answer more precise.
        pruned: lists of groups set those aside, round by round, that will hardly come out.
        max_rows: how many rows one query may bring from the backend.
    """

    settings: MechanismSettings
    eps_per: Fraction
    max_k: int
    allowance: Cost
    relative_error: Fraction
    max_items: int
    bins: int
    present: bool
    kinds: Allowances
    beta: Fraction = Fraction(1, 20)
    length: Epoch = "forever"
    epoch: str = ""
    scans: bool = False
    floor: int = 1
    units: Fraction = Fraction(1)
    rung: int = 0
    pruned: bool = False
    max_rows: int = 5_000_000

    def at(self, units: Fraction, rung: int = 0) -> ReleaseOptions:
        """The same at another level.

        A unit is worth rho = eps_per^2/8 (accounting.md), so that `units` of them are one unit of a mechanism that is
        given eps_per times their square root, which is rounded down.
        """
        settings = replace(self.settings, eps_per=self.eps_per / root_up(1 / units))
        return replace(self, settings=settings, units=units, rung=rung)

    def worth(self, cost: Cost) -> Cost:
        """The cost of what was bought at this level, in the account's units."""
        return cost.in_units_of(self.units, self.settings.eps_per / self.eps_per)

    @property
    def begin(self) -> dt.datetime | None:
        """When the epoch began, None where it lasts forever."""
        return epoch_begin(self.length, self.epoch)

    def kind(self, most: Fraction | None) -> Cost:
        """The allowance of a query of a kind that may spend `most` information units, None for no bound of its own."""
        if most is None:
            return self.allowance
        return Cost(min(self.allowance.information, most), self.allowance.calls)

    def spending(self, most: Cost) -> ReleaseOptions:
        """The same with at most so much to spend."""
        allowance = self.allowance
        least = Cost(min(allowance.information, most.information), min(allowance.calls, most.calls))
        return replace(self, allowance=least)

    def within(self, left: Charge) -> ReleaseOptions:
        """The same with no more to spend than an account has left."""
        return self.spending(Cost(units(left.information), units(left.calls)))


def terms(privacy: Privacy, wishes: Mapping[str, str]) -> ReleaseOptions:
    """The terms of a session with these dpproxy.* settings; raises Refusal (22023) for values that do not exist."""
    spend = _one_of(wishes, "dpproxy.spend", "accurate", "cheap")
    values = _one_of(wishes, "dpproxy.distinct_values", "domain", "present")
    chosen = MechanismSettings(
        privacy.epsilon_per,
        privacy.delta_per,
        privacy.noise,
        cast(Literal["accurate", "cheap"] | None, spend),
        privacy.d_bar,
        paper=privacy.mechanisms == "paper",
    )
    return ReleaseOptions(
        chosen,
        privacy.epsilon_per,
        privacy.max_k,
        Cost(
            _amount(wishes, "dpproxy.query_information", privacy.query_information),
            _amount(wishes, "dpproxy.query_calls", privacy.query_calls),
        ),
        privacy.relative_error,
        privacy.max_items_per_unit,
        privacy.quantile_bins,
        values == "present",
        privacy.allowances,
        scans=privacy.scans == "charge",
        floor=max(1, privacy.least_weight * ONE),
        units=_level(wishes, privacy),
        pruned=privacy.partition_selection == "pruned",
    )


def usual_terms(privacy: Privacy) -> ReleaseOptions:
    """The terms of a session that has set nothing."""
    return terms(privacy, {}).spending(usual(privacy))


def usual(privacy: Privacy) -> Cost:
    """What a query without LIMIT may spend in a session that has set nothing: at least a step's delta."""
    step = PrivateCountRelease.delta_star / privacy.delta_per if privacy.delta_per else Fraction(0)
    return Cost(privacy.usual_information, max(privacy.usual_calls, step))


def amount_of(wishes: Mapping[str, str], name: str, default: Fraction | None) -> Fraction | None:
    """A number of information units that the analyst has set, or turned off: None; Refusal (22023) for others."""
    wish = wishes.get(name)
    if wish is None:
        return default
    return (
        None
        if wish.lower() == "off"
        else _number(wish, name, "'off'", "a number of information units above 0")
    )


def levels_of(privacy: Privacy) -> list[Fraction]:
    """The levels that the owner lets an answer have, ascending."""
    most = min(privacy.most_units_per_answer, (LARGEST_EPSILON / privacy.epsilon_per) ** 2)
    return [level for level in LEVELS if level <= most]


def target(privacy: Privacy, wishes: Mapping[str, str]) -> Target | None:
    """The error that an analyst asks for; Refusal (22023) for values that do not exist."""
    wish = wishes.get(ERROR) or "off"
    if wish.lower() == "off":
        return None
    if privacy.noise == "laplace":
        raise refusals.one_level(f"SET {ERROR} = off")
    try:
        return Target.read(wish)
    except ValueError:
        raise refusals.unknown_value(
            ERROR, ("a share like '5%', up to 50%", "a size like 20", "'off'")
        ) from None


def reuse(wishes: Mapping[str, str]) -> Reuse:
    """Whether answers that are implied by what was bought are bought; Refusal (22023) for values that do not exist."""
    wish = _one_of(wishes, REUSE, *get_args(Reuse))
    return cast(Reuse, wish or "on")


def most_units(privacy: Privacy, wishes: Mapping[str, str]) -> Fraction:
    """The most information units that one answer may cost for an error."""
    return _amount(wishes, MOST_UNITS, privacy.most_units_per_answer)


def _level(wishes: Mapping[str, str], privacy: Privacy) -> Fraction:
    """What a measure is to cost; Refusal (22023) for what is no level, or above what the owner lets an answer have."""
    wish = wishes.get(UNITS)
    if not wish:
        return Fraction(1)
    levels = levels_of(privacy)
    listed = [shown(micro(level)) for level in levels]
    units = _number(wish, UNITS, *listed)
    if units not in levels:
        raise refusals.unknown_value(UNITS, listed)
    if privacy.noise == "laplace" and units != 1:
        raise refusals.one_level(f"SET {UNITS} = 1")
    return units


def _one_of(wishes: Mapping[str, str], name: str, *values: str) -> str | None:
    wish = wishes.get(name) or None
    if wish not in (*values, None):
        raise refusals.unknown_value(name, values)
    return wish


def _amount(wishes: Mapping[str, str], name: str, most: Fraction) -> Fraction:
    """What the analyst wishes, which can only be less than what the deployment allows."""
    wish = wishes.get(name)
    return min(_number(wish, name, f"a number up to {float(most):g}"), most) if wish else most


def _number(wish: str, name: str, *values: str) -> Fraction:
    try:
        amount = exact(wish if len(wish) <= 20 else "")
    except ValueError:
        amount = Fraction(0)
    if not 0 < amount <= units(MOST):
        raise refusals.unknown_value(name, values)
    return amount
