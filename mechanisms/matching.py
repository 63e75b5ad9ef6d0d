"""The largest unions with at most l items of each person, for all l: exact by matching, or by taking turns.

The proof sheet is matching.md.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    return matching_counts_at(sets, range(1, most + 1))


def matching_counts_at(sets: ItemSets, bounds: Sequence[int]) -> Counts:
    """Give DC(D; l) for each l of ascending bounds; int64, shape of `bounds`."""
    matching = _Matching(sets)
    counts = []
    for bound in bounds:
        counts.append(matching.grow(bound))
        if counts[-1] == matching.union:
            break
    return _filled(counts, len(bounds))


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
    """A largest choice of at most `bound` items a person, no item twice, grown from one bound to a larger one.

    Items that one person alone has are counted for that person first. The arrays are about the others, and about what
    is left of each person's bound for them.
    """

    def __init__(self, sets: ItemSets) -> None:
        degrees = np.bincount(sets.items, minlength=sets.size)
        self.union = int(np.count_nonzero(degrees))
        owners = sets.owners
        own = degrees[sets.items] == 1
        self._own = np.bincount(owners[own], minlength=sets.persons)
        self._common = np.bincount(owners[~own], minlength=sets.persons)
        self._offsets = np.concatenate([[0], np.cumsum(self._common)])
        self._items = _rare_first(owners[~own], sets.items[~own], degrees)
        self._next = self._offsets[:-1].copy()  # no item of a person before this place is free
        self._owner = np.full(sets.size, -1)  # the person an item is counted for
        self._load = np.zeros(sets.persons, dtype=np.int64)
        # Persons from whom no free item is reached, and all their items: nothing changes there for larger bounds.
        self._settled_persons = np.zeros(sets.persons, dtype=np.bool_)
        self._settled_items = np.zeros(sets.size, dtype=np.bool_)

    def grow(self, bound: int) -> int:
        """Extend a largest choice for a smaller bound to one for `bound`; give its size.

        RuntimeError unless what the last search reached proves that none is larger.
        """
        own = np.minimum(self._own, bound)
        rest = np.minimum(bound - own, self._common)
        self._take_free(rest)
        while len((forest := self._search(rest)).ends):
            self._move(forest)
        self._settled_persons, self._settled_items = forest.reached()
        size = int(self._load.sum())
        # Settled items count themselves, all other persons for what is left of their bound.
        if size != int(self._settled_items.sum()) + int(rest[~self._settled_persons].sum()):
            raise RuntimeError("the matching is not proved to be a largest one")
        return size + int(own.sum())

    def _take_free(self, rest: Integers) -> None:
        """Let persons with room take free items until no free item has such a person."""
        ends = self._offsets[1:]
        while len(asking := np.flatnonzero((self._load < rest) & (self._next < ends))):
            items = self._items[self._next[asking]]
            self._next[asking] += 1
            free = self._owner[items] < 0
            items, asking = items[free], asking[free]
            self._owner[items] = asking  # of several persons the last one counts
            self._load[asking[self._owner[items] == asking]] += 1

    def _search(self, rest: Integers) -> _Forest:
        """Look for free items from every person with room at once.

        From a person to all the items of that person; from an item on to the person it is counted for. A tree stops
        growing when it has found a free item.
        """
        front = np.flatnonzero((self._load < rest) & ~self._settled_persons)
        forest = _Forest(front, self._settled_persons, self._settled_items)
        while len(front):
            at, items = _neighbours(self._offsets, self._items, front)
            reached = forest.reach_items(items, front[at])
            growing = forest.end(reached, self._owner[reached] < 0)
            front = forest.reach_persons(self._owner[growing], growing)
        return forest

    def _move(self, forest: _Forest) -> None:
        """Along each path from an end, give every item to the person who asks for it, who gives up the next one."""
        items = forest.ends
        while len(items):
            persons = forest.asking[items]
            self._owner[items] = persons
            items = forest.through[persons]
            self._load[persons[items < 0]] += 1
            items = items[items >= 0]


class _Forest:
    """Trees grown from persons with room, which share neither persons nor items."""

    def __init__(self, roots: Integers, persons: NDArray[np.bool_], items: NDArray[np.bool_]) -> None:
        """`persons`, `items`: which are not to be reached."""
        self._tree = np.where(persons, len(persons), -1)  # the root of each person reached
        self._tree[roots] = roots
        self._done = np.zeros(len(persons), dtype=np.bool_)  # of a root: its tree found a free item
        self.asking = np.where(items, len(persons), -1)
        """The person through whom each item was reached."""
        self.through = np.full(len(persons), -1)
        """The item through which each person was reached; none of a root."""
        self.ends = np.empty(0, dtype=np.int64)
        """Free items, at most one a tree."""

    def reach_items(self, items: Integers, persons: Integers) -> Integers:
        """Reach those of the items not reached before, each through one of the persons; give them."""
        new = self.asking[items] < 0
        items, persons = items[new], persons[new]
        self.asking[items] = persons  # of several persons the last one counts
        reached: Integers = items[self.asking[items] == persons]
        return reached

    def reach_persons(self, persons: Integers, items: Integers) -> Integers:
        """Reach those of the persons not reached before, each through one of the items; give them."""
        new = self._tree[persons] < 0
        persons, items = persons[new], items[new]
        self.through[persons] = items  # of several items the last one counts
        last = self.through[persons] == items
        reached: Integers = persons[last]
        self._tree[reached] = self._tree[self.asking[items[last]]]
        return reached

    def end(self, items: Integers, free: NDArray[np.bool_]) -> Integers:
        """End each tree at one of its free items; give the others, of trees not ended."""
        trees = self._tree[self.asking[items]]
        ended, first = np.unique(trees[free], return_index=True)
        self._done[ended] = True
        self.ends = np.concatenate([self.ends, items[free][first]])
        growing: Integers = items[~self._done[trees]]
        return growing

    def reached(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Give which persons and items were reached, or were not to be."""
        return self._tree >= 0, self.asking >= 0


def _neighbours(offsets: Integers, targets: Integers, sources: Integers) -> tuple[Integers, Integers]:
    """Give the targets of all the sources, each with the place of its source in `sources`."""
    counts = offsets[sources + 1] - offsets[sources]
    places = np.repeat(np.arange(len(sources)), counts)
    first = np.cumsum(counts) - counts
    return places, targets[np.arange(len(places)) + (offsets[sources] - first)[places]]


def _rare_first(owners: Integers, items: Integers, degrees: Integers) -> Integers:
    """Give the items of pairs by person, those that few persons have first: others can count the rest."""
    order = np.argsort(degrees, kind="stable")
    place = np.empty(len(degrees), dtype=np.int64)
    place[order] = np.arange(len(degrees))
    pairs = np.sort(owners * len(degrees) + place[items])
    rare: Integers = order[pairs % max(len(degrees), 1)]
    return rare


def _filled(counts: list[int], most: int) -> Counts:
    """Repeat the last count up to the length `most`."""
    return np.array(counts + [counts[-1]] * (most - len(counts)), dtype=np.int64)
