"""Precision for a price: which measurements make up an answer at a level, and how they are combined.

A level is what a measure costs, in information units; each has half the variance of the one before. Independent
measurements of the same are combined by inverse variance: together they cost, and say, what one noise with the variance
of the mean would (mechanisms/count_release.md, Lemma 4). So a better answer pays for what it adds.

Which measurements an answer has is a matter of its level alone, so that all accounts at one level get one number.
Why: docs/decisions/precision-is-bought-in-rungs.md.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from statistics import median
from typing import Literal

from dpproxy.config.precision import Target
from dpproxy.engine.result.postprocess import OutputColumn
from dpproxy.engine.selection.groups import MeasuredColumn

FAR, UNKNOWN = Fraction(1 << 20), Fraction(4)
"""By what factor the variance of a value would have to fall that is 0, and of one that is NULL."""
Combines = Literal["always", "twice", "weighted", "never"]
"""How often measurements are combined; totals once, since a length serves twice the price it was chosen for; totals of
many cells also with those that have weights made of earlier ones, and lengths of their own."""
MOST_WEIGHT = 64
"""The most that a total counts for in a weighted measurement, where one in the largest cell counts once."""
LEAST_GAIN = 1.1
"""By what factor the noise in the median cell has to fall for weights to be worth a length of their own, which costs
4/25 of the price: a tenth of the noise."""
WEIGHT = 2 / 3
"""The power of sizes that weights are: with 1 the largest cells lose much, with 1/2 the small ones gain less."""


def steps(units: Fraction, combines: Combines) -> tuple[Fraction, ...]:
    """What each of the measurements costs that make up an answer at a level.

    >>> [str(step) for step in steps(Fraction(8), "always")], [str(step) for step in steps(Fraction(8), "twice")]
    (['1', '1', '2', '4'], ['4', '4'])

    With weights the first is half of a fourfold: one of less has a length that is too short for the largest groups.

    >>> [[*map(str, steps(Fraction(units), "weighted"))] for units in (1, 2, 4, 8, 16)]
    [['1'], ['1', '1'], ['2', '2'], ['2', '2', '4'], ['8', '8']]
    """
    first = units
    if combines == "twice" or (combines != "never" and units < 1):
        first = units if _is_square(units) else units / 2
    elif combines == "weighted":
        first = max(Fraction(1), units / (2 if _is_square(units) else 4))
    elif combines == "always":
        first = Fraction(1)
    listed = [first]
    while sum(listed) < units:
        listed.append(sum(listed, Fraction(0)))
    return tuple(listed)


def _is_square(power: Fraction) -> bool:
    """Whether a power of 2 is one of 4."""
    return (power.numerator.bit_length() - power.denominator.bit_length()) % 2 == 0


def excess(columns: Iterable[OutputColumn], target: Target) -> Fraction | None:
    """By what factor the variance has to fall until half of each column's values are within their target.

    None where no error is known. Only released values are read. One that is 0 is within no share; of one that is NULL
    nothing is known but that a higher level might do.

    >>> counts = OutputColumn((1000, 100, 0), (10.0, 10.0, 10.0), width=2)
    >>> [str(excess([counts], Target.read(text))) for text in ("20%", "10%", "20")]
    ['1', '4', '1']
    """
    needed = [_excess(column, target) for column in columns]
    return max((factor for factor in needed if factor is not None), default=None)


def _excess(column: OutputColumn, target: Target) -> Fraction | None:
    sizes = column.size("w")
    if column.values and all(size is None for size in sizes) and any(v is not None for v in column.values):
        return None
    if not column.factor or (target.relative and column.kind in ("date", "timestamp")):
        return None  # nothing but 0 is shown, or what has no natural 0
    factors = []
    for value, size in zip(column.values, sizes, strict=True):
        if value is None or size is None:
            factors.append(UNKNOWN)
            continue
        shown = abs(Fraction(value)) if target.relative else 1 / abs(Fraction(column.factor))
        factors.append(min(FAR, (Fraction(size) / (shown * target.size)) ** 2) if shown else FAR)
    return sorted(factors)[(len(factors) - 1) // 2] if factors else None


def higher(level: Fraction, needed: Fraction, levels: Collection[Fraction]) -> list[Fraction]:
    """The levels to go on to, the best first; no more than fourfold, since what is known so far is noisy."""
    wanted = (2,) if needed <= 2 else (4, 2)
    return [level * factor for factor in wanted if level * factor in levels]


def multipliers(column: MeasuredColumn) -> tuple[int, ...]:
    """By what totals are multiplied in each cell, so that small ones get less noise: (largest/size)^(2/3), rounded.

    A size is a released value, or the deviation of its noise, where that is larger. Empty where nothing is known, and
    where half of the cells would hardly gain: without weights the length that was chosen before serves again.

    >>> multipliers(MeasuredColumn((8000, 1010, -990, 100, -7), (10.0,) * 5))
    (1, 4, 4, 19, 64)
    >>> multipliers(MeasuredColumn((8000, 7000), (10.0,) * 2))
    ()
    >>> multipliers(MeasuredColumn((80,) * 52 + (9,), (1.0,) * 53))
    ()
    """
    if column.absent:
        return ()
    sizes = [max(abs(v), d) for v, d in zip(column.values, column.deviations, strict=True)]
    found = tuple(min(MOST_WEIGHT, round((max(sizes) / size) ** WEIGHT)) for size in sizes)
    # Units' vectors are about proportional to the sizes: so much longer the weighted ones are.
    longer = math.hypot(*(m * size for m, size in zip(found, sizes, strict=True))) / math.hypot(*sizes)
    return found if median(found) > LEAST_GAIN * longer else ()


def combined(columns: Sequence[MeasuredColumn]) -> MeasuredColumn:
    """The mean of independent measurements of the same values, in each cell weighted by inverse variance.

    Those that came to nothing are left out; the rest is as in the first of the others.

    >>> both = combined([MeasuredColumn((10, 0), (2.0, 2.0)), MeasuredColumn((20, 1), (1.0, 1.0))])
    >>> both.values, [round(d, 3) for d in both.deviations]
    ((18, 1), [0.94, 0.94])
    >>> combined([MeasuredColumn((10, 0), (2.0, 2.0), common=1)] * 4).common
    0.5

    A value of infinite deviation is unknown.

    >>> combined([MeasuredColumn((0, 0), (math.inf, math.inf)), MeasuredColumn((20, 0), (1.0, math.inf))]).values
    (20, 0)
    """
    columns = [column for column in columns if not column.absent] or [columns[0]]
    first = columns[0]
    if len(columns) == 1 or not first.deviations:
        return first
    cells = zip(
        zip(*(column.values for column in columns), strict=True),
        zip(*(column.deviations for column in columns), strict=True),
        strict=True,
    )
    mean, deviations = zip(*(_mean(values, spreads) for values, spreads in cells), strict=True)
    # What is common to all groups of one is independent of that of the others.
    shares = [column.deviations[0] ** -2 for column in columns] if any(c.common for c in columns) else [1.0]
    parts = (share * column.common for share, column in zip(shares, columns, strict=False))
    common = math.hypot(*parts) / sum(shares)
    notes = dict.fromkeys(note for column in columns for note in column.notes)
    return replace(first, values=mean, deviations=deviations, common=common, notes=tuple(notes))


def _mean(values: Sequence[int], deviations: Sequence[float]) -> tuple[int, float]:
    """The mean of one value's measurements, rounded to a whole number, which adds a variance of 1/12; its deviation."""
    precisions = [deviation**-2 for deviation in deviations]
    if not any(precisions):
        return 0, math.inf
    fine = (1 << 30) / max(precisions)
    weights = [round(precision * fine) for precision in precisions]
    total = sum(weights)
    mean = (2 * sum(w * v for w, v in zip(weights, values, strict=True)) + total) // (2 * total)
    return mean, (1 / sum(precisions) + 1 / 12) ** 0.5
