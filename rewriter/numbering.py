"""Source aliases of a node by order of appearance, so that its text does not tell where in a statement it stood."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from rewriter.draft import NodeDraft
from rewriter.measure import Count, DistinctItems, Measure, Moment, Quantiles
from rewriter.relation import Field, Relation, Source, leaf


def numbered(node: NodeDraft) -> NodeDraft:
    """`node` with its sources called t0, t1, ... in their order, derived ones before what they are made of."""
    names = _Names()
    return replace(
        node,
        relation=_relation(node.relation, names),
        keys=tuple(names.renamed(k) for k in node.keys),
        measures=tuple(_measure(m, names) for m in node.measures),
        outputs=tuple(replace(o, call=names.renamed(o.call)) for o in node.outputs),
    )


def _measure(measure: Measure, names: _Names) -> Measure:
    if measure.argument is not None:
        measure = replace(measure, argument=names.renamed(measure.argument))
    if isinstance(measure, (Moment, Quantiles)):
        return replace(measure, value=replace(measure.value, value=names.renamed(measure.value.value)))
    if isinstance(measure, (Count, DistinctItems)):
        return replace(measure, items=tuple(map(names.renamed, measure.items)))
    return measure


class _Names(dict[str, str]):
    def __missing__(self, alias: str) -> str:
        self[alias] = f"t{len(self)}"
        return self[alias]

    def renamed(self, value: exp.Expr) -> exp.Expr:
        return value.copy().transform(
            lambda n: leaf(self[n.table], n.name) if isinstance(n, exp.Column) else n, copy=False
        )

    def field(self, field: Field) -> Field:
        return Field(field.name, self.renamed(field.value))


def _relation(relation: Relation, names: _Names) -> Relation:
    """The relation renamed, without its scope: no name of a client's is looked up in it any more."""
    return replace(
        relation,
        sources=tuple(_source(s, names) for s in relation.sources),
        conditions=tuple(names.renamed(c) for c in relation.conditions),
        semi_joins=tuple(
            replace(
                j,
                value=names.renamed(j.value),
                relation=_relation(j.relation, names),
                output=names.renamed(j.output),
            )
            for j in relation.semi_joins
        ),
        scope=(),
        merged={},
    )


def _source(source: Source, names: _Names) -> Source:
    alias, derived = names[source.alias], source.derived
    if derived is not None:
        derived = replace(
            derived,
            relation=_relation(derived.relation, names),
            keys=tuple(map(names.field, derived.keys)),
            aggregates=tuple(map(names.field, derived.aggregates)),
            having=None if derived.having is None else names.renamed(derived.having),
        )
    on = None if source.on is None else tuple(names.renamed(c) for c in source.on)
    return replace(source, alias=alias, derived=derived, on=on)
