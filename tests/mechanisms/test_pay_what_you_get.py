"""Pay what you get: reserve the most, settle what came out, stop when the most is not left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from mechanisms.histogram import Cost, Histogram, Mechanism, Release
from mechanisms.pay_what_you_get import pay_what_you_get
from mechanisms.randomness import Stream
from mechanisms.unknown_domain import UnkGumb
from tests.mechanisms.goodness import stream

TOP = UnkGumb(Fraction(1), Fraction(1, 10**6), tau=1, k=3, d_bar=9, counts=False, index_step=False)
FULL = Histogram(np.array([900, 800, 700, 600]), complete=True)
ONE = Histogram(np.array([900]), complete=True)
NONE = Histogram(np.array([], dtype=np.int64), complete=True)


def paid(histograms: list[Histogram], information: int, calls: int = 99) -> list[int]:
    budget = Cost(Fraction(information), Fraction(calls))
    releases = pay_what_you_get(budget, [(TOP, h) for h in histograms], stream("paid"))
    return [int(release.cost.information) for release in releases]


def test_only_what_comes_out_is_paid() -> None:
    """Elements and bottoms: three for a full list, two for one element, one for none."""
    assert paid([FULL, ONE, NONE], 10) == [3, 2, 1]


def test_it_stops_where_the_most_is_not_left() -> None:
    """k* = 7: after 3 + 2 there are 2 left, and another call could cost 3."""
    assert paid([FULL, ONE, NONE], 7) == [3, 2]
    assert paid([NONE] * 9, 5) == [1, 1, 1]
    assert paid([FULL], 2) == []
    assert paid([NONE] * 9, 50, calls=4) == [1] * 4


def test_a_call_may_depend_on_what_came_out() -> None:
    seen: list[Release] = []

    def calls() -> Iterator[tuple[Mechanism, Histogram]]:
        yield TOP, FULL
        while len(seen[-1].indices):
            yield TOP, (ONE if len(seen) < 3 else NONE)

    for release in pay_what_you_get(Cost(Fraction(99), Fraction(99)), calls(), stream("adaptive")):
        seen.append(release)
    assert [len(release.indices) for release in seen] == [3, 1, 1, 0]


def test_calls_do_not_share_noise() -> None:
    """Ties of five, ten calls: the same order every time would be one in 60^9."""
    ties = Histogram(np.array([900] * 5), complete=True)
    releases = pay_what_you_get(Cost(Fraction(99), Fraction(99)), [(TOP, ties)] * 10, stream("ties"))
    assert len({tuple(release.indices.tolist()) for release in releases}) > 3


@dataclass(frozen=True)
class Greedy(UnkGumb):
    """Settles more than it reserved."""

    def release(self, histogram: Histogram, stream: Stream) -> Release:
        release = super().release(histogram, stream)
        return Release(release.indices, None, None, Cost(Fraction(4), Fraction(1)))


def test_settling_above_the_reservation_lets_nothing_out() -> None:
    greedy = Greedy(TOP.eps_per, TOP.delta_per, 1, 3, 9, False, False)
    with pytest.raises(AssertionError, match="reserved"):
        next(pay_what_you_get(Cost(Fraction(99), Fraction(99)), [(greedy, FULL)], stream("greedy")))
