"""The presentation: the client's statement over released rows instead of private ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from sqlglot import exp

from rewriter.cut import Draft, NodeDraft, released
from rewriter.plan import Presentation

INTEGERS = ("smallint", "integer", "bigint")
Columns = Sequence[tuple[str, str]]
"""(name, type) of the released columns of one node, keys before counts."""


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
        kinds: list[Literal["int8", "text"]] = ["int8" if t in INTEGERS else "text" for _, t in own]
        bodies[released(index)] = _rows(own, kinds, start)
        transports += kinds
    for table in list(tree.find_all(exp.Table)):
        body = bodies.get(table.name)
        if body is not None:
            alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name))
            table.replace(exp.Subquery(this=body.copy(), alias=alias.copy()))
    return Presentation(tree.sql("postgres"), tuple(transports))


def node_columns(node: NodeDraft, key_types: Sequence[str]) -> Columns:
    """The released columns of a node: its keys g0.. with their types in the front, its counts c0...

    >>> from rewriter.bounds import Bound
    >>> from rewriter.cut import MeasureDraft
    >>> from rewriter.relation import Relation
    >>> node_columns(NodeDraft(Relation(()), (), (MeasureDraft(None, 1),), Bound(1, False), None, 0, True), [])
    [('c0', 'bigint')]
    """
    keys = [(f"g{n}", t) for n, t in enumerate(key_types)]
    return [*keys, *((f"c{n}", "bigint") for n in range(len(node.measures)))]


def _name_outputs(tree: exp.Expression, names: Sequence[str]) -> None:
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


def _rows(columns: Columns, kinds: Sequence[str], start: int) -> exp.Select:
    """SELECT of the arrays $start.. side by side, each column cast to its type."""
    arrays = [
        exp.cast(exp.Parameter(this=exp.Literal.number(start + n)), "BIGINT[]" if k == "int8" else "TEXT[]")
        for n, k in enumerate(kinds)
    ]
    names = [exp.to_identifier(f"x{n}") for n in range(len(columns))]
    alias = exp.TableAlias(this=exp.to_identifier("x"), columns=names)
    rows = exp.Table(this=exp.Anonymous(this="unnest", expressions=arrays), alias=alias)
    values = [
        exp.alias_(exp.cast(exp.column(f"x{n}", table="x"), exp.DataType.build(t, dialect="postgres", udt=True)), name)
        for n, (name, t) in enumerate(columns)
    ]
    return exp.select(*values).from_(rows)
