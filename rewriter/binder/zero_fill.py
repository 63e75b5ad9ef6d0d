"""Public LEFT JOIN private directly under a DP node: the inner join, with a cell for every public row.

Rows that LEFT JOIN keeps without a partner belong to no unit. They change nothing where the groups are public columns
and every aggregate ignores rows whose private columns are NULL: then the counts are those of the inner join.

Why: docs/decisions/zero-fill-is-an-inner-join.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from rewriter.binder.names import resolve
from rewriter.binder.rejections import visible_unit
from rewriter.ir.relation import Relation, Source, leaves, shown_name
from rewriter.refusal import Refusal
from rewriter.scalar.functions import strict_operands
from rewriter.syntax.allowlist import position
from rewriter.syntax.pasted import identifier, instead, written

_TESTS = (exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ)
"""Tests for NULL, where NULL is what is compared with: true where a value is NULL, or negated."""


def refuse_kept(relation: Relation, at: exp.Expr) -> None:
    """Refuse (PV021) a query over rows that may belong to no unit."""
    if relation.filled is not None:
        raise _kept(relation, at, "Use INNER JOIN here.")


def check_zero_fill(tree: exp.Select, relation: Relation, keys: tuple[exp.Expr, ...]) -> None:
    """Refuse (PV021) an aggregating SELECT over `relation` whose answer the rows without a partner would change."""
    if relation.filled is None:
        return
    public = _public_name(relation)
    if not all(a in relation.filled.kept for a, _ in leaves(*keys)):
        raise _kept(relation, tree.args["group"], f'Group by columns of "{public}" alone, or use INNER JOIN.')
    for part in ("expressions", "having", "order"):
        for call in _calls(tree.args.get(part)):
            if not _ignores(call, relation):
                raise _kept(relation, call, _counted(call, relation))


def _counted(call: exp.Expr, relation: Relation) -> str:
    """What ignores the rows without a partner in the place of a call that does not."""
    private = next(s for s in relation.sources if s.private)
    column = _key(private)
    if column is None or not isinstance(call, exp.Count):
        return "Use INNER JOIN."
    counted = f"COUNT({identifier(shown_name(private, relation))}.{identifier(column)})"
    return f"Count what the private table has, {instead(counted, written(call))}, or use INNER JOIN."


def _key(source: Source) -> str | None:
    """A column of a private source that is never NULL, for a hint; None for a subquery."""
    table = source.table
    single = [next(iter(k)) for k in (*table.keys, *table.declared_keys) if len(k) == 1]
    known = (c.name for c in table.columns if c.name in single and not c.hidden)
    return next(known, visible_unit(table)) if source.derived is None else None


def _calls(part: object) -> Iterator[exp.Expr]:
    """The aggregates of this very query in a part of it."""
    if isinstance(part, list):
        for one in part:
            yield from _calls(one)
    elif isinstance(part, exp.Expr) and not isinstance(part, exp.Query):
        if isinstance(part, exp.Window):
            function = part.this.this if isinstance(part.this, exp.Filter) else part.this
            others = [v for k, v in part.args.items() if k != "this"]
            yield from _calls([*function.iter_expressions(), *others])
        elif isinstance(part, (exp.AggFunc, exp.Filter, exp.WithinGroup)):
            yield part
        else:
            yield from _calls(list(part.iter_expressions()))


def _ignores(call: exp.Expr, relation: Relation) -> bool:
    """Whether an aggregate is the same without the rows whose private columns are NULL."""
    if isinstance(call, exp.Filter):
        return _untrue(resolve(call.expression.this.copy(), relation), relation) or _ignores(
            call.this, relation
        )
    if isinstance(call, exp.WithinGroup):
        ordered = call.expression.expressions
        return all(_null(resolve(o.this.copy(), relation), relation) for o in ordered)
    inner = call.this
    if not isinstance(inner, exp.Expr):
        return False
    values = inner.expressions if isinstance(inner, exp.Distinct) else [inner]
    if not values or any(isinstance(v, exp.Star) for v in values):
        return False
    summed = isinstance(call, exp.Sum)
    return any(_null(resolve(v.copy(), relation), relation, zero=summed) for v in values)


def _null(value: exp.Expr, relation: Relation, zero: bool = False) -> bool:
    """Whether a base form is NULL (or 0, with `zero`) where all private columns are."""
    if isinstance(value, exp.Null):
        return True
    if zero and isinstance(value, exp.Literal):
        return not value.is_string and not value.this.strip("0.")
    if isinstance(value, exp.Column):
        return relation.source(value.table).private
    if isinstance(value, exp.Case) and value.this is None:
        default = value.args.get("default")
        branches = [(i.this, i.args["true"]) for i in value.args["ifs"]]
        untrue = all(_untrue(c, relation) or _null(v, relation, zero) for c, v in branches)
        return untrue and (default is None or _null(default, relation, zero))
    if isinstance(value, (exp.And, exp.Or)):
        return _null(value.this, relation) and _null(value.expression, relation)
    if isinstance(value, exp.Paren):
        return _null(value.this, relation, zero)
    return any(_null(part, relation) for part in strict_operands(value))


def _untrue(condition: exp.Expr, relation: Relation) -> bool:
    """Whether a condition is not true where all private columns are NULL."""
    condition = condition.unnest()
    if isinstance(condition, exp.And):
        return _untrue(condition.this, relation) or _untrue(condition.expression, relation)
    if isinstance(condition, exp.Or):
        return _untrue(condition.this, relation) and _untrue(condition.expression, relation)
    negated = isinstance(condition, exp.Not)
    test = condition.this.unnest() if negated else condition
    if isinstance(test, _TESTS) and isinstance(test.expression, exp.Null) and _null(test.this, relation):
        return negated != (bool(test.args.get("negate")) or isinstance(test, exp.NullSafeNEQ))
    return _null(condition, relation)


def _public_name(relation: Relation) -> str:
    kept = relation.filled.kept if relation.filled is not None else frozenset()
    return next((s.table.name for s in relation.sources if s.alias in kept), "the public table")


def _kept(relation: Relation, at: exp.Expr, hint: str) -> Refusal:
    return Refusal(
        "PV021",
        f'LEFT JOIN keeps rows of public table "{_public_name(relation)}" that belong to no unit',
        detail="Such rows may only add groups, with aggregates that ignore them.",
        hint=hint,
        position=position(at),
    )
