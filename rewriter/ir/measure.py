"""What a node releases about each of its groups (measures), and which columns are made of that (outputs).

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

    `value` is in base form; a date counts in days, a timestamp in seconds since 1970-01-01 00:00. `lo`, `hi`: the
    bounds in units of 10^-scale, lo < hi, at most 2^40 in size; None until the values of parameters are known.
    """

    value: exp.Expr
    scale: int
    lo: int | None
    hi: int | None


@dataclass(frozen=True)
class Count:
    """How many rows have a true `argument` (None: all), each unit counted for `tau` at most.

    With tau 1 these are units. `items`: different values of them are counted in place of rows.
    """

    argument: exp.Expr | None
    tau: int
    items: tuple[exp.Expr, ...] = ()


@dataclass(frozen=True)
class Moment:
    """The sum of `value`, or of its square (`power` 2), over rows whose `argument` is true and that have a value.

    At most `tau` rows of a unit in a group count, chosen by a keyed order. `centred`: 2 value - lo - hi takes
    the value's place. `whole`: the clamp is on a unit's sum in a group, not on its rows (tau is 1).
    """

    value: FixedPoint
    argument: exp.Expr | None
    power: Literal[1, 2]
    centred: bool
    tau: int
    whole: bool = False


@dataclass(frozen=True)
class Quantiles:
    """How many rows have a value in each of the bins into which [lo, hi] is cut, for any number of quantiles.

    Rows count as for Moment. `fractions`: which quantiles are wanted, from 0 to 1; None until values are known.
    """

    value: FixedPoint
    argument: exp.Expr | None
    fractions: tuple[Fraction | None, ...]
    tau: int


@dataclass(frozen=True)
class DistinctItems:
    """How many different values of `items` (a row value where there are several) the rows have."""

    items: tuple[exp.Expr, ...]
    argument: exp.Expr | None


@dataclass(frozen=True)
class Running:
    """How many rows there have been up to each time: key number `time` is the time, the other keys are the item.

    `events`: the most rows of a unit that count, chosen by a keyed order; `horizon`: whether the data owner declared
    first and last time, else the query's domain of the time says them.
    """

    time: int
    argument: exp.Expr | None
    events: int
    horizon: bool


Measure = Count | Moment | Quantiles | DistinctItems | Running

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
]


@dataclass(frozen=True)
class Output:
    """A released column: `function` of `measures` (their places in the node), times `factor`.

    `call` is the aggregate in base form: PostgreSQL says its type. The measures are for count, distinct and running
    the count; for sum the first moment, with the count behind it where it is centred, or a count; for avg
    (moment, count), for variances (squares, moment, count); for cont and disc the quantiles, with the
    `fraction` wanted: cont is PostgreSQL's interpolating percentile, disc one of the values. `rows`: a count of rows,
    of which a unit may have more than count.
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
    if isinstance(measure, Quantiles):
        return "quantiles"
    return "distinct items" if isinstance(measure, DistinctItems) else "running counts"


def parts(measure: Measure) -> tuple[exp.Expr, ...]:
    """The base forms that a measure reads.

    >>> parts(Count(None, 1))
    ()
    """
    argument = () if measure.argument is None else (measure.argument,)
    if isinstance(measure, (Moment, Quantiles)):
        return (*argument, measure.value.value)
    if isinstance(measure, (Count, DistinctItems)):
        return (*argument, *measure.items)
    return argument
