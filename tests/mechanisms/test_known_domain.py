"""KnownLap, KnownGauss and KnownGumb: their output laws, and mutants that the same tests must reject."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np
import pytest

from mechanisms.histogram import Cost, Histogram, Mechanism, Release
from mechanisms.known_domain import KnownGauss, KnownGumb, KnownLap
from tests.mechanisms.goodness import (
    ALPHA,
    Law,
    gaussian_law,
    laplace_law,
    p_value,
    peeling_law,
    power,
    stream,
)
from tests.mechanisms.mutants import HalfBeta, OneDraw, ScaledGauss, ScaledLap

EPS = Fraction(1, 2)
CELLS = 40_000
COUNTS = np.arange(CELLS) % 7
DRAWS = 3000


def residuals(mechanism: Mechanism) -> list[int]:
    release = mechanism.release(Histogram(COUNTS, complete=True), stream("residuals", mechanism.name))
    assert release.values is not None
    assert release.indices.tolist() == list(range(CELLS))
    return [int(x) for x in release.values - COUNTS]


LIES = [Fraction(1, 2), Fraction(9, 10), Fraction(11, 10)]


def test_known_lap() -> None:
    """n 40,000 cells, alpha 1e-4; power against 10% off in either direction over 0.999."""
    law = laplace_law(12.0)  # 2 tau/eps_per = 2 * 3/0.5
    mechanism = KnownLap(EPS, tau=3, delta0=2, cells=CELLS)
    assert p_value(residuals(mechanism), law) > ALPHA
    for lie in LIES:
        assert power(law, laplace_law(12.0 * float(lie)), CELLS) > 0.999
        assert p_value(residuals(ScaledLap(EPS, 3, 2, CELLS, lie)), law) < ALPHA


@pytest.mark.parametrize(("spend", "variance", "cost"), [("accurate", 144.0, 5), ("cheap", 720.0, 1)])
def test_known_gauss(spend: Literal["accurate", "cheap"], variance: float, cost: int) -> None:
    """sigma = 2 tau/eps_per = 12, times sqrt(5) when cheap; n 40,000 cells, alpha 1e-4, power over 0.999."""
    law = gaussian_law(variance)
    mechanism = KnownGauss(EPS, tau=3, delta0=5, cells=CELLS, spend=spend)
    assert mechanism.cost_at_most == Cost(Fraction(cost), Fraction(0))
    assert p_value(residuals(mechanism), law) > ALPHA
    for lie in LIES:
        assert power(law, gaussian_law(variance * float(lie) ** 2), CELLS) > 0.999
        assert p_value(residuals(ScaledGauss(EPS, 3, 5, CELLS, spend, lie)), law) < ALPHA


CROWD = np.array([3, 6, 4, 5])
GUMB = KnownGumb(EPS, tau=1, k=2, cells=4, counts=True)


@lru_cache
def releases(mechanism: KnownGumb) -> list[Release]:
    root = stream("gumb", type(mechanism).__name__)
    return [mechanism.release(Histogram(CROWD, complete=True), root.child(i)) for i in range(DRAWS)]


def orders(drawn: list[Release]) -> list[tuple[int, ...]]:
    return [tuple(release.indices.tolist()) for release in drawn]


def firsts(drawn: list[Release]) -> list[int]:
    """The noise on the count shown first."""
    return [int(r.values[0] - CROWD[r.indices[0]]) for r in drawn if r.values is not None]


def order_law(beta: float) -> Law[tuple[int, ...]]:
    return peeling_law({i: math.exp(count / beta) for i, count in enumerate(CROWD.tolist())}, 2)


def test_known_gumb() -> None:
    """The order is peeling at beta = tau/eps_per = 2, counts are unbiased at b = 4: n 3,000, alpha 1e-4."""
    drawn = releases(GUMB)
    assert p_value(orders(drawn), order_law(2.0)) > ALPHA
    assert p_value(firsts(drawn), laplace_law(4.0)) > ALPHA
    assert (
        {release.cost for release in drawn}
        == {GUMB.cost_at_most}
        == {Cost(Fraction(4), Fraction(0), Fraction(3))}
    )


def test_half_the_gumbel_scale_is_caught() -> None:
    assert power(order_law(2.0), order_law(1.0), DRAWS) > 0.999
    assert p_value(orders(releases(HalfBeta(EPS, 1, 2, 4, True))), order_law(2.0)) < ALPHA


def test_one_draw_for_order_and_count_is_caught() -> None:
    assert p_value(firsts(releases(OneDraw(EPS, 1, 2, 4, True))), laplace_law(4.0)) < ALPHA


def test_order_and_count_noise_are_unrelated() -> None:
    """Whether the largest count came first says nothing about the sign of its noise: alpha 1e-4."""
    drawn = releases(GUMB)
    law = laplace_law(4.0)
    for first in (1, 3):
        noise = [x for x, release in zip(firsts(drawn), drawn, strict=True) if release.indices[0] == first]
        assert len(noise) > 500
        assert p_value(noise, law) > ALPHA


def test_without_counts() -> None:
    silent = KnownGumb(EPS, tau=1, k=2, cells=4, counts=False)
    release = silent.release(Histogram(CROWD, complete=True), stream("silent"))
    assert (release.values, release.stddev, silent.stddev) == (None, None, None)
    assert release.cost == Cost(Fraction(2), Fraction(0), Fraction(2))
    assert len(release.indices) == 2


@pytest.mark.parametrize("cells", [1, 5])
def test_all_cells_all_ties_all_zero(cells: int) -> None:
    everything = KnownGumb(EPS, tau=1, k=cells, cells=cells, counts=True)
    empty = Histogram(np.zeros(cells, dtype=np.int64), complete=True)
    seen = [tuple(everything.release(empty, stream("ties", i)).indices.tolist()) for i in range(300)]
    assert {tuple(sorted(order)) for order in seen} == {tuple(range(cells))}
    assert {order[0] for order in seen} == set(range(cells))


def test_counts_come_out_with_noise_to_scale() -> None:
    """stddev is that of the noise, within 3%, at n = 40,000."""
    for mechanism in (KnownLap(EPS, 3, 2, CELLS), KnownGauss(EPS, 3, 2, CELLS, "cheap")):
        assert np.std(residuals(mechanism)) == pytest.approx(mechanism.stddev, rel=0.03)
