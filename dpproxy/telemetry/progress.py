"""Progress notices while a statement runs for long: they depend on clock and plan, never on data.

Why: docs/decisions/progress-by-the-clock.md.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from dpproxy.telemetry.stages import Stages
from rewriter.statements.set_statement import hears

FIRST_SECONDS, MOST_SECONDS = 2.0, 60.0
"""How long a statement runs before the first notice; each interval then doubles, up to the most."""
_BEGIN = "dpproxy: still running after "


@dataclass(frozen=True)
class Progress:
    """The progress of a statement after some seconds: its stage, and which of at most `rounds` backend queries runs.

    >>> Progress(4, "fetch", 2, 3).line
    'dpproxy: still running after 4 s: fetch, round 2 of at most 3'
    >>> Progress.read(Progress(4, "fetch", 2, 3).line)
    Progress(seconds=4, stage='fetch', round=2, rounds=3)
    """

    seconds: int
    stage: str
    round: int = 0
    rounds: int = 0

    @classmethod
    def of(cls, stages: Stages) -> Self:
        """That of a statement now."""
        return cls(round(stages.seconds), stages.current or "plan", stages.round, stages.rounds)

    @property
    def place(self) -> str:
        """The stage and the round."""
        return self.stage + (f", round {self.round} of at most {self.rounds}" if self.round else "")

    @property
    def line(self) -> str:
        """The notice."""
        return f"{_BEGIN}{self.seconds} s: {self.place}"

    @classmethod
    def read(cls, notice: str) -> Self | None:
        """Reads a progress notice; None for other notices."""
        found = re.fullmatch(_BEGIN + r"(\d+) s: (\w+)(?:, round (\d+) of at most (\d+))?", notice)
        if found is None:
            return None
        seconds, stage, *rounds = found.groups()
        return cls(int(seconds), stage, *(int(number or 0) for number in rounds))


def wanted(settings: Mapping[str, str]) -> bool:
    """Whether a session wants notices.

    >>> wanted({}), wanted({"dpproxy.notices": "off"}), wanted({"client_min_messages": "warning"})
    (True, False, False)
    """
    silent = settings.get("dpproxy.notices", "on").lower() in ("off", "false", "no", "0")
    return not silent and hears(settings, "notice")


class ProgressNotifier:
    """Sends the progress of one statement, at moments that depend on the clock alone, until it is stopped."""

    def __init__(self, stages: Stages, say: Callable[[str], None]) -> None:
        """`say`: is given each notice, on the running event loop."""
        self._stages, self._say = stages, say
        self._wait = FIRST_SECONDS
        self._timer = asyncio.get_running_loop().call_later(self._wait, self._tell)

    def stop(self) -> None:
        """Sends no more notices."""
        self._timer.cancel()

    def _tell(self) -> None:
        self._say(Progress.of(self._stages).line)
        self._timer = asyncio.get_running_loop().call_later(self._wait, self._tell)
        self._wait = min(2 * self._wait, MOST_SECONDS)
