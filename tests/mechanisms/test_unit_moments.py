"""UnitMoments: the median that is its centre, what a row counts for, the clip about every centre, and the price."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from mechanisms.histogram import Cost, Counts
from mechanisms.unit_clip import UnitClip, clipped
from mechanisms.unit_moments import PLACES, Centre, UnitMoments
from tests.mechanisms.goodness import ALPHA, p_value, power, stream
from tests.mechanisms.scripted import Untouched

EPS = Fraction(3, 20)
ALL_PLACES = range(-PLACES, PLACES + 1)
MOMENTS = [
    UnitMoments(eps_per=eps, least=least, cells=2, squares=squares, price=price)
    for eps in (EPS, Fraction(1))
    for least in (1, 7, 100, 1 << 30)
    for squares in (False, True)
    for price in (Fraction(1, 4), Fraction(1), Fraction(2), Fraction(64))
]


def test_centres_are_zero_and_fourths_of_an_octave_of_both_signs() -> None:
    moments = UnitMoments(eps_per=EPS, least=1, cells=1)
    centres = [moments.centre_of(place).centre for place in ALL_PLACES]
    assert centres == sorted(centres) == [-c for c in reversed(centres)]
    assert centres[PLACES : PLACES + 11] == [0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5]
    assert 2**40 < centres[-1] < 2**41
    for n, c in enumerate(centres[PLACES + 1 :]):
        assert (2 * c - 1) ** 4 <= 16 << n < (2 * c + 1) ** 4


def test_a_row_counts_for_half_the_centre_rounded_up_and_never_for_nothing() -> None:
    """And for no less than the public least; where no noise can be drawn for that, for the most there is."""
    for moments in MOMENTS:
        largest = moments.clip(moments.centre_of(PLACES)).lengths[-1]
        for place in ALL_PLACES:
            centre, row, fine = moments.centre_of(place)
            fineness = 1 << (16 if row > moments.least else 10)
            assert fine == 1 or (moments.squares and fineness <= row * fine < 2 * fineness)
            assert fine.bit_count() == 1
            assert row == min(max(math.ceil(Fraction(abs(centre), 2)), moments.least), largest) >= 1
            assert row == moments.centre_of(-place).row


def test_there_is_a_clip_about_every_centre() -> None:
    """So that no question fails for what came out of its first step."""
    for moments in MOMENTS:
        for about in map(moments.centre_of, (0, 1, 20, 45, 80, PLACES - 20, PLACES - 1, PLACES)):
            clip = moments.clip(about)
            assert clip.anchor == about.row * about.fine == clip.lengths[0]
            assert clip.cells == moments.parts * moments.cells


def test_rows_are_as_declared_far_beyond_the_usual_values() -> None:
    """At one unit of price the most that a row counts for is above 2^35."""
    moments = UnitMoments(eps_per=EPS, least=1, cells=1, squares=True)
    assert moments.centre_of(PLACES).row > 1 << 35
    assert all(row == (c + 1) // 2 for c, row, _ in map(moments.centre_of, range(4, 140)))


def test_the_prices_of_the_steps_add_up() -> None:
    """Centre 10%, choice 22.5%, noise 67.5%; in rho, no step takes more than its part."""
    for moments in MOMENTS:
        clip, unit = moments.clip(moments.centre_of(0)), moments.eps_per**2 / 8
        assert moments.cost_at_most == Cost(moments.price, Fraction(0))
        assert moments.cost_of_centre == Cost(moments.price / 10, Fraction(0))
        assert clip.cost_of_choice == Cost(moments.price * 9 / 40, Fraction(0))
        assert moments.cost_of_centre.information + clip.price == moments.price
        steps = (_centre_rho(moments), 1 / (8 * clip.choice_scale**2), 1 / (2 * clip.sigma_squared))
        for rho, share in zip(steps, (Fraction(10), Fraction(45, 2), Fraction(135, 2)), strict=True):
            due = share / 100 * moments.price * unit
            assert due * Fraction(999_999, 1_000_000) < rho <= due


def _centre_rho(moments: UnitMoments) -> Fraction:
    """One unit moves each score by 1 at most, up or down: range 2/beta."""
    beta = Fraction(dict(moments.parameters)["beta"])
    return (2 / beta) ** 2 / 8


def test_how_many_units_are_to_lie_above() -> None:
    """m0 = 2.4 sigma G/spread, for several cells too, where the noise has 75.6% of the price, not 67.5%; of nothing but
    averages 3.6 sigma G/spread."""
    for groups, alone, spread, share in (
        (1, False, 1.0, 0.675),
        (12, False, math.sqrt(12), 0.756),
        (12, True, 1.0, 0.756),
    ):
        moments = UnitMoments(eps_per=EPS, least=1, cells=12, groups=groups, alone=alone)
        allowed = moments.clip(Centre(0, 1)).allowed
        sigma = math.sqrt(1 / (2 * share * 0.0028125))
        assert allowed == math.ceil(2.4 * sigma * groups / spread)
        averages = replace(moments, averages=True).clip(Centre(0, 1))
        assert (averages.allowed, averages.ratios) == (math.ceil(3.6 * sigma * groups / spread), True)


def test_sums_beside_averages_have_the_parameters_that_they_had_before() -> None:
    """These are in the keys of answers that were paid for."""
    moments = UnitMoments(eps_per=EPS, least=1, cells=1)
    assert dict(moments.parameters)["patience"] == "12/5"
    assert not any(name == "averages" for name, _ in moments.parameters)
    assert not any(name == "ratios" for name, _ in moments.clip(Centre(0, 1)).parameters)
    assert ("averages", "True") in replace(moments, averages=True).parameters


SMALL = UnitMoments(eps_per=Fraction(8), least=1, cells=1)
PLACED = np.array([-PLACES, -9, 0, 5, PLACES])
UNITS = np.array([2, 3, 1, 3, 1])
DRAWS = 2500


def law(moments: UnitMoments, beta: float) -> dict[Centre, float]:
    """The median's exponential mechanism by definition: minus how far half the units are from a place's ranks."""
    counts = dict(zip(PLACED.tolist(), UNITS.tolist(), strict=True))
    below, half, weights = 0, int(UNITS.sum()) / 2, dict[Centre, float]()
    for place in ALL_PLACES:
        upto = below + counts.get(place, 0)
        far = max(below - half, half - upto, 0.0)
        centre = moments.centre_of(place)
        weights[centre] = weights.get(centre, 0.0) + math.exp(-2 * far / beta)
        below = upto
    return {centre: weight / sum(weights.values()) for centre, weight in weights.items()}


def side(law: dict[Centre, float]) -> dict[int, float]:
    """The law of the centre's size in powers of 16, with its sign."""
    found: dict[int, float] = {}
    for centre, p in law.items():
        found[size(centre)] = found.get(size(centre), 0.0) + p
    return found


def size(centre: Centre) -> int:
    bits = (abs(centre.centre).bit_length() + 3) // 4
    return bits if centre.centre > 0 else -bits


@pytest.mark.statistical
def test_the_law_of_the_centre() -> None:
    """beta = 2/(8 sqrt(1/10)); n 2,500, alpha 1e-4; power against a scale smaller by a third over 0.99."""
    expected = side(law(SMALL, 2 / (8 * math.sqrt(0.1))))
    found = [
        size(SMALL.choose_centre(PLACED, UNITS, stream("centre", i).child("once"))) for i in range(DRAWS)
    ]
    assert p_value(found, expected) > ALPHA
    assert power(expected, side(law(SMALL, 4 / (24 * math.sqrt(0.1)))), DRAWS) > 0.99


def test_the_centre_of_many_units_is_their_median() -> None:
    moments = UnitMoments(eps_per=EPS, least=1, cells=1)
    for place in (-30, 0, 30):
        units = np.array([10_000, 20_000, 10_000])
        found = moments.choose_centre(np.array([place - 9, place, place + 9]), units, stream("many", place))
        assert found == moments.centre_of(place)


def test_units_of_one_place_add_up() -> None:
    moments = UnitMoments(eps_per=Fraction(8), least=1, cells=1)
    one = moments.choose_centre(np.array([7, 7, -3]), np.array([300, 300, 300]), stream("add"))
    other = moments.choose_centre(np.array([7, -3]), np.array([600, 300]), stream("add"))
    assert one == other == moments.centre_of(7)


def vectors(rows: list[list[int]], about: Centre, squares: bool) -> list[Counts]:
    """What each unit adds in one cell before it is clipped."""
    return [
        np.array(
            [about.fine * sum(x - about.centre for x in own), about.fine * len(own) * about.row]
            + [sum(round(about.fine * (x - about.centre) ** 2 / about.row) for x in own)] * squares
        )
        for own in rows
    ]


@pytest.mark.parametrize("squares", [False, True])
def test_averages_and_variances_of_units_that_are_alike(squares: bool) -> None:
    """2,000 units with 3 rows each at 900, 1,000 and 1,100: within 3% of 1,000, and of a variance of 6,667."""
    moments = UnitMoments(eps_per=Fraction(1), least=1, cells=1, squares=squares)
    rows = [[900, 1000, 1100]] * 2000
    about = moments.choose_centre(np.array([41]), np.array([2000]), stream("alike"))
    clip = moments.clip(about)
    own = vectors(rows, about, squares)
    lengths = [math.hypot(*vector.tolist()) for vector in own]
    units = np.bincount(np.searchsorted(clip.lengths, lengths), minlength=clip.bins).astype(np.int64)
    length = clip.choose(units, stream("alike", "length"))
    assert length is not None
    sums = sum((clipped(vector, length, clip.scale) for vector in own), np.zeros(moments.parts, np.int64))
    release = clip.release(sums, length, stream("alike", "noise"))
    assert release.values is not None
    r, n, *q = (float(x) for x in release.values)
    assert about.centre + r / (n / about.row) == pytest.approx(1000, rel=0.03)
    if squares:
        variance = q[0] * about.row / (n / about.row) - (r / (n / about.row)) ** 2
        assert variance == pytest.approx(20_000 / 3, rel=0.3)


def test_lengths_are_of_neighbouring_candidates_from_what_a_row_counts_for() -> None:
    clip = UnitMoments(eps_per=EPS, least=5, cells=3, squares=True).clip(Centre(-40, 20))
    assert isinstance(clip, UnitClip)
    assert (clip.anchor, clip.cells, clip.lengths[:5]) == (20, 9, (20, 24, 28, 34, 40))
    assert all(a < b for a, b in pairwise(clip.lengths))


@pytest.mark.parametrize(
    "change",
    [
        {"eps_per": 0.15},
        {"eps_per": Fraction(0)},
        {"least": 0},
        {"least": 1.0},
        {"least": True},
        {"least": (1 << 40) + 1},
        {"least": 1 << 40},
        {"cells": 0},
        {"cells": 1 << 31},
        {"groups": 0},
        {"price": Fraction(1, 64)},
        {"price": Fraction(5000)},
        # the median's own eps is out of range: said before anything is drawn
        {"eps_per": Fraction(8), "price": Fraction(64)},
        {"eps_per": Fraction(1, 10**6)},
    ],
)
def test_parameters_out_of_range(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must"):
        UnitMoments(**{"eps_per": EPS, "least": 1, "cells": 1, **change})


BAD_PLACES = [
    ([PLACES + 1], [777]),
    ([-PLACES - 1], [777]),
    ([0, 1], [777, -778]),
    ([0, 0], [777, 2**53]),
]


@pytest.mark.parametrize(("places", "units"), BAD_PLACES)
def test_bad_averages(places: list[int], units: list[int]) -> None:
    with pytest.raises(ValueError, match=r"average|counts") as error:
        SMALL.choose_centre(np.array(places), np.array(units), Untouched())
    assert "777" not in str(error.value)


def test_every_parameter_is_in_the_release_key() -> None:
    changes: list[dict[str, Any]] = [
        {"eps_per": Fraction(1, 5)},
        {"least": 2},
        {"cells": 2},
        {"groups": 2},
        {"alone": True},
        {"squares": True},
        {"price": Fraction(4)},
    ]
    base: dict[str, Any] = {"eps_per": EPS, "least": 1, "cells": 1}
    texts = {UnitMoments(**{**base, **change}).parameters for change in [{}, *changes]}
    assert len(texts) == len(changes) + 1
