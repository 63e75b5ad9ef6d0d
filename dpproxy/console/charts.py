"""Charts as numbers for templates: positions of bars, lines and ticks in an SVG. The templates write and escape it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from math import floor, log10

WIDTH, HEIGHT = 400, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 20, 10, 28
_GAP = 0.25
"""Of a bar's place."""
_MOST_TICKS = 5


@dataclass(frozen=True)
class Tick:
    """A mark at an axis: where, and what it says."""

    at: float
    text: str


@dataclass(frozen=True)
class Bar:
    """A rectangle of series number `series`; `title` describes it."""

    x: float
    y: float
    width: float
    height: float
    series: int
    title: str


@dataclass(frozen=True)
class Polyline:
    """A polyline of series number `series`: `points` as SVG wants them, `last` its end."""

    points: str
    last: tuple[float, float]
    series: int


@dataclass(frozen=True)
class Chart:
    """A chart for a template. `about`: the alternative text; `names`: of the series, in order."""

    title: str
    about: str
    names: tuple[str, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    x_title: str = ""
    bars: tuple[Bar, ...] = ()
    lines: tuple[Polyline, ...] = ()
    width: int = WIDTH
    height: int = HEIGHT
    left: int = _LEFT
    right: int = WIDTH - _RIGHT
    bottom: int = HEIGHT - _BOTTOM


@dataclass(frozen=True)
class Series:
    """Values of one kind, one for each place of the axis."""

    name: str
    values: tuple[float, ...] = field(repr=False)


def by_day(title: str, about: str, days: Sequence[date], series: Sequence[Series], unit: str) -> Chart:
    """Stacked bars, one for each of `days`, which follow each other; `unit`: of the values, for what bars say."""
    totals = [sum(one.values[place] for one in series) for place in range(len(days))]
    top, ticks = _axis(max(totals, default=0.0))
    step = (WIDTH - _LEFT - _RIGHT) / max(1, len(days))
    bars = []
    for place, day in enumerate(days):
        below = 0.0
        for number, one in enumerate(series):
            value = one.values[place]
            if value:
                upper, lower = _y(below + value, top), _y(below, top)
                x = _LEFT + step * (place + _GAP / 2)
                told = f"{day:%d %b}: {_number(value)} {one.name or unit}"
                bars.append(Bar(_r(x), _r(upper), _r(step * (1 - _GAP)), _r(lower - upper), number + 1, told))
            below += value
    marks = [
        Tick(_r(_LEFT + step * (place + 0.5)), f"{day.day} {day:%b}")
        for place, day in enumerate(days)
        if (days[-1] - day).days % 7 == 0 and place > 1
    ]
    names = tuple(one.name for one in series) if len(series) > 1 else ()
    return Chart(title, about, names, tuple(marks), ticks, bars=tuple(bars))


def by_number(title: str, about: str, x_title: str, series: Sequence[Series], most: float) -> Chart:
    """Lines over 0, 1, 2 ...; `most`: the top of the axis, in percent."""
    last = max((len(one.values) for one in series), default=1) - 1
    top, ticks = (
        most,
        tuple(Tick(_r(_y(most * part / 4, most)), f"{most * part / 4:.0f}%") for part in range(5)),
    )
    lines = []
    for number, one in enumerate(series):
        points = [(_r(_x(place, last)), _r(_y(value, top))) for place, value in enumerate(one.values)]
        lines.append(Polyline(" ".join(f"{x},{y}" for x, y in points), points[-1], number + 1))
    step = max(1, _nice(last / _MOST_TICKS))
    marks = tuple(Tick(_r(_x(place, last)), str(place)) for place in range(0, last + 1, int(step)))
    names = tuple(one.name for one in series)
    return Chart(title, about, names, marks, ticks, x_title, lines=tuple(lines))


def last_days(today: date, count: int) -> tuple[date, ...]:
    """So many days up to today.

    >>> [str(day) for day in last_days(date(2026, 3, 1), 2)]
    ['2026-02-28', '2026-03-01']
    """
    return tuple(today - timedelta(days=count - 1 - place) for place in range(count))


def _axis(most: float) -> tuple[float, tuple[Tick, ...]]:
    """The top of an axis and its ticks, at round numbers."""
    step = max(_nice(most / (_MOST_TICKS - 1)), 1) if most > 0 else 1.0
    count = max(1, -int(-most // step))
    top = step * count
    return top, tuple(Tick(_r(_y(step * n, top)), _number(step * n)) for n in range(count + 1))


def _nice(value: float) -> float:
    """The least of 1, 2, 5, 10, 20 ... that is not below a value.

    >>> _nice(3), _nice(0.3), _nice(20)
    (5.0, 0.5, 20.0)
    """
    if value <= 0:
        return 1
    power = floor(log10(value))
    for factor in (1, 2, 5, 10):
        nice = round(factor * 10.0**power, max(0, -power))
        if nice >= value:
            return nice
    return 10.0 ** (power + 1)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"


def _x(place: float, last: int) -> float:
    return _LEFT + (WIDTH - _LEFT - _RIGHT) * place / max(1, last)


def _y(value: float, top: float) -> float:
    return HEIGHT - _BOTTOM - (HEIGHT - _BOTTOM - _TOP) * value / top


def _r(value: float) -> float:
    return round(value, 2)
