"""Neutral SQL for a node's release key, independent of the engine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256

from sqlglot import exp

from rewriter.canonical.normalize import canonical
from rewriter.emit.engines.postgres import Postgres
from rewriter.ir.relation import Relation, leaf
from rewriter.ir.trees import cast, select, walk
from rewriter.ir.types import Type, type_named
from rewriter.policy import Column, Table
from rewriter.scalar.functions import COMPARISONS
from rewriter.scalar.parameter_literal import compared, plain_constant
from rewriter.scalar.typecheck import Parameters


class Neutral(Postgres):
    """What was asked, in PostgreSQL's words: no guards, no collations, no names of a backend.

    What rows and measures are written with is overridden wherever `Postgres` has a form of its own, so that no key
    depends on how PostgreSQL is asked.
    """

    fenced = False
    joins_in = True
    narrowed = frozenset()
    adds_stored = False
    pretty = False

    def table(self, table: Table) -> Sequence[str]:
        return table.schema, table.name

    def listed(self, columns: Sequence[Column], texts: Sequence[Sequence[str | None]]) -> exp.Select:
        """A table named by all that its rows are, in whatever order."""
        rows = sorted(zip(*texts, strict=True), key=repr)
        said = json.dumps([[type_named(c.type).family for c in columns], rows])
        return select("*", source=exp.table_(f"rows_{sha256(said.encode()).hexdigest()}"))

    def scanned(self, alias: str, column: Column) -> exp.Expr:
        return leaf(alias, column.name)

    def expression(self, node: exp.Expr, relation: Relation, parameters: Parameters) -> exp.Expr:
        def settled(part: exp.Expr) -> exp.Expr:
            if not isinstance(part, exp.Parameter):
                return part
            parameter = parameters[int(part.name) - 1]
            if type(part.parent) in COMPARISONS:
                return plain_constant(compared(parameter))
            value = plain_constant(parameter)
            whole = isinstance(value, exp.Literal) and value.is_int
            if whole and type_named(parameter.type) is Type.NUMERIC and part.find_ancestor(exp.Div, exp.Mod):
                # Divided by an integer of the same digits, an integer has no fraction.
                return cast(value, "DECIMAL")
            return value

        if not walk(node, exp.Parameter):
            return canonical(node, relation)
        return canonical(node.transform(settled), relation, copy=False)

    def cell(self, value: exp.Expr, of: Type) -> exp.Expr:
        return value

    def label(self, value: exp.Expr, of: Type) -> exp.Expr:
        return value

    def converted(self, value: exp.Expr, own: Type, target: Type) -> exp.Expr:
        return value

    def key(self, value: exp.Expr, of: Type) -> exp.Expr:
        return value

    def told(self, value: exp.Expr, of: Type) -> tuple[exp.Expr, Type]:
        return value, of

    def text(self, value: exp.Expr, of: Type) -> exp.Expr:
        return cast(value, "VARCHAR")

    def ordered(self, value: exp.Expr, of: Type) -> exp.Expr:
        return value


NEUTRAL = Neutral()
