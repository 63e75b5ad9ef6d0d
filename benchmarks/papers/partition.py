"""Partition selection on IMDb: DP-SIPS, Table 2 and Figure 5."""

from __future__ import annotations

import time
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from benchmarks.data import KEY, columns, frequent_first, item_sets, table
from benchmarks.papers.report import Report
from benchmarks.papers.selection_baselines import dpsu, gw
from benchmarks.plots import axes_of
from mechanisms.item_sets import encoded
from mechanisms.partition_selection import DPSips, WeightedGaussian
from mechanisms.randomness import Stream

NAME = "Partition selection, IMDb"
RHOS = (Fraction(1, 100), Fraction(3, 100), Fraction(1, 10), Fraction(3, 10), Fraction(1))
DELTA, DELTA0 = Fraction(1, 10**5), 100
TRIALS = 5
STEPS = len(RHOS) + 2
PAPER = {WeightedGaussian: "3,728", DPSips: "7,759"}


def run(report: Report) -> Iterator[None]:
    """Count released items: ours for several rho, DPSU and GW at rho 0.1."""
    report.row(NAME, "DPSips, rho 0.1, from 7,352,149 pairs in memory", "-", f"{_seconds():.1f} s")
    sets = item_sets("imdb50k_words")
    root = Stream(bytes(32)).child("partition")
    medians: dict[tuple[type[WeightedGaussian], Fraction], float] = {}
    for rho in RHOS:
        for kind in (WeightedGaussian, DPSips):
            mechanism = kind(Fraction(1), DELTA, 8 * rho, Fraction(1), DELTA0)
            sizes = [
                len(mechanism.release(sets, root.child(kind.__name__, str(rho), trial)).indices)
                for trial in range(TRIALS)
            ]
            medians[kind, rho] = float(np.median(sizes))
        yield
    for kind, paper in PAPER.items():
        report.row(NAME, f"{kind.__name__}, rho 0.1", paper, f"{medians[kind, Fraction(1, 10)]:,.0f}")
    policy = dpsu(sets, 0.1, float(DELTA), DELTA0, np.random.default_rng(1))
    report.row(NAME, "DPSU, rho 0.1", "5,845", f"{policy:,}")
    yield
    greedy = gw(frequent_first(), 1.7, 8.1142e-5, np.random.default_rng(1))
    report.row(NAME, "GW, eps 1.7, delta 8.1142e-5", "3,133", f"{greedy:,}")
    _plot(report, medians, policy, greedy)
    yield


def _seconds() -> float:
    """Time one release, the numbering of persons and items included."""
    persons, items = columns(f"SELECT user_id, item_id FROM {table('imdb50k_words')}")
    mechanism = DPSips(Fraction(1), DELTA, Fraction(4, 5), Fraction(1), DELTA0)
    started = time.perf_counter()
    mechanism.release(encoded(KEY, persons, items)[0], Stream(bytes(32)).child("timed"))
    return time.perf_counter() - started


def _plot(
    report: Report, medians: dict[tuple[type[WeightedGaussian], Fraction], float], policy: int, greedy: int
) -> None:
    figure, (axes,) = axes_of(7, 4.5)
    for kind, marker in ((DPSips, "o"), (WeightedGaussian, "s")):
        values = [medians[kind, rho] for rho in RHOS]
        axes.plot([float(rho) for rho in RHOS], values, marker=marker, label=kind.__name__)
    axes.plot([0.1], [policy], "^", label="DPSU")
    axes.plot([0.1], [greedy], "v", label="GW")
    axes.plot([0.1, 0.1, 0.1, 0.1], [3728, 7759, 5845, 3133], "kx", label="the paper")
    axes.set(xscale="log", xlabel="rho", ylabel="items released", title="IMDb, delta 1e-5, delta0 100")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.legend()
    numbers = [(kind.__name__, float(rho), value) for (kind, rho), value in medians.items()]
    numbers += [("DPSU", 0.1, policy), ("GW", 0.1, greedy)]
    report.plot("partition_selection", "Items released", figure, ("mechanism", "rho", "items"), numbers)
