"""Our reading of a text written as text again, once for each spelling that the parser does not distinguish.

PostgreSQL keeps `x NOT IN (1)` and `NOT x IN (1)`, or substring's two forms, apart; sqlglot reads each pair as one
tree. If any spelling of the tree is what the client wrote, the tree is what the client meant.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from sqlglot import exp

from rewriter.ir.texts import sql_text
from rewriter.ir.trees import copied, walk
from rewriter.syntax.named_windows import NAMED, name_windows
from rewriter.syntax.postgres_dialect import CALLED, UNKNOWN, WRITTEN

NEGATED = (exp.In, exp.Between, exp.Is, exp.SimilarTo, exp.Escape)
_VARYING = (exp.Not, exp.Substring, exp.Interval, exp.Window, exp.WindowSpec)
_ONE_WAY = frozenset(
    {
        *(exp.Select, exp.From, exp.Where, exp.Group, exp.Having, exp.Order, exp.Ordered),
        *(exp.Limit, exp.Join, exp.Table, exp.TableAlias, exp.Subquery, exp.Alias, exp.Column),
        *(exp.Identifier, exp.Star, exp.Paren, exp.Literal, exp.Boolean, exp.Parameter, exp.Cast),
        *(exp.DataType, exp.Distinct, exp.Filter, exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max),
        *(exp.Coalesce, exp.Case, exp.If, exp.Extract, exp.Var, exp.And, exp.Or, exp.EQ, exp.NEQ),
        *(exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Add, exp.Sub, exp.Mul, exp.Like),
        *(exp.In, exp.Between, exp.Exists, exp.Lower, exp.Upper, exp.Neg),
    }
)
"""What has one spelling, and is not changed by being written: most statements are of these alone."""


def spellings(tree: exp.Expr) -> Iterator[str]:
    """The tree as PostgreSQL text in each spelling that its constructs have, the usual one first.

    >>> from sqlglot import parse_one
    >>> list(spellings(parse_one("SELECT a NOT IN (1)", dialect="postgres")))
    ['SELECT a NOT IN (1)', 'SELECT NOT a IN (1)']
    """
    nodes = walk(tree)
    if _ONE_WAY.issuperset(map(type, nodes)):
        yield sql_text(tree, "postgres")
        return
    found = [node for node in nodes if isinstance(node, _VARYING)]
    negated = [n.this for n in found if isinstance(n, exp.Not)]
    inward = (True, False) if any(isinstance(n, NEGATED) for n in negated) else (False,)
    commas = (False, True) if any(isinstance(n, exp.Substring) for n in found) else (False,)
    fields = (False, True) if any(isinstance(n, exp.Interval) for n in found) else (False,)
    frames = (False, True) if any(isinstance(n, exp.WindowSpec) and _to_here(n) for n in found) else (False,)
    signs = (False, True) if any(type(n) in _ABSENT for n in negated) else (False,)
    around = (False, True) if any(isinstance(n, exp.Window) and NAMED in n.meta for n in found) else (False,)
    for *choices, enclosed in product(inward, commas, fields, frames, signs, around):
        yield sql_text(_respelt(_said(tree, enclosed=enclosed), *choices), "postgres")


_NAMES = frozenset(
    {
        "now",
        "mod",
        "strpos",
        "substr",
        "btrim",
        "ltrim",
        "rtrim",
        "pow",
        "power",
        "ceiling",
        "variance",
        "char_length",
        "character_length",
        "starts_with",
        "regexp_like",
        "every",
    }
)
"""Functions that PostgreSQL keeps apart from another spelling, which the parser does not."""
_OPERATORS: dict[type[exp.Expr], str] = {exp.Pow: "^", exp.StartsWith: "^@"}
"""What was written as an operator where it was not called."""
_ABSENT: dict[type[exp.Expr], str] = {exp.RegexpLike: "!~", exp.RegexpILike: "!~*"}


def _said(tree: exp.Expr, *, enclosed: bool) -> exp.Expr:
    """The tree with functions by the names that they were called by, operators where nothing was called, and named
    windows, `enclosed` as in OVER (w)."""
    copy = copied(tree)
    nodes = walk(copy)
    if any(type(node) is exp.Window for node in nodes):
        name_windows(copy, enclosed=enclosed)
        nodes = walk(copy)
    for node in reversed([n for n in nodes if not n.is_primitive]):
        meta = node._meta or {}
        name = str(meta.get(CALLED, "")).lower()
        if name in _NAMES:
            node.replace(exp.Anonymous(this=name, expressions=_arguments(node)))
        elif type(node) in _OPERATORS and not name:
            node.replace(_operator(node, _OPERATORS[type(node)]))
        elif meta.get(WRITTEN) is not None:
            node.replace(_as_written(node))
        elif meta.get(UNKNOWN) is not None:
            node.replace(exp.var("UNKNOWN"))
        elif isinstance(node, exp.Trim) and not name and node.args.get("position"):
            node.replace(_trim(node))
    return copy


def _arguments(node: exp.Expr) -> list[exp.Expr]:
    """What a function was called with, in that order."""
    if isinstance(node, exp.Mod):
        return [node.this.unnest(), node.expression.unnest()]
    names = ("this", "expression", "substr", "start", "length")
    return [part for part in (node.args.get(name) for name in names) if isinstance(part, exp.Expr)]


def _as_written(node: exp.Expr) -> exp.Expr:
    """date_trunc or to_char with its unit or format in the client's letters, or a function that stands for another."""
    if isinstance(node, exp.AtTimeZone):
        return exp.Anonymous(this="timezone", expressions=[node.args["zone"], node.this])
    if isinstance(node, exp.Anonymous):
        return exp.Anonymous(this=node.name, expressions=node.expressions[1:])
    text = exp.Literal.string(node.meta[WRITTEN])
    if isinstance(node, exp.TimeToStr):
        return exp.Anonymous(this="to_char", expressions=[node.this, text])
    zone = [node.args["zone"]] if node.args.get("zone") else []
    return exp.Anonymous(this="date_trunc", expressions=[text, node.this, *zone])


def _operator(node: exp.Expr, sign: str) -> exp.Expr:
    return exp.Operator(this=node.this, operator=sign, expression=node.expression)


def _trim(node: exp.Expr) -> exp.Expr:
    """TRIM(LEADING ...), which would be written as ltrim(...)."""
    characters = node.args.get("expression")
    within = f"{sql_text(characters, 'postgres')} FROM" if characters is not None else "FROM"
    return exp.var(f"TRIM({node.args['position']} {within} {sql_text(node.this, 'postgres')})")


def _to_here(spec: exp.Expr) -> bool:
    """Whether a window's frame ends at the current row, which is the default."""
    return str(spec.args.get("end") or "CURRENT ROW").upper() == "CURRENT ROW"


def _inward(inner: exp.Expr) -> str:
    """A negation written inside: x NOT IN (...), x NOT BETWEEN ..., x IS NOT TRUE; else empty."""
    value = sql_text(inner.this, "postgres")
    if isinstance(inner, exp.In) and inner.expressions:
        return f"{value} NOT IN ({', '.join(sql_text(e, 'postgres') for e in inner.expressions)})"
    if isinstance(inner, exp.Between):
        low, high = (sql_text(inner.args[end], "postgres") for end in ("low", "high"))
        return f"{value} NOT BETWEEN {low} AND {high}"
    if isinstance(inner, exp.SimilarTo):
        return f"{value} NOT SIMILAR TO {sql_text(inner.expression, 'postgres')}"
    if isinstance(inner, exp.Escape) and isinstance(inner.this, exp.SimilarTo):
        return f"{_inward(inner.this)} ESCAPE {sql_text(inner.expression, 'postgres')}"
    if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Boolean):
        return f"{value} IS NOT {sql_text(inner.expression, 'postgres')}"
    return ""


def _respelt(tree: exp.Expr, inward: bool, comma: bool, field: bool, frame: bool, sign: bool) -> exp.Expr:
    """The tree, which is used up, with its constructs in these spellings."""
    for negation in reversed(walk(tree, exp.Not)) if inward else []:
        if isinstance(negation.this, NEGATED) and (written := _inward(negation.this)):
            negation.replace(exp.var(written))
    for spec in walk(tree, exp.WindowSpec) if frame else []:
        if _to_here(spec):
            spec.replace(exp.var(f"{spec.args['kind']} {spec.args['start']} {spec.args['start_side']}"))
    for interval in walk(tree, exp.Interval) if field else []:
        if isinstance(interval.this, exp.Literal) and isinstance(interval.args.get("unit"), exp.Var):
            interval.replace(
                exp.var(f"INTERVAL {sql_text(interval.this, 'postgres')} {interval.args['unit'].name}")
            )
    for node in walk(tree, exp.Substring) if comma else []:
        node.replace(exp.Anonymous(this="substring", expressions=_arguments(node)))
    for negated in walk(tree, exp.Not) if sign else []:
        if type(negated.this) in _ABSENT:
            negated.replace(_operator(negated.this, _ABSENT[type(negated.this)]))
    return tree
