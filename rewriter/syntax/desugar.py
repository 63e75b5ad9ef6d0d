"""Rewrites PostgreSQL's alternative spellings to base form.

In:  x = ANY (ARRAY[1, 2]), x > ALL (ARRAY[1, 2]), x BETWEEN SYMMETRIC 3 AND 1, CASE x WHEN 1 THEN 2 END,
     date_part('year', x), date_trunc('day', x, 'Asia/Tokyo'), 'x' = ANY (y), log10(x)
Out: x IN (1, 2), (x > 1 AND x > 2), (x BETWEEN 3 AND 1 OR x BETWEEN 1 AND 3), CASE WHEN x = 1 THEN 2 END,
     CAST(EXTRACT(YEAR FROM x) AS DOUBLE PRECISION),
     date_trunc('day', x::timestamptz AT TIME ZONE 'Asia/Tokyo') AT TIME ZONE 'Asia/Tokyo',
     ARRAY_CONTAINS(y, 'x'), log(x)
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

from sqlglot import exp

from rewriter.ir.trees import kinds, walk
from rewriter.refusal import Refusal
from rewriter.syntax.allowlist import position

MAX_ALTERNATIVES = 64
LISTED = "listed"
"""In the meta of a comparison with elements of an array, which have the array's type and not that of its other side."""
COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Like, exp.ILike)
SUGAR = kinds(
    *(*COMPARED, exp.Between, exp.SimilarTo, exp.Escape, exp.Case),
    *(exp.Date, exp.TimestampTrunc, exp.DateTrunc, exp.Anonymous),
)
"""What may be such a spelling."""


def plain(node: exp.Expr) -> exp.Expr:
    """The expression, which is used up, without such spellings.

    >>> plain(exp.maybe_parse("x <> ALL (ARRAY[1, 2])", dialect="postgres")).sql()
    'NOT x IN (1, 2)'
    >>> plain(exp.maybe_parse("CASE a WHEN 1 THEN x <> ALL (ARRAY[1, 2]) END", dialect="postgres")).sql()
    'CASE WHEN a = 1 THEN NOT x IN (1, 2) END'
    """
    if SUGAR.isdisjoint(map(type, walk(node))):
        return node
    made = _plain(node)
    # Also what has been made has parts as the client wrote them.
    for key, value in list(made.args.items()):
        if isinstance(value, exp.Expr):
            made.set(key, plain(value))
        elif isinstance(value, list):
            made.set(key, [plain(one) if isinstance(one, exp.Expr) else one for one in value])
    return made


def _plain(node: exp.Expr) -> exp.Expr:
    if isinstance(node, COMPARED):
        return _listed(node)
    if isinstance(node, exp.Between) and node.args.get("symmetric"):
        low, high = node.args["low"], node.args["high"]
        ways = [exp.Between(this=node.this.copy(), low=a.copy(), high=b.copy()) for a, b in _ways(low, high)]
        return exp.paren(exp.or_(*ways))
    if isinstance(node, exp.SimilarTo) or (
        isinstance(node, exp.Escape) and isinstance(node.this, exp.SimilarTo)
    ):
        return _similar(node)
    if isinstance(node, exp.Case) and node.this is not None:
        ifs = [
            exp.If(this=exp.EQ(this=node.this.copy(), expression=i.this), true=i.args["true"])
            for i in node.args["ifs"]
        ]
        return exp.Case(ifs=ifs, default=node.args.get("default"))
    if isinstance(node, exp.Date) and not node.expressions and node.args.get("zone") is None:
        return exp.cast(node.this, "DATE")
    if isinstance(node, (exp.TimestampTrunc, exp.DateTrunc)) and node.args.get("zone") is not None:
        return _period(node)
    return _named(node) if isinstance(node, exp.Anonymous) else node


def _named(node: exp.Anonymous) -> exp.Expr:
    """A function that the parser knows by its name only."""
    name, parts = node.name.lower(), node.expressions
    if name == "date_part":
        return _part(node)
    if name == "log10" and len(parts) == 1:
        return exp.Log(this=parts[0])
    if name in ("num_nulls", "num_nonnulls") and parts:
        return _counted(parts, nulls=name == "num_nulls")
    return node


def _counted(parts: list[exp.Expr], *, nulls: bool) -> exp.Expr:
    """How many values are NULL, or how many are not."""
    one, zero = exp.Literal.number(1), exp.Literal.number(0)
    tests = (exp.Is(this=part, expression=exp.null()) for part in parts)
    ones: Iterator[exp.Expr] = (
        exp.case().when(test, one if nulls else zero, copy=False).else_(zero if nulls else one)
        for test in tests
    )
    return exp.paren(reduce(lambda whole, more: exp.Add(this=whole, expression=more), ones))


def _period(node: exp.Expr) -> exp.Expr:
    """date_trunc in a zone: the zone's own time, cut, as a moment again."""
    zone = node.args["zone"]
    local = exp.AtTimeZone(this=exp.cast(node.this, "TIMESTAMPTZ"), zone=zone)
    period = type(node)(this=local, unit=node.args["unit"])
    return exp.AtTimeZone(this=period, zone=zone.copy())


def _similar(node: exp.Expr) -> exp.Expr:
    """SIMILAR TO a pattern that is written down: a regular expression for the whole text."""
    escape = node.expression if isinstance(node, exp.Escape) else exp.Literal.string("\\")
    compared = node.this if isinstance(node, exp.Escape) else node
    if not (compared.expression.is_string and escape.is_string and len(escape.name) == 1):
        return node
    pattern = similar_pattern(compared.expression.name, escape.name)
    return exp.RegexpLike(this=compared.this, expression=exp.Literal.string(pattern))


def similar_pattern(pattern: str, escape: str) -> str:
    r"""A pattern of SIMILAR TO as a regular expression, as PostgreSQL translates it.

    >>> similar_pattern("(a|_)%", "\\"), similar_pattern("1.5$[%_]#%", "#")
    ('^((a|.).*)$', '^(1\\.5\\$[%_]%)$')
    """
    found, in_set, unread = "", False, False
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            character = next(characters, "")
            unread = unread or in_set or not character
            found += character if character in "%_" else f"\\{character}"
        elif in_set:
            in_set = character != "]"
            # A class like [:alpha:] in a set ends at a ] of its own.
            unread = unread or character == "["
            found += character
        else:
            in_set = character == "["
            found += _SIMILAR.get(character, character)
    # No regular expression where PostgreSQL's versions read an escape differently, or raise at it.
    return "(?" if unread else f"^({found})$"


_SIMILAR = {"%": ".*", "_": ".", **{sign: f"\\{sign}" for sign in "\\.^$"}}


def _part(node: exp.Anonymous) -> exp.Expr:
    """date_part of a field that is written down: EXTRACT, as a floating point number."""
    if len(node.expressions) != 2 or not node.expressions[0].is_string:
        return node
    field, value = node.expressions
    return exp.cast(exp.Extract(this=exp.Var(this=field.name.upper()), expression=value), "DOUBLE")


def _ways(low: exp.Expr, high: exp.Expr) -> tuple[tuple[exp.Expr, exp.Expr], ...]:
    return (low, high), (high, low)


def _listed(node: exp.Expr) -> exp.Expr:
    """A comparison with any or all of a list that is written down."""
    right, every = node.expression, False
    if isinstance(right, (exp.Any, exp.All)):
        array, every = right.this.unnest(), isinstance(right, exp.All)
    elif isinstance(right, exp.Anonymous) and right.name.lower() in ("some", "all") and right.expressions:
        array, every = right.expressions[0].unnest(), right.name.lower() == "all"
    else:
        return node
    if isinstance(array, exp.Column) and isinstance(node, exp.EQ) and isinstance(right, exp.Any):
        return exp.ArrayContains(this=array, expression=node.this)
    if not isinstance(array, exp.Array):
        return node
    if isinstance(node, exp.NEQ if every else exp.EQ):
        return _members(node, array.expressions, every)
    if len(array.expressions) > MAX_ALTERNATIVES:
        raise Refusal("54001", f"more than {MAX_ALTERNATIVES} alternatives", position=position(node))
    each = []
    for element in array.expressions or [exp.null()]:
        one = node.copy()
        one.set("expression", element.copy())
        one.meta[LISTED] = True
        each.append(one)
    return _of_none(exp.paren((exp.and_ if every else exp.or_)(*each)), array.expressions, every)


def _members(node: exp.Expr, listed: list[exp.Expr], every: bool) -> exp.Expr:
    found: exp.Expr = exp.In(this=node.this, expressions=listed or [exp.null()])
    found.meta[LISTED] = True
    return _of_none(exp.not_(found) if every else found, listed, every)


def _of_none(found: exp.Expr, listed: list[exp.Expr], every: bool) -> exp.Expr:
    """A comparison with the elements of a list; of an empty one all are true and none is, whatever is compared."""
    if listed:
        return found
    return exp.paren(exp.or_(found, exp.true()) if every else exp.and_(found, exp.false()))
