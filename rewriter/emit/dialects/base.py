"""The differences between engines; all other emitted SQL is the same text for all.

The same node over the same data has the same histogram on every engine, ties included: a keyed order
hashes the texts of values as PostgreSQL prints them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sqlglot import exp

from rewriter.canonical.normalize import canonical
from rewriter.ir.relation import Relation, leaf
from rewriter.ir.trees import alias, cast, data_type, paren, select
from rewriter.ir.types import Type, type_named
from rewriter.policy import Column, Table
from rewriter.scalar.functions import COMPARISONS
from rewriter.scalar.parameter_literal import compared, plain_constant
from rewriter.scalar.typecheck import Parameters


def collated(value: exp.Expr, name: str) -> exp.Expr:
    """A text under a collation.

    >>> collated(exp.column("x"), "C").sql("postgres")
    'x COLLATE "C"'
    """
    return exp.Collate(this=value, expression=exp.to_identifier(name, quoted=True))


class Dialect(Protocol):
    """One engine's way of writing."""

    def sql(self, query: exp.Expr) -> str:
        """The text of a query, whose tree is used up."""

    def table(self, table: Table) -> Sequence[str]:
        """The parts of a table's name."""

    def scanned(self, alias: str, column: Column) -> exp.Expr:
        """A stored column as a value of its type in the front; texts compare and order by their bytes."""

    def expression(self, node: exp.Expr, relation: Relation, parameters: Parameters) -> exp.Expr:
        """A base-form expression: PostgreSQL's meaning, NULL where PostgreSQL would raise; it never raises."""

    def cell(self, value: exp.Expr, of: Type) -> exp.Expr:
        """A key's value in the type of its cells, NULL where that cannot hold it."""

    def key(self, value: exp.Expr, of: Type) -> exp.Expr:
        """A key as a value of which all of a group have the same text."""

    def least(self, value: exp.Expr, of: Type) -> exp.Expr:
        """The aggregate that gives the least of some keys, NULL aside; of equal keys that key."""

    def same(self, left: exp.Expr, right: exp.Expr, of: Type) -> exp.Expr:
        """Whether two keys are the same value or both NULL, in a form that can be hashed to join."""

    def text(self, value: exp.Expr, of: Type) -> exp.Expr:
        """A value as PostgreSQL prints it: no zeros behind a number, the bits of a float."""

    def ordered(self, value: exp.Expr, of: Type) -> exp.Expr:
        """The expression that a value is ordered by, with the same order on every engine."""

    def secret(self, place: int) -> exp.Expr:
        """The secret of the keyed order, which is bound behind the arrays, at `place`."""

    def cells(self, columns: Sequence[tuple[str, str]]) -> exp.Select:
        """The bound cells: `cell`, from 1, and these columns by name and type, one array of texts each."""

    def days(self, value: exp.Expr) -> exp.Expr:
        """A date of the years 1 to 9999 as a whole number of days since 1970."""

    def seconds(self, value: exp.Expr) -> exp.Expr:
        """A timestamp of the years 1 to 9999 as a double, in seconds since 1970."""

    def addend(self, value: exp.Expr) -> exp.Expr:
        """A whole number such that the sum of many is right, however large it becomes."""

    def exact(self, value: exp.Expr) -> exp.Expr:
        """A whole number up to 2^50 in size in a type that holds the sums of its squares."""

    @property
    def partial(self) -> bool:
        """Whether `expression` raises Refusal for some of the grammar."""


class Usual:
    """The default way of writing, for engines without a form of their own."""

    def table(self, table: Table) -> Sequence[str]:
        return table.backend_name

    def least(self, value: exp.Expr, of: Type) -> exp.Expr:
        return exp.Min(this=value)

    def same(self, left: exp.Expr, right: exp.Expr, of: Type) -> exp.Expr:
        return exp.NullSafeEQ(this=left, expression=right)

    def ordered(self, value: exp.Expr, of: Type) -> exp.Expr:
        return value

    def exact(self, value: exp.Expr) -> exp.Expr:
        return cast(value, "DECIMAL(38, 0)")


class Bound(Usual):
    """The SQL of engines with parameters $1, $2... and with sums wider than their integer operands."""

    partial = False

    def secret(self, place: int) -> exp.Expr:
        return cast(exp.Parameter(this=exp.Literal.number(place)), "VARCHAR")

    def cells(self, columns: Sequence[tuple[str, str]]) -> exp.Select:
        first = cast(exp.Parameter(this=exp.Literal.number(1)), "VARCHAR[]")
        numbered = exp.Anonymous(this="GENERATE_SUBSCRIPTS", expressions=[first, exp.Literal.number(1)])
        shown: list[exp.Expr] = [alias(numbered, "cell")]
        for number, (name, target) in enumerate(columns):
            texts = cast(exp.Parameter(this=exp.Literal.number(number + 1)), "VARCHAR[]")
            typed = exp.Cast(this=texts, to=data_type(f"{target}[]", "duckdb"))
            shown.append(alias(exp.Anonymous(this="UNNEST", expressions=[typed]), name))
        return select(*shown)

    def days(self, value: exp.Expr) -> exp.Expr:
        return paren(exp.Sub(this=value, expression=cast(exp.Literal.string("1970-01-01"), "DATE")))

    def seconds(self, value: exp.Expr) -> exp.Expr:
        return cast(exp.Extract(this=exp.var("EPOCH"), expression=value), "DOUBLE")

    def addend(self, value: exp.Expr) -> exp.Expr:
        return value


class Neutral(Bound):
    """Neutral SQL for a node's release key, independent of the engine."""

    def sql(self, query: exp.Expr) -> str:
        return query.sql("postgres", copy=False)

    def table(self, table: Table) -> Sequence[str]:
        return table.schema, table.name

    def scanned(self, alias: str, column: Column) -> exp.Expr:
        return leaf(alias, column.name)

    def expression(self, node: exp.Expr, relation: Relation, parameters: Parameters) -> exp.Expr:
        def settled(part: exp.Expr) -> exp.Expr:
            if not isinstance(part, exp.Parameter):
                return part
            parameter = parameters[int(part.name) - 1]
            if isinstance(part.parent, COMPARISONS):
                return plain_constant(compared(parameter))
            value = plain_constant(parameter)
            whole = isinstance(value, exp.Literal) and value.is_int
            if whole and type_named(parameter.type) is Type.NUMERIC and part.find_ancestor(exp.Div, exp.Mod):
                # Divided by an integer of the same digits, an integer has no fraction.
                return cast(value, "DECIMAL")
            return value

        return canonical(node.transform(settled), relation, copy=False)

    def cell(self, value: exp.Expr, of: Type) -> exp.Expr:
        return value

    def key(self, value: exp.Expr, of: Type) -> exp.Expr:
        return value

    def text(self, value: exp.Expr, of: Type) -> exp.Expr:
        return cast(value, "VARCHAR")


NEUTRAL = Neutral()
