"""The stages of a private statement: where it is, and how long each one took."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Literal, get_args

Stage = Literal["parse", "plan", "replay", "reserve", "fetch", "release", "settle", "present"]
STAGES: tuple[Stage, ...] = get_args(Stage)
"""parse: from the text to nodes and presentation; plan: domains, mechanisms, price, keys; replay: looking for what
was paid for; reserve: waiting for the same release elsewhere, and the reservation; fetch: the backend; release: the
mechanisms; settle: cost and answer; present: the front, from the released arrays to the last row."""
Observe = Callable[[Stage, float], None]
"""Called with a stage of one statement and its seconds, on any thread."""


def unobserved(stage: Stage, seconds: float) -> None:
    """Ignores the stages."""


class Stages:
    """The stages of one statement: written by one thread, read by any.

    `observe`: told by `tell` how long each stage took; a stage within another counts for itself alone.

    >>> seen = {}
    >>> stages = Stages(lambda stage, seconds: seen.update({stage: seconds}))
    >>> with stages.during("release"), stages.during("fetch"):
    ...     stages.current
    'fetch'
    >>> stages.tell()
    >>> sorted(seen)
    ['fetch', 'release']
    """

    def __init__(self, observe: Observe = unobserved) -> None:
        self._observe = observe
        self._begun = self._since = perf_counter()
        self._spent: dict[Stage, float] = {}
        self._within: list[Stage] = []
        self.round = self.rounds = 0

    @property
    def current(self) -> Stage | None:
        """The stage that it is in."""
        return next(iter(self._within[-1:]), None)

    @property
    def seconds(self) -> float:
        """Since its beginning."""
        return perf_counter() - self._begun

    def passed(self, stage: Stage) -> bool:
        """Whether it has entered a stage."""
        return stage in self._spent

    def expect(self, rounds: int) -> None:
        """So many queries of the backend follow at most, as the plan alone decides."""
        self.round, self.rounds = 0, rounds

    @contextmanager
    def during(self, stage: Stage) -> Iterator[None]:
        """Passes a stage."""
        self.enter(stage)
        try:
            yield
        finally:
            self.leave()

    def enter(self, stage: Stage) -> None:
        """Begins a stage, which `leave` ends."""
        self._lap()
        self._within.append(stage)
        self._spent.setdefault(stage, 0.0)

    def leave(self) -> None:
        """Ends the stage that was entered last."""
        self._lap()
        self._within.pop()

    def tell(self) -> None:
        """Reports the time of each stage to the observer."""
        for stage, seconds in self._spent.items():
            self._observe(stage, seconds)

    def _lap(self) -> None:
        now = perf_counter()
        if self._within:
            self._spent[self._within[-1]] += now - self._since
        self._since = now
