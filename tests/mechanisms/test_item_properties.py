"""What must hold for every family of item sets: selection and distinct count over generated persons and items."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.distinct_count import PersonLevelDistinctCount
from mechanisms.item_sets import Labels, encoded
from mechanisms.matching import greedy_counts, matching_counts
from mechanisms.noise import Integers
from mechanisms.partition_selection import DPSips
from tests.mechanisms.goodness import stream
from tests.mechanisms.test_item_sets import KEY

Pairs = list[tuple[int, str]]
PAIRS = st.lists(st.tuples(st.integers(0, 8), st.sampled_from("abcdefghij")), max_size=60)
SIPS = DPSips(Fraction(2), Fraction(1, 5), Fraction(16), Fraction(2), delta0=3)
COUNT = PersonLevelDistinctCount(Fraction(1), 6, Fraction(1, 20), "matching")


def names(pairs: Pairs, seed: int) -> list[str]:
    """The labels that DP-SIPS releases."""
    sets, labels = encoded(KEY, *columns(pairs))
    release = SIPS.release(sets, stream("property", seed))
    assert release.cost == SIPS.cost_at_most
    return [str(label) for label in labels[release.indices]]


def columns(pairs: Pairs) -> tuple[Integers, Labels]:
    persons = np.array([person for person, _ in pairs], dtype=np.int64)
    return persons, np.array([item for _, item in pairs], dtype="U1")


@settings(max_examples=60, deadline=None)
@given(PAIRS.flatmap(lambda pairs: st.tuples(st.just(pairs), st.permutations(pairs))), st.integers(0, 9))
def test_selection(both: tuple[Pairs, Pairs], seed: int) -> None:
    """Only items of the data, none twice; the order of pairs and repeated ones change nothing."""
    pairs, permuted = both
    released = names(pairs, seed)
    assert len(set(released)) == len(released)
    assert set(released) <= {item for _, item in pairs}
    assert names(permuted + pairs[:seed], seed) == released


@settings(max_examples=60, deadline=None)
@given(PAIRS, st.integers(0, 9))
def test_distinct_count(pairs: Pairs, seed: int) -> None:
    """Counts rise with l by less and less up to the number of items; greedy ones lie between half of them and them."""
    sets, labels = encoded(KEY, *columns(pairs))
    matching, greedy = matching_counts(sets, 12), greedy_counts(sets, 12)
    steps = np.diff(matching, prepend=0)
    assert (np.diff(steps) <= 0).all()
    assert (steps >= 0).all()
    assert matching[-1] == greedy[-1] == len(labels) == len({item for _, item in pairs})
    assert (greedy <= matching).all()
    assert (2 * greedy >= matching).all()
    turned, _ = encoded(KEY, *columns(pairs[::-1]))
    assert COUNT.release(sets, stream("count", seed)) == COUNT.release(turned, stream("count", seed))
