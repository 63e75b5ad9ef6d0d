"""How late the event loop is, and how long logins wait for a thread: what tells that clients are not served."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from time import monotonic

LATE_SECONDS = 2.0
"""From here on clients are not served."""
WHAT = ("loop", "logins")
_BEAT_SECONDS, _REMEMBERED_SECONDS = 0.25, 5.0


class Late(Exception):
    """Clients wait for longer than LATE_SECONDS."""


def _untold(what: str, seconds: float) -> None:
    """Nobody counts."""


class Lateness:
    """The longest that the loop, and a login, had to wait within the last seconds; read on any thread.

    `told`: called at each beat with what is late and by how many seconds.
    """

    def __init__(self, told: Callable[[str, float], None] = _untold) -> None:
        self._told = told
        self._due: dict[str, float] = {}
        self._worst: dict[str, tuple[float, float]] = {}
        """When the longest wait ended, and its seconds."""

    async def watch(self, threads: Executor) -> None:
        """Measures until it is cancelled. `threads`: those that logins need."""
        while True:
            self._due["loop"] = monotonic() + _BEAT_SECONDS
            if "logins" not in self._due:
                self._due["logins"] = monotonic()
                threads.submit(lambda: None).add_done_callback(lambda _: self._over("logins"))
            await asyncio.sleep(_BEAT_SECONDS)
            self._over("loop")
            for what in WHAT:
                self._told(what, self.seconds(what))

    def seconds(self, what: str) -> float:
        """How long it has had to wait, or waits by now."""
        now = monotonic()
        at, worst = self._worst.get(what, (now, 0.0))
        due = self._due.get(what, now)
        return max(worst if now - at < _REMEMBERED_SECONDS else 0.0, now - due)

    def check(self) -> None:
        """Raises Late where clients are not served."""
        if any(self.seconds(what) > LATE_SECONDS for what in WHAT):
            raise Late

    def _over(self, what: str) -> None:
        worst = self.seconds(what)
        waited = monotonic() - self._due.pop(what)
        if waited >= worst:
            self._worst[what] = (monotonic(), waited)
