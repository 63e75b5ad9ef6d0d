"""Intervals that are constants: what they are, and whether adding one keeps dates within what both engines hold."""

from __future__ import annotations

import re

from sqlglot import exp

from rewriter.ir.parameter import Parameters

_DAYS = {
    "MICROSECOND": 1e-6 / 86400,
    "MILLISECOND": 1e-3 / 86400,
    "SECOND": 1 / 86400,
    "MINUTE": 1 / 1440,
    "HOUR": 1 / 24,
    "DAY": 1.0,
    "WEEK": 7.0,
    "MONTH": 31.0,
    "MON": 31.0,
    "YEAR": 366.0,
}
_MOST_DAYS = 366_000
_PART = re.compile(r"(-?\d{1,12}) ?([a-z]+?)s?(?: +|$)", re.IGNORECASE)
_CLOCK = re.compile(r"-?(\d{1,9}):\d\d:\d\d(\.\d{1,6})?")


_UNITS = {
    "year": (12, 0, 0),
    "mon": (1, 0, 0),
    "month": (1, 0, 0),
    "week": (0, 7, 0),
    "day": (0, 1, 0),
    "hour": (0, 0, 3_600_000_000),
    "minute": (0, 0, 60_000_000),
    "min": (0, 0, 60_000_000),
    "second": (0, 0, 1_000_000),
    "sec": (0, 0, 1_000_000),
}
"""Months, days and microseconds of each unit."""
_TOKEN = re.compile(
    r"\s*(?:(?P<clock>[+-]?)(?P<h>\d{1,9}):(?P<m>[0-5]\d)(?::(?P<s>[0-5]\d)(?:\.(?P<f>\d{1,6}))?)?"
    r"|(?P<n>[+-]?\d{1,9}) ?(?P<unit>[a-z]+?)s?)(?=\s|$)",
    re.IGNORECASE,
)


def measured(text: str) -> tuple[int, int, int] | None:
    """The months, days and microseconds of an interval as PostgreSQL prints it; None for other spellings.

    >>> measured("1 year 2 mons -3 days +04:05:06.5"), measured("P1D")
    ((14, -3, 14706500000), None)
    """
    totals = [0, 0, 0]
    place = 0
    while place < len(text.rstrip()):
        token = _TOKEN.match(text, place)
        unit = None if token is None else _one(token)
        if token is None or unit is None:
            return None
        totals = [total + part for total, part in zip(totals, unit, strict=True)]
        place = token.end()
    return (totals[0], totals[1], totals[2]) if place else None


def _one(token: re.Match[str]) -> tuple[int, int, int] | None:
    if token["h"] is None:
        unit, number = _UNITS.get(token["unit"].lower()), int(token["n"])
        return None if unit is None else (unit[0] * number, unit[1] * number, unit[2] * number)
    seconds = (int(token["h"]) * 60 + int(token["m"])) * 60 + int(token["s"] or 0)
    micros = seconds * 1_000_000 + int((token["f"] or "").ljust(6, "0"))
    return 0, 0, -micros if token["clock"] == "-" else micros


def interval_text(node: exp.Expr, parameters: Parameters) -> str | None:
    """The text of a constant interval that both engines read alike, at most a thousand years; None for others.

    A parameter whose value is not known yet is "0 days".

    >>> interval_text(exp.Interval(this=exp.Literal.string("2"), unit=exp.var("DAY")), ())
    '2 DAY'
    """
    node = node.unnest()
    if isinstance(node, exp.Parameter):
        parameter = parameters[int(node.name) - 1]
        text = "0 days" if parameter.value is None else parameter.value
    elif isinstance(node, exp.Interval) and isinstance(node.this, exp.Literal):
        unit = node.args.get("unit")
        text = node.this.this + (f" {unit.name}" if unit is not None else "")
    elif isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal):
        text = node.this.this
    else:
        return None
    days = _days(text)
    return text if days is not None and days <= _MOST_DAYS else None


def _days(text: str) -> float | None:
    """At least how many days an interval moves a date."""
    head, _, clock = text.strip().rpartition(" ") if ":" in text else (text.strip(), "", "")
    days = 0.0
    if clock or (":" in text and not head):
        found = _CLOCK.fullmatch(clock or text.strip())
        if found is None:
            return None
        days += (int(found[1]) + 1) / 24
    place = 0
    while place < len(head):
        part = _PART.match(head, place)
        if part is None or part[2].upper() not in _DAYS:
            return None
        days += abs(int(part[1])) * _DAYS[part[2].upper()]
        place = part.end()
    return days
