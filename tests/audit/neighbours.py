"""From a table of counts to what leaves: fetching as the backend does, releasing, looking."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mechanisms.histogram import Cost, Histogram, Mechanism
from mechanisms.randomness import Stream
from tests.audit.experiment import Draw, View

Table = Mapping[int, int]
"""Label to count; the order of labels is the fixed tie-break."""


class Fetched(NamedTuple):
    """What the backend gives: labels, place by place, and their counts."""

    labels: tuple[int, ...]
    histogram: Histogram


class Outcome(NamedTuple):
    """What leaves: labels and noisy counts in released order, and what was charged."""

    rows: tuple[tuple[int, int | None], ...]
    cost: Cost


Fetch = Callable[[Table, Mechanism], Fetched]


def fetched(table: Table, mechanism: Mechanism) -> Fetched:
    """Fetch as the rewritten query does: all cells, or the top d_bar + 1 by count, then label."""
    if mechanism.fetch is None:
        labels = tuple(sorted(table))
    else:
        present = [label for label, count in table.items() if count]
        labels = tuple(sorted(present, key=lambda label: (-table[label], label))[: mechanism.fetch])
    complete = mechanism.fetch is None or len(labels) < mechanism.fetch
    counts = np.array([table[label] for label in labels], dtype=np.int64)
    return Fetched(labels, Histogram(counts, complete))


def released(mechanism: Mechanism, table: Table, fetch: Fetch = fetched) -> Draw:
    """Give the draws of a release of a table."""
    labels, histogram = fetch(table, mechanism)

    def draw(stream: Stream, n: int) -> list[Outcome]:
        return [_outcome(mechanism, labels, histogram, stream.child(i)) for i in range(n)]

    return draw


def _outcome(mechanism: Mechanism, labels: tuple[int, ...], histogram: Histogram, stream: Stream) -> Outcome:
    release = mechanism.release(histogram, stream)
    keys = [labels[i] for i in release.indices.tolist()]
    values = [None] * len(keys) if release.values is None else release.values.tolist()
    return Outcome(tuple(zip(keys, values, strict=True)), release.cost)


@dataclass(frozen=True)
class CopiedCells:
    """Draws of a mechanism whose cells are independent: n copies of a table as one release of n times its cells."""

    make: Callable[[int], Mechanism]
    counts: tuple[int, ...]

    def __call__(self, stream: Stream, n: int) -> list[Outcome]:
        cells = len(self.counts)
        mechanism = self.make(n * cells)
        histogram = Histogram(np.tile(np.array(self.counts, dtype=np.int64), n), complete=True)
        release = mechanism.release(histogram, stream)
        assert release.values is not None
        return [
            Outcome(tuple(enumerate(row)), release.cost) for row in release.values.reshape(n, cells).tolist()
        ]


def raw(outcome: Outcome) -> Hashable:
    """Every key and count, in order."""
    return outcome.rows


def keys(outcome: Outcome) -> Hashable:
    """Which keys come out."""
    return frozenset(label for label, _ in outcome.rows)


def order(outcome: Outcome) -> Hashable:
    """In which order."""
    return tuple(label for label, _ in outcome.rows)


def row_count(outcome: Outcome) -> Hashable:
    """How many."""
    return len(outcome.rows)


def least_key(outcome: Outcome) -> Hashable:
    """The first of the labels, of a crowd whose sets are too many to compare."""
    return min((label for label, _ in outcome.rows), default=-1)


def bottom(outcome: Outcome) -> Hashable:
    """What was charged, which tells whether the answer ended in bottom."""
    return str(outcome.cost.information)


def low_bits(outcome: Outcome) -> Hashable:
    """The two lowest bits of each count."""
    return tuple((value or 0) & 3 for _, value in outcome.rows)


def sum_over(labels: Sequence[int]) -> View:
    """The sum of the noisy counts of some keys: where they all moved, the sharpest view."""
    chosen = frozenset(labels)

    def total(outcome: Any) -> Hashable:
        return sum(value or 0 for label, value in outcome.rows if label in chosen)

    return total


KNOWN_VIEWS: Mapping[str, View] = {"raw": raw, "low bits": low_bits}
ORDER_VIEWS: Mapping[str, View] = {"raw": raw, "keys": keys, "order": order, "low bits": low_bits}
UNKNOWN_VIEWS: Mapping[str, View] = {
    **ORDER_VIEWS,
    "row count": row_count,
    "least key": least_key,
    "bottom": bottom,
}


def changed(left: Table, right: Table) -> list[int]:
    """Give the labels whose counts differ."""
    return sorted(label for label in {*left, *right} if left.get(label, 0) != right.get(label, 0))
