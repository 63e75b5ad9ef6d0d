"""docs/accuracy.md and its plot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.accuracy.asking import Measured
from benchmarks.plots import axes_of
from dpproxy.reporting.plots import COLORS

HEADS = ("question", "error before", "error now (10th to 90th percentile)", "target", "groups", "price", "")
USEFUL, USELESS = 0.1, 0.5


@dataclass(frozen=True)
class Part:
    """Questions over one database, asked with so many keys; `why`: why they were not asked."""

    name: str
    title: str
    preface: str
    found: Sequence[Measured] = ()
    keys: int = 0
    why: str = ""


def written(part: Part, machine: str) -> str:
    """The part's section of the page."""
    lines = [f"## {part.title}", "", part.preface, ""]
    if part.why:
        return "\n".join([*lines, f"Not measured: {part.why}."])
    lines += [
        f"{part.keys} {'key' if part.keys == 1 else 'keys'}, on {machine}.",
        "",
        *summary(part.found),
        "",
    ]
    lines += ["| " + " | ".join(HEADS) + " |", "|" + "---|" * len(HEADS)]
    lines += ["| " + " | ".join(row) + " |" for row in map(_row, part.found)]
    refused = [f"- {one.question.what}: refused, {one.refused}" for one in part.found if one.refused]
    lines += ["", *refused, ""] if refused else [""]
    return "\n".join([*lines, f"![Errors: {part.title}](accuracy/{part.name}.svg)"])


def summary(found: Sequence[Measured]) -> Iterator[str]:
    """How many questions are useful, and how many targets met."""
    worst = [max(one.middle) for one in found]
    useful, useless = sum(e < USEFUL for e in worst), sum(e >= USELESS for e in worst)
    yield (
        f"- Of {len(found)} questions {useful} have a median error below 10% in every column, "
        f"{len(found) - useful - useless} below 50%, {useless} of 50% and more."
    )
    every = [value for one in found for value in one.middle]
    yield f"- The median over all {len(every)} columns of numbers: {percent(median(every))}."
    met = [one.met for one in found if one.met is not None]
    if met:
        missed = ", ".join(one.question.what for one in found if one.met is False)
        yield f"- {sum(met)} of {len(met)} targets are met" + (f"; not met: {missed}." if missed else ".")


def percent(share: float) -> str:
    """An error for people.

    >>> percent(0.00123), percent(0.1234), percent(6.766)
    ('0.123%', '12.3%', '677%')
    """
    return f"{100 * share:.3g}%" if share < 0.9995 else f"{100 * share:,.0f}%"


def _row(one: Measured) -> Iterator[str]:
    question = one.question
    yield question.what
    yield "" if question.before is None else " / ".join(f"{value:g}%" for value in question.before) or "empty"
    yield " / ".join(_spread(one, column) for column in range(one.columns))
    yield "" if question.target is None else f"{question.target:g}%"
    released, true = one.groups
    alone = f"; of these {percent(one.shown)}" if 0 < released < true or one.shown < min(one.middle) else ""
    yield "" if not question.keys else f"{released:,} of {true:,}{alone}"
    yield "refused" if one.refused else f"{one.price:g}"
    yield {None: "", True: "met", False: "NOT met"}[one.met]


def _spread(one: Measured, column: int) -> str:
    """The median over the keys, and where most of them lie, if there are several."""
    middle = percent(one.middle[column])
    if len(one.errors) == 1:
        return middle
    return f"{middle} ({percent(one.at(10, column))} to {percent(one.at(90, column))})"


def plot(file: Path, part: Part) -> None:
    """Each question's error before, now from the 10th to the 90th percentile, and its target."""
    figure, (place,) = axes_of(8, 1 + 0.24 * len(part.found))
    for row, one in enumerate(reversed(part.found)):
        column = max(range(one.columns), key=lambda c: one.middle[c])
        low, high = 100 * one.at(10, column), 100 * one.at(90, column)
        place.plot([low, high], [row, row], color=COLORS[0])
        place.plot([100 * one.middle[column]], [row], "o", color=COLORS[0])
        if one.question.before:
            place.plot([max(one.question.before)], [row], "x", color=COLORS[7])
        if one.question.target is not None:
            place.plot([one.question.target], [row], "|", color=COLORS[2], markersize=12, markeredgewidth=2)
    place.set_yticks(range(len(part.found)), [one.question.what for one in reversed(part.found)], fontsize=8)
    place.set_xscale("log")
    keys = [("o", COLORS[0], "now, 10th to 90th percentile")]
    if any(one.question.before for one in part.found):
        keys.append(("x", COLORS[7], "before"))
    if any(one.question.target is not None for one in part.found):
        keys.append(("|", COLORS[2], "target"))
    for marker, color, label in keys:
        place.plot([], [], marker, color=color, label=label)
    place.set(title=f"{part.title}: error in percent, its worst column")
    figure.legend(*place.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
    file.parent.mkdir(exist_ok=True)
    figure.savefig(file, metadata={"Date": None})
