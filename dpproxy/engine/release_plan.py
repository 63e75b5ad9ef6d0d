"""How a node is answered: its selection, measurements, price and keys; decided on public facts only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from budget.account import Charge
from budget.units import MOST_UNITS, UNBOUNDED, micro, shown
from dpproxy.engine.bounded_range import recorded
from dpproxy.engine.cap_notes import caps
from dpproxy.engine.measurement.base import Measurement
from dpproxy.engine.measurement.distinct import DistinctMeter
from dpproxy.engine.options import ReleaseOptions
from dpproxy.engine.planner import BoundNode
from dpproxy.engine.release_keys import ReleaseKeys
from dpproxy.engine.result.postprocess import outputs
from dpproxy.engine.result.released_table import ReleasedTable
from dpproxy.engine.selection.groups import (
    CountSelection,
    Fetch,
    FullDomain,
    MeasuredColumn,
    Place,
    SelectedGroups,
    Selection,
    is_top_k,
)
from dpproxy.engine.selection.partitions import PartitionSelection
from dpproxy.engine.selection.running import RunningSelection, Seen
from mechanisms import randomness
from mechanisms.count_release import KnownCountRelease, PrivateCountRelease
from mechanisms.histogram import Cost
from mechanisms.partition_selection import ONE
from mechanisms.row_cap import RowCap
from rewriter.ir.measure import Count, DistinctItems, Measure, Running, Total
from rewriter.plan import HistogramQuery

_DECLARED = "the declared values, whether they are in the data or not; nothing was read or charged"


@dataclass(frozen=True)
class ReleasePlan:
    """How a node is answered: the selection of its groups, the measurements of its measures, price and keys.

    Attributes:
        node: what is asked.
        terms: the options of the release.
        selection: how the groups are found, None where the answer has no rows (LIMIT 0, an empty domain).
        meters: the measurements of the measures that the selection does not release.
        k: the most groups of a top-k query, None for other queries.
        request_key: what was asked.
        release_key: what is released; it differs from request_key where the account can pay for less only.
        keys: makes the keys.
        stream: the key of a running count that continues in later epochs, None for all else.
        wider: the plan with all that the owner lets a query without LIMIT spend, where this one has less.
        rungs: the further measurements of the same that are combined with this one.
        whole: where there are any, the one measurement that would say as much.
    """

    node: BoundNode
    terms: ReleaseOptions
    selection: Selection | None
    meters: tuple[Measurement, ...]
    k: int | None
    request_key: bytes
    release_key: bytes
    keys: ReleaseKeys
    stream: bytes | None = None
    wider: ReleasePlan | None = None
    rungs: tuple[ReleasePlan, ...] = ()
    whole: ReleasePlan | None = None

    @property
    def lock(self) -> bytes:
        """The key under which one thread at a time may release."""
        return self.stream or self.request_key

    @cached_property
    def cost_at_most(self) -> Cost:
        """The most that the release can cost, whatever the data."""
        if self.selection is None:
            return Cost.sum(())
        return self._cost(self.selection.cost_at_most, [m.cost(self.selection.most) for m in self.meters])

    def _cost(self, finding: Cost, measuring: Sequence[Cost]) -> Cost:
        """What finding groups and measuring them cost, in the account's units, which an allowance is in already."""
        found = finding if self.open_ended else self.terms.worth(finding)
        return Cost.sum([found, *map(self.terms.worth, measuring)])

    @property
    def level(self) -> Fraction:
        """What its measures cost with all rungs, in information units where one is the usual price."""
        return sum((plan.terms.units for plan in (self, *self.rungs)), Fraction(0))

    @cached_property
    def price(self) -> Cost:
        """The most that the release and its rungs can cost together."""
        return Cost.sum(plan.cost_at_most for plan in (self, *self.rungs))

    @property
    def open_ended(self) -> bool:
        """Whether finding groups spends an allowance, so that the price is a matter of how many are wanted."""
        if isinstance(self.selection, PartitionSelection):
            return not self.meters or self.node.delta0 is None
        return isinstance(self.selection, CountSelection) and isinstance(
            self.selection.mechanism, (KnownCountRelease, PrivateCountRelease)
        )

    @property
    def name(self) -> str:
        """The mechanisms' names."""
        names = [self.selection.name if self.selection else None, *(m.name for m in self.meters)]
        return ", ".join(filter(None, names)) or ("domain" if self.selection else "nothing")

    @property
    def recorded(self) -> str:
        """The text about the mechanisms in the ledger's entries, with the noise if their names do not include it.

        At another level it names that: [AEA] Theorem 2 holds for steps of one unit alone (bounded_range.py).
        """
        level = "" if self.terms.units == 1 else f" at {shown(micro(self.terms.units))} units"
        rung = f", rung {self.terms.rung}" if self.terms.rung else ""
        return recorded(self.name, self.terms.settings.noise) + level + rung

    @property
    def lowered(self) -> int | None:
        """The number of groups that can come out where it is less than LIMIT asks for."""
        asked, top = self.node.aggregate.k, is_top_k(self.selection)
        return self.k if top and self.k is not None and asked is not None and self.k < asked else None

    @property
    def rounds(self) -> int:
        """The most queries that the backend will run, whatever the data."""
        return (0 if self.selection is None else self.selection.rounds) + sum(m.rounds for m in self.meters)

    @property
    def caps(self) -> Iterator[RowCap]:
        """What decides how many rows of a query are too many, where no public number does."""
        if isinstance(self.selection, (PartitionSelection, RunningSelection)):
            yield self.selection.cap
        for meter in self.meters:
            if isinstance(meter, DistinctMeter) and self.selection is not None and self.selection.most:
                yield meter.cap(self.selection.most)

    def queries(self) -> Iterator[HistogramQuery]:
        """The SQL that the backend will run, as far as it is known before groups are selected."""
        if self.selection is not None:
            yield from self.selection.queries()
            cells = self.selection.cells if isinstance(self.selection, FullDomain) else ()
            for meter in self.meters:
                yield from meter.queries(cells)

    @property
    def free(self) -> ReleasedTable | None:
        """The answer, where it needs no private rows: no groups, or a known domain alone; else None."""
        aggregate = self.node.aggregate
        if self.selection is None:
            return ReleasedTable.nothing(len(aggregate.keys), len(aggregate.outputs))
        if not isinstance(self.selection, FullDomain) or self.meters:
            return None
        # Without keys: of no rows, as the schema or the query says; counts are 0, everything else is NULL.
        nothing: dict[Place, MeasuredColumn] = {
            (place, None): MeasuredColumn((0,), absent=not (_counts(m) or isinstance(m, DistinctItems)))
            for place, m in enumerate(aggregate.measures)
        }
        declared = self._result(SelectedGroups(self.selection.cells), nothing, Cost.sum(()))
        return declared if aggregate.keys else self.shown(declared)

    def release(self, fetch: Fetch, stream: randomness.Stream) -> ReleasedTable:
        """The private answer; `fetch` runs a query at the backend. ValueError for rows that are not as asked for."""
        assert self.selection is not None
        groups = self.selection.find(fetch, stream.child("groups"))
        columns, costs = dict(groups.measured), []
        for number, meter in enumerate(self.meters):
            measured = meter.measure(groups.cells, fetch, stream.child("meter", number))
            columns |= measured.columns
            costs.append(measured.cost)
        return self._result(groups, columns, self._cost(groups.cost, costs))

    def noise(self, key: bytes, reservation: bytes) -> randomness.Stream:
        """The noise of one reservation, or of a stream for its life; `key`: the noise key."""
        if self.stream is None:
            return randomness.seed(key, self.release_key, reservation)
        assert isinstance(self.selection, RunningSelection)
        return self.selection.mechanism.noise_stream(key, self.stream)

    def after(self, earlier: ReleasedTable | None) -> ReleasePlan:
        """The same plan after earlier releases of its stream; `earlier` is the last of them."""
        if earlier is None or not isinstance(self.selection, RunningSelection):
            return self
        cells = tuple(zip(*earlier.keys, strict=True))
        seen = Seen(cells, earlier.measured[0, None], earlier.times)
        return replace(self, selection=self.selection.after(seen))

    def shown(self, result: ReleasedTable) -> ReleasedTable:
        """A release, of this plan or stored earlier, with this query's outputs."""
        columns = outputs(self.node.aggregate, result.measured, self.node.parameters)
        fewer = "" if not result.keys else self._fewer(len(result.keys[0]))
        capped = caps(self.node.aggregate)
        return replace(result, columns=columns, threshold=self.threshold, fewer=fewer, caps=capped)

    @property
    def threshold(self) -> int | None:
        """About what a count has to exceed to be released; None where every group is, or where the data decide it."""
        if not isinstance(self.selection, (CountSelection, RunningSelection)):
            return None
        mechanism = self.selection.mechanism
        return None if isinstance(mechanism, PrivateCountRelease) else mechanism.threshold

    @property
    def dearer(self) -> str:
        """The information units of the wider plan, for people."""
        return shown(micro((self.wider or self).cost_at_most.information))

    @property
    def least(self) -> str:
        """Which groups cannot come out, as far as public parameters tell; empty where any can."""
        selection = self.selection
        if isinstance(selection, PartitionSelection):
            weight = -(-selection.mechanism.threshold // ONE)
            if selection.mechanism.delta0 == 1:
                return f"groups of fewer than about {weight} units are not shown"
            return f"groups of a weight below about {weight} are not shown, where a unit in n groups weighs 1/sqrt(n)"
        if not isinstance(selection, CountSelection):
            return "" if self.threshold is None else f"counts below about {self.threshold} are not shown"
        mechanism = selection.mechanism
        of = (KnownCountRelease, PrivateCountRelease)
        least = mechanism.least if isinstance(mechanism, of) else mechanism.threshold
        measure = self.node.aggregate.measures[selection.place] if self.node.aggregate.measures else None
        what = "rows" if isinstance(measure, Count) and measure.tau > 1 else "units"
        return "" if least is None else f"groups of fewer than about {least} {what} are not shown"

    def _fewer(self, rows: int) -> str:
        """The notice about an answer with fewer rows than there may be; it names public parameters alone."""
        asked, least = self.node.aggregate.k, self.least
        more = f"`SET dpproxy.max_cost = {self.dearer}`" if self.wider is not None else ""
        if not rows and least:
            return f"{least}: form larger groups" + (f", or {more}" if more else "")
        parts = []
        if self.meters and isinstance(self.selection, PartitionSelection):
            parts.append(
                f"{rows} groups, those of enough units: what is computed from them is of these alone"
            )
        if isinstance(self.selection, CountSelection):
            if isinstance(self.selection.mechanism, PrivateCountRelease):
                parts.append(f"{rows} groups, the largest: what is computed from them is of these alone")
            if asked is not None and self.k is not None and rows < min(asked, self.k) and self.threshold:
                parts.append(f"{rows} rows, fewer than LIMIT asks for: {least}")
        if more and self.selection is not None:
            parts.append(f"groups for at most {charge(self.selection.cost_at_most)}: more by {more}")
        return "; ".join(parts)

    def implied(self, measured: dict[Place, MeasuredColumn], mechanism: str) -> ReleasedTable:
        """The answer with measures of all cells that need not be bought."""
        assert isinstance(self.selection, FullDomain)
        result = self._result(SelectedGroups(self.selection.cells), measured, Cost.sum(()))
        return replace(self.shown(replace(result, mechanism=mechanism)), replayed=True)

    def _result(
        self, groups: SelectedGroups, measured: dict[Place, MeasuredColumn], cost: Cost
    ) -> ReleasedTable:
        aggregate, size = self.node.aggregate, len(groups.cells)
        return ReleasedTable(
            keys=tuple(tuple(row[n] for row in groups.cells) for n in range(len(aggregate.keys))),
            measured=measured,
            counts=tuple(n for n, m in enumerate(aggregate.measures) if _counts(m)),
            mechanism=self.name,
            notes=(*self._notes(size), *(note for m in measured.values() for note in m.notes)),
            cost=cost,
            lowered=self.lowered,
            times=groups.times,
        )

    def _notes(self, size: int) -> Iterator[str]:
        if isinstance(self.selection, FullDomain) and not self.meters:
            never = (
                "a condition of the query or a constraint of the database leaves no rows: nothing was charged"
            )
            yield _DECLARED if self.node.aggregate.keys else never
        if not size:
            yield "no group is large enough to be shown"
        elif isinstance(self.selection, CountSelection) and isinstance(
            self.selection.mechanism, KnownCountRelease
        ):
            cells = len(self.node.cells or ())
            if size < cells:
                yield f"{size} of the {cells} groups: what is computed from them is of these alone"
        elif isinstance(self.selection, PartitionSelection):
            yield "groups of few units are not shown"
            if size == self.selection.most:
                yield f"the first {size} groups in the order of their names"


def _counts(measure: Measure) -> bool:
    """Whether a measure counts rows or units."""
    return isinstance(measure, (Count, Running)) or (isinstance(measure, Total) and measure.value is None)


def charge(cost: Cost) -> Charge:
    """A cost in whole micro-units, rounded up; its pure epsilon bounds its information units, as the ledger asks."""
    epsilon = UNBOUNDED if cost.epsilon is None else micro(max(cost.epsilon, cost.information / MOST_UNITS))
    return Charge(micro(cost.information), micro(cost.calls), epsilon)


def running(node: BoundNode) -> Iterator[Running]:
    """The running count that a node is, if it is one."""
    yield from (m for m in node.aggregate.measures if isinstance(m, Running))
