"""Numbers of [privacy] with which every mechanism works: with others all queries that ask for one would be refused."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

from pydantic import AfterValidator

from mechanisms.count_release import PrivateCountRelease
from mechanisms.partition_selection import LARGEST_RHO, SHARES, SMALLEST_RHO
from mechanisms.row_cap import KEPT
from mechanisms.validation import LARGEST_EPSILON, SMALLEST_DELTA

if TYPE_CHECKING:
    from dpproxy.config.sections import Privacy

LEAST_EPSILON = Fraction(1, 1000)
"""With less the noise of quantiles could not be drawn where a unit counts with two dozen rows."""
MOST_FETCHED = 1_000_000
"""The largest d_bar: noise is drawn for as many groups, whether there are so many or not (two seconds)."""
_LONG = 10**15
"""Numbers from here on are written with an exponent."""
Number = TypeVar("Number", int, Fraction)


def between(least: Number, most: Number | None = None) -> AfterValidator:
    """A check of a setting that has to lie between two numbers, both included."""

    def check(value: Number) -> Number:
        if value < least:
            raise ValueError(f"must be at least {_written(least, up=True)}, not {_written(value)}")
        if most is not None and value > most:
            raise ValueError(f"must be at most {_written(most)}, not {_written(value)}")
        return value

    return AfterValidator(check)


def impossible(privacy: Privacy) -> str | None:
    """Why these numbers together would have all queries of some kind refused; None where each kind is answered."""
    mistakes = [*_information(privacy)] if privacy.noise == "gaussian" else []
    mistakes += _delta(privacy) if privacy.delta_per else []
    return next(iter(mistakes), None)


def _information(privacy: Privacy) -> Iterator[str]:
    """Counts of groups without LIMIT, and lists of groups, spend an allowance, whose rho is bounded on both sides."""
    one = privacy.epsilon_per**2 / 8
    counts = PrivateCountRelease.eps_star**2 / 4, LARGEST_EPSILON**2 / 4
    # The first round of a list has the least of its rho, and a part of it pays for the cap on rows.
    lists = SMALLEST_RHO / min(SHARES) / KEPT**2, LARGEST_RHO
    for kind, (least, most) in (("count_release", counts), ("partition_selection", lists)):
        named = getattr(privacy.allowances, kind)
        if named == 0:
            continue
        spent, name = privacy.query_information, "query_information"
        if named is not None and named < spent:
            spent, name = named, f"allowances.{kind}"
        with_it = f"with epsilon_per = {_written(privacy.epsilon_per)} {{}} must be at"
        if spent * one > most:
            yield f"{with_it.format(name)} most {_written(most / one)}, not {_written(spent)}"
        if privacy.usual_information < spent:
            spent, name = privacy.usual_information, "usual_information"
        if spent * one < least:
            yield f"{with_it.format(name)} least {_written(least / one, up=True)}, not {_written(spent)}"


def _delta(privacy: Privacy) -> Iterator[str]:
    """Groups of an unknown domain are found with delta_per in one call, or in as many as an allowance has."""
    delta, calls = privacy.delta_per, privacy.query_calls
    # The condition of UnkGumb where a unit counts once.
    most = min(privacy.epsilon_per / (1 + privacy.epsilon_per), Fraction(1, 2))
    if delta < SMALLEST_DELTA:
        smallest = _written(SMALLEST_DELTA, up=True)
        yield f"delta_per must be 0, for no unknown domains, or at least {smallest}, not {_written(delta)}"
    if delta > most:
        with_it = f"with epsilon_per = {_written(privacy.epsilon_per)}"
        yield f"{with_it} delta_per must be at most {_written(most)}, not {_written(delta)}"
    if privacy.noise == "gaussian":
        with_it = f"with delta_per = {_written(delta)} query_calls must be"
        least = PrivateCountRelease.delta_star / delta
        if calls < least:
            yield f"{with_it} at least {_written(least, up=True)}, not {_written(calls)}"
        if calls * delta >= Fraction(1, 2):
            yield f"{with_it} below {_written(1 / (2 * delta))}, not {_written(calls)}"


def _written(value: Fraction | int, *, up: bool = False) -> str:
    """A number for people, whole or with six digits; rounded down, or up.

    >>> _written(Fraction(400)), _written(Fraction(1, 3)), _written(Fraction(1, 3), up=True)
    ('400', '0.333333', '0.333334')
    """
    top, bottom = value.as_integer_ratio()
    if abs(top) >= _LONG * bottom:
        return f"{Decimal(top) / bottom:.6g}"
    if bottom == 1:
        return str(top)
    rounded = Context(6, ROUND_CEILING if up else ROUND_FLOOR).divide(Decimal(top), Decimal(bottom))
    return f"{rounded:g}"
