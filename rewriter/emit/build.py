"""Builders of the backend's SQL: what sqlglot's own build, without a parse of each name and a copy of each argument.

A tree that is written once needs neither. An argument becomes a part of what is built; who uses it twice copies it.
"""

from __future__ import annotations

from functools import cache

from sqlglot import exp


def select(*columns: exp.Expr | str, source: exp.Expr | str | None = None) -> exp.Select:
    """SELECT columns FROM source; a text names a column or a table, "*" all columns.

    >>> select("*", alias(exp.Count(this=exp.Star()), "n"), source="rows").sql()
    'SELECT *, COUNT(*) AS n FROM rows'
    """
    shown = [_named(c) if isinstance(c, str) else c for c in columns]
    built = exp.Select(expressions=shown)
    if source is None:
        return built
    return built.from_(exp.table_(source) if isinstance(source, str) else source, copy=False)


def join(
    query: exp.Select, item: exp.Expr | str, on: exp.Expr | None = None, *, kind: str = "", side: str = ""
) -> exp.Select:
    """The query with JOIN item ON on behind its sources.

    >>> join(select("*", source="a"), "b", exp.true(), side="LEFT").sql()
    'SELECT * FROM a LEFT JOIN b ON TRUE'
    """
    table = exp.table_(item) if isinstance(item, str) else item
    query.append("joins", exp.Join(this=table, on=on, kind=kind or None, side=side or None))
    return query


def with_(query: exp.Select, name: str, body: exp.Query) -> exp.Select:
    """The query with WITH name AS (body) before it.

    >>> with_(select("*", source="a"), "a", select("b", source="c")).sql()
    'WITH a AS (SELECT b FROM c) SELECT * FROM a'
    """
    return query.with_(exp.TableAlias(this=exp.to_identifier(name)), as_=body, copy=False)


def case(*branches: tuple[exp.Expr, exp.Expr], otherwise: exp.Expr | None = None) -> exp.Case:
    """CASE WHEN condition THEN value ... ELSE otherwise END.

    >>> case((exp.column("a"), exp.column("b")), otherwise=exp.column("c")).sql()
    'CASE WHEN a THEN b ELSE c END'
    """
    return exp.Case(ifs=[exp.If(this=c, true=v) for c, v in branches], default=otherwise)


def alias(value: exp.Expr, name: str, *, quoted: bool | None = None) -> exp.Expr:
    """value AS name.

    >>> alias(exp.column("a"), "b", quoted=True).sql()
    'a AS "b"'
    """
    return exp.alias_(value, name, quoted=quoted, copy=False)


def cast(value: exp.Expr, to: str | exp.DataType) -> exp.Expr:
    """CAST(value AS to), or the value where it is a cast to the same type.

    >>> cast(cast(exp.column("a"), "DECIMAL(38, 0)"), "DECIMAL(38, 0)").sql()
    'CAST(a AS DECIMAL(38, 0))'
    """
    return exp.cast(value, _type(to).copy() if isinstance(to, str) else to, copy=False)


def func(name: str, *arguments: exp.Expr) -> exp.Expr:
    """name(arguments).

    >>> func("COALESCE", exp.column("a"), exp.Literal.number(0)).sql()
    'COALESCE(a, 0)'
    """
    return exp.func(name, *arguments, copy=False)


def paren(value: exp.Expr) -> exp.Paren:
    """(value).

    >>> paren(exp.column("a")).sql()
    '(a)'
    """
    return exp.Paren(this=value)


def and_(*conditions: exp.Expr) -> exp.Condition:
    """All of the conditions.

    >>> and_(exp.column("a"), exp.column("b")).sql()
    'a AND b'
    """
    return exp.and_(*conditions, copy=False)


def or_(*conditions: exp.Expr) -> exp.Condition:
    """One of the conditions.

    >>> or_(exp.column("a"), exp.column("b")).sql()
    'a OR b'
    """
    return exp.or_(*conditions, copy=False)


def not_(condition: exp.Expr) -> exp.Not:
    """NOT condition.

    >>> not_(or_(exp.column("a"), exp.column("b"))).sql()
    'NOT (a OR b)'
    """
    return exp.not_(condition, copy=False)


def _named(column: str) -> exp.Expr:
    return exp.Star() if column == "*" else exp.column(column)


@cache
def _type(text: str) -> exp.DataType:
    return exp.DataType.build(text)
