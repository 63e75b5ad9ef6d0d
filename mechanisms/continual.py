"""UnknownDomainBinary: running counts over a stream of events, items unknown. The proof sheet is continual.md.

What every mechanism of running counts has in common is `RunningCounter`; square_root.py has the other one.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from mechanisms.histogram import Cost
from mechanisms.noise import Floats, Integers, discrete_gaussian, gaussian_stddev
from mechanisms.randomness import Stream, release_key, seed
from mechanisms.tails import gaussian_sum_threshold
from mechanisms.validation import (
    LARGEST_COUNT,
    check_bounds,
    check_delta,
    check_epsilon,
    check_noise,
    exact_texts,
)

BLOCK = 256
"""Draws of an item's noise that are made at once; part of the law of a stream's noise, so it never changes."""
ITEMS = 256
"""Items whose noise is computed at once."""
LONGEST = 1 << 20
"""The longest horizon."""


@dataclass(frozen=True, repr=False)
class Events:
    """The counts of events so far. They are the sensitive input, so their repr has no contents.

    `times`, `items`, `counts`: int64, shape (n,), one row for each time and item that occurred together: the
    time, from 1; the item's place in `labels`; in how many events at that time it occurred. `labels`: what the
    items are called, one each. The order of rows and of labels does not matter.
    """

    times: Integers
    items: Integers
    counts: Integers
    labels: Sequence[bytes]


@dataclass(frozen=True)
class RunningCounts:
    """The released values: noisy running counts, by time, then by noisy count, then by label.

    `times`, `items`, `values`: int64, shape (r,); `items` are places in `Events.labels`. `stddevs`: float64,
    shape (r,), the standard deviation of each one's noise.
    """

    times: Integers
    items: Integers
    values: Integers
    stddevs: Floats


@dataclass(frozen=True)
class RunningCounter(ABC):
    """Running counts with noise that lasts for a stream's life, of the items that are above a threshold.

    `delta0`: the most items of one event; `events`: the most events of one person (1 is also event-level
    privacy); `horizon`: L, the last time there can be; `once`: whether a person counts once for an item. Costs
    1 information and 1 call unit, once for all releases of the stream, up to its horizon. ValueError for
    parameters out of range.
    """

    eps_per: Fraction
    delta_per: Fraction
    delta0: int
    events: int
    horizon: int
    once: bool

    def __post_init__(self) -> None:
        check_epsilon(self.eps_per)
        check_delta(self.delta_per)
        check_bounds(delta0=self.delta0, events=self.events, horizon=self.horizon)
        if self.horizon > LONGEST:
            raise ValueError("horizon must be at most 2^20")
        if not isinstance(self.once, bool):
            raise ValueError("once must be True or False")

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def cost_at_most(self) -> Cost:
        return Cost(Fraction(1), Fraction(1))

    @property
    def changes(self) -> int:
        """The largest sum, over items, of the square of one person's number of events with the item."""
        return self.events * self.delta0 * self.alone

    @property
    def alone(self) -> int:
        """The most events of one person with one item: what the item of a person alone can count."""
        return 1 if self.once else self.events

    @property
    @abstractmethod
    def sigma_squared(self) -> Fraction:
        """Parameter sigma^2 of each draw of noise."""

    @property
    @abstractmethod
    def threshold(self) -> int:
        """T: what a noisy count has to exceed to be released."""

    @property
    @abstractmethod
    def stddev(self) -> float:
        """The largest standard deviation of a running count's noise."""

    @property
    def least_stddev(self) -> float:
        """The smallest standard deviation of a running count's noise, that of the first time."""
        return float(self.stddevs(np.ones(1, dtype=np.int64))[0])

    @abstractmethod
    def stddevs(self, times: Integers) -> Floats:
        """Give the standard deviation of a running count's noise at each of `times`."""

    @abstractmethod
    def _noise(self, streams: Sequence[Stream], moments: Integers) -> Integers:
        """Give the noise of the items of `streams` at `moments`, shape (items, times)."""

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        return exact_texts(self, sigma_squared=self.sigma_squared, threshold=self.threshold)

    def noise_stream(self, key: bytes, identity: bytes) -> Stream:
        """Give the noise of the stream `identity`: the same at every release, for the stream's life.

        `key`: the noise key (32 bytes). `identity`: which events are counted, and how, in canonical form, without
        any time at which they are looked at. The parameters are part of the seed.
        """
        return seed(key, release_key(key, ["stream", identity, self.parameters]), b"continual")

    def release(self, events: Events, at: Sequence[int], stream: Stream) -> RunningCounts:
        """Release the running counts at the times `at` of the items seen by then, strictly above T.

        `at`: times from 1 to the horizon, ascending. `stream`: what `noise_stream` gives, made anew for each
        release. The events up to a time that was looked at are what they were then: a stream only grows.
        ValueError for events that are not one row for each time and item, labels that repeat, times out of range.
        """
        moments = self._moments(at)
        _check(events, self.horizon)
        order = np.lexsort((events.times, events.items))
        times, items, counts = events.times[order], events.items[order], events.counts[order]
        starts = np.searchsorted(items, np.arange(len(events.labels) + 1))
        threshold, found = self.threshold, []
        for first in range(0, len(events.labels), ITEMS):
            labels = events.labels[first : first + ITEMS]
            noise = self._noise([stream.child("item", label.hex()) for label in labels], moments)
            for item, label in enumerate(labels, first):
                own = slice(starts[item], starts[item + 1])
                so_far = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts[own])])
                true = so_far[np.searchsorted(times[own], moments, side="right")]
                noisy = true + noise[item - first]
                shown = np.flatnonzero((true > 0) & (noisy > threshold))
                found += [(int(moments[n]), -int(noisy[n]), label, item) for n in shown]
        return self._running(sorted(found))

    def _moments(self, at: Sequence[int]) -> Integers:
        moments = np.array(at, dtype=np.int64)
        if np.any(moments < 1) or np.any(moments > self.horizon) or np.any(moments[1:] <= moments[:-1]):
            raise ValueError("times to look at must ascend from 1 to the horizon")
        return moments

    def _running(self, found: list[tuple[int, int, bytes, int]]) -> RunningCounts:
        times = np.array([time for time, _, _, _ in found], dtype=np.int64)
        return RunningCounts(
            times=times,
            items=np.array([item for _, _, _, item in found], dtype=np.int64),
            values=np.array([-minus for _, minus, _, _ in found], dtype=np.int64),
            stddevs=self.stddevs(times),
        )


@dataclass(frozen=True)
class UnknownDomainBinary(RunningCounter):
    """Running counts as sums of noisy dyadic partial sums, one set of partial sums an item, above a threshold.

    >>> stream = UnknownDomainBinary(Fraction(1, 2), Fraction(1, 10**9), delta0=1, events=1, horizon=365, once=False)
    >>> stream.partial_sums, stream.sigma_squared, stream.threshold, stream.cost_at_most
    (9, Fraction(144, 1), 249, Cost(information=Fraction(1, 1), calls=Fraction(1, 1), epsilon=None))

    Unknown Domain Framework, section 4.3, Theorem 11 (continual.md, Theorem 1). Arguments as for `RunningCounter`.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        check_noise(self.sigma_squared * self.partial_sums)

    @property
    def partial_sums(self) -> int:
        """s = ceil(log2(L + 1)): the most partial sums that an event is part of, or a running count is made of."""
        return self.horizon.bit_length()

    @property
    def sigma_squared(self) -> Fraction:
        """Parameter sigma^2 of the noise on each partial sum, in counts squared."""
        return 4 * self.changes * self.partial_sums / self.eps_per**2

    @property
    def threshold(self) -> int:
        times = self.events * self.delta0 * self.horizon
        return gaussian_sum_threshold(
            self.sigma_squared, self.partial_sums, self.alone, times, self.delta_per
        )

    @property
    def stddev(self) -> float:
        return gaussian_stddev(self.sigma_squared) * math.sqrt(self.partial_sums)

    def stddevs(self, times: Integers) -> Floats:
        return gaussian_stddev(self.sigma_squared) * np.sqrt(np.bitwise_count(times).astype(np.float64))

    def _noise(self, streams: Sequence[Stream], moments: Integers) -> Integers:
        """Give the sums of nodes: at l, one node for each binary digit of l that is 1.

        The node of digit j ends at (l >> j) << j; it is number l >> (j + 1) of the nodes that are used there.
        """
        total = np.zeros((len(streams), len(moments)), dtype=np.int64)
        for level in range(self.partial_sums):
            used = np.flatnonzero(moments >> level & 1)
            blocks, places = np.divmod(moments[used] >> (level + 1), BLOCK)
            nodes = (self.horizon >> (level + 1)) + 1
            for block in np.unique(blocks).tolist():
                n = min(BLOCK, nodes - BLOCK * block)
                here = blocks == block
                for noise, stream in zip(total, streams, strict=True):
                    drawn = discrete_gaussian(stream.child("node", level, block), self.sigma_squared, n)
                    noise[used[here]] += drawn[places[here]]
        return total


def _check(events: Events, horizon: int) -> None:
    columns = (events.times, events.items, events.counts)
    if any(column.dtype != np.int64 or column.ndim != 1 for column in columns):
        raise ValueError("times, items and counts must be int64, one a row")
    if len({len(column) for column in columns}) > 1:
        raise ValueError("times, items and counts must have as many rows")
    if len(set(events.labels)) != len(events.labels):
        raise ValueError("labels must not repeat")
    if not len(events.times):
        return
    if events.times.min() < 1 or events.times.max() > horizon:
        raise ValueError("times must lie from 1 to the horizon")
    if events.items.min() < 0 or events.items.max() >= len(events.labels):
        raise ValueError("every item must have a label")
    if events.counts.min() < 1 or events.counts.max() > LARGEST_COUNT // horizon:
        raise ValueError("counts must be positive and their sum at most 2^53")
    cells = events.times * np.int64(len(events.labels)) + events.items
    if len(np.unique(cells)) != len(cells):
        raise ValueError("one row for each time and item")
