"""Records every draw of the mechanisms with the number that it hides, and freezes what was released in a second run.

In the second run, over a neighbouring database, each step gives what it gave in the first: so the runs differ in their
true numbers alone, and all that is computed from released ones must be the same. Steps are found again by their stream,
which has the labels that the code has split it by. Groups of unknown domains are found again by their names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from random import Random
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

from dpproxy.backends.base import Fetched
from dpproxy.engine.measurement.base import SumMeasurement
from dpproxy.engine.measurement.distinct import DistinctMeter
from dpproxy.engine.measurement.quantiles import QuantileMeter
from dpproxy.engine.measurement.totals import TotalsMeasurement
from dpproxy.engine.release_plan import ReleasePlan
from dpproxy.engine.result.released_table import ReleasedTable
from dpproxy.engine.selection.groups import CountSelection, Fetch
from dpproxy.engine.selection.partitions import PartitionSelection
from dpproxy.engine.selection.running import RunningSelection
from mechanisms import noise, randomness
from mechanisms.continual import RunningCounter, UnknownDomainBinary
from mechanisms.count_release import _CountRelease, _Walk
from mechanisms.histogram import Cost, Histogram
from mechanisms.partition_selection import WeightRound
from mechanisms.randomness import Stream
from mechanisms.row_cap import RowCap
from mechanisms.square_root import UnknownDomainSquareRoot
from mechanisms.top_counts import TopCounts
from mechanisms.unknown_domain import UnkGumb, _Restricted
from rewriter.plan import HistogramQuery

Array = npt.NDArray[Any]
Path = tuple[Hashable, ...]
Name = Hashable
THRESHOLD, BOTTOM = "the threshold", "bottom"
"""The names of places that no group has."""
METERS = (SumMeasurement, DistinctMeter, QuantileMeter, TotalsMeasurement)
SELECTIONS = (CountSelection, PartitionSelection, RunningSelection)


@dataclass(eq=False)
class Step:
    """One draw, and what it hides.

    Attributes:
        kind: the sampler, or the mechanism whose noise is made of several draws.
        law: the sampler's parameters, or the mechanism.
        path: the labels of its stream, from the seed.
        size: how many numbers were drawn.
        names: what the places are called where their number is not public, None where it is.
        hidden: the true numbers that the noise was added to, or the scores of a choice; None where none were added.
        given: what came of it: noisy numbers, or the names of an order.
        absent: the number of a place that is missing.
        picks: of an order, how many of its places were used.
        common: the step to whose outcome this one's noise was added too; that one has it as `shared`.
    """

    kind: str
    law: Any
    path: Path
    size: int
    names: tuple[Name, ...] | None
    hidden: list[int | None] | None = None
    given: list[Any] = field(default_factory=list)
    absent: int = 0
    picks: int = 1
    common: Step | None = None
    shared: Step | None = None

    def called(self) -> Sequence[Name]:
        """The names of its places."""
        return range(self.size) if self.names is None else self.names


@dataclass(eq=False)
class Block:
    """The steps of one selection or measurement, which it pays for together.

    `cost`: in units of `eps_per`; `groups`: the groups that were released or measured.
    """

    name: str
    eps_per: Fraction
    steps: list[Step] = field(default_factory=list)
    cost: Cost | None = None
    running: bool = False


@dataclass
class Run:
    """What one execution of a statement did. `findings`: what is wrong with it, whatever the neighbour does."""

    blocks: list[Block] = field(default_factory=list)
    queries: list[tuple[str, tuple[Iterable[str | None], ...]]] = field(default_factory=list)
    releases: list[ReleasedTable] = field(default_factory=list)
    seeds: list[bytes] = field(default_factory=list)
    paths: dict[Path, Step] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)
    marks: dict[str, Hashable] = field(default_factory=dict)
    """The groups by their marks, which go back to the backend in place of labels."""

    @property
    def steps(self) -> list[Step]:
        """The draws, in their order."""
        return [step for block in self.blocks for step in block.steps]


class Noise(np.ndarray):
    """Noise that shows what it is added to: the sum is handed to the recorder."""

    step: Step | None
    hide: Callable[[Step, Any], Array] | None

    def __array_finalize__(self, obj: Any) -> None:
        self.step, self.hide = getattr(obj, "step", None), getattr(obj, "hide", None)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [np.asarray(one) if isinstance(one, Noise) else one for one in inputs]
        if ufunc is np.add and method == "__call__" and not options and self.step and self.hide:
            (other,) = (one for one in inputs if one is not self)
            return self.hide(self.step, other)
        return getattr(ufunc, method)(*plain, **options)

    def tolist(self) -> Any:
        """Integers that show what they are added to."""
        return [Drawn(int(v), self, place) for place, v in enumerate(np.asarray(self))]


class Drawn(int):
    """One number of noise."""

    def __new__(cls, value: int, of: Noise, place: int) -> Drawn:
        made = super().__new__(cls, value)
        made.of, made.place = of, place
        return made

    of: Noise
    place: int

    def __add__(self, other: int) -> int:
        assert self.of.step is not None
        assert self.of.hide is not None
        values: list[int | None] = [None] * len(self.of)
        values[self.place] = other
        return int(self.of.hide(self.of.step, values)[self.place])

    __radd__ = __add__


class Recorder:
    """Records a run, or repeats what another run gave; patches the mechanisms while it is `active`.

    `chance`: what seeds are drawn from in place of the product's own, where a run has to be the same again.
    """

    def __init__(self, chance: Random | None = None) -> None:
        self.run, self.chance = Run(), chance
        self._instead: dict[bytes, bytes] = {}
        self._script: dict[Path, Step] | None = None
        self._seeds: list[bytes] = []
        self._paths: dict[bytes, Path] = {}
        self._ever: set[bytes] = set()
        self._read: dict[bytes, int] = {}
        self._names: tuple[Name, ...] | None = None
        self._labels: list[Name] | None = None
        self._quiet = 0
        self._last: tuple[Any, Step] | None = None

    def begin(self, script: Run | None = None) -> Run:
        """A new run: recorded, or with the outcomes of `script`."""
        self.run, self._paths, self._read = Run(), {}, {}
        self._script = None if script is None else script.paths
        self._seeds = [] if script is None else list(script.seeds)
        self._last = self._names = self._labels = None
        return self.run

    # What draws.

    def _seeded(self, original: Callable[..., Stream], *arguments: Any) -> Stream:
        """The same seeds in both runs: what no step gave in the first one has the noise that it would have had."""
        stream = original(*arguments)
        number, key = len(self.run.seeds), stream._key
        if self._script is None:
            lasting = arguments[2] == b"continual"
            if key in self._ever and not lasting:
                self.run.findings.append("two reservations have one seed")
            self._ever.add(key)
            if self.chance is not None:
                stream = Stream(self._instead.setdefault(key, self.chance.randbytes(32)))
        elif number < len(self._seeds):
            stream = Stream(self._seeds[number])
        self.run.seeds.append(stream._key)
        self._paths[stream._key] = (number,)
        return stream

    def _child(self, original: Callable[..., Stream], stream: Stream, *labels: str | int) -> Stream:
        child = original(stream, *labels)
        self._paths[child._key] = (*self._paths.get(stream._key, ("unseeded",)), labels)
        return child

    def _words(self, original: Callable[..., Array], stream: Stream, n: int) -> Array:
        """No word is read by two streams of one key."""
        first, key = stream._given, stream._key
        if first < self._read.get(key, 0):
            self.run.findings.append(f"words are read twice: {self._paths.get(key)}")
        self._read[key] = max(first + n, self._read.get(key, 0))
        return original(stream, n)

    def _step(self, kind: str, law: Any, stream: Stream, size: int) -> Step:
        path = self._paths.get(stream._key, ("unseeded", stream._key))
        names, self._names = self._names, None
        step = Step(kind, law, path, size, names)
        if not self.run.blocks:
            self.run.findings.append(f"a draw outside of what is paid: {kind}")
            self.run.blocks.append(Block("nothing", Fraction(1)))
        if path[0] == "unseeded":
            self.run.findings.append("a draw of a stream that no reservation has seeded")
        if step.path in self.run.paths:
            self.run.findings.append(f"two draws of one stream: {path}")
        self.run.paths[step.path] = step
        self.run.blocks[-1].steps.append(step)
        return step

    def _before(self, step: Step) -> Step | None:
        return None if self._script is None else self._script.get(step.path)

    def _additive(
        self, kind: str, original: Callable[..., Array], stream: Stream, law: Fraction, n: int
    ) -> Array:
        drawn = original(stream, law, n)
        if self._quiet:
            return drawn
        return self._noise(self._step(kind, law, stream, n), drawn)

    def _noise(self, step: Step, drawn: Array) -> Noise:
        made = drawn.view(Noise)
        made.step, made.hide = step, partial(self._hide, drawn)
        return made

    def _hide(self, drawn: Array, step: Step, other: Any) -> Array:
        """The sum of noise and true numbers, or of the first run what it was; numbers may come one by one."""
        if isinstance(other, np.ndarray) and self._last is not None and other is self._last[0]:
            step.common, self._last[1].shared = self._last[1], step
        values = list(other) if isinstance(other, list) else [int(v) for v in np.ravel(other)]
        step.hidden = [None] * len(values) if step.hidden is None else step.hidden
        step.given = [None] * len(values) if not step.given else step.given
        size = len(values)
        if step.common is not None:  # one draw on all numbers
            drawn = np.repeat(np.asarray(drawn), size)
            step.size = size
        before = self._before(step)
        known = {} if before is None else dict(zip(before.called(), before.given, strict=False))
        called = list(step.called())
        if len(called) < size:
            self.run.findings.append(f"{size} numbers have {len(called)} draws: {step.path}")
            called += [("more", n) for n in range(size)]
            drawn = np.resize(drawn, size)
        for place, value in enumerate(values):
            if value is None:
                continue
            if not -(1 << 62) <= value <= 1 << 62:
                self.run.findings.append(f"a number beyond 2^62 is hidden by {step.kind}")
            if step.hidden[place] is not None:
                self.run.findings.append(f"one draw hides two numbers: {step.path}")
            step.hidden[place] = int(value)
            given = known.get(called[place])
            step.given[place] = int(value) + int(drawn[place]) if given is None else given
        sums = np.array(
            [0 if g is None else g for g in step.given], dtype=object if isinstance(other, list) else np.int64
        )
        self._last = (sums, step)
        return sums

    def _order(
        self,
        original: Callable[..., Array],
        stream: Stream,
        scores: Array,
        beta: Fraction,
        first: int,
        weights: Sequence[Fraction] | None = None,
    ) -> Array:
        """The order that came out in the first run, of the names that are left; others follow."""
        order = original(stream, scores, beta, first, weights)
        step = self._step("gumbel", beta, stream, len(scores))
        step.hidden, step.picks = [int(s) for s in scores], min(first, len(scores))
        called = list(step.called())
        before = self._before(step)
        if before is not None:
            places = {name: place for place, name in enumerate(called)}
            kept = [places[name] for name in before.given if name in places]
            frozen = set(kept)
            others = (p for p in order.tolist() if p not in frozen)
            order = np.array([*kept, *others][:first], dtype=np.int64)
        step.given = [called[place] for place in order.tolist()]
        return order

    # What the draws are for.

    def _selecting(self, original: Any, selection: Any, fetch: Fetch, stream: Stream) -> Any:
        mechanism = selection.mechanism
        eps_per = mechanism.ranks.eps_per if isinstance(mechanism, TopCounts) else mechanism.eps_per
        keys = len(selection.node.aggregate.keys)
        block = self._block(selection.name, eps_per)
        block.running = isinstance(selection, RunningSelection)

        def labelled(query: HistogramQuery) -> Fetched:
            fetched = fetch(query)
            named = selection.node.cells is None and not block.running
            self._labels = list(zip(*(fetched.texts(n) for n in range(keys)), strict=True)) if named else None
            if self._labels is not None and len(fetched.columns) == keys + 2:
                marks = map(str, fetched.texts(keys + 1))
                self.run.marks.update(zip(marks, self._labels, strict=True))
            return fetched

        found = original(selection, labelled, stream)
        block.cost, self._labels = found.cost, None
        return found

    def _measuring(self, original: Any, meter: Any, cells: Any, fetch: Fetch, stream: Stream) -> Any:
        settings = meter.terms.settings if isinstance(meter, DistinctMeter) else meter.settings
        block = self._block(meter.name, settings.eps_per)
        measured = original(meter, cells, fetch, stream)
        block.cost = measured.cost
        return measured

    def _block(self, name: str, eps_per: Fraction) -> Block:
        self.run.blocks.append(Block(name, eps_per))
        return self.run.blocks[-1]

    def _released(self, original: Any, plan: ReleasePlan, fetch: Fetch, stream: Stream) -> ReleasedTable:
        def asked(query: HistogramQuery) -> Fetched:
            self.run.queries.append((query.sql, query.arrays))
            return fetch(query)

        result: ReleasedTable = original(plan, asked, stream)
        self.run.releases.append(result)
        return result

    def _capped(self, original: Any, cap: RowCap, stream: Stream) -> int:
        """Noise that no number is added to: what it decides is that a result has fewer rows than the cap."""
        self._quiet += 1
        try:
            most: int = original(cap, stream)
            return most
        finally:
            self._quiet -= 1

    def _label(self, places: Sequence[int]) -> list[Name]:
        labels = self._labels
        return [
            int(p) if labels is None else labels[p] if p < len(labels) else ("empty", int(p)) for p in places
        ]

    def _ranked(self, original: Any, mechanism: Any, histogram: Histogram, stream: Stream) -> Any:
        if self._labels is not None:
            self._names = (*self._label(range(mechanism.d_bar)), THRESHOLD)
        return original(mechanism, histogram, stream)

    def _weighed(self, original: Any, this: WeightRound, weights: Array, stream: Stream) -> Any:
        self._names = tuple(self._label(range(len(weights))))
        found = original(this, weights, stream)
        for step in self.run.blocks[-1].steps[-1:]:
            step.absent = max(this.least - 1, 0)
        return found

    def _top(self, original: Any, mechanism: UnkGumb, counts: Array, k_bar: int, stream: Stream) -> Array:
        above = np.flatnonzero(counts[:k_bar] > counts[k_bar])
        self._names = (*self._label(above.tolist()), BOTTOM)
        order = cast("Array", original(mechanism, counts, k_bar, stream))
        self.run.blocks[-1].steps[-1].picks = min(len(order) + 1, mechanism.k)
        if mechanism.counts:
            self._names = (
                *self._label(order.tolist()),
                *(("empty", n) for n in range(mechanism.k - len(order))),
            )
        return order

    def _ahead(self, original: Any, mechanism: Any, counts: Array, left: Array, *rest: Any) -> Array:
        self._names = (*self._label(left.tolist()), BOTTOM)
        ahead = cast("Array", original(mechanism, counts, left, *rest))
        self._names = tuple(self._label(ahead.tolist()))
        return ahead

    def _paid(self, original: Any, walk: _Walk, *arguments: Any) -> None:
        """A peeling costs the steps that were taken, and the counts of what came out."""
        steps, shown = walk.steps, len(walk.indices)
        original(walk, *arguments)
        orders = [step for step in self.run.blocks[-1].steps if step.kind == "gumbel"]
        orders[-1].picks = walk.steps - steps
        first = self.run.blocks[-1].steps.index(orders[-1])
        for step in self.run.blocks[-1].steps[first + 1 :]:
            if step.path[-1] == (0,) and step.hidden is not None:
                step.hidden[len(walk.indices) - shown :] = [None] * (step.size - len(walk.indices) + shown)

    def _running(
        self, original: Any, mechanism: RunningCounter, streams: Sequence[Stream], moments: Array
    ) -> Any:
        """The noise of an item at all times is one step."""
        self._quiet += 1
        try:
            drawn = original(mechanism, streams, moments)
        finally:
            self._quiet -= 1
        rows = []
        for row, stream in zip(drawn, streams, strict=True):
            step = self._step("running", (mechanism, moments.tolist()), stream, len(moments))
            step.names = tuple(moments.tolist())
            rows.append(self._noise(step, row))
        return rows

    @contextmanager
    def active(self) -> Iterator[Recorder]:
        """Patches samplers, streams and what pays for them, in every module that has them by name."""
        with ExitStack() as stack:
            for name, replacement in (
                ("discrete_laplace", partial(self._additive, "laplace", noise.discrete_laplace)),
                ("discrete_gaussian", partial(self._additive, "gaussian", noise.discrete_gaussian)),
                ("gumbel_order", partial(self._order, noise.gumbel_order)),
            ):
                original = getattr(noise, name)
                for module in [m for n, m in sys.modules.items() if n.startswith("mechanisms.")]:
                    if module is not noise and getattr(module, name, None) is original:
                        stack.enter_context(patch.object(module, name, replacement))
            stack.enter_context(patch.object(randomness, "seed", partial(self._seeded, randomness.seed)))
            stack.enter_context(
                patch.object(
                    sys.modules["mechanisms.continual"], "seed", partial(self._seeded, randomness.seed)
                )
            )
            patched: tuple[tuple[type, str, Callable[..., Any]], ...] = (
                (Stream, "child", self._child),
                (Stream, "words", self._words),
                (ReleasePlan, "release", self._released),
                *((selection, "find", self._selecting) for selection in SELECTIONS),
                *((meter, "measure", self._measuring) for meter in METERS),
                (RowCap, "drawn", self._capped),
                (_Restricted, "release", self._ranked),
                (WeightRound, "sort_out", self._weighed),
                (UnkGumb, "_top", self._top),
                (_CountRelease, "_ahead", self._ahead),
                (_Walk, "pay", self._paid),
                (UnknownDomainBinary, "_noise", self._running),
                (UnknownDomainSquareRoot, "_noise", self._running),
            )
            for owner, name, method in patched:
                stack.enter_context(patch.object(owner, name, bound(getattr(owner, name), method)))
            yield self


def bound(original: Any, method: Callable[..., Any]) -> Callable[..., Any]:
    """`method`, given the original and what it is called with, as a function that a class may have."""

    def called(*arguments: Any) -> Any:
        return method(original, *arguments)

    return called
