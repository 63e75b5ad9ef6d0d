"""Sequences of statements of one account on neighbouring databases: what is bought, and what is implied by it.

All answers together tell no more than the price of those that were bought.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import repeat

import numpy as np
import numpy.typing as npt

from budget.account import Charge, OwnedMeasure
from budget.accounting import information_rho
from dpproxy.engine.implied import Rows, Sought, implied, measures, sought
from dpproxy.engine.optimizer import plan_release
from dpproxy.engine.options import terms
from dpproxy.engine.release_plan import ReleasePlan
from dpproxy.engine.result.released_table import ReleasedTable
from mechanisms.histogram import Cost
from mechanisms.randomness import Stream
from tests.audit.experiment import Draw
from tests.audit.finding import PRIVACY_LEVEL, Finding, Levels
from tests.audit.sql_cases import KEYS, Database, written_once
from tests.audit.sql_world import World
from tests.mechanisms.goodness import stream

NOW = dt.datetime(2026, 11, 26, tzinfo=dt.UTC)
Array = npt.NDArray[np.float64]
Answers = tuple[tuple[int, ...], ...]
"""The numbers of each statement's answer."""


@dataclass(frozen=True)
class Statements:
    """What an account buys, and what it asks then for nothing; `joined`: for what it buys only what is missing."""

    bought: tuple[str, ...]
    asked: tuple[str, ...]
    joined: tuple[str, ...] = ()


SEQUENCES = (
    Statements(
        ("SELECT town, COUNT(*) FROM people GROUP BY town",),
        (
            "SELECT COUNT(*) FROM people WHERE town = 'Ulm'",
            "SELECT COUNT(*) FROM people WHERE NOT town = 'Bonn'",
            "SELECT COUNT(*) FROM people WHERE town IN ('Ulm', 'Bonn', 'Jena')",
            "SELECT COUNT(*) FILTER (WHERE town = 'Ulm') FROM people",
            "SELECT SUM(CASE WHEN town < 'V' THEN 1 ELSE 0 END) FROM people",
            "SELECT upper(town), COUNT(*) FROM people GROUP BY 1",
            "SELECT town = 'Ulm', COUNT(*) FROM people GROUP BY 1",
        ),
        ("SELECT COUNT(*) FROM people WHERE town <> 'Jena'", "SELECT COUNT(*) FROM people"),
    ),
    Statements(
        ("SELECT day, COUNT(*) FROM visits GROUP BY day",),
        (
            "SELECT COUNT(*) FROM visits",
            "SELECT COUNT(*) FROM visits WHERE day < '2024-01-03'",
            "SELECT COUNT(*) FROM visits WHERE day > '2024-01-01'",
            "SELECT COUNT(*) FILTER (WHERE day <> '2024-01-02') FROM visits",
            "SELECT extract(day from day)::int % 2, COUNT(*) FROM visits GROUP BY 1",
            "SELECT date_trunc('month', day), COUNT(*) FROM visits GROUP BY 1",
        ),
    ),
)


SAMPLES = 30
"""How many draws the short audit takes from each side."""


def planned(world: World, sql: str) -> ReleasePlan:
    """A statement, priced on the world's loose terms."""
    privacy = world.privacy.model_copy(update={"mechanisms": "paper"})
    return plan_release(written_once(world.node(sql, clips=False)), terms(privacy, {}), KEYS)


def answers(sequence: Statements, world: World, side: int, *, afresh: bool) -> Draw:
    """Gives the draws of a sequence on one side; `afresh`: what is asked for nothing is drawn, too."""
    database, rows = Database(world, side), cache(world.services[0].front.rows)
    bought = purchases(sequence, world)
    asked = [planned(world, sql) for sql in (*sequence.asked, *sequence.joined)]
    keys = [sought(plan) for plan in asked]
    owned = noted(bought, rows)

    def draw(stream: Stream, n: int) -> list[Answers]:
        return [answered(stream.child(i)) for i in range(n)]

    def answered(stream: Stream) -> Answers:
        released = {
            plan.release_key: plan.release(
                partial(database.fetch, rank_key=""), stream.child("bought", place)
            )
            for place, plan in enumerate(bought)
        }
        if afresh:
            more = (
                plan.release(partial(database.fetch, rank_key=""), stream.child("asked", place))
                for place, plan in enumerate(asked)
            )
            return tuple(map(numbers, (*released.values(), *more)))
        stored = {key: (table.dump(), Charge(0, 0)) for key, table in released.items()}
        return (*map(numbers, released.values()), *map(free, asked, keys, repeat(stored)))

    def free(
        plan: ReleasePlan, keys: Sought, stored: Mapping[bytes, tuple[bytes, Charge]]
    ) -> tuple[int, ...]:
        found = implied(plan, keys, [one for one in owned if one.key in keys], stored.get, rows).whole
        assert found is not None
        return numbers(found.table)

    return draw


def noted(bought: Sequence[ReleasePlan], rows: Rows) -> list[OwnedMeasure]:
    """What the ledger has of these purchases."""
    return [
        OwnedMeasure(key, place, plan.release_key, plan.request_key, groups, NOW)
        for plan in bought
        for found, groups in (measures(plan, rows),)
        for key, place in found.items()
    ]


def purchases(sequence: Statements, world: World) -> list[ReleasePlan]:
    """All that is bought, which no answer decides: they are drawn once to be asked about."""
    bought = [planned(world, sql) for sql in sequence.bought]
    fetch, rows = partial(Database(world, 0).fetch, rank_key=""), world.services[0].front.rows
    for sql in sequence.joined:
        tables = {p.release_key: p.release(fetch, stream("asked about", n)) for n, p in enumerate(bought)}
        stored = {key: (table.dump(), Charge(0, 0)) for key, table in tables.items()}
        plan = planned(world, sql)
        keys = sought(plan)
        owned = [one for one in noted(bought, rows) if one.key in keys]
        found = implied(plan, keys, owned, stored.get, rows).joined()
        assert found is not None
        assert found.rest is not None
        assert found.rest.level < plan.level
        bought += [found.rest, *found.rest.rungs]
    return bought


def numbers(table: ReleasedTable) -> tuple[int, ...]:
    return tuple(value for column in table.measured.values() for value in column.values)


@dataclass(frozen=True)
class Distance:
    """How far apart the answers of two sides are, by their covariance: at most 2 rho, which Gaussian noise attains.

    What no noise covers is infinitely far. The estimate may be five of its standard deviations above that.
    """

    what: str
    sides: tuple[Draw, Draw]
    claimed: float
    mechanism: str = "implied answers"
    privacy_looks: int = 1
    fit_looks: int = 0

    def run(self, levels: Levels, effort: float) -> Finding:
        """Draws both sides and compares."""
        n = round(SAMPLES * effort)
        x, y = (
            np.array(
                [
                    [float(v) for answer in drawn for v in answer]
                    for drawn in side(stream("audit", self.what), n)
                ]
            )
            for side in self.sides
        )
        found, dimensions = distance(x, y)
        spread = math.sqrt(
            2 * self.claimed**2 / (2 * n - dimensions) + 8 * self.claimed / n + 8 * dimensions / n**2
        )
        limit = self.claimed + 5 * spread
        said = f"{found:.3g} in {dimensions} dimensions"
        return Finding(self.mechanism, self.what, f"{self.claimed:.3g}", said, 2 * n, found <= limit)


def distance(x: Array, y: Array) -> tuple[float, int]:
    """An unbiased estimate of the squared Mahalanobis distance of two normal laws of one covariance, which may be
    singular, from as many draws of each; and the rank of the covariance.

    >>> rng = np.random.default_rng(7)
    >>> x, y = (rng.normal(mean, 2, (4000, 1)) * [1, 3] for mean in (0, 1))
    >>> found, dimensions = distance(x, y)
    >>> round(found, 1), dimensions, distance(x, y + [0, 1])[0]
    (0.3, 1, inf)
    """
    n, apart = len(x), y.mean(0) - x.mean(0)
    noise = np.concatenate([x - x.mean(0), y - y.mean(0)]) / math.sqrt(2 * n - 2)
    _, sizes, directions = np.linalg.svd(noise, full_matrices=False)
    covered = sizes > 1e-9 * sizes.max()
    along = directions[covered] @ apart
    if np.linalg.norm(apart - along @ directions[covered]) > 1e-6 * (1 + np.linalg.norm(apart)):
        return math.inf, int(covered.sum())
    dimensions = int(covered.sum())
    square = float(np.sum((along / sizes[covered]) ** 2))
    return square * (2 * n - dimensions - 3) / (2 * n - 2) - 2 * dimensions / n, dimensions


def sequences(world: World, *, afresh: bool = False) -> Iterator[Distance]:
    """Each sequence on both sides, held against the most that its purchases cost."""
    for sequence in SEQUENCES:
        plans = purchases(sequence, world)
        price = Cost.sum(plan.cost_at_most for plan in plans)
        rho = information_rho(plans[0].terms.settings.eps_per, price.information)
        sides = answers(sequence, world, 0, afresh=afresh), answers(sequence, world, 1, afresh=afresh)
        what = f"{'; '.join((*sequence.bought, *sequence.joined))}, and {len(sequence.asked)} more"
        yield Distance(what, sides, 2 * float(rho))


def found(world: World, effort: int) -> tuple[list[Finding], list[Finding]]:
    """What is found of the sequences, and of those that draw what is implied."""
    cases, changed = ([*sequences(world, afresh=afresh)] for afresh in (False, True))
    levels = Levels(PRIVACY_LEVEL / len(cases), 0)
    return [case.run(levels, effort) for case in cases], [mutant.run(levels, effort) for mutant in changed]
