"""[AEA] Figure 5: the share of analysts who exceed a budget, by days since it was refreshed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dpproxy.reporting.plots import image

_ROWS, _WIDTH = 10, 60
_SIGNS = "123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Curve:
    """One budget: `label`, and the percentage stopped within 0, 1, 2 ... days."""

    label: str
    shares: tuple[float, ...]


@dataclass(frozen=True)
class Panel:
    """One of the figure's two plots: `unit` names the budget."""

    unit: str
    curves: tuple[Curve, ...]


def drawn(panel: Panel) -> str:
    """A plot in characters: each curve by its sign, where curves meet the first one's.

    >>> print(drawn(Panel("calls", (Curve("10", (0.0, 50.0, 100.0)), Curve("30", (0.0, 0.0, 0.0))))))
    calls: % of analysts stopped
      100% |                                                            1
       90% |
       80% |
       70% |
       60% |
       50% |                              1
       40% |
       30% |
       20% |
       10% |
        0% |1                             2                             2
           +-------------------------------------------------------------
            0 days since refresh                                        2
      1: 10  2: 30
    """
    days = max(len(curve.shares) for curve in panel.curves) - 1
    grid = [[" "] * (_WIDTH + 1) for _ in range(_ROWS + 1)]
    for sign, curve in reversed(list(zip(_SIGNS, panel.curves, strict=False))):
        for day, share in enumerate(curve.shares):
            grid[_ROWS - round(share / 100 * _ROWS)][round(day / max(days, 1) * _WIDTH)] = sign
    lines = [f"{panel.unit}: % of analysts stopped"]
    for row, cells in enumerate(grid):
        lines.append(f"{100 - row * 100 // _ROWS:5d}% |{''.join(cells)}".rstrip())
    lines.append("       +" + "-" * (_WIDTH + 1))
    lines.append("        0 days since refresh" + f"{days}".rjust(_WIDTH + 1 - 20))
    legend = "  ".join(f"{sign}: {curve.label}" for sign, curve in zip(_SIGNS, panel.curves, strict=False))
    return "\n".join([*lines, f"  {legend}"])


def saved(panels: Sequence[Panel], path: Path) -> None:
    """Writes the panels side by side as an image, its kind by the name's ending (.png, .svg).

    Raises OutputError without matplotlib, and for another ending.
    """
    with image(path, len(panels), 5.4, 4) as (_, all_axes):
        for axes, panel in zip(all_axes, panels, strict=True):
            for curve in panel.curves:
                axes.plot(range(len(curve.shares)), curve.shares, label=f"{curve.label} units")
            axes.set(
                xlabel="days since refresh",
                ylabel="% of analysts stopped",
                title=f"Stopped by a budget of {panel.unit}",
                ylim=(-2, 102),
            )
            axes.legend()
