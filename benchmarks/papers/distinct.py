"""Person-level distinct counts: Counting Distinct Elements, Figure 1 and Tables 4 and 7."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from benchmarks.data import item_sets
from benchmarks.papers.distinct_baselines import race_to_the_top, sampling_counts
from benchmarks.papers.report import Report
from benchmarks.plots import axes_of
from mechanisms.distinct_count import PersonLevelDistinctCount
from mechanisms.histogram import Counts
from mechanisms.item_sets import ItemSets
from mechanisms.matching import greedy_counts, matching_counts
from mechanisms.randomness import Stream

L_MAX, BETA = 100, Fraction(1, 20)
TRIALS = 200
STEPS = 2
SETS = {"amazon_fashion_words": "Amazon Fashion", "imdb50k_words": "IMDb"}
DP_FASHION = {
    "matching": ("7 / 9 / 13", "1,221 / 1,319 / 1,394"),
    "greedy": ("8 / 10 / 19", "1,129 / 1,224 / 1,371"),
}
DP_IMDB = {"matching": ("12 / 16 / 21", "99.94%"), "greedy": ("20 / 26 / 29", "99.64%")}
"""The paper's quantiles (10, 50, 90%) of l and of the count; for IMDb, whose words were cut otherwise, the median
count as a share of the vocabulary."""


def run(report: Report) -> Iterator[None]:
    """Count words with bounded persons, by every method."""
    figure, both = axes_of(11, 4.5, 2)
    numbers = []
    for (name, title), axes in zip(SETS.items(), both, strict=True):
        sets = item_sets(name)
        started = time.perf_counter()
        curves = {"matching": matching_counts(sets, L_MAX)}
        seconds = time.perf_counter() - started
        curves["greedy"] = greedy_counts(sets, L_MAX)
        curves["sampling"] = _sampled(sets, 20 if name == "amazon_fashion_words" else 1)
        if name == "imdb50k_words":
            report.row("Distinct count, IMDb", "DC(D; l) for all l up to 100", "-", f"{seconds:.1f} s")
        for method, curve in curves.items():
            axes.plot(np.arange(1, L_MAX + 1), curve, label=method)
            numbers += [(title, method, bound, int(count)) for bound, count in enumerate(curve, 1)]
        axes.axhline(
            int(np.count_nonzero(np.bincount(sets.items))), color="black", linewidth=0.8, linestyle=":"
        )
        axes.set(xlabel="items a person counts for (l)", ylabel="distinct items", title=title)
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.legend()
        _rows(report, title, sets, curves)
        yield
    report.plot(
        "distinct_count", "Distinct items by bound", figure, ("data", "method", "l", "count"), numbers
    )


def _sampled(sets: ItemSets, draws: int) -> Counts:
    """Give the mean of several draws, rounded."""
    drawn = [sampling_counts(sets, L_MAX, np.random.default_rng(i)) for i in range(draws)]
    mean: Counts = np.mean(drawn, axis=0).round().astype(np.int64)
    return mean


def _rows(report: Report, title: str, sets: ItemSets, curves: dict[str, Counts]) -> None:
    name = f"Distinct count, {title}"
    fashion = title == "Amazon Fashion"
    if fashion:
        report.row(name, "vocabulary", "1,450", f"{curves['matching'][-1]:,}")
        for bound, paper in ((17, "1,428"), (9, "1,317")):
            report.row(name, f"DC({bound}), matching", paper, f"{curves['matching'][bound - 1]:,}")
    best = {"matching": "17: 1,428", "greedy": "20: 1,376", "sampling": "41: 1,259"} if fashion else {}
    for method, paper in best.items():
        bound = _best(curves[method])
        report.row(name, f"l of maximal utility, {method}", paper, f"{bound}: {curves[method][bound - 1]:,}")
    for method, (bounds, counts) in (DP_FASHION if fashion else DP_IMDB).items():
        chosen, noisy = _private(method, curves[method])
        report.row(name, f"private l, {method}, eps 1 (10/50/90%)", bounds, _quantiles(chosen))
        if fashion:
            report.row(name, f"private count without offset, {method}", counts, _quantiles(noisy))
        else:
            share = np.median(noisy) / curves["matching"][-1]
            report.row(name, f"private count, share of vocabulary, {method}", counts, f"{share:.2%}")
    random = np.random.default_rng(1)
    race = [race_to_the_top(curves["matching"], 1.0, float(BETA), random) for _ in range(TRIALS)]
    report.row(name, "lower bound, Race-to-the-Top", "-", _quantiles(race))
    report.row(name, "lower bound, ours, matching", "-", _quantiles(_lower(curves["matching"])))


def _best(counts: Counts) -> int:
    """Give the l that maximises DC(D; l) - (2l/eps) ln(1/(2 beta)), eps 1, without privacy."""
    penalty = 2 * math.log(1 / (2 * BETA))
    return 1 + int(np.argmax(counts - penalty * np.arange(1, len(counts) + 1)))


def _private(method: str, counts: Counts) -> tuple[list[float], list[float]]:
    counting = "matching" if method == "matching" else "greedy"
    mechanism = PersonLevelDistinctCount(Fraction(1), L_MAX, BETA, counting)  # type: ignore[arg-type]
    root = Stream(bytes(32)).child("distinct", method)
    releases = [mechanism.release_counts(counts, root.child(i)) for i in range(TRIALS)]
    return [r.bound for r in releases], [r.lower_bound + r.offset for r in releases]


def _lower(counts: Counts) -> list[float]:
    mechanism = PersonLevelDistinctCount(Fraction(1), L_MAX, BETA, "matching")
    root = Stream(bytes(32)).child("lower")
    return [mechanism.release_counts(counts, root.child(i)).lower_bound for i in range(TRIALS)]


def _quantiles(values: list[float]) -> str:
    return " / ".join(f"{x:,.0f}" for x in np.percentile(values, [10, 50, 90]))
