"""What holds for every mechanism: prices within the reservation, positions of the input, replays, input order."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Literal, Protocol

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.continual import Events, RunningCounter, UnknownDomainBinary
from mechanisms.correlated_counts import CorrelatedCounts
from mechanisms.count_release import KnownCountRelease, PrivateCountRelease
from mechanisms.distinct_count import PersonLevelDistinctCount
from mechanisms.distinct_curve import DistinctCountCurve
from mechanisms.histogram import Cost, Histogram, Release
from mechanisms.item_sets import encoded
from mechanisms.known_domain import KnownGauss, KnownGumb, KnownLap
from mechanisms.numeric import ClampedSum
from mechanisms.partition_selection import DPSips, PrunedSips, WeightedGaussian
from mechanisms.pay_what_you_get import pay_what_you_get
from mechanisms.quantile import QuantileChoice, QuantileTree
from mechanisms.randomness import Stream
from mechanisms.square_root import UnknownDomainSquareRoot
from mechanisms.top_counts import TopCounts
from mechanisms.unknown_domain import UnkGauss, UnkGumb, UnkLap

EXAMPLES = settings(max_examples=25, deadline=None, derandomize=True)
SEEDS = st.binary(min_size=32, max_size=32)
SIZES = st.integers(0, 9) | st.integers(0, 300) | st.integers(0, 2**50)
EPS = st.sampled_from([Fraction(1, 10), Fraction(1), Fraction(3, 2)])
DELTA = Fraction(1, 100)


class Releasing(Protocol):
    """What these properties ask of a mechanism over a histogram."""

    @property
    def cost_at_most(self) -> Cost: ...

    def release(self, histogram: Histogram, stream: Stream) -> Release: ...


def count_release(eps: Fraction, tau: int, rows: int, brownian: bool) -> PrivateCountRelease:
    return PrivateCountRelease(
        eps_per=eps,
        information=Fraction(30),
        delta_per=DELTA,
        calls=Fraction(1, 2),
        tau=tau,
        k_bar=rows,
        eps_star=eps / 8,
        delta_star=Fraction(1, 1000),
        brownian=brownian,
    )


Make = Callable[[Fraction, int, int], Releasing]
"""A mechanism from eps_per, tau and the number of cells or of rows that can come out."""
KNOWN: dict[str, Make] = {
    "KnownLap": lambda eps, tau, cells: KnownLap(eps, tau, 2, cells),
    "KnownGauss": lambda eps, tau, cells: KnownGauss(eps, tau, 2, cells, "cheap"),
    "KnownGumb": lambda eps, tau, cells: KnownGumb(eps, tau, (cells + 1) // 2, cells, True),
    "KnownGumb, CorrelatedCounts": lambda eps, tau, cells: TopCounts(
        KnownGumb(eps, 1, (cells + 1) // 2, cells, False)
    ),
    "CorrelatedCounts": lambda eps, tau, cells: CorrelatedCounts(eps, cells, Fraction(tau)),
    "KnownCountRelease": lambda eps, tau, cells: KnownCountRelease(
        eps_per=eps, information=Fraction(20), tau=tau, cells=cells, eps_star=eps / 8, delta_star=DELTA / 20
    ),
    "QuantileChoice": lambda eps, tau, cells: QuantileChoice(eps, tau, cells, Fraction(1, 3)),
}
UNKNOWN: dict[str, Make] = {
    "UnkLap": lambda eps, tau, rows: UnkLap(eps, DELTA, tau, 2, rows),
    "UnkGauss": lambda eps, tau, rows: UnkGauss(eps, DELTA, tau, 2, rows),
    "UnkGumb": lambda eps, tau, rows: UnkGumb(eps, DELTA, tau, 2, rows + 2, True),
    "UnkGumb, CorrelatedCounts": lambda eps, tau, rows: TopCounts(UnkGumb(eps, DELTA, 1, 2, rows + 2, False)),
    "UnkGumb without counts": lambda eps, tau, rows: UnkGumb(eps, DELTA, tau, 2, rows + 2, False),
    "UnkGumb without index step": lambda eps, tau, rows: UnkGumb(eps, DELTA, tau, 2, rows + 2, True, False),
    "PrivateCountRelease": lambda eps, tau, rows: count_release(eps, tau, rows, brownian=False),
    "PrivateCountRelease, Brownian": lambda eps, tau, rows: count_release(eps, tau, rows, brownian=True),
}


def same(one: Release, other: Release) -> bool:
    columns = [(r.indices, r.values, r.stddevs) for r in (one, other)]
    pairs = zip(*columns, strict=True)
    equal = all((a is b) if a is None or b is None else a.tolist() == b.tolist() for a, b in pairs)
    return equal and one.cost == other.cost and one.stddev == other.stddev


def holds(mechanism: Releasing, histogram: Histogram, seed: bytes, zeros: bool) -> None:
    """Prices within the reservation, exact; distinct positions of the input; a replay is the same."""
    release = mechanism.release(histogram, Stream(seed))
    most = mechanism.cost_at_most
    assert isinstance(release.cost.information, Fraction)
    assert isinstance(release.cost.calls, Fraction)
    assert 0 < release.cost.information <= most.information
    assert 0 <= release.cost.calls <= most.calls
    places = release.indices.tolist()
    assert release.indices.dtype == np.int64
    assert len(set(places)) == len(places)
    assert set(places) <= set(range(len(histogram.counts)))
    assert zeros or all(histogram.counts[place] > 0 for place in places)
    if release.values is not None:
        assert release.values.dtype == np.int64
        assert len(release.values) == len(places)
    if release.stddevs is not None:
        assert len(release.stddevs) == len(places)
        assert release.stddev == max(release.stddevs, default=release.stddev)
    assert same(mechanism.release(histogram, Stream(seed)), release)


@pytest.mark.statistical
@pytest.mark.parametrize("name", KNOWN)
@EXAMPLES
@given(EPS, st.integers(1, 5), st.lists(SIZES, min_size=1, max_size=8), SEEDS)
def test_over_a_known_domain(name: str, eps: Fraction, tau: int, counts: list[int], seed: bytes) -> None:
    histogram = Histogram(np.array(counts, dtype=np.int64), complete=True)
    holds(KNOWN[name](eps, tau, len(counts)), histogram, seed, zeros=True)


@pytest.mark.statistical
@pytest.mark.parametrize("name", UNKNOWN)
@EXAMPLES
@given(EPS, st.integers(1, 5), st.lists(SIZES, max_size=8), st.integers(0, 3), SEEDS)
def test_over_an_unknown_domain(
    name: str, eps: Fraction, tau: int, counts: list[int], more: int, seed: bytes
) -> None:
    """Complete histograms with places to spare, or as many rows as were asked for."""
    counts = sorted(counts, reverse=True)
    for complete in (True, False) if len(counts) > 3 and "Positive" not in name else (True,):
        fetch = len(counts) + 1 + more if complete else len(counts)
        rows = fetch - 3 if "UnkGumb" in name and not complete else max(fetch - 1, 1)
        mechanism = UNKNOWN[name](eps, tau, rows)
        holds(mechanism, Histogram(np.array(counts, dtype=np.int64), complete), seed, zeros=False)


@EXAMPLES
@given(st.lists(st.lists(SIZES, max_size=6), max_size=6), st.integers(0, 30), st.integers(0, 9), SEEDS)
def test_a_sequence_stays_within_its_budget(
    histograms: list[list[int]], information: int, calls: int, seed: bytes
) -> None:
    mechanisms = [UNKNOWN[name](Fraction(1), 1, 9) for name in UNKNOWN]
    asked = [
        (mechanisms[n % len(mechanisms)], Histogram(np.array(sorted(h, reverse=True), dtype=np.int64), True))
        for n, h in enumerate(histograms)
    ]
    budget = Cost(Fraction(information), Fraction(calls))
    released = list(pay_what_you_get(budget, asked, Stream(seed)))  # type: ignore[arg-type]
    assert sum(r.cost.information for r in released) <= information
    assert sum(r.cost.calls for r in released) <= calls


ROWS = st.lists(st.tuples(st.integers(1, 12), st.integers(0, 4)), max_size=25, unique=True)


@EXAMPLES
@given(
    ROWS, st.permutations(range(5)), SEEDS, st.sampled_from((UnknownDomainBinary, UnknownDomainSquareRoot))
)
def test_a_stream_of_events_has_no_row_order(
    rows: list[tuple[int, int]], names: list[int], seed: bytes, kind: type[RunningCounter]
) -> None:
    """Rows and labels in another order: the same items, times and counts."""
    mechanism = kind(Fraction(1), DELTA, 1, 1, 12, once=False)
    outcomes = []
    for order, items in ((list(range(len(rows))), list(range(5))), (_shuffled(len(rows), seed), names)):
        labels = [b""] * 5
        for item, place in enumerate(items):
            labels[place] = b"item %d" % item
        times = np.array([rows[n][0] for n in order], dtype=np.int64)
        places = np.array([items[rows[n][1]] for n in order], dtype=np.int64)
        counts = np.array([10 * (rows[n][0] + rows[n][1]) for n in order], dtype=np.int64)
        events = Events(times, places, counts, labels)
        running = mechanism.release(events, range(1, 13), mechanism.noise_stream(seed, b"events"))
        shown = [labels[place] for place in running.items.tolist()]
        outcomes.append((running.times.tolist(), shown, running.values.tolist()))
        assert set(shown) <= {labels[place] for place in places.tolist()}
    assert outcomes[0] == outcomes[1]


def _shuffled(n: int, seed: bytes) -> list[int]:
    order: list[int] = np.argsort(Stream(seed).words(n)).tolist()
    return order


METHODS: tuple[Literal["matching"], Literal["greedy"]] = ("matching", "greedy")
PAIRS = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=30, unique=True)


@pytest.mark.statistical
@EXAMPLES
@given(PAIRS, SEEDS)
def test_item_sets_have_no_row_order(pairs: list[tuple[int, int]], seed: bytes) -> None:
    """WeightedGaussian, DP-SIPS and all distinct counts, of rows as they come and shuffled."""
    selections = [
        kind(Fraction(1), Fraction(1, 4), Fraction(40), Fraction(1), 3)
        for kind in (WeightedGaussian, DPSips, PrunedSips)
    ]
    distinct: list[PersonLevelDistinctCount | DistinctCountCurve] = [
        PersonLevelDistinctCount(Fraction(1), 4, Fraction(1, 20), counting) for counting in METHODS
    ]
    distinct.append(DistinctCountCurve(Fraction(1), 9, Fraction(1, 20)))
    outcomes = []
    for order in (list(range(len(pairs))), _shuffled(len(pairs), seed)):
        persons, items = (np.array([pairs[n][side] for n in order]) for side in (0, 1))
        sets, labels = encoded(seed, persons, items)
        shown = [
            [labels[place] for place in mechanism.release(sets, Stream(seed)).indices]
            for mechanism in selections
        ]
        for released in shown:
            assert set(released) <= set(items.tolist())
            assert len(set(released)) == len(released)
        counted = [mechanism.release(sets, Stream(seed)) for mechanism in distinct]
        assert [count.cost for count in counted] == [mechanism.cost_at_most for mechanism in distinct]
        outcomes.append((shown, counted))
    assert outcomes[0] == outcomes[1]


@EXAMPLES
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-(2**62), 2**62)), min_size=1, max_size=30), SEEDS)
def test_clamped_sums_have_no_row_order(rows: list[tuple[int, int]], seed: bytes) -> None:
    mechanism = ClampedSum(eps_per=Fraction(1), lo=-7, hi=1000, tau=2, keys=3, centred=True)
    releases = []
    for order in (list(range(len(rows))), _shuffled(len(rows), seed)):
        sums = np.zeros(3, dtype=np.int64)
        added = mechanism.contributions(np.array([rows[n][1] for n in order], dtype=np.int64))
        np.add.at(sums, [rows[n][0] for n in order], added)
        releases.append(mechanism.release(sums, Stream(seed)))
    assert same(*releases)
    assert releases[0].cost == mechanism.cost_at_most


@EXAMPLES
@given(st.lists(SIZES, min_size=8, max_size=8), SEEDS)
def test_quantile_trees_replay(counts: list[int], seed: bytes) -> None:
    tree = QuantileTree(Fraction(1), 2, 3, "gaussian")
    histogram = Histogram(np.array(counts, dtype=np.int64), complete=True)
    one, other = (tree.release(histogram, Stream(seed)) for _ in range(2))
    assert same(one, other)
    assert one.indices.tolist() == list(range(15))
    assert one.cost == tree.cost_at_most
