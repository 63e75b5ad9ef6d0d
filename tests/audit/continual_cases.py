"""Running counts: a person's events at the worst times, looked at again and again; the noise, alone and together."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from mechanisms.continual import Events, RunningCounter, UnknownDomainBinary
from mechanisms.noise import Floats, Integers
from mechanisms.randomness import Stream
from mechanisms.square_root import UnknownDomainSquareRoot
from tests.audit.claims import concentrated
from tests.audit.experiment import Draw, Experiment
from tests.audit.finding import Check
from tests.audit.fit import Exact, Fit, coarse
from tests.audit.rare import Rare, newcomers
from tests.mechanisms.goodness import gaussian_law, stream

EPS, DELTA = Fraction(2), Fraction(1, 10)
Happened = Mapping[tuple[int, int], int]
"""(time, label) to the number of events."""
Kind = type[RunningCounter]
KINDS: tuple[Kind, ...] = (UnknownDomainBinary, UnknownDomainSquareRoot)
HORIZON = 3
ROOT = (1, 1 / 2, 3 / 8)
"""The first column of the square root of running sums."""


class Seen(NamedTuple):
    """What leaves: (label, (time, value)) in released order."""

    rows: tuple[tuple[int, tuple[int, int]], ...]


def events(happened: Happened) -> Events:
    labels = sorted({label for _, label in happened})
    keys = sorted(happened)
    return Events(
        times=np.array([time for time, _ in keys], dtype=np.int64),
        items=np.array([labels.index(label) for _, label in keys], dtype=np.int64),
        counts=np.array([happened[key] for key in keys], dtype=np.int64),
        labels=[bytes([label]) for label in labels],
    )


def name(kind: Kind) -> str:
    """What a mechanism, or the mutant of one, is named."""
    return next(known.__name__ for known in KINDS if issubclass(kind, known))


def seen(mechanism: RunningCounter, happened: Happened) -> Draw:
    """Look at every time of the stream, each time anew with the stream's own noise."""
    now = events(happened)
    labels = [label[0] for label in now.labels]

    def look(key: bytes) -> Seen:
        running = mechanism.release(now, range(1, HORIZON + 1), mechanism.noise_stream(key, b"events"))
        rows = zip(running.items.tolist(), running.times.tolist(), running.values.tolist(), strict=True)
        return Seen(tuple((labels[item], (time, value)) for item, time, value in rows))

    def draw(stream: Stream, n: int) -> list[Seen]:
        return [look(stream.child(i).words(4).tobytes()) for i in range(n)]

    return draw


BUSY = {(time, 1): 40 for time in range(1, HORIZON + 1)}
PAIRS: dict[str, tuple[int, int, bool, Happened, Happened]] = {
    "an event more at time 1": (1, 1, False, BUSY, {**BUSY, (1, 1): 41}),
    "an event more at time 3": (1, 1, False, BUSY, {**BUSY, (3, 1): 41}),
    "all events of a person at once": (1, 2, False, BUSY, {**BUSY, (1, 1): 42}),
    "events apart, once an item": (1, 2, True, {**BUSY, (1, 2): 40}, {**BUSY, (1, 2): 41, (2, 1): 41}),
    "an item of one's own": (1, 1, False, {}, {(1, 7): 1}),
    "items of one's own": (3, 1, False, {}, {(1, 7): 1, (1, 8): 1, (1, 9): 1}),
    "an item of one's own, c = 2": (1, 2, False, {}, {(1, 7): 2}),
}
NEWS = ("an item of one's own", "items of one's own", "an item of one's own, c = 2")


def running(what: str, kind: Kind = UnknownDomainBinary) -> Experiment:
    """One unit and one call for the life of the stream."""
    delta0, person, once, left, right = PAIRS[what]
    mechanism = kind(EPS, DELTA, delta0, person, HORIZON, once)
    claims = concentrated(mechanism.cost_at_most, EPS, DELTA)
    views = {
        "raw": _raw,
        "keys": _keys,
        "order": _order,
        "row count": _row_count,
        "sum": _sum,
        "at 1": _first,
    }
    sides = seen(mechanism, left), seen(mechanism, right)
    return Experiment(name(kind), what, claims, sides, views, 1000)


def _raw(outcome: Seen) -> Hashable:
    return outcome.rows


def _keys(outcome: Seen) -> Hashable:
    return frozenset((label, time) for label, (time, _) in outcome.rows)


def _order(outcome: Seen) -> Hashable:
    return tuple(label for label, _ in outcome.rows)


def _row_count(outcome: Seen) -> Hashable:
    return len(outcome.rows)


def _sum(outcome: Seen) -> Hashable:
    return sum(value for _, (_, value) in outcome.rows)


def _first(outcome: Seen) -> Hashable:
    return sum(value for _, (time, value) in outcome.rows if time == 1)


def news(what: str, kind: Kind = UnknownDomainBinary) -> Rare:
    """Items that one person alone has come out at any time with delta at most."""
    delta0, person, once, left, right = PAIRS[what]
    mechanism = kind(EPS, DELTA, delta0, person, HORIZON, once)
    new = frozenset(label for _, label in right) - frozenset(label for _, label in left)
    return newcomers(name(kind), what, float(DELTA), seen(mechanism, right), new, 1000)


def node_noise(time: int, kind: Kind = UnknownDomainBinary) -> Fit:
    """The noise at a time: as many nodes as its binary digits, sigma^2 = 4 c^2 delta0 s/eps^2 = 24 each; of the square
    root, the squares of its row, times 4 c^2 delta0/eps^2 = 12, times those of its column."""
    mechanism = kind(EPS, DELTA, 3, 2, HORIZON, False)

    def draw(stream: Stream, n: int) -> list[int]:
        return [int(x) // 2 for x in _noise(mechanism, [time], stream, n)[:, 0]]

    variance = 24.0 * time.bit_count()
    if issubclass(kind, UnknownDomainSquareRoot):
        variance = 12 * _squares(ROOT) * _squares(ROOT[:time]) + 1 / 12
    claimed = f"N(0, {variance:.0f})"
    return Fit(
        name(kind), f"noise at time {time}", claimed, draw, lambda: coarse(gaussian_law(variance), 2), 6000
    )


def added_noise(kind: Kind = UnknownDomainSquareRoot) -> Fit:
    """What the noise at time 3 has beside that at time 2: the difference of two rows of the square root."""
    mechanism = kind(EPS, DELTA, 3, 2, HORIZON, False)

    def draw(stream: Stream, n: int) -> list[int]:
        at = _noise(mechanism, [2, 3], stream, n)
        return [int(x) // 2 for x in at[:, 1] - at[:, 0]]

    variance = 12 * _squares(ROOT) * _squares((1, -1 / 2, -1 / 8)) + 1 / 6
    claimed = f"N(0, {variance:.2f})"
    law = coarse(gaussian_law(variance), 2)
    return Fit(name(kind), "noise at time 3 less that at time 2", claimed, draw, lambda: law, 6000)


def _noise(mechanism: RunningCounter, at: list[int], stream: Stream, n: int) -> Integers:
    """The noise of n items, shape (items, times)."""
    labels = [number.to_bytes(4, "big") for number in range(n)]
    ones = np.full(n, 1, dtype=np.int64)
    now = Events(times=ones, items=np.arange(n), counts=ones * 10**6, labels=labels)
    out = mechanism.release(now, at, mechanism.noise_stream(stream.words(4).tobytes(), b"events"))
    noise = np.empty((n, len(at)), dtype=np.int64)
    noise[out.items, np.searchsorted(at, out.times)] = out.values - 10**6
    return noise


def _squares(numbers: Sequence[float]) -> float:
    return float(sum(x * x for x in numbers))


def threshold(kind: Kind = UnknownDomainBinary) -> Exact:
    """T = c + t, t the smallest with c delta0 L Pr[noise > t] <= delta, by another way."""
    delta = Fraction(1, 10**7)
    mechanism = kind(EPS, delta, 2, 3, 365, False)

    def compute() -> tuple[str, bool]:
        root = issubclass(kind, UnknownDomainSquareRoot)
        tails = _root_tails() if root else _tree_tails()
        least = 3 + int(np.argmax(3 * 2 * 365 * tails <= float(delta)))
        return f"T = {mechanism.threshold}, least {least}", mechanism.threshold == least

    return Exact(name(kind), "threshold (c 3, delta0 2, L 365)", "c + least t with tail <= delta", compute)


def _tree_tails() -> Floats:
    """Pr[X_1 + ... + X_9 > n] at n = 0, 1, ..., by convolving masses."""
    variance = 4 * 3**2 * 2 * 9 / float(EPS) ** 2
    law = gaussian_law(variance, 9 * int(variance**0.5))
    one = np.array([law[x] for x in sorted(law)])
    summed = one
    for _ in range(8):
        summed = np.convolve(summed, one)
    return np.cumsum(summed[::-1])[::-1][len(summed) // 2 + 1 :]


def _root_tails() -> Floats:
    """Pr[X >= n + 1/2] at n = 0, 1, ..., X normal: what a noise of row 365 adds, to be rounded to whole counts."""
    squares = sum((math.comb(2 * k, k) / 4**k) ** 2 for k in range(365))
    deviation = math.sqrt(4 * 3**2 * 2) / float(EPS) * squares
    return np.array([math.erfc((n + 1 / 2) / deviation / math.sqrt(2)) / 2 for n in range(1000)])


def same_noise(kind: Kind = UnknownDomainBinary) -> Exact:
    """Looked at again when the stream has grown, an earlier time shows what it showed."""
    mechanism = kind(EPS, DELTA, 1, 1, HORIZON, False)

    def compute() -> tuple[str, bool]:
        differ = 0
        for number in range(100):
            key = stream("audit", "again", number).words(4).tobytes()
            before = _at_one(mechanism, {(1, 1): 40}, [1], key)
            after = _at_one(mechanism, {**BUSY, (2, 5): 60}, [1, 2, 3], key)
            differ += before != after
        return f"{differ} of 100 differ", differ == 0

    return Exact(name(kind), "a time looked at again", "same values", compute)


def _at_one(mechanism: RunningCounter, happened: Happened, at: list[int], key: bytes) -> list[int]:
    out = mechanism.release(events(happened), at, mechanism.noise_stream(key, b"events"))
    return [int(x) for x in out.values[out.times == 1]]


def cases(kind: Kind) -> Iterator[Check]:
    """What both kinds are tried with."""
    yield from (running(what, kind) for what in PAIRS)
    yield from (news(what, kind) for what in NEWS)
    yield from (node_noise(1, kind), node_noise(3, kind), threshold(kind), same_noise(kind))


CASES: tuple[Check, ...] = (*(case for kind in KINDS for case in cases(kind)), added_noise())
