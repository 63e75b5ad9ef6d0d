"""UNION, INTERSECT and EXCEPT of private rows: each branch brings its own unit, and only rows of one unit meet."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from rewriter.binder.composite_units import unit_among
from rewriter.binder.contribution_bounds import one_row_per_unit
from rewriter.binder.output_columns import common_column, row_column
from rewriter.binder.rejections import base_table, mixes, refuse_limited, refuse_two_kinds
from rewriter.binder.subquery_source import derived_source
from rewriter.ir.relation import (
    UNIT,
    Field,
    Relation,
    RowSubquery,
    SetOperation,
    is_inner_unit,
    is_unit,
    leaf,
)
from rewriter.ir.texts import sql_text
from rewriter.ir.types import Type
from rewriter.policy import Column
from rewriter.refusal import Refusal
from rewriter.scalar.typecheck import Parameters, check_order, type_of
from rewriter.syntax.allowlist import position

NAMES = {exp.Union: "UNION", exp.Intersect: "INTERSECT", exp.Except: "EXCEPT"}


def combined(
    left: Relation, right: Relation, node: exp.SetOperation, alias: str, parameters: Parameters
) -> Relation:
    """The set operation of two private relations.

    UNION ALL adds up m, g and b of both sides. The other operations compare rows with each other and need the unit in
    the column list, at the same place on both sides; then only rows of one unit can be equal. Raises Refusal PV014
    where it is not there, PV013 for two kinds of units, 42601 and 42804 for columns that do not match.
    """
    name = NAMES[type(node)]
    for side in (left, right):
        refuse_limited(side)
    refuse_two_kinds(left, right, node)
    pairs = list(zip(left.fields, right.fields, strict=False))
    if len(left.fields) != len(right.fields):
        raise Refusal(
            "42601", f"each {name} query must have the same number of columns", position=position(node)
        )
    distinct = bool(node.args.get("distinct", True))
    units = {
        n
        for n, (one, other) in enumerate(pairs)
        if is_inner_unit(one.value, left) and is_inner_unit(other.value, right)
    }
    mixed = [
        n
        for n, (one, other) in enumerate(pairs)
        if n not in units and (is_unit(one.value, left) or is_unit(other.value, right))
    ]
    named = bool(units) or _named_by_parts(left, right)
    if mixed or ((distinct or not isinstance(node, exp.Union)) and not named):
        unit = base_table(left).privacy_unit
        hint = f"Select {unit} at the same place on both sides, as a plain column."
        raise mixes(f"{name} without the privacy unit at the same place on both sides", left, node, hint)
    columns, ours, theirs, shown = [], [], [], []
    for number, (one, other) in enumerate(pairs):
        if number in units:
            shown.append(Field(one.name, leaf(alias, UNIT)))
            continue
        if distinct or not isinstance(node, exp.Union):
            for side, field in ((left, one), (right, other)):
                check_order([field.value], side, parameters, node)
        label = f"x{number}"
        columns.append(_column(label, one, other, left, right, parameters))
        ours.append(Field(label, one.value))
        theirs.append(Field(label, other.value))
        shown.append(Field(one.name, leaf(alias, label)))
    source = derived_source(
        alias,
        SetOperation(type(node), distinct, RowSubquery(left, tuple(ours)), RowSubquery(right, tuple(theirs))),
        columns,
        left,
        single=_single(node, distinct and not columns, left, right),
        key=[c.name for c in columns] if distinct else None,
    )
    limit = node.args.get("limit") or node.args.get("offset")
    return Relation((source,), scope=(("", tuple(shown)),), limit=limit)


def _named_by_parts(left: Relation, right: Relation) -> bool:
    """Whether both sides have all parts of their unit at the same places."""
    places = []
    for side in (left, right):
        unit = unit_among([f.value for f in side.fields], side)
        if unit is None:
            return False
        values = [sql_text(f.value) for f in side.fields]
        parts = side.source(unit.table).table.unit_parts
        places.append([values.index(sql_text(leaf(unit.table, part))) for part in parts])
    return places[0] == places[1]


def _single(node: exp.Expr, only_unit: bool, left: Relation, right: Relation) -> bool:
    if isinstance(node, exp.Union):
        return only_unit
    either = isinstance(node, exp.Intersect) and one_row_per_unit(right)
    return only_unit or either or one_row_per_unit(left)


def _column(
    name: str, one: Field, other: Field, left: Relation, right: Relation, parameters: Parameters
) -> Column:
    ours = row_column(name, one.value, left, parameters)
    theirs = row_column(name, other.value, right, parameters)
    for value, known in ((one.value, theirs), (other.value, ours)):
        if isinstance(value.unnest(), exp.Null):
            return replace(known, nullable=True)
    untyped = [
        v for v, r in ((one.value, left), (other.value, right)) if type_of(v, r, parameters) is Type.LITERAL
    ]
    if len(untyped) == 1 and {ours.type, theirs.type} != {"text"}:
        raise Refusal(
            "PV020",
            "a text beside values of another type is not allowed in a set operation on private rows",
            hint="Write its type: DATE '2024-01-31', CAST('x' AS varchar).",
            position=position(untyped[0]),
        )
    return common_column(name, ours, theirs)
