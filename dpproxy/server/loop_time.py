"""The event loop's time, shared by login, then by session: nobody's messages hold up the others' for long.

Why: docs/decisions/turns-of-the-loop.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter

TURN_SECONDS = 0.0005
"""Of one session, before others have their turn: some five small messages."""
AT_ONCE_SECONDS = 0.01
"""At most, and half of it at least, of all sessions in one round of the loop for what has just come in."""


class LoopTime:
    """Who processes how much before others do; used from the event loop's thread alone.

    What comes in is processed at once, for TURN_SECONDS. What is left then waits in line, as does what comes in later
    for the same login, and all that is beyond AT_ONCE_SECONDS. Each round of the loop serves those in line: the logins
    by turns, and of each login the sessions by turns. It ends with the first turn that takes all of TURN_SECONDS, or
    when AT_ONCE_SECONDS are over: short turns of many sessions do not pile up, long ones do not hold up what comes in.
    """

    def __init__(self) -> None:
        self._line: dict[str, dict[Callable[[], None], None]] = {}
        self._left, self._began, self._until = AT_ONCE_SECONDS, 0.0, 0.0
        self._counting = self._running = False

    def begin(self, login: str) -> bool:
        """Whether what has come in for a login may be processed now; `end` is due in any case."""
        self._began = perf_counter()
        free = self._left > 0 and login not in self._line
        self._until = self._began + min(TURN_SECONDS, self._left) if free else 0.0
        return free

    def end(self) -> None:
        """What began is over, or waits."""
        self._spent(perf_counter() - self._began)

    def _spent(self, seconds: float) -> None:
        self._left -= seconds
        # A call of its own in each round would cost a small message a tenth of its time.
        if self._left < AT_ONCE_SECONDS / 2 and not self._counting:
            self._counting = True
            asyncio.get_running_loop().call_soon(self._next_round)

    @property
    def over(self) -> bool:
        """Whether it is the others' turn."""
        return perf_counter() >= self._until

    def wait(self, login: str, turn: Callable[[], None]) -> None:
        """Has `turn` called once, when it is the turn of the login and of this session."""
        self._line.setdefault(login, {})[turn] = None
        if not self._running:
            self._running = True
            asyncio.get_running_loop().call_soon(self._serve_line)

    def leave(self, login: str, turn: Callable[[], None]) -> None:
        """Takes a session out of the line, if it is there."""
        if turn in self._line.get(login, {}):
            del self._line[login][turn]
            if not self._line[login]:
                del self._line[login]

    def _next_round(self) -> None:
        self._left, self._counting = AT_ONCE_SECONDS, False

    def _serve_line(self) -> None:
        began = perf_counter()
        end = began + max(TURN_SECONDS, self._left)
        while self._line:
            self._until = min(perf_counter() + TURN_SECONDS, end)
            login = next(iter(self._line))
            turns = self._line[login]
            turn = next(iter(turns))
            self.leave(login, turn)
            turn()
            if login in self._line:
                # The other logins first.
                self._line[login] = self._line.pop(login)
            if self.over:
                break
        self._spent(perf_counter() - began)
        self._running = bool(self._line)
        if self._running:
            asyncio.get_running_loop().call_soon(self._serve_line)
