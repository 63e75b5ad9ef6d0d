"""TopCounts: what is shown and charged, and what the mechanisms would cost that were not chosen."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from mechanisms.choose import MechanismSettings, cells_of_units, choose
from mechanisms.histogram import Cost, Histogram
from mechanisms.known_domain import KnownGumb
from mechanisms.runners_up import runners_up
from mechanisms.top_counts import TopCounts
from mechanisms.unknown_domain import UnkGumb
from tests.mechanisms.goodness import stream

EPS, DELTA = Fraction(3, 20), Fraction(1, 10**10)
SETTINGS = MechanismSettings(EPS, DELTA, "gaussian", None, 1000)
KNOWN = TopCounts(KnownGumb(EPS, 1, 4, 9, False))
UNKNOWN = TopCounts(UnkGumb(EPS, DELTA, 1, 4, 9, False))


def test_counts_have_the_noise_of_one_with_a_part_in_common() -> None:
    """1,500 draws of four counts: standard errors of 1.3% for all of them, of 1.9% for a sum."""
    counts, root = np.array([90_000, 70_000, 50_000, 30_000, *[0] * 5]), stream("top counts")
    drawn = []
    for n in range(1500):
        release = KNOWN.release(Histogram(counts, complete=True), root.child(n))
        assert release.indices.tolist() == [0, 1, 2, 3]
        assert release.values is not None
        drawn.append(release.values - counts[:4])
    noise = np.array(drawn, dtype=float)
    assert noise.std() == pytest.approx(float(2 / EPS), rel=0.07)
    assert release.stddev == KNOWN.stddev == pytest.approx(float(2 / EPS), rel=1e-2)
    own = KNOWN.stddev**2 - KNOWN.common_stddev**2
    assert noise.sum(axis=1).std() == pytest.approx((4 * own + 16 * KNOWN.common_stddev**2) ** 0.5, rel=0.1)
    assert (release.common_stddev, release.cost) == (KNOWN.common_stddev, KNOWN.cost_at_most)


@pytest.mark.parametrize(
    ("rows", "ranks", "counts"), [(9, 5, Fraction(9, 4)), (1, 3, Fraction(1)), (0, 2, Fraction(0))]
)
def test_what_comes_out_is_paid_for(rows: int, ranks: int, counts: Fraction) -> None:
    """Of an unknown domain: one draw for the index, one a rank, one for the end; counts by how many there are."""
    fetched = np.array(sorted([5000] * rows + [0] * (10 - rows), reverse=True))
    release = UNKNOWN.release(Histogram(fetched, complete=False), stream("paid", rows))
    assert release.cost == Cost(ranks + counts, Fraction(1))
    assert release.values is not None
    assert len(release.values) == len(release.indices) == min(rows, 4)
    assert release.cost.information <= UNKNOWN.cost_at_most.information == Fraction(29, 4)


def test_it_orders_by_ranks_that_show_nothing_else() -> None:
    for ranks in (replace(KNOWN.ranks, counts=True), replace(KNOWN.ranks, tau=2)):
        with pytest.raises(ValueError, match="ranks"):
            TopCounts(ranks)


Question = tuple[int | None, int | None, int, int | None, bool]
QUESTIONS: list[Question] = [
    *((cells, None, 1, None, True) for cells in (2, 3, 4, 7, 13, 27, 53, 64)),
    *(
        (cells, delta0, 1, None, True)
        for cells, delta0 in ((7, 1), (50, 2), (50, 5), (50, 30), (304, 100), (12, 12))
    ),
    *((cells, None, 1, k, True) for cells, k in ((7, 1), (32, 10), (53, 5), (53, 26), (304, 10), (304, 100))),
    *((cells, None, 1, k, False) for cells, k in ((32, 10), (304, 20))),
    *((None, delta0, tau, None, True) for delta0, tau in ((1, 1), (3, 1), (5, 1), (50, 1), (3, 20))),
    *((None, None, 1, k, True) for k in (1, 5, 10, 100)),
    *((cells, delta0, 20, None, True) for cells, delta0 in ((7, 1), (53, 53))),
    (300, None, 20, 10, False),
]


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_no_other_mechanism_would_cost_much_less_for_the_same_noise(question: Question) -> None:
    cells, delta0, tau, k, counts = question
    mechanism = choose(SETTINGS, domain_size=cells, delta0=delta0, tau=tau, k=k, counts=counts)
    others = runners_up(SETTINGS, mechanism, cells=cells, delta0=delta0, tau=tau)
    assert others
    assert float(mechanism.cost_at_most.information) <= 1.1 * min(others.values()), (mechanism.name, others)


def test_there_are_enough_questions() -> None:
    assert len(set(QUESTIONS)) >= 30


def test_the_papers_mechanisms_stay() -> None:
    paper = replace(SETTINGS, paper=True)
    top = choose(paper, domain_size=304, delta0=None, tau=1, k=10, counts=True)
    assert (top.name, top.cost_at_most.information) == ("KnownGumb", Fraction(20))
    assert cells_of_units(paper, 53, 53).name == "KnownGauss"
