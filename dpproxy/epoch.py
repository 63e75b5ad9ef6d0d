"""Epochs: how long an answer stays the same, by the UTC calendar."""

from __future__ import annotations

from datetime import datetime
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
