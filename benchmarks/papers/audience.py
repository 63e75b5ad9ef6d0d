"""Audience Engagements API, Figures 3 and 4, on the sample data."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from benchmarks.data import columns
from benchmarks.papers.report import Report
from benchmarks.plots import axes_of
from dpproxy.reporting.plots import COLORS
from mechanisms.histogram import Counts, Histogram
from mechanisms.randomness import Stream
from mechanisms.unknown_domain import UnkGauss, UnkGumb, UnkLap

SAMPLE = Path(__file__).parent.parent.parent / "sample_data"
DELTA = Fraction(1, 10**10)
EPSILONS = tuple(Fraction(i, 100) for i in range(2, 21))
FETCHED = (100, 200, 400, 800)
TRIALS = 200
RESTRICTED = 5
"""How many times as many trials Figure 4 has."""
STEPS = len(FETCHED) + 2
PRODUCTS = """
SELECT COUNT(DISTINCT household_id) AS n FROM '{folder}/transactions.parquet' GROUP BY product_id ORDER BY n DESC
"""
FAVOURITES = """
WITH bought AS (SELECT household_id, product_category, COUNT(*) AS n
    FROM '{folder}/transactions.parquet' JOIN '{folder}/products.parquet' USING (product_id)
    WHERE product_category IS NOT NULL GROUP BY ALL),
  favourite AS (FROM bought QUALIFY ROW_NUMBER() OVER (PARTITION BY household_id ORDER BY n DESC, product_category) = 1)
SELECT product_category, COUNT(*) AS n FROM favourite GROUP BY 1 ORDER BY n DESC, product_category
"""


def run(report: Report, trials: int = TRIALS) -> Iterator[None]:
    """Figure 3: how many of 50 products come out. Figure 4: which favourite categories, and their noisy counts."""
    (products,) = columns(PRODUCTS.format(folder=SAMPLE))
    yield from _returned(report, products.astype(np.int64), trials)
    labels, favourites = columns(FAVOURITES.format(folder=SAMPLE))
    yield from _discovered(report, labels.tolist(), favourites.astype(np.int64), RESTRICTED * trials)


def _returned(report: Report, counts: Counts, trials: int) -> Iterator[None]:
    figure, (axes,) = axes_of(7, 4.5)
    numbers = []
    means: dict[tuple[int, Fraction], float] = {}
    for d_bar in FETCHED:
        sizes = np.array([_sizes(counts, d_bar, eps, trials) for eps in EPSILONS])
        low, high = np.percentile(sizes, [25, 75], axis=1)
        mean = sizes.mean(axis=1)
        means |= {(d_bar, eps): float(m) for eps, m in zip(EPSILONS, mean, strict=True)}
        numbers += [(d_bar, float(eps), *row) for eps, *row in zip(EPSILONS, mean, low, high, strict=True)]
        line = axes.plot([float(eps) for eps in EPSILONS], mean, marker="o", label=f"d_bar {d_bar}")[0]
        axes.fill_between([float(eps) for eps in EPSILONS], low, high, alpha=0.2, color=line.get_color())
        yield
    axes.set(xlabel="eps_per", ylabel="elements returned", title="UnkGumb, top 50 products by households")
    axes.legend()
    head = ("d_bar", "eps_per", "mean", "quartile_1", "quartile_3")
    report.plot(
        "audience_figure_3", "Elements returned (Audience Engagements API, Figure 3)", figure, head, numbers
    )
    for eps in (Fraction(6, 100), Fraction(8, 100)):
        few, many = means[100, eps], means[400, eps]
        claim = "twice as many" if eps == Fraction(8, 100) else "-"
        ours = f"{few:.1f} of 50 at d_bar 100, {many:.1f} at 400"
        report.row("Audience Engagements, Figure 3", f"four times d_bar, eps_per {float(eps)}", claim, ours)


def _sizes(counts: Counts, d_bar: int, eps: Fraction, trials: int) -> list[int]:
    mechanism = UnkGumb(eps, DELTA, tau=1, k=50, d_bar=d_bar, counts=True)
    histogram = Histogram(counts[: mechanism.fetch], complete=False)
    root = Stream(bytes(32)).child("figure 3", d_bar, str(eps))
    return [len(mechanism.release(histogram, root.child(trial)).indices) for trial in range(trials)]


def _discovered(report: Report, labels: list[str], counts: Counts, trials: int) -> Iterator[None]:
    figure, both = axes_of(12, 5.5, 2)
    numbers = []
    for eps, axes in zip((Fraction(1, 10), Fraction(1, 5)), both, strict=True):
        shares, first = {}, {}
        for kind in (UnkLap, UnkGauss):
            mechanism = kind(eps, DELTA, tau=1, delta0=1, d_bar=1000)
            shares[kind.__name__], first[kind.__name__] = _shares(mechanism, counts, trials)
            expected = f"{shares[kind.__name__].sum():.1f} of {len(counts)} (threshold {mechanism.threshold})"
            quantity = f"{kind.__name__}, eps_per {float(eps)}: elements found"
            report.row("Audience Engagements, Figure 4", quantity, "-", expected)
        top = int((np.max(list(shares.values()), axis=0) > 0).sum()) + 2
        _panel(axes, labels[:top], counts[:top], first, shares, float(eps))
        columns_of = zip(labels[:top], counts.tolist(), *(s.tolist() for s in shares.values()), strict=False)
        numbers += [
            (float(eps), *row, *(f.get(i, "") for f in first.values())) for i, row in enumerate(columns_of)
        ]
        yield
    head = (
        "eps_per",
        "category",
        "households",
        "share_UnkLap",
        "share_UnkGauss",
        "UnkLap_once",
        "UnkGauss_once",
    )
    title = "Elements found and their counts (Audience Engagements API, Figure 4)"
    report.plot("audience_figure_4", title, figure, head, numbers)


def _shares(mechanism: UnkLap | UnkGauss, counts: Counts, trials: int) -> tuple[np.ndarray, dict[int, int]]:
    """Give how often each element came out, and the noisy counts of the first trial."""
    histogram = Histogram(counts[: mechanism.fetch], complete=True)
    root = Stream(bytes(32)).child("figure 4", mechanism.name, str(mechanism.eps_per))
    releases = [mechanism.release(histogram, root.child(trial)) for trial in range(trials)]
    found = np.bincount(np.concatenate([r.indices for r in releases]), minlength=len(counts))
    assert releases[0].values is not None
    first = dict(zip(releases[0].indices.tolist(), releases[0].values.tolist(), strict=True))
    return found / len(releases), first


def _panel(
    axes: Axes,
    labels: list[str],
    counts: Counts,
    noisy: dict[str, dict[int, int]],
    shares: dict[str, np.ndarray],
    eps: float,
) -> None:
    places = np.arange(len(labels))
    axes.bar(places - 0.27, counts, width=0.27, color=COLORS[7], alpha=0.55, label="true count")
    for (name, values), color in zip(noisy.items(), COLORS[1::-1], strict=True):
        heights = [values.get(i, 0) for i in range(len(labels))]
        at = places + (0 if name == "UnkLap" else 0.27)
        axes.bar(at, heights, width=0.27, color=color, label=f"{name}, once")
    axes.set_xticks(places, labels, rotation=75, fontsize=7)
    axes.set(ylabel="households", title=f"favourite categories, eps_per {eps}")
    axes.grid(visible=False, axis="x")
    right = axes.twinx()
    right.grid(visible=False)
    right.spines.right.set_visible(True)
    for (name, share), marker in zip(shares.items(), "ox", strict=True):
        right.plot(
            places,
            share[: len(labels)],
            marker,
            color="black",
            label=f"found, {name} (right)",
        )
    right.set(ylim=(-0.03, 1.03), ylabel="share of runs that find it")
    handles = [*axes.get_legend_handles_labels()[0], *right.get_legend_handles_labels()[0]]
    right.legend(handles=handles, loc="upper right", bbox_to_anchor=(1, 0.92), frameon=True, edgecolor="none")
