"""A mechanism on two neighbouring inputs, looked at through several views."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mechanisms.randomness import Stream
from tests.audit.bounds import Bound, bound
from tests.audit.claims import Claim
from tests.audit.finding import Finding, Levels
from tests.mechanisms.goodness import stream

Draw = Callable[[Stream, int], Sequence[Any]]
"""From a stream and n, give n independent outputs of the mechanism on one input."""
View = Callable[[Any], Hashable]


@dataclass(frozen=True)
class Experiment:
    """Two neighbours `sides`, what the cost `claims` for them, and the `views` that might tell them apart.

    `samples` are drawn from each side by the short audit: half of them choose the event.
    """

    mechanism: str
    what: str
    claims: tuple[Claim, ...]
    sides: tuple[Draw, Draw]
    views: Mapping[str, View]
    samples: int = 2000

    @property
    def privacy_looks(self) -> int:
        return 2 * len(self.views)

    @property
    def fit_looks(self) -> int:
        return 0

    def run(self, levels: Levels, effort: float) -> Finding:
        """Bound the loss in both orders through every view; the worst of them is reported."""
        n = round(self.samples * effort)
        p, q = (
            draw(stream("audit", self.mechanism, self.what, side), n) for side, draw in enumerate(self.sides)
        )
        looks: list[tuple[Bound, str]] = []
        for name, view in self.views.items():
            seen, other = [view(o) for o in p], [view(o) for o in q]
            looks.append((bound(seen, other, self.claims, levels.privacy), name))
            looks.append((bound(other, seen, self.claims, levels.privacy), name))
        worst, view_name = max(looks, key=lambda look: look[0].share)
        found = f"{worst} ({view_name})"
        return Finding(self.mechanism, self.what, str(worst.claim), found, 2 * n, worst.share <= 1)
