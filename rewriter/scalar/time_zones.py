"""Time zones as steps: since when a zone has had which offset from UTC, by the tz database that `zoneinfo` finds.

Engines get the offsets written out, so that all of them mean the same zone, whichever tz database each of them has.

Why: docs/decisions/zones-are-written-out.md.
"""

from __future__ import annotations

import datetime as dt
import re
from bisect import bisect_right
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from operator import itemgetter
from zoneinfo import ZoneInfo

from sqlglot import exp

from rewriter.scalar.timestamps import truncated

FIRST, END = dt.datetime(1900, 1, 1), dt.datetime(2050, 1, 1)
"""The moments whose offsets are known: from the first on, before the end; in UTC, or in the zone's own time."""
UTC = frozenset({"UTC", "ETC/UTC", "GMT"})
Steps = tuple[tuple[dt.datetime, int], ...]
"""Seconds that a zone is ahead of UTC, each with the moment since when, the first before `FIRST`."""

_NAME = re.compile(r"[A-Z][A-Za-z_]*(/[A-Za-z0-9_+-]+)+")
"""Areas and places: PostgreSQL reads words without a / as abbreviations, and offsets with the sign of POSIX."""
_MISREAD = frozenset({"America/Ojinaga"})
"""Of the files that `zoneinfo` reads otherwise than PostgreSQL: there, a week of 2022."""
_SINCE = dt.datetime(1898, 1, 1)
"""Before the begin of the longest period that `FIRST` is in."""
_SECOND = dt.timedelta(seconds=1)
_STRIDE = dt.timedelta(days=7)
"""No zone has changed its offset and changed it back within fewer days."""


def known(name: str) -> bool:
    """Whether a name is that of a zone.

    >>> known("Europe/Berlin"), known("Europe/Nowhere"), known("CET"), known("+02")
    (True, False, False, False)
    """
    try:
        return _NAME.fullmatch(name) is not None and name not in _MISREAD and bool(offsets(name))
    except (KeyError, ValueError, OSError):
        return False


@cache
def offsets(name: str) -> Steps:
    """The offsets of a zone by UTC.

    >>> [(str(since), ahead) for since, ahead in offsets("Asia/Tokyo")][-1]
    ('1951-09-08 15:00:00', 32400)
    """
    zone = ZoneInfo(name)

    def ahead(moment: dt.datetime) -> int:
        return (zone.fromutc(moment.replace(tzinfo=zone)).replace(tzinfo=None) - moment) // _SECOND

    found, here = [(_SINCE, ahead(_SINCE))], _SINCE
    while here < END:
        then = min(here + _STRIDE, END)
        while ahead(then) != found[-1][1]:
            here = _first(here, then, lambda moment: ahead(moment) != found[-1][1])
            found.append((here, ahead(here)))
        here = then
    return tuple(step for step in found if step[0] < END)


def _first(before: dt.datetime, after: dt.datetime, changed: Callable[[dt.datetime], bool]) -> dt.datetime:
    """The first second that has changed, behind one that has not."""
    while after - before > _SECOND:
        middle = before + (after - before) // _SECOND // 2 * _SECOND
        before, after = (before, middle) if changed(middle) else (middle, after)
    return after


@cache
def local_offsets(name: str) -> Steps:
    """The offsets of a zone by its own time.

    As PostgreSQL reads it, a time that a clock skips is one before the skip, and one that it shows twice is the later.

    >>> [str(since) for since, _ in local_offsets("Europe/Berlin") if since.year == 2024]
    ['2024-03-31 03:00:00', '2024-10-27 02:00:00']
    """
    first, *others = offsets(name)
    return (first, *((since + ahead * _SECOND, ahead) for since, ahead in others))


@cache
def period_offsets(name: str, unit: str) -> Steps:
    """The offsets of a zone at the begin of the day, week... in it, by the moment in UTC within that period.

    >>> [str(since) for since, _ in period_offsets("Europe/Berlin", "month") if since.year == 2024]
    ['2024-03-31 22:00:00', '2024-10-31 23:00:00']
    """
    steps, local = offsets(name), local_offsets(name)

    def at_begin(moment: dt.datetime) -> int:
        here = moment + _at(steps, moment) * _SECOND
        return _at(local, _begin(here, unit))

    # It changes where a period of the zone's own time begins, or where its clock is set.
    every = {ahead for _, ahead in steps}
    begins = {
        _begin(since + days * dt.timedelta(days=1), unit) for since, _ in local for days in (0, *_NEXT[unit])
    }
    moments = {since for since, _ in steps} | {begin - ahead * _SECOND for begin in begins for ahead in every}
    found: list[tuple[dt.datetime, int]] = []
    for moment in sorted(m for m in moments if _SINCE <= m < END):
        ahead = at_begin(moment)
        if not found or found[-1][1] != ahead:
            found.append((moment, ahead))
    return tuple(found)


def in_zone(node: exp.Expr) -> bool:
    """Whether a time is one in a zone, or the begin of its period: NULL unless `END` is behind it.

    >>> in_zone(exp.AtTimeZone(this=exp.column("x"), zone=exp.Literal.string("Asia/Tokyo"))), in_zone(exp.column("x"))
    (True, False)
    """
    node = node.unnest()
    if isinstance(node, (exp.TimestampTrunc, exp.DateTrunc)):
        return in_zone(node.this)
    return (
        isinstance(node, exp.AtTimeZone) and not at_utc(node) and isinstance(node.args["zone"], exp.Literal)
    )


def at_utc(node: exp.Expr) -> bool:
    """Whether the zone of AT TIME ZONE is written down as UTC; that of a parameter may be another."""
    return isinstance(node.args["zone"], exp.Literal) and node.args["zone"].name.upper() in UTC


def begun(node: exp.Expr) -> exp.Expr | None:
    """The x of `date_trunc('month', x AT TIME ZONE zone) AT TIME ZONE zone`, of days and longer; None for others.

    >>> begun(exp.AtTimeZone(this=exp.column("x"), zone=exp.Literal.string("Asia/Tokyo"))) is None
    True
    """
    period = node.this.unnest()
    if (
        not isinstance(period, (exp.TimestampTrunc, exp.DateTrunc))
        or period.args["unit"].name.lower() not in _NEXT
    ):
        return None
    local = period.this.unnest()
    alike = isinstance(local, exp.AtTimeZone) and local.args["zone"] == node.args["zone"]
    return local.this if alike else None


_NEXT = {"day": (1,), "week": (7,), "month": (28, 31), "quarter": (90, 92), "year": (365, 366)}
"""Days of which one at least leads from each day of a period into the next period."""


def _begin(moment: dt.datetime, unit: str) -> dt.datetime:
    origin = dt.datetime(1970, 1, 1)
    return origin + int(truncated(Fraction((moment - origin) // _SECOND), unit)) * _SECOND


def _at(steps: Steps, moment: dt.datetime) -> int:
    """What holds at a moment; before all of them what holds first."""
    return steps[max(bisect_right(steps, moment, key=itemgetter(0)) - 1, 0)][1]
