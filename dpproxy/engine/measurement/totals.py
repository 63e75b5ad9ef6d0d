"""Numbers of rows, sums and moments in groups already selected: units' vectors, clipped to a private length.

Why: docs/decisions/units-are-clipped-not-rows.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dpproxy.backends.base import Fetched
from dpproxy.engine.planner import BoundNode
from dpproxy.engine.selection.groups import (
    FREE,
    GAUSSIAN,
    ROWS,
    SQUARES,
    SUM,
    Choice,
    Fetch,
    Measured,
    MeasuredColumn,
    Place,
)
from mechanisms.choose import MechanismSettings
from mechanisms.histogram import Cost, Counts
from mechanisms.randomness import Plain, Stream
from mechanisms.unit_clip import STEPS, UnitClip
from mechanisms.unit_moments import PLACES, Centre, UnitMoments
from rewriter.ir.measure import Joint, Total, Vector
from rewriter.plan import Cells, HistogramQuery


@dataclass(frozen=True)
class TotalsMeasurement:
    """The totals and joint moments `places` of a node over all released groups, read together: each of them is one
    information unit, however many groups a unit is in."""

    node: BoundNode
    places: tuple[int, ...]
    settings: MechanismSettings
    known: Mapping[int, Choice] = field(default_factory=dict)
    """By place, what was chosen in an answer that was paid for."""
    weights: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """By place, what each cell's totals are multiplied by, made of earlier answers to the account that pays."""

    @property
    def rounds(self) -> int:
        """A query for averages where there are some, one for lengths, one for sums; none for what is known."""
        choosing = any(place not in self.known for place in self.places)
        return bool(self._served) + choosing + bool(self._joint)

    @property
    def _served(self) -> tuple[int, ...]:
        """All but those for which no length was found in an answer that was paid for."""
        return tuple(p for p in self.places if p not in self.known or self.known[p].length)

    @property
    def _joint(self) -> tuple[int, ...]:
        """The joint moments whose centre is to be chosen."""
        chosen = (p for p in self.places if p not in self.known)
        return tuple(p for p in chosen if isinstance(self._measure(p), Joint))

    def _measure(self, place: int) -> Total | Joint:
        measure = self.node.aggregate.measures[place]
        assert isinstance(measure, (Total, Joint))
        return measure

    def mechanisms(self, groups: int) -> tuple[UnitClip | UnitMoments, ...]:
        """A mechanism a measure, for so many groups."""
        return tuple(self._mechanism(place, max(groups, 1)) for place in self.places)

    def _mechanism(self, place: int, groups: int) -> UnitClip | UnitMoments:
        measure, known = self._measure(place), self.known.get(place) if place in self._served else None
        if isinstance(measure, Total):
            return UnitClip(
                eps_per=self.settings.eps_per,
                anchor=measure.anchor,
                cells=groups,
                groups=public_groups(self.node),
                alone=self.node.delta0 == 1,
                length=None if known is None else known.length,
            )
        moments = self._moments(measure, groups)
        if known is None:
            return moments
        centre = moments.about(known.centre)
        # A length is kept in units of the measure's scale.
        return moments.clip(centre, known.length * centre.fine)

    def _moments(self, measure: Joint, groups: int) -> UnitMoments:
        return UnitMoments(
            eps_per=self.settings.eps_per,
            least=measure.least,
            cells=groups,
            groups=public_groups(self.node),
            alone=self.node.delta0 == 1,
            squares=measure.squares,
            averages=measure.averages,
        )

    @property
    def name(self) -> str:
        names = [m.name for m in self.mechanisms(1)]
        return ", ".join(n if names.count(n) == 1 else f"{n} x{names.count(n)}" for n in dict.fromkeys(names))

    def cost(self, groups: int) -> Cost:
        return Cost.sum(self._mechanism(p, groups).cost_at_most for p in self._served) if groups else FREE

    def parameters(self, groups: int) -> Plain:
        named = zip(self.places, self.mechanisms(groups), strict=True)
        described: list[Plain] = [(place, m.name, m.parameters) for place, m in named]
        described += [(place, "chosen", *choice) for place, choice in sorted(self.known.items())]
        described += [(place, "weights", *by) for place, by in sorted(self.weights.items())]
        return described

    def made_for(self, place: int, groups: int) -> Plain:
        """All that decides the law of what is chosen for a total, but its text and cells."""
        mechanism = replace(self, known={})._mechanism(place, max(groups, 1))
        return "choice", mechanism.name, mechanism.parameters

    def queries(self, cells: Cells) -> tuple[HistogramQuery, ...]:
        """Those for centres of 0 and the least lengths: which ones they will be is not known before."""
        node, centres = self.node.over(cells), self._known_centres(len(cells))
        mechanisms = {place: self._mechanism(place, max(len(cells), 1)) for place in self._served}
        if not mechanisms:
            return ()
        for place, mechanism in mechanisms.items():
            if isinstance(mechanism, UnitMoments):
                centres[place] = mechanism.centre_of(0)
        clips = _clips(mechanisms, centres)
        vectors = self._vectors(clips, centres)
        averages = (node.averages(self._vectors(self._joint, {}), STEPS, PLACES),) if self._joint else ()
        least = [(clip.length or clip.anchor, clip.scale) for clip in clips.values()]
        return *averages, node.lengths(vectors, STEPS, _places(clips)), node.clipped(vectors, least)

    def measure(self, cells: Cells, fetch: Fetch, stream: Stream) -> Measured:
        if not cells:
            return Measured(
                {at: MeasuredColumn(()) for place in self.places for at in self._parts(place)}, FREE
            )
        node = self.node.over(cells)
        mechanisms = {place: self._mechanism(place, len(cells)) for place in self._served}
        centres = self._centres(node, mechanisms, fetch, stream)
        clips = _clips(mechanisms, centres)
        lengths = self._lengths(node, clips, centres, fetch, stream)
        sums = self._sums(node, clips, lengths, centres, len(cells), fetch)
        columns: dict[Place, MeasuredColumn] = {}
        costs = []
        for place in set(self.places) - set(self._served):
            columns |= self._nothing(place, len(cells))
        for place, mechanism in mechanisms.items():
            clip, length = clips[place], lengths.get(place)
            if length is None:
                columns |= self._nothing(place, len(cells))
                costs += [clip.cost_of_choice]
                costs += [mechanism.cost_of_centre] if isinstance(mechanism, UnitMoments) else []
                continue
            release = clip.release(sums[place], length, stream.child("measure", place))
            assert release.values is not None
            assert release.stddev is not None
            centre = centres.get(place)
            for number, at in enumerate(self._parts(place)):
                values = release.values[number * len(cells) : (number + 1) * len(cells)].tolist()
                column = _column(values, release.stddev, number, centre, length)
                columns[at] = divided(column, self.weights[place]) if place in self.weights else column
            costs.append(mechanism.cost_at_most)
        return Measured(columns, Cost.sum(costs))

    def _nothing(self, place: int, cells: int) -> dict[Place, MeasuredColumn]:
        """What is released where the choice came to no length."""
        mechanism = self._mechanism(place, cells)
        clip = mechanism.clip(mechanism.centre_of(0)) if isinstance(mechanism, UnitMoments) else mechanism
        note = f"no length of units' totals serves so few units: about {clip.units_needed} are needed, ask about more"
        column = MeasuredColumn((0,) * cells, notes=(note,), absent=True)
        return dict.fromkeys(self._parts(place), column)

    def _vectors(self, places: Iterable[int], centres: Mapping[int, Centre]) -> tuple[Vector, ...]:
        vectors = (Vector(place, *centres.get(place, ())) for place in places)
        return tuple(replace(v, multipliers=self.weights.get(v.place, ())) for v in vectors)

    def _parts(self, place: int) -> list[Place]:
        measure = self._measure(place)
        if isinstance(measure, Total):
            return [(place, SUM)]
        parts = [SUM, ROWS, SQUARES] if measure.squares else [SUM, ROWS]
        return [(place, part) for part in parts]

    def _centres(
        self, node: BoundNode, mechanisms: Mechanisms, fetch: Fetch, stream: Stream
    ) -> dict[int, Centre]:
        """What the values of joint moments are taken from."""
        centres = self._known_centres(len(node.cells or ((),)))
        if not self._joint:
            return centres
        fetched = fetch(node.averages(self._vectors(self._joint, {}), STEPS, PLACES))
        for number, place in enumerate(self._joint):
            mechanism, own = mechanisms[place], fetched.counts(0) == number
            assert isinstance(mechanism, UnitMoments)
            centres[place] = mechanism.choose_centre(
                fetched.counts(1)[own], fetched.counts(2)[own], stream.child("centre", place)
            )
        return centres

    def _known_centres(self, groups: int) -> dict[int, Centre]:
        measures = {place: self._measure(place) for place in self.known}
        return {
            place: self._moments(measure, max(groups, 1)).about(self.known[place].centre)
            for place, measure in measures.items()
            if isinstance(measure, Joint)
        }

    def _lengths(
        self, node: BoundNode, clips: Clips, centres: Mapping[int, Centre], fetch: Fetch, stream: Stream
    ) -> dict[int, int]:
        """The length to which each measure's vectors are clipped, of those for which one was chosen."""
        lengths = {place: clip.length for place, clip in clips.items() if clip.length is not None}
        clips = {place: clip for place, clip in clips.items() if place not in lengths}
        if not clips:
            return lengths
        fetched = fetch(node.lengths(self._vectors(clips, centres), STEPS, _places(clips)))
        for number, (place, clip) in enumerate(clips.items()):
            own = fetched.counts(0) == number
            units = clip.binned(np.minimum(fetched.counts(1)[own], clip.places), fetched.counts(2)[own])
            length = clip.choose(units, stream.child("choice", place))
            if length is not None:
                lengths[place] = length
        return lengths

    def _sums(
        self,
        node: BoundNode,
        clips: Clips,
        lengths: Mapping[int, int],
        centres: Mapping[int, Centre],
        cells: int,
        fetch: Fetch,
    ) -> dict[int, Counts]:
        """The sums of each measure's clipped vectors, part by part and cell by cell."""
        if not lengths:
            return {}
        chosen = [(length, clips[place].scale) for place, length in lengths.items()]
        parts = [len(self._parts(place)) for place in lengths]
        fetched = fetch(node.clipped(self._vectors(lengths, centres), chosen))
        sums, first = by_cell(fetched, cells, sum(parts)), 0
        found = {}
        for place, number in zip(lengths, parts, strict=True):
            found[place] = sums[first : first + number].reshape(-1)
            first += number
        return found


_WEIGHTED = "small groups count more in the measurements after the first, which have lengths of their own"
Mechanisms = Mapping[int, UnitClip | UnitMoments]
Clips = Mapping[int, UnitClip]


def _clips(mechanisms: Mechanisms, centres: Mapping[int, Centre]) -> dict[int, UnitClip]:
    """What clips the vectors of each measure, about these centres."""
    return {
        place: mechanism.clip(centres[place]) if isinstance(mechanism, UnitMoments) else mechanism
        for place, mechanism in mechanisms.items()
    }


def _places(clips: Clips) -> int:
    """How many places of lengths the backend tells apart."""
    return max(clip.places for clip in clips.values())


def _column(
    values: Sequence[int], deviation: float, number: int, about: Centre | None, length: int
) -> MeasuredColumn:
    """One part of a vector, in rows or in units of the measure's scale; a row of moments counts for `about.row`."""
    deviations = (deviation,) * len(values)
    if about is None:
        return MeasuredColumn(tuple(values), deviations, width=GAUSSIAN, length=length)
    _, row, fine = about
    if number == 0:
        sums, spread = nearest(values, 1, fine), (deviation / fine,) * len(values)
        return MeasuredColumn(sums, spread, width=GAUSSIAN, centre=about.centre, length=length // fine)
    if number == 1:
        rows, spread = nearest(values, 1, row * fine), (deviation / (row * fine),) * len(values)
        return MeasuredColumn(rows, spread, width=GAUSSIAN, length=length // (row * fine))
    squares, spread = nearest(values, row, fine), (deviation * row / fine,) * len(values)
    return MeasuredColumn(squares, spread, width=GAUSSIAN)


def nearest(values: Iterable[int], times: int, over: int) -> tuple[int, ...]:
    """Values times a number over another one, rounded.

    >>> nearest([7, -7], 1, 2)
    (4, -3)
    """
    return tuple((2 * value * times + over) // (2 * over) for value in values)


def divided(column: MeasuredColumn, multipliers: Sequence[int]) -> MeasuredColumn:
    """A weighted total in its own units, rounded once more; its length is in none that an answer could name."""
    values = tuple((2 * v + m) // (2 * m) for v, m in zip(column.values, multipliers, strict=True))
    spread = tuple(
        math.hypot(d / m, 12**-0.5 * (m > 1)) for d, m in zip(column.deviations, multipliers, strict=True)
    )
    return replace(column, values=values, deviations=spread, length=0, notes=(_WEIGHTED,))


def public_groups(node: BoundNode) -> int:
    """A number of cells that is public: the size of a known domain; of groups that were found it is no such number."""
    return 1 if node.cells is None else max(len(node.cells), 1)


def by_cell(fetched: Fetched, cells: int, parts: int) -> Counts:
    """The sums of each part by cell, 0 in cells that no unit is in; ValueError for a cell that does not exist."""
    sums = np.zeros((parts, cells), dtype=np.int64)
    places = fetched.counts(0) - 1
    if fetched.rows:
        if places.min() < 0 or places.max() >= cells or len(np.unique(places)) < len(places):
            raise ValueError("the backend returned a cell that does not exist")
        for part in range(parts):
            sums[part, places] = fetched.counts(part + 1)
    return sums
