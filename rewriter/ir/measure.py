"""What a node releases about each of its groups (measures), and the columns computed from that (outputs).

In:  SELECT country, AVG(amount), SUM(2 * amount), COUNT(amount) FROM ...
Out: two measures, the sum of amount and the number of rows that have one, each paid for once, and three outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from sqlglot import exp


@dataclass(frozen=True)
class FixedPoint:
    """A number as the backend adds it up: the integer floor(10^scale x + 1/2) for `value` x clamped to its bounds.

    Attributes:
        value: the expression, in base form; a date counts in days, a timestamp in seconds since 1970-01-01 00:00.
        scale: the decimals that are kept.
        lo, hi: the bounds in units of 10^-scale, lo < hi, at most 2^40 in size; None until parameters have values.
    """

    value: exp.Expr
    scale: int
    lo: int | None
    hi: int | None


@dataclass(frozen=True)
class Count:
    """The number of rows whose `argument` is true.

    Attributes:
        argument: the condition, None for all rows.
        tau: the most that one unit counts; with 1 the count is one of units.
        items: count the distinct values of these expressions in place of rows.
    """

    argument: exp.Expr | None
    tau: int
    items: tuple[exp.Expr, ...] = ()


@dataclass(frozen=True)
class Moment:
    """The sum of a value, or of its square, over the rows whose `argument` is true and whose value is not NULL.

    Attributes:
        value: what is added up.
        argument: the condition, None for all rows.
        power: 1 for the value, 2 for its square.
        centred: 2 value - lo - hi is added in place of the value.
        tau: the most rows of a unit in a group that count, chosen by a keyed order.
        whole: the clamp is on a unit's sum in a group, not on its rows; tau is 1.
    """

    value: FixedPoint
    argument: exp.Expr | None
    power: Literal[1, 2]
    centred: bool
    tau: int
    whole: bool = False


@dataclass(frozen=True)
class Total:
    """Each unit's number of rows, or sum of a value, in each group: a vector that is clipped to one length as a whole.

    Attributes:
        value: what is added up, None for the number of rows; its bounds clamp single rows.
        argument: the condition, None for all rows.
        anchor: the least length that a vector may be clipped to, in units of 10^-scale, or in rows.
        once: a unit counts once in each group in which it has rows, so that the total is one of units.
        items: count a unit's distinct values of these expressions in place of its rows.
    """

    value: FixedPoint | None
    argument: exp.Expr | None
    anchor: int
    once: bool = False
    items: tuple[exp.Expr, ...] = ()


@dataclass(frozen=True)
class Joint:
    """The number of the rows that have a value, its sum and perhaps the sum of its squares: of each unit one vector,
    which is clipped as a whole.

    Attributes:
        value: what is averaged; its bounds clamp single rows.
        argument: the condition, None for all rows.
        squares: with the sum of squares, for a variance.
        least: the least that a row counts for in the vector's length, in units of 10^-scale.
        averages: nothing but averages is read from it, neither sums nor numbers of rows nor variances.
    """

    value: FixedPoint
    argument: exp.Expr | None
    squares: bool
    least: int
    averages: bool = False


@dataclass(frozen=True)
class Vector:
    """One vector of each unit: of the total `place` of a node; of joint moments about `centre`, where a row counts for
    `row` in a vector's length and all parts are multiplied by `fine`; of a weighted total by what it is multiplied in
    each cell."""

    place: int
    centre: int = 0
    row: int = 1
    fine: int = 1
    multipliers: tuple[int, ...] = ()


ROW = 1 << 20
"""What a row of a unit with few rows counts for in weighted quantiles."""


@dataclass(frozen=True)
class Quantiles:
    """The numbers of rows in the bins into which [lo, hi] is cut: enough for any number of quantiles.

    Attributes:
        value: what the quantiles are of.
        argument: the condition, None for all rows.
        fractions: the quantiles that are asked for, from 0 to 1; None until parameters have values.
        tau: the most rows of a unit in a group that count, chosen by a keyed order.
        weighted: all rows of a unit count in place of that, and all of them together, over all groups, for `tau` rows
            where they are more.
    """

    value: FixedPoint
    argument: exp.Expr | None
    fractions: tuple[Fraction | None, ...]
    tau: int
    weighted: bool = False


@dataclass(frozen=True)
class DistinctItems:
    """How many different values of `items` (a row value where there are several) the rows have."""

    items: tuple[exp.Expr, ...]
    argument: exp.Expr | None


@dataclass(frozen=True)
class Running:
    """The number of rows up to each time.

    Attributes:
        time: the place of the time among the keys; the other keys are the item.
        argument: the condition, None for all rows.
        events: the most rows of a unit that count, chosen by a keyed order.
        horizon: the data owner has declared first and last time; else they come from the query's domain of the time.
    """

    time: int
    argument: exp.Expr | None
    events: int
    horizon: bool


Measure = Count | Moment | Total | Joint | Quantiles | DistinctItems | Running

Function = Literal[
    "count",
    "sum",
    "avg",
    "var_samp",
    "var_pop",
    "stddev_samp",
    "stddev_pop",
    "cont",
    "disc",
    "distinct",
    "running",
    "extreme",
]


@dataclass(frozen=True)
class Output:
    """A released column: a function of measures, times a factor.

    Attributes:
        function: which function.
        measures: its measures by their places in the node. count, distinct and running: the count. sum: the first
            moment, followed by the count where it is centred; or a count or total. avg: moment, count. Variances:
            squares, moment, count. In place of any of these one joint measure. cont and disc: the quantiles.
        call: the aggregate in base form, whose type PostgreSQL gives.
        factor: what the result is multiplied by.
        fraction: which quantile; cont is PostgreSQL's interpolating percentile, disc one of the values.
        rows: a count of rows, of which a unit may have more than are counted.
    """

    function: Function
    measures: tuple[int, ...]
    call: exp.Expr
    factor: Fraction = Fraction(1)
    fraction: Fraction | None = None
    rows: bool = False


def named(measure: Measure) -> str:
    """What a measure is called for people.

    >>> named(Count(None, 1)), named(DistinctItems((), None))
    ('count', 'distinct items')
    """
    if isinstance(measure, Count):
        return "count"
    if isinstance(measure, Moment):
        return "sum" if measure.power == 1 else "sum of squares"
    if isinstance(measure, Joint):
        return "rows, sum and squares" if measure.squares else "rows and sum"
    if isinstance(measure, Total):
        if measure.value is not None:
            return "total"
        return "units" if measure.once else "items of units" if measure.items else "rows"
    if isinstance(measure, Quantiles):
        return "quantiles"
    return "distinct items" if isinstance(measure, DistinctItems) else "running counts"


def parts(measure: Measure) -> tuple[exp.Expr, ...]:
    """The base forms that a measure reads.

    >>> parts(Count(None, 1))
    ()
    """
    argument = () if measure.argument is None else (measure.argument,)
    if isinstance(measure, (Moment, Total, Joint, Quantiles)) and measure.value is not None:
        return (*argument, measure.value.value)
    if isinstance(measure, (Count, Total, DistinctItems)):
        return (*argument, *measure.items)
    return argument
