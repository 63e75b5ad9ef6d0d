"""Counts and sums in groups already selected: noise on each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dpproxy.engine.planner import BoundNode
from dpproxy.engine.selection.groups import (
    FREE,
    Fetch,
    Measured,
    MeasuredColumn,
    Place,
    deviations_of,
    in_cell_order,
    width_of,
)
from mechanisms.choose import CellNoise, MechanismSettings, cells_of_units, noisy_cells, noisy_sums
from mechanisms.histogram import Cost, Histogram, Release
from mechanisms.numeric import ClampedSum
from mechanisms.randomness import Plain, Stream
from rewriter.ir.measure import Count, Moment
from rewriter.plan import Cells, HistogramQuery


@dataclass(frozen=True)
class GroupBound:
    """How many of n groups one unit changes: `delta0` at most, None for any number."""

    delta0: int | None

    def of(self, groups: int) -> int:
        """The most of `groups` groups."""
        return groups if self.delta0 is None else min(self.delta0, groups)


class Measurement(Protocol):
    """Measures of a node over groups that were found before."""

    @property
    def name(self) -> str:
        """The mechanism's name, with the number of measures if there are several."""

    def cost(self, groups: int) -> Cost:
        """What measuring this many groups costs, whatever the data."""

    def parameters(self, groups: int) -> Plain:
        """All that decides the law of the release over this many groups."""

    def queries(self, cells: Cells) -> tuple[HistogramQuery, ...]:
        """The SQL that the backend will run."""

    @property
    def rounds(self) -> int:
        """The most queries that the backend will run."""

    def measure(self, cells: Cells, fetch: Fetch, stream: Stream) -> Measured:
        """The released values, by the measure's place in the node."""


@dataclass(frozen=True)
class SumMeasurement:
    """The counts and sums `places` of a node over `most` groups at most, in one query; each is paid for."""

    node: BoundNode
    places: tuple[int, ...]
    settings: MechanismSettings
    changed: GroupBound
    most: int
    rounds: int = 1

    def mechanisms(self, groups: int) -> tuple[CellNoise | ClampedSum, ...]:
        """A mechanism a measure."""
        return tuple(self._mechanism(place, groups) for place in self.places)

    def _mechanism(self, place: int, groups: int) -> CellNoise | ClampedSum:
        measure, delta0 = self.node.aggregate.measures[place], self.changed.of(groups)
        if isinstance(measure, Count):
            if measure.tau == 1:
                return cells_of_units(self.settings, groups, delta0)
            return noisy_cells(self.settings, groups, delta0, measure.tau)
        assert isinstance(measure, Moment)
        centred = measure.centred and measure.power == 1
        return noisy_sums(self.settings, *summands(measure), measure.tau, groups, delta0, centred)

    @property
    def name(self) -> str:
        names = [m.name for m in self.mechanisms(max(self.most, 1))]
        counted = {n: names.count(n) for n in names}
        return ", ".join(n if times == 1 else f"{n} x{times}" for n, times in counted.items())

    def cost(self, groups: int) -> Cost:
        if groups == 0:
            return FREE
        return Cost.sum(m.cost_at_most for m in self.mechanisms(groups))

    def parameters(self, groups: int) -> Plain:
        return [
            self.places,
            self.node.kept,
            *((m.name, m.parameters) for m in self.mechanisms(max(groups, 1))),
        ]

    def queries(self, cells: Cells) -> tuple[HistogramQuery, ...]:
        return (self.node.over(cells).histogram(self.places, None),)

    def measure(self, cells: Cells, fetch: Fetch, stream: Stream) -> Measured:
        if not cells:
            return Measured({(place, None): MeasuredColumn(()) for place in self.places}, FREE)
        fetched = fetch(self.queries(cells)[0])
        measured: dict[Place, MeasuredColumn] = {}
        for column, (place, mechanism) in enumerate(
            zip(self.places, self.mechanisms(len(cells)), strict=True), 1
        ):
            values = in_cell_order(fetched, column, len(cells))
            child = stream.child("measure", place)
            if isinstance(mechanism, ClampedSum):
                release: Release = mechanism.release(values, child)
            else:
                release = mechanism.release(Histogram(values, True), child)
            assert release.values is not None
            measured[place, None] = MeasuredColumn(
                tuple(release.values.tolist()),
                tuple(deviations_of(release, len(cells))),
                width=width_of(self.settings.noise),
                common=release.common_stddev,
            )
        return Measured(measured, self.cost(len(cells)))


def summands(measure: Moment) -> tuple[int, int]:
    """Between which bounds a row's fixed-point summand lies; of a centred first moment before it is centred.

    Bounds that wait for a constant are 0 and 1, as in the backend's SQL: a price does not depend on them.
    """
    lo, hi = measure.value.lo, measure.value.hi
    if lo is None or hi is None:
        lo, hi = 0, 1
    if measure.power == 1:
        return lo, hi
    if measure.centred:
        return 0, (hi - lo) ** 2
    squares = (lo * lo, hi * hi)
    return (0 if lo <= 0 <= hi else min(squares)), max(squares)
