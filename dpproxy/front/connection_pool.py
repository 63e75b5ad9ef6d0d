"""A few connections for many threads, each for one caller at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")
_SECONDS = 0.1
"""How often a caller who waits is asked whether it still does."""


class ConnectionPool(Generic[T]):
    """Connections made by `make`: at most `most` in use, at most one of them by each named caller. Connections that are
    `usable` after their use are kept, and checked again before the next use.

    >>> pool = ConnectionPool(make=lambda: object(), usable=lambda one: True, end=lambda one: None, most=2)
    >>> with pool.use() as first, pool.use() as second:
    ...     first is second
    False
    >>> with pool.use() as again:
    ...     again in (first, second)
    True
    """

    def __init__(
        self, *, make: Callable[[], T], usable: Callable[[T], bool], end: Callable[[T], None], most: int
    ) -> None:
        self._make, self._usable, self._end = make, usable, end
        self._most, self._used, self._users = most, 0, set[str]()
        self._place = threading.Condition()
        self._lock = threading.Lock()
        self._idle: list[T] = []
        self._generation = 0

    @contextmanager
    def use(self, who: str = "", waits: Callable[[], object] = lambda: None) -> Iterator[T]:
        """Gives a connection, waiting for a free one; raises errors of `make`, and of `waits`, called while waiting."""
        with self._taken(who, waits):
            one, generation = self._waiting()
            one = self._make() if one is None else one
            try:
                yield one
            finally:
                usable = self._usable(one)
                with self._lock:
                    kept = usable and generation == self._generation
                    if kept:
                        self._idle.append(one)
                if not kept:
                    self._end(one)

    @contextmanager
    def _taken(self, who: str, waits: Callable[[], object]) -> Iterator[None]:
        with self._place:
            while self._used >= self._most or who in self._users:
                waits()
                self._place.wait(_SECONDS)
            self._used += 1
            self._users |= {who} - {""}
        try:
            yield
        finally:
            with self._place:
                self._used -= 1
                self._users.discard(who)
                self._place.notify_all()

    def _waiting(self) -> tuple[T | None, int]:
        while True:
            with self._lock:
                generation = self._generation
                one = self._idle.pop() if self._idle else None
            if one is None or self._usable(one):
                return one, generation
            self._end(one)

    def clear(self) -> None:
        """Ends idle connections, and those in use when they are returned."""
        with self._lock:
            idle, self._idle = self._idle, []
            self._generation += 1
        for one in idle:
            self._end(one)
