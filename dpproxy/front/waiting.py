"""Which request a thread works for, and whether its client still waits: planning ends if it does not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from dpproxy.backends.base import Cancellation
from rewriter.effort import wanted


@dataclass(frozen=True)
class Waiting:
    """A login that waits, "" for the proxy itself, and the cancellation that is raised when it stops waiting."""

    login: str = ""
    cancellation: Cancellation = field(default_factory=Cancellation)


_waiting: ContextVar[Waiting | None] = ContextVar("waiting", default=None)


def waiting() -> Waiting:
    """For whom this thread works."""
    return _waiting.get() or Waiting()


@contextmanager
def working_for(login: str, cancellation: Cancellation) -> Iterator[None]:
    """Within the context this thread plans for `login`, and stops once that is cancelled."""
    token = _waiting.set(Waiting(login, cancellation))
    try:
        with wanted(lambda: not cancellation.cancelled):
            yield
    finally:
        _waiting.reset(token)
