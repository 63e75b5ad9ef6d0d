"""Epochs: how long an answer stays the same, by the UTC calendar."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal

FORMATS = {"hour": "%Y-%m-%dT%H", "day": "%Y-%m-%d", "week": "%G-W%V", "month": "%Y-%m", "forever": "forever"}


Epoch = Literal["hour", "day", "week", "month", "forever"]


def epoch_name(length: Epoch, now: datetime) -> str:
    """The name of the epoch of this `length` that `now` (UTC) is in.

    >>> from datetime import UTC
    >>> epoch_name("week", datetime(2024, 12, 30, tzinfo=UTC)), epoch_name("day", datetime(2024, 2, 3, tzinfo=UTC))
    ('2025-W01', '2024-02-03')
    """
    return now.strftime(FORMATS[length])


def epoch_begin(length: Epoch, name: str) -> datetime | None:
    """When the epoch of this `name` began (UTC); None for the one that lasts forever.

    >>> str(epoch_begin("week", "2025-W01")), str(epoch_begin("month", "2024-02"))
    ('2024-12-30 00:00:00+00:00', '2024-02-01 00:00:00+00:00')
    """
    if length == "forever":
        return None
    text, form = (f"{name}-1", f"{FORMATS[length]}-%u") if length == "week" else (name, FORMATS[length])
    return datetime.strptime(text, form).replace(tzinfo=UTC)


def epoch_end(length: Epoch, now: datetime) -> datetime | None:
    """When the epoch that `now` (UTC) is in ends; None for the one that lasts forever.

    >>> noon = datetime(2024, 12, 30, 12, tzinfo=UTC)
    >>> [str(epoch_end(one, noon)) for one in ("hour", "week", "month")]
    ['2024-12-30 13:00:00+00:00', '2025-01-06 00:00:00+00:00', '2025-01-01 00:00:00+00:00']
    """
    begun = epoch_begin(length, epoch_name(length, now))
    if begun is None:
        return None
    # From a first of a month, 31 days lead into the next one.
    step = {
        "hour": timedelta(hours=1),
        "day": timedelta(days=1),
        "week": timedelta(days=7),
        "month": timedelta(days=31),
    }
    return epoch_begin(length, epoch_name(length, begun + step[length]))
