"""Simplifies spellings of tools: columns without their tables' schemas, parameters without their types."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from rewriter.binder.names import output_name
from rewriter.ir.parameter import Parameter as Parameter
from rewriter.ir.parameter import Parameters
from rewriter.ir.trees import alias, data_type, folded, walk


def drop_schemas(nodes: Sequence[exp.Expr]) -> None:
    """Take from the columns among a query's nodes the schemas of tables that a FROM around them names alike.

    A column that could belong to another table of that name keeps its schema, and is refused later.

    >>> from sqlglot import parse_one
    >>> def dropped(sql):
    ...     drop_schemas(walk(tree := parse_one(sql, dialect="postgres")))
    ...     return tree.sql("postgres")
    >>> dropped("SELECT app.users.age FROM app.users")
    'SELECT users.age FROM app.users'
    >>> dropped("SELECT app.users.age FROM app.users AS u")
    'SELECT app.users.age FROM app.users AS u'
    """
    for column in nodes:
        if not isinstance(column, exp.Column) or column.args.get("db") is None:
            continue
        if column.args.get("catalog") is None and _named(column):
            column.set("db", None)


def _named(column: exp.Column) -> bool:
    """Whether the innermost FROM that has the table's name has it once, without an alias, in that schema."""
    schema, name = folded(column.args["db"]), folded(column.args["table"])
    select = column.find_ancestor(exp.Select)
    while select is not None:
        sources = [source for source in _sources(select) if source[1] == name]
        if sources:
            return sources == [(schema, name)]
        select = select.find_ancestor(exp.Select)
    return False


def _sources(select: exp.Expr) -> list[tuple[str, str]]:
    """(schema, name) of what a FROM names; an alias, or a name without a schema, has the schema ""."""
    clauses = [select.args.get("from_"), *(select.args.get("joins") or ())]
    found = [clause.this for clause in clauses if clause is not None]
    joined = [join.this for source in found for join in source.args.get("joins") or ()]
    return [_source(source) for source in (*found, *joined)]


def _source(source: exp.Expr) -> tuple[str, str]:
    if isinstance(source, exp.Table) and not source.alias:
        return folded(source.args.get("db")), folded(source.this)
    return "", folded(source.args["alias"].this) if source.alias else ""


def drop_casts(tree: exp.Query, parameters: Parameters) -> exp.Query:
    """The same query, without casts of parameters to the types that they have anyway; an output keeps their name.

    >>> from sqlglot import parse_one
    >>> query = parse_one('SELECT $1::interval WHERE $1::interval > $2::date', dialect="postgres")
    >>> drop_casts(query, (Parameter("interval", None), Parameter("text", None))).sql("postgres")
    'SELECT $1 AS "interval" WHERE $1 > CAST($2 AS DATE)'
    """
    for cast in walk(tree, exp.Cast):
        if isinstance(cast.this, exp.Parameter):
            own = data_type(parameters[int(cast.this.name) - 1].type, "postgres")
            if own == cast.to:
                shown = isinstance(cast.parent, exp.Select) and cast.arg_key == "expressions"
                name = output_name(cast) if shown else ""
                cast.replace(alias(cast.this, name, quoted=True) if shown else cast.this)
    return tree
