"""The latest of many things, remembered up to a number."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock


class RecentKeys:
    """At most `most` things, of which the oldest is forgotten first; for any thread.

    >>> latest = RecentKeys(2)
    >>> for thing in "aba":
    ...     latest.add(thing)
    >>> latest.add("c"); latest.has("b"), latest.has("a")
    (False, True)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = Lock()
        self._things: OrderedDict[Hashable, None] = OrderedDict()

    def add(self, thing: Hashable) -> None:
        """Remembers a thing as the latest."""
        with self._lock:
            self._things[thing] = None
            self._things.move_to_end(thing)
            if len(self._things) > self._most:
                self._things.popitem(last=False)

    def has(self, thing: Hashable) -> bool:
        """Whether a thing is remembered."""
        with self._lock:
            return thing in self._things
