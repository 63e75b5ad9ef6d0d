"""Parts of the product, each wrong in one place, with a statement at which record and replay has to notice.

Statements end in WHERE, to which a condition is added that makes each a question of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np

from dpproxy.backends.base import BackendError
from dpproxy.backends.duckdb.adapter import DuckDBSlot
from dpproxy.engine import purchase
from dpproxy.engine.measurement.base import SumMeasurement
from dpproxy.engine.measurement.distinct import DistinctMeter
from dpproxy.engine.release_plan import ReleasePlan
from dpproxy.engine.selection.groups import Measured
from mechanisms import known_domain, randomness
from mechanisms.continual import RunningCounter
from mechanisms.correlated_counts import CorrelatedCounts
from mechanisms.distinct_curve import DistinctCountCurve
from mechanisms.histogram import Cost
from mechanisms.known_domain import KnownGauss, KnownGumb
from mechanisms.partition_selection import WeightRound
from mechanisms.quantile import QuantileChoice
from mechanisms.randomness import Stream
from mechanisms.unit_clip import UnitClip
from mechanisms.unknown_domain import UnkGauss, _Restricted
from rewriter.plan import Kept
from tests.replay.world import BUDGET

COUNT = "SELECT COUNT(*) FROM people"
BY_TOWN = "SELECT town, COUNT(*) FROM people GROUP BY town"
BY_ROOM = "SELECT room, COUNT(DISTINCT person_id) FROM visits GROUP BY room"
BY_DAY = "SELECT day, COUNT(DISTINCT person_id) FROM visits GROUP BY day"
BY_KIND = "SELECT kind, COUNT(DISTINCT person_id) FROM hobbies GROUP BY kind"
TOP = (
    "SELECT kind, COUNT(DISTINCT person_id) FROM hobbies AND (person_id > 4 OR kind = 'c') GROUP BY kind"
    " ORDER BY 2 DESC LIMIT 3"
)
HOBBIES = "SELECT kind, COUNT(DISTINCT hobby) FROM hobbies GROUP BY kind"
CUBE = "SELECT kind, hobby = 'hobby 1', COUNT(DISTINCT person_id) FROM hobbies GROUP BY CUBE (1, 2)"
ROWS = "SELECT COUNT(*) FROM visits"
SECONDS = "SELECT SUM(seconds) FROM visits"
MEDIAN = "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY LEAST(GREATEST(seconds, 0), 60)) FROM visits"
ITEMS = "SELECT COUNT(DISTINCT hobby) FROM hobbies"
NAMES = "SELECT DISTINCT hobby FROM hobbies"
RUNNING = (
    "SELECT room, day, SUM(COUNT(*)) OVER (PARTITION BY room ORDER BY day) FROM visits GROUP BY room, day"
)
GUARDED = "SELECT COUNT(*) FROM visits AND seconds * 100000 < 7"
BY_HOBBY = "SELECT hobby, COUNT(DISTINCT person_id) FROM hobbies GROUP BY hobby"
TERMS = f"[privacy]\nepsilon_per = 3\ndelta_per = 1e-9\nquantile_bins = 16\nmax_items_per_unit = 3\n{BUDGET}"


@dataclass(frozen=True)
class Mutant:
    """What is wrong, where it is put, what stands there then, given what stood there, and what to ask."""

    name: str
    owner: Any
    attribute: str
    made: Callable[[Any], Any]
    sql: str

    @contextmanager
    def active(self) -> Iterator[None]:
        """The product with the fault."""
        original = vars(self.owner)[self.attribute]
        with patch.object(self.owner, self.attribute, self.made(original)):
            yield

    def asked(self, number: int) -> str:
        """The statement, as a question that nobody has asked before."""
        condition = f"WHERE person_id > {-1 - number}"
        return re.sub(r"FROM (people|visits|hobbies)", rf"FROM \1 {condition}", self.sql, count=1)


def scaled(factor: Fraction) -> Callable[[Any], Any]:
    """A property times a factor."""

    def made(original: Any) -> Any:
        read: Any = original.fget if isinstance(original, property) else original.func
        return property(lambda self: read(self) * factor)

    return made


def unreleased(change: Callable[[Any, Any, Any], Any]) -> Callable[[Any], Any]:
    """A release of (mechanism, histogram, release), changed by the true counts."""

    def made(original: Any) -> Any:
        def release(self: Any, histogram: Any, stream: Stream) -> Any:
            return change(self, histogram, original(self, histogram, stream))

        return release

    return made


def measured(change: Callable[[Measured, int], Measured]) -> Callable[[Any], Any]:
    """What a measurement gives, changed by a number that the data decide: the sum of what was fetched."""

    def made(original: Any) -> Any:
        def measure(self: Any, cells: Any, fetch: Any, stream: Stream) -> Measured:
            total = 0

            def counted(query: Any) -> Any:
                nonlocal total
                fetched = fetch(query)
                total += int(fetched.counts(1).sum())
                return fetched

            return change(original(self, cells, counted, stream), total)

        return measure

    return made


def written(right: str, wrong: str) -> Callable[[Any], Any]:
    """Another query than the one that was written."""

    def made(original: Any) -> Any:
        def fetch(self: Any, query: Any, *rest: Any) -> Any:
            # DuckDB runs what is kept of a query in place of it.
            kept = query.kept and Kept(
                re.sub(right, wrong, query.kept.sql), re.sub(right, wrong, query.kept.rest)
            )
            return original(self, replace(query, sql=re.sub(right, wrong, query.sql), kept=kept), *rest)

        return fetch

    return made


def capped(most: int) -> Callable[[Any], Any]:
    """An error where more rows come than are taken."""

    def made(original: Any) -> Any:
        def fetch(self: Any, *given: Any) -> Any:
            fetched = original(self, *given)
            if fetched.rows > most:
                raise BackendError
            return fetched

        return fetch

    return made


def _drawn(stream: Stream, variance: Fraction, n: int) -> Any:
    """The module's own noise, which a recorder has replaced by then."""
    return vars(known_domain)["discrete_gaussian"](stream, variance, n)


def one_draw(original: Any) -> Any:
    """One draw for all counts."""

    def release(self: KnownGauss, histogram: Any, stream: Stream) -> Any:
        drawn = _drawn(stream.child("one"), self.sigma_squared, 1)
        return replace(original(self, histogram, stream), values=histogram.counts + drawn)

    return release


def read_twice(original: Any) -> Any:
    """The words of the noise once more, by a stream that is made of the same key."""

    def release(self: KnownGauss, histogram: Any, stream: Stream) -> Any:
        Stream(stream._key).child("counts").words(8)
        return original(self, histogram, stream)

    return release


def own_seed(original: Any) -> Any:
    """Noise of a stream that is not of this reservation."""

    def release(self: KnownGauss, histogram: Any, stream: Stream) -> Any:
        return original(self, histogram, Stream(bytes(32)))

    return release


def one_seed(original: Any) -> Any:
    """The same seed for every reservation."""
    return lambda self, key, reservation: randomness.seed(key, b"", bytes(16))


def unseen(mechanism: Any, histogram: Any, release: Any) -> Any:
    """One group more than those above the threshold: the smallest that there is."""
    left = np.flatnonzero(histogram.counts)[-1:]
    values = histogram.counts[left]
    return replace(
        release,
        indices=np.append(release.indices, left).astype(np.int64),
        values=np.append(release.values, values),
    )


def by_true_count(mechanism: Any, histogram: Any, release: Any) -> Any:
    """What came out in the order of true counts."""
    order = np.lexsort((release.indices, -histogram.counts[release.indices]))
    return replace(release, indices=release.indices[order])


def empty_as_they_are(mechanism: Any, histogram: Any, release: Any) -> Any:
    """No noise on empty cells."""
    return replace(release, values=np.where(histogram.counts > 0, release.values, 0))


def without_noise(original: Any) -> Any:
    """Names by true weights."""

    def sort_out(self: WeightRound, weights: Any, stream: Stream) -> Any:
        out = weights > self.threshold
        return np.flatnonzero(out), np.flatnonzero(~out & False)

    return sort_out


def longest(original: Any) -> Any:
    """The length of the longest vector."""

    def choose(self: UnitClip, units: Any, stream: Stream) -> int | None:
        return self.lengths[int(np.flatnonzero(units)[-1])]

    return choose


def longer_length(original: Any) -> Any:
    """A longer length than was chosen where many units are fetched."""

    def choose(self: UnitClip, units: Any, stream: Stream) -> int | None:
        length = original(self, units, stream)
        return (
            None
            if length is None
            else self.lengths[min(self.lengths.index(length) + int(units.sum()) % 7, 20)]
        )

    return choose


def asked_twice(original: Any) -> Any:
    """One more query where a number that was fetched is odd."""

    def measure(self: SumMeasurement, cells: Any, fetch: Any, stream: Stream) -> Measured:
        if int(fetch(self.queries(cells)[0]).counts(1).sum()) % 2:
            fetch(self.queries(cells)[0])
        found: Measured = original(self, cells, fetch, stream)
        return found

    return measure


def raising(original: Any) -> Any:
    """An error where a count is odd."""

    def release(self: KnownGauss, histogram: Any, stream: Stream) -> Any:
        if int(histogram.counts.sum()) % 2:
            raise ValueError
        return original(self, histogram, stream)

    return release


def more_draws(original: Any) -> Any:
    """As many draws more as there are rows."""

    def release(self: KnownGauss, histogram: Any, stream: Stream) -> Any:
        rows = int(histogram.counts.sum())
        np.zeros(rows, dtype=np.int64) + _drawn(stream.child("more"), self.sigma_squared, rows)
        return original(self, histogram, stream)

    return release


def for_one_group(original: Any) -> Any:
    """The price of one group for all."""
    return lambda self, groups: original(self, min(groups, 1))


def twice(original: Any) -> Any:
    """Everything twice."""
    return lambda *arguments: 2 * np.array(original(*arguments), dtype=object)


def twice_in_integers(original: Any) -> Any:
    """Everything twice, as 64-bit integers."""
    return lambda *arguments: (2 * original(*arguments)).astype(np.int64)


QUARTER, HALF = Fraction(1, 4), Fraction(1, 2)
MUTANTS = (
    Mutant(
        "noise for a sensitivity that is a tenth too small",
        KnownGauss,
        "sigma_squared",
        scaled(Fraction(81, 100)),
        COUNT,
    ),
    Mutant("cheaper common noise", CorrelatedCounts, "units_variance", scaled(QUARTER), BY_KIND),
    Mutant("cheaper noise of cells", CorrelatedCounts, "cell_variance", scaled(QUARTER), BY_KIND),
    Mutant("half the variance over an unknown domain", UnkGauss, "sigma_squared", scaled(HALF), BY_ROOM),
    Mutant(
        "noise for the whole price beside a choice", UnitClip, "sigma_squared", scaled(Fraction(3, 4)), ROWS
    ),
    Mutant("scores that move twice", UnitClip, "scores", twice_in_integers, ROWS),
    Mutant("half the scale of a quantile's choice", QuantileChoice, "beta", scaled(HALF), MEDIAN),
    Mutant("steps that are twice as large", DistinctCountCurve, "steps", twice, ITEMS),
    Mutant(
        "a sixteenth of the variance of running counts",
        RunningCounter,
        "changes",
        scaled(Fraction(1, 64)),
        RUNNING,
    ),
    Mutant("one unit for all groups' items", DistinctMeter, "cost", for_one_group, HOBBIES),
    Mutant("one draw for all counts", KnownGauss, "release", one_draw, BY_TOWN),
    Mutant("words read twice", KnownGauss, "release", read_twice, BY_TOWN),
    Mutant("noise of no reservation", KnownGauss, "release", own_seed, BY_TOWN),
    Mutant("one seed for all reservations", ReleasePlan, "noise", one_seed, CUBE),
    Mutant("a group below the threshold", _Restricted, "release", unreleased(unseen), BY_ROOM),
    Mutant("an order of true counts", KnownGumb, "release", unreleased(by_true_count), TOP),
    Mutant("no noise on empty cells", CorrelatedCounts, "release", unreleased(empty_as_they_are), BY_KIND),
    Mutant("names without noise", WeightRound, "sort_out", without_noise, NAMES),
    Mutant("the length of the longest vector", UnitClip, "choose", longest, ROWS),
    Mutant("a length by the number of units", UnitClip, "choose", longer_length, ROWS),
    Mutant("a query more by the data", SumMeasurement, "measure", asked_twice, BY_TOWN),
    Mutant("a guard that is left out", DuckDBSlot, "fetch", written(r"\bTRY\(", "("), GUARDED),
    Mutant("a cap on rows that one unit decides", DuckDBSlot, "fetch", capped(5), BY_HOBBY),
    Mutant("an error by the data", KnownGauss, "release", raising, BY_TOWN),
    Mutant("draws by the number of rows", KnownGauss, "release", more_draws, COUNT),
    Mutant(
        "a note with a true number",
        SumMeasurement,
        "measure",
        measured(
            lambda m, total: replace(
                m, columns={p: replace(c, notes=(str(total),)) for p, c in m.columns.items()}
            )
        ),
        BY_TOWN,
    ),
    Mutant(
        "a price by the data",
        SumMeasurement,
        "measure",
        measured(lambda m, total: replace(m, cost=Cost(m.cost.information - total % 2, m.cost.calls))),
        BY_TOWN,
    ),
    Mutant(
        "half of the price is charged",
        purchase,
        "charge",
        lambda o: lambda cost: o(Cost(cost.information / 2, cost.calls)),
        BY_TOWN,
    ),
    Mutant(
        "units that count as often as they have rows",
        DuckDBSlot,
        "fetch",
        written(r"LEAST\(COUNT\(\*\), 1\)", "COUNT(*)"),
        BY_ROOM,
    ),
    Mutant("vectors that are not clipped", DuckDBSlot, "fetch", written(r"n\.q0 <= \d+", "TRUE"), ROWS),
    Mutant(
        "clamps that are missing",
        DuckDBSlot,
        "fetch",
        written(r"THEN LEAST\(GREATEST\(SUM", "THEN GREATEST(GREATEST(SUM"),
        SECONDS,
    ),
    Mutant(
        "rows of a quantile that are not cut",
        DuckDBSlot,
        "fetch",
        written(r"GREATEST\(n\.n, \d+\)", "4"),
        MEDIAN,
    ),
    Mutant("groups of a unit that are not cut", DuckDBSlot, "fetch", written(r"q\._n <= 2", "TRUE"), BY_ROOM),
)
