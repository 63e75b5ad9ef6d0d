"""The samplers: laws at a stated level and power, decisions against multiple precision."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from mechanisms import noise
from mechanisms.exact import exp_bounds
from mechanisms.noise import (
    discrete_gaussian,
    discrete_laplace,
    gaussian_stddev,
    gumbel_order,
    laplace_stddev,
)
from tests.mechanisms.goodness import ALPHA, gaussian_law, laplace_law, p_value, peeling_law, power, stream
from tests.mechanisms.scripted import Scripted

N = 60_000
SCALES = [Fraction(1, 2), Fraction(2), Fraction(40, 3), Fraction(117, 5)]
VARIANCES = [Fraction(1, 4), Fraction(1), Fraction(7, 3), Fraction(1600, 9)]
LAST = 2**64 - 1


@pytest.mark.parametrize("scale", SCALES)
def test_laplace_law(scale: Fraction) -> None:
    """alpha 1e-4, n 60,000; power against scales 10% off in either direction over 0.999."""
    law = laplace_law(float(scale))
    assert p_value(discrete_laplace(stream("laplace"), scale, N).tolist(), law) > ALPHA
    for lie in (scale * Fraction(9, 10), scale * Fraction(11, 10), scale / 2):
        assert power(law, laplace_law(float(lie)), N) > 0.999
        assert p_value(discrete_laplace(stream("lie"), lie, N).tolist(), law) < ALPHA


@pytest.mark.parametrize("variance", VARIANCES)
def test_gaussian_law(variance: Fraction) -> None:
    """alpha 1e-4, n 60,000; power against standard deviations 10% off in either direction over 0.999."""
    law = gaussian_law(float(variance))
    assert p_value(discrete_gaussian(stream("gaussian"), variance, N).tolist(), law) > ALPHA
    for lie in (variance * Fraction(81, 100), variance * Fraction(121, 100), variance / 4):
        assert power(law, gaussian_law(float(lie)), N) > 0.999
        assert p_value(discrete_gaussian(stream("lie"), lie, N).tolist(), law) < ALPHA


@pytest.mark.statistical
def test_gumbel_order_law() -> None:
    """Peeling, with weights: alpha 1e-4, n 5,000; power against scales 20% off either way over 0.99."""
    scores = np.array([5, 3, 0, 4])
    weights = [Fraction(1), Fraction(2), Fraction(30), Fraction(1, 3)]

    def law(beta: float) -> dict[tuple[int, ...], float]:
        rates = {
            i: float(w) * math.exp(a / beta) for i, (a, w) in enumerate(zip(scores, weights, strict=True))
        }
        return peeling_law(rates, 3)

    def orders(beta: Fraction) -> list[tuple[int, ...]]:
        root = stream("orders", str(beta))
        draws = (gumbel_order(root.child(i), scores, beta, 3, weights) for i in range(5000))
        return [tuple(draw.tolist()) for draw in draws]

    beta = Fraction(3, 2)
    assert p_value(orders(beta), law(1.5)) > ALPHA
    for factor in (Fraction(4, 5), Fraction(6, 5)):
        assert power(law(1.5), law(float(beta * factor)), 5000) > 0.99
        assert p_value(orders(beta * factor), law(1.5)) < ALPHA


@pytest.mark.parametrize("scale", [Fraction(1, 100), *SCALES, Fraction(10**6), Fraction(2**40)])
def test_laplace_probabilities_to_128_bits(scale: Fraction) -> None:
    """Each decision's threshold is within 2^-127 of the probability; what is cut off is below 2^-128."""
    context = mpmath.MPContext()
    context.prec = 300
    rate = context.mpf(scale.denominator) / scale.numerator
    words = (column.ravel().tolist() for column in noise._laplace_thresholds(scale))
    zero, *digits = ((high << 64) + low for high, low in zip(*words, strict=True))
    half = 1 << 127
    assert abs(context.mpf(zero) / 2 - half * context.tanh(rate / 2)) <= 1
    for i, digit in enumerate(digits):
        assert abs(context.mpf(digit) / 2 - half / (1 + context.exp(rate * 2**i))) <= 1
    assert context.exp(-rate * 2 ** len(digits)) < context.mpf(2) ** -128


def test_laplace_decisions_use_the_low_word() -> None:
    words = np.array([[5, 5, 5, 4, 6], [6, 7, 8, LAST, 0]], dtype=np.uint64)
    threshold = (np.array([[5]], dtype=np.uint64), np.array([[7]], dtype=np.uint64))
    assert noise._below(words[None], threshold).tolist() == [[True, False, False, True, False]]


def test_laplace_work_does_not_depend_on_the_outcome() -> None:
    """Two samples, the words that decide about zero scripted: both, neither, one by its low word."""
    high, low = (int(words[0, 0]) for words in noise._laplace_thresholds(Fraction(2)))
    scripts = {
        (0, 0, 0, 0): [True, True],
        (LAST,) * 4: [False, False],
        (high, high, low, low - 1): [False, True],
    }
    asked = []
    for script, zeros in scripts.items():
        source = Scripted(bytes(32), script)
        assert (discrete_laplace(source, Fraction(2), 2) == 0).tolist() == zeros
        asked.append(source.asked)
    assert asked[0] == asked[1] == asked[2]


def test_large_scales() -> None:
    samples = discrete_laplace(stream("large"), Fraction(2**40), 2000)
    assert 0.8 < float(np.abs(samples).mean()) / 2**40 < 1.2
    samples = discrete_gaussian(stream("large"), Fraction(2**78), 2000)
    assert 0.9 < float(samples.std()) / 2**39 < 1.1


def test_blocks_join() -> None:
    """More than one block, and none: the law holds across the seam."""
    samples = discrete_laplace(stream("blocks"), Fraction(2), 2 * noise.BLOCK + 1)
    assert len(samples) == 2 * noise.BLOCK + 1
    assert p_value(samples.tolist(), laplace_law(2.0)) > ALPHA
    assert len(discrete_laplace(stream("none"), Fraction(2), 0)) == 0
    assert len(discrete_gaussian(stream("none"), Fraction(2), 0)) == 0


def test_exact_acceptances_agree_with_certified_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """With every decision called ambiguous, the multiple-precision path draws the same samples."""
    certified = [discrete_gaussian(stream("gaussian"), variance, 40).tolist() for variance in VARIANCES]
    monkeypatch.setattr(noise, "MARGIN", 2.0)
    exact = [discrete_gaussian(stream("gaussian"), variance, 40).tolist() for variance in VARIANCES]
    assert exact == certified


def test_an_acceptance_too_close_for_64_bits_is_refined() -> None:
    """U's first 64 bits are those of the probability: the next bits decide, either way, over 40 streams."""
    low, high = (bound << 64 for bound in exp_bounds(Fraction(1, 2), 64))
    assert high - low == 1 << 64
    candidates = np.array([2])  # sigma^2 = 1, t = 1: gamma = (2 - 1)^2/2
    proposal = noise._Proposal(Fraction(1), Fraction(1), Fraction(1, 2), 1.0, 0.5)
    kept = []
    for i in range(40):
        source = Scripted(bytes(32), [low >> 64])
        kept += noise._gaussian_accepts(source, stream("more", i), candidates, proposal).tolist()
        uniform = (low >> 64 << 64) + int(stream("more", i).child(0).words(1)[0])
        assert kept[-1] == (uniform < exp_bounds(Fraction(1, 2), 128)[0])
    assert set(kept) == {True, False}


def test_exact_order_agrees_with_certified_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """With every pair called ambiguous, the multiple-precision path gives the same order."""
    scores = np.array([7, 7, 7, 6, 0, 0, 100, 5, 5, -3])
    weights = [Fraction(i + 1, 3) for i in range(10)]
    certified = [gumbel_order(stream(i), scores, Fraction(20, 3), 10, weights).tolist() for i in range(10)]
    monkeypatch.setattr(noise, "ROUNDING", 1.0)
    exact = [gumbel_order(stream(i), scores, Fraction(20, 3), 10, weights).tolist() for i in range(10)]
    assert exact == certified


@pytest.mark.parametrize("word", [0, 1, 2**63, LAST - 1, LAST])
def test_equal_words_are_refined(word: int) -> None:
    """Equal scores and equal 64 bits: the next bits decide, for each order in 36 of 120 streams at least."""
    firsts = [
        gumbel_order(Scripted(bytes([i]) * 32, [word, word]), np.array([3, 3]), Fraction(2), 1)[0]
        for i in range(120)
    ]
    assert 36 <= sum(firsts) <= 84
    bits = [Scripted(bytes([i]) * 32, []).child("refine") for i in range(120)]
    # a smaller V is a smaller E, a larger Gumbel value
    assert firsts == [int(more.child(0).words(1)[0] > more.child(1).words(1)[0]) for more in bits]


def test_gumbel_error_bounds_hold() -> None:
    """Both ends of what 64 bits leave open lie within the stated error, at all sizes of V."""
    script = [0, 1, 2, 1000, 2**20, 2**40, 2**63, LAST - 2**30, LAST - 2**12, LAST - 1, LAST]
    words = np.array(script + stream("words").words(300).tolist(), dtype=np.uint64)
    scores = (words % np.uint64(10**9)).astype(np.int64) - 5 * 10**8
    beta, weights = Fraction(20, 3), [Fraction(10**12 + i, 10**12 - i) for i in range(len(words))]
    values, errors = noise._gumbel_values(words, scores, beta, weights)
    assert np.isinf(errors[[0, len(script) - 1]]).all()
    assert np.median(errors) < 1e-4
    context = mpmath.MPContext()
    context.prec = 300
    for i in np.flatnonzero(np.isfinite(errors)).tolist():
        rest = context.mpf(int(scores[i])) * 3 / 20 + context.log(10**12 + i) - context.log(10**12 - i)
        for end in (int(words[i]), int(words[i]) + 1):
            truth = rest - context.log(-context.log(1 - context.mpf(end) / 2**64))
            assert abs(truth - values[i]) <= errors[i]


def test_float64_functions_are_as_exact_as_assumed() -> None:
    """The proof sheet assumes relative errors below 2^-48 (log, log1p) and 2^-45 (exp)."""
    context = mpmath.MPContext()
    context.prec = 200
    v = (np.arange(1, 800) / 800) ** 6
    checks = [(np.log, context.log, v), (np.log1p, context.log1p, -v), (np.exp, context.exp, -40 * v)]
    for ours, exact, points in checks:
        for x, y in zip(points.tolist(), ours(points).tolist(), strict=True):
            assert abs(y / exact(context.mpf(x)) - 1) < 2.0**-50


def test_only_the_first_places_are_given() -> None:
    scores = np.array([0, 10**6, 10**5])
    assert gumbel_order(stream("first"), scores, Fraction(1), 2).tolist() == [1, 2]
    assert gumbel_order(stream("all"), scores, Fraction(1), 9).tolist() == [1, 2, 0]


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1), Fraction(2**40 + 1), Fraction(1, 2**41)])
def test_scales_out_of_range(scale: Fraction) -> None:
    with pytest.raises(ValueError, match="scale"):
        discrete_laplace(stream(0), scale, 1)
    with pytest.raises(ValueError, match="variance"):
        discrete_gaussian(stream(0), scale if scale < 1 else scale**2, 1)
    with pytest.raises(ValueError, match="scale"):
        gumbel_order(stream(0), np.array([1]), scale, 1)


@pytest.mark.parametrize("weights", [[Fraction(1)], [Fraction(1), Fraction(0)]])
def test_weights_out_of_range(weights: list[Fraction]) -> None:
    with pytest.raises(ValueError, match="positive weight"):
        gumbel_order(stream(0), np.array([1, 2]), Fraction(1), 1, weights)


@pytest.mark.parametrize("scale", SCALES)
def test_standard_deviations(scale: Fraction) -> None:
    for stddev, law in (
        (laplace_stddev(scale), laplace_law(float(scale), 2000)),
        (gaussian_stddev(scale), gaussian_law(float(scale))),
    ):
        assert stddev == pytest.approx(math.sqrt(sum(p * x * x for x, p in law.items())), rel=1e-9)
    assert gaussian_stddev(Fraction(100)) == pytest.approx(gaussian_stddev(Fraction(101)), rel=0.01)
