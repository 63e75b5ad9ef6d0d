"""Which operators of SQL stand in which: read from a statement's text, whoever wrote it.

A query is its clauses in the order in which they apply, the last one outermost: ORDER BY and LIMIT, DISTINCT, windows,
HAVING, aggregates, WHERE, joins from the last to the first, and what is in FROM.

>>> pairs("SELECT COUNT(*) FROM a JOIN (SELECT DISTINCT x FROM b) s ON CAST(s.x AS int) = 1 LIMIT 3") == {
...     ("statement", "limit"), ("limit", "aggregate"), ("aggregate", "count"), ("aggregate", "inner join"),
...     ("inner join", "cast"), ("inner join", "derived table"), ("derived table", "distinct")}
True
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator

from sqlglot import exp, parse_one

Pair = tuple[str, str]
STATEMENT = "statement"
_EXPRESSIONS: tuple[tuple[type[exp.Expr], str], ...] = (
    (exp.Case, "case"),
    (exp.Cast, "cast"),
    (exp.Coalesce, "coalesce"),
    (exp.Nullif, "nullif"),
    (exp.Greatest, "greatest, least"),
    (exp.Least, "greatest, least"),
    (exp.Extract, "extract"),
    (exp.Between, "between"),
    (exp.Like, "like"),
    (exp.ILike, "like"),
    (exp.Is, "is null"),
    (exp.NullSafeEQ, "is distinct from"),
    (exp.NullSafeNEQ, "is distinct from"),
    (exp.Not, "not"),
    (exp.Or, "or"),
)
"""What an expression is called, of those that are operators here."""


def pairs(sql: str) -> set[Pair]:
    """The pairs of an outer operator and the operator that stands directly in it."""
    return set(_query(parse_one(sql, read="postgres"), STATEMENT))


def _query(query: exp.Expr, outer: str) -> Iterator[Pair]:
    for cte in query.ctes if isinstance(query, exp.Query) else ():
        yield outer, "cte"
        yield from _query(cte.this, "cte")
    if isinstance(query, exp.Subquery):
        yield from _query(query.this, outer)
    elif isinstance(query, exp.SetOperation):
        name = query.key + ("" if query.args.get("distinct") else " all")
        yield outer, name
        yield from _query(query.this, name)
        yield from _query(query.expression, name)
    elif isinstance(query, exp.Select):
        yield from _select(query, outer)
    elif isinstance(query, exp.Values):
        yield outer, "values"


def _select(select: exp.Select, outer: str) -> Iterator[Pair]:
    shown = select.expressions
    for name, expressions in _clauses(select):
        if name:
            yield outer, name
            outer = name
        yield from _expressions(expressions, outer)
    yield from _expressions((one for one in shown if not _holds(one, exp.Window)), outer)
    if where := select.args.get("where"):
        yield from _expressions([where.this], "where")
    for join in reversed(select.args.get("joins") or ()):
        outer = yield from _join(join, outer)
    if source := select.args.get("from_"):
        yield from _source(source.this, outer)


def _clauses(select: exp.Select) -> Iterator[tuple[str, list[exp.Expr]]]:
    """The clauses around a query's aggregates that it has, each with its expressions."""
    distinct, group = select.args.get("distinct"), select.args.get("group")
    if select.args.get("limit") or select.args.get("offset"):
        yield "limit", []
    if distinct:
        on = distinct.args.get("on")
        yield "distinct on" if on else "distinct", list(on.expressions) if on else []
    windows = [one for one in select.expressions if _holds(one, exp.Window)]
    if windows:
        yield "window", [found.this for one in windows for found in one.find_all(exp.Window)]
    if having := select.args.get("having"):
        yield "having", [having.this]
    if group:
        sets = [s for kind in ("rollup", "cube", "grouping_sets") for s in group.args.get(kind) or ()]
        yield "grouping sets" if sets else "group by", list(group.expressions)
    elif any(_holds(one, exp.AggFunc) and not _holds(one, exp.Window) for one in select.expressions):
        yield "aggregate", []


def _holds(expression: exp.Expr, kind: type[exp.Expr]) -> bool:
    """Whether an operator is in an expression, not counting the queries in it."""
    return any(
        isinstance(node, kind)
        for node in expression.walk(prune=lambda n: isinstance(n, (exp.Query, exp.Subquery)))
    )


def _join(join: exp.Join, outer: str) -> Generator[Pair, None, str]:
    side, kind = join.side.lower(), join.kind.lower()
    lateral = isinstance(join.this, exp.Lateral)
    on = join.args.get("on")
    if lateral:
        name = "lateral"
    elif join.method:
        name = "natural join"
    elif side:
        name = f"{side} join"
    else:
        name = (
            "cross join" if kind == "cross" or (on is None and not join.args.get("using")) else "inner join"
        )
    yield outer, name
    if on is not None:
        yield from _expressions([on], name)
    yield from _source(join.this, name)
    return name


def _source(source: exp.Expr, outer: str) -> Iterator[Pair]:
    for join in reversed(source.args.get("joins") or ()):
        outer = yield from _join(join, outer)
    if isinstance(source, exp.Lateral):
        yield from _query(source.this, outer)
    elif isinstance(source, exp.Subquery) and isinstance(source.this, (exp.Query, exp.Values)):
        yield outer, "derived table"
        yield from _query(source.this, "derived table")
    elif isinstance(source, (exp.Subquery, exp.Paren)):
        yield from _source(source.this, outer)
    elif isinstance(source, exp.Values):
        yield outer, "values"
    elif isinstance(source, exp.Table) and isinstance(source.this, exp.Func):
        yield outer, "function in from"


def _expressions(expressions: Iterable[exp.Expr], outer: str) -> Iterator[Pair]:
    for expression in expressions:
        yield from _expression(expression, outer)


def _expression(node: exp.Expr, outer: str) -> Iterator[Pair]:
    name = _named(node)
    if name:
        yield outer, name
        outer = name
    if isinstance(node, (exp.Query, exp.Subquery)):
        if not name and isinstance(node, exp.Subquery):
            yield outer, "scalar subquery"
            outer = "scalar subquery"
        yield from _query(node, outer)
        return
    for child in node.iter_expressions():
        if isinstance(node, (exp.In, exp.Exists, exp.Any, exp.All)) and isinstance(
            child, (exp.Query, exp.Subquery)
        ):
            yield from _query(child, outer)
        else:
            yield from _expression(child, outer)


def _named(node: exp.Expr) -> str:
    if isinstance(node, exp.In):
        return "in subquery" if node.args.get("query") else "in list"
    if isinstance(node, exp.Exists):
        return "exists"
    if isinstance(node, (exp.Any, exp.All)):
        return f"{node.key} subquery" if node.find(exp.Query) else f"{node.key} array"
    if isinstance(node, exp.Filter):
        return "filter"
    if isinstance(node, exp.WithinGroup):
        return "within group"
    if isinstance(node, exp.AggFunc):
        distinct = isinstance(node.this, exp.Distinct)
        return f"{node.key} distinct" if distinct else node.key
    return next((name for kind, name in _EXPRESSIONS if isinstance(node, kind)), "")
