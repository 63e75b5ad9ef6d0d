"""Running counts over items of unknown domain: the released groups are pairs of item and time, each with its count."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpproxy.backends.base import Fetched
from dpproxy.engine.planner import BoundNode
from dpproxy.engine.selection.groups import GAUSSIAN, Fetch, MeasuredColumn, SelectedGroups, capped
from mechanisms.continual import Events, RunningCounter
from mechanisms.histogram import Cost
from mechanisms.randomness import Plain, Stream
from mechanisms.row_cap import RowCap
from rewriter.ir.measure import Running
from rewriter.plan import Cells, HistogramQuery

LENGTHS = {
    "minute": dt.timedelta(minutes=1),
    "hour": dt.timedelta(hours=1),
    "day": dt.timedelta(days=1),
    "week": dt.timedelta(days=7),
    "month": dt.timedelta(days=31),
    "quarter": dt.timedelta(days=92),
    "year": dt.timedelta(days=366),
}
MARGIN = dt.timedelta(days=1)
"""How long a time has to be over before it is looked at: clocks of all zones, and a night for what comes late."""


def times_over(times: Sequence[str], grain: str, begin: dt.datetime) -> int:
    """How many of the first `times` (ascending, of one unit `grain` each) are over for good at `begin` (UTC).

    >>> times_over(["2024-01-01", "2024-01-02"], "day", dt.datetime(2024, 1, 3, tzinfo=dt.UTC))
    1

    ValueError for times that are no dates.
    """
    latest = begin.astimezone(dt.UTC).replace(tzinfo=None) - MARGIN - LENGTHS[grain]
    return sum(_moment(text) <= latest for text in times)


def _moment(text: str) -> dt.datetime:
    moment = dt.datetime.fromisoformat(text)
    return moment if moment.tzinfo is None else moment.astimezone(dt.UTC).replace(tzinfo=None)


@dataclass(frozen=True)
class Seen:
    """The earlier releases of a stream: rows in their order, and the number of `times` that they covered."""

    cells: Cells
    counts: MeasuredColumn
    times: int


NOTHING = Seen((), MeasuredColumn(()), 0)


@dataclass(frozen=True)
class RunningSelection:
    """The items at the first `at` times of the node whose running count is above the mechanism's threshold.

    `cap`: of the rows of a look, of which the price covers as many as there can be. Values at times that `earlier`
    releases covered stay unchanged: if their events change after all, equal noise
    does not reveal the change.
    """

    node: BoundNode
    mechanism: RunningCounter
    at: int
    cap: RowCap
    earlier: Seen = NOTHING
    rounds: int = 1

    @property
    def name(self) -> str:
        return self.mechanism.name

    @property
    def parameters(self) -> Plain:
        return self.mechanism.name, self.mechanism.parameters, self.at

    @property
    def most(self) -> int:
        return 0

    @property
    def cost_at_most(self) -> Cost:
        return self.mechanism.cost_at_most

    @property
    def _measure(self) -> Running:
        (measure,) = self.node.aggregate.measures
        assert isinstance(measure, Running)
        return measure

    def after(self, earlier: Seen) -> RunningSelection:
        """The same selection after further releases."""
        return replace(self, earlier=earlier)

    def queries(self) -> tuple[HistogramQuery, ...]:
        return (self.node.running(self.at),)

    def find(self, fetch: Fetch, stream: Stream) -> SelectedGroups:
        """The groups; `stream` is the noise of the node's stream, the same at every look."""
        earlier = self.earlier
        if self.at <= earlier.times:
            return self._groups(earlier.cells, earlier.counts, earlier.times)
        keys = len(self.node.aggregate.keys)
        fetched = capped(self.queries()[0], self.cap, fetch, stream.child("cap", self.at))
        items = [tuple(row) for row in zip(*(fetched.texts(n) for n in range(keys - 1)), strict=True)]
        labels = sorted(set(items), key=_label)
        looked = range(earlier.times + 1, self.at + 1)
        release = self.mechanism.release(_events(fetched, items, labels), looked, stream)
        new = tuple(
            self._cell(labels[item], time)
            for item, time in zip(release.items.tolist(), release.times.tolist(), strict=True)
        )
        counts = MeasuredColumn(
            (*earlier.counts.values, *release.values.tolist()),
            (*earlier.counts.deviations, *release.stddevs.tolist()),
            width=GAUSSIAN,
        )
        return self._groups((*earlier.cells, *new), counts, self.at)

    def _cell(self, item: tuple[str | None, ...], time: int) -> tuple[str | None, ...]:
        place = self._measure.time
        return (*item[:place], self.node.times[time - 1], *item[place:])

    def _groups(self, cells: Cells, counts: MeasuredColumn, times: int) -> SelectedGroups:
        return SelectedGroups(cells, self.mechanism.cost_at_most, {(0, None): counts}, times)


def _label(item: tuple[str | None, ...]) -> bytes:
    return json.dumps(item).encode()


def _events(
    fetched: Fetched, items: list[tuple[str | None, ...]], labels: list[tuple[str | None, ...]]
) -> Events:
    keys = len(labels[0]) if labels else 0
    numbers = {label: n for n, label in enumerate(labels)}
    return Events(
        times=fetched.counts(keys) if items else np.zeros(0, dtype=np.int64),
        items=np.array([numbers[i] for i in items], dtype=np.int64),
        counts=fetched.counts(keys + 1) if items else np.zeros(0, dtype=np.int64),
        labels=[_label(label) for label in labels],
    )
