"""Threads that many logins share: each login's work comes in turn, and only some of it at once."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

from dpproxy.backends.base import Cancellation

T = TypeVar("T")


class ByName:
    """Semaphores by name, so that one name has `each` of something at once; kept while one is held or waited for.

    >>> some = ByName(2)
    >>> some.of("ann") is some.of("bob")
    False
    """

    def __init__(self, each: int) -> None:
        self._each = each
        self._of = WeakValueDictionary[str, asyncio.Semaphore]()

    def of(self, name: str) -> asyncio.Semaphore:
        """The semaphore of a name, to be held by `async with`."""
        return self._of.setdefault(name, asyncio.Semaphore(self._each))


@dataclass(frozen=True)
class _Work(Generic[T]):
    run: Callable[[], T]
    cancellation: Cancellation
    done: asyncio.Future[T]


class Turns(Generic[T]):
    """`threads` threads, of which one login has `each` at most; used from the event loop's thread alone.

    Cancelled work that still waits gives `ended()` at its next turn, so the queue is no longer than the sessions.
    """

    def __init__(self, name: str, *, threads: int, each: int, ended: Callable[[], T]) -> None:
        self._threads = ThreadPoolExecutor(threads, name)
        self._most, self._each, self._ended = threads, each, ended
        self._waiting: dict[str, deque[_Work[T]]] = {}
        self._running: Counter[str] = Counter()

    def run(self, login: str, work: Callable[[], T], cancellation: Cancellation) -> asyncio.Future[T]:
        """The result of `work`, which runs on a thread when it is the login's turn."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(login, deque()).append(_Work(work, cancellation, done))
        self._begin()
        return done

    def shutdown(self) -> None:
        """Accepts no more work; running work continues."""
        self._threads.shutdown(wait=False)

    def _begin(self) -> None:
        self._drop_cancelled()
        # A login whose work begins goes behind the others.
        for login in [login for login in self._waiting if self._running[login] < self._each]:
            if self._running.total() >= self._most:
                return
            queue = self._waiting.pop(login)
            self._start(login, queue.popleft())
            if queue:
                self._waiting[login] = queue

    def _drop_cancelled(self) -> None:
        for login, queue in list(self._waiting.items()):
            for work in [work for work in queue if work.cancellation.cancelled]:
                queue.remove(work)
                work.done.set_result(self._ended())
            if not queue:
                del self._waiting[login]

    def _start(self, login: str, work: _Work[T]) -> None:
        self._running[login] += 1
        running = asyncio.get_running_loop().run_in_executor(self._threads, work.run)
        running.add_done_callback(lambda finished: self._finish(login, work, finished))

    def _finish(self, login: str, work: _Work[T], finished: asyncio.Future[T]) -> None:
        self._running[login] -= 1
        if not self._running[login]:
            del self._running[login]
        error = finished.exception()
        if error is None:
            work.done.set_result(finished.result())
        else:
            work.done.set_exception(error)
        self._begin()
