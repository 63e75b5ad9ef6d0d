"""Checks that too much noise fails as well: goodness of fit, and quantities that are computed exactly."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mechanisms.randomness import Stream
from tests.audit.finding import Finding, Levels
from tests.mechanisms.goodness import p_value, stream


@dataclass(frozen=True)
class Fit:
    """`samples` outputs against their `law`: chi-square; the law's text is what is claimed."""

    mechanism: str
    what: str
    claimed: str
    draw: Callable[[Stream, int], Sequence[Any]]
    law: Callable[[], Mapping[Any, float]]
    samples: int

    @property
    def privacy_looks(self) -> int:
        return 0

    @property
    def fit_looks(self) -> int:
        return 1

    def run(self, levels: Levels, effort: float) -> Finding:
        """Fit; rejected where the p-value is below the level of one look."""
        n = round(self.samples * effort)
        seen: list[Hashable] = list(self.draw(stream("audit", self.mechanism, self.what), n))
        p = p_value(seen, self.law())
        return Finding(self.mechanism, self.what, self.claimed, f"p = {p:.2g}", len(seen), p >= levels.fit)


def coarse(law: Mapping[int, float], width: int) -> dict[int, float]:
    """Give the law of x // width: fewer bins see a wrong scale in fewer samples."""
    bins: dict[int, float] = defaultdict(float)
    for x, p in law.items():
        bins[x // width] += p
    return dict(bins)


@dataclass(frozen=True)
class Exact:
    """A computation without samples, or over all outputs: gives what it found and whether the claim holds."""

    mechanism: str
    what: str
    claimed: str
    compute: Callable[[], tuple[str, bool]]

    @property
    def privacy_looks(self) -> int:
        return 0

    @property
    def fit_looks(self) -> int:
        return 0

    def run(self, levels: Levels, effort: float) -> Finding:
        """Compute; levels and effort do not matter."""
        found, holds = self.compute()
        return Finding(self.mechanism, self.what, self.claimed, found, 0, holds)
