"""Moments in time as numbers: seconds since 1970-01-01 00:00, exact."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction
from math import floor

DAY = 86_400
_ORIGIN = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)


def moment_of(text: str) -> Fraction | None:
    """The moment that a date or timestamp literal means, None for other texts.

    >>> moment_of("1970-01-02 00:00:01.5")
    Fraction(172803, 2)
    >>> moment_of("infinity") is None
    True
    """
    try:
        stamp = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if stamp.tzinfo is not None else Fraction((stamp - _ORIGIN) // _MICROSECOND, 1_000_000)


def _stamp(moment: Fraction) -> dt.datetime:
    return _ORIGIN + dt.timedelta(seconds=moment.numerator // moment.denominator)


def year_of(moment: Fraction) -> int:
    """The calendar year of a moment.

    >>> year_of(Fraction(-1))
    1969
    """
    return _stamp(moment).year


def truncated(moment: Fraction, unit: str) -> Fraction:
    """date_trunc of a moment.

    >>> truncated(Fraction(10 * DAY), "week") / DAY
    Fraction(4, 1)
    """
    stamp = _stamp(moment)
    day = stamp.replace(hour=0, minute=0, second=0)
    starts = {
        "minute": stamp.replace(second=0),
        "hour": stamp.replace(minute=0, second=0),
        "week": day - dt.timedelta(days=day.weekday()),
        "month": day.replace(day=1),
        "quarter": day.replace(day=1, month=day.month - (day.month - 1) % 3),
        "year": day.replace(day=1, month=1),
    }
    return Fraction((starts.get(unit, day) - _ORIGIN) // dt.timedelta(seconds=1))


def written_date(units: int, scale: int) -> str:
    """The day that is units 10^-scale days after 1970-01-01.

    >>> written_date(-1, 0)
    '1969-12-31'
    """
    return str((_ORIGIN + dt.timedelta(days=floor(Fraction(units) / Fraction(10) ** scale))).date())


def written_stamp(units: int, scale: int) -> str:
    """The moment that is units 10^-scale seconds after 1970-01-01 00:00, to the microsecond.

    >>> written_stamp(-5, 1)
    '1969-12-31 23:59:59.500000'
    """
    microseconds = floor(Fraction(units) * 1_000_000 / Fraction(10) ** scale)
    return str(_ORIGIN + dt.timedelta(microseconds=microseconds))
