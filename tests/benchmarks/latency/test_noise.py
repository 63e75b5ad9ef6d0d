"""The noise benchmark: its yardstick draws the right law, a missed target is named."""

from __future__ import annotations

from fractions import Fraction

import pytest

from benchmarks.latency.cks20 import PlainSampler
from benchmarks.latency.noise import N, Timing, missed, releases, zipf
from tests.mechanisms.goodness import ALPHA, gaussian_law, laplace_law, p_value, power

DRAWS = 10_000


def test_the_yardstick_is_discrete_laplace() -> None:
    """n 10,000, alpha 1e-4; power against 20% off in either direction over 0.99."""
    sampler, law = PlainSampler(seed=5), laplace_law(2.5)
    assert p_value([sampler.laplace(Fraction(5, 2)) for _ in range(DRAWS)], law) > ALPHA
    assert min(power(law, laplace_law(lie), DRAWS) for lie in (2.0, 3.0)) > 0.99


def test_the_yardstick_is_discrete_gaussian() -> None:
    """n 10,000, alpha 1e-4; power against 20% off in either direction over 0.99."""
    sampler, law = PlainSampler(seed=5), gaussian_law(7 / 3)
    assert p_value([sampler.gaussian(Fraction(7, 3)) for _ in range(DRAWS)], law) > ALPHA
    assert min(power(law, gaussian_law(7 / 3 * lie**2), DRAWS) for lie in (0.8, 1.2)) > 0.99


@pytest.mark.parametrize(("theirs", "ours", "misses"), [(0.1, 0.009, 0), (0.1, 0.02, 1)])
def test_ten_times_faster_than_opendp(theirs: float, ours: float, misses: int) -> None:
    found = missed({"laplace": [Timing("dpproxy", ours), Timing("opendp", theirs)]}, [], ())
    assert len(found) == misses


def test_releases_have_targets_and_work_to_do() -> None:
    timings = releases(1)
    assert [timing.seconds > 0 for timing in timings] == [True, True]
    assert len(missed({}, timings, (1e-9, 1e-9))) == 2
    assert missed({}, timings, (1e9, 1e9)) == []
    assert zipf(N + 1).counts[0] > zipf(N + 1).counts[-1] > 0
