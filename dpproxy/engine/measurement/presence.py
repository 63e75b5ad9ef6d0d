"""Distinct counts of values with a small known domain: how many of them have units enough to be seen above noise.

Why: docs/decisions/more-items-than-count.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import NormalDist

from dpproxy.engine.measurement.base import GroupBound, SumMeasurement
from dpproxy.engine.planner import BoundNode
from dpproxy.engine.selection.groups import GAUSSIAN, Fetch, Measured, MeasuredColumn, width_of
from mechanisms.choose import MechanismSettings
from mechanisms.histogram import Cost
from mechanisms.randomness import Plain, Stream
from rewriter.plan import Cells, HistogramQuery

UNSEEN = Fraction(1, 20)
"""The probability that any value that no unit has is counted."""


@dataclass(frozen=True)
class PresenceMeter:
    """The distinct items `place` of a node without keys: the values of `values` whose noisy number of units is above a
    threshold. The counts are paid for; what is made of them is free."""

    place: int
    values: BoundNode
    settings: MechanismSettings
    rounds: int = 1

    @property
    def _cells(self) -> Cells:
        return self.values.cells or ()

    @property
    def _counts(self) -> SumMeasurement:
        """The number of units of each value, for one unit of price however many a unit has."""
        settings = (
            self.settings if self.settings.noise == "laplace" else replace(self.settings, spend="cheap")
        )
        return SumMeasurement(self.values, (0,), settings, GroupBound(self.values.delta0), len(self._cells))

    @property
    def name(self) -> str:
        return self._counts.name

    @property
    def threshold(self) -> int:
        """The least noisy number of units of a value that counts."""
        (mechanism,) = self._counts.mechanisms(len(self._cells))
        share = float(UNSEEN) / len(self._cells)
        if width_of(self.settings.noise) == GAUSSIAN:
            return math.ceil(NormalDist().inv_cdf(1 - share) * mechanism.stddev)
        return math.ceil(math.log(1 / (2 * share)) * mechanism.stddev / math.sqrt(2))

    def cost(self, groups: int) -> Cost:
        return self._counts.cost(len(self._cells))

    def parameters(self, groups: int) -> Plain:
        return self.place, self.values.domain, self._counts.parameters(len(self._cells)), self.threshold

    def queries(self, cells: Cells) -> tuple[HistogramQuery, ...]:
        return self._counts.queries(self._cells)

    def measure(self, cells: Cells, fetch: Fetch, stream: Stream) -> Measured:
        counted = self._counts.measure(self._cells, fetch, stream)
        seen = sum(value >= self.threshold for value in counted.columns[0, None].values)
        note = f"values that fewer than about {self.threshold} units have are not counted"
        return Measured({(self.place, None): MeasuredColumn((seen,), notes=(note,))}, counted.cost)
