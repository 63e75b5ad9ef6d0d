"""Expressions over private rows as a backend computes them: PostgreSQL's meaning, and no error that a row could decide.

A backend error would reveal something about the row that raised it, so every part that could raise is
NULL instead. Strict arithmetic is written as a value with guards, the conditions under which it may be computed,
in their order; what stands around it sees the closed form CASE WHEN guard THEN value END.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from sqlglot import exp

from rewriter.effort import spend
from rewriter.ir.relation import Relation
from rewriter.ir.trees import case, cast, paren, rebuilt
from rewriter.ir.types import FLOATS, INTEGERS, NUMBERS, Type, common
from rewriter.scalar import float_guards
from rewriter.scalar.functions import BY_TYPE
from rewriter.scalar.parameter_literal import plain_constant
from rewriter.scalar.typecheck import Parameter, Parameters, Types, operands

TYPES = {
    Type.INT2: "SMALLINT",
    Type.INT4: "INT",
    Type.INT8: "BIGINT",
    Type.NUMERIC: Type.NUMERIC.cell,
}
"""In which integers and exact numbers of a type are computed where a failed operation can be had as NULL."""
ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg, exp.Abs)


@dataclass(frozen=True)
class Guarded:
    """A value that may be computed only if its guards hold. A guard may be evaluated only if those before it hold."""

    value: exp.Expr
    guards: tuple[exp.Expr, ...] = ()

    def closed(self) -> exp.Expr:
        """The value, or NULL where it may not be computed."""
        found = self.value
        for guard in reversed(self.guards):
            found = case((guard, found))
        return found


class Writer(ABC):
    """Writes base-form expressions over one relation for one engine."""

    def __init__(self, relation: Relation, parameters: Parameters) -> None:
        self.relation = relation
        self.parameters = parameters
        self.types = Types(relation, parameters)

    def type(self, node: exp.Expr) -> Type:
        return self.types.of(node)

    def write(self, node: exp.Expr) -> exp.Expr:
        """A base-form expression in the engine's terms; it never raises."""
        spend()
        if isinstance(node, exp.Paren):
            return paren(self.write(node.this))
        if isinstance(node, exp.Parameter):
            return self.parameter(self.parameters[int(node.name) - 1])
        if isinstance(node, exp.Literal):
            return self.literal(node)
        if isinstance(node, exp.Query):
            return node.copy()
        if isinstance(node, ARITHMETIC) and self.type(node) in NUMBERS and not _negative(node):
            if isinstance(node, exp.Sub) and self.type(node.this) is Type.DATE:
                return self.date_form(node)
            return self.close(self.opened(node), node)
        form = self.form(node)
        return form(node) if form is not None else self.parts(node)

    def parameter(self, parameter: Parameter) -> exp.Expr:
        """A parameter's value."""
        return self.literal(plain_constant(parameter))

    def parts(self, node: exp.Expr) -> exp.Expr:
        """`node` with its parts written."""
        return rebuilt(node, self.write)

    def form(self, node: exp.Expr) -> Callable[[exp.Expr], exp.Expr] | None:
        """The way in which a node of this type is written, None where its parts alone matter."""
        function = BY_TYPE.get(type(node))
        return getattr(self, function.form) if function is not None and function.form else None

    @abstractmethod
    def date_form(self, node: exp.Expr) -> exp.Expr:
        """A date minus a date."""

    def literal(self, node: exp.Expr) -> exp.Expr:
        """A constant, as digits alone: with an exponent it would be a double."""
        if isinstance(node, exp.Literal) and not node.is_string and "e" in node.this.lower():
            return exp.Literal.number(format(Decimal(node.this), "f"))
        return node.copy()

    def operand(self, node: exp.Expr, of: Type) -> Guarded:
        """A part that is no arithmetic, in the type in which arithmetic of type `of` is computed."""
        value = self.write(node)
        return Guarded(cast(value, self.computed_in(of)) if of in INTEGERS or of is Type.FLOAT4 else value)

    def promoted(self, part: Guarded, before: Type, after: Type) -> Guarded:
        """A number of one type in the one in which those of another are computed."""
        if self.computed_in(before) == self.computed_in(after):
            return part
        target = "DECIMAL(19, 0)" if after is Type.NUMERIC else self.computed_in(after)
        return Guarded(cast(part.value, target), part.guards)

    @abstractmethod
    def computed(self, node: exp.Expr, parts: Sequence[exp.Expr], of: Type) -> Guarded:
        """One operation of integers or numerics over its computed parts."""

    @abstractmethod
    def close(self, part: Guarded, node: exp.Expr) -> exp.Expr:
        """Arithmetic as a value of its type."""

    def opened(self, node: exp.Expr) -> Guarded:
        """Arithmetic as a value with guards, in the type in which it is computed."""
        node = node.unnest()
        of = self.type(node)
        if not isinstance(node, ARITHMETIC) or of not in NUMBERS or _negative(node):
            return self.operand(node, of)
        if isinstance(node, exp.Sub) and self.type(node.this) is Type.DATE:
            return self.operand(node, of)
        sides = [node.this] + ([node.expression] if isinstance(node, exp.Binary) else [])
        parts = [self.fitted(side, of) for side in sides]
        values = [part.value for part in parts]
        result = self.float_computed(node, values) if of in FLOATS else self.computed(node, values, of)
        before = tuple(guard for part in parts for guard in part.guards)
        after = (float_guards.narrows(result.value),) if of is Type.FLOAT4 else ()
        return Guarded(paren(result.value), (*before, *result.guards, *after))

    def fitted(self, node: exp.Expr, of: Type) -> Guarded:
        """A part of arithmetic of type `of`."""
        own = self.type(node)
        if own is Type.LITERAL:
            return Guarded(cast(self.write(node), self.computed_in(of)))
        if own is Type.NUMERIC and of is Type.FLOAT8 and isinstance(node.unnest(), exp.Literal):
            return Guarded(float_guards.double(node.unnest().name))
        return self.promoted(self.opened(node), own, of)

    def computed_in(self, of: Type) -> str:
        """The type in which values of a type are computed."""
        return TYPES.get(of, "DOUBLE")

    def float_computed(self, node: exp.Expr, values: Sequence[exp.Expr]) -> Guarded:
        """One operation of doubles; the guards are the same on every engine."""
        if not isinstance(node, exp.Binary):
            return Guarded(type(node)(this=values[0]))
        left, right = values
        guard = {
            exp.Add: float_guards.sums,
            exp.Sub: float_guards.sums,
            exp.Mul: float_guards.multiplies,
            exp.Div: float_guards.divides,
        }[type(node)]
        return Guarded(operation(node, left, right), (guard(left, right),))

    def as_float(self, node: exp.Expr) -> Guarded:
        """A number as a double."""
        return self.fitted(node, Type.FLOAT8)

    def function(self, part: Guarded, guard: Callable[[exp.Expr], exp.Expr], value: exp.Expr) -> exp.Expr:
        """A function of a closed part where its guard holds."""
        return Guarded(value, (*part.guards, guard(part.value))).closed()

    def compared(self, node: exp.Expr) -> exp.Expr:
        """A comparison, its operands in one type."""
        if node.args.get("query") is not None:
            return self.parts(node)
        compared = operands(node)
        found = {self.type(o) for o in compared} - {Type.LITERAL}
        target = common(found) if found <= NUMBERS and len(found) > 1 else None
        beside = self.column_type(compared)
        return rebuilt(node, lambda part: self.beside(part, beside, target))

    def column_type(self, compared: Sequence[exp.Expr]) -> str:
        """The type of the first column among operands, "" where there is none."""
        columns = (c for c in (one.unnest() for one in compared) if isinstance(c, exp.Column))
        types = (self.relation.source(c.table).column(c.name).type for c in columns)
        return next(types, "")

    def beside(self, node: exp.Expr, type_name: str, target: Type | None) -> exp.Expr:
        """An operand of a comparison with a column of a type."""
        return self.common(node, target)

    def common(self, node: exp.Expr, target: Type | None) -> exp.Expr:
        """A value as one of the number type `target`, or as it is."""
        own = self.type(node)
        if target is None or own in (target, Type.LITERAL) or {own, target} <= INTEGERS:
            return self.write(node)
        if target is Type.NUMERIC and own in INTEGERS:
            return self.write(node)
        return self.fitted(node, target).closed()

    def branches(self, node: exp.Expr) -> exp.Expr:
        """CASE, COALESCE, GREATEST, LEAST: the values in one type."""
        own = self.type(node)
        target = own if own in FLOATS | {Type.NUMERIC} else None
        if isinstance(node, exp.Case):
            ifs = [
                exp.If(this=self.write(i.this), true=self.common(i.args["true"], target))
                for i in node.args["ifs"]
            ]
            default = node.args.get("default")
            return exp.Case(ifs=ifs, default=None if default is None else self.common(default, target))
        copy = node.copy()
        copy.set("this", self.common(node.this, target))
        copy.set("expressions", [self.common(e, target) for e in node.expressions])
        return copy


def divided(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """A division that is printed as one: sqlglot would cast to double otherwise.

    >>> divided(exp.column("a"), exp.column("b")).sql("postgres")
    'a / b'
    """
    return exp.Div(this=left, expression=right, typed=True)


def operation(node: exp.Expr, left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """The operation of `node` over other operands."""
    return divided(left, right) if isinstance(node, exp.Div) else type(node)(this=left, expression=right)


def _negative(node: exp.Expr) -> bool:
    return isinstance(node, exp.Neg) and isinstance(node.this.unnest(), exp.Literal)
