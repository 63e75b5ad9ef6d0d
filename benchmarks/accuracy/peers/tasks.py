"""What every library is asked; the standard library alone, since each has an environment of its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

EPSILON, DELTA = 1.0, 1e-6
"""Of all answers together."""
BOUNDS = {"total sales": 10_000, "number of rows": 10_000}
"""What an owner would write who has not seen the data: what a household buys in a year, in dollars and in rows."""
COLUMNS = {"total sales": "sales", "number of rows": "lines"}
CHOICE = 0.15
"""The share of an answer's price that a library's own choice of bounds gets, as ours."""
OWN, CAREFUL = "its own bounds", "careful bounds"

Asked = Callable[[str, int], float]
"""Answers a task when so many answers share the guarantee."""


@dataclass
class Released:
    """What a library released: its name with its version, how it composes, by kind of bounds and task the values."""

    library: str
    composes: str
    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    without: str = ""

    def ask(self, kind: str, answer: Asked, answers: int, keys: int) -> None:
        """Asks every task so often; what a library raises stands in place of its figures."""
        try:
            self.values[kind] = {task: [answer(task, answers) for _ in range(keys)] for task in COLUMNS}
        except Exception as error:
            self.without = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"

    @staticmethod
    def load(line: str) -> Released:
        """What `printed` wrote; ValueError or TypeError for anything else."""
        return Released(**json.loads(line))


def printed(release: Callable[[Path, int, int, float], Released]) -> None:
    """The main program of a library's module: file, answers, keys, and the rho of zCDP of one answer, from the command
    line."""
    file, answers, keys, rho = sys.argv[1:]
    print(json.dumps(asdict(release(Path(file), int(answers), int(keys), float(rho)))))


def errors(values: Mapping[str, list[float]], truth: Mapping[str, float]) -> dict[str, list[float]]:
    """Relative errors by task."""
    return {task: [abs(v - truth[task]) / abs(truth[task]) for v in found] for task, found in values.items()}
