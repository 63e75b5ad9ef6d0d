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
    `usable` after their use are kept, and checked again before the next use, `uses` times: a server's process remembers
    every name that it was ever asked for.

    >>> pool = ConnectionPool(make=lambda: object(), usable=lambda one: True, end=lambda one: None, most=2, uses=2)
    >>> with pool.use() as first, pool.use() as second:
    ...     first is second
    False
    >>> with pool.use() as again:
    ...     again in (first, second)
    True
    """

    def __init__(
        self,
        *,
        make: Callable[[], T],
        usable: Callable[[T], bool],
        end: Callable[[T], None],
        most: int,
        uses: int,
    ) -> None:
        self._make, self._usable, self._end = make, usable, end
        self._most, self._used, self._users = most, 0, set[str]()
        self._uses = uses
        self._place = threading.Condition()
        self._lock = threading.Lock()
        self._idle: list[tuple[T, int]] = []
        """With how often each was used."""
        self._generation = 0

    @contextmanager
    def use(self, who: str = "", waits: Callable[[], object] = lambda: None) -> Iterator[T]:
        """Gives a connection, waiting for a free one; raises errors of `make`, and of `waits`, called while waiting."""
        with self._taken(who, waits):
            waiting, generation = self._waiting()
            one, used = (self._make(), 0) if waiting is None else waiting
            try:
                yield one
            finally:
                usable = used + 1 < self._uses and self._usable(one)
                with self._lock:
                    kept = usable and generation == self._generation
                    if kept:
                        self._idle.append((one, used + 1))
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

    def _waiting(self) -> tuple[tuple[T, int] | None, int]:
        while True:
            with self._lock:
                generation = self._generation
                waiting = self._idle.pop() if self._idle else None
            if waiting is None or self._usable(waiting[0]):
                return waiting, generation
            self._end(waiting[0])

    def clear(self) -> None:
        """Ends idle connections, and those in use when they are returned."""
        with self._lock:
            idle, self._idle = self._idle, []
            self._generation += 1
        for one, _ in idle:
            self._end(one)
