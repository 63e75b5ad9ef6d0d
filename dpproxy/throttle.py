"""Logins that keep failing are let in one after the other, so that passwords cannot be tried at speed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

FREE_FAILURES = 5
"""Wrong passwords in a row that cost nothing."""
SPACING_SECONDS = 1.0
"""Time between two attempts after that."""
MOST_SECONDS = 5.0
"""Who would have to wait longer is turned away."""
MEMORY_SECONDS = 60.0
"""How long failures are remembered after the last."""
_MOST_KEYS = 10_000


@dataclass
class _Record:
    failures: int = 0
    last: float = 0.0
    next_turn: float = 0.0


class Throttle:
    """The failures of each `key` (who tries what from where); times are seconds of any steady clock.

    >>> throttle = Throttle()
    >>> for _ in range(FREE_FAILURES):
    ...     throttle.failed("ann", now=0.0)
    >>> throttle.turn("ann", now=0.0), throttle.turn("ann", now=0.0), throttle.turn("eve", now=0.0)
    (1.0, 2.0, 0.0)
    >>> throttle.succeeded("ann")
    >>> throttle.turn("ann", now=0.0)
    0.0
    """

    def __init__(self) -> None:
        self._records: OrderedDict[Hashable, _Record] = OrderedDict()

    def turn(self, key: Hashable, now: float) -> float | None:
        """Seconds to wait before the next attempt, None where too many wait already."""
        record = self._records.get(key)
        if record is None or now - record.last > MEMORY_SECONDS or record.failures < FREE_FAILURES:
            return 0.0
        wait = max(record.next_turn - now, 0.0)
        if wait > MOST_SECONDS:
            return None
        record.next_turn = now + wait + SPACING_SECONDS
        return wait

    def failed(self, key: Hashable, now: float) -> None:
        """A password was wrong."""
        record = self._records.pop(key, None)
        if record is None or now - record.last > MEMORY_SECONDS:
            record = _Record()
        record.failures += 1
        record.last = now
        if record.failures == FREE_FAILURES:
            record.next_turn = now + SPACING_SECONDS
        self._records[key] = record
        if len(self._records) > _MOST_KEYS:
            self._records.popitem(last=False)

    def succeeded(self, key: Hashable) -> None:
        """A password was right: what failed before is forgotten."""
        self._records.pop(key, None)
