"""How plots look: those of the commands and of the reproduction alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpproxy.reporting.rows import OutputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

COLORS = ("#0f7f8c", "#d07a0b", "#b3294e", "#4c5fc4", "#46803c", "#8346ad", "#6d6f00", "#5b6672")
STYLE: Mapping[str, object] = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#7b8794",
    "axes.grid": True,
    "axes.labelcolor": "#3e4c59",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.titlesize": "large",
    "axes.titleweight": "bold",
    "figure.dpi": 120,
    "grid.color": "#e4e7eb",
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "text.color": "#1f2933",
    "xtick.color": "#52606d",
    "ytick.color": "#52606d",
}
"""Of matplotlib's settings; what they leave out is its default."""


@contextmanager
def image(path: Path, columns: int, width: float, height: float) -> Iterator[tuple[Figure, list[Axes]]]:
    """A figure with so many axes side by side, written to `path` as its context ends.

    `width`, `height`: of one of them, in inches; the kind of image is by the name's ending (.png, .svg). Raises
    OutputError without matplotlib, and for another ending.
    """
    if path.suffix not in (".png", ".svg"):
        raise OutputError(f"{path.name}: a plot ends in .png or .svg")
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise OutputError("plots need matplotlib: pip install 'dpproxy[plot]'") from None
    with rc_context(settings()):
        figure = Figure(figsize=(width * columns, height), layout="constrained")
        yield figure, [figure.add_subplot(1, columns, place + 1) for place in range(columns)]
        figure.savefig(path)


def plain_numbers(axis: Axis, least: float, most: float) -> None:
    """Has a logarithmic axis from `least` to `most` say its numbers in full, at 2 and 5 as well where it is short."""
    short = most < 100 * least
    axis.set_major_formatter(lambda value, _: f"{value:,g}")
    axis.set_minor_formatter(
        lambda value, _: f"{value:,g}" if short and f"{value:e}"[:3] in ("2.0", "5.0") else ""
    )


def settings() -> dict[Any, Any]:
    """STYLE with its colours as matplotlib wants them; ImportError without matplotlib."""
    from cycler import cycler

    return {**STYLE, "axes.prop_cycle": cycler(color=COLORS)}
