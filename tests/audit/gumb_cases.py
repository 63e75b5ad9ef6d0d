"""UnkGumb: its index step by itself, its release on worst-case neighbours, its law, its order and its price."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np

from mechanisms.histogram import Cost, Histogram
from mechanisms.randomness import Stream
from mechanisms.unknown_domain import UnkGumb
from tests.audit.claims import bounded_range
from tests.audit.experiment import Draw, Experiment
from tests.audit.finding import Check
from tests.audit.fit import Exact, Fit
from tests.audit.neighbours import UNKNOWN_VIEWS, Outcome, Table, changed, released, sum_over
from tests.audit.rare import Rare, newcomers
from tests.mechanisms.goodness import laplace_law, stream
from tests.mechanisms.laws import unk_gumb_law

EPS, DELTA = Fraction(1), Fraction(1, 10)

NO_INDEX = ", no index step"
TABLES: dict[str, tuple[int, int, int, Table, Table]] = {
    "absent/1": (1, 1, 4, {}, {0: 1}),
    "absent/tau": (3, 1, 4, {0: 1}, {0: 1, 1: 3}),
    "+1 on all keys, from nothing": (1, 2, 4, {}, dict.fromkeys(range(5), 1)),
    "+1 on all keys, one less than fetched": (1, 2, 6, {}, dict.fromkeys(range(5), 1)),
    "+1 on all keys": (1, 2, 4, {0: 9, 1: 8, 2: 5, 3: 5}, {0: 10, 1: 9, 2: 6, 3: 6}),
    "+tau on all keys but one": (
        2,
        1,
        3,
        {0: 16, 1: 16, 2: 16, 3: 2},
        {0: 18, 1: 18, 2: 16, 3: 4},
    ),
    "T-1/T": (1, 1, 3, {0: 4, 1: 1}, {0: 5, 1: 1}),
    "ties at d_bar and d_bar+1": (1, 2, 3, dict.fromkeys(range(5), 9), {**dict.fromkeys(range(5), 9), 4: 10}),
    "d_bar full, a new one enters": (1, 1, 3, {0: 12, 1: 9, 2: 9, 3: 9}, {0: 12, 1: 9, 2: 9, 3: 9, 4: 1}),
    "fewer than d_bar+1 keys": (2, 1, 5, {0: 9, 1: 4}, {0: 9, 1: 4, 2: 2}),
    "many at the edge of d_bar": (1, 8, 9, {}, dict.fromkeys(range(8), 1)),
    "many of tau at the edge": (3, 8, 9, {}, dict.fromkeys(range(8), 3)),
}


def gumb(what: str, counts: bool = True, index_step: bool = True) -> Experiment:
    """The most that a call can cost is what any two neighbours may differ by."""
    tau, k, d_bar, left, right = TABLES[what]
    parameters = EPS, DELTA, tau, k, d_bar, counts, index_step
    sides = released(UnkGumb(*parameters), left), released(UnkGumb(*parameters), right)
    claims = bounded_range(UnkGumb(*parameters).cost_at_most, EPS, DELTA)
    views = dict(UNKNOWN_VIEWS)
    if counts:
        views["sum"] = sum_over(changed(left, right))
    else:
        del views["low bits"]
    shown = ("" if counts else ", no counts") + ("" if index_step else NO_INDEX)
    return Experiment("UnkGumb", what + shown, claims, sides, views)


NEWS = (
    "absent/1",
    "absent/tau",
    "+1 on all keys, one less than fetched",
    "many at the edge of d_bar",
    "many of tau at the edge",
)


def news(what: str, kind: type[UnkGumb] = UnkGumb, index_step: bool = True) -> Rare:
    """What only the second table has comes out with delta_per at most, for any number of keys."""
    tau, k, d_bar, left, right = TABLES[what]
    new = frozenset(right) - frozenset(left)
    draw = released(kind(EPS, DELTA, tau, k, d_bar, False, index_step), right)
    return newcomers("UnkGumb", what if index_step else what + NO_INDEX, float(DELTA), draw, new)


ROWS = {
    "all but one row move": ((9,) * 20, (*(10,) * 19, 9)),
    "one row moves": ((9,) * 20, (10, *(9,) * 19)),
}


def index_step(what: str, kind: type[UnkGumb] = UnkGumb) -> Experiment:
    """k_bar, which never leaves, by itself: one bounded range step. Rows 101 to 120 after 100 far above."""
    mechanism = kind(EPS, DELTA, 1, 100, 119, False)

    def side(rows: Sequence[int]) -> Draw:
        counts = np.array([30] * 100 + list(rows), dtype=np.int64)
        return lambda stream, n: [mechanism._index(counts, stream.child(i)) for i in range(n)]

    left, right = ROWS[what]
    claims = bounded_range(Cost(Fraction(1), Fraction(0)), EPS, Fraction(0))
    return Experiment(
        "UnkGumb", f"index step, {what}", claims, (side(left), side(right)), {"k_bar": lambda o: o}, 8000
    )


LAW_TABLE: Table = dict(enumerate((17, 14, 14, 3, 2, 1)))
LAW = UnkGumb(EPS, DELTA, tau=2, k=2, d_bar=5, counts=True)


@lru_cache
def _law() -> dict[tuple[int, ...], float]:
    return unk_gumb_law(list(LAW_TABLE.values()), LAW, lambda k_bar: k_bar / float(DELTA))


def places(kind: type[UnkGumb] = UnkGumb) -> Fit:
    """Which keys come out in which order, k_bar summed over."""
    mechanism = kind(EPS, DELTA, 2, 2, 5, True)

    def draw(stream: Stream, n: int) -> list[tuple[int, ...]]:
        outcomes = released(mechanism, LAW_TABLE)(stream, n)
        return [tuple(label for label, _ in outcome.rows) for outcome in outcomes]

    return Fit("UnkGumb", "keys and order", "enumerated", draw, _law, 4000)


def pairs(kind: type[UnkGumb] = UnkGumb) -> Fit:
    """Which of two elements comes first, in many pairs at once, all far above bottom."""
    gap, tau = 4, 2

    def draw(stream: Stream, n: int) -> list[int]:
        counts = np.append(np.repeat([10**6 + gap, 10**6], n), [0, 0]).astype(np.int64)
        mechanism = kind(EPS, DELTA, tau, 2 * n, 2 * n + 1, False)
        release = mechanism.release(Histogram(counts, complete=False), stream)
        place = np.empty(2 * n, dtype=np.int64)
        place[release.indices] = np.arange(2 * n)
        return [int(first) for first in place[:n] < place[n:]]

    likely = 1 / (1 + math.exp(-gap / tau))
    law = {1: likely, 0: 1 - likely}
    return Fit("UnkGumb", "order of pairs", "exp(h eps/tau)", draw, lambda: law, 60_000)


def shown_counts(kind: type[UnkGumb] = UnkGumb) -> Fit:
    """The noise on the counts that are shown, of elements far above bottom: Lap(2 tau/eps_per)."""

    def draw(stream: Stream, n: int) -> list[int]:
        counts = np.append(10**6 + np.arange(n)[::-1] % 1000, [0, 0])
        counts = np.sort(counts)[::-1].astype(np.int64)
        mechanism = kind(EPS, DELTA, 2, n, n + 1, True)
        release = mechanism.release(Histogram(counts, complete=False), stream)
        assert release.values is not None
        return [int(x) for x in release.values - counts[release.indices]]

    return Fit("UnkGumb", "noise on counts", "Lap(4)", draw, lambda: laplace_law(4.0), 60_000)


def price(counts: bool, kind: type[UnkGumb] = UnkGumb, index_step: bool = True) -> Exact:
    """2|o| - [o ends in bottom], |o| without counts, 1 more for the index step; o counts bottom."""
    mechanism = kind(EPS, DELTA, 2, 2, 5, counts, index_step)

    def due(outcome: Outcome) -> Cost:
        bottom = int(len(outcome.rows) < mechanism.k)
        size = len(outcome.rows) + bottom
        shown = len(outcome.rows) if counts else 0
        return Cost(Fraction(size + shown + index_step), Fraction(1), size + index_step + Fraction(shown, 2))

    def compute() -> tuple[str, bool]:
        outcomes = released(mechanism, LAW_TABLE)(stream("audit", "price", str(counts)), 300)
        short = [o for o in outcomes if o.cost != due(o)]
        sizes = sorted({len(o.rows) for o in outcomes})
        return f"{len(short)} of 300 differ, {sizes} rows", not short and sizes == [0, 1, 2]

    what = ("price with counts" if counts else "price without counts") + ("" if index_step else NO_INDEX)
    formula = ("2|o| - [bottom]" if counts else "|o|") + (" + 1" if index_step else "")
    return Exact("UnkGumb", what, formula, compute)


CASES: tuple[Check, ...] = (
    *(gumb(what) for what in TABLES),
    *(gumb(what, counts=False) for what in ("+1 on all keys, from nothing", "+tau on all keys but one")),
    *(news(what) for what in NEWS),
    *(index_step(what) for what in ROWS),
    places(),
    pairs(),
    shown_counts(),
    price(True),
    price(False),
    *(gumb(what, index_step=False) for what in ("+1 on all keys", "+tau on all keys but one")),
    *(news(what, index_step=False) for what in ("many at the edge of d_bar", "many of tau at the edge")),
    price(True, index_step=False),
)
