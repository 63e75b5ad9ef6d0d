"""ItemSets: what one person's rows decide, and what they do not."""

from __future__ import annotations

import numpy as np
import pytest

from mechanisms.item_sets import ItemSets, Labels, _own_order, encoded
from mechanisms.noise import Integers
from tests.mechanisms.goodness import ALPHA, p_value, stream

KEY = bytes(range(32))


def random_pairs(persons: int, items: int, pairs: int, *labels: str | int) -> tuple[Integers, Integers]:
    words = stream("pairs", *labels).words(2 * pairs)
    return (
        (words[:pairs] % np.uint64(persons)).astype(np.int64),
        (words[pairs:] % np.uint64(items)).astype(np.int64),
    )


def kept(persons: Integers, items: Labels, most: int) -> dict[int, set[object]]:
    """Each person's first `most` labels. Persons are named by what they alone have: their own number's item."""
    sets, labels = encoded(KEY, persons, items)
    capped = sets.capped(most)
    return {
        int(min(label // 1000 for label in labels[row])): set(labels[part].tolist())
        for row, part in (
            (
                sets.items[sets.offsets[i] : sets.offsets[i + 1]],
                capped.items[slice(*capped.offsets[i : i + 2])],
            )
            for i in range(sets.persons)
        )
    }


def test_a_person_who_leaves_changes_nobody_elses_cut() -> None:
    """And a cut keeps min(most, n) items, in any order of the pairs, repeated or not."""
    persons, items = random_pairs(30, 40, 400)
    items = 100_000 + items  # shared ones
    own = np.arange(30)
    persons, items = np.concatenate([persons, own]), np.concatenate([items, own * 1000])
    cuts = kept(persons, items, 5)
    assert {len(cut) for cut in cuts.values()} == {5}
    order = np.argsort(stream("order").words(2 * len(persons)))
    assert kept(np.tile(persons, 2)[order], np.tile(items, 2)[order], 5) == cuts
    for leaver in range(30):
        stay = persons != leaver
        rest = kept(persons[stay], items[stay], 5)
        assert rest == {person: cut for person, cut in cuts.items() if person != leaver}


def test_orders_differ_between_persons() -> None:
    """Of 20,000 persons with the same 10 items each item is the first of a tenth: alpha 1e-4."""
    persons, items = np.repeat(np.arange(20_000), 10), np.tile(np.arange(10), 20_000)
    sets, _ = encoded(KEY, persons, items)
    assert p_value(sets.capped(1).items.tolist(), dict.fromkeys(range(10), 0.1)) > ALPHA


def test_equal_leading_bits_are_told_apart() -> None:
    """Hashes that differ in their last bits alone, for so many persons that these are cut off; equal ones by place."""
    owners = np.array([0, 1, 1, 1, 1, 1 << 30])
    hashes = np.array([9, 7, 5, 6, 5, 1], dtype=np.uint64)
    assert _own_order(owners, hashes).tolist() == [0, 2, 4, 3, 1, 5]


def test_labels_may_be_texts() -> None:
    sets, labels = encoded(KEY, np.array(["x", "y", "x"]), np.array(["ä", "ä", "b"], dtype=object))
    assert sorted(labels.tolist()) == ["b", "ä"]
    assert np.bincount(sets.items, minlength=2)[labels.tolist().index("ä")] == 2


def test_items_taken_out() -> None:
    persons, items = random_pairs(20, 50, 300)
    sets, _ = encoded(KEY, persons, items)
    gone = np.array([3, 7, 7])
    rest = sets.without(gone)
    assert set(rest.items.tolist()) == set(sets.items.tolist()) - {3, 7}
    assert rest.persons == sets.persons


def test_nobody() -> None:
    nothing = np.empty(0, dtype=np.int64)
    sets, labels = encoded(KEY, nothing, nothing)
    assert (sets.persons, sets.size, len(labels), len(sets.capped(3).items)) == (0, 0, 0, 0)


def integers(*values: int) -> Integers:
    return np.array(values, dtype=np.int64)


@pytest.mark.parametrize(
    ("offsets", "items", "message"),
    [
        (integers(0, 2), integers(0, 2), "their number"),
        (integers(0, 2), integers(-1, 1), "their number"),
        (integers(0, 3), integers(0, 1), "go up"),
        (integers(1, 2), integers(0, 1), "go up"),
        (integers(0, 2, 1, 2), integers(0, 1), "go up"),
        (integers(), integers(), "go up"),
        (integers(0, 2), np.array([0.0, 1.0]), "int64"),
        (integers(0, 2), integers(0, 1)[None], "int64"),
    ],
)
def test_bad_sets(offsets: Integers, items: Integers, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ItemSets(offsets, items, 2)


def test_an_item_twice() -> None:
    ItemSets(integers(0, 2, 3), integers(1, 0, 1), 2).check_distinct()
    with pytest.raises(ValueError, match="twice"):
        ItemSets(integers(0, 3), integers(1, 0, 1), 2).check_distinct()


def test_bad_pairs() -> None:
    with pytest.raises(ValueError, match="one person and one item"):
        encoded(KEY, integers(1), integers(1, 2))
    for labels in (np.array(["a", None], dtype=object), np.ma.masked_array([1, 2], [False, True])):
        with pytest.raises(ValueError, match="missing"):
            encoded(KEY, integers(1, 1), labels)
