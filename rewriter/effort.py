"""Limits the cost of planning: every pass counts down one budget of steps, and checks that the client still waits.

A step is about one node that a pass looks at, copies or writes. How many a statement takes depends on its text and the
policy alone, so that the same statement is refused on every machine; the limit of time is a second fence.

Why: docs/decisions/planning-has-a-budget.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from rewriter.refusal import Refusal

MOST_STEPS = 60_000
"""Some twenty times what the longest statements of people and their tools take."""
MOST_SECONDS = 10.0
"""Of one thread's processor time: others that plan do not use it up."""
EXPANDED, PARSED = 100, 30
"""Steps of a SELECT, and of a type or an aggregate: for what is done once for each."""
_LOOK_EVERY = 256


class _Ended(Exception):
    """Planning has to stop. It is not a Refusal, because passes catch refusals to try another way."""


class _TooMuch(_Ended):
    """The budget is spent."""


class _Unwanted(_Ended):
    """The client no longer waits for the plan."""


def _always() -> bool:
    return True


@dataclass
class Effort:
    """The budget of one statement.

    Attributes:
        left: the steps that it may still take.
        wanted: whether the client still waits.
        end: the processor time of this thread by which it has to be planned, in seconds.
        look: at how many steps left the client and the clock are looked at next.
    """

    left: int
    wanted: Callable[[], bool]
    end: float = field(default_factory=lambda: time.thread_time() + MOST_SECONDS)
    look: int = MOST_STEPS - _LOOK_EVERY

    @property
    def spent(self) -> int:
        """The steps that were taken."""
        return MOST_STEPS - self.left

    def check(self) -> None:
        """Raises where the steps are spent, nobody waits, or the time is over."""
        if self.left < 0:
            raise _TooMuch
        self.look = max(self.left - _LOOK_EVERY, -1)
        if not self.wanted():
            raise _Unwanted
        if time.thread_time() > self.end:
            raise _TooMuch


_wanted: ContextVar[Callable[[], bool]] = ContextVar("wanted", default=_always)
_effort: ContextVar[Effort | None] = ContextVar("effort", default=None)


def spend(steps: int = 1) -> None:
    """Counts down the budget of the statement that this thread plans, if it plans one."""
    effort = _effort.get()
    if effort is not None:
        effort.left -= steps
        if effort.left <= effort.look:
            effort.check()


@contextmanager
def wanted(still: Callable[[], bool]) -> Iterator[None]:
    """Within the context, planning on this thread ends (57014) once `still` reports that nobody waits for it."""
    token = _wanted.set(still)
    try:
        yield
    finally:
        _wanted.reset(token)


@contextmanager
def bounded() -> Iterator[Effort]:
    """Planning within the context has one budget, that of the enclosing statement if there is one.

    Raises Refusal: 54001 once it is spent, or where the text is nested too deeply for a pass; 57014.

    >>> with bounded():
    ...     spend(MOST_STEPS + 1)
    Traceback (most recent call last):
    rewriter.refusal.Refusal: the statement is too complex to be planned
    """
    around = _effort.get()
    if around is not None:
        yield around
        return
    effort = Effort(MOST_STEPS, _wanted.get())
    token = _effort.set(effort)
    try:
        yield effort
    except _Unwanted:
        raise Refusal("57014", "canceling statement due to user request") from None
    except (_TooMuch, RecursionError, MemoryError):
        raise too_complex() from None
    finally:
        _effort.reset(token)


def too_complex() -> Refusal:
    """54001: of what is too much work, or nested too deeply."""
    return Refusal(
        "54001",
        "the statement is too complex to be planned",
        hint="Nest less, use each WITH query once or twice, and use IN (...) for alternatives.",
    )
