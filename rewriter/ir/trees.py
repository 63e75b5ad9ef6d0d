"""Trees of SQL: built without a parse of each name and a copy of each argument, walked without a generator a node.

A tree that is written once needs neither. An argument becomes a part of what is built; who uses it twice copies it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeVar, overload

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

from rewriter.policy import front_name

Node = TypeVar("Node", bound=exp.Expr)
_PLAIN = Dialect()


def select(*columns: exp.Expr | str, source: exp.Expr | str | None = None) -> exp.Select:
    """SELECT columns FROM source; a text names a column or a table, "*" all columns.

    >>> select("*", alias(exp.Count(this=exp.Star()), "n"), source="rows").sql()
    'SELECT *, COUNT(*) AS n FROM rows'
    """
    shown = [_named(c) if isinstance(c, str) else c for c in columns]
    if source is None:
        return _node(exp.Select, {"expressions": shown})
    item = exp.table_(source) if isinstance(source, str) else source
    return _node(exp.Select, {"expressions": shown, "from_": _node(exp.From, {"this": item})})


def table_named(parts: Sequence[str], name: str = "") -> exp.Table:
    """The table called `parts`, as `name` if that is given.

    >>> table_named(("app", "users"), "s").sql()
    '"app"."users" AS s'
    """
    names = [_identifier(p, True) for p in reversed(parts)]
    arguments: dict[str, Any] = dict(zip(("this", "db", "catalog"), names, strict=False))
    if name:
        arguments["alias"] = _node(exp.TableAlias, {"this": exp.to_identifier(name)})
    return _node(exp.Table, arguments)


def join(
    query: exp.Select, item: exp.Expr | str, on: exp.Expr | None = None, *, kind: str = "", side: str = ""
) -> exp.Select:
    """The query with JOIN item ON on behind its sources.

    >>> join(select("*", source="a"), "b", exp.true(), side="LEFT").sql()
    'SELECT * FROM a LEFT JOIN b ON TRUE'
    """
    table = exp.table_(item) if isinstance(item, str) else item
    arguments = {"this": table, "on": on, "kind": kind or None, "side": side or None}
    query.append("joins", _node(exp.Join, arguments))
    return query


def crossed(query: exp.Select, item: exp.Expr) -> exp.Select:
    """The query with every row of item beside each of its rows: FROM item, or CROSS JOIN item.

    >>> crossed(crossed(select("*"), exp.to_table("a")), exp.to_table("b")).sql()
    'SELECT * FROM a CROSS JOIN b'
    """
    if query.args.get("from_") is not None:
        return join(query, item, kind="CROSS")
    query.set("from_", _node(exp.From, {"this": item}))
    return query


def limited(query: exp.Select, most: int) -> exp.Select:
    """The query with LIMIT most.

    >>> limited(select("*", source="a"), 2).sql()
    'SELECT * FROM a LIMIT 2'
    """
    query.set("limit", exp.Limit(expression=exp.Literal.number(most)))
    return query


def grouped(query: exp.Select, *keys: exp.Expr) -> exp.Select:
    """The query with GROUP BY keys, if there are any.

    >>> grouped(select("a", source="b"), exp.column("a")).sql()
    'SELECT a FROM b GROUP BY a'
    """
    if keys:
        query.set("group", exp.Group(expressions=list(keys)))
    return query


def case(*branches: tuple[exp.Expr, exp.Expr], otherwise: exp.Expr | None = None) -> exp.Case:
    """CASE WHEN condition THEN value ... ELSE otherwise END.

    >>> case((exp.column("a"), exp.column("b")), otherwise=exp.column("c")).sql()
    'CASE WHEN a THEN b ELSE c END'
    """
    ifs = [_node(exp.If, {"this": c, "true": v}) for c, v in branches]
    return _node(exp.Case, {"ifs": ifs, "default": otherwise})


def alias(value: exp.Expr, name: str, *, quoted: bool | None = None) -> exp.Expr:
    """value AS name.

    >>> alias(exp.column("a"), "b", quoted=True).sql()
    'a AS "b"'
    """
    if "alias" in value.arg_types:
        return exp.alias_(value, name, quoted=quoted, copy=False)
    named = exp.to_identifier(name) if quoted is None else _identifier(name, quoted)
    return _node(exp.Alias, {"this": value, "alias": named})


def cast(value: exp.Expr, to: str | exp.DataType) -> exp.Expr:
    """CAST(value AS to), or the value where it is a cast to the same type.

    >>> cast(cast(exp.column("a"), "DECIMAL(38, 0)"), "DECIMAL(38, 0)").sql()
    'CAST(a AS DECIMAL(38, 0))'
    """
    target = copied(_type(to)) if isinstance(to, str) else to
    if isinstance(value, exp.Cast):
        return exp.cast(value, target, copy=False)
    made = _node(exp.Cast, {"this": value, "to": target})
    made.type = target
    return made


def folded(identifier: exp.Expr | None) -> str:
    """An identifier as PostgreSQL folds it: ASCII letters in lower case unless it is quoted.

    >>> folded(exp.to_identifier("Users")), folded(exp.to_identifier("Users", quoted=True))
    ('users', 'Users')
    """
    if identifier is None:
        return ""
    name = identifier.args["this"] if identifier.__class__ is exp.Identifier else identifier.name
    if identifier.args.get("quoted"):
        return name
    return name.lower() if name.isascii() else "".join(c.lower() if c.isascii() else c for c in name)


def func(name: str, *arguments: exp.Expr) -> exp.Expr:
    """name(arguments).

    >>> func("NULLIF", exp.column("a"), exp.Literal.number(0)).sql()
    'NULLIF(a, 0)'
    """
    return exp.func(name, *arguments, copy=False, dialect=_PLAIN)


def coalesce(value: exp.Expr, otherwise: exp.Expr) -> exp.Expr:
    """COALESCE(value, otherwise).

    >>> coalesce(exp.column("a"), exp.Literal.number(0)).sql()
    'COALESCE(a, 0)'
    """
    return _node(exp.Coalesce, {"this": value, "expressions": [otherwise]})


def paren(value: exp.Expr) -> exp.Paren:
    """(value).

    >>> paren(exp.column("a")).sql()
    '(a)'
    """
    return _node(exp.Paren, {"this": value})


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


def _named(name: str) -> exp.Expr:
    return exp.Star() if name == "*" else column(name)


def kinds(*types: type[exp.Expr]) -> frozenset[type[exp.Expr]]:
    """These types of nodes and all that derive from them: `type(node) in` many is found faster than isinstance does.

    >>> exp.EQ in kinds(exp.Predicate), exp.Add in kinds(exp.Predicate)
    (True, False)
    """
    found = list(types)
    for one in found:
        found += one.__subclasses__()
    return frozenset(found)


Stop = Callable[[exp.Expr], bool]


@overload
def walk(root: exp.Expr, *, stop: Stop | None = None) -> list[exp.Expr]: ...


@overload
def walk(root: exp.Expr, *types: type[Node], stop: Stop | None = None) -> list[Node]: ...


def walk(root: exp.Expr, *types: type[exp.Expr], stop: Stop | None = None) -> Sequence[exp.Expr]:
    """The nodes of a tree of these types, from the top: first the root, then its parts, then theirs, but nothing that
    is inside of a node of which `stop` is true.

    >>> [n.sql() for n in walk(exp.column("a", "t").eq(exp.null()), exp.Column, exp.Null)]
    ['t.a', 'NULL']
    """
    nodes = [root]
    for node in nodes:
        if node.is_primitive or (stop is not None and stop(node)):
            continue
        for value in node.args.values():
            if isinstance(value, exp.Expr):
                nodes.append(value)
            elif type(value) is list:
                nodes += [part for part in value if isinstance(part, exp.Expr)]
    return [node for node in nodes if isinstance(node, types)] if types else nodes


def copied(node: Node, part: Callable[[exp.Expr], exp.Expr | None] | None = None) -> Node:
    """A copy of a tree, with what `part` gives for a node, if anything, in that node's place.

    >>> copied(exp.column("a").eq(exp.null()), lambda n: exp.true() if isinstance(n, exp.Null) else None).sql()
    'a = TRUE'
    """
    made = part(node) if part is not None else None
    if made is None:
        # Not by its constructor, in which some functions would convert their unit once more, and which takes as long.
        made = object.__new__(type(node))
        made.parent = made.arg_key = made.index = made._hash = None
        made.comments, made._type = node.comments, node._type
        made._meta = dict(node._meta) if node._meta else None
        made.args = arguments = dict(node.args)
        if node.is_primitive:
            return made
        for key, value in arguments.items():
            if isinstance(value, exp.Expr):
                arguments[key] = own = copied(value, part)
                own.parent, own.arg_key = made, key
            elif type(value) is list:
                arguments[key] = value = [copied(v, part) if isinstance(v, exp.Expr) else v for v in value]
                made._set_parent(key, value)
    return made  # type: ignore[return-value]


def column(name: str, table: str = "", *, quoted: bool = False) -> exp.Column:
    """table.name.

    >>> column("a", "t").sql(), column("a", "t", quoted=True).sql()
    ('t.a', '"t"."a"')
    """
    # Most nodes that are built: in half of the time of their constructors.
    this = _identifier(name, quoted)
    arguments = {"this": this}
    if table:
        arguments["table"] = of = _identifier(table, quoted)
        of.arg_key = "table"
    made = _made(exp.Column, arguments)
    this.arg_key = "this"
    for part in arguments.values():
        part.parent = made
    return made


def _identifier(name: str, quoted: bool) -> exp.Identifier:
    return _made(exp.Identifier, {"this": name, "quoted": quoted})


def _made(kind: type[Node], arguments: dict[str, Any]) -> Node:
    """A node with these arguments, whose parent is not set in them."""
    made = object.__new__(kind)
    made.args = arguments
    made.parent = made.arg_key = made.index = made.comments = made._type = made._meta = made._hash = None
    return made


def _node(kind: type[Node], arguments: dict[str, Any]) -> Node:
    """A node with these arguments as its parts, which are taken as they are: some constructors would convert them."""
    made = _made(kind, arguments)
    for key, value in arguments.items():
        if isinstance(value, exp.Expr):
            value.parent, value.arg_key, value.index = made, key, None
        elif value.__class__ is list:
            made._set_parent(key, value)
    return made


def rebuilt(node: exp.Expr, part: Callable[[exp.Expr], exp.Expr], without: Sequence[str] = ()) -> exp.Expr:
    """A node like `node` whose parts are what `part` gives for its parts, those called `without` left out.

    >>> rebuilt(exp.column("a").eq(exp.Literal.number(1)), lambda p: paren(p.copy())).sql()
    '(a) = (1)'
    """
    arguments = {
        key: part(value)
        if isinstance(value, exp.Expr)
        else [part(v) if isinstance(v, exp.Expr) else v for v in value]
        if isinstance(value, list)
        else value
        for key, value in node.args.items()
        if key not in without
    }
    made = _node(type(node), arguments)
    made._meta = dict(node._meta) if node._meta else None
    return made


def data_type(text: str, dialect: str = "") -> exp.DataType:
    """A type by its name in a dialect.

    >>> data_type("bigint", "postgres").sql()
    'BIGINT'
    """
    return copied(_type(text, dialect))


@lru_cache(1000)
def _type(text: str, dialect: str = "") -> exp.DataType:
    return exp.DataType.build(front_name(text), dialect=dialect or None, udt=True)
