"""Bounded unions against a general maximum flow, taking turns against turns taken one by one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from mechanisms.histogram import Counts
from mechanisms.item_sets import ItemSets, encoded
from mechanisms.matching import _Matching, greedy_counts, matching_counts
from tests.mechanisms.test_item_sets import KEY, random_pairs

SHAPES = [(1, 1, 1), (5, 40, 60), (40, 5, 80), (30, 30, 60), (60, 200, 900), (3, 100, 250)]


def flow(sets: ItemSets, bound: int) -> int:
    """DC(D; l) as the flow source -(l)-> person -(1)-> item -(1)-> sink."""
    persons, size = sets.persons, sets.size
    sink = persons + size + 1
    tails = np.concatenate([np.zeros(persons), 1 + sets.owners, 1 + persons + np.arange(size)])
    heads = np.concatenate([1 + np.arange(persons), 1 + persons + sets.items, np.full(size, sink)])
    capacities = np.ones(len(tails), dtype=np.int32)
    capacities[:persons] = bound
    graph = csr_array(
        (capacities, (tails.astype(np.int32), heads.astype(np.int32))), shape=(sink + 1, sink + 1)
    )
    return int(maximum_flow(graph, 0, sink).flow_value)


def turns(sets: ItemSets, most: int) -> list[int]:
    """Algorithm 2, person after person."""
    orders = [sets.items[slice(*sets.offsets[i : i + 2].tolist())].tolist() for i in range(sets.persons)]
    union: set[int] = set()
    sizes = []
    for _ in range(most):
        for order in orders:
            union.update([item for item in order if item not in union][:1])
        sizes.append(len(union))
    return sizes


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("shape", SHAPES)
def test_counts(shape: tuple[int, int, int], seed: int) -> None:
    """Matching: a maximum flow for every l. Greedy: Algorithm 2's, at least half of it, never more."""
    sets, _ = encoded(KEY, *random_pairs(*shape, "matching", seed))
    matching, greedy = matching_counts(sets, 12), greedy_counts(sets, 12)
    assert matching.tolist() == [flow(sets, bound) for bound in range(1, 13)]
    assert greedy.tolist() == turns(sets, 12)
    assert (greedy <= matching).all()
    assert (2 * greedy >= matching).all()


def test_items_of_one_person_are_counted_first() -> None:
    """A person has ten items alone and shares twenty with one who has nothing else, who counts for the shared ones."""
    persons = np.repeat([0, 0, 1], [10, 20, 20])
    items = np.concatenate([np.arange(10), 10 + np.arange(20), 10 + np.arange(20)])
    sets, _ = encoded(KEY, persons, items)
    assert matching_counts(sets, 24).tolist() == [min(2 * bound, 30) for bound in range(1, 25)]
    assert [flow(sets, bound) for bound in (1, 10, 15, 24)] == [2, 20, 30, 30]


def test_what_is_settled_stays_for_larger_bounds() -> None:
    """Two persons share one item and are settled at once, while others go on to larger bounds."""
    persons = np.concatenate([[0, 1], np.repeat([2, 3], 30)])
    items = np.concatenate([[0, 0], 1 + np.arange(30), 11 + np.arange(30)])
    sets, _ = encoded(KEY, persons, items)
    assert matching_counts(sets, 30).tolist() == [flow(sets, bound) for bound in range(1, 31)]


def test_long_paths() -> None:
    """Items i and i + 1 each; only moving all of them makes room: a path through every person."""
    n = 200
    persons = np.concatenate([np.arange(n), np.arange(n)])
    items = np.concatenate([np.arange(n), np.arange(n) + 1])
    sets, _ = encoded(KEY, persons, items)
    matching = _Matching(sets)
    assert matching.grow(1) == n
    assert matching.grow(2) == n + 1 == matching.union


def neighbours(seed: int) -> list[tuple[ItemSets, ItemSets]]:
    persons, items = random_pairs(12, 60, 120, "neighbours", seed)
    whole, _ = encoded(KEY, persons, items)
    return [(whole, encoded(KEY, persons[persons != i], items[persons != i])[0]) for i in range(12)]


def by_frequency(sets: ItemSets, most: int) -> Counts:
    """A mutant: everybody takes what is most frequent first, in an order that changes when a person leaves."""
    order = np.argsort(-np.bincount(sets.items, minlength=sets.size), kind="stable")
    place = np.argsort(order)
    pairs = np.sort(sets.owners * sets.size + place[sets.items])
    return greedy_counts(ItemSets(sets.offsets, order[pairs % sets.size], sets.size), most)


@pytest.mark.statistical
def test_sensitivity() -> None:
    """One person changes the count for l by 0..l, capped or not; a frequency order is caught."""
    bounds = np.arange(1, 9)
    caught = False
    for seed in range(25):
        for whole, rest in neighbours(seed):
            for count in (matching_counts, greedy_counts):
                for change in (
                    count(whole, 8) - count(rest, 8),
                    count(whole.capped(4), 8) - count(rest.capped(4), 8),
                ):
                    assert (change >= 0).all()
                    assert (change <= bounds).all()
            lie = by_frequency(whole, 8) - by_frequency(rest, 8)
            caught |= bool((lie < 0).any() or (lie > bounds).any())
    assert caught


def test_a_matching_that_is_not_the_largest_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a search that gives up at once, what it reached proves nothing."""
    sets, _ = encoded(KEY, *random_pairs(60, 40, 90, "refused"))
    assert matching_counts(sets, 1)[0] == flow(sets, 1)
    monkeypatch.setattr("mechanisms.matching._Forest.end", lambda self, items, free: items[:0])
    with pytest.raises(RuntimeError, match="not proved"):
        matching_counts(sets, 1)


def test_nobody() -> None:
    nothing = np.empty(0, dtype=np.int64)
    sets, _ = encoded(KEY, nothing, nothing)
    assert matching_counts(sets, 3).tolist() == greedy_counts(sets, 3).tolist() == [0, 0, 0]
