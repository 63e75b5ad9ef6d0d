"""What every peer is asked, and how it answers; the standard library alone, since each peer has its own environment."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field

EPSILON, DELTA = 1.0, 1e-6
"""Of each answer by itself."""
COUNTRIES = tuple(f"C{n}" for n in range(50))
MOST_SECONDS = 600
ROWS_OF_A_PERSON = 20
REPEATS = 9
TASKS = ("people by country", "top-10 articles", "COUNT(*)", "SUM by country", "distinct articles")
GroupValues = Mapping[str, float]
"""The released value of each group, "" for one number."""
PeerQuery = Callable[[], GroupValues]


class Cannot(Exception):
    """The peer has no way to answer; the message says why."""


@dataclass
class Outcome:
    """What a peer did: its version, its bounds and what it cannot express in words, and by task the answers of each
    time with their seconds, or why it cannot, or how it failed."""

    peer: str
    bounds: str
    lacks: str
    answers: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    cannot: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def ask(self, task: str, answer: PeerQuery, repeats: int = REPEATS) -> None:
        """Asks so many times; what a peer raises is noted, and its other tasks go on."""
        answers, seconds = [], []
        try:
            for _ in range(repeats):
                started = time.perf_counter()
                answers.append(dict(answer()))
                seconds.append(time.perf_counter() - started)
        except Cannot as reason:
            self.cannot[task] = str(reason)
        except Exception as error:
            self.failed[task] = f"{type(error).__name__}: {short(str(error))}"
        else:
            self.answers[task], self.seconds[task] = answers, seconds

    def dump(self) -> str:
        """As one line of JSON."""
        return json.dumps(asdict(self))

    @staticmethod
    def load(line: str) -> Outcome:
        """What `dump` wrote; ValueError or TypeError for anything else."""
        return Outcome(**json.loads(line))

    @staticmethod
    def nothing(peer: str, reason: str) -> Outcome:
        """The outcome of a peer that failed before it answered."""
        return Outcome(peer, "", "", failed=dict.fromkeys(TASKS, reason))


def short(text: str, most: int = 160) -> str:
    """A text in one line of a table's cell.

    >>> short("no|such\\n file")
    'no/such file'
    """
    return " ".join(text.replace("|", "/").split())[:most]


def cannot(reason: str) -> PeerQuery:
    """An answer that a peer cannot give."""

    def answer() -> GroupValues:
        raise Cannot(reason)

    return answer


def top(groups: GroupValues, most: int = 10) -> GroupValues:
    """The largest groups: post-processing.

    >>> top({"a": 1.0, "b": 3.0, "c": 2.0}, 2)
    {'b': 3.0, 'c': 2.0}
    """
    return dict(sorted(groups.items(), key=lambda pair: -pair[1])[:most])
