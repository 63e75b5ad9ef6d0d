"""Each person's distinct items as integers: the input of partition selection and of the distinct count."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.noise import Integers

Labels = NDArray[Any]
"""One label an entry: numbers or texts, none missing."""
Hashes = NDArray[np.uint64]


@dataclass(frozen=True, repr=False, eq=False)
class ItemSets:
    """Persons and their distinct items, sensitive: it has no repr of its contents.

    `offsets`: int64, shape (n + 1,); person i's items are `items[offsets[i]:offsets[i + 1]]`, int64, none twice, each
    from 0 to `size` - 1, in the person's own order. ValueError for other shapes and ranges.

    The order of persons, each person's own order, and which of two items has the smaller number must not depend on
    other persons' rows: `encoded` sees to it.
    """

    offsets: Integers
    items: Integers
    size: int

    def __post_init__(self) -> None:
        offsets, items = self.offsets, self.items
        if any(array.dtype != np.int64 or array.ndim != 1 for array in (offsets, items)):
            raise ValueError("offsets and items must be int64, of one dimension")
        if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != len(items) or (np.diff(offsets) < 0).any():
            raise ValueError("offsets must go up from 0 to the number of pairs")
        if len(items) and not (items.min() >= 0 and items.max() < self.size):
            raise ValueError("items must lie between 0 and their number")

    @property
    def persons(self) -> int:
        """The number of persons, those without items included."""
        return len(self.offsets) - 1

    @property
    def degrees(self) -> Integers:
        """The number of items of each person, shape (n,)."""
        return np.diff(self.offsets)

    @property
    def owners(self) -> Integers:
        """The person of each pair, shape of `items`."""
        return np.repeat(np.arange(self.persons), self.degrees)

    def check_distinct(self) -> None:
        """Raise ValueError where a person has an item twice."""
        pairs = np.sort(self.owners * self.size + self.items)
        if (pairs[1:] == pairs[:-1]).any():
            raise ValueError("a person has an item twice")

    def capped(self, most: int) -> ItemSets:
        """Keep the first `most` items of each person's own order."""
        places = np.arange(len(self.items)) - np.repeat(self.offsets[:-1], self.degrees)
        return self._kept(places < most)

    def without(self, items: Integers) -> ItemSets:
        """Take these items out of every person's set."""
        stays = np.ones(self.size, dtype=np.bool_)
        stays[items] = False
        return self._kept(stays[self.items])

    def _kept(self, kept: NDArray[np.bool_]) -> ItemSets:
        running = np.concatenate([[0], np.cumsum(kept)])
        return ItemSets(running[self.offsets], self.items[kept], self.size)


def encoded(key: bytes, persons: Labels, items: Labels) -> tuple[ItemSets, Labels]:
    """Number persons and items by keyed hash; give the sets, and the items' labels by number.

    >>> sets, labels = encoded(bytes(32), np.array([7, 7, 9, 7]), np.array(["b", "a", "b", "b"]))
    >>> sets.persons, sets.size, sorted(sets.degrees.tolist()), sorted(labels.tolist())
    (2, 2, [1, 2], ['a', 'b'])

    `key`: at most 64 bytes, secret; `persons`, `items`: shape (pairs,), one pair a place, in any order, repeated ones
    count once. Persons and items are numbered by (keyed hash of the label, label); a person's own order is by a hash
    of (person, item), then number. ValueError where the shapes differ, a label is missing or the key is too long.
    """
    if persons.shape != items.shape or persons.ndim != 1:
        raise ValueError("one person and one item a pair")
    _, person_hashes, person_of = _numbered(key, b"person", persons)
    labels, item_hashes, item_of = _numbered(key, b"item", items)
    size = max(len(labels), 1)
    pairs = np.sort(person_of * size + item_of)
    pairs = pairs[np.diff(pairs, prepend=-1) > 0]
    owners = pairs // size
    ordered = pairs - owners * size
    ordered = ordered[_own_order(owners, _mixed(person_hashes[owners] ^ item_hashes[ordered]))]
    counts = np.bincount(owners, minlength=len(person_hashes))
    return ItemSets(np.concatenate([[0], np.cumsum(counts)]), ordered, len(labels)), labels


def _numbered(key: bytes, kind: bytes, labels: Labels) -> tuple[Labels, Hashes, Integers]:
    """Give the distinct labels by (hash, label), their hashes, and each entry's number."""
    if np.ma.isMaskedArray(labels) or (labels.dtype == object and any(label is None for label in labels)):
        raise ValueError("a label is missing")
    distinct, inverse = np.unique(labels, return_inverse=True)
    digests = (blake2b(str(x).encode(), key=key, person=kind, digest_size=8) for x in distinct.tolist())
    hashes = np.frombuffer(b"".join(digest.digest() for digest in digests), dtype="<u8").astype(np.uint64)
    order = np.argsort(hashes, kind="stable")  # equal hashes stay in the order of their labels
    numbers = np.empty(len(order), dtype=np.int64)
    numbers[order] = np.arange(len(order))
    return distinct[order], hashes[order], numbers[inverse]


def _mixed(hashes: Hashes) -> Hashes:
    """Scatter 64-bit numbers one to one (the finalizer of SplitMix64)."""
    hashes ^= hashes >> np.uint64(30)
    hashes *= np.uint64(0xBF58476D1CE4E5B9)
    hashes ^= hashes >> np.uint64(27)
    hashes *= np.uint64(0x94D049BB133111EB)
    hashes ^= hashes >> np.uint64(31)
    return hashes


def _own_order(owners: Integers, hashes: Hashes) -> Integers:
    """Give the places of pairs, sorted by owner, by (owner, hash, place).

    One sort by owner and leading bits of the hash; what these leave equal is sorted again.
    """
    bits = np.uint64(64 - int(owners[-1]).bit_length() if len(owners) else 0)
    leading = owners.astype(np.uint64) << bits | hashes >> (np.uint64(64) - bits)
    order = np.argsort(leading)
    leading = leading[order]
    equal = leading[1:] == leading[:-1]
    again = np.flatnonzero(np.append(equal, False) | np.insert(equal, 0, False))
    tied = order[again]
    order[again] = tied[np.lexsort((tied, hashes[tied], leading[again]))]
    return order
