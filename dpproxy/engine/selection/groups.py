"""Which groups of a node are released: every cell of a known domain, or those that a mechanism finds by a count."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import NamedTuple, Protocol

import numpy as np

from dpproxy.backends.base import Fetched
from dpproxy.engine import refusals
from dpproxy.engine.bins import Bins
from dpproxy.engine.planner import BoundNode
from mechanisms.choose import TOP_K
from mechanisms.histogram import Cost, Counts, Histogram, Mechanism, NoiseFamily, Release
from mechanisms.randomness import Plain, Stream
from mechanisms.row_cap import RowCap
from rewriter.plan import Cells, HistogramQuery

Fetch = Callable[[HistogramQuery], Fetched]
"""Runs a query at the backend."""
FREE = Cost(Fraction(0), Fraction(0), Fraction(0))


@dataclass(frozen=True)
class MeasuredColumn:
    """The released values of a measure, one for each group, with the standard deviations of their noise.

    `deviations` is empty where there is no such noise: of ranks, where no count was asked for, and of quantiles,
    whose values are places among `bins`. `notes` are said with the answer. `width`: how many standard deviations
    to both sides of a value hold the true one with probability 95%, 0 where that is not known. `absent`: nothing was
    released, because no length of units' vectors serves; the values mean nothing. `centre`: what was taken from each
    row before it was added up. `length`: what units' vectors were clipped to, in units of the measure's scale, 0 where
    they were not. `ends`: of quantiles the first and the last bin that hold the true one with probability 95%, empty
    where that is not known. `common`: the standard deviation of the part of the noise that is the same in all groups.
    """

    values: tuple[int, ...]
    deviations: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()
    bins: Bins | None = None
    width: float = 0
    absent: bool = False
    centre: int = 0
    length: int = 0
    ends: tuple[tuple[int, int], ...] = ()
    common: float = 0


class Choice(NamedTuple):
    """What was chosen privately for a total: the centre of joint moments, else 0, and the length of vectors.

    `length`: 0 where the choice came to none, so that nothing can be released.
    """

    centre: int
    length: int


GAUSSIAN, LAPLACE = 1.96, 2.12
"""The widths of 95%: the normal quantile, and ln 20 scales of a Laplace distribution."""


def width_of(noise: NoiseFamily) -> float:
    """How many standard deviations to both sides of a released value hold the true one with probability 95%.

    >>> width_of("gaussian"), width_of("gumbel")
    (1.96, 2.12)
    """
    return GAUSSIAN if noise == "gaussian" else LAPLACE


Place = tuple[int, Fraction | None]
"""A measure's place in its node and, of quantiles and joint moments, which one."""
SUM, ROWS, SQUARES = None, Fraction(1), Fraction(2)
"""The parts of joint moments: the sum of what rows have above the centre, their number, the sum of its squares."""


@dataclass(frozen=True)
class Measured:
    """What was released about groups that were found before, and what it cost."""

    columns: Mapping[Place, MeasuredColumn]
    cost: Cost


@dataclass(frozen=True)
class SelectedGroups:
    """Released groups in their order, the cost of finding them, and the measures that were released with them.

    `times`: how many times a running count covers.
    """

    cells: Cells
    cost: Cost = FREE
    measured: Mapping[Place, MeasuredColumn] = field(default_factory=dict)
    times: int = 0


class Selection(Protocol):
    """How the groups of a node are found."""

    @property
    def name(self) -> str | None:
        """The mechanism's name, None where none is needed."""

    @property
    def parameters(self) -> Plain:
        """Every parameter of the distribution of the result, for the release key."""

    @property
    def most(self) -> int:
        """The most groups that can be released."""

    @property
    def cost_at_most(self) -> Cost:
        """The most that finding them can cost."""

    @property
    def rounds(self) -> int:
        """The most queries that the backend will run."""

    def queries(self) -> tuple[HistogramQuery, ...]:
        """The SQL that the backend will run, as far as it is known before a group is released."""

    def find(self, fetch: Fetch, stream: Stream) -> SelectedGroups:
        """The released groups."""


@dataclass(frozen=True)
class FullDomain:
    """Every cell of a known domain."""

    cells: Cells
    name: str | None = None
    cost_at_most: Cost = FREE
    parameters: Plain = None
    rounds: int = 0

    @property
    def most(self) -> int:
        return len(self.cells)

    def queries(self) -> tuple[HistogramQuery, ...]:
        return ()

    def find(self, fetch: Fetch, stream: Stream) -> SelectedGroups:
        return SelectedGroups(self.cells)


@dataclass(frozen=True)
class CountSelection:
    """The groups that `mechanism` finds by the count `place` of the node, together with that count."""

    node: BoundNode
    place: int
    mechanism: Mechanism
    most: int
    rounds: int = 1

    @property
    def name(self) -> str | None:
        return self.mechanism.name

    @property
    def parameters(self) -> Plain:
        return self.place, self.node.kept, self.mechanism.name, self.mechanism.parameters

    @property
    def cost_at_most(self) -> Cost:
        return self.mechanism.cost_at_most

    def queries(self) -> tuple[HistogramQuery, ...]:
        return (self.node.histogram((self.place,), self.mechanism.fetch),)

    def find(self, fetch: Fetch, stream: Stream) -> SelectedGroups:
        fetched = fetch(self.queries()[0])
        if self.node.cells is not None:
            counts, labels = in_cell_order(fetched, 1, len(self.node.cells)), self.node.cells
            release = self.mechanism.release(Histogram(counts, True), stream)
            return self._groups(release, labels)
        keys = len(self.node.aggregate.keys)
        complete = self.mechanism.fetch is None or fetched.rows < self.mechanism.fetch
        release = self.mechanism.release(Histogram(fetched.counts(keys), complete), stream)
        labels = tuple(zip(*(fetched.texts(n) for n in range(keys)), strict=True))
        return self._groups(release, labels)

    def _groups(self, release: Release, labels: Cells) -> SelectedGroups:
        rows = [labels[i] for i in release.indices.tolist()]
        if release.values is None:
            ranks = MeasuredColumn(tuple(range(len(rows), 0, -1)))
            return SelectedGroups(tuple(rows), release.cost, {(self.place, None): ranks})
        values = release.values.tolist()
        deviations = deviations_of(release, len(values))
        order = list(range(len(rows)))
        if self.node.cells is None:
            order.sort(key=lambda n: (-values[n], tuple((t is None, t or "") for t in rows[n])))
        counts = MeasuredColumn(
            tuple(values[n] for n in order),
            tuple(deviations[n] for n in order),
            width=width_of(self.mechanism.noise_family),
            common=release.common_stddev,
        )
        return SelectedGroups(tuple(rows[n] for n in order), release.cost, {(self.place, None): counts})


def is_top_k(selection: Selection | None) -> bool:
    """Whether the groups are the k largest, in an order found by Gumbel noise, however many groups a unit is in."""
    return isinstance(selection, CountSelection) and isinstance(selection.mechanism, TOP_K)


def deviations_of(release: Release, size: int) -> list[float]:
    """The standard deviation of each released count's noise."""
    if release.stddevs is not None:
        return [float(s) for s in release.stddevs]
    return [float(release.stddev or 0)] * size


def capped(query: HistogramQuery, cap: RowCap, fetch: Fetch, stream: Stream) -> Fetched:
    """The rows of a query that no public number bounds; Refusal (54000) where they pass the cap and its noise."""
    most = cap.drawn(stream)
    fetched = fetch(replace(query, most=max(most, 0)))
    if fetched.rows > most:
        raise refusals.more_rows_than_fit(cap.most)
    return fetched


def in_cell_order(fetched: Fetched, column: int, size: int) -> Counts:
    """A column by cell number, which column 0 has; ValueError unless every cell came back once."""
    cells, values = fetched.counts(0), fetched.counts(column)
    if values.size != size or not np.array_equal(np.sort(cells), np.arange(1, size + 1)):
        raise ValueError("the backend did not return one row a cell")
    ordered = np.empty(size, dtype=np.int64)
    ordered[cells - 1] = values
    return ordered
