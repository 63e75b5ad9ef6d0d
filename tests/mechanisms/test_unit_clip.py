"""UnitClip: its public constants, what one unit may add, the law of the choice, the noise, and bad input."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from mechanisms.histogram import Cost, Counts
from mechanisms.unit_clip import LARGEST_TOTAL, UnitClip, clipped, root_up
from tests.mechanisms.goodness import ALPHA, gaussian_law, p_value, power, stream
from tests.mechanisms.scripted import Untouched

EPS = Fraction(3, 20)
PRICES = [Fraction(1, 4), Fraction(1), Fraction(4), Fraction(16), Fraction(64)]
CLIPS = [
    UnitClip(eps_per=eps, anchor=anchor, cells=1, price=price)
    for eps in (EPS, Fraction(1), Fraction(7, 100))
    for anchor in (1, 2, 3, 341, 342, 1000, 1 << 30)
    for price in (Fraction(1, 64), Fraction(1), Fraction(2), Fraction(64))
]


@pytest.mark.parametrize(("groups", "share"), [(1, Fraction(1, 4)), (53, Fraction(4, 25))])
@pytest.mark.parametrize("price", PRICES)
def test_the_scale_of_the_choice_is_exact_at_the_usual_prices(
    price: Fraction, groups: int, share: Fraction
) -> None:
    """Both slopes by s are sqrt(8 rho_1), rho_1 = 1/4 of the price for one cell, 4/25 for several."""
    clip = UnitClip(eps_per=EPS, anchor=1, cells=1, groups=groups, price=price)
    assert clip.choice == share
    assert (sum(clip.slopes) / clip.choice_scale) ** 2 == 8 * (share * price * EPS**2 / 8)


def test_the_scale_of_the_choice_is_never_too_small() -> None:
    for clip in CLIPS:
        exact = sum(clip.slopes) ** 2 / (clip.choice * clip.price * clip.eps_per**2)
        assert exact <= clip.choice_scale**2 < exact * Fraction(1_000_001, 1_000_000)


@pytest.mark.parametrize("square", [Fraction(2), Fraction(1, 3), Fraction(10**30 + 1), Fraction(1, 10**9)])
def test_roots_are_rounded_up(square: Fraction) -> None:
    assert root_up(square) ** 2 > square
    assert (root_up(square) - Fraction(1, 1 << 40)) ** 2 < square
    assert root_up(square**2) == square


def test_the_noise_is_for_what_the_choice_leaves() -> None:
    """(K C)^2/(2 sigma^2) is 3/4 of the price, all of it where the length was paid for before."""
    for clip in CLIPS:
        assert 1 / (2 * clip.sigma_squared) == Fraction(3, 4) * clip.price * clip.eps_per**2 / 8
        paid = UnitClip(
            eps_per=clip.eps_per, anchor=clip.anchor, cells=1, price=clip.price, length=clip.anchor
        )
        assert 1 / (2 * paid.sigma_squared) == clip.price * clip.eps_per**2 / 8
        assert paid.cost_at_most == clip.cost_at_most == Cost(clip.price, Fraction(0))
        assert clip.cost_of_choice == Cost(clip.price / 4, Fraction(0))
        assert paid.cost_of_choice == Cost(Fraction(0), Fraction(0))


@pytest.mark.parametrize(
    ("groups", "alone", "factor", "share", "spread"),
    [
        (1, False, 1.2, 0.75, 1.0),
        (1, True, 1.2, 0.75, 1.0),
        (53, False, 2, 0.84, math.sqrt(53)),
        (53, True, 1, 0.84, 1.0),
    ],
)
def test_how_many_units_are_to_lie_above(
    groups: int, alone: bool, factor: float, share: float, spread: float
) -> None:
    """m0 = g sigma G/spread, whatever the number of cells that were found."""
    for cells in (1, 7, 1000):
        clip = UnitClip(eps_per=EPS, anchor=1, cells=cells, groups=groups, alone=alone)
        sigma = math.sqrt(1 / (2 * share * 0.0028125))
        assert clip.allowed == math.ceil(factor * sigma * groups / spread)


def test_how_many_units_are_to_lie_above_is_rounded_up() -> None:
    """Also where the root is a whole number but for a little."""
    for clip in CLIPS:
        assert (clip.allowed - 1) ** 2 < Fraction(36, 25) * clip.sigma_squared <= clip.allowed**2


def test_the_sizes_that_a_question_needs() -> None:
    """Until a length 1,000 times the anchor comes out: few for one cell, many where a unit is in one of several."""
    needed = [
        UnitClip(eps_per=EPS, anchor=1, cells=53, groups=groups, alone=alone).units_needed
        for groups, alone in ((1, False), (53, False), (53, True))
    ]
    assert needed == [250, 644, 1204]


def test_lengths_are_fourths_of_an_octave_up_to_the_largest_noise() -> None:
    for clip in CLIPS:
        assert clip.lengths[0] == clip.anchor
        assert all(a < b for a, b in pairwise(clip.lengths))
        steps = {clip.length_of(n) for n in range(4 * 51)}
        assert set(clip.lengths) <= steps
        assert min(step for step in steps if step > clip.lengths[-1]) > clip._longest
        assert (clip.scale * clip.lengths[-1]) ** 2 * clip.sigma_squared < 1 << 80


def test_lengths_are_rounded_to_the_nearest() -> None:
    for anchor in (1, 7, 1000):
        clip = UnitClip(eps_per=EPS, anchor=anchor, cells=1)
        for place in range(100):
            twice = 2 * clip.length_of(place)
            assert (twice - 1) ** 4 <= (2 * anchor) ** 4 << place < (twice + 1) ** 4


def test_the_longest_has_noise_and_one_more_has_not() -> None:
    for clip in CLIPS:
        longest = clip._longest
        assert (clip.scale * longest) ** 2 * clip.sigma_squared < 1 << 80
        assert longest == LARGEST_TOTAL or (clip.scale * (longest + 1)) ** 2 * clip.sigma_squared >= 1 << 80
        noisy = clip.release(np.zeros(1, dtype=np.int64), longest, stream("longest", str(clip.parameters)))
        assert noisy.stddev == clip.stddev(longest)


def test_the_scale_is_the_least_power_of_two_that_serves() -> None:
    for clip in CLIPS:
        assert clip.scale & (clip.scale - 1) == 0
        assert clip.scale * clip.anchor >= 1024
        assert clip.scale == 1 or clip.scale // 2 * clip.anchor < 1024


def vectors() -> Iterator[tuple[Counts, int, int]]:
    """Totals, length and scale: of all sizes and signs, at the length and beside it, the largest there are."""
    random = np.random.default_rng(5)
    for _ in range(4000):
        cells = int(random.integers(1, 6))
        sizes = np.exp2(random.uniform(0, 50, cells) * random.integers(0, 2, cells)).astype(np.int64)
        totals = sizes * random.choice([-1, 0, 1, 1], cells)
        scale = 1 << int(random.integers(0, 11))
        own = math.isqrt(sum(int(y) ** 2 for y in totals.tolist()))
        any_length = int(np.exp2(random.uniform(0, 39)))
        length = (any_length, max(own, 1), max(own - 1, 1), own + 1)[random.integers(0, 4)]
        yield totals, min(length, 1 << 39), scale
    for cells in (1, 2, 1000):
        for total in (LARGEST_TOTAL, -LARGEST_TOTAL, LARGEST_TOTAL - 1, 3, 0):
            for length in (1, 3, 1 << 39):
                yield np.full(cells, total, dtype=np.int64), length, 1024
    # a double holds no more than 53 digits of these squares
    yield np.array([1 << 30, 1]), 1 << 30, 1
    yield np.array([(1 << 39) + 1, 1 << 9]), 1 << 39, 1024


def test_a_clipped_vector_is_never_longer_than_its_length() -> None:
    """In whole numbers; each part keeps its sign and grows no larger."""
    for totals, length, scale in vectors():
        found = clipped(totals, length, scale).tolist()
        assert sum(d**2 for d in found) <= (scale * length) ** 2
        for d, y in zip(found, totals.tolist(), strict=True):
            assert abs(d) <= scale * abs(y)
            assert d == 0 or (d < 0) == (y < 0)


def test_a_vector_is_shortened_by_no_more_than_it_must() -> None:
    """Whole where it is short enough; else each part is within 1 and 2e-12 of what it should be."""
    for totals, length, scale in vectors():
        found, whole = clipped(totals, length, scale).tolist(), (scale * totals).tolist()
        square = sum(int(y) ** 2 for y in totals.tolist())
        if square <= length**2:
            assert found == whole
            continue
        for d, y in zip(found, whole, strict=True):
            exact = abs(y) * length / math.sqrt(square)
            assert exact * (1 - 2e-12) - 1 <= abs(d) <= exact * (1 + 1e-15)


def test_units_come_to_the_bin_of_their_place() -> None:
    """Places of equal lengths are one bin; those beyond the last candidate are longer than all."""
    clip = UnitClip(eps_per=EPS, anchor=1, cells=1)
    assert clip.lengths[:5] == (1, 2, 3, 4, 5)
    places = np.array([0, 1, 2, 3, 4, 6, 8, clip.places - 1, clip.places])
    bins = clip.binned(places, np.array([1, 10, 100, 1000, 10**4, 10**5, 10**6, 10**7, 10**8])).tolist()
    assert bins[:4] == [111, 11_000, 100_000, 10**6]
    assert bins[-1] == 110_000_000
    assert len(bins) == clip.bins
    for clip in CLIPS:
        assert clip.length_of(clip.places) > clip.lengths[-1]
        nothing = np.zeros(0, dtype=np.int64)
        assert clip.binned(nothing, nothing).tolist() == [0] * clip.bins


FEW = UnitClip(eps_per=Fraction(2), anchor=1 << 38, cells=1, groups=2)
ONE = UnitClip(eps_per=Fraction(2), anchor=1 << 38, cells=1)
RATIOS, RATIO = replace(FEW, ratios=True), replace(ONE, ratios=True)
UNITS = np.array([3, 2, 2, 1, 1, 0, 0, 0, 0])
DRAWS = 2500


def law(clip: UnitClip, units: Counts, allowed: int | None = None) -> dict[int | None, float]:
    """By definition, from the number of units above each candidate."""
    counts, allowed = units.tolist(), clip.allowed if allowed is None else allowed
    above: dict[int | None, int] = {length: sum(counts[i + 1 :]) for i, length in enumerate(clip.lengths)}
    weights: dict[int | None, float] = {length: (clip.anchor / length) ** 2.5 for length in clip.lengths}
    weights[None] = 64.0
    above[None] = sum(counts)
    for outcome, a in above.items():
        more, fewer = (1, 0) if clip.groups == 1 else (2, 1)
        far = more * max(0, a - allowed) + fewer * max(0, allowed - a)
        far += more * min(a, allowed) if clip.ratios and outcome is None else 0
        weights[outcome] *= math.exp(-far / float(clip.choice_scale))
    return {outcome: weight / sum(weights.values()) for outcome, weight in weights.items()}


def choices(clip: UnitClip, units: Counts, draws: int = DRAWS) -> list[int | None]:
    return [clip.choose(units, stream("length", *units.tolist(), i)) for i in range(draws)]


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("clip", "allowed"),
    [(FEW, 4), (ONE, 2), (RATIOS, 4), (RATIO, 2)],
    ids=["several cells", "one cell", "ratios of several", "ratios of one"],
)
def test_the_law_of_the_choice(clip: UnitClip, allowed: int) -> None:
    """n 2,500, alpha 1e-4; power against another m0 over 0.99."""
    units = np.resize(UNITS, clip.bins)
    assert p_value(choices(clip, units), law(clip, units)) > ALPHA
    assert clip.allowed == allowed
    for other in (allowed - 1, allowed + 1):
        assert power(law(clip, units), law(clip, units, other), DRAWS) > 0.99


@pytest.mark.parametrize(
    "clip", [FEW, ONE, RATIOS, RATIO], ids=["several cells", "one cell", "ratios of several", "ratios of one"]
)
def test_one_more_unit_moves_scores_by_no_more_than_both_slopes(clip: UnitClip) -> None:
    """Down by the first or up by the second, whatever the data, and some by each."""
    random, moved = np.random.default_rng(3), set[int]()
    for n in range(300):
        units = random.integers(0, 1 + n % 3, clip.bins)
        more = units + np.eye(clip.bins, dtype=np.int64)[random.integers(clip.bins)]
        moved |= set((clip.scores(more) - clip.scores(units)).tolist())
    down, up = clip.slopes
    assert moved >= {-down, 0, up}
    assert (min(moved), max(moved)) == (-down, up)


def test_without_units_it_is_nearly_always_none() -> None:
    """64 to less than 1/(1 - 2^-5/8): 96%, and the rest is likely the anchor."""
    empty = np.zeros(FEW.bins, dtype=np.int64)
    expected = law(FEW, empty)
    assert expected[None] > 0.94
    found = choices(FEW, empty, 300)
    assert found.count(None) > 250


def test_of_ratios_few_units_are_no_reason_for_none() -> None:
    """160 units in one of 12 groups, m0 is 610 of them: nearly always a length, of totals nearly never."""
    clip = UnitClip(
        eps_per=EPS, anchor=1, cells=24, groups=12, alone=True, patience=Fraction(18, 5), ratios=True
    )
    units = np.zeros(clip.bins, dtype=np.int64)
    units[40] = 160
    assert clip.allowed > 600
    assert law(clip, units)[None] < 0.1 < 0.9 < law(replace(clip, ratios=False), units)[None]
    assert clip.scores(units)[-1] == -2 * 160 - (clip.allowed - 160)
    assert clip.units_needed < 300 < 1000 < replace(clip, ratios=False).units_needed


def test_totals_have_the_parameters_that_they_had_before_ratios() -> None:
    """These are in the keys of answers that were paid for."""
    assert not any(name == "ratios" for name, _ in FEW.parameters)
    assert ("ratios", "True") in RATIOS.parameters


def test_with_many_units_it_is_a_length_that_most_fit() -> None:
    """Never a shorter one; a longer one as seldom as its weight says, half of them within sqrt(2)."""
    clip = UnitClip(eps_per=EPS, anchor=1, cells=1)
    units = np.zeros(clip.bins, dtype=np.int64)
    units[20] = 10_000
    found = [clip.choose(units, stream("most", i)) or 0 for i in range(100)]
    assert min(found) == clip.lengths[20]
    assert sum(length <= clip.lengths[22] for length in found) > 50


def residuals(clip: UnitClip, length: int, sums: Counts) -> list[int]:
    release = clip.release(sums, length, stream("noise", length, clip.cells))
    assert release.values is not None
    assert release.indices.tolist() == list(range(clip.cells))
    assert release.cost == clip.cost_at_most
    return [int(x) for x in release.values - sums // clip.scale]


@pytest.mark.statistical
def test_the_law_of_the_noise() -> None:
    """At K = 1 nothing is rounded; n 20,000 cells, alpha 1e-4; power against the other price over 0.99."""
    sums = np.arange(20_000) % 1000 * 10**6 - 5 * 10**8
    paid = UnitClip(eps_per=Fraction(16), anchor=1024, cells=20_000, price=Fraction(64), length=1024)
    fresh = UnitClip(eps_per=Fraction(16), anchor=1024, cells=20_000, price=Fraction(64))
    assert paid.scale == fresh.scale == 1
    laws = [gaussian_law(16.0**2 / share) for share in (1.0, 0.75)]
    assert p_value(residuals(paid, 1024, sums), laws[0]) > ALPHA
    assert p_value(residuals(fresh, 1024, sums), laws[1]) > ALPHA
    assert power(laws[0], laws[1], 20_000) > 0.99
    assert power(laws[1], laws[0], 20_000) > 0.99


def test_the_sums_are_divided_after_the_noise_and_rounded_to_the_nearest() -> None:
    """The noise at the largest price is a few hundredths of a unit of the measure, so that sums come back."""
    clip = UnitClip(eps_per=Fraction(16), anchor=1, cells=6, price=Fraction(64))
    assert clip.stddev(1) == pytest.approx(math.sqrt(float(clip.sigma_squared)), rel=0.01)
    sums = np.array([0, 1024, -1024, 300, 10**6 * 1024 + 300, -300])
    release = clip.release(sums, 1, stream("nearest"))
    assert release.values is not None
    assert release.values.tolist() == [0, 1, -1, 0, 10**6, 0]


def test_the_standard_deviation_is_in_units_of_the_measure() -> None:
    for length in (1, 100):
        clip = UnitClip(eps_per=EPS, anchor=1, cells=1)
        assert clip.stddev(length) == pytest.approx(15.4 * length, rel=0.01)


def test_every_parameter_is_in_the_release_key() -> None:
    changes: list[dict[str, Any]] = [
        {"eps_per": Fraction(1, 5)},
        {"anchor": 2},
        {"cells": 2},
        {"groups": 2},
        {"alone": True},
        {"price": Fraction(4)},
        {"length": 7},
        {"patience": Fraction(2)},
    ]
    base: dict[str, Any] = {"eps_per": EPS, "anchor": 1, "cells": 1}
    texts = {UnitClip(**{**base, **change}).parameters for change in [{}, *changes]}
    assert len(texts) == len(changes) + 1


@pytest.mark.parametrize(
    "change",
    [
        {"eps_per": 0.15},
        {"eps_per": Fraction(0)},
        {"anchor": 0},
        {"anchor": 1.0},
        {"anchor": True},
        {"anchor": (1 << 50) + 1},
        {"anchor": 1 << 40},
        {"cells": 0},
        {"groups": 0},
        {"price": Fraction(1, 65)},
        {"price": 4097},
        {"price": Fraction(4097)},
        {"length": 0},
        {"length": 1.5},
        {"length": 1 << 40},
        {"patience": Fraction(0)},
        {"patience": 0.8},
    ],
)
def test_parameters_out_of_range(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must"):
        UnitClip(**{"eps_per": EPS, "anchor": 1, "cells": 1, **change})


CLIP = UnitClip(eps_per=EPS, anchor=1, cells=3)
BAD_UNITS = [
    np.zeros(CLIP.bins - 1, dtype=np.int64),
    np.zeros(CLIP.bins + 1, dtype=np.int64),
    np.full(CLIP.bins, 777, dtype=np.int32),
    np.full(CLIP.bins, -777),
    np.full(CLIP.bins, 2**53),
    np.full((1, CLIP.bins), 777),
]


@pytest.mark.parametrize("units", BAD_UNITS, ids=range(len(BAD_UNITS)))
def test_bad_counts_of_units(units: Any) -> None:
    with pytest.raises(ValueError, match="units must") as error:
        CLIP.choose(units, Untouched())
    assert "777" not in str(error.value)


BAD_SUMS = [
    np.zeros(2, dtype=np.int64),
    np.full(3, 777.0),
    np.full((3, 1), 777),
    np.array([0, 2**61 + 1, 0]),
    np.array([0, 0, -(2**61) - 1]),
]


@pytest.mark.parametrize("sums", BAD_SUMS, ids=range(len(BAD_SUMS)))
def test_bad_sums(sums: Any) -> None:
    with pytest.raises(ValueError, match="sums must") as error:
        CLIP.release(sums, 1, Untouched())
    assert "777" not in str(error.value)


@pytest.mark.parametrize("length", [0, -1, 1 << 40])
def test_a_length_without_noise_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match="length must"):
        CLIP.release(np.zeros(3, dtype=np.int64), length, Untouched())


def test_a_length_that_was_given_is_the_only_one() -> None:
    """All of the price went to the noise: another one could not be chosen."""
    given = UnitClip(eps_per=EPS, anchor=1, cells=3, length=7)
    steps: list[Callable[[], object]] = [
        lambda: given.choose(np.zeros(given.bins, dtype=np.int64), Untouched()),
        lambda: given.release(np.zeros(3, dtype=np.int64), 8, Untouched()),
    ]
    for step in steps:
        with pytest.raises(ValueError, match="given"):
            step()
    assert given.release(np.zeros(3, dtype=np.int64), 7, stream("given")).stddev == given.stddev(7)


def test_the_largest_sums() -> None:
    sums = np.array([2**61, -(2**61), 0])
    release = CLIP.release(sums, 1, stream("largest"))
    assert release.values is not None
    assert np.abs(release.values - sums // 1024).max() < 10**4


def test_a_stream_serves_one_choice_and_one_release() -> None:
    """The two draw from different children of it."""
    once, units, sums = stream("once"), np.zeros(CLIP.bins, dtype=np.int64), np.zeros(3, dtype=np.int64)
    CLIP.choose(units, once)
    CLIP.release(sums, 1, once)
    with pytest.raises(ValueError, match="already taken"):
        CLIP.choose(units, once)
    with pytest.raises(ValueError, match="already taken"):
        CLIP.release(sums, 1, once)
