"""The error of an answer: rows are matched by the columns that name a group, and every other column is compared."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from statistics import median

MISSING = 1.0
"""The error of a group that did not come out, and of one whose number is NULL."""

Row = Sequence[object]


@dataclass(frozen=True)
class Answer:
    """Names of columns and rows."""

    columns: Sequence[str]
    rows: Sequence[Row]


@dataclass(frozen=True)
class AnswerError:
    """Of each column of numbers: the median over all true groups, and over those that came out.

    `released`: how many of the `true` groups came out.
    """

    columns: tuple[float, ...]
    shown: tuple[float, ...]
    released: int
    true: int


def error_of(answer: Answer, truth: Answer, keys: Sequence[str] = ()) -> AnswerError | None:
    """How far an answer is off; groups that are not in the truth do not count, nor do numbers whose truth is 0 or NULL.

    None where the truth has no number to compare with.

    >>> truth = Answer(["week", "n"], [(1, 10), (2, 20), (3, 30)])
    >>> error_of(Answer(["week", "n"], [("1", "11"), ("2", "20.5"), ("4", "9")]), truth, ["week"])
    AnswerError(columns=(0.1,), shown=(0.0625,), released=2, true=3)
    """
    key_places = [truth.columns.index(name) for name in keys]
    numbers = [place for place in range(len(truth.columns)) if place not in key_places]
    released_keys = [answer.columns.index(name) for name in keys] if answer.rows else []
    released_numbers = [place for place in range(len(answer.columns)) if place not in released_keys]
    found = {group_of(row, released_keys): row for row in answer.rows}
    pairs = [(row, found.get(group_of(row, key_places))) for row in truth.rows]
    errors: list[list[float]] = []
    for order, place in enumerate(numbers):
        errors.append([])
        for row, other in pairs:
            true = number_of(row[place])
            if true:
                value = None if other is None else number_of(other[released_numbers[order]])
                errors[-1].append(math.inf if value is None else abs(value - true) / abs(true))
    if not any(errors):
        return None
    return AnswerError(
        tuple(median([MISSING if e == math.inf else e for e in column]) for column in errors if column),
        tuple(median([e for e in column if e != math.inf] or [MISSING]) for column in errors if column),
        sum(other is not None for _, other in pairs),
        len(pairs),
    )


def nothing(truth: Answer, keys: Sequence[str] = ()) -> AnswerError | None:
    """The error of no answer at all."""
    return error_of(Answer((), ()), truth, keys)


def group_of(row: Row, places: Sequence[int]) -> tuple[str | None, ...]:
    """The group of a row, by the columns that name it, as both sides write it."""
    return tuple(_name(row[place]) for place in places)


def _name(value: object) -> str | None:
    """A group's value as both sides write it.

    >>> _name("2017-01-01 00:00:00+00"), _name("1.0"), _name(1), _name(None), _name("19-24")
    ('2017-01-01', '1', '1', None, '19-24')
    """
    if value is None:
        return None
    text = re.sub(r" 00:00:00(\+00(:00)?)?$", "", str(value))
    try:
        return f"{Decimal(text).normalize():f}"
    except InvalidOperation:
        return text


def number_of(value: object) -> float | None:
    """A number, or None for NULL and for what is none."""
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if math.isfinite(number) else None
