"""A SELECT that aggregates private rows becomes a DP node, and its expressions read the released columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sqlglot import exp

from rewriter.aggregate import count_measure, limit_of
from rewriter.bounds import Bound, groups_per_unit
from rewriter.draft import Edit, NodeDraft, released, released_rows, replace_later
from rewriter.expression import Parameters
from rewriter.grammar import position
from rewriter.grouping import refuse_unit_keys
from rewriter.measure import Count, Output
from rewriter.refusal import Refusal
from rewriter.refused import not_grouped
from rewriter.relation import Relation
from rewriter.resolve import folded, output_name, resolve


def dp_node(
    tree: exp.Select,
    relation: Relation,
    keys: tuple[exp.Expr, ...],
    index: int,
    parameters: Parameters,
    nested: Callable[[exp.Expr], None],
) -> tuple[NodeDraft, list[Edit]]:
    """Node `index` for an aggregating SELECT, and the edits that let the SELECT read the node's released rows.

    `nested` analyses a query nested in its expressions. Raises Refusal for what no mechanism answers.
    """
    refuse_unit_keys(tree, relation, keys)
    bound = groups_per_unit(relation, keys)
    writer = _Released(relation, keys, bound, index, parameters, nested)
    for number, item in enumerate(tree.expressions):
        if isinstance(item, exp.Star):
            raise Refusal("42803", "SELECT * cannot be grouped: name the grouping columns", position=1)
        if not isinstance(item, exp.Alias):
            writer.edits.append(_alias_later(tree, number, output_name(item)))
        writer.rewrite(item.unalias())
    having = tree.args.get("having")
    if having is not None:
        writer.rewrite(having.this)
    shown = bool(writer.measures)
    _rewrite_order(tree, writer)
    for part in ("limit", "offset"):
        if tree.args.get(part) is not None:
            nested(tree.args[part])
    if not writer.measures:
        raise Refusal(
            "PV018",
            "GROUP BY without an aggregate (partition selection) is not available yet",
            hint="Add COUNT(DISTINCT <unit>), and ORDER BY it DESC LIMIT k where the values are unknown.",
            position=position(tree),
        )
    ordering = _ordering_measure(tree, writer)
    k = limit_of(tree, parameters) if ordering is not None else None
    counted = tuple(writer.measures.values())
    outputs = tuple(Output("count", (n,), exp.Count(this=exp.Star())) for n in range(len(counted)))
    node = NodeDraft(relation, keys, counted, outputs, bound, k, ordering, shown)
    return node, [*writer.edits, lambda: _above(tree, index)]


@dataclass
class _Released:
    """Rewrites the expressions of a node's SELECT over its released columns."""

    relation: Relation
    keys: tuple[exp.Expr, ...]
    bound: Bound
    index: int
    parameters: Parameters
    nested: Callable[[exp.Expr], None]
    edits: list[Edit] = field(default_factory=list)
    measures: dict[str, Count] = field(default_factory=dict)
    places: dict[int, int] = field(default_factory=dict)

    def rewrite(self, node: exp.Expr) -> None:
        if isinstance(node, exp.Query):
            self.nested(node)
            return
        key = self._key(node)
        if key is not None:
            self._replace(node, f"g{key}")
            return
        if isinstance(node, exp.Window):
            function = node.this.this if isinstance(node.this, exp.Filter) else node.this
            others = [v for k, v in node.args.items() if k != "this" and isinstance(v, exp.Expr)]
            listed = node.args.get("partition_by") or []
            condition = [node.this.expression] if isinstance(node.this, exp.Filter) else []
            for part in [*function.iter_expressions(), *others, *listed, *condition]:
                self.rewrite(part)
            return
        if isinstance(node, (exp.AggFunc, exp.Filter, exp.WithinGroup)):
            self._aggregate(node)
            return
        if isinstance(node, exp.Column):
            raise not_grouped(node)
        for part in node.iter_expressions():
            self.rewrite(part)

    def _key(self, node: exp.Expr) -> int | None:
        if node.find(exp.AggFunc, exp.Window, exp.Query) or (
            not node.find(exp.Column) and not self._constant(node)
        ):
            return None
        try:
            text = resolve(node.copy(), self.relation).sql()
        except Refusal:
            return None
        found = next((n for n, k in enumerate(self.keys) if k.sql() == text), None)
        if found is not None:
            resolve(node, self.relation)
        return found

    def _constant(self, node: exp.Expr) -> bool:
        return any(k.sql() == node.sql() for k in self.keys)

    def _aggregate(self, node: exp.Expr) -> None:
        measure = count_measure(node, self.relation, self.bound, self.parameters)
        name = f"{measure[1]}:{measure[0].sql() if measure[0] is not None else '*'}"
        self.measures.setdefault(name, Count(*measure))
        place = list(self.measures).index(name)
        self.places[id(node)] = place
        self._replace(node, f"c{place}")

    def _replace(self, node: exp.Expr, name: str) -> None:
        column = exp.column(name, table=released(self.index))
        self.edits.append(replace_later(node, column))


def _rewrite_order(tree: exp.Select, writer: _Released) -> None:
    """ORDER BY items: ordinals and output names stay, expressions read the released columns."""
    order = tree.args.get("order")
    names = {output_name(e) for e in tree.expressions}
    for item in order.expressions if order is not None else []:
        target = item.this
        named = isinstance(target, exp.Column) and not target.table and folded(target.this) in names
        if not named and not isinstance(target, exp.Literal):
            writer.rewrite(target)


def _ordering_measure(tree: exp.Select, writer: _Released) -> int | None:
    """The measure that ORDER BY puts first, descending, or None."""
    order = tree.args.get("order")
    if order is None or not order.expressions[0].args.get("desc"):
        return None
    target = order.expressions[0].this
    if (
        isinstance(target, exp.Literal)
        and target.this.isdigit()
        and 1 <= int(target.this) <= len(tree.expressions)
    ):
        target = tree.expressions[int(target.this) - 1].unalias()
    elif isinstance(target, exp.Column) and not target.table:
        name = folded(target.this)
        target = next((e.unalias() for e in tree.expressions if output_name(e) == name), target)
    return writer.places.get(id(target))


def _alias_later(tree: exp.Select, number: int, name: str) -> Edit:
    def edit() -> None:
        items = list(tree.expressions)
        items[number] = exp.Alias(this=items[number], alias=exp.to_identifier(name, quoted=True))
        tree.set("expressions", items)

    return edit


def _above(tree: exp.Select, index: int) -> None:
    """Put the released rows in the place of FROM, WHERE and GROUP BY; HAVING becomes WHERE."""
    having = tree.args.get("having")
    tree.set("from_", exp.From(this=released_rows(index)))
    for part in ("joins", "group", "having", "where"):
        tree.set(part, None)
    if having is not None:
        tree.set("where", exp.Where(this=having.this))
