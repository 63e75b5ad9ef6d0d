"""For whom a thread works, and whether anybody still waits: planning ends when nobody does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from dpproxy.backends.base import Cancellation
from rewriter.effort import wanted


@dataclass(frozen=True)
class Waiting:
    """A login, "" for the proxy itself, and what is cancelled once it waits no longer."""

    login: str = ""
    cancellation: Cancellation = field(default_factory=Cancellation)


_waiting: ContextVar[Waiting | None] = ContextVar("waiting", default=None)


def waiting() -> Waiting:
    """For whom this thread works."""
    return _waiting.get() or Waiting()


@contextmanager
def working_for(login: str, cancellation: Cancellation) -> Iterator[None]:
    """What this thread plans meanwhile is for `login`, and ends once it is cancelled."""
    token = _waiting.set(Waiting(login, cancellation))
    try:
        with wanted(lambda: not cancellation.cancelled):
            yield
    finally:
        _waiting.reset(token)
