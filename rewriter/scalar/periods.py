"""When the begin of a period says as much as a time within it: months of days, ranges of times.

In:  extract(month from t), where the day of t is known
Out: the same of date_trunc('day', t)

A range that begins or ends within a period says nothing of that one.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from rewriter.ir.relation import leaves
from rewriter.ir.trees import copied, data_type
from rewriter.ir.types import CASTS, ZONELESS
from rewriter.scalar.functions import BY_TYPE

FINER: dict[str, tuple[str, ...]] = {
    "minute": ("minute",),
    "hour": ("minute", "hour"),
    "day": ("minute", "hour", "day"),
    "week": ("minute", "hour", "day", "week"),
    "month": ("minute", "hour", "day", "month"),
    "quarter": ("minute", "hour", "day", "month", "quarter"),
    "year": ("minute", "hour", "day", "month", "quarter", "year"),
}
"""The periods of which each is within one of the longer period."""


@dataclass(frozen=True)
class Period:
    """What could stand in the place of a time.

    Attributes:
        time: the time.
        begin: of its period.
        cut: the begin of the period of which that decides nothing, None where there is none.
    """

    time: exp.Expr
    begin: exp.Expr
    cut: exp.Expr | None = None


def deciding(node: exp.Expr) -> Iterator[Period]:
    """The periods whose begin could stand in the place of a time in `node`, those that decide everything first.

    >>> month = exp.TimestampTrunc(this=exp.column("t"), unit=exp.var("MONTH"))
    >>> [period.begin.sql("postgres") for period in deciding(month)][2:4]
    ["DATE_TRUNC('DAY', t)", 'CAST(t AS DATE)']
    >>> from_noon = exp.condition("t >= CAST('2024-01-01 12:00:00' AS TIMESTAMP)")
    >>> [period.begin.sql("postgres") for period in deciding(from_noon)][:3]
    ["DATE_TRUNC('MINUTE', t)", "DATE_TRUNC('HOUR', t)", "DATE_TRUNC('DAY', t)"]
    >>> [period.cut.sql("postgres") for period in deciding(from_noon) if period.cut][0]
    "DATE_TRUNC('DAY', CAST('2024-01-01 12:00:00' AS TIMESTAMP))"
    """
    if isinstance(node, (exp.GTE, exp.LT, exp.GT, exp.LTE)):
        if (moment := _moment(node.expression)) is None:
            return
        # Of t > x and t <= x the period that begins with x is not decided either.
        whole = [g for g in FINER if isinstance(node, (exp.GTE, exp.LT)) and _begins(moment, g)]
        time, cut = node.this, [g for g in FINER if g not in whole]
    else:
        function = BY_TYPE.get(type(node))
        grain = None if function is None or function.grain is None else function.grain(node)
        if function is None or grain not in FINER:
            return
        time, whole, cut = node.args[function.operand], list(FINER[grain]), []
    if not leaves(time):
        return
    for grain in (*whole, *cut):
        for begin in (_truncated, _dated) if grain == "day" else (_truncated,):
            yield Period(time, begin(time, grain), begin(node.expression, grain) if grain in cut else None)


def _truncated(time: exp.Expr, grain: str) -> exp.Expr:
    return exp.TimestampTrunc(this=copied(time), unit=exp.var(grain.upper()))


def _dated(time: exp.Expr, grain: str) -> exp.Expr:
    return exp.Cast(this=copied(time), to=data_type("date"))


def _moment(constant: exp.Expr) -> dt.datetime | None:
    """A constant date or time without a zone."""
    if not isinstance(constant, exp.Cast) or CASTS.get(constant.to.this) not in ZONELESS:
        return None
    text = constant.this.name if isinstance(constant.this, exp.Literal) and constant.this.is_string else ""
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if moment.tzinfo else moment


def _begins(moment: dt.datetime, grain: str) -> bool:
    """Whether a period begins with a moment."""
    month = (
        1
        if grain == "year"
        else moment.month - (moment.month - 1) % 3
        if grain == "quarter"
        else moment.month
    )
    begin = {
        "minute": moment.replace(second=0, microsecond=0),
        "hour": moment.replace(minute=0, second=0, microsecond=0),
    }.get(grain, moment.replace(hour=0, minute=0, second=0, microsecond=0))
    if grain in ("month", "quarter", "year"):
        begin = begin.replace(month=month, day=1)
    return moment == begin and (grain != "week" or not moment.weekday())
