"""The square-root factorisation: the released is a function of R x + z, its norm, its noise, its threshold, mutants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2, norm

from mechanisms.continual import BLOCK, UnknownDomainBinary
from mechanisms.noise import Integers, discrete_gaussian
from mechanisms.randomness import Stream
from mechanisms.square_root import (
    FINE,
    MOST_TIMES,
    PLACES,
    RESPONSE,
    UnknownDomainSquareRoot,
    factor,
)
from tests.mechanisms.goodness import ALPHA, stream
from tests.mechanisms.test_continual import KEY, events, every_day, lone, noise_of, shown

DAYS = UnknownDomainSquareRoot(Fraction(1), Fraction(1, 10**9), delta0=1, events=1, horizon=20, once=False)


def test_the_factor_is_the_square_root_of_running_sums() -> None:
    """R_k is binom(2k, k)/4^k, whose square is 1, 1, 1, ..., rounded down to 2^-16; it never rises."""
    exact = [Fraction(math.comb(2 * k, k), 4**k) for k in range(300)]
    assert all(sum(exact[j] * exact[k - j] for j in range(k + 1)) == 1 for k in range(300))
    made = factor(300)
    assert made.entries == tuple(math.floor(r * 2**PLACES) for r in exact)
    assert made.falls.tolist() == [-x for x in np.diff(made.entries)]
    assert made.falls.min() >= 0


def test_responses_are_bounds_of_the_inverse_of_the_factor() -> None:
    """What a draw adds k times later, in exact fractions: never below, and by less than 2^-33 above."""
    made = factor(60)
    exact = [Fraction(1)]
    for k in range(1, 60):
        exact.append(
            sum(int(made.falls[j - 1]) * exact[k - j] for j in range(1, k + 1)) / Fraction(2**PLACES)
        )
    over = [Fraction(r, 2**RESPONSE) - e for r, e in zip(made.responses, exact, strict=True)]
    assert min(over) >= 0
    assert sum(over) < Fraction(1, 2**33)


class Scripted(UnknownDomainSquareRoot):
    """Draws as they are written down."""

    written: Integers

    def _draws(self, stream: Stream, last: int) -> Integers:
        return self.written[:last]


def released(counts: Sequence[int], draws: Integers) -> list[int]:
    """The noisy running counts of one item whose events at the times are these."""
    Scripted.written = draws
    mechanism = Scripted(**{**vars(DAYS), "horizon": len(counts)})
    noise = mechanism._noise([Stream(bytes(32))], np.arange(1, len(counts) + 1))
    return [int(x) for x in np.cumsum(counts) + noise[0]]


def test_the_released_is_a_function_of_what_is_measured() -> None:
    """Other events with draws that make up for them, so that R x + z is the same: the same noisy counts."""
    size = 25
    matrix = np.array([[0] * t + list(factor(size).entries[: size - t]) for t in range(size)]).T
    for number in range(20):
        draws = discrete_gaussian(stream("released", number), Fraction(3) * 4**PLACES, size)
        one, other = (stream("x", number).words(2 * size) % np.uint64(50)).astype(np.int64).reshape(2, size)
        moved = draws + matrix @ (one - other)
        assert released(one.tolist(), draws) == released(other.tolist(), moved)
        moved[7] += 1 << (PLACES + 1)
        assert released(one.tolist(), draws)[7:] != released(other.tolist(), moved)[7:]


def test_the_noise_is_the_inverse_of_the_factor_applied_to_the_draws() -> None:
    """In floating point: what is rounded away is less than half a count and its fixed point's last places."""
    draws = discrete_gaussian(stream("inverse"), Fraction(3) * 4**PLACES, 200)
    noise = np.array(released([0] * 200, draws))
    responses = np.array(factor(200).responses) / 2.0 ** (RESPONSE + PLACES)
    expected = np.convolve(draws, responses)[:200]
    assert np.abs(noise - expected).max() <= 0.5 + responses.sum() * 2.0 ** (PLACES - FINE - 1) + 1e-6


def test_norms_of_the_proof() -> None:
    """Removing a person moves R x by at most what sigma pays for, which the worst person attains: 300 random ones."""
    words = stream("norms").words(300 * 40).reshape(300, 40) % np.uint64(1 << 20)
    for row in words.tolist():
        c, delta0, horizon, once = 1 + row[0] % 4, 1 + row[1] % 3, 1 + row[2] % 30, bool(row[3] % 2)
        mechanism = UnknownDomainSquareRoot(Fraction(1), Fraction(1, 10**6), delta0, c, horizon, once)
        entries = np.array(factor(horizon).entries)
        moved, had = np.zeros((4, horizon), dtype=np.int64), set[int]()
        for n in range(c):
            time = row[4 + n] % horizon
            items = {row[10 + 4 * n + j] % 4 for j in range(delta0)} - (had if once else set())
            had |= items
            for item in items:
                moved[item, time:] += entries[: horizon - time]
        assert int((moved**2).sum()) <= mechanism.sigma_squared / 4
    worst = UnknownDomainSquareRoot(Fraction(1), Fraction(1, 10**6), 2, 3, 30, once=False)
    assert 2 * 9 * sum(e * e for e in factor(30).entries) == worst.sigma_squared / 4


def test_noise_belongs_to_item_and_time_for_life() -> None:
    """Looked at again, later, with more items, or in another order of rows: the same counts for the past."""
    early = every_day(3, 1000, last=9)
    first = shown(DAYS.release(early, [9], DAYS.noise_stream(KEY, b"life")))
    assert len(first) == 3
    later = events([(t, i, 1000) for i in range(5) for t in range(20, 0, -1) if i < 3 or t > 9], 5)
    again = shown(DAYS.release(later, range(1, 21), DAYS.noise_stream(KEY, b"life")))
    assert [row for row in again if row[0] == 9] == first
    assert {item for time, item, _ in again if time <= 9} == {0, 1, 2}
    assert shown(DAYS.release(early, [9], DAYS.noise_stream(KEY, b"another"))) != first


@pytest.mark.statistical
def test_stddevs_are_those_of_the_noise() -> None:
    """Variance times n is chi-square, alpha 1e-4 a time, n 500; 20% off is seen; what two times share is right."""
    at = [1, 2, 7, 20]
    noise = noise_of(DAYS, at, 500, b"many").astype(np.float64)
    for row, deviation in zip(noise, DAYS.stddevs(np.array(at)).tolist(), strict=True):
        statistic = float((row**2).sum()) / deviation**2
        assert chi2.ppf(ALPHA / 2, 500) < statistic < chi2.isf(ALPHA / 2, 500)
        assert not chi2.ppf(ALPHA / 2, 500) < statistic * 1.2**2 < chi2.isf(ALPHA / 2, 500)
    responses = np.array(factor(20).responses) / 2.0**RESPONSE
    shared = float(responses[:7] @ responses[13:]) / math.sqrt(
        float((responses[:7] ** 2).sum() * (responses**2).sum())
    )
    assert abs(np.corrcoef(noise[2], noise[3])[0, 1] - shared) < 4 / math.sqrt(500)
    assert DAYS.stddev == DAYS.stddevs(np.array([20]))[0]


@pytest.mark.parametrize(("horizon", "tree", "root"), [(12, 35.4, 22.7), (52, 53.1, 28.8), (365, 79.6, 37.0)])
def test_less_noise_than_the_tree(horizon: int, tree: float, root: float) -> None:
    """The mean standard deviation over the times at the default price; the threshold is lower, too."""
    one, other = (
        kind(Fraction(3, 20), Fraction(1, 10**10), 1, 1, horizon, False)
        for kind in (UnknownDomainBinary, UnknownDomainSquareRoot)
    )
    times = np.arange(1, horizon + 1)
    assert round(float(one.stddevs(times).mean()), 1) == tree
    assert round(float(other.stddevs(times).mean()), 1) == root
    assert other.threshold < one.threshold / 2


class OneTime(UnknownDomainSquareRoot):
    """T for a single draw of noise at a single time."""

    @property
    def threshold(self) -> int:
        deviation = math.sqrt(self.sigma_squared) / 2**PLACES
        return self.events + int(deviation * norm.isf(float(self.delta_per) / self.events / self.delta0))


LOOSE = UnknownDomainSquareRoot(Fraction(1), Fraction(1, 2), delta0=1, events=2, horizon=15, once=False)


@pytest.mark.statistical
def test_a_lone_person_comes_out_at_most_with_delta() -> None:
    """One of events delta0 items: Pr <= delta_per/(events delta0); alpha 1e-4, n 800; without L it is over."""
    allowed = 0.5 / 2
    slack = 4 * np.sqrt(allowed * (1 - allowed) / 800)
    assert 0.01 < lone(LOOSE) < allowed + slack
    assert lone(OneTime(**vars(LOOSE))) > allowed + slack


def test_blocks_of_draws_join() -> None:
    """A horizon of several blocks: each time has its own draw."""
    long = UnknownDomainSquareRoot(Fraction(1), Fraction(1, 10**9), 1, 1, 2 * BLOCK + 9, False)
    draws = long._draws(long.noise_stream(KEY, b"").child("item", ""), long.horizon)
    assert len(np.unique(draws)) > 2 * BLOCK
    assert long._draws(long.noise_stream(KEY, b"").child("item", ""), 5).tolist() == draws[:5].tolist()


def test_the_largest_noise_does_not_overflow() -> None:
    """At the largest scale and horizon the noise is that of the draws, computed in Python's integers."""
    scale = Fraction((1 << 80) - 1)
    largest = Scripted(Fraction(3, 20), Fraction(1, 2), 1, 1, MOST_TIMES, False)
    draws = 40 * np.abs(discrete_gaussian(stream("large"), scale, MOST_TIMES))
    Scripted.written = draws
    found = largest._noise([Stream(bytes(32))], np.array([1, 200]))[0]
    falls, exact = factor(MOST_TIMES).falls.tolist(), list[int]()
    for time in range(200):
        past = sum(f * e for f, e in zip(falls, reversed(exact), strict=False))
        exact.append(((int(draws[time]) << FINE) + past + (1 << (PLACES - 1))) >> PLACES)
    assert found.tolist() == [(exact[t] + (1 << (FINE - 1))) >> FINE for t in (0, 199)]


@pytest.mark.parametrize(
    "change",
    [
        {"horizon": 0},
        {"horizon": MOST_TIMES + 1},
        {"events": 2**30},
        {"delta0": 0},
        {"once": 1},
        {"delta_per": 0.1},
    ],
)
def test_parameters_out_of_range(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="must"):
        UnknownDomainSquareRoot(**{**vars(DAYS), **change})


def test_edges() -> None:
    """No event, no time: nothing."""
    assert shown(DAYS.release(events([], 0), range(1, 21), stream("nothing"))) == []
    assert shown(DAYS.release(every_day(2, 10**6), [], stream("never"))) == []
