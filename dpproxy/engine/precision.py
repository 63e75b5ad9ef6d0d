"""Precision for a price: which measurements make up an answer at a level, and how they are combined.

A level is what a measure costs, in information units; each has half the variance of the one before. Independent
measurements of the same are combined by inverse variance: together they cost, and say, what one noise with the variance
of the mean would (mechanisms/count_release.md, Lemma 4). So a better answer pays for what it adds.

Which measurements an answer has is a matter of its level alone, so that all accounts at one level get one number.
Why: docs/decisions/precision-is-bought-in-rungs.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Literal

from dpproxy.config.precision import Target
from dpproxy.engine.group_selection import MeasuredColumn
from dpproxy.engine.postprocess import OutputColumn

FAR, UNKNOWN = Fraction(1 << 20), Fraction(4)
"""By what factor the variance of a value would have to fall that is 0, and of one that is NULL."""
Combines = Literal["always", "twice", "never"]
"""How often measurements are combined; totals once, since a length serves twice the price it was chosen for."""


def steps(units: Fraction, combines: Combines) -> tuple[Fraction, ...]:
    """What each of the measurements costs that make up an answer at a level.

    >>> [str(step) for step in steps(Fraction(8), "always")], [str(step) for step in steps(Fraction(8), "twice")]
    (['1', '1', '2', '4'], ['4', '4'])
    """
    first = units
    if combines == "twice" or (combines == "always" and units < 1):
        first = units if _is_square(units) else units / 2
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


def combined(columns: Sequence[MeasuredColumn]) -> MeasuredColumn:
    """The mean of independent measurements of the same values, weighted by inverse variance.

    >>> both = combined([MeasuredColumn((10, 0), (2.0, 2.0)), MeasuredColumn((20, 1), (1.0, 1.0))])
    >>> both.values, [round(d, 3) for d in both.deviations]
    ((18, 1), [0.94, 0.94])
    >>> combined([MeasuredColumn((10, 0), (2.0, 2.0), common=1)] * 4).common
    0.5
    """
    first = columns[0]
    if len(columns) == 1 or first.absent or not first.deviations:
        return first
    precisions = [column.deviations[0] ** -2 for column in columns]
    whole, fine = sum(precisions), (1 << 30) / max(precisions)
    weights = [round(precision * fine) for precision in precisions]
    total = sum(weights)
    mean = [
        (2 * sum(w * v for w, v in zip(weights, values, strict=True)) + total) // (2 * total)
        for values in zip(*(column.values for column in columns), strict=True)
    ]
    # The mean is rounded, which adds a variance of 1/12; the share that is common to all groups is as in each.
    deviation = (1 / whole + 1 / 12) ** 0.5
    common = first.common * (1 / whole) ** 0.5 / first.deviations[0]
    return replace(first, values=tuple(mean), deviations=(deviation,) * len(mean), common=common)
