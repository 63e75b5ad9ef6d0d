"""When the begin of a period says as much as a time within it: months of days, ranges that begin and end with one.

In:  extract(month from t), where the day of t is known
Out: the same of date_trunc('day', t)
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

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


def deciding(node: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    """A time in `node`, and the begin of its period, which could stand in its place: for each period that serves.

    >>> month = exp.TimestampTrunc(this=exp.column("t"), unit=exp.var("MONTH"))
    >>> [period.sql("postgres") for _, period in deciding(month)][2:4]
    ["DATE_TRUNC('DAY', t)", 'CAST(t AS DATE)']
    >>> from_noon = exp.condition("t >= CAST('2024-01-01 12:00:00' AS TIMESTAMP)")
    >>> [period.sql("postgres") for _, period in deciding(from_noon)]
    ["DATE_TRUNC('MINUTE', t)", "DATE_TRUNC('HOUR', t)"]
    """
    if isinstance(node, (exp.GTE, exp.LT)):
        moment = _moment(node.expression)
        time, grains = node.this, [g for g in FINER if moment is not None and _begins(moment, g)]
    else:
        function = BY_TYPE.get(type(node))
        grain = None if function is None or function.grain is None else function.grain(node)
        if function is None or grain not in FINER:
            return
        time, grains = node.args[function.operand], list(FINER[grain])
    if not leaves(time):
        return
    for grain in grains:
        yield time, exp.TimestampTrunc(this=copied(time), unit=exp.var(grain.upper()))
        if grain == "day":
            yield time, exp.Cast(this=copied(time), to=data_type("date"))


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
