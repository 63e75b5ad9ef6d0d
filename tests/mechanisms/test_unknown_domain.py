"""UnkLap, UnkGauss and UnkGumb: output laws by enumeration, and mutants that the same tests must reject."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest

from mechanisms.histogram import Cost, Histogram, Release
from mechanisms.unknown_domain import UnkGauss, UnkGumb, UnkLap
from tests.mechanisms.goodness import (
    ALPHA,
    gaussian_law,
    laplace_law,
    p_value,
    peeling_law,
    power,
    stream,
)
from tests.mechanisms.laws import Shown, thresholded, unk_gumb_law
from tests.mechanisms.mutants import (
    Argmin,
    BareGauss,
    BareLap,
    HalfGauss,
    HalfGumb,
    HalfLap,
    HighLap,
    LessGauss,
    LessLap,
    LowBottom,
    LowGauss,
    LowLap,
    MoreGauss,
    MoreLap,
    NoIndexNoise,
    RankLap,
    TopK,
)

DRAWS = 4000


def shown(mechanism: UnkLap | UnkGauss, counts: list[int], draws: int = DRAWS) -> list[Shown]:
    """What comes out of a histogram of three counts, drawn again and again."""
    histogram = Histogram(np.array(counts), complete=False)
    root = stream(type(mechanism).__name__)
    drawn = [mechanism.release(histogram, root.child(i)) for i in range(draws)]
    assert {release.cost for release in drawn} == {mechanism.cost_at_most}
    return [
        tuple(zip(r.indices.tolist(), r.values.tolist(), strict=True)) for r in drawn if r.values is not None
    ]


EPS, DELTA = Fraction(2), Fraction(1, 10)
TOP = [7, 6, 2]
PARAMETERS = (EPS, DELTA, 1, 1, 2)  # b = 1, sigma = 1


@lru_cache
def lap_law(scale: float, extra: int = 0, bare: bool = False) -> dict[Shown, float]:
    """UnkLap's law at another scale, at a threshold off by `extra`, without noise on the threshold."""
    noise = laplace_law(scale, 14)
    return thresholded(TOP, UnkLap(*PARAMETERS).threshold + extra, noise, {0: 1.0} if bare else noise)


@lru_cache
def gauss_law(variance: float, extra: int = 0, bare: bool = False) -> dict[Shown, float]:
    """UnkGauss's law, likewise."""
    noise = gaussian_law(variance, 9)
    return thresholded(TOP, UnkGauss(*PARAMETERS).threshold + extra, noise, {0: 1.0} if bare else noise)


@pytest.mark.statistical
def test_unk_lap() -> None:
    """alpha 1e-4, n 4,000; power against each lie of the parameters over 0.99."""
    law = lap_law(1.0)
    assert sum(law.values()) == pytest.approx(1, abs=1e-5)
    assert p_value(shown(UnkLap(*PARAMETERS), TOP), law) > ALPHA
    for lie in (
        lap_law(0.5),
        lap_law(0.85),
        lap_law(1.15),
        lap_law(1.0, -1),
        lap_law(1.0, 1),
        lap_law(1.0, bare=True),
    ):
        assert power(law, lie, DRAWS) > 0.99


@pytest.mark.statistical
@pytest.mark.parametrize("mutant", [HalfLap, LessLap, MoreLap, LowLap, HighLap, BareLap, RankLap])
def test_mutants_of_unk_lap_are_caught(mutant: type[UnkLap]) -> None:
    draws = DRAWS if mutant in (LessLap, MoreLap) else 1500
    assert p_value(shown(mutant(*PARAMETERS), TOP, draws), lap_law(1.0)) < ALPHA


@pytest.mark.statistical
def test_unk_gauss() -> None:
    """alpha 1e-4, n 4,000; power against each lie of the parameters over 0.99."""
    law = gauss_law(1.0)
    assert sum(law.values()) == pytest.approx(1, abs=1e-5)
    assert p_value(shown(UnkGauss(*PARAMETERS), TOP), law) > ALPHA
    for lie in (
        gauss_law(0.25),
        gauss_law(0.81),
        gauss_law(1.21),
        gauss_law(1.0, -1),
        gauss_law(1.0, bare=True),
    ):
        assert power(law, lie, DRAWS) > 0.99


@pytest.mark.statistical
@pytest.mark.parametrize("mutant", [HalfGauss, LessGauss, MoreGauss, LowGauss, BareGauss])
def test_mutants_of_unk_gauss_are_caught(mutant: type[UnkGauss]) -> None:
    draws = DRAWS if mutant in (LessGauss, MoreGauss) else 1500
    assert p_value(shown(mutant(*PARAMETERS), TOP, draws), gauss_law(1.0)) < ALPHA


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", [UnkLap(EPS, DELTA, 3, 1, 1), UnkGauss(EPS, DELTA, 3, 1, 1)])
def test_one_person_alone_comes_out_at_most_with_delta(mechanism: UnkLap | UnkGauss) -> None:
    """Count tau against an empty threshold row: Pr <= delta_per = 0.1; alpha 1e-4, n 4,000 (bound 0.118)."""
    lone = Histogram(np.array([3]), complete=True)
    root = stream("lone", mechanism.name)
    came = sum(len(mechanism.release(lone, root.child(i)).indices) for i in range(DRAWS))
    assert 0.03 < came / DRAWS < 0.118


GUMB = UnkGumb(Fraction(1), Fraction(1, 10), tau=2, k=2, d_bar=5, counts=True)
ROWS = [17, 14, 14, 3, 2, 1]
GUMB_LAW = unk_gumb_law(ROWS, GUMB, lambda k_bar: k_bar / 0.1)


def gumb_releases(mechanism: UnkGumb, rows: list[int], draws: int = 4000) -> list[Release]:
    root = stream("gumb", type(mechanism).__name__, str(mechanism.counts))
    histogram = Histogram(np.array(rows, dtype=np.int64), complete=len(rows) < mechanism.fetch)
    return [mechanism.release(histogram, root.child(i)) for i in range(draws)]


def places(drawn: list[Release]) -> list[tuple[int, ...]]:
    return [tuple(release.indices.tolist()) for release in drawn]


@pytest.mark.statistical
def test_unk_gumb() -> None:
    """alpha 1e-4, n 4,000; power against ln(1/delta) for ln(k_bar/delta) over 0.99."""
    drawn = gumb_releases(GUMB, ROWS)
    assert sum(GUMB_LAW.values()) == pytest.approx(1)
    assert p_value(places(drawn), GUMB_LAW) > ALPHA
    assert power(GUMB_LAW, unk_gumb_law(ROWS, GUMB, lambda k_bar: 1 / 0.1), 4000) > 0.99
    noise = [int(r.values[0]) - ROWS[r.indices[0]] for r in drawn if r.values is not None and len(r.values)]
    assert p_value(noise, laplace_law(4.0)) > ALPHA


@pytest.mark.statistical
def test_index_step() -> None:
    """k_bar = i with probability proportional to exp(-eps h_(i+1)/tau)/i: alpha 1e-4, n 5,000."""
    counts = np.array([17, 14, 9, 8, 7, 5])
    weights = {i: math.exp(-counts[i] / 2) / i for i in range(2, 6)}
    law = {i: weight / sum(weights.values()) for i, weight in weights.items()}

    def indices(kind: type[UnkGumb]) -> list[int]:
        mechanism = kind(GUMB.eps_per, GUMB.delta_per, GUMB.tau, GUMB.k, GUMB.d_bar, counts=True)
        root = stream("index", kind.__name__)
        return [mechanism._index(counts, root.child(i)) for i in range(5000)]

    assert p_value(indices(UnkGumb), law) > ALPHA
    for mutant in (Argmin, NoIndexNoise, TopK, HalfGumb):
        assert p_value(indices(mutant), law) < ALPHA


@pytest.mark.statistical
@pytest.mark.parametrize("mutant", [TopK, LowBottom, HalfGumb])
def test_mutants_of_unk_gumb_are_caught(mutant: type[UnkGumb]) -> None:
    broken = mutant(GUMB.eps_per, GUMB.delta_per, GUMB.tau, GUMB.k, GUMB.d_bar, counts=True)
    assert p_value(places(gumb_releases(broken, ROWS, 1500)), GUMB_LAW) < ALPHA


def test_price_is_what_came_out() -> None:
    """2|o| + 1 - [ends in bottom] with counts, |o| + 1 without, one call; never above what was reserved."""
    silent = UnkGumb(GUMB.eps_per, GUMB.delta_per, GUMB.tau, GUMB.k, GUMB.d_bar, counts=False)
    assert GUMB.cost_at_most == Cost(Fraction(5), Fraction(1), Fraction(4))
    assert silent.cost_at_most == Cost(Fraction(3), Fraction(1), Fraction(3))
    for mechanism, price in (
        (GUMB, {0: (2, 2), 1: (4, 3.5), 2: (5, 4)}),
        (silent, {0: (2, 2), 1: (3, 3), 2: (3, 3)}),
    ):
        drawn = gumb_releases(mechanism, ROWS, 300)
        assert {len(release.indices) for release in drawn} == {0, 1, 2}
        for release in drawn:
            information, epsilon = map(Fraction, price[len(release.indices)])
            assert release.cost == Cost(information, Fraction(1), epsilon)
            assert (release.values is None) == (not mechanism.counts)


@pytest.mark.statistical
def test_without_the_index_step() -> None:
    """k_bar = d_bar, one unit less: alpha 1e-4, n 3,000; a run with the index step is rejected."""
    direct = UnkGumb(GUMB.eps_per, GUMB.delta_per, GUMB.tau, GUMB.k, GUMB.d_bar, True, index_step=False)
    rows = [18, 16, 14, 9, 6, 3]
    scale = float(direct.eps_per) / direct.tau
    weights = {j: math.exp(scale * count) for j, count in enumerate(rows[:-1])}
    weights[-1] = 5 / 0.1 * math.exp(scale * (rows[-1] + direct.tau))
    law: dict[tuple[int, ...], float] = {}
    for order, p in peeling_law(weights, direct.k).items():
        out = order[: order.index(-1)] if -1 in order else order
        law[out] = law.get(out, 0) + p
    drawn = gumb_releases(direct, rows, 3000)
    assert p_value(places(drawn), law) > ALPHA
    assert p_value(places(gumb_releases(GUMB, rows, 1500)), law) < ALPHA
    price = {0: 1, 1: 3, 2: 4}
    assert {release.cost.information == price[len(release.indices)] for release in drawn} == {True}
    assert direct.cost_at_most == Cost(Fraction(4), Fraction(1), Fraction(3))


@pytest.mark.statistical
@pytest.mark.parametrize("rows", [[], [3], [9, 9, 9, 9, 9, 9], [10**6, 5]])
def test_edges_of_unk_gumb(rows: list[int]) -> None:
    """Nothing, one person, ties from the top past d_bar, more asked for than there is."""
    drawn = places(gumb_releases(GUMB, rows, 200))
    if rows[:1] == [10**6]:
        assert {order[0] for order in drawn} == {0}
    elif len(rows) != 1:
        assert set(drawn) == {()}


@pytest.mark.parametrize("rows", [[], [0, 0], [9, 9, 9]])
@pytest.mark.parametrize("kind", [UnkLap, UnkGauss])
def test_edges_of_restricted_mechanisms(rows: list[int], kind: type[UnkLap] | type[UnkGauss]) -> None:
    mechanism = kind(EPS, Fraction(1, 10**10), 1, 1, 2)
    release = mechanism.release(Histogram(np.array(rows, dtype=np.int64), len(rows) < 3), stream("edges"))
    assert len(release.indices) == 0
    full = mechanism.release(Histogram(np.array([10**6, 10**5]), complete=True), stream("full"))
    assert full.indices.tolist() == [0, 1]


def test_a_place_without_a_person_never_comes_out() -> None:
    """delta_per 1/2 lets low thresholds through: rows that are not there do not."""
    mechanism = UnkLap(Fraction(2), Fraction(1, 2), 1, 1, 50)
    root = stream("nobody")
    drawn = [mechanism.release(Histogram(np.array([1]), complete=True), root.child(i)) for i in range(300)]
    assert set().union(*(release.indices.tolist() for release in drawn)) == {0}


def test_unk_gumb_threshold_is_its_largest_offset() -> None:
    """tau (1 + ln(d_bar/delta)/eps), rounded up; at the defaults 1 + 199.6."""
    assert UnkGumb(Fraction(3, 20), Fraction(1, 10**10), 1, 10, 1000, True).threshold == 201
