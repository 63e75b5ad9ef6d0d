"""UnitClip and UnitMoments: one more unit, long or short; lengths of vectors, laws and prices in exact numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from itertools import product
from types import ModuleType
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from dpproxy.engine.precision import multipliers
from dpproxy.engine.selection.groups import MeasuredColumn
from mechanisms import quantile, unit_clip
from mechanisms.histogram import Cost, Counts
from mechanisms.randomness import Stream
from mechanisms.unit_clip import LARGEST_TOTAL, UnitClip, clipped
from mechanisms.unit_moments import PLACES, Centre, UnitMoments
from tests.audit.claims import bounded_range, concentrated
from tests.audit.experiment import Draw, Experiment
from tests.audit.finding import Check
from tests.audit.fit import Exact, Fit
from tests.mechanisms.goodness import gaussian_law, stream

EPS = Fraction(5, 2)
"""At one unit of price the scale of the choice is 4/5 and m0 is 2 for one cell, 3 and 3 for two."""
FREE = Fraction(0)
ANCHOR = 1 << 38
"""So long that there are nine candidates."""
Kind = type[UnitClip]
Vector = tuple[int, ...]
Clipping = Callable[[Sequence[Vector], int, int], Counts]
"""From units' vectors, the length and the scale, the sums that are noised."""


def clip_of(kind: Kind = UnitClip, **changes: Any) -> UnitClip:
    return kind(**{"eps_per": EPS, "anchor": ANCHOR, "cells": 1, **changes})


def each_clipped(vectors: Sequence[Vector], length: int, scale: int) -> Counts:
    """Each unit's vector is clipped and rounded by itself."""
    parts = np.zeros(len(vectors[0]) if vectors else 1, dtype=np.int64)
    for vector in vectors:
        parts += clipped(np.array(vector, dtype=np.int64), length, scale)
    return parts


def by_length(clip: UnitClip, vectors: Sequence[Vector]) -> Counts:
    """How many units have a vector of each bin; one of length 0 is in none."""
    counts = np.zeros(clip.bins, dtype=np.int64)
    for vector in vectors:
        square = sum(y * y for y in vector)
        if square:
            counts[sum(length**2 < square for length in clip.lengths)] += 1
    return counts


# What is drawn from, read off the calls of the samplers.


@contextmanager
def recorded(module: ModuleType, name: str) -> Iterator[list[tuple[Any, ...]]]:
    """The arguments with which a module calls a sampler, which draws nothing meanwhile."""
    calls: list[tuple[Any, ...]] = []

    def sampler(*arguments: Any) -> NDArray[np.int64]:
        calls.append(arguments)
        return np.zeros(int(arguments[-1]) if name == "discrete_gaussian" else 1, dtype=np.int64)

    with patch.object(module, name, sampler):
        yield calls


def choice_weights(clip: UnitClip, units: Counts) -> NDArray[np.float64]:
    """The logarithm of each candidate's weight, "none" last."""
    with recorded(unit_clip, "gumbel_order") as calls:
        clip.choose(units, stream())
    ((_, scores, beta, _, weights),) = calls
    return np.array([float(score / beta) for score in scores.tolist()]) + [math.log(w) for w in weights]


def centre_weights(moments: UnitMoments, units: Counts) -> NDArray[np.float64]:
    """The logarithm of each centre's weight."""
    with recorded(quantile, "gumbel_order") as calls:
        moments.choose_centre(np.arange(-PLACES, PLACES + 1), units, stream())
    ((_, scores, beta, _),) = calls
    return np.asarray(scores / float(beta))


def noise_variance(clip: UnitClip, length: int) -> Fraction:
    """sigma^2 of the noise on sums, in units of 1/K squared."""
    with recorded(unit_clip, "discrete_gaussian") as calls:
        clip.release(np.zeros(clip.cells, dtype=np.int64), length, stream())
    return Fraction(calls[0][1])


def widest(
    weights: Callable[[Counts], NDArray[np.float64]], size: int, places: Sequence[int], most: int
) -> float:
    """The widest interval of log-likelihood ratios when one unit comes to one place: over all data of up to `most`
    units in each of a few places."""

    def data(counts: Sequence[int]) -> Counts:
        found = np.zeros(size, dtype=np.int64)
        found[list(places)] = counts
        return found

    known = {counts: weights(data(counts)) for counts in product(range(most + 2), repeat=len(places))}
    widths = [0.0]
    for counts, before in known.items():
        for place, count in enumerate(counts):
            if count <= most:
                moved = known[(*counts[:place], count + 1, *counts[place + 1 :])] - before
                widths.append(float(moved.max() - moved.min()))
    return max(widths)


def choice_range(clip: UnitClip) -> float:
    """Over the first bin, one in the middle, the last candidate's and the one above it."""
    places = [0, clip.bins // 2, clip.bins - 2, clip.bins - 1]
    return widest(partial(choice_weights, clip), clip.bins, places, clip.allowed + 1)


def spent(name: str, what: str, due: Callable[[], list[tuple[float, float]]]) -> Exact:
    """Pairs of rho that is spent and rho that is charged: never more, and not much less."""

    def compute() -> tuple[str, bool]:
        shares = [rho / charged if charged else math.inf for rho, charged in due()]
        found = ", ".join(f"{share:.6f}" for share in shares)
        return f"{found} of it", all(0.9999 < share < 1 + 1e-9 for share in shares)

    return Exact(name, what, "all of the price", compute)


def rho(eps_per: Fraction, cost: Cost) -> float:
    """A price in rho."""
    return float(cost.information * eps_per**2 / 8)


CELLS: dict[str, dict[str, Any]] = {
    "one cell": {},
    "two cells": {"groups": 2},
    "in one of two cells": {"groups": 2, "alone": True},
    "ratios of one cell": {"ratios": True},
    "ratios of two cells": {"groups": 2, "ratios": True},
}


def choice_loss(cells: str, kind: Kind = UnitClip) -> Exact:
    """The bounded range of the choice, squared and by 8, is what is charged where it comes to none."""

    def due() -> list[tuple[float, float]]:
        clips = [clip_of(kind, **CELLS[cells], price=price) for price in (Fraction(1), Fraction(4))]
        return [(choice_range(clip) ** 2 / 8, rho(EPS, clip.cost_of_choice)) for clip in clips]

    return spent("UnitClip", f"every pair of a grid, {cells}", due)


def found_groups(kind: Kind = UnitClip) -> Exact:
    """One unit brings groups of its own, as many as it likes: the choice knows of one more unit and of no groups."""

    def compute() -> tuple[str, bool]:
        few, many = clip_of(kind, cells=2), clip_of(kind, cells=40)
        widths = []
        for count in range(12):
            units = np.zeros(few.bins, dtype=np.int64)
            units[0], units[4] = 6, count
            moved = choice_weights(many, units + np.eye(few.bins, dtype=np.int64)[4])
            moved -= choice_weights(few, units)
            widths.append(float(moved.max() - moved.min()))
        allowed = float(EPS) * math.sqrt(0.25)
        return f"range {max(widths):.4f}", 0.999 * allowed < max(widths) < allowed + 1e-9

    return Exact("UnitClip", "a unit with groups of its own", "range 5/4", compute)


def price(length: int | None, kind: Kind = UnitClip) -> Exact:
    """Choice and noise together, or the noise alone of a length that was paid for."""

    def due() -> list[tuple[float, float]]:
        pairs = []
        for units in (Fraction(1, 4), Fraction(1), Fraction(16)):
            clip = clip_of(kind, price=units, length=length)
            used = length or clip.lengths[1]
            noise = float((clip.scale * used) ** 2 / (2 * noise_variance(clip, used)))
            choice = 0.0 if length else choice_range(clip) ** 2 / 8
            pairs.append((noise + choice, rho(EPS, clip.cost_at_most)))
        return pairs

    what = "a length chosen" if length is None else "a length paid for before"
    return spent("UnitClip", f"price, {what}", due)


# Vectors of units, clipped: what one unit adds to the sums.


def worlds() -> Iterator[tuple[list[Vector], int, int]]:
    """Units' vectors, the length and the scale: few cells and many, short and long, at ordinary and extreme prices."""
    random = np.random.default_rng(11)
    usual = UnitClip(eps_per=Fraction(3, 20), anchor=1, cells=1)
    dear = UnitClip(eps_per=Fraction(16), anchor=1024, cells=1, price=Fraction(4096))
    for cells in (1, 3, 40):
        for clip, length in [(usual, 1), (usual, 5), (usual, usual.lengths[40]), (dear, dear.lengths[-1])]:
            sizes = np.exp2(random.uniform(-1, 2, (12, cells))) * length
            totals = np.minimum(sizes, LARGEST_TOTAL).astype(np.int64) * random.choice(
                [-1, 1, 1], (12, cells)
            )
            vectors: list[Vector] = [tuple(row) for row in totals.tolist()]
            vectors.append(tuple([LARGEST_TOTAL] * cells))
            vectors.append((length, *[0] * (cells - 1)))
            vectors.append(tuple([0] * cells))
            yield vectors, length, clip.scale


def longest_move(
    data: Sequence[tuple[list[Vector], int, int]], clipping: Clipping
) -> tuple[Fraction, Fraction]:
    """The square of the longest change of the sums when a unit leaves, by (K C)^2, and the least of these by world."""
    squares = []
    for vectors, length, scale in data:
        whole = clipping(vectors, length, scale).tolist()
        moves = []
        for place in range(len(vectors)):
            rest = clipping([*vectors[:place], *vectors[place + 1 :]], length, scale).tolist()
            moves.append(sum((a - b) ** 2 for a, b in zip(whole, rest, strict=True)))
        squares.append(Fraction(max(moves), (scale * length) ** 2))
    return max(squares), min(squares)


def vectors_length(clipping: Clipping = each_clipped) -> Exact:
    """Take each unit out of the data: sums change by a vector of length K C at most, in whole numbers."""

    def compute() -> tuple[str, bool]:
        longest, least = longest_move(list(worlds()), clipping)
        found = f"K C (1{float(longest - 1):+.1e})"
        return found, longest <= 1 and least > Fraction(9, 10)

    return Exact("UnitClip", "a unit's vector before noise", "l2 at most K C", compute)


Weighting = Callable[[Sequence[Vector], Vector, int, int], Counts]
"""From units' vectors, the multiplier of each cell, the length and the scale, the sums that are noised."""


def weighted(vectors: Sequence[Vector], by: Vector, length: int, scale: int) -> Counts:
    """Each total is multiplied and clamped, and what comes of it is the vector that is clipped."""
    return each_clipped(
        [
            tuple(max(-LARGEST_TOTAL, min(LARGEST_TOTAL, y * m)) for y, m in zip(v, by, strict=True))
            for v in vectors
        ],
        length,
        scale,
    )


def multipliers_of(cells: int) -> Vector:
    """1 for the first cell and 64 for the last."""
    return tuple(1 + 63 * cell // max(cells - 1, 1) for cell in range(cells))


def weighted_length(weighting: Weighting = weighted) -> Exact:
    """The vector that a unit adds has length K C at most, whatever its cells are multiplied by."""

    def compute() -> tuple[str, bool]:
        by = partial(
            lambda vectors, length, scale: weighting(vectors, multipliers_of(len(vectors[0])), length, scale)
        )
        longest, least = longest_move(list(worlds()), by)
        return f"K C (1{float(longest - 1):+.1e})", longest <= 1 and least > Fraction(9, 10)

    return Exact("UnitClip", "a unit's weighted vector before noise", "l2 at most K C", compute)


def weighted_totals(weighting: Weighting = weighted) -> Exact:
    """Where no vector is clipped, the sums by scale and multiplier are the totals."""

    def compute() -> tuple[str, bool]:
        vectors: list[Vector] = [(3, -4, 0, 900), (7, 7, 7, 7), (0, 0, -1, 0)]
        by, scale = multipliers_of(4), 1024
        sums = weighting(vectors, by, 1 << 20, scale).tolist()
        wrong = sum(
            s != scale * m * sum(of) for s, m, of in zip(sums, by, zip(*vectors, strict=True), strict=True)
        )
        return f"{wrong} of 4 differ", wrong == 0

    return Exact("UnitClip", "weighted totals", "those of the units", compute)


Weigh = Callable[[MeasuredColumn, Counts], Vector]
"""From what the first measurement has released, and the sums themselves, the multipliers of the second."""
LIKE, BESIDE = (4000, 1000, 0, 0, 0), (4000, 1000, 0, 0, 8)
"""Sums without and with a unit whose vector has the length 8."""


def of_released(column: MeasuredColumn, sums: Counts) -> Vector:
    return multipliers(column) or (1,) * len(sums)


def rungs(weigh: Weigh = of_released) -> Experiment:
    """Two measurements, the second with weights that come with it: each costs its price, the weights nothing."""

    def side(sums: Sequence[int]) -> Draw:
        exact = np.array(sums, dtype=np.int64)

        def draw(stream: Stream, n: int) -> list[tuple[tuple[int, ...], Vector, tuple[int, ...]]]:
            # A length of 8, multiplied by 64 at most.
            first, second = (clip_of(anchor=1, cells=n * len(sums), length=length) for length in (8, 8 * 64))
            one = first.release(np.tile(first.scale * exact, n), 8, stream.child("first")).values
            assert one is not None
            released = [tuple(row) for row in one.reshape(n, len(sums)).tolist()]
            by = [weigh(MeasuredColumn(row, (first.stddev(8),) * len(row)), exact) for row in released]
            weighted = second.scale * (exact * np.array(by)).reshape(-1)
            two = second.release(weighted, 8 * 64, stream.child("second")).values
            assert two is not None
            return list(zip(released, by, map(tuple, two.reshape(n, len(sums)).tolist()), strict=True))

        return draw

    views: dict[str, Callable[[Any], Hashable]] = {
        "multiplier": lambda o: o[1][4],
        "the unit's cell": lambda o: (o[0][4] // 4, o[2][4] // (4 * o[1][4])),
    }
    claims = concentrated(Cost(Fraction(2), FREE), EPS, FREE)
    return Experiment(
        "UnitClip", "two rungs, the second weighted", claims, (side(LIKE), side(BESIDE)), views, 6000
    )


# The same by samples: what really comes out.

LENGTHS: dict[str, tuple[tuple[int, ...], int]] = {
    "far above": ((3, 1, 0, 0, 0, 1, 0, 0, 0, 0), 9),
    "at a candidate": ((3, 2, 1, 0, 0, 0, 0, 0, 0, 0), 4),
    "small": ((3, 0, 0, 0, 0, 0, 0, 0, 0, 0), 0),
    "above m0 for the first time": ((11, 0, 0, 0, 0, 0, 2, 0, 0, 0), 6),
    "m0 of them far above": ((9, 0, 0, 0, 0, 0, 0, 0, 0, 2), 9),
}
"""How many units there are by length, and the bin of one more."""


def lengths_of(clip: UnitClip, units: Counts) -> Draw:
    """Draws of the choice, 0 for none."""
    return lambda stream, n: [clip.choose(units, stream.child(i)) or 0 for i in range(n)]


def choice(what: str, cells: str = "one cell", kind: Kind = UnitClip) -> Experiment:
    """One more unit: a step of bounded range eps sqrt(f), f the share of the price."""
    counts, place = LENGTHS[what]
    clip = clip_of(kind, **CELLS[cells])
    units = np.array(counts, dtype=np.int64)
    sides = lengths_of(clip, units), lengths_of(clip, units + np.eye(clip.bins, dtype=np.int64)[place])
    root = Fraction(1, 2) if cells == "one cell" else Fraction(2, 5)
    claims = bounded_range(Cost(Fraction(1), FREE), root * EPS, FREE)
    views: dict[str, Callable[[Any], Hashable]] = {"length": lambda o: o}
    return Experiment("UnitClip", f"choice, a unit {what}, {cells}", claims, sides, views, 2500)


LAW_UNITS = (3, 2, 2, 1, 1, 0, 0, 0, 0, 0)
LAWS: dict[str, Callable[[int], float]] = {
    "one cell": lambda above: max(0, above - 2) / 0.8,
    "two cells": lambda above: (2 * max(0, above - 3) + max(0, 3 - above)) / 3,
}
"""What is taken off the logarithm of a length's weight: m0 is ceil(1.2 sigma) and ceil(2 sigma sqrt(2))."""


def choice_law(cells: str = "two cells", kind: Kind = UnitClip) -> Fit:
    """C_i^-5/2 exp(-(2 max(0, above - m0) + max(0, m0 - above))/s), "none" 64 b^-5/2; one cell has its own."""
    clip = clip_of(kind, **CELLS[cells])

    def draw(stream: Stream, n: int) -> list[int]:
        return list(lengths_of(clip, np.array(LAW_UNITS, dtype=np.int64))(stream, n))

    def law() -> dict[int, float]:
        lengths = [round(ANCHOR * 2 ** (place / 4)) for place in range(9)]
        weights = {c: (ANCHOR / c) ** 2.5 for c in lengths}
        above = {c: sum(LAW_UNITS[place + 1 :]) for place, c in enumerate(lengths)}
        weights[0], above[0] = 64.0, sum(LAW_UNITS)
        found = {c: w * math.exp(-LAWS[cells](above[c])) for c, w in weights.items()}
        return {c: w / sum(found.values()) for c, w in found.items()}

    return Fit("UnitClip", f"choice of a length, {cells}", "C^-5/2 exp(-far/s)", draw, law, 5000)


SHARES: dict[str, tuple[float, ...]] = {"in one cell": (1.0,), "in four cells": (0.5, 0.5, -0.5, 0.5)}


def release(what: str, kind: Kind = UnitClip) -> Experiment:
    """A unit as long as the length: 3/4 of a unit of price; many copies of the cells at once."""
    parts = [int(share * 1024) for share in SHARES[what]]

    def side(sums: Sequence[int]) -> Draw:
        def draw(stream: Stream, n: int) -> list[tuple[int, ...]]:
            clip = clip_of(kind, anchor=1, cells=n * len(sums))
            done = clip.release(np.tile(np.array(sums, dtype=np.int64), n), 1, stream).values
            assert done is not None
            return [tuple(row) for row in done.reshape(n, len(sums)).tolist()]

        return draw

    base = [3000, -2000, 0, 5000][: len(parts)]
    sides = side(base), side([a + b for a, b in zip(base, parts, strict=True)])
    signs = [1 if part > 0 else -1 for part in parts]
    views: dict[str, Callable[[Any], Hashable]] = {
        "raw": lambda o: o,
        "low bits": lambda o: tuple(x & 3 for x in o),
        "sum": lambda o: sum(x * sign for x, sign in zip(o, signs, strict=True)),
    }
    claims = concentrated(Cost(Fraction(3, 4), FREE), EPS, FREE)
    return Experiment("UnitClip", f"release, a unit at the length {what}", claims, sides, views, 10_000)


def noise(length: int | None, kind: Kind = UnitClip) -> Fit:
    """N(0, (C sigma)^2), sigma^2 = 4/(0.75 p eps^2), without 0.75 where the length was paid for before."""
    what = "a length chosen" if length is None else "a length paid for before"
    variance = 16.0**2 if length else 16.0**2 / 0.75

    def draw(stream: Stream, n: int) -> list[int]:
        clip = clip_of(kind, eps_per=Fraction(16), anchor=1024, cells=n, price=Fraction(64), length=length)
        done = clip.release(np.zeros(n, dtype=np.int64), 1024, stream).values
        assert done is not None
        return [int(x) // 4 for x in done]

    def law() -> dict[int, float]:
        found: dict[int, float] = {}
        for x, p in gaussian_law(variance).items():
            found[x // 4] = found.get(x // 4, 0.0) + p
        return found

    return Fit("UnitClip", f"noise, {what}", f"N(0, {variance:.0f})", draw, law, 60_000)


class Answer(NamedTuple):
    """What leaves: the length, None for none, the noisy sums and what is charged."""

    length: int | None
    values: tuple[int, ...]
    charged: Fraction


B = ANCHOR
UNITS: list[Vector] = [(B // 2, B // 2), (B, 0), (0, 2 * B), (B, -B), (3 * B, B)]
MORE: dict[str, Vector] = {
    "far above": (1 << 45, 1 << 45),
    "at the anchor": (B, 0),
    "one row": (1, 0),
    "at the longest": (0, 1 << 40),
}


def answering(clip: UnitClip, vectors: Sequence[Vector]) -> Callable[[Stream], Answer]:
    """Choice and release, once."""
    units = by_length(clip, vectors)

    @cache
    def sums(length: int) -> Counts:
        return each_clipped(vectors, length, clip.scale)

    def answer(stream: Stream) -> Answer:
        length = clip.choose(units, stream)
        if length is None:
            return Answer(None, (), clip.cost_of_choice.information)
        done = clip.release(sums(length), length, stream)
        assert done.values is not None
        return Answer(length, tuple(done.values.tolist()), done.cost.information)

    return answer


def answers(clip: UnitClip, vectors: Sequence[Vector]) -> Draw:
    answer = answering(clip, vectors)
    return lambda stream, n: [answer(stream.child(i)) for i in range(n)]


ANSWER_VIEWS: Mapping[str, Callable[[Any], Hashable]] = {
    "raw": lambda o: o,
    "length": lambda o: o.length or 0,
    "charged": lambda o: str(o.charged),
    "sum": lambda o: sum(o.values) // (B // 4),
}


def whole(what: str, kind: Kind = UnitClip) -> Experiment:
    """A length and, where there is one, sums: one unit of price."""
    clip = clip_of(kind, cells=2)
    sides = answers(clip, UNITS), answers(clip, [*UNITS, MORE[what]])
    claims = concentrated(clip.cost_at_most, EPS, FREE)
    return Experiment("UnitClip", f"whole, a unit {what}", claims, sides, ANSWER_VIEWS, 1500)


# UnitMoments.

MomentsKind = type[UnitMoments]
MOMENTS_EPS = Fraction(2)


def moments_of(kind: MomentsKind = UnitMoments, **changes: Any) -> UnitMoments:
    return kind(**{"eps_per": MOMENTS_EPS, "least": 1, "cells": 1, **changes})


def weight_of_a_row(kind: MomentsKind = UnitMoments) -> Exact:
    """beta = max(|c|/2, least), rounded up, for every centre: a whole number that is never 0."""

    def compute() -> tuple[str, bool]:
        wrong = 0
        for least in (1, 10):
            moments = moments_of(kind, least=least)
            for about in map(moments.centre_of, range(-140, 141)):
                wrong += about.row != max(-(-abs(about.centre) // 2), least)
        return f"{wrong} of 562 differ", wrong == 0

    return Exact("UnitMoments", "what a row counts for", "max(|c|/2, least), rounded up", compute)


def moments_price(squares: bool, kind: MomentsKind = UnitMoments, *, averages: bool = False) -> Exact:
    """Centre, length and noise, each by the law it is drawn from; and the centre alone."""

    def due() -> list[tuple[float, float]]:
        pairs = []
        for units in (Fraction(1), Fraction(4)):
            moments = moments_of(kind, price=units, squares=squares, averages=averages)
            about = Centre(0, 1 << 37)
            clip = moments.clip(about)
            places = [0, PLACES, PLACES + 9, 2 * PLACES]
            centre = widest(partial(centre_weights, moments), 2 * PLACES + 1, places, 2) ** 2 / 8
            choice = choice_range(replace(clip, patience=Fraction(1))) ** 2 / 8
            noise = float((clip.scale * about.row) ** 2 / (2 * noise_variance(clip, about.row)))
            pairs.append((centre, rho(MOMENTS_EPS, moments.cost_of_centre)))
            pairs.append((centre + choice + noise, rho(MOMENTS_EPS, moments.cost_at_most)))
        return pairs

    of = ", with squares" if squares else ", nothing but averages" if averages else ""
    return spent("UnitMoments", f"price{of}", due)


Rows = tuple[int, ...]
Moments = Callable[[Rows, Centre], Vector]
"""From a unit's rows of one cell and the centre, its vector."""


def moments_vector(rows: Rows, about: Centre) -> Vector:
    """F (S - c N, beta N, Q/beta)."""
    squares = sum((2 * about.fine * (x - about.centre) ** 2 + about.row) // (2 * about.row) for x in rows)
    return about.fine * (sum(rows) - about.centre * len(rows)), about.fine * about.row * len(rows), squares


def moments_length(clipping: Clipping = each_clipped) -> Exact:
    """Sum, number and squares of each unit are clipped together: their vector has length K C at most."""

    def compute() -> tuple[str, bool]:
        random, data = np.random.default_rng(12), list[tuple[list[Vector], int, int]]()
        for place in (-30, 0, 30):
            about = moments_of().centre_of(place)
            clip = moments_of(squares=True).clip(about)
            rows = [tuple(random.integers(-900, 900, size).tolist()) for size in range(1, 40, 3)]
            vectors = [moments_vector(own, about) for own in rows]
            data += [(vectors, length, clip.scale) for length in clip.lengths[:20:5]]
        longest, least = longest_move(data, clipping)
        return f"K C (1{float(longest - 1):+.1e})", longest <= 1 and least > Fraction(9, 10)

    return Exact("UnitMoments", "a unit's moments before noise", "l2 at most K C", compute)


PLACED: dict[str, tuple[tuple[int, ...], int]] = {
    "far above": ((-9, 9), PLACES),
    "far below": ((-9, 9), -PLACES),
    "between two": ((-40, 40), 0),
}
"""The places of units' averages, and that of one more."""


def centre(what: str, kind: MomentsKind = UnitMoments) -> Experiment:
    """One more unit's average: a step of bounded range eps sqrt(1/10), here over 1."""
    places, more = PLACED[what]
    moments = moments_of(kind, eps_per=Fraction(4))

    def side(own: Sequence[int]) -> Draw:
        ones = np.ones(len(own), dtype=np.int64)
        at = np.array(own, dtype=np.int64)
        return lambda stream, n: [moments.choose_centre(at, ones, stream.child(i)).centre for i in range(n)]

    eps = Fraction(12650, 10_000)  # 4 sqrt(1/10) = 1.26491
    claims = bounded_range(Cost(Fraction(1), FREE), eps, FREE)
    views: dict[str, Callable[[Any], Hashable]] = {
        "centre": lambda o: o,
        "size": lambda o: (1 if o > 0 else -1) * (abs(o).bit_length() // 4),
        "sign": lambda o: (o > 0) - (o < 0),
    }
    sides = side(places), side([*places, more])
    return Experiment("UnitMoments", f"centre, a unit {what}", claims, sides, views, 2500)


ROWS: list[Rows] = [(9, 11), (10, 10, 10), (12,), (8, 9, 10, 11, 12), (11,)] * 3
MORE_ROWS: dict[str, Rows] = {"of many rows": (10,) * 400, "far from the others": (5000,), "alike": (10,)}


def all_moments(what: str, kind: MomentsKind = UnitMoments) -> Experiment:
    """Centre, length and the joint moments: one unit of price."""
    moments = moments_of(kind, squares=True)

    def side(rows: Sequence[Rows]) -> Draw:
        places = [at_place(moments, Fraction(sum(own), len(own))) for own in rows]
        ones, at = np.ones(len(rows), dtype=np.int64), np.array(places, dtype=np.int64)

        @cache
        def rest(about: Centre) -> Callable[[Stream], Answer]:
            return answering(moments.clip(about), [moments_vector(own, about) for own in rows])

        def answer(stream: Stream) -> tuple[Centre, Answer]:
            about = moments.choose_centre(at, ones, stream.child("centre"))
            return about, rest(about)(stream.child("rest"))

        return lambda stream, n: [answer(stream.child(i)) for i in range(n)]

    claims = concentrated(moments.cost_at_most, MOMENTS_EPS, FREE)
    views: dict[str, Callable[[Any], Hashable]] = {
        "centre": lambda o: o[0].centre,
        "length": lambda o: round(
            8 * math.log2((o[1].length or o[0].row * o[0].fine) / (o[0].row * o[0].fine))
        ),
        "charged": lambda o: str(o[1].charged),
        "rows": lambda o: o[1].values[1] // (o[0].row * o[0].fine) if o[1].length else 0,
        "squares": lambda o: o[1].values[2] // 64 if o[1].length else 0,
    }
    sides = side(ROWS), side([*ROWS, MORE_ROWS[what]])
    return Experiment("UnitMoments", f"whole, a unit {what}", claims, sides, views, 450)


def at_place(moments: UnitMoments, average: Fraction) -> int:
    """The place whose centre is next to an average."""
    return min(range(-PLACES, PLACES + 1), key=lambda place: abs(centres(moments)[place + PLACES] - average))


@cache
def centres(moments: UnitMoments) -> tuple[int, ...]:
    """The candidates at all places."""
    return tuple(moments.centre_of(place).centre for place in range(-PLACES, PLACES + 1))


CASES: tuple[Check, ...] = (
    *(choice_loss(cells) for cells in CELLS),
    found_groups(),
    price(None),
    price(ANCHOR),
    vectors_length(),
    weighted_length(),
    weighted_totals(),
    rungs(),
    *(choice(what) for what in LENGTHS),
    choice("at a candidate", "two cells"),
    choice("m0 of them far above", "two cells"),
    *(choice_law(cells) for cells in LAWS),
    *(release(what) for what in SHARES),
    noise(None),
    noise(1024),
    *(whole(what) for what in MORE),
    weight_of_a_row(),
    moments_price(False),
    moments_price(True),
    moments_price(False, averages=True),
    moments_length(),
    *(centre(what) for what in PLACED),
    *(all_moments(what) for what in MORE_ROWS),
)
