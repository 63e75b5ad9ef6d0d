"""Clamped sums: the bound on what a person changes, the law of the noise, moments, and mutants."""

from __future__ import annotations

from dataclasses import asdict, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from mechanisms.histogram import Cost
from mechanisms.noise import Integers, discrete_gaussian, discrete_laplace
from mechanisms.numeric import ClampedSum, average, stddev, uncentred, variance
from mechanisms.randomness import Stream
from tests.mechanisms.goodness import ALPHA, gaussian_law, laplace_law, p_value, power, stream
from tests.mechanisms.scripted import Untouched

KEYS = 30_000
PLAIN = ClampedSum(eps_per=Fraction(1), lo=-2, hi=3, tau=2, keys=KEYS)  # B = 6, scale 12
LIES = [Fraction(9, 10), Fraction(11, 10)]


class Less(ClampedSum):
    """10% less noise."""

    factor = Fraction(9, 10)

    def _draw(self, stream: Stream) -> Integers:
        if self.noise == "gaussian":
            return discrete_gaussian(stream, self.sigma_squared * self.factor**2, self.keys)
        return discrete_laplace(stream, self.scale * self.factor, self.keys)


class More(Less):
    factor = Fraction(11, 10)


def residuals(mechanism: ClampedSum) -> list[int]:
    sums = np.arange(KEYS) * 10**9 - 10**13
    release = mechanism.release(sums, stream("sums", type(mechanism).__name__, mechanism.noise))
    assert release.values is not None
    assert release.indices.tolist() == list(range(KEYS))
    return [int(x) for x in release.values - sums]


@pytest.mark.parametrize("change", [{}, {"noise": "laplace"}, {"spend": "cheap", "delta0": 3}])
def test_law(change: dict[str, Any]) -> None:
    """n 30,000, alpha 1e-4; power against 10% off either way over 0.999."""
    mechanism = replace(PLAIN, **change)
    scale = 12.0 if "spend" not in change else 12 * 3**0.5
    law = laplace_law(scale) if mechanism.noise == "laplace" else gaussian_law(scale**2)
    assert p_value(residuals(mechanism), law) > ALPHA
    assert float(np.std(residuals(mechanism))) == pytest.approx(mechanism.stddev, rel=0.03)
    for mutant in (Less, More):
        lied = scale * float(mutant.factor)
        lie = laplace_law(lied) if mechanism.noise == "laplace" else gaussian_law(lied**2)
        assert power(law, lie, KEYS) > 0.999
        assert p_value(residuals(mutant(**asdict(mechanism))), law) < ALPHA


@pytest.mark.parametrize(
    ("change", "information"),
    [
        ({"keys": 7}, 7),
        ({"keys": 7, "delta0": 3}, 3),
        ({"keys": 2, "delta0": 3}, 2),
        ({"keys": 7, "delta0": 3, "spend": "cheap"}, 1),
        ({"keys": 7, "spend": "cheap"}, 1),
        ({"keys": 7, "delta0": 3, "noise": "laplace"}, 3),
    ],
)
def test_price(change: dict[str, Any], information: int) -> None:
    """min(delta0, n), or 1; rho = m B^2/(2 sigma^2) is that many units of eps_per^2/8."""
    mechanism = replace(PLAIN, **change)
    epsilon = Fraction(information, 2) if mechanism.noise == "laplace" else None
    assert mechanism.cost_at_most == Cost(Fraction(information), Fraction(0), epsilon)
    release = mechanism.release(np.zeros(mechanism.keys, dtype=np.int64), stream("price"))
    assert release.cost == mechanism.cost_at_most
    if mechanism.noise == "gaussian":
        rho = mechanism.changed * Fraction(mechanism.bound) ** 2 / (2 * mechanism.sigma_squared)
        assert rho == information * mechanism.eps_per**2 / 8


class HalfRange(ClampedSum):
    """Half the range for values that are not centred."""

    @property
    def bound(self) -> int:
        return self.tau * (self.hi - self.lo) // 2


class OneRow(ClampedSum):
    """tau left out."""

    @property
    def bound(self) -> int:
        return super().bound // self.tau


def worst_change(mechanism: ClampedSum) -> int:
    """The most that any of some persons of at most tau rows, with wild values, changes a sum."""
    wild = stream("persons").words(400 * 8).astype(np.int64).reshape(400, 8) % 61 - 30
    persons = np.concatenate([wild, np.full((1, 8), -30), np.full((1, 8), 30)])
    rows = [person[:n] for person in persons for n in range(1, mechanism.tau + 1)]
    return max(abs(int(mechanism.contributions(row).sum())) for row in rows)


@pytest.mark.parametrize(("lo", "hi"), [(-2, 3), (0, 9), (5, 9), (-9, -5), (-7, 0)])
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("tau", [1, 4])
def test_one_person_changes_a_sum_by_at_most_the_bound(lo: int, hi: int, centred: bool, tau: int) -> None:
    """And some person changes it by just that."""
    mechanism = ClampedSum(eps_per=Fraction(1), lo=lo, hi=hi, tau=tau, keys=1, centred=centred)
    assert worst_change(mechanism) == mechanism.bound
    assert not centred or mechanism.bound <= 2 * replace(mechanism, centred=False).bound


def test_wrong_bounds_are_caught() -> None:
    for mutant in (HalfRange, OneRow):
        broken = mutant(eps_per=Fraction(1), lo=0, hi=9, tau=4, keys=1)
        assert worst_change(broken) > broken.bound


def test_sums_do_not_depend_on_the_order_of_rows() -> None:
    """In fixed point; the same values as floats do."""
    values = stream("order").words(2000).astype(np.int64)
    mechanism = ClampedSum(eps_per=Fraction(1), lo=-(2**38), hi=2**38, tau=1, keys=1)
    rows = mechanism.contributions(values >> 24)
    assert {int(rows[np.argsort(values * k)].sum()) for k in (1, 3, 5, 7)} == {int(rows.sum())}
    floats = rows.astype(np.float64) * 1e-3
    assert len({float(np.add.accumulate(floats[np.argsort(values * k)])[-1]) for k in (1, 3, 5, 7)}) > 1


def test_centred_sums_come_back() -> None:
    values = np.array([-50, 0, 3, 4, 5, 99])
    mechanism = ClampedSum(eps_per=Fraction(1), lo=1, hi=8, tau=1, keys=1, centred=True)
    centred = int(mechanism.contributions(values).sum())
    assert uncentred(centred, len(values), 1, 8) == np.clip(values, 1, 8).sum()


def test_moments() -> None:
    x = [3, 4, 4, 9]
    total, squares = Fraction(sum(x)), Fraction(sum(v * v for v in x))
    assert average(total, 4, 0, 10) == 5
    assert average(total, 1, 0, 10) == 10
    assert average(-total, 4, 0, 10) == 0
    assert variance(squares, total, 4, sample=False) == Fraction(11, 2)
    assert variance(squares, total, 4, sample=True) == Fraction(22, 3)
    assert stddev(squares, total, 4, sample=True) == pytest.approx(np.std(x, ddof=1))
    assert variance(Fraction(0), total, 4, sample=True) == 0
    for count in (-3, 0):
        assert average(total, count, 0, 10) is None
        assert stddev(squares, total, count, sample=False) is None
    assert variance(squares, total, 1, sample=True) is None


@pytest.mark.parametrize(
    "change",
    [
        {"lo": 3},
        {"lo": 4},
        {"lo": 0.5},
        {"hi": 2**40 + 1},
        {"hi": True},
        {"tau": 0},
        {"keys": 0},
        {"delta0": 0},
        {"noise": "normal"},
        {"spend": "free"},
        {"noise": "laplace", "spend": "cheap"},
        {"centred": 1},
        {"eps_per": 0.5},
        {"tau": 2**31, "hi": 2**39},
    ],
)
def test_parameters_out_of_range(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must"):
        replace(PLAIN, **change)


@pytest.mark.parametrize(
    "sums", [np.array([777]), np.array([777, 777.0]), np.array([777, 2**62]), np.array([-(2**62), 777])]
)
def test_bad_sums(sums: Any) -> None:
    with pytest.raises(ValueError, match="sums") as error:
        replace(PLAIN, keys=2).release(sums, Untouched())
    assert "777" not in str(error.value)
