"""Throttles repeated failed logins, so that passwords cannot be guessed quickly.

Why: docs/decisions/failures-are-counted-by-address.md.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

FREE_FAILURES = 5
"""Wrong passwords in a row that cost nothing."""
SPACING_SECONDS = 1.0
"""Time between two attempts after that, and until a failure is forgotten."""
MOST_SECONDS = 20.0
"""Who would have to wait longer is turned away."""
_MOST_KEYS = 10_000


class Throttle:
    """The failures of each `key` (who tries what from where); times are seconds of any steady clock.

    An attempt counts as failed from its start, so that many attempts at once do not all count as the first.
    A success takes back its own attempt alone: failures of others from the same place still count.

    >>> throttle = Throttle()
    >>> [throttle.turn("ann", now=0.0) for _ in range(FREE_FAILURES)]
    [0.0, 0.0, 0.0, 0.0, 0.0]
    >>> throttle.turn("ann", now=0.0), throttle.turn("ann", now=0.0), throttle.turn("eve", now=0.0)
    (1.0, 2.0, 0.0)
    >>> throttle.succeeded("ann")
    >>> throttle.turn("ann", now=0.0)
    2.0
    """

    def __init__(self, free: int = FREE_FAILURES) -> None:
        """`free`: failures in a row that cost nothing."""
        self._free = free
        self._forgotten: OrderedDict[Hashable, float] = OrderedDict()
        """When the last failure of each key will be forgotten."""

    def turn(self, key: Hashable, now: float) -> float | None:
        """Takes an attempt and gives the seconds to wait before it; None where too many wait already."""
        forgotten = max(self._forgotten.get(key, now), now)
        wait = max(forgotten - now - (self._free - 1) * SPACING_SECONDS, 0.0)
        if wait > MOST_SECONDS:
            return None
        self._forgotten[key] = forgotten + SPACING_SECONDS
        self._forgotten.move_to_end(key)
        if len(self._forgotten) > _MOST_KEYS:
            self._forgotten.popitem(last=False)
        return wait

    def is_free(self, key: Hashable, now: float) -> bool:
        """Whether no failure of the key counts."""
        return self._forgotten.get(key, now) <= now

    def succeeded(self, key: Hashable) -> None:
        """The password of an attempt was right: it does not count."""
        if key in self._forgotten:
            self._forgotten[key] -= SPACING_SECONDS
