"""Views of the backend: their stored text, and the rows of one as a source.

In:  SELECT id FROM stays, where the backend has  CREATE VIEW stays AS SELECT p.id, s.days FROM patients p JOIN ...
Out: the relation of SELECT p.id, s.days FROM ..., as if the analyst had written it in parentheses

The rows are one source with the view's columns: what analysts see of a statement names the view, never its text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from rewriter.binder.contribution_bounds import one_row_per_unit
from rewriter.binder.names import output_name
from rewriter.binder.output_columns import row_column
from rewriter.binder.rejections import refuse_limited
from rewriter.binder.subquery_source import derived_source
from rewriter.ir.relation import UNIT, Field, Relation, RowSubquery, is_inner_unit, is_unit, leaf
from rewriter.ir.trees import walk
from rewriter.policy import Column, Table, TableName, labels
from rewriter.refusal import Refusal
from rewriter.scalar.typecheck import ORDERING, Parameters
from rewriter.syntax.parse import parse_query

Find = Callable[[tuple[str, ...]], TableName | None]
"""The table or view of the policy that the backend means by the parts of a name, or None."""


def stored_text(written: str, dialect: str, find: Find) -> str:
    """A view's stored text as a query in PostgreSQL's words whose tables are named as analysts see them.

    `written`: the query, or the CREATE VIEW, in the backend's dialect. Raises Refusal for a text that is not
    understood or that reads what is not in the policy.

    >>> stored_text("CREATE VIEW main.v(x) AS SELECT a FROM main.t", "duckdb", lambda parts: ("public", parts[-1]))
    'SELECT "a" AS "x" FROM "public"."t" AS "t"'
    """
    try:
        tree = sqlglot.parse_one(written, read=dialect)
    except SqlglotError:
        raise Refusal("0A000", "its text could not be read") from None
    query = tree.expression if isinstance(tree, exp.Create) else tree
    if not isinstance(query, exp.Query):
        raise Refusal("0A000", "its text could not be read")
    if isinstance(tree, exp.Create) and isinstance(tree.this, exp.Schema):
        query = _renamed(query, [name.name for name in tree.this.expressions])
    for cast in reversed(walk(query, exp.Cast)):
        if _says_text(cast):
            cast.replace(cast.this.unnest())
    for call in walk(query, exp.Anonymous):
        if call.name.lower() == "count_star":
            # DuckDB's own word for it.
            call.replace(exp.Count(this=exp.Star()))
    _name_tables(query, find)
    # Both engines write the names of their catalogs: PostgreSQL's are folded, DuckDB's have the letters of the owner.
    return query.sql("postgres", identify=True, comments=False)


def ordered_columns(text: str) -> frozenset[str]:
    """The names of columns in comparisons that depend on the order of values, in a view's text.

    >>> sorted(ordered_columns("SELECT a FROM t WHERE a > 'x' AND b BETWEEN 1 AND c AND d = 2"))
    ['a', 'b', 'c']
    """
    tree = parse_query(text)
    return frozenset(column.name for part in walk(tree, *ORDERING) for column in walk(part, exp.Column))


_TEXTS = frozenset({exp.DType.USERDEFINED, *exp.DataType.TEXT_TYPES})


def _says_text(cast: exp.Cast) -> bool:
    """Whether constants are cast to texts or to values of enumerated types: they are of the type that they are compared
    with anyhow."""
    value, of = cast.this.unnest(), cast.to
    if isinstance(value, exp.Array) and of.this == exp.DType.ARRAY and of.expressions:
        return of.expressions[0].this in _TEXTS and all(element.is_string for element in value.expressions)
    return bool(value.is_string and of.this in _TEXTS and not of.expressions)


def _renamed(query: exp.Query, names: list[str]) -> exp.Query:
    columns = query.expressions if isinstance(query, exp.Select) else []
    if len(columns) < len(names) or any(column.is_star for column in columns):
        raise Refusal("0A000", "its columns are named apart from its query")
    shown = [exp.alias_(c.unalias(), n, quoted=True) for c, n in zip(columns, names, strict=False)]
    query.set("expressions", [*shown, *columns[len(names) :]])
    return query


def _name_tables(query: exp.Query, find: Find) -> None:
    ctes = {cte.alias for cte in walk(query, exp.CTE)}
    for table in walk(query, exp.Table):
        if not isinstance(table.this, exp.Identifier):
            continue
        parts = tuple(part.name for part in table.parts)
        if len(parts) == 1 and parts[0] in ctes:
            continue
        found = find(parts)
        if found is None:
            raise Refusal("0A000", f'it reads "{".".join(parts)}", which is no table of the file')
        named = exp.table_(found[1], db=found[0], quoted=True)
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(parts[-1], quoted=True)))
        table.set("this", named.this)
        table.set("db", named.args["db"])
        table.set("catalog", None)


def view_query(view: Table) -> exp.Query:
    """The query of a view, without the columns that it does not show; it has no places in the client's text."""
    tree = parse_query(view.view or "")
    if walk(tree, exp.Parameter, exp.Placeholder):
        raise Refusal("0A000", "its text has parameters")
    for node in walk(tree):
        node.meta.pop("start", None)
        node.meta.pop("end", None)
    if isinstance(tree, exp.Select) and tree.args.get("distinct") is None:
        shown = [e for e in tree.expressions if e.is_star or view.column(output_name(e)) is not None]
        tree.set("expressions", shown)
    return tree


def _enumerated(column: Column, view: Table) -> Column:
    """A column of a view, whose enumerated type its text may not tell: `stored_text` has constants without types."""
    of = next(c.type for c in view.columns if c.name == column.name)
    return column if labels(of) is None else replace(column, type=of)


def view_rows(relation: Relation, view: Table, alias: str, parameters: Parameters) -> Relation:
    """The rows of a view's query as one source, with those of its columns that the view shows; PV014 for a LIMIT."""
    refuse_limited(relation)
    fields = [field for field in relation.fields if view.column(field.name) is not None]
    own = [f for f in fields if not is_inner_unit(f.value, relation)]
    columns = [_enumerated(row_column(f.name, f.value, relation, parameters), view) for f in own]
    source = derived_source(
        alias,
        RowSubquery(relation, tuple(own)),
        columns,
        relation,
        single=one_row_per_unit(relation),
        copies=frozenset(f.name for f in own if is_unit(f.value, relation)),
    )
    shown = (Field(f.name, leaf(alias, UNIT if is_inner_unit(f.value, relation) else f.name)) for f in fields)
    return Relation((replace(source, view=view),), scope=((view.name, tuple(shown)),))
