"""The presentation: the client's statement over released rows instead of private ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from rewriter.draft import NODE, Draft, NodeDraft
from rewriter.plan import Presentation


@dataclass(frozen=True)
class Column:
    """A released column: `name` and `type` in the front, and the array it travels in (counts are never NULL)."""

    name: str
    type: str
    transport: Literal["int8", "text"] = "text"


Columns = tuple[Column, ...]
"""The released columns of one node, keys before counts."""


def present(draft: Draft, columns: Sequence[Columns], names: Sequence[str] | None) -> Presentation:
    """The statement for the front; `columns` are each node's released columns, `names` the client's output names.

    The edits of the draft are applied to its tree: a draft is presented once.
    """
    for edit in draft.edits:
        edit()
    tree = draft.tree
    if names is not None:
        _name_outputs(tree, names)
    transports: list[Literal["int8", "text"]] = []
    bodies = {}
    for index, own in enumerate(columns):
        start = len(draft.parameters) + len(transports) + 1
        bodies[index] = _rows(own, start)
        transports += [c.transport for c in own]
    constants = tuple(_filled(c.statement(), bodies).sql("postgres") for c in draft.constants)
    return Presentation(_filled(tree, bodies).sql("postgres"), tuple(transports), constants)


def _filled(tree: exp.Query, bodies: Mapping[int, exp.Select]) -> exp.Query:
    """`tree` with the released rows in their places."""
    for table in list(tree.find_all(exp.Table)):
        body = bodies.get(table.meta.get(NODE, -1))
        if body is not None:
            alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name))
            table.replace(exp.Subquery(this=body.copy(), alias=alias.copy()))
    return tree


def node_columns(node: NodeDraft, key_types: Sequence[str]) -> Columns:
    """The released columns of a node: its keys g0.. with their types in the front, its counts c0...

    >>> from rewriter.bounds import Bound
    >>> from rewriter.draft import MeasureDraft
    >>> from rewriter.relation import Relation
    >>> node_columns(NodeDraft(Relation(()), (), (MeasureDraft(None, 1),), Bound(1, False), None, 0, True), [])
    (Column(name='c0', type='bigint', transport='int8'),)
    """
    keys = (Column(f"g{n}", t) for n, t in enumerate(key_types))
    return (*keys, *(Column(f"c{n}", "bigint", "int8") for n in range(len(node.measures))))


def _name_outputs(tree: exp.Expr, names: Sequence[str]) -> None:
    """Give the outermost SELECT list the client's output names, where it lists its outputs one by one."""
    if not isinstance(tree, exp.Select) or len(tree.expressions) != len(names):
        return
    if any(e.find(exp.Star) and not e.find(exp.Count) for e in tree.expressions):
        return
    items = []
    for item, name in zip(tree.expressions, names, strict=True):
        value = item.this if isinstance(item, exp.Alias) else item
        items.append(exp.Alias(this=value, alias=exp.to_identifier(name, quoted=True)))
    tree.set("expressions", items)


def _rows(columns: Columns, start: int) -> exp.Select:
    """SELECT of the arrays $start.. side by side, each column cast to its type."""
    arrays = [
        exp.cast(
            exp.Parameter(this=exp.Literal.number(start + n)),
            "BIGINT[]" if c.transport == "int8" else "TEXT[]",
        )
        for n, c in enumerate(columns)
    ]
    names = [exp.to_identifier(f"x{n}") for n in range(len(columns))]
    alias = exp.TableAlias(this=exp.to_identifier("x"), columns=names)
    rows = exp.Table(this=exp.Anonymous(this="unnest", expressions=arrays), alias=alias)
    values = []
    for number, column in enumerate(columns):
        target = exp.DataType.build(column.type, dialect="postgres", udt=True)
        value = exp.cast(exp.column(f"x{number}", table="x"), target)
        values.append(exp.alias_(value, exp.to_identifier(column.name, quoted=True)))
    return exp.select(*values).from_(rows)
