"""What others do, on data where the right answer is known."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from benchmarks.papers.distinct_baselines import race_to_the_top, sampling_counts
from benchmarks.papers.plume import accurate, plume
from benchmarks.papers.selection_baselines import dpsu, gw
from mechanisms.item_sets import ItemSets, encoded
from mechanisms.matching import matching_counts
from mechanisms.randomness import Stream


def random() -> np.random.Generator:
    return np.random.default_rng(1)


@pytest.fixture(scope="module")
def crowd() -> ItemSets:
    """3,000 persons with 3 of 30 common items each, and one of their own."""
    persons = np.repeat(np.arange(3000), 4)
    items = np.array([[i % 30, (7 * i + 1) % 30, (11 * i + 5) % 30, 100 + i] for i in range(3000)]).ravel()
    return encoded(bytes(32), persons, items)[0]


def common(sets: ItemSets) -> int:
    return int((np.bincount(sets.items) > 1).sum())


def test_selection_finds_what_is_common(crowd: ItemSets) -> None:
    """Every common item, and none of 3,000 that one person has: delta is 1e-9."""
    assert dpsu(crowd, 0.5, 1e-9, 10, random()) == common(crowd)
    assert gw(crowd, 2.0, 1e-9, random()) <= common(crowd)
    assert gw(crowd, 2.0, 1e-9, random()) > common(crowd) // 2


def test_selection_needs_privacy(crowd: ItemSets) -> None:
    """With next to no budget nothing comes out."""
    assert dpsu(crowd, 1e-6, 1e-9, 10, random()) == 0
    assert gw(crowd, 1e-3, 1e-9, random()) == 0


def test_plume(crowd: ItemSets) -> None:
    """It finds the common items; where nobody has more than the bound its counts are right to 5 sigma."""
    found, noisy, sigma = plume(crowd, Fraction(1), Fraction(1, 10**9), 99, Stream(bytes(32)), random())
    true = np.bincount(crowd.items)[found]
    assert len(found) == common(crowd)
    assert sigma == pytest.approx(3**0.5)
    assert np.abs(noisy - true).max() < 5 * sigma
    assert np.abs(noisy - true).max() > sigma / 2


def test_the_threshold_of_plume() -> None:
    """(2 + r) sigma/r: at r = 0.1 a count of 21 sigma is kept."""
    assert accurate(np.array([20.9, 21.1]), 1.0, 0.1).tolist() == [False, True]


def test_sampling(crowd: ItemSets) -> None:
    """It never covers more than a matching, covers everything when nobody is bounded, and averages right at l = 1."""
    curve, best = sampling_counts(crowd, 4, random()), matching_counts(crowd, 4)
    assert (curve <= best).all()
    assert curve[-1] == best[-1]
    assert abs(curve[0] - (common(crowd) + 750)) < 6 * 24  # own items: binomial, 3,000 at 1/4


def test_race_to_the_top() -> None:
    """A lower bound in at least 95% of 400 runs, and above half of the true count."""
    counts = np.minimum(1000 * np.arange(1, 65), 20_000)
    random_ = random()
    runs = np.array([race_to_the_top(counts, 1.0, 0.05, random_) for _ in range(400)])
    assert (runs <= 20_000).mean() >= 0.95
    assert np.median(runs) > 10_000
