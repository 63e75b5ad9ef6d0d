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
REPEATS = 3
TASKS = ("people by country", "top-10 articles", "COUNT(*)", "SUM by country", "distinct articles")
Groups = Mapping[str, float]
"""The released value of each group, "" for one number."""
Answer = Callable[[], Groups]


class Cannot(Exception):
    """The peer has no way to answer; the message says why."""


@dataclass
class Outcome:
    """What a peer did: its version, neighbouring relation and bounds in words, and by task the answers of each time
    with their seconds, or why it cannot."""

    peer: str
    relation: str
    bounds: str
    answers: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    cannot: dict[str, str] = field(default_factory=dict)

    def ask(self, task: str, answer: Answer) -> None:
        """Asks REPEATS times."""
        try:
            for _ in range(REPEATS):
                started = time.perf_counter()
                groups = dict(answer())
                self.seconds.setdefault(task, []).append(time.perf_counter() - started)
                self.answers.setdefault(task, []).append(groups)
        except Cannot as reason:
            self.cannot[task] = str(reason)
        except Exception as error:
            # A peer's failure is a finding, not ours.
            self.cannot[task] = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"

    def dump(self) -> str:
        """As one line of JSON."""
        return json.dumps(asdict(self))

    @staticmethod
    def load(line: str) -> Outcome:
        """What `dump` wrote."""
        return Outcome(**json.loads(line))


def cannot(reason: str) -> Answer:
    """An answer that a peer cannot give."""

    def answer() -> Groups:
        raise Cannot(reason)

    return answer


def top(groups: Groups, most: int = 10) -> Groups:
    """The largest groups: post-processing."""
    return dict(sorted(groups.items(), key=lambda pair: -pair[1])[:most])
