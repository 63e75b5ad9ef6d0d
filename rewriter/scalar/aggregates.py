"""The aggregates and window functions over the rows of one unit: what is known of each, in one row.

What has no row in `AGGREGATES` is refused there (PV018). What the rewriter knows of such a function follows from its
row: where it may stand, what it takes, the type and range of its value, its word in hints and in docs/sql.md, and
what a mechanism releases of it where it stands over the rows of all units.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from sqlglot import exp

from rewriter.ir.measure import Function
from rewriter.ir.types import FLOATS, NUMBERS, Type
from rewriter.scalar.value_interval import End, Interval

MOST = str(2**63 - 1)
CONDITION = frozenset({Type.BOOL})


@dataclass(frozen=True)
class Aggregate:
    """An aggregate or window function over the rows of one unit.

    Attributes:
        node: its type in a tree.
        written: what analysts write.
        result: the type of its value, by that of its argument; None where it is one of the values that it reads.
        takes: the types of its argument; None for any.
        range: between which bounds its value lies, by those of its argument and the most rows that a unit has (None:
            any number); None where nothing is known.
        limits: the values that it has whatever it reads, as texts.
        nullable: it may be NULL.
        grouped: it may aggregate the rows of a group.
        windowed: it may stand over a partition.
        ordered: rows that ORDER BY leaves equal may have different values: the order has to be total.
        total: no value of the types that it takes makes an engine raise as it is written; others are made of sums that
            cannot (rewriter/emit/sources.py).
        released: what a mechanism releases of it over the rows of all units; None where it needs a rule of its own, or
            is not released.
    """

    node: type[exp.Expr]
    written: str
    result: Callable[[Type], Type] | Type | None = None
    takes: frozenset[Type] | None = None
    range: Callable[[Interval, End], Interval] | None = None
    limits: tuple[str, str] | None = None
    nullable: bool = True
    grouped: bool = True
    windowed: bool = False
    ordered: bool = False
    total: bool = False
    released: Function | None = None

    def type_of(self, argument: Type) -> Type:
        """The type of its value.

        >>> AGGREGATES[exp.Sum].type_of(Type.INT4).name, AGGREGATES[exp.Max].type_of(Type.DATE).name
        ('INT8', 'DATE')
        """
        if self.result is None:
            return argument
        return self.result if isinstance(self.result, Type) else self.result(argument)


def argument(call: exp.Expr) -> exp.Expr:
    """The first argument of a call, without DISTINCT and the CASE of a FILTER.

    >>> argument(exp.Sum(this=exp.Distinct(expressions=[exp.column("a")]))).sql()
    'a'
    """
    value: exp.Expr = call.this
    return value.expressions[0] if isinstance(value, exp.Distinct) else value


def _mean(of: Type) -> Type:
    return Type.FLOAT8 if of in FLOATS else Type.NUMERIC


def _sum(of: Type) -> Type:
    return Type.INT8 if of in (Type.INT2, Type.INT4) else _mean(of)


def _between(of: Interval, _: End) -> Interval:
    return replace(of, scale=None)


def _one_of(of: Interval, _: End) -> Interval:
    return of


def _counted(_: Interval, most: End) -> Interval:
    return Interval(Fraction(0), most, 0)


def _numbered(_: Interval, most: End) -> Interval:
    return Interval(Fraction(1), most, 0)


def _summed(of: Interval, most: End) -> Interval:
    # Down to no rows with a value: 0 is among the sums.
    lo = None if of.lo is None else min(of.lo, Fraction(0))
    hi = None if of.hi is None else max(of.hi, Fraction(0))
    return Interval(_times(lo, most), _times(hi, most), of.scale)


def _times(end: End, most: End) -> End:
    if not end:
        return end
    return None if most is None else end * most


A = Aggregate
_ROWS = (
    A(exp.Count, "COUNT", Type.INT8, None, _counted, ("0", MOST), nullable=False, windowed=True, total=True),
    A(exp.Sum, "SUM", _sum, NUMBERS, _summed, windowed=True, released="sum"),
    A(exp.Avg, "AVG", _mean, NUMBERS, _between, windowed=True, released="avg"),
    A(exp.Min, "MIN", None, None, _one_of, windowed=True, total=True),
    A(exp.Max, "MAX", None, None, _one_of, windowed=True, total=True),
    A(exp.LogicalAnd, "bool_and", Type.BOOL, CONDITION, windowed=True, total=True),
    A(exp.LogicalOr, "bool_or", Type.BOOL, CONDITION, windowed=True, total=True),
    A(exp.Variance, "VAR_SAMP", _mean, NUMBERS, released="var_samp"),
    A(exp.VariancePop, "VAR_POP", _mean, NUMBERS, released="var_pop"),
    A(exp.Stddev, "STDDEV", _mean, NUMBERS, released="stddev_samp"),
    A(exp.StddevSamp, "STDDEV_SAMP", _mean, NUMBERS, released="stddev_samp"),
    A(exp.StddevPop, "STDDEV_POP", _mean, NUMBERS, released="stddev_pop"),
    *(
        A(
            node,
            written,
            Type.INT8,
            range=_numbered,
            limits=("1", MOST),
            nullable=False,
            grouped=False,
            windowed=True,
            ordered=node is exp.RowNumber,
            total=True,
        )
        for node, written in (
            (exp.RowNumber, "ROW_NUMBER"),
            (exp.Rank, "RANK"),
            (exp.DenseRank, "DENSE_RANK"),
        )
    ),
    A(
        exp.Ntile,
        "NTILE",
        Type.INT4,
        limits=("1", str(2**31 - 1)),
        grouped=False,
        windowed=True,
        ordered=True,
        total=True,
    ),
    *(
        A(node, written, range=_one_of, grouped=False, windowed=True, ordered=True, total=True)
        for node, written in (
            (exp.Lag, "LAG"),
            (exp.Lead, "LEAD"),
            (exp.FirstValue, "FIRST_VALUE"),
            (exp.LastValue, "LAST_VALUE"),
        )
    ),
)
AGGREGATES = {row.node: row for row in _ROWS}
"""The rows by the type of their node."""


def words(*, windowed: bool) -> tuple[str, ...]:
    """What may be written per unit: aggregates of groups, or with `windowed` what may stand over a partition.

    >>> words(windowed=True)[-3:]
    ('LEAD', 'FIRST_VALUE', 'LAST_VALUE')
    """
    return tuple(row.written for row in _ROWS if (row.windowed if windowed else row.grouped))
