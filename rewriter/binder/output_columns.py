"""The outputs of private subqueries as columns: types, and known bounds of their values."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from rewriter.binder.value_ranges import of_aggregate
from rewriter.ir.relation import Relation, leads_to_unit
from rewriter.ir.types import NUMBERS, WIDENED, Type, common, padded, type_named
from rewriter.policy import Column, labels
from rewriter.refusal import Refusal
from rewriter.scalar.aggregates import AGGREGATES, argument
from rewriter.scalar.typecheck import Parameters, Types, type_of
from rewriter.syntax.allowlist import position


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
    return Column(name, Types(relation, parameters).enum(constant) or found.postgres or found.family)


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
    known = AGGREGATES[type(call)]
    if known.result is None:
        column = replace(row_column(name, argument(call), relation, parameters), nullable=True)
    else:
        of = type_of(call, relation, parameters)
        column = Column(name, of.postgres, known.nullable, range=known.limits)
    found = of_aggregate(call, relation, parameters)
    if (found.lo, found.hi) == (None, None) or type_named(column.type) not in NUMBERS:
        return column
    return replace(column, ends=(found.lo, found.hi), scale=found.scale)


def common_column(name: str, one: Column, other: Column) -> Column:
    """The column of a set operation: of both sides' type, with the values of both in its domain.

    Raises Refusal 42804 for sides of different types, as PostgreSQL does.
    """
    types = [type_named(one.type), type_named(other.type)]
    unknown = {*types} <= {Type.OTHER, Type.BRIEF} and one.type != other.type
    blanks = one.type != other.type and (padded(one.type) or padded(other.type))
    if unknown or blanks or not (types[0].family == types[1].family or NUMBERS.issuperset(types)):
        raise Refusal(
            "42804",
            f"the two sides of this set operation have different types: {one.type} and {other.type}",
            hint="Cast them to one type, with dates and numbers written as DATE '2024-01-31' and 5.",
        )
    # A constant beside enumerated values is one of them.
    of = other.type if labels(one.type) is None and labels(other.type) is not None else one.type
    if one.type != other.type and NUMBERS.issuperset(types):
        of = max(types, key=WIDENED.index).postgres
    nullable = one.nullable or other.nullable
    if one.domain is not None and other.domain is not None:
        return Column(name, of, nullable, domain=tuple(dict.fromkeys((*one.domain, *other.domain))))
    if replace(one, name="", nullable=True) == replace(other, name="", nullable=True):
        return replace(one, name=name, nullable=nullable)
    return Column(name, of, nullable)
