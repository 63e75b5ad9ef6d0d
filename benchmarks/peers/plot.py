"""The peers' plot."""

from __future__ import annotations

from pathlib import Path

from benchmarks.peers.page import Run
from benchmarks.peers.tasks import TASKS
from benchmarks.plots import axes_of
from dpproxy.reporting.plots import COLORS

LEAST = 1e-5
"""Where exact answers are drawn."""


def plot(file: Path, run: Run) -> None:
    """Error and seconds of every peer by task."""
    figure, axes = axes_of(11, 4.2, 2)
    for place, what in zip(axes, ("error", "seconds"), strict=True):
        for number, (one, _) in enumerate(run.outcomes):
            points = [
                (max(getattr(found, what), LEAST), len(TASKS) - row + (3 - number) * 0.09)
                for row, task in enumerate(TASKS)
                if (found := run.of(one, task))
            ]
            if points:
                color = COLORS[number % len(COLORS)]
                place.plot(*zip(*points, strict=True), marker="o", linestyle="", label=one.peer, color=color)
        place.set_yticks([len(TASKS) - row for row in range(len(TASKS))], TASKS)
        place.set_xscale("log")
        place.set(title={"error": "median relative error, at least 1e-5", "seconds": "seconds, median"}[what])
    axes[1].set_yticklabels([])
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
    figure.savefig(file, metadata={"Date": None})
