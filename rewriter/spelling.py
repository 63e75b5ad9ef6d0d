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
            subject = self.sql(inner, "this")
            if isinstance(inner, exp.In) and inner.expressions:
                return f"{subject} NOT IN ({self.expressions(inner, flat=True)})"
            if isinstance(inner, exp.Between):
                return f"{subject} NOT BETWEEN {self.sql(inner, 'low')} AND {self.sql(inner, 'high')}"
            if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Boolean):
                return f"{subject} IS NOT {self.sql(inner, 'expression')}"
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
    for dialect, *choices in product(inward, commas, characters, presents, fields, variances, frames):
        yield _respelt(tree, *choices).sql(dialect)


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
            interval.replace(exp.var(f"INTERVAL {interval.this.sql('postgres')} {interval.args['unit'].name}"))
    for node in list(copy.find_all(exp.Substring)) if comma else []:
        given = [node.args.get(part) for part in ("this", "start", "length")]
        node.replace(exp.Anonymous(this="substring", expressions=[g for g in given if g is not None]))
    for length in list(copy.find_all(exp.Length)) if character else []:
        length.replace(exp.Anonymous(this="char_length", expressions=[length.this]))
    return copy
