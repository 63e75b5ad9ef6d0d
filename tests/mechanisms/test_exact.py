"""The arithmetic that decides the ambiguous few: enclosures that enclose, refinement that goes on."""

from __future__ import annotations

import threading
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath.libmp import to_rational

from mechanisms.exact import (
    LazyGumbel,
    LazyUniform,
    bernoulli_exp,
    compare_gumbel,
    exp_bounds,
    interval,
    interval_context,
)
from tests.mechanisms.goodness import stream
from tests.mechanisms.scripted import Scripted

RATIONALS = st.fractions(0, 200, max_denominator=10**30)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(RATIONALS, st.sampled_from([20, 64, 320]))
def test_exp_bounds_bracket_the_truth(x: Fraction, bits: int) -> None:
    context = mpmath.MPContext()
    context.prec = 1200
    truth = context.exp(-context.mpf(x.numerator) / x.denominator) * 2**bits
    low, high = exp_bounds(x, bits)
    assert low <= truth <= high
    assert high - low <= 1


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.fractions(-(10**40), 10**40))
def test_intervals_hold_their_rational(x: Fraction) -> None:
    """Numerator and denominator longer than the precision are rounded outwards, too."""
    low, high = (Fraction(*to_rational(end)) for end in interval(interval_context(60), x)._mpi_)
    assert low <= x <= high
    assert high - low <= abs(x) / 2**55


def test_a_uniform_grows_by_64_bits() -> None:
    uniform = LazyUniform(5, Scripted(bytes(32), [7, 9]))
    uniform.refine()
    uniform.refine()
    assert (uniform.value, uniform.bits) == ((5 << 128) + (7 << 64) + 9, 192)


@pytest.mark.parametrize("word", [0, 2**63, 2**64 - 1])
def test_certain_and_impossible_events(word: int) -> None:
    assert bernoulli_exp(LazyUniform(word, stream("bits")), Fraction(0))
    impossible = bernoulli_exp(LazyUniform(word, stream("bits")), Fraction(10**6))
    assert not impossible


@pytest.mark.parametrize(("above", "expected"), [(0, True), (1, False)])
def test_a_uniform_that_follows_the_probability_for_192_bits(above: int, expected: bool) -> None:
    """Three words equal to exp(-1/2)'s digits, then one above or below: only the fourth decides."""
    digits = exp_bounds(Fraction(1, 2), 256)[0]
    first, *more = (digits >> shift & 2**64 - 1 for shift in (192, 128, 64, 0))
    more[-1] += 1 if above else -1
    uniform = LazyUniform(first, Scripted(bytes(32), more))
    assert bernoulli_exp(uniform, Fraction(1, 2)) is expected
    assert uniform.bits >= 256


def gumbel(level: Fraction, weight: Fraction, word: int, label: int) -> LazyGumbel:
    return LazyGumbel(level, weight, LazyUniform(word, stream("gumbel", label)))


def test_gumbel_values_are_compared_as_real_numbers() -> None:
    """Against -ln(-ln(1-V)) in plain arithmetic, and antisymmetric; weights act as beta ln(weight)."""
    context = mpmath.MPContext()
    words = stream("words").words(20).tolist()
    for one, other in zip(words, words[1:] + words[:1], strict=True):
        left, right = gumbel(Fraction(1, 3), Fraction(5), one, 1), gumbel(Fraction(1), Fraction(2), other, 2)
        plain = [
            level + context.log(weight) - context.log(-context.log(1 - context.mpf(word) / 2**64))
            for level, weight, word in ((1 / context.mpf(3), 5, one), (1, 2, other))
        ]
        assert compare_gumbel(left, right) == (1 if plain[0] > plain[1] else -1)
        assert compare_gumbel(right, left) == -compare_gumbel(left, right)


def test_threads_do_not_share_a_precision() -> None:
    """Each decision has its own arithmetic: results under contention are those without."""
    expected = {bits: exp_bounds(Fraction(1, 3), bits) for bits in (30, 400)}
    wrong: list[int] = []

    def work(bits: int) -> None:
        wrong.extend(bits for _ in range(40) if exp_bounds(Fraction(1, 3), bits) != expected[bits])

    threads = [threading.Thread(target=work, args=(bits,)) for bits in (30, 400, 30, 400)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
