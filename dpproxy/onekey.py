"""One at a time for a key: who asks what somebody is just buying waits, and then finds it bought."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Set
from contextlib import contextmanager


class OneKey:
    """Sets of keys held by one thread at a time, taken whole.

    >>> held = OneKey()
    >>> with held.hold({b"a", b"b"}):
    ...     pass
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._held: set[bytes] = set()

    @contextmanager
    def hold(self, keys: Set[bytes]) -> Iterator[None]:
        """Waits until no other thread holds one of `keys`, and holds them meanwhile."""
        with self._changed:
            self._changed.wait_for(lambda: self._held.isdisjoint(keys))
            self._held |= keys
        try:
            yield
        finally:
            with self._changed:
                self._held -= keys
                self._changed.notify_all()
