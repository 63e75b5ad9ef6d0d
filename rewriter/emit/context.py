"""What the writers of measures and sources need from the query that they are part of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sqlglot import exp

from rewriter.emit.engines.base import Engine
from rewriter.ir.parameter import Parameters
from rewriter.ir.relation import Relation, Source
from rewriter.ir.types import Type

Output = tuple[str, exp.Expr]
"""A column's name and value."""
Typed = tuple[exp.Expr, Type]
"""An expression and the type of its values."""


class Context(Protocol):
    """A node's query in one dialect, as far as it is written."""

    dialect: Engine
    parameters: Parameters

    def written(self, node: exp.Expr, relation: Relation) -> exp.Expr:
        """A base-form expression for the engine."""

    def hashed(self, values: Sequence[Typed]) -> exp.Expr:
        """The keyed hash of values."""

    def keyed_order(self, values: Sequence[Typed], of: Typed | None = None) -> list[exp.Expr]:
        """ORDER BY the keyed hash of values, then by themselves."""

    def unit(self, relation: Relation) -> exp.Column:
        """The column of a relation's privacy unit."""

    def select(
        self,
        relation: Relation,
        outputs: Sequence[Output],
        used: Sequence[exp.Expr],
        *,
        units_later: bool = False,
    ) -> exp.Select:
        """SELECT outputs FROM the relation's sources under its conditions."""

    def source(self, source: Source, columns: Sequence[str]) -> exp.Expr:
        """A source with these columns."""

    def unit_type(self, relation: Relation) -> Type:
        """The type of the privacy unit's column."""
