"""Source aliases of a node by their order, so that its text does not depend on where in a statement it stood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from rewriter.canonical.normalize import canonical, text_of
from rewriter.canonical.order import in_order
from rewriter.ir.measure import Count, DistinctItems, Joint, Measure, Moment, Quantiles, Running, Total, parts
from rewriter.ir.relation import (
    Derived,
    Field,
    FullJoin,
    Grouped,
    ListedRows,
    Relation,
    RowSubquery,
    SemiJoin,
    SetOperation,
    Source,
    ZeroFill,
    leaf,
    leaf_of,
    leaves,
)
from rewriter.ir.trees import copied
from rewriter.logical.plan import AggregateNode

_KINDS = (Moment, Count, Quantiles, DistinctItems, Running, Total, Joint)


def numbered(node: AggregateNode) -> AggregateNode:
    """`node` with its sources called t0, t1, ... in their order, derived sources before the sources inside them."""
    names = _Names()
    used = [*node.keys, *(p for m in node.measures for p in parts(m))]
    renamed = replace(
        node,
        relation=_relation(node.relation, names, used),
        keys=tuple(names.renamed(k) for k in node.keys),
        measures=tuple(_measure(m, names) for m in node.measures),
        outputs=tuple(replace(o, call=names.renamed(o.call)) for o in node.outputs),
    )
    return _with_measures_in_order(renamed)


def apart(node: AggregateNode, aliases: frozenset[str]) -> tuple[AggregateNode, frozenset[str]]:
    """`node` with some inner sources or those of LEFT JOINs behind the others, whose names are as if there were no
    others; and what the former are called then."""
    names, relation = _Names(), node.relation
    others = replace(
        relation,
        sources=tuple(s for s in relation.sources if s.alias not in aliases),
        conditions=tuple(c for c in relation.conditions if not aliases & {a for a, _ in leaves(c)}),
    )
    used = [*node.keys, *(p for m in node.measures for p in parts(m))]
    alone = _relation(others, names, used)
    last = tuple(_source(s, names) for s in relation.sources if s.alias in aliases)
    whole = replace(
        alone,
        sources=(*alone.sources, *last),
        conditions=tuple(map(names.renamed, relation.conditions)),
    )
    renamed = replace(
        node,
        relation=whole,
        keys=tuple(map(names.renamed, node.keys)),
        measures=tuple(_measure(m, names) for m in node.measures),
    )
    return renamed, frozenset(s.alias for s in last)


def _with_measures_in_order(node: AggregateNode) -> AggregateNode:
    """`node` with its measures in the order of their texts; its outputs stay where they are."""
    if len(node.measures) < 2:
        return node
    order = sorted(range(len(node.measures)), key=lambda place: _measure_text(node.measures[place]))
    new = {old: place for place, old in enumerate(order)}
    return replace(
        node,
        measures=tuple(node.measures[old] for old in order),
        outputs=tuple(replace(o, measures=tuple(new[m] for m in o.measures)) for o in node.outputs),
        order_by=None if node.order_by is None else new[node.order_by],
    )


def _measure_text(measure: Measure) -> str:
    asked = [text_of(canonical(p)) for p in parts(measure)]
    numbers = {k: v for k, v in vars(measure).items() if k not in ("argument", "value", "items")}
    kind = _KINDS.index(type(measure))
    return repr((kind, asked, sorted(numbers.items(), key=lambda item: item[0])))


def _measure(measure: Measure, names: _Names) -> Measure:
    if measure.argument is not None:
        measure = replace(measure, argument=names.renamed(measure.argument))
    if isinstance(measure, (Moment, Total, Joint, Quantiles)) and measure.value is not None:
        return replace(measure, value=replace(measure.value, value=names.renamed(measure.value.value)))
    if isinstance(measure, (Count, Total, DistinctItems)):
        return replace(measure, items=tuple(map(names.renamed, measure.items)))
    return measure


class _Names(dict[str, str]):
    def __missing__(self, alias: str) -> str:
        self[alias] = f"t{len(self)}"
        return self[alias]

    def renamed(self, value: exp.Expr) -> exp.Expr:
        return copied(value, self._leaf)

    def _leaf(self, node: exp.Expr) -> exp.Column | None:
        if not isinstance(node, exp.Column):
            return None
        alias, name = leaf_of(node)
        return leaf(self[alias], name)

    def fields(self, fields: tuple[Field, ...]) -> tuple[Field, ...]:
        return tuple(Field(f.name, self.renamed(f.value)) for f in fields)


def _relation(relation: Relation, names: _Names, used: Sequence[exp.Expr] = ()) -> Relation:
    """The relation in order and renamed, without its scope: no name of a client's is looked up in it any more."""
    relation = in_order(relation, used)
    sources = tuple(_source(s, names) for s in relation.sources)
    filled = relation.filled
    if filled is not None:
        kept = frozenset(names[a] for a in sorted(filled.kept))
        filled = ZeroFill(kept, tuple(map(names.renamed, filled.on)))
    return replace(
        relation,
        sources=sources,
        conditions=tuple(map(names.renamed, relation.conditions)),
        semi_joins=tuple(_semi_join(j, names) for j in relation.semi_joins),
        scope=(),
        merged={},
        filled=filled,
    )


def _semi_join(join: SemiJoin, names: _Names) -> SemiJoin:
    return replace(
        join,
        value=None if join.value is None else names.renamed(join.value),
        relation=_relation(join.relation, names),
        output=None if join.output is None else names.renamed(join.output),
        across=tuple(map(names.renamed, join.across)),
    )


def _source(source: Source, names: _Names) -> Source:
    alias, derived = names[source.alias], source.derived
    on = None if source.on is None else tuple(map(names.renamed, source.on))
    return replace(source, alias=alias, derived=None if derived is None else _derived(derived, names), on=on)


def _derived(derived: Derived, names: _Names) -> Derived:
    if isinstance(derived, Grouped):
        relation = _relation(derived.relation, names)
        return Grouped(relation, names.fields(derived.keys), names.fields(derived.aggregates))
    if isinstance(derived, RowSubquery):
        return _rows(derived, names)
    if isinstance(derived, SetOperation):
        return replace(derived, left=_rows(derived.left, names), right=_rows(derived.right, names))
    if isinstance(derived, ListedRows):
        return derived
    left, right = _source(derived.left, names), _source(derived.right, names)
    return FullJoin(left, right, tuple(map(names.renamed, derived.on)), names.fields(derived.fields))


def _rows(rows: RowSubquery, names: _Names) -> RowSubquery:
    relation = _relation(rows.relation, names)
    return RowSubquery(relation, names.fields(rows.fields), names.fields(rows.windows))
