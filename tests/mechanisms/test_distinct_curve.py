"""DistinctCountCurve: what one person moves, which count is told, its noise, and the lower bound."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from mechanisms.distinct_curve import DistinctCountCurve
from mechanisms.histogram import Cost
from mechanisms.item_sets import ItemSets, encoded
from mechanisms.matching import matching_counts, matching_counts_at
from tests.mechanisms.goodness import stream
from tests.mechanisms.scripted import Untouched
from tests.mechanisms.test_item_properties import PAIRS, Pairs, columns
from tests.mechanisms.test_item_sets import KEY, integers, random_pairs

CURVE = DistinctCountCurve(Fraction(1), 30, Fraction(1, 20))
"""Bounds 1, 3, 9 and 27; noise of 2 an item and a step."""
FLAT, STEEP = 10**6 + integers(0, 0, 0, 0), 10**6 * integers(1, 3, 9, 27)


@settings(max_examples=100, deadline=None)
@given(PAIRS)
def test_a_person_adds_to_steps_no_more_than_the_largest_bound(pairs: Pairs) -> None:
    """Lemma 2, of the first person of generated sets."""
    mechanism = DistinctCountCurve(Fraction(1), 9, Fraction(1, 20))
    others = [(person, item) for person, item in pairs if person != 0]
    with_her, without = (
        mechanism.steps(mechanism.counts(encoded(KEY, *columns(listed))[0])) for listed in (pairs, others)
    )
    moved = np.subtract(with_her, without)
    assert (moved >= 0).all()
    assert moved.sum() <= 9


def test_counts_are_those_of_all_bounds() -> None:
    sets, _ = encoded(KEY, *random_pairs(40, 2000, 1500, "curve"))
    whole = matching_counts(sets, 81)
    assert matching_counts_at(sets, (1, 3, 9, 27, 81)).tolist() == whole[[0, 2, 8, 26, 80]].tolist()
    assert whole[80] > whole[26] > whole[8]


@pytest.mark.parametrize(("counts", "told"), [(FLAT, 1), (STEEP, 27)])
def test_noise_of_what_is_told(counts: Any, told: int) -> None:
    """2,000 draws: no bias within 5 standard errors, the stated deviation within 5 of its own (8%).

    Where counts do not rise, a larger bound is told now and then for its noise alone.
    """
    root, true = stream("curve", told), counts[CURVE.bounds.index(told)]
    drawn = [CURVE.release_counts(counts, root.child(i)) for i in range(2000)]
    noise = np.array([release.estimate for release in drawn if release.bound == told]) - true
    assert len(noise) > 1960
    assert {release.stddev for release in drawn if release.bound == told} == {CURVE.stddev(told)}
    assert abs(noise.mean()) < 5 * CURVE.stddev(told) / 2000**0.5
    assert noise.std() == pytest.approx(CURVE.stddev(told), rel=0.08)
    assert CURVE.stddev(told) == pytest.approx({1: 4, 27: 54}[told], rel=1e-6)


def test_the_lower_bound_holds_whatever_is_told() -> None:
    """Counts that do not rise, where a larger bound is told for its noise alone: at most 1/20 of 2,000 draws."""
    few, root = integers(40, 40, 40, 40), stream("lower")
    drawn = [CURVE.release_counts(few, root.child(i)) for i in range(2000)]
    assert sum(release.lower_bound > 40 for release in drawn) <= 100
    assert all(release.lower_bound <= release.estimate for release in drawn)


def test_release() -> None:
    persons, items = random_pairs(300, 2000, 6000, "release")
    sets, _ = encoded(KEY, persons, items)
    first = CURVE.release(sets, stream("release"))
    assert first == CURVE.release_counts(CURVE.counts(sets), stream("release"))
    assert first.cost == CURVE.cost_at_most == Cost(Fraction(1), Fraction(0))
    assert CURVE.fetch == 30
    assert dict(CURVE.parameters)["sigma_squared"] == "2916"


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="twice"):
        CURVE.release(ItemSets(integers(0, 2), integers(1, 1), 2), Untouched())
    for counts in (FLAT[:3], STEEP[::-1], integers(-1, 0, 0, 0), FLAT * 1.0, FLAT << 50):
        with pytest.raises(ValueError, match="count"):
            CURVE.release_counts(counts, Untouched())  # type: ignore[arg-type]
    for parameters in (
        (Fraction(0), 4, Fraction(1, 20)),
        (Fraction(1), 0, Fraction(1, 20)),
        (Fraction(1), 40961, Fraction(1, 20)),
        (Fraction(1), 4, Fraction(0)),
        (Fraction(1), 4, 0.05),
    ):
        with pytest.raises(ValueError, match=r"eps_per|most|beta"):
            DistinctCountCurve(*parameters)
