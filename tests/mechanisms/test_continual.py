"""Running counts: exact sums of nodes, noise for life, thresholds, the norms of the proof, and mutants."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from mechanisms import continual
from mechanisms.continual import Events, RunningCounter, RunningCounts, UnknownDomainBinary
from mechanisms.noise import Integers
from mechanisms.randomness import Stream
from mechanisms.tails import gaussian_sum_tail, gaussian_sum_threshold
from tests.mechanisms.goodness import ALPHA, gaussian_law, p_value, power, stream
from tests.mechanisms.scripted import Untouched

DAYS = UnknownDomainBinary(Fraction(1), Fraction(1, 10**9), delta0=1, events=1, horizon=20, once=False)
KEY = bytes(32)


def events(rows: list[tuple[int, int, int]], labels: int) -> Events:
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    names = [f"item {n}".encode() for n in range(labels)]
    return Events(table[:, 0].copy(), table[:, 1].copy(), table[:, 2].copy(), names)


def every_day(items: int, count: int, last: int = 20) -> Events:
    return events([(t, i, count) for t in range(1, last + 1) for i in range(items)], items)


def noise_of(mechanism: RunningCounter, at: list[int], items: int, identity: bytes) -> Integers:
    """The noise of running counts far above the threshold, shape (times, items)."""
    count = 10**6
    running = mechanism.release(
        every_day(items, count, mechanism.horizon), at, mechanism.noise_stream(KEY, identity)
    )
    assert len(running.times) == len(at) * items
    table = np.empty((len(at), items), dtype=np.int64)
    table[np.searchsorted(at, running.times), running.items] = running.values - count * running.times
    return table


@pytest.mark.parametrize("horizon", [1, 2, 3, 7, 8, 100])
def test_nodes_make_up_every_running_count(horizon: int) -> None:
    """By brute force: the nodes of l part 1..l, and an event is part of at most s nodes, at most one a digit."""
    s = UnknownDomainBinary(Fraction(1), Fraction(1, 10**9), 1, 1, horizon, False).partial_sums
    assert s == int(np.ceil(np.log2(horizon + 1)))
    nodes: dict[tuple[int, int], range] = {}
    for moment in range(1, horizon + 1):
        covered: list[int] = []
        for digit in range(s):
            if moment >> digit & 1:
                m = moment >> (digit + 1)
                node = range(2 * m * 2**digit + 1, (2 * m + 1) * 2**digit + 1)
                assert nodes.setdefault((digit, m), node) == node
                covered += node
        assert sorted(covered) == list(range(1, moment + 1))
    for event in range(1, horizon + 1):
        digits = [digit for (digit, _), node in nodes.items() if event in node]
        assert len(digits) == len(set(digits)) <= s


LONG = UnknownDomainBinary(Fraction(1), Fraction(1, 10**9), delta0=1, events=1, horizon=1000, once=False)


def nodes_of(mechanism: UnknownDomainBinary) -> Integers:
    """The noise of every node of four items: at l less at l without its last binary digit, shape (1001, 4)."""
    at = np.arange(1, 1001)
    noise = np.concatenate([np.zeros((1, 4), dtype=np.int64), noise_of(mechanism, at.tolist(), 4, b"nodes")])
    noise[1:] -= noise[at & (at - 1)]
    return noise


def test_noise_is_the_sum_of_nodes() -> None:
    """Shared nodes cancel in differences, what is left is discrete Gaussian and unrelated between nodes and items.

    n 4,000, alpha 1e-4, power against 15% off either way over 0.99.
    """
    noise = nodes_of(LONG)[1:]
    assert LONG.sigma_squared == 40
    law = gaussian_law(40.0)
    assert p_value(noise.ravel().tolist(), law) > ALPHA
    for lie in (Fraction(85, 100), Fraction(115, 100)):
        assert power(law, gaussian_law(40.0 * float(lie) ** 2), 4000) > 0.99
        wrong = UnknownDomainBinary(1 / lie, LONG.delta_per, 1, 1, 1000, False)
        assert p_value(nodes_of(wrong)[1:].ravel().tolist(), law) < ALPHA
    for one, other in ((noise[:-1], noise[1:]), (noise[:, :3], noise[:, 1:]), (noise[:500], noise[500:])):
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 4 / np.sqrt(one.size)


@pytest.mark.statistical
def test_stddevs_are_those_of_the_noise() -> None:
    """Variance times n is chi-square: alpha 1e-4 a time, n 400."""
    at = [1, 3, 7, 15, 16]
    running = DAYS.release(every_day(1, 10**6), at, DAYS.noise_stream(KEY, b"one"))
    noise = noise_of(DAYS, at, 400, b"many")
    for n, deviation in enumerate(running.stddevs.tolist()):
        statistic = float((noise[n].astype(np.float64) ** 2).sum()) / deviation**2
        assert chi2.ppf(ALPHA / 2, 400) < statistic < chi2.isf(ALPHA / 2, 400)
    assert DAYS.stddev >= running.stddevs.max()


def shown(running: RunningCounts) -> list[tuple[int, int, int]]:
    return list(zip(running.times.tolist(), running.items.tolist(), running.values.tolist(), strict=True))


def test_noise_belongs_to_item_and_node_for_life() -> None:
    """Looked at again, later, with more items, or in another order of rows: the same counts for the past."""
    early = every_day(3, 1000, last=9)
    first = shown(DAYS.release(early, [9], DAYS.noise_stream(KEY, b"life")))
    assert len(first) == 3
    later = events([(t, i, 1000) for i in range(5) for t in range(20, 0, -1) if i < 3 or t > 9], 5)
    again = shown(DAYS.release(later, range(1, 21), DAYS.noise_stream(KEY, b"life")))
    assert [row for row in again if row[0] == 9] == first
    assert {item for time, item, _ in again if time <= 9} == {0, 1, 2}
    other = shown(DAYS.release(early, [9], DAYS.noise_stream(KEY, b"another")))
    assert other != first


class EachTime(UnknownDomainBinary):
    """Noise for a release, not for the stream's life."""

    def noise_stream(self, key: bytes, identity: bytes) -> Stream:
        self._asked.append(1)
        return super().noise_stream(key, identity + bytes(len(self._asked)))

    _asked: list[int] = []  # noqa: RUF012


def test_noise_that_is_drawn_anew_is_caught() -> None:
    mutant = EachTime(**vars(DAYS))
    looks = [shown(mutant.release(every_day(3, 1000), [9], mutant.noise_stream(KEY, b"x"))) for _ in range(2)]
    assert looks[0] != looks[1]


def test_an_item_is_shown_only_once_it_was_seen() -> None:
    running = DAYS.release(
        events([(12, 0, 10**6), (5, 1, 10**6)], 3), range(1, 21), DAYS.noise_stream(KEY, b"")
    )
    assert {time for time, item, _ in shown(running) if item == 0} == set(range(12, 21))
    assert {time for time, item, _ in shown(running) if item == 1} == set(range(5, 21))
    assert set(running.items.tolist()) == {0, 1}


LOOSE = UnknownDomainBinary(Fraction(1), Fraction(1, 2), delta0=1, events=2, horizon=15, once=False)


class LowThreshold(UnknownDomainBinary):
    """1 + t for events + t: a person who has an item twice."""

    @property
    def threshold(self) -> int:
        return super().threshold - self.events + 1


class OneTime(UnknownDomainBinary):
    """Without L in the threshold."""

    @property
    def threshold(self) -> int:
        times = self.events * self.delta0
        return gaussian_sum_threshold(
            self.sigma_squared, self.partial_sums, self.events, times, self.delta_per
        )


def lone(mechanism: RunningCounter, streams: int = 800) -> float:
    """How often a person alone with an item, `events` times at once, is seen at any time."""
    table = events([(1, n, mechanism.events) for n in range(streams)], streams)
    running = mechanism.release(table, range(1, 16), mechanism.noise_stream(KEY, b"lone"))
    return len(np.unique(running.items)) / streams


@pytest.mark.statistical
def test_a_lone_person_comes_out_at_most_with_delta() -> None:
    """One of events delta0 items: Pr <= delta_per/(events delta0); alpha 1e-4, n 800; without L it is over."""
    allowed = 0.5 / 2
    slack = 4 * np.sqrt(allowed * (1 - allowed) / 800)
    assert 0.01 < lone(LOOSE) < allowed + slack
    assert lone(OneTime(**vars(LOOSE))) > allowed + slack


def test_thresholds_are_exact() -> None:
    """The smallest T with events delta0 L Pr[sum of s noises > T - c] <= delta_per."""
    for once, alone in ((False, 3), (True, 1)):
        mechanism = UnknownDomainBinary(Fraction(1, 2), Fraction(1, 10**6), 2, 3, 100, once)
        assert mechanism.sigma_squared == 4 * (4 * 3 * 2 * 7 * (1 if once else 3))
        t = mechanism.threshold - alone
        chances = 3 * 2 * 100
        assert chances * gaussian_sum_tail(mechanism.sigma_squared, 7, t) <= mechanism.delta_per
        assert chances * gaussian_sum_tail(mechanism.sigma_squared, 7, t - 1) > mechanism.delta_per
    mutant = LowThreshold(**vars(LOOSE))
    assert 30 * gaussian_sum_tail(LOOSE.sigma_squared, 4, mutant.threshold - 2) > LOOSE.delta_per


def test_norms_of_the_proof() -> None:
    """Removing a person changes the table of nodes by at most the norm that sigma pays for: 300 random persons."""
    words = stream("norms").words(300 * 40).reshape(300, 40) % np.uint64(1 << 20)
    for row in words.tolist():
        c, delta0, horizon, once = 1 + row[0] % 4, 1 + row[1] % 3, 1 + row[2] % 30, bool(row[3] % 2)
        mechanism = UnknownDomainBinary(Fraction(1), Fraction(1, 10**6), delta0, c, horizon, once)
        change: dict[tuple[int, int, int], int] = {}
        had: set[int] = set()
        for n in range(c):
            time = 1 + row[4 + n] % horizon
            items = {row[10 + 4 * n + j] % 4 for j in range(delta0)} - (had if once else set())
            had |= items
            for item in items:
                for digit in range(mechanism.partial_sums):
                    m, half = divmod((time - 1) >> digit, 2)
                    if not half:  # the first half of a pair of intervals is a node
                        change[item, digit, m] = change.get((item, digit, m), 0) + 1
        assert sum(x * x for x in change.values()) <= mechanism.sigma_squared / 4


@pytest.mark.parametrize(
    "table",
    [
        events([(0, 0, 1)], 1),
        events([(21, 0, 1)], 1),
        events([(1, 1, 1)], 1),
        events([(1, 0, 0)], 1),
        events([(1, 0, 2**53)], 1),
        events([(1, 0, 5), (1, 0, 6)], 1),
        Events(np.array([1]), np.array([0]), np.array([1]), [b"a", b"a"]),
        Events(np.array([1]), np.array([0]), np.array([1, 2]), [b"a"]),
        Events(np.array([1.0]), np.array([0]), np.array([1]), [b"a"]),
    ],
)
def test_bad_events(table: Events) -> None:
    with pytest.raises(ValueError, match=r"times|item|counts|labels|row"):
        DAYS.release(table, [20], Untouched())


@pytest.mark.parametrize("at", [[0], [21], [3, 3], [4, 3]])
def test_bad_times(at: list[int]) -> None:
    with pytest.raises(ValueError, match="times to look at"):
        DAYS.release(every_day(1, 1), at, Untouched())


@pytest.mark.parametrize(
    "change",
    [{"horizon": 0}, {"horizon": 2**20 + 1}, {"events": 0}, {"delta0": 0}, {"once": 1}, {"delta_per": 0.1}],
)
def test_parameters_out_of_range(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="must"):
        UnknownDomainBinary(**{**vars(DAYS), **change})


def test_edges() -> None:
    """No event, no time: nothing; the input does not print."""
    nothing = events([], 0)
    assert shown(DAYS.release(nothing, range(1, 21), stream("nothing"))) == []
    assert shown(DAYS.release(every_day(2, 10**6), [], stream("never"))) == []
    assert "777" not in repr(events([(7, 0, 777)], 1))


def test_the_seed_covers_identity_and_parameters() -> None:
    streams = [
        mechanism.noise_stream(key, identity).words(1)[0]
        for mechanism in (DAYS, LOOSE)
        for key in (KEY, b"k" * 32)
        for identity in (b"a", b"b")
    ]
    assert len(set(streams)) == 8


def test_blocks_of_nodes_join() -> None:
    """A horizon of several blocks: every node has its own noise."""
    long = UnknownDomainBinary(Fraction(1), Fraction(1, 10**9), 1, 1, 3 * continual.BLOCK, False)
    at = [2 * n + 1 for n in range(continual.BLOCK + 40)]
    running = long.release(events([(1, 0, 10**7)], 1), at, long.noise_stream(KEY, b""))
    first = running.values[1:40] - running.values[:39]
    second = running.values[continual.BLOCK + 1 :] - running.values[continual.BLOCK : -1]
    assert len(np.unique(running.values)) > 40
    assert first.tolist() != second.tolist()
