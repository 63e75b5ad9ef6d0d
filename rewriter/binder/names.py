"""Names: what a column of the analyst's text means, by PostgreSQL's rules, and what an output column is called.

In:  SELECT Country FROM (SELECT country, 2024 - birth_year AS age FROM users) AS u WHERE age > 30
Out: over the source t0, which is users: the field t0.country, under the condition 2024 - t0.birth_year > 30
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from typing import Any

from sqlglot import exp

from rewriter.effort import spend
from rewriter.ir.relation import Field, Relation
from rewriter.ir.trees import cast, copied, folded
from rewriter.refusal import Refusal
from rewriter.scalar.blanks import unpadded
from rewriter.scalar.enum_order import in_declared_order
from rewriter.scalar.functions import check_row_local
from rewriter.scalar.iso8601 import plain_times
from rewriter.syntax.allowlist import CONSTANT, is_constant, position
from rewriter.syntax.desugar import plain


def item_name(item: exp.Expr) -> str:
    """The name of an item of FROM in the scope: its alias, or that of its table.

    >>> item_name(exp.to_table("Users")), item_name(exp.alias_(exp.to_table("Users"), "U", table=True))
    ('users', 'u')
    """
    shown = item.args.get("alias")
    return folded(item.this if shown is None or shown.this is None else shown.this)


def resolve(node: exp.Expr, relation: Relation, outer: Relation | None = None) -> exp.Expr:
    """The base form of a row-local expression; unqualified columns of the text are qualified in place.

    Qualifying the analyst's own tree lets parser agreement check the resolution too. Raises Refusal: PV020
    for expressions that are not row-local, 42703 and 42702 for names.
    """
    check_row_local(node)
    return plainly(_resolved(node, relation, outer), relation, outer)


def plainly(node: exp.Expr, relation: Relation, outer: Relation | None = None) -> exp.Expr:
    """An expression composed of base forms, which is used up, as a base form without alternative spellings."""
    if isinstance(node, exp.Column):
        return node
    plain_texts = unpadded(plain_times(plain(node), relation), relation, *([] if outer is None else [outer]))
    return in_declared_order(plain_texts, relation, outer)


def _resolved(node: exp.Expr, relation: Relation, outer: Relation | None) -> exp.Expr:
    spend()
    if is_constant(node):
        constant: exp.Expr = node.meta[CONSTANT]
        return copied(constant)
    if isinstance(node, exp.Column):
        return lookup(node, relation, outer)
    if isinstance(node, exp.Paren):
        inner = _part(node.this, relation, outer)
        return (
            inner
            if isinstance(inner, (exp.Column, exp.Literal, exp.Parameter))
            else exp.paren(inner, copy=False)
        )
    parts = {
        key: _part(value, relation, outer)
        if isinstance(value, exp.Expr)
        else [_part(v, relation, outer) if isinstance(v, exp.Expr) else v for v in value]
        if isinstance(value, list)
        else value
        for key, value in node.args.items()
    }
    bare = type(node)(**parts)
    bare.type, bare.comments = node.type, node.comments
    bare._meta = dict(node._meta) if node._meta else None
    return bare


def _part(node: exp.Expr, relation: Relation, outer: Relation | None) -> exp.Expr:
    found = _resolved(node, relation, outer)
    return of_a_column(found) if isinstance(node, exp.Column) else found


def of_a_column(value: exp.Expr) -> exp.Expr:
    """What a column is: a constant of a subquery is a text, not one whose type is that of its surroundings."""
    return cast(value, "TEXT") if isinstance(value, exp.Literal) and value.is_string else value


def lookup(column: exp.Column, relation: Relation, outer: Relation | None = None) -> exp.Expr:
    """The base form of one column name; looks in `outer` for what `relation` does not have."""
    name, table = folded(column.this), folded(column.args.get("table"))
    if column.args.get("db") is not None:
        raise Refusal("0A000", "name columns by table alias, without a schema", position=position(column))
    if not table and name in relation.merged:
        return _placed(relation.merged[name], column)
    found = [
        (alias, field.value)
        for alias, fields in relation.scope
        if not table or alias == table
        for field in fields
        if field.name == name
    ]
    if not found and outer is not None:
        return lookup(column, outer)
    if len(found) > 1:
        raise Refusal("42702", f'column reference "{name}" is ambiguous', position=position(column))
    if not found:
        raise _unknown_column(column, name, table, relation)
    if not table:
        column.set("table", exp.to_identifier(found[0][0], quoted=True))
    return _placed(found[0][1], column)


def _placed(value: exp.Expr, column: exp.Column) -> exp.Expr:
    """A copy of a base form that is where the client's column is, for refusals."""
    copy = copied(value)
    start = column.this.meta_get("start")
    if isinstance(copy, exp.Column) and start is not None:
        copy.meta["start"] = min(start, (column.args.get("table") or column.this).meta_get("start", start))
    return copy


def starred(star: exp.Expr, relation: Relation) -> list[Field]:
    """The fields that * or name.* means; columns that USING joined come once, and first."""
    if isinstance(star, exp.Column):
        return [f for alias, fs in relation.scope if alias == folded(star.args["table"]) for f in fs]
    merged = [Field(n, v) for n, v in relation.merged.items()]
    return merged + [f for f in relation.fields if f.name not in relation.merged]


SYSTEM_COLUMNS = frozenset({"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"})


def _unknown_column(column: exp.Column, name: str, table: str, relation: Relation) -> Refusal:
    if table and all(alias != table for alias, _ in relation.scope):
        return Refusal("42P01", f'missing FROM-clause entry for table "{table}"', position=position(column))
    if name in SYSTEM_COLUMNS or any(alias == name for alias, _ in relation.scope):
        what = "system column" if name in SYSTEM_COLUMNS else "whole row"
        return Refusal(
            "PV010",
            f'{what} "{name}" cannot be used on private rows',
            hint="Name the columns that you need.",
            position=position(column),
        )
    known = sorted(
        {f.name for alias, fields in relation.scope if not table or alias == table for f in fields}
    )
    near = get_close_matches(name, known, n=1)
    return Refusal(
        "42703",
        f'column "{name}" does not exist',
        hint=f'Perhaps you meant "{near[0]}".' if near else f"Columns: {', '.join(known)}.",
        position=position(column),
    )


def output_name(item: exp.Expr) -> str:
    """What PostgreSQL calls an output column.

    >>> output_name(exp.Count(this=exp.Star())), output_name(exp.column("A")), output_name(exp.true().eq(1))
    ('count', 'a', '?column?')
    """
    if isinstance(item, exp.Alias):
        return folded(item.args["alias"])
    if isinstance(item, exp.Column):
        return folded(item.this)
    if isinstance(item, (exp.Paren, exp.Filter, exp.Window, exp.WithinGroup)):
        return output_name(item.this)
    if isinstance(item, exp.VariancePop):
        return "var_pop"
    if isinstance(item, exp.Cast):
        inner = output_name(item.this)
        if inner != "?column?":
            return inner
        return _TYPE_NAMES.get(item.to.this) or item.to.sql("postgres").lower()
    if isinstance(item, exp.Case):
        default = item.args.get("default")
        inner = output_name(default) if default is not None else "case"
        return inner if inner != "?column?" else "case"
    if isinstance(item, exp.Subquery) and isinstance(item.this, exp.Select):
        return output_name(item.this.expressions[0])
    if isinstance(item, (exp.TimestampTrunc, exp.DateTrunc)):
        return "date_trunc"
    if isinstance(item, exp.AtTimeZone):
        return "timezone"
    if isinstance(item, exp.TimeToStr):
        return "to_char"
    if isinstance(item, exp.Anonymous):
        return item.name.lower()
    if isinstance(item, exp.Boolean):
        return "bool"
    if isinstance(item, exp.Func) and not isinstance(item, (exp.And, exp.Or)):
        kind: Any = type(item)
        return _called(kind)
    return "?column?"


@cache
def _called(function: Any) -> str:
    return str(function.sql_name()).lower()


_TYPE_NAMES = {
    exp.DType.INT: "int4",
    exp.DType.BIGINT: "int8",
    exp.DType.SMALLINT: "int2",
    exp.DType.DOUBLE: "float8",
    exp.DType.FLOAT: "float4",
    exp.DType.BOOLEAN: "bool",
    exp.DType.DECIMAL: "numeric",
    exp.DType.TIMESTAMP: "timestamp",
    exp.DType.TIMESTAMPTZ: "timestamptz",
}
