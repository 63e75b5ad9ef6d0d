"""The outputs of private subqueries as columns: types, and known bounds of their values."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from rewriter.binder.value_ranges import of_aggregate
from rewriter.ir.relation import Relation, leads_to_unit
from rewriter.ir.types import FLOATS, INTEGERS, NUMBERS, WIDENED, Type, common, type_named
from rewriter.policy import Column
from rewriter.refusal import Refusal
from rewriter.scalar.typecheck import Parameters, type_of
from rewriter.syntax.allowlist import position

MOST = str(2**63 - 1)
RANKS = (exp.RowNumber, exp.Rank, exp.DenseRank)
"""Window functions that count from 1."""

PICKS = (exp.Min, exp.Max, exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue)
"""Functions that give one of the values that they read, or NULL."""


def row_column(name: str, value: exp.Expr, relation: Relation, parameters: Parameters) -> Column:
    """The column that a row-local expression becomes; a bare column keeps its domain.

    >>> row_column("x", exp.Literal.string("view"), Relation(()), ()).domain
    ('view',)
    """
    if isinstance(value, exp.Column):
        source = relation.source(value.table)
        column = source.column(value.name)
        outer = source.on is not None
        event = column.of_unit or leads_to_unit(source, value.name)
        return replace(column, name=name, nullable=column.nullable or outer, hidden=False, of_unit=event)
    constant = value.unnest()
    found = common([type_of(constant, relation, parameters)])
    if isinstance(constant, exp.Literal):
        return Column(name, found.postgres, nullable=False, domain=(constant.this,))
    return Column(name, found.postgres or found.family)


def refuse_intervals(value: exp.Expr, relation: Relation, parameters: Parameters) -> None:
    """Refuse (PV020) to order or group by intervals: a month and 30 days are equal there, and yet two values."""
    if type_of(value, relation, parameters) is Type.INTERVAL:
        raise Refusal(
            "PV020",
            "an interval is not allowed here on private rows",
            hint="Compare timestamps, or take EXTRACT(epoch FROM ...) of the difference.",
            position=position(value),
        )


def computed_column(name: str, call: exp.Expr, relation: Relation, parameters: Parameters) -> Column:
    """The column of an aggregate or window function in base form, with the type that PostgreSQL gives it."""
    column = _computed_column(name, call, relation, parameters)
    found = of_aggregate(call, relation, parameters)
    if (found.lo, found.hi) == (None, None) or type_named(column.type) not in NUMBERS:
        return column
    return replace(column, ends=(found.lo, found.hi), scale=found.scale)


def _computed_column(name: str, call: exp.Expr, relation: Relation, parameters: Parameters) -> Column:
    if isinstance(call, exp.Count):
        return Column(name, "bigint", nullable=False, range=("0", MOST))
    if isinstance(call, RANKS):
        return Column(name, "bigint", nullable=False, range=("1", MOST))
    if isinstance(call, exp.Ntile):
        return Column(name, "integer", range=("1", str(2**31 - 1)))
    if isinstance(call, (exp.LogicalAnd, exp.LogicalOr)):
        return Column(name, "boolean")
    value = argument(call)
    column = row_column(name, value, relation, parameters)
    if isinstance(call, PICKS):
        return replace(column, nullable=True)
    found = type_named(column.type)
    if found in FLOATS:
        return Column(name, "double precision")
    if isinstance(call, exp.Sum) and found in INTEGERS and column.type != "bigint":
        return Column(name, "bigint")
    return Column(name, "numeric")


def argument(call: exp.Expr) -> exp.Expr:
    """The first argument of an aggregate or window function, without DISTINCT and the CASE of a FILTER.

    >>> argument(exp.Sum(this=exp.Distinct(expressions=[exp.column("a")]))).sql()
    'a'
    """
    value: exp.Expr = call.this
    return value.expressions[0] if isinstance(value, exp.Distinct) else value


def common_column(name: str, one: Column, other: Column) -> Column:
    """The column of a set operation: of both sides' type, with the values of both in its domain.

    Raises Refusal 42804 for sides of different types, as PostgreSQL does.
    """
    types = [type_named(one.type), type_named(other.type)]
    unknown = types[0] is types[1] is Type.OTHER and one.type != other.type
    if unknown or not (types[0].family == types[1].family or NUMBERS.issuperset(types)):
        raise Refusal(
            "42804",
            f"the two sides of this set operation have different types: {one.type} and {other.type}",
            hint="Cast one of them, with dates and numbers written as DATE '2024-01-31' and 5.",
        )
    of = one.type
    if one.type != other.type and NUMBERS.issuperset(types):
        of = max(types, key=WIDENED.index).postgres
    nullable = one.nullable or other.nullable
    if one.domain is not None and other.domain is not None:
        return Column(name, of, nullable, domain=tuple(dict.fromkeys((*one.domain, *other.domain))))
    if replace(one, name="", nullable=True) == replace(other, name="", nullable=True):
        return replace(one, name=name, nullable=nullable)
    return Column(name, of, nullable)
