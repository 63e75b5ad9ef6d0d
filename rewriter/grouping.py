"""GROUP BY: what its items mean, which of them are the privacy unit, and which cannot be keys."""

from __future__ import annotations

from sqlglot import exp

from rewriter.expression import Parameters, check
from rewriter.grammar import position
from rewriter.refusal import Refusal
from rewriter.refused import unit_groups
from rewriter.relation import Relation, is_unit, leaf, leaves
from rewriter.resolve import folded, resolve


def aggregates(part: object) -> bool:
    """Whether an aggregate of this very query stands in `part`; windows and nested queries have their own."""
    if isinstance(part, list):
        return any(aggregates(p) for p in part)
    if not isinstance(part, exp.Expr) or isinstance(part, exp.Query):
        return False
    if isinstance(part, (exp.AggFunc, exp.WithinGroup)):
        return True
    if isinstance(part, exp.Window):
        function = part.this.this if isinstance(part.this, exp.Filter) else part.this
        return any(aggregates(p) for p in function.iter_expressions())
    return any(aggregates(p) for p in part.iter_expressions())


def group_keys(tree: exp.Select, relation: Relation, parameters: Parameters) -> tuple[exp.Expr, ...]:
    """The keys of GROUP BY in base form, each once; empty without GROUP BY."""
    group = tree.args.get("group")
    keys: dict[str, exp.Expr] = {}
    for item in group.expressions if group is not None else []:
        chosen = _group_item(item, tree, relation)
        if aggregates(chosen):
            raise Refusal("42803", "aggregate functions are not allowed in GROUP BY", position=position(item))
        value = resolve(chosen, relation)
        check(value, relation, parameters)
        keys.setdefault(value.sql(), value)
    return tuple(keys.values())


def _group_item(item: exp.Expr, tree: exp.Select, relation: Relation) -> exp.Expr:
    """What a GROUP BY item means: an output's ordinal, an input column, else an output's alias."""
    if isinstance(item, exp.Literal) and not item.is_string:
        number = int(item.this) if item.this.isdigit() else 0
        if not 1 <= number <= len(tree.expressions):
            raise Refusal(
                "42P10", f"GROUP BY position {item.this} is not in select list", position=position(item)
            )
        chosen: exp.Expr = tree.expressions[number - 1].unalias()
        return chosen
    if isinstance(item, (exp.Rollup, exp.Cube, exp.GroupingSets)):
        raise Refusal(
            "PV018",
            "grouping sets are not available yet",
            hint="Ask one query a set.",
            position=position(item),
        )
    if isinstance(item, exp.Column) and not item.table:
        name = folded(item.this)
        if name not in relation.merged and not any(f.name == name for _, fs in relation.scope for f in fs):
            for output in tree.expressions:
                if isinstance(output, exp.Alias) and folded(output.args["alias"]) == name:
                    value: exp.Expr = output.this
                    return value
    return item


def refuse_unit_keys(tree: exp.Select, relation: Relation, keys: tuple[exp.Expr, ...]) -> None:
    """Refuse keys that single out units (PV011) or rows (PV010)."""
    for key in keys:
        columns = leaves(key)
        if not columns:
            continue
        if all(is_unit(leaf(a, c), relation) for a, c in columns) and not isinstance(
            key, (exp.Predicate, exp.Case)
        ):
            raise unit_groups(relation.source(next(iter(columns))[0]).table, tree)
        for alias in {a for a, _ in columns}:
            source = relation.source(alias)
            own = frozenset(c for a, c in columns if a == alias)
            declared = (*source.table.keys, *source.table.declared_keys)
            if source.private and isinstance(key, exp.Column) and own in declared:
                raise Refusal(
                    "PV010",
                    f'every group of "{source.table.name}.{key.name}" is one row',
                    hint="Group by a column that many rows share.",
                    position=position(tree.args["group"]),
                )
