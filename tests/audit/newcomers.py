"""Keys that one person alone brings: where the neighbour cannot show them, they come out with delta at most."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from tests.audit.bounds import clopper_pearson
from tests.audit.experiment import Draw
from tests.audit.finding import Finding, Levels
from tests.mechanisms.goodness import stream


@dataclass(frozen=True)
class Newcomers:
    """The `news` are keys without a person in the neighbour: an event of probability 0 there, so delta here.

    (Lemma R and proof A2 give measures of mass 1 - delta that vanish where the neighbour's law does.) The event is
    fixed beforehand, so every sample goes into its bound.
    """

    mechanism: str
    what: str
    delta: float
    draw: Draw
    news: frozenset[Hashable]
    samples: int = 3000

    @property
    def privacy_looks(self) -> int:
        return 1

    @property
    def fit_looks(self) -> int:
        return 0

    def run(self, levels: Levels, effort: int) -> Finding:
        """Bound the probability that any of them comes out from below."""
        n = self.samples * effort
        outcomes = self.draw(stream("audit", self.mechanism, self.what), n)
        hits = sum(not self.news.isdisjoint(_keys(outcome)) for outcome in outcomes)
        low, _ = clopper_pearson(hits, n, levels.privacy)
        claimed = f"(any, {self.delta:.2g})"
        return Finding(self.mechanism, self.what, claimed, f"delta >= {low:.2g} (news)", n, low <= self.delta)


def _keys(outcome: Any) -> set[Hashable]:
    return {label for label, _ in outcome.rows}
