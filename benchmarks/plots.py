"""Figures and axes in dpproxy's own style."""

from __future__ import annotations

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpproxy.reporting.plots import settings

matplotlib.rcParams.update(settings())


def axes_of(width: float, height: float, columns: int = 1, rows: int = 1) -> tuple[Figure, list[Axes]]:
    """Give a figure and its axes, row by row."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, [figure.add_subplot(rows, columns, i + 1) for i in range(rows * columns)]
