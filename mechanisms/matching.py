"""The largest unions with at most l items of each person, for all l: exact by matching, or by taking turns.

The proof sheet is matching.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mechanisms.histogram import Counts
from mechanisms.item_sets import ItemSets
from mechanisms.noise import Integers


def matching_counts(sets: ItemSets, most: int) -> Counts:
    """Give DC(D; l) for l = 1..most: the most distinct items when each person counts for at most l of hers.

    >>> from mechanisms.item_sets import encoded
    >>> sets, _ = encoded(bytes(32), np.array([1, 1, 1, 2]), np.array([10, 20, 30, 10]))
    >>> matching_counts(sets, 4).tolist()
    [2, 3, 3, 3]

    int64, shape (most,). Counting Distinct Elements Under Person-Level DP, Section 1.1 (matching.md, Theorem 1).
    """
    matching = _Matching(sets)
    counts = []
    for bound in range(1, most + 1):
        counts.append(matching.grow(bound))
        if counts[-1] == matching.union:
            break
    return _filled(counts, most)


def greedy_counts(sets: ItemSets, most: int) -> Counts:
    """Give |S| after each of l = 1..most rounds in which every person, in turn, adds her first item not in S.

    >>> from mechanisms.item_sets import encoded
    >>> sets, _ = encoded(bytes(32), np.array([1, 1, 1, 2]), np.array([10, 20, 30, 10]))
    >>> greedy_counts(sets, 4).tolist()
    [2, 3, 3, 3]

    int64, shape (most,). Persons take turns by number, each goes through her own order. Counting Distinct Elements
    Under Person-Level DP, Algorithm 2 (matching.md, Theorem 2).
    """
    owners, items = sets.owners, sets.items
    counts, size = [], 0
    for _ in range(most):
        taken = _turn(owners, items, sets)
        size += int(taken.sum())
        counts.append(size)
        left = ~taken[items]
        owners, items = owners[left], items[left]
        if not len(items):
            break
    return _filled(counts, most)


def _turn(owners: Integers, items: Integers, sets: ItemSets) -> NDArray[np.bool_]:
    """Say which items are taken when each person, by number, takes her first one that is left.

    `owners`, `items`: the pairs left, by person, then in her order. Every person asks for her first item; it goes to
    the first person who asks; who is refused, or has to give it back, asks for her next.
    """
    holder = np.full(sets.size, sets.persons)
    heads = np.flatnonzero(np.diff(owners, prepend=-1))
    asking = heads  # places of the pairs that are asked for
    current = np.zeros(sets.persons + 1, dtype=np.int64)
    while len(asking):
        person, item = owners[asking], items[asking]
        current[person] = asking
        before = holder[item]
        np.minimum.at(holder, item, person)
        refused = person[holder[item] != person]
        returned = np.unique(before[(holder[item] != before) & (before < sets.persons)])
        following = current[np.concatenate([refused, returned])] + 1
        following = following[following < len(owners)]
        asking = following[owners[following] == owners[following - 1]]
    return holder < sets.persons


class _Matching:
    """A largest choice of at most `bound` items a person, no item twice, grown from one bound to the next."""

    def __init__(self, sets: ItemSets) -> None:
        degrees = np.bincount(sets.items, minlength=sets.size)
        self._offsets = np.concatenate([[0], np.cumsum(degrees)])
        self._persons = sets.owners[_by_number(sets.items)]
        self.union = int(np.count_nonzero(degrees))
        self._free = degrees > 0
        self._owner = np.full(sets.size, -1)  # the person an item is counted for
        self._load = np.zeros(sets.persons, dtype=np.int64)
        self._owners, self._items = _rare_first(sets, degrees)  # the pairs whose item is free

    def grow(self, bound: int) -> int:
        """Extend a largest choice for bound - 1 to one for `bound`; give its size.

        RuntimeError unless what the last search reached proves that none is larger.
        """
        self._take_free(bound)
        while len((forest := self._search(bound)).ends):
            self._move(forest)
        size = int(self._load.sum())
        if size != forest.bound_of_sizes(bound, self.union):
            raise RuntimeError("the matching is not proved to be a largest one")
        return size

    def _take_free(self, bound: int) -> None:
        """Let persons with room take free items until no free item has such a person."""
        left = self._free[self._items]
        self._owners, self._items = self._owners[left], self._items[left]
        owners, items = self._owners, self._items
        while True:
            fits = self._free[items] & (self._load[owners] < bound)
            owners, items = owners[fits], items[fits]
            if not len(items):
                return
            heads = np.flatnonzero(np.diff(owners, prepend=-1))
            taken, first = np.unique(items[heads], return_index=True)
            self._give(taken, owners[heads][first])

    def _give(self, items: Integers, persons: Integers) -> None:
        """Count free items for persons, different ones, with room."""
        self._owner[items] = persons
        self._free[items] = False
        self._load[persons] += 1

    def _search(self, bound: int) -> _Forest:
        """Look for persons with room from every free item at once.

        From an item to all its persons; from a person without room on to the items counted for that person. A tree
        stops growing when it has found room.
        """
        front = np.flatnonzero(self._free)
        forest = _Forest(front, len(self._owner), len(self._load))
        offsets, held = self._held()
        while len(front):
            at, persons = _neighbours(self._offsets, self._persons, front)
            reached = forest.reach_persons(persons, front[at])
            growing = forest.end(reached, self._load[reached] < bound)
            at, front = _neighbours(offsets, held, growing)
            forest.reach_items(front, growing[at])
        return forest

    def _held(self) -> tuple[Integers, Integers]:
        """Give the items counted for each person, as offsets and items."""
        counted = np.flatnonzero(self._owner >= 0)
        offsets = np.concatenate([[0], np.cumsum(self._load)])
        return offsets, counted[_by_number(self._owner[counted])]

    def _move(self, forest: _Forest) -> None:
        """Along each path to an end, count every item for the next person; the free item gets its first one."""
        persons = forest.ends
        self._load[persons] += 1
        while len(persons):
            items = forest.through[persons]
            before = self._owner[items]
            self._owner[items] = persons
            self._free[items] = False
            persons = before[before >= 0]


class _Forest:
    """Trees grown from free items, which share neither persons nor items."""

    def __init__(self, roots: Integers, items: int, persons: int) -> None:
        self._tree = np.full(items, -1)  # the root of each item reached
        self._tree[roots] = roots
        self._done = np.zeros(items, dtype=np.bool_)  # of a root: its tree found room
        self.through = np.full(persons, -1)
        """The item through which each person was reached."""
        self.ends = np.empty(0, dtype=np.int64)
        """Persons with room, at most one a tree."""

    def reach_persons(self, persons: Integers, items: Integers) -> Integers:
        """Reach those of the persons not reached before, each through one of the items; give them."""
        new = self.through[persons] < 0
        persons, items = persons[new], items[new]
        self.through[persons] = items  # of several items the last one counts
        reached: Integers = persons[self.through[persons] == items]
        return reached

    def reach_items(self, items: Integers, persons: Integers) -> None:
        """Reach items from the persons they are counted for: each has one, so it is reached once."""
        self._tree[items] = self._tree[self.through[persons]]

    def end(self, persons: Integers, room: NDArray[np.bool_]) -> Integers:
        """End each tree at one of its persons with room; give those without, of trees not ended."""
        trees = self._tree[self.through[persons]]
        ended, first = np.unique(trees[room], return_index=True)
        self._done[ended] = True
        self.ends = np.concatenate([self.ends, persons[room][first]])
        growing: Integers = persons[~self._done[trees]]
        return growing

    def bound_of_sizes(self, bound: int, union: int) -> int:
        """Bound the size of every choice: reached persons count for `bound` each, items not reached for themselves."""
        return bound * int((self.through >= 0).sum()) + union - int((self._tree >= 0).sum())


def _neighbours(offsets: Integers, targets: Integers, sources: Integers) -> tuple[Integers, Integers]:
    """Give the targets of all the sources, each with the place of its source in `sources`."""
    counts = offsets[sources + 1] - offsets[sources]
    places = np.repeat(np.arange(len(sources)), counts)
    first = np.cumsum(counts) - counts
    return places, targets[np.arange(len(places)) + (offsets[sources] - first)[places]]


def _by_number(numbers: Integers) -> Integers:
    """Give the places of numbers from 0 to 2^48 - 1 in ascending order; equal ones stay in theirs.

    NumPy sorts 16 bits in linear time.
    """
    order = np.argsort(numbers.astype(np.uint16), kind="stable")
    for shift in (16, 32):
        if len(numbers) and numbers.max() >> shift:
            order = order[np.argsort((numbers[order] >> shift).astype(np.uint16), kind="stable")]
    return order


def _rare_first(sets: ItemSets, degrees: Integers) -> tuple[Integers, Integers]:
    """Give the pairs by person, items that few persons have first: most of them are the only ones' to count."""
    order = _by_number(degrees)
    place = np.empty(sets.size, dtype=np.int64)
    place[order] = np.arange(sets.size)
    owners = sets.owners
    pairs = np.sort(owners * sets.size + place[sets.items])
    return owners, order[pairs - owners * sets.size]


def _filled(counts: list[int], most: int) -> Counts:
    """Repeat the last count up to the length `most`."""
    return np.array(counts + [counts[-1]] * (most - len(counts)), dtype=np.int64)
