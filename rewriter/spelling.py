"""Our reading of a text as texts again: once for each way of writing what the parser does not tell apart.

PostgreSQL keeps `x NOT IN (1)` and `NOT x IN (1)`, or substring's two forms, apart; sqlglot reads each pair as one
tree. If any spelling of the tree is what the client wrote, the tree is what the client meant.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.generators.postgres import PostgresGenerator


class _Inward(Postgres):
    """PostgreSQL with negations written inside: x NOT IN (...), x NOT BETWEEN ..., x IS NOT TRUE."""

    class Generator(PostgresGenerator):
        def not_sql(self, expression: exp.Not) -> str:
            inner = expression.this
            if isinstance(inner, exp.In) and inner.expressions:
                return f"{self.sql(inner, 'this')} NOT IN ({self.expressions(inner, flat=True)})"
            if isinstance(inner, exp.Between):
                within = f"{self.sql(inner, 'low')} AND {self.sql(inner, 'high')}"
                return f"{self.sql(inner, 'this')} NOT BETWEEN {within}"
            if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Boolean):
                return f"{self.sql(inner, 'this')} IS NOT {self.sql(inner, 'expression')}"
            return str(super().not_sql(expression))


NEGATED = (exp.In, exp.Between, exp.Is)


def spellings(tree: exp.Expr) -> Iterator[str]:
    """The tree as PostgreSQL text in each spelling that its constructs have, the usual one first.

    >>> from sqlglot import parse_one
    >>> list(spellings(parse_one("SELECT a NOT IN (1)", dialect="postgres")))
    ['SELECT a NOT IN (1)', 'SELECT NOT a IN (1)']
    """
    negated = any(isinstance(n.this, NEGATED) for n in tree.find_all(exp.Not))
    inward = (_Inward, Postgres) if negated else (Postgres,)
    commas = (False, True) if tree.find(exp.Substring) else (False,)
    characters = (False, True) if tree.find(exp.Length) else (False,)
    presents = (False, True) if tree.find(exp.CurrentTimestamp) else (False,)
    fields = (False, True) if tree.find(exp.Interval) else (False,)
    variances = (False, True) if tree.find(exp.Variance) else (False,)
    frames = (False, True) if any(map(_to_here, tree.find_all(exp.WindowSpec))) else (False,)
    named = (False, True) if tree.find(*_NAMED) else (False,)
    symbols = (False, True) if tree.find(*_SYMBOLS) else (False,)
    for names, signs in product(named, symbols):
        said = _said(tree, names, signs)
        for dialect, *choices in product(inward, commas, characters, presents, fields, variances, frames):
            yield _respelt(said, *choices).sql(dialect)


_NAMED = (exp.Mod, exp.Trim, exp.StrPosition, exp.Substring)
_SYMBOLS = (exp.Pow, exp.StartsWith, exp.RegexpLike, exp.RegexpILike)
_OPERATORS: dict[type[exp.Expr], str] = {exp.Pow: "^", exp.StartsWith: "^@"}
_ABSENT: dict[type[exp.Expr], str] = {exp.RegexpLike: "!~", exp.RegexpILike: "!~*"}
_TRIMS = {"LEADING": "ltrim", "TRAILING": "rtrim"}


def _said(tree: exp.Expr, names: bool, signs: bool) -> exp.Expr:
    """The tree with functions by their names instead of operators and keywords, or with operators instead of names."""

    def spelt(node: exp.Expr) -> exp.Expr:
        if signs and type(node) in _OPERATORS:
            return _operator(node, _OPERATORS[type(node)])
        if signs and isinstance(node, exp.Not) and type(node.this) in _ABSENT:
            return _operator(node.this, _ABSENT[type(node.this)])
        if names and isinstance(node, _NAMED):
            return _named(node)
        return node

    return tree.copy().transform(spelt) if names or signs else tree


def _operator(node: exp.Expr, sign: str) -> exp.Expr:
    return exp.Operator(this=node.this, operator=sign, expression=node.expression)


def _named(node: exp.Expr) -> exp.Expr:
    """A function by the name that PostgreSQL keeps apart from its other spelling."""
    if isinstance(node, exp.Mod):
        return exp.Anonymous(this="mod", expressions=[node.this.unnest(), node.expression.unnest()])
    if isinstance(node, exp.StrPosition):
        return exp.Anonymous(this="strpos", expressions=[node.this, node.args["substr"]])
    given = [node.args.get(part) for part in ("this", "expression", "start", "length")]
    name = (
        "substr"
        if isinstance(node, exp.Substring)
        else _TRIMS.get(str(node.args.get("position") or ""), "btrim")
    )
    return exp.Anonymous(this=name, expressions=[part for part in given if part is not None])


def _to_here(spec: exp.Expr) -> bool:
    """Whether a window's frame ends at the current row, which need not be said."""
    return str(spec.args.get("end") or "CURRENT ROW").upper() == "CURRENT ROW"


def _respelt(
    tree: exp.Expr, comma: bool, character: bool, present: bool, field: bool, variance: bool, frame: bool
) -> exp.Expr:
    copy = tree.copy()
    for spec in list(copy.find_all(exp.WindowSpec)) if frame else []:
        if _to_here(spec):
            spec.replace(exp.var(f"{spec.args['kind']} {spec.args['start']} {spec.args['start_side']}"))
    for found in list(copy.find_all(exp.Variance)) if variance else []:
        found.replace(exp.Anonymous(this="variance", expressions=[found.this]))
    for now in list(copy.find_all(exp.CurrentTimestamp)) if present else []:
        now.replace(exp.Anonymous(this="now"))
    for interval in list(copy.find_all(exp.Interval)) if field else []:
        if isinstance(interval.this, exp.Literal) and isinstance(interval.args.get("unit"), exp.Var):
            interval.replace(
                exp.var(f"INTERVAL {interval.this.sql('postgres')} {interval.args['unit'].name}")
            )
    for node in list(copy.find_all(exp.Substring)) if comma else []:
        given = [node.args.get(part) for part in ("this", "start", "length")]
        node.replace(exp.Anonymous(this="substring", expressions=[g for g in given if g is not None]))
    for length in list(copy.find_all(exp.Length)) if character else []:
        length.replace(exp.Anonymous(this="char_length", expressions=[length.this]))
    return copy
