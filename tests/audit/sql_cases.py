"""The whole path from SQL to rows on neighbouring databases, one question of each class of mechanisms."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

from dpproxy.backends.base import Cancellation, Fetched
from dpproxy.engine.measurement.totals import TotalsMeasurement
from dpproxy.engine.optimizer import plan_release
from dpproxy.engine.options import terms
from dpproxy.engine.planner import BoundNode
from dpproxy.engine.release_keys import ReleaseKeys
from dpproxy.engine.release_plan import ReleasePlan
from dpproxy.engine.selection.groups import CountSelection
from dpproxy.engine.selection.partitions import PartitionSelection
from mechanisms.histogram import Cost
from mechanisms.randomness import Stream
from rewriter.binder.contribution_bounds import Bound
from rewriter.ir.measure import Vector
from rewriter.plan import HistogramQuery
from tests.audit.claims import Claim, bounded_range, concentrated
from tests.audit.experiment import Draw, Experiment, View
from tests.audit.finding import PRIVACY_LEVEL, Finding, Levels
from tests.audit.sql_world import SHARED, World

RANK_KEYS = 8
"""Secrets of the keyed orders that the draws take turns with; what they fetch is fetched once for each."""
MOST_ROWS = 100_000
KEYS = ReleaseKeys(bytes(32), b"nonce", b"streams")


@dataclass(frozen=True)
class Question:
    """A statement, the mechanism that answers it, and how many draws the short audit takes from each side.

    `clips`: with clipped totals of units in place of declared caps, and the square root in place of the tree.
    `pruned`: lists set groups of little weight aside.
    """

    mechanism: str
    sql: str
    samples: int = 400
    noise: str = "gaussian"
    clips: bool = False
    pruned: bool = False


RUNNING = (
    "SELECT room, day, SUM(COUNT(*)) OVER (PARTITION BY room ORDER BY day) FROM visits GROUP BY room, day"
)
QUESTIONS = (
    Question("KnownGauss", "SELECT town, COUNT(*) FROM people GROUP BY town"),
    Question("KnownLap", "SELECT town, COUNT(*) FROM people GROUP BY town", noise="laplace"),
    Question(
        "KnownGumb",
        "SELECT kind, COUNT(DISTINCT person_id) FROM hobbies GROUP BY kind ORDER BY 2 DESC LIMIT 2",
    ),
    Question("UnkGauss", "SELECT room, COUNT(DISTINCT person_id) FROM visits GROUP BY room", samples=800),
    Question("UnkLap", "SELECT room, COUNT(DISTINCT person_id) FROM visits GROUP BY room", noise="laplace"),
    Question(
        "UnkGumb",
        "SELECT hobby, COUNT(DISTINCT person_id) FROM hobbies GROUP BY hobby ORDER BY 2 DESC LIMIT 3",
    ),
    Question(
        "UnkGumb, CorrelatedCounts",
        "SELECT hobby, COUNT(DISTINCT person_id) FROM hobbies GROUP BY hobby ORDER BY 2 DESC LIMIT 3",
        samples=100,
        clips=True,
    ),
    Question(
        "PrivateCountRelease",
        "SELECT hobby, COUNT(DISTINCT person_id) FROM hobbies GROUP BY hobby",
        samples=100,
    ),
    Question(
        "WeightedGaussian, UnitClip",
        "SELECT room, SUM(seconds) FROM visits GROUP BY room",
        samples=400,
        clips=True,
    ),
    Question(
        "WeightedGaussian, UnitClip",
        "SELECT hobby, COUNT(*) FROM hobbies GROUP BY hobby",
        samples=100,
        clips=True,
    ),
    Question("DPSips", "SELECT DISTINCT hobby FROM hobbies", samples=200),
    Question("PrunedSips", "SELECT DISTINCT hobby FROM hobbies", samples=200, pruned=True),
    Question("PersonLevelDistinctCount", "SELECT COUNT(DISTINCT hobby) FROM hobbies"),
    Question("DistinctCountCurve", "SELECT COUNT(DISTINCT hobby) FROM hobbies", clips=True),
    Question("ClampedSum", "SELECT SUM(seconds) FROM visits"),
    Question("ClampedSum, KnownGauss", "SELECT AVG(seconds) FROM visits"),
    Question("QuantileTree", "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) FROM visits"),
    Question("UnknownDomainBinary", RUNNING, samples=100),
    Question("UnknownDomainSquareRoot", RUNNING, samples=100, clips=True),
    Question("UnitClip", "SELECT COUNT(*) FROM visits", samples=200, clips=True),
    Question(
        "UnitClip x2",
        "SELECT day, SUM(seconds), COUNT(*) FROM visits GROUP BY day",
        samples=60,
        clips=True,
    ),
    Question("UnitMoments", "SELECT day, AVG(seconds) FROM visits GROUP BY day", samples=60, clips=True),
    Question(
        "CorrelatedCounts", "SELECT kind, COUNT(DISTINCT person_id) FROM hobbies GROUP BY kind", clips=True
    ),
    Question(
        "QuantileChoice",
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds), day FROM visits GROUP BY day",
        clips=True,
    ),
    Question("QuantileTree", "SELECT MAX(seconds), day FROM visits GROUP BY day", clips=True),
)
BY_SERVICE = "SELECT COUNT(*) FROM people WHERE person_id > {}"
SERVICE_SAMPLES = 20


class Drawn(NamedTuple):
    """What leaves: keys and released numbers a row, and the charge."""

    rows: tuple[tuple[object, ...], ...]
    cost: Cost


@dataclass(frozen=True)
class Written(BoundNode):
    """A node that writes each of its queries once, however often it is released."""

    known: dict[object, HistogramQuery] = field(default_factory=dict)

    def histogram(self, places: Sequence[int], limit: int | None) -> HistogramQuery:
        key = "histogram", self.cells, tuple(places), limit
        return self._once(key, partial(super().histogram, places, limit))

    def bins(self, place: int, bins: int) -> HistogramQuery:
        return self._once(("bins", self.cells, place, bins), partial(super().bins, place, bins))

    def averages(self, vectors: Sequence[Vector], steps: int, most: int) -> HistogramQuery:
        key = "averages", self.cells, tuple(vectors), steps, most
        return self._once(key, partial(super().averages, vectors, steps, most))

    def lengths(self, vectors: Sequence[Vector], steps: int, most: int) -> HistogramQuery:
        key = "lengths", self.cells, tuple(vectors), steps, most
        return self._once(key, partial(super().lengths, vectors, steps, most))

    def clipped(self, vectors: Sequence[Vector], clips: Sequence[tuple[int, int]]) -> HistogramQuery:
        key = "clipped", self.cells, tuple(vectors), tuple(clips)
        return self._once(key, partial(super().clipped, vectors, clips))

    def items(self, place: int, most: int) -> HistogramQuery:
        return self._once(("items", self.cells, place, most), partial(super().items, place, most))

    def weights(
        self,
        left_out: Sequence[str],
        delta0: int,
        turn: int,
        floor: int,
        largest: int | None,
        *,
        marked: bool,
    ) -> HistogramQuery:
        key = "weights", tuple(left_out), delta0, turn, floor, largest, marked
        return self._once(
            key, partial(super().weights, left_out, delta0, turn, floor, largest, marked=marked)
        )

    def running(self, times: int) -> HistogramQuery:
        return self._once(("running", times), partial(super().running, times))

    def _once(self, key: object, write: Callable[[], HistogramQuery]) -> HistogramQuery:
        if key not in self.known:
            self.known[key] = write()
        return self.known[key]


@dataclass
class Database:
    """What one side's database answers under each secret; a query is run once for each."""

    world: World
    side: int

    def __post_init__(self) -> None:
        self._known: dict[tuple[str, object, str], Fetched] = {}

    def fetch(self, query: HistogramQuery, rank_key: str) -> Fetched:
        """The rows of a query, from the database where they are not known."""
        key = query.sql, query.arrays, rank_key if query.rank_key else ""
        if key not in self._known:
            with self.world.backends[self.side].open() as slot:
                self._known[key] = slot.fetch(query, rank_key, Cancellation(), MOST_ROWS)
        return self._known[key]


class Unbounded(Written):
    """A node whose histograms keep all groups of a unit, whatever its price assumes."""

    def histogram(self, places: Sequence[int], limit: int | None) -> HistogramQuery:
        loose = replace(self, aggregate=replace(self.aggregate, bound=Bound(None, False)))
        return Written.histogram(loose, places, limit)


class Uncut(Written):
    """A node in which all groups of a unit have weight."""

    def weights(
        self,
        left_out: Sequence[str],
        delta0: int,
        turn: int,
        floor: int,
        largest: int | None,
        *,
        marked: bool,
    ) -> HistogramQuery:
        return Written.weights(self, left_out, 1000, turn, floor, largest, marked=marked)


class Longer(Written):
    """A node whose vectors are clipped to sixteen times the length that was chosen."""

    def clipped(self, vectors: Sequence[Vector], clips: Sequence[tuple[int, int]]) -> HistogramQuery:
        return Written.clipped(self, vectors, [(16 * length, scale) for length, scale in clips])


Change = Callable[[ReleasePlan], ReleasePlan]


def unchanged(one: ReleasePlan) -> ReleasePlan:
    """What the project asks."""
    return one


def written_once(node: BoundNode) -> Written:
    """The same node, keeping its queries."""
    return Written(**{f.name: getattr(node, f.name) for f in fields(BoundNode) if f.init})


def bounds_unenforced(one: ReleasePlan) -> ReleasePlan:
    """A declared bound is believed: the backend's SQL does not cut a unit's groups."""
    assert isinstance(one.selection, CountSelection)
    listed = {f.name: getattr(one.selection.node, f.name) for f in fields(BoundNode) if f.init}
    node = Unbounded(**listed)
    return replace(one, node=node, selection=replace(one.selection, node=node))


def weights_unenforced(one: ReleasePlan) -> ReleasePlan:
    """A declared bound is believed: the backend's SQL gives weight to all groups of a unit, and none stays there for
    being that unit's alone. Only names are drawn."""
    assert isinstance(one.selection, PartitionSelection)
    listed = {f.name: getattr(one.selection.node, f.name) for f in fields(BoundNode) if f.init}
    whole = replace(one.selection.mechanism, floor=1)
    return replace(one, meters=(), selection=replace(one.selection, node=Uncut(**listed), mechanism=whole))


def clips_unenforced(one: ReleasePlan) -> ReleasePlan:
    """A chosen length is believed: the backend's SQL leaves a unit's vector longer."""
    (meter,) = one.meters
    assert isinstance(meter, TotalsMeasurement)
    listed = {f.name: getattr(meter.node, f.name) for f in fields(BoundNode) if f.init}
    return replace(one, meters=(replace(meter, node=Longer(**listed)),))


def drawn(question: Question, world: World, side: int, change: Change) -> Draw:
    """Gives the draws of a question on one side: each with a noise of its own."""
    database = Database(world, side)

    def draw(stream: Stream, n: int) -> list[Drawn]:
        one = change(asked(question, world))
        return [released(one, stream.child(i), database, f"{i % RANK_KEYS:032x}") for i in range(n)]

    return draw


def asked(question: Question, world: World) -> ReleasePlan:
    """A question's node, priced on the world's loose terms."""
    changed = {
        "noise": question.noise,
        "mechanisms": "clipped" if question.clips else "paper",
        "partition_selection": "pruned" if question.pruned else "sips",
    }
    privacy = world.privacy.model_copy(update=changed)
    node = world.node(question.sql, question.clips)
    return plan_release(written_once(node), terms(privacy, {}), KEYS)


def released(one: ReleasePlan, stream: Stream, database: Database, rank_key: str) -> Drawn:
    """One release, from the database's rows to the numbers that leave."""
    result = one.release(lambda query: database.fetch(query, rank_key), stream)
    columns = [*result.keys, *(m.values for m in result.measured.values())]
    return Drawn(tuple(zip(*columns, strict=True)), result.cost)


def raw(outcome: Drawn) -> Hashable:
    return outcome.rows


def keys(outcome: Drawn) -> Hashable:
    return frozenset(tuple(v for v in row if isinstance(v, str)) for row in outcome.rows)


def order(outcome: Drawn) -> Hashable:
    return tuple(tuple(v for v in row if isinstance(v, str)) for row in outcome.rows)


def alone(outcome: Drawn) -> Hashable:
    return any(row[0] not in SHARED for row in outcome.rows if isinstance(row[0], str))


def row_count(outcome: Drawn) -> Hashable:
    return len(outcome.rows)


def charged(outcome: Drawn) -> Hashable:
    return str(outcome.cost)


def total(outcome: Drawn) -> Hashable:
    return sum(v for row in outcome.rows for v in row if isinstance(v, int))


VIEWS: Mapping[str, View] = {
    "raw": raw,
    "keys": keys,
    "order": order,
    "a room or hobby of the person alone": alone,
    "row count": row_count,
    "charge": charged,
    "sum": total,
}


def experiment(question: Question, world: World, change: Change = unchanged) -> Experiment:
    """A question on both sides, held against the most that it costs."""
    one = asked(question, world)
    assert one.name == question.mechanism, one.name
    eps, delta = one.terms.settings.eps_per, one.terms.settings.delta_per
    promise = bounded_range if question.noise == "laplace" else concentrated
    claims: tuple[Claim, ...] = promise(one.cost_at_most, eps, delta)
    sides = drawn(question, world, 0, change), drawn(question, world, 1, change)
    return Experiment(question.mechanism, question.sql, claims, sides, VIEWS, question.samples)


def service_experiment(world: World) -> Experiment:
    """Counts through the proxies themselves, a new statement a draw: front, ledger, stored keys and all."""
    privacy = world.services[0].config.privacy
    one_unit = Cost(Fraction(1), Fraction(0))
    claims = concentrated(one_unit, privacy.epsilon_per, privacy.delta_per)

    def side(number: int) -> Draw:
        def draw(_: Stream, n: int) -> list[Any]:
            rows = (world.ask(number, BY_SERVICE.format(-1 - i)) for i in range(n))
            return [int(row[0] or 0) for ((*row,),) in rows]

        return draw

    def value(outcome: Any) -> Hashable:
        return int(outcome)

    sides = side(0), side(1)
    return Experiment(
        "Service", "COUNT(*), a statement a draw", claims, sides, {"count": value}, SERVICE_SAMPLES
    )


def cases(world: World) -> tuple[Experiment, ...]:
    """Everything that must pass, with draws from the proxies themselves where there are two."""
    whole = (service_experiment(world),) if len(world.services) == 2 else ()
    return (*(experiment(question, world) for question in QUESTIONS), *whole)


def mutants(world: World) -> tuple[Experiment, ...]:
    """Everything that must not."""
    bounded = [q for q in QUESTIONS if q.mechanism in ("UnkGauss", "UnkLap")]
    weighted = [q for q in QUESTIONS if q.mechanism.startswith("WeightedGaussian") and "visits" in q.sql]
    clipped = [q for q in QUESTIONS if q.mechanism == "UnitClip"]
    return (
        *(experiment(question, world, bounds_unenforced) for question in bounded),
        *(experiment(question, world, weights_unenforced) for question in weighted),
        *(experiment(question, world, clips_unenforced) for question in clipped),
    )


def found(world: World, effort: int) -> tuple[list[Finding], list[Finding]]:
    """What is found of the cases and of the mutants."""
    listed = cases(world)
    levels = Levels(PRIVACY_LEVEL / sum(case.privacy_looks for case in listed), 0.0)
    return [c.run(levels, effort) for c in listed], [m.run(levels, effort) for m in mutants(world)]
