"""Private Count Release against Plume: recall, and the share of counts more than 10% off (Section 4)."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from benchmarks.data import KEY, columns, descending, item_counts, item_sets, table
from benchmarks.papers.plume import accurate, plume
from benchmarks.papers.report import Report
from benchmarks.plots import axes_of
from dpproxy.reporting.plots import plain_numbers
from mechanisms.count_release import PrivateCountRelease
from mechanisms.histogram import Counts, Histogram
from mechanisms.item_sets import ItemSets, encoded
from mechanisms.randomness import Stream

RHOS = (Fraction(1, 10), Fraction(1, 2), Fraction(1))
DELTA = Fraction(1, 10**6)
TRIALS = 10
REFERENCE = {
    "IMDb": "919, 6.6%",
    "r/AskReddit, 1%": "-",
    "Gowalla": "76",
    "Online retail": "56",
    "Baby names 2010": "699, 8%",
}
"""What an independent floating-point implementation released at rho 0.1; the paper's own data differ."""
STEPS = len(REFERENCE)
LONG = {
    "PCR": "PCR: released, share beyond 10%",
    "Plume": "Plume by the 95% bound / its threshold / 99% / its threshold",
}
Number = tuple[str, str, float, float, float]
Outcome = tuple[float, float]
"""Counts released, and the share of them beyond 10% of the true count; means over the trials."""


def run(report: Report) -> Iterator[None]:
    """Release counts of five data sets at three rho, by Private Count Release and by Plume in four ways."""
    numbers: list[Number] = []
    for title in REFERENCE:
        sets, counts = _data(title)
        for rho in RHOS:
            outcomes = {"PCR": _release(counts, rho)}
            if sets is not None:
                outcomes |= _plume(sets, counts, rho)
            numbers += [(title, method, float(rho), *outcome) for method, outcome in outcomes.items()]
            _row(report, title, rho, outcomes)
        yield
    figure, axes = axes_of(15, 6.5, len(REFERENCE), 2)
    for i, title in enumerate(REFERENCE):
        here = [number for number in numbers if number[0] == title]
        _bars(axes[i], [(method, rho, released) for _, method, rho, released, _ in here])
        _bars(axes[i + len(REFERENCE)], [(method, rho, beyond) for _, method, rho, _, beyond in here])
        axes[i].set(title=title, yscale="log", ylabel="" if i else "counts released")
        heights = [released for *_, released, _ in here if released]
        plain_numbers(axes[i].yaxis, min(heights) / 2, max(heights))
        beyond = axes[i + len(REFERENCE)]
        beyond.axhline(0.1, color="black", linewidth=0.8, linestyle=":")
        beyond.set(xlabel="rho", ylim=(0, 0.8), ylabel="" if i else "share more than 10% off")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    head = ("data", "method", "rho", "released", "share_beyond")
    report.plot(
        "count_release", "Counts released, and those more than 10% off, delta 1e-6", figure, head, numbers
    )


def _data(title: str) -> tuple[ItemSets | None, Counts]:
    """Give the item sets, where a person can have several items, and the counts."""
    if title == "Baby names 2010":
        (counts,) = columns(f"SELECT n FROM {table('us_baby_names')} WHERE year = 2010")
        return None, counts.astype(np.int64)
    if title == "Online retail":
        persons, items = columns(f"SELECT customer_id, stock_code FROM {table('online_retail')}")
        sets = encoded(KEY, persons, items)[0]
    else:
        names = {
            "IMDb": "imdb50k_words",
            "r/AskReddit, 1%": "askreddit_1pct_words",
            "Gowalla": "gowalla_checkins",
        }
        sets = item_sets(names[title])
    return sets, item_counts(sets)


def _release(counts: Counts, rho: Fraction) -> Outcome:
    mechanism = PrivateCountRelease(
        eps_per=Fraction(1), information=8 * rho, delta_per=DELTA, calls=Fraction(1)
    )
    fetched = counts[descending(counts)][: mechanism.fetch]
    histogram = Histogram(fetched, complete=len(counts) < mechanism.fetch)
    root = Stream(bytes(32)).child("counts", str(rho))
    outcomes = []
    for trial in range(TRIALS):
        release = mechanism.release(histogram, root.child(trial))
        assert release.values is not None
        outcomes.append(_outcome(fetched[release.indices], release.values.astype(np.float64)))
    return _mean(outcomes)


def _plume(sets: ItemSets, counts: Counts, rho: Fraction) -> dict[str, Outcome]:
    root = Stream(bytes(32)).child("plume", str(rho))
    outcomes: dict[str, list[Outcome]] = {}
    for percentile in (95, 99):
        for trial in range(TRIALS):
            stream, random = root.child(percentile, trial), np.random.default_rng(trial)
            found, noisy, sigma = plume(sets, rho, DELTA, percentile, stream, random)
            kept = accurate(noisy, sigma, 0.1)
            outcomes.setdefault(f"Plume {percentile}%", []).append(_outcome(counts[found], noisy))
            thresholded = _outcome(counts[found[kept]], noisy[kept])
            outcomes.setdefault(f"Plume {percentile}%, threshold", []).append(thresholded)
    return {method: _mean(each) for method, each in outcomes.items()}


def _outcome(true: Counts, noisy: NDArray[np.float64]) -> Outcome:
    beyond = np.abs(noisy - true) > 0.1 * true
    return float(len(true)), float(beyond.mean()) if len(true) else 0.0


def _mean(outcomes: list[Outcome]) -> Outcome:
    released, beyond = np.mean(outcomes, axis=0).tolist()
    return released, beyond


def _row(report: Report, title: str, rho: Fraction, outcomes: dict[str, Outcome]) -> None:
    reference = REFERENCE[title] if rho == RHOS[0] else "-"
    for part in ("PCR", "Plume"):
        cells = [
            f"{released:,.0f}, {share:.1%}"
            for method, (released, share) in outcomes.items()
            if part in method
        ]
        if cells:
            claim = "below 10% beyond" if reference == "-" else f"reference: {reference}"
            paper = claim if part == "PCR" else "-"
            report.row(f"Counts, {title}", f"{LONG[part]}, rho {float(rho)}", paper, " / ".join(cells))


def _bars(axes: Axes, bars: list[tuple[str, float, float]]) -> None:
    methods = list(dict.fromkeys(method for method, _, _ in bars))
    for i, method in enumerate(methods):
        heights = [height for this, _, height in bars if this == method]
        axes.bar(
            np.arange(len(RHOS)) + (i - len(methods) / 2 + 0.5) * 0.16, heights, width=0.16, label=method
        )
    axes.set_xticks(range(len(RHOS)), [str(float(rho)) for rho in RHOS])
    axes.grid(visible=False, axis="x")
