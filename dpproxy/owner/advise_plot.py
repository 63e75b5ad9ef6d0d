"""Curves of `dpproxy advise`: in characters, and as an image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dpproxy.owner.advise import Setting, kinds, thresholds
from dpproxy.reporting.plots import COLORS, image, plain_numbers

_ROWS, _WIDTH = 12, 60
_SIGNS = "123456789abcdefghijklmnopqrstuvwxyz"
_STYLES = ("-", "--", ":")
_COUNTS = tuple(round(10 ** (1 + n / 12)) for n in range(49))
_L0 = (1, 2, 3, 5, 10, 20, 50, 100)
"""Where the curves have points: errors at counts from 10 to 100,000, thresholds at these l0."""


@dataclass(frozen=True)
class LogLogLine:
    """Points of one curve, x and y above 0; `style` distinguishes settings that share a color."""

    label: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    style: int = 0


@dataclass(frozen=True)
class LogLogChart:
    """A chart with logarithmic axes."""

    title: str
    x: str
    y: str
    lines: tuple[LogLogLine, ...]


def charts_of(settings: Sequence[Setting]) -> list[LogLogChart]:
    """Errors by the size of a count, and thresholds by l0 where values may be unknown; all settings in one chart."""
    several = len(settings) > 1
    errors, needed = [], []
    for style, one in enumerate(settings):
        suffix = f" ({one.label})" if several else ""
        for kind in (kinds(one)[0], *kinds(one)[2:4]):
            points = tuple(100 * (kind.error(n) or 0) for n in _COUNTS)
            errors.append(LogLogLine(kind.question + suffix, _COUNTS, points, style))
        found = thresholds(one, _L0)
        if found:
            needed.append(LogLogLine("unknown groups" + suffix, _L0, tuple(map(float, found)), style))
    charts = [LogLogChart("Error of 95% of counts", "count", "%", tuple(errors))]
    if needed:
        charts.append(
            LogLogChart("Threshold", "groups of one unit (l0)", "units that a group needs", tuple(needed))
        )
    return charts


def in_characters(chart: LogLogChart) -> str:
    """The chart for a terminal: each curve by its sign, where curves meet the first one's.

    >>> print(in_characters(LogLogChart("Error", "count", "%", (LogLogLine("a", (1.0, 10.0), (100.0, 10.0)),))))
    Error (%, logarithmic)
         100 |1
             |
             |
             |
             |
             |
             |
             |
             |
             |
             |
             |
          10 |                                                            1
             +-------------------------------------------------------------
              1                          count                           10
      1: a
    """
    xs = [math.log(x) for line in chart.lines for x in line.xs]
    ys = [math.log(y) for line in chart.lines for y in line.ys]
    grid = [[" "] * (_WIDTH + 1) for _ in range(_ROWS + 1)]
    for sign, line in reversed(list(zip(_SIGNS, chart.lines, strict=False))):
        for x, y in zip(line.xs, line.ys, strict=True):
            row = _ROWS - round(_place(math.log(y), ys) * _ROWS)
            grid[row][round(_place(math.log(x), xs) * _WIDTH)] = sign
    lines = [f"{chart.title} ({chart.y}, logarithmic)"]
    for row, cells in enumerate(grid):
        value = f"{math.exp(max(ys)):.4g}" if row == 0 else f"{math.exp(min(ys)):.4g}" if row == _ROWS else ""
        lines.append(f"{value:>8} |{''.join(cells)}".rstrip())
    lines.append(" " * 9 + "+" + "-" * (_WIDTH + 1))
    first, last = f"{math.exp(min(xs)):.4g}", f"{math.exp(max(xs)):.4g}"
    between = chart.x.center(_WIDTH + 1 - len(first) - len(last))
    lines.append(" " * 10 + first + between + last)
    lines += [f"  {sign}: {line.label}" for sign, line in zip(_SIGNS, chart.lines, strict=False)]
    return "\n".join(lines)


def _place(value: float, values: Sequence[float]) -> float:
    """Where a value lies between the least and the greatest, 0 to 1."""
    least, most = min(values), max(values)
    return (value - least) / (most - least) if most > least else 0.0


def as_image(charts: Sequence[LogLogChart], path: Path) -> None:
    """Writes the charts side by side, the kind by the name's ending (.png, .svg).

    Raises OutputError without matplotlib, and for another ending.
    """
    with image(path, len(charts), 6.6, 4.6) as (_, all_axes):
        for axes, chart in zip(all_axes, charts, strict=True):
            half = len({line.style for line in chart.lines})
            for number, line in enumerate(chart.lines):
                color = COLORS[number % max(1, len(chart.lines) // half) % len(COLORS)]
                axes.plot(line.xs, line.ys, _STYLES[line.style], color=color, label=line.label)
            axes.set(xscale="log", yscale="log", xlabel=chart.x, ylabel=chart.y, title=chart.title)
            xs, ys = ([v for line in chart.lines for v in getattr(line, name)] for name in ("xs", "ys"))
            plain_numbers(axes.xaxis, min(xs), max(xs))
            plain_numbers(axes.yaxis, min(ys), max(ys))
            axes.tick_params(which="minor", length=0)
            axes.legend(fontsize="small")
