"""Events that may happen with a small probability at most, whatever the data."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from tests.audit.bounds import clopper_pearson
from tests.audit.experiment import Draw
from tests.audit.finding import Finding, Levels
from tests.mechanisms.goodness import stream


@dataclass(frozen=True)
class Rare:
    """An `event`, fixed beforehand, that outputs of `draw` show with probability `at_most`.

    Since nothing is chosen, every sample goes into the bound.
    """

    mechanism: str
    what: str
    at_most: float
    draw: Draw
    event: Callable[[Any], bool]
    samples: int = 2000

    @property
    def privacy_looks(self) -> int:
        return 1

    @property
    def fit_looks(self) -> int:
        return 0

    def run(self, levels: Levels, effort: float) -> Finding:
        """Bound the probability of the event from below."""
        n = round(self.samples * effort)
        outcomes = self.draw(stream("audit", self.mechanism, self.what), n)
        low, _ = clopper_pearson(sum(map(self.event, outcomes)), n, levels.privacy)
        claimed = f"(any, {self.at_most:.2g})"
        return Finding(self.mechanism, self.what, claimed, f"delta >= {low:.2g}", n, low <= self.at_most)


def newcomers(
    mechanism: str, what: str, delta: float, draw: Draw, news: frozenset[Hashable], samples: int = 2000
) -> Rare:
    """Keys that one person alone brings: where the neighbour has none of them, they come out with delta at most.

    (Lemma R and proof A2 give measures of mass 1 - delta that vanish where the neighbour's law does.)
    """

    def came(outcome: Any) -> bool:
        return any(label in news for label, _ in outcome.rows)

    return Rare(mechanism, f"new: {what}", delta, draw, came, samples)
