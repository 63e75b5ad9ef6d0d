"""PrivateCountRelease: its law by enumeration of steps, its prices, Brownian noise reduction, and mutants."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest
from scipy.stats import norm

from mechanisms import count_release
from mechanisms.count_release import HALVINGS, KnownCountRelease, PrivateCountRelease, _CountRelease, _Noise
from mechanisms.histogram import Counts, Histogram, Release
from mechanisms.noise import Integers, gumbel_order
from mechanisms.randomness import Stream
from tests.mechanisms.goodness import ALPHA, gaussian_law, p_value, power, stream

DRAWS = 2500
ROWS = [12, 10, 2]
SMALL = PrivateCountRelease(
    eps_per=Fraction(1),
    information=Fraction(100),
    delta_per=Fraction(1, 10),
    calls=Fraction(3),
    tau=2,
    k_bar=2,
    eps_star=Fraction(1),
    delta_star=Fraction(1, 10),
)
KNOWN = KnownCountRelease(
    eps_per=Fraction(1),
    information=Fraction(9),  # 1.125 of rho: three or four steps
    tau=2,
    cells=3,
    eps_star=Fraction(1),
    delta_star=Fraction(1, 10),
)
Walked = tuple[tuple[tuple[int, int], ...], int]
"""What came out: (place, bottoms before it) in order, and the number of steps."""


@lru_cache
def level(mechanism: _CountRelease, stddev: float) -> int:
    """Tell from a count's noise how many bottoms came before it."""
    known = [float(mechanism._sigma(mechanism._eps(n))) for n in range(8)]
    return int(np.argmin(np.abs(np.array(known) - stddev)))


def walked(mechanism: PrivateCountRelease | KnownCountRelease, release: Release) -> Walked:
    assert release.stddevs is not None
    out = tuple(
        zip(release.indices.tolist(), (level(mechanism, s) for s in release.stddevs.tolist()), strict=True)
    )
    if isinstance(mechanism, PrivateCountRelease):
        return out, int(release.cost.calls * mechanism.delta_per / mechanism.delta_star)
    return out, -1


def walks(
    mechanism: PrivateCountRelease | KnownCountRelease, rows: list[int], draws: int = DRAWS
) -> list[Walked]:
    root = stream("walks", type(mechanism).__name__)
    histogram = Histogram(np.array(rows), complete=isinstance(mechanism, KnownCountRelease))
    return [walked(mechanism, mechanism.release(histogram, root.child(i))) for i in range(draws)]


def law(
    mechanism: PrivateCountRelease | KnownCountRelease, rows: list[int], floor: int, places: int
) -> dict[Walked, float]:
    """The algorithm as printed, one step after the other with fresh noise, its corrections made."""
    laws: dict[Walked, float] = defaultdict(float)
    tau, delta = mechanism.tau, float(mechanism.delta_star)
    known = isinstance(mechanism, KnownCountRelease)

    def step(out: tuple[tuple[int, int], ...], bottoms: int, steps: int, rho: float, p: float) -> None:
        eps = float(mechanism._eps(bottoms))
        done = len(out) == places or steps == mechanism.most_steps
        if done or rho + eps**2 / 4 > float(mechanism.rho) + 1e-12:
            laws[out, -1 if known else steps] += p
            return
        gone = {place for place, _ in out}
        weights = {
            j: math.exp(eps * count / tau)
            for j, count in enumerate(rows)
            if j not in gone and (known or count > floor)
        }
        weights[-1] = places / delta * math.exp(eps * (floor + tau) / tau)
        for j, weight in weights.items():
            q = p * weight / sum(weights.values())
            if j == -1:
                step(out, bottoms + 1, steps + 1, rho + eps**2 / 8, q)
            else:
                sigma = float(mechanism._sigma(mechanism._eps(bottoms)))
                paid = rho + eps**2 / 8 + tau**2 / (2 * sigma**2)
                step((*out, (j, bottoms)), bottoms, steps + 1, paid, q)

    step((), 0, 0, 0.0, 1.0)
    return dict(laws)


SMALL_LAW = law(SMALL, ROWS, floor=2, places=2)


class ShiftingRow(PrivateCountRelease):
    """The threshold row moves down when an element is taken out: past the fetched rows, to 0."""

    def _ahead(self, counts: Counts, left: Integers, floor: int, eps: Fraction, stream: Stream) -> Integers:
        return super()._ahead(counts, left, floor if len(left) == self.k_bar else 0, eps, stream)


class LowBottom(PrivateCountRelease):
    """The threshold off by tau."""

    def _ahead(self, counts: Counts, left: Integers, floor: int, eps: Fraction, stream: Stream) -> Integers:
        return super()._ahead(counts, left, floor - self.tau, eps, stream)


class HalfGumbel(PrivateCountRelease):
    """Half the scale of the order."""

    def _ahead(self, counts: Counts, left: Integers, floor: int, eps: Fraction, stream: Stream) -> Integers:
        return super()._ahead(counts, left, floor, 2 * eps, stream)


class NoWeight(PrivateCountRelease):
    """ln(1/delta_star) for ln(k_bar/delta_star)."""

    def _ahead(self, counts: Counts, left: Integers, floor: int, eps: Fraction, stream: Stream) -> Integers:
        scores = np.append(counts[left], floor + self.tau)
        weights = [Fraction(1)] * len(left) + [1 / self.delta_star]
        order = gumbel_order(stream, scores, self.tau / eps, len(scores), weights)
        return left[order[: int(np.flatnonzero(order == len(left))[0])]]


class Lavish(PrivateCountRelease):
    """eps doubles after bottom."""

    def _eps(self, level: int) -> Fraction:
        return super()._eps(2 * level)


MUTANTS: list[type[PrivateCountRelease]] = [ShiftingRow, LowBottom, HalfGumbel, NoWeight]


@pytest.mark.statistical
def test_law() -> None:
    """Elements, bottoms before each, steps: alpha 1e-4, n 2,500; power against ln(1/delta_star) over 0.99."""
    assert sum(SMALL_LAW.values()) == pytest.approx(1)
    assert p_value(walks(SMALL, ROWS), SMALL_LAW) > ALPHA
    lie = law(replace(SMALL, delta_star=Fraction(2, 10), delta_per=Fraction(2, 10)), ROWS, 2, 2)
    assert power(SMALL_LAW, lie, DRAWS) > 0.99


@pytest.mark.statistical
def test_law_over_a_known_domain() -> None:
    """The same where information ends it; every cell competes, the empty one too: alpha 1e-4, n 2,500."""
    rows = [12, 10, 0]
    laws = law(KNOWN, rows, floor=0, places=3)
    assert sum(laws.values()) == pytest.approx(1)
    assert p_value(walks(KNOWN, rows), laws) > ALPHA
    assert power(laws, law(replace(KNOWN, tau=3), rows, 0, 3), DRAWS) > 0.99


@pytest.mark.statistical
@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutants_of_the_order_are_caught(mutant: type[PrivateCountRelease]) -> None:
    assert p_value(walks(mutant(**vars(SMALL)), ROWS, 1200), SMALL_LAW) < ALPHA


@pytest.mark.statistical
def test_a_wrong_ladder_is_caught() -> None:
    mutant = Lavish(**vars(SMALL))
    root = stream("lavish")
    histogram = Histogram(np.array(ROWS), complete=False)
    drawn = [walked(SMALL, mutant.release(histogram, root.child(i))) for i in range(1200)]
    assert p_value(drawn, SMALL_LAW) < ALPHA


def test_an_element_lifted_into_the_fetched_rows_stays_below_bottom() -> None:
    """After others came out, one just above the threshold row: never in 60 walks; always with a row that shifts."""
    careful = PrivateCountRelease(
        eps_per=Fraction(1),
        information=Fraction(80),
        delta_per=Fraction(1, 10**9),
        calls=Fraction(1),
        k_bar=3,
        eps_star=Fraction(1, 100),
    )
    histogram = Histogram(np.array([10**6, 9 * 10**5, 10**4 + 1, 10**4]), complete=False)
    for mechanism, comes in ((careful, set()), (ShiftingRow(**vars(careful)), {2})):
        root = stream("lifted", type(mechanism).__name__)
        drawn = [mechanism.release(histogram, root.child(i)) for i in range(60)]
        assert set.intersection(*(set(r.indices.tolist()) for r in drawn)) == {0, 1} | comes
        assert set.union(*(set(r.indices.tolist()) for r in drawn)) == {0, 1} | comes


def recomputed(mechanism: PrivateCountRelease, release: Release) -> Fraction:
    """The information of a release, from what left: a step an element and a bottom, tau^2/(2 sigma^2) a count."""
    out, steps = walked(mechanism, release)
    rho, element = Fraction(0), 0
    for _, bottoms in out:
        eps = mechanism._eps(bottoms)
        rho += eps**2 / 8 + mechanism.tau**2 / (2 * mechanism._sigma(eps) ** 2)
        element += 1
    for bottoms in range(steps - element):
        rho += mechanism._eps(bottoms) ** 2 / 8
    return rho / (mechanism.eps_per**2 / 8)


@lru_cache
def prices(part_without_tau: bool) -> list[tuple[Fraction, Fraction]]:
    root = stream("prices")
    histogram = Histogram(np.array(ROWS), complete=False)
    drawn = [SMALL.release(histogram, root.child(i)) for i in range(60)]
    return [(release.cost.information, recomputed(SMALL, release)) for release in drawn]


def test_the_price_is_that_of_the_steps() -> None:
    """Information to the last digit, delta_star a step; sqrt(2) to 0.01%."""
    charged = prices(False)
    assert len(set(charged)) > 1
    assert all(cost == expected for cost, expected in charged)
    assert all(cost <= SMALL.information for cost, _ in charged)
    ladder = [float(SMALL._eps(n)) for n in range(9)]
    assert ladder == pytest.approx([2 ** (n / 2) for n in range(9)], rel=1e-4)


def test_a_price_without_tau_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Noise, "part", property(lambda self: 1 / (2 * self.sigma**2 * self.reductions)))
    prices.cache_clear()
    assert any(cost != expected for cost, expected in prices(True))
    prices.cache_clear()


def test_sigma_is_the_papers() -> None:
    """tau max((r/1.5)(1 + ln(k_bar/delta_star)/eps), 2/eps), at both ends of the maximum."""
    defaults = PrivateCountRelease(
        eps_per=Fraction(3, 20),
        information=Fraction(50),
        delta_per=Fraction(1, 10**10),
        calls=Fraction(5),
        tau=3,
    )
    for error, eps in ((Fraction(1, 10), 0.0005), (Fraction(1, 10), 0.05), (Fraction(1, 50), 0.0005)):
        ours = replace(defaults, relative_error=error)._sigma(Fraction(eps))
        wanted = float(error) / 1.5 * (1 + math.log(1e15) / eps)
        assert float(ours) == pytest.approx(3 * max(wanted, 2 / eps), rel=1e-9)
        assert ours >= 6 / Fraction(eps)
    assert defaults.threshold == 3 + math.ceil(3 * math.log(1e15) / 0.0005)


def big(brownian: bool, rows: list[int]) -> Release:
    mechanism = PrivateCountRelease(
        eps_per=Fraction(1),
        information=Fraction(500),
        delta_per=Fraction(1, 10**7),
        calls=Fraction(1),
        k_bar=len(rows) - 1,
        eps_star=Fraction(1, 10),
        brownian=brownian,
    )
    return mechanism.release(Histogram(np.array(rows), complete=False), stream("big", str(brownian)))


class TooLittle(_Noise):
    """10% less noise than is paid for."""

    def _draw(self, stream: Stream, weight: int, n: int) -> Integers:
        return _Noise(self.sigma * Fraction(9, 10), *self._rest())._draw(stream, weight, n)

    def _rest(self) -> tuple[int, Fraction, int]:
        return self.tau, self.relative_error, self.reductions


class TooMuch(TooLittle):
    def _draw(self, stream: Stream, weight: int, n: int) -> Integers:
        return _Noise(self.sigma * Fraction(11, 10), *self._rest())._draw(stream, weight, n)


N = 20_000


def noises(kind: type[_Noise], reductions: int, true: int = 0) -> list[int]:
    noise = kind(Fraction(12), 1, Fraction(1, 10), reductions)
    values, parts = noise.measure(stream("noise", kind.__name__, reductions), np.full(N, true))
    assert set(parts.tolist()) == {reductions}
    return [int(x) for x in values - true]


def rounded_gaussian(sigma: float) -> dict[int, float]:
    x = np.arange(-150, 151)
    p = norm.cdf((x + 0.5) / sigma) - norm.cdf((x - 0.5) / sigma)
    return dict(zip(x.tolist(), p.tolist(), strict=True))


@pytest.mark.parametrize("reductions", [1, 2**HALVINGS])
def test_noise_of_a_count(reductions: int) -> None:
    """sigma 12, in one measurement or 17: n 20,000, alpha 1e-4; power against 10% off either way over 0.999."""
    expected = gaussian_law(144.0) if reductions == 1 else rounded_gaussian(12.0)
    assert p_value(noises(_Noise, reductions), expected) > ALPHA
    for mutant, sigma in ((TooLittle, 10.8), (TooMuch, 13.2)):
        assert power(expected, rounded_gaussian(sigma), N) > 0.999
        assert p_value(noises(mutant, reductions), expected) < ALPHA


def test_reduction_stops_where_the_error_is_met() -> None:
    """Counts of all sizes: a price for each size, never more noise than the rule allows, the error mostly met."""
    true = np.repeat([150, 2000, 20_000, 10**6, 2**53 - 1], 2000)
    noise = _Noise(Fraction(12), 2, Fraction(1, 10), 2**HALVINGS)
    values, parts = noise.measure(stream("sizes"), true)
    variance = 144 * 2**HALVINGS / parts
    met = values >= 1.5 * np.sqrt(variance) * 11
    assert np.all(met | (parts == 2**HALVINGS))
    assert np.median(parts[:2000]) == 2**HALVINGS
    assert np.all(np.diff([np.median(part) for part in parts.reshape(5, 2000)]) <= 0)
    assert set(parts[-2000:].tolist()) == {1}
    late = slice(2000, 10_000)
    assert np.mean(np.abs(values[late] - true[late]) > 0.1 * true[late]) < 0.14  # 2 Pr[N > 1.5]
    error = (values[late] - true[late]) / np.sqrt(variance[late])
    assert np.std(error) == pytest.approx(1, abs=0.05)
    assert noise.part * 2**HALVINGS == Fraction(4, 2 * 144)


def test_reduction_costs_less_for_the_same_promise() -> None:
    rows = [10**9 - i for i in range(40)] + [500, 0]
    plain, reduced = big(False, rows), big(True, rows)
    assert reduced.stddevs is not None
    assert plain.stddevs is not None
    assert len(reduced.indices) >= 40
    assert len(plain.indices) >= 40
    assert reduced.stddevs[:40].min() > 100 * plain.stddevs[:40].max()
    first = [r.cost.information for r in (plain, reduced)]
    assert first[1] < first[0]


def test_it_goes_on_when_nothing_is_left_to_find() -> None:
    """Whether elements are left must not show: an empty histogram spends its allowance on bottoms as well."""
    mechanism = replace(SMALL, calls=Fraction(40), information=Fraction(60))
    empty = mechanism.release(Histogram(np.zeros(0, dtype=np.int64), complete=True), stream("empty"))
    assert (empty.indices.tolist(), empty.stddev) == ([], mechanism.stddev)
    steps = int(empty.cost.calls)
    spent = sum(mechanism._eps(n) ** 2 / 8 for n in range(steps))
    assert empty.cost.information == spent * 8
    assert spent + mechanism._eps(steps) ** 2 / 4 > mechanism.rho
    last = mechanism._eps(steps - 1)
    assert mechanism.least == 2 + math.ceil(
        2 * count_release._log(mechanism.k_bar / mechanism.delta_star) / last
    )
    assert replace(mechanism, information=Fraction(15)).least > mechanism.least


def test_it_ends_when_all_places_are_taken() -> None:
    full = replace(SMALL, calls=Fraction(40))
    release = full.release(Histogram(np.array([10**6, 10**6, 1]), complete=False), stream("full"))
    assert sorted(release.indices.tolist()) == [0, 1]
    assert release.cost.calls == 2


@pytest.mark.parametrize(
    "change",
    [
        {"information": Fraction(1, 1000)},
        {"information": Fraction(10**6)},
        {"information": 50},
        {"calls": Fraction(1, 2)},
        {"calls": 3},
        {"tau": 0},
        {"k_bar": 0},
        {"delta_star": Fraction(9, 10)},
        {"delta_star": Fraction(2, 5)},  # above x/(1+x) at eps_star/tau = 1/2
        {"delta_per": Fraction(0)},
        {"eps_star": Fraction(0)},
        {"eps_star": float("nan")},
        {"relative_error": Fraction(0)},
        {"relative_error": 0.1},
        {"brownian": 1},
        {"tau": 2**31, "eps_star": Fraction(1, 10**6), "delta_star": Fraction(1, 10**20)},
    ],
)
def test_parameters_out_of_range(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"must|delta_star|calls"):
        PrivateCountRelease(**{**vars(SMALL), **change})


@pytest.mark.parametrize("change", [{"cells": 0}, {"information": Fraction(0)}, {"delta_star": 0.1}])
def test_parameters_over_a_known_domain_out_of_range(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(change))[:5]}"):
        KnownCountRelease(**{**vars(KNOWN), **change})


def test_one_order_serves_all_steps_at_one_eps(monkeypatch: pytest.MonkeyPatch) -> None:
    """10,000 elements at rho 1 take an order for each eps, not for each step."""
    asked: list[int] = []

    def counted(*arguments: object) -> Integers:
        asked.append(len(arguments[1]))  # type: ignore[arg-type]
        return gumbel_order(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(count_release, "gumbel_order", counted)
    mechanism = PrivateCountRelease(
        eps_per=Fraction(1), information=Fraction(8), delta_per=Fraction(1, 10**10), calls=Fraction(2000)
    )
    rows = (20_000_000 // np.arange(1, 10_002)).astype(np.int64)
    release = mechanism.release(Histogram(rows, complete=False), stream("many"))
    assert len(release.indices) > 3000
    assert len(asked) < 30
    assert release.cost.information <= 8
    assert release.values is not None
    assert release.stddevs is not None
    error = np.abs(release.values - rows[release.indices]) / rows[release.indices]
    assert np.mean(error > 0.1) < 0.1
