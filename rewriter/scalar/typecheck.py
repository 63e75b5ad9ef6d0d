"""Expressions over private rows: the type of each, and which of them are allowed with which values."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sqlglot import exp

from rewriter.effort import spend
from rewriter.ir.parameter import Parameter as Parameter
from rewriter.ir.parameter import Parameters as Parameters
from rewriter.ir.relation import UNIT, Relation, leaf_of
from rewriter.ir.trees import walk
from rewriter.ir.types import CASTS, DATED, SPAN, TEXTUAL, UNCOMPARED, UNTOLD, Type, common, type_named
from rewriter.policy import labels
from rewriter.refusal import Refusal
from rewriter.scalar import blanks, time_zones
from rewriter.scalar.aggregates import AGGREGATES, argument
from rewriter.scalar.array_literal import elements
from rewriter.scalar.function_checks import UNORDERED, not_allowed
from rewriter.scalar.functions import BY_TYPE, CHECKED, COMPARISONS, LOGICAL, check_function
from rewriter.scalar.interval import measured
from rewriter.syntax.allowlist import position

_DATE, _TIME = r"\d{4}-\d\d-\d\d", r"([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,6})?)?"
SPELLINGS = {
    "int": r"-?\d{1,19}",
    "float": r"-?(\d+(\.\d+)?(e[+-]?\d+)?|nan|infinity)",
    "number": r"-?\d+(\.\d+)?",
    "bool": "t|f|true|false",
    "date": rf"{_DATE}|-?infinity",
    "timestamp": rf"{_DATE}( {_TIME})?|-?infinity",
    "timestamptz": rf"{_DATE}( {_TIME}([+-]\d\d(:\d\d)?)?)?|-?infinity",
    "time": _TIME,
    "uuid": "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "bytea": r"\\x([0-9a-f]{2})*",
}
"""How a constant of a family of types is spelt that PostgreSQL and DuckDB read alike; DuckDB would raise at many
others, but only where a row reaches it: the error would reveal that there is one."""

WHOLE = re.compile(r"-?\d{1,28}(\.\d+)?")
"""Exact numbers that fit the exact type of every engine."""
ORDERING = frozenset({exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.Greatest, exp.Least})
"""What depends on the order of values."""
UNREAD = frozenset({Type.JSON_ARRAY, Type.OTHER_ARRAY})
"""PostgreSQL finds out only when two values meet that such elements cannot be compared."""
MOST_DIGITS = 38
MOST_WRITTEN = 50_000
"""Nodes of an expression as a backend gets it."""
MOST_STEPS = 300
"""About how often the form of AT TIME ZONE has its operand: once for each offset that a zone ever had."""


class Types:
    """The types of base-form expressions over one relation; each node is looked at once."""

    def __init__(self, relation: Relation, parameters: Parameters) -> None:
        self.relation, self.parameters = relation, parameters
        self._found: dict[int, tuple[Type, exp.Expr]] = {}

    def of(self, node: exp.Expr) -> Type:
        """The type of an expression, which PostgreSQL gives it too."""
        known = self._found.get(id(node))
        if known is None:
            # With the node, so that no other can have its id.
            known = self._found[id(node)] = self._of(node), node
        return known[0]

    def name(self, column: exp.Column) -> str:
        """The type of a column as format_type prints it."""
        alias, name = leaf_of(column)
        return self.relation.source(alias).column(name).type

    def _of(self, node: exp.Expr) -> Type:
        spend()
        if isinstance(node, exp.Column):
            return type_named(self.name(node))
        if isinstance(node, exp.Parameter):
            return type_named(self.parameters[int(node.name) - 1].type)
        if isinstance(node, exp.Literal):
            return Type.LITERAL if node.is_string else type_of_number(node.this)
        if type(node) in LOGICAL:
            return Type.BOOL
        if isinstance(node, exp.Paren):
            return self.of(node.this)
        function = BY_TYPE.get(type(node))
        if function is None:
            aggregate = AGGREGATES.get(type(node))
            if aggregate is not None:
                return aggregate.type_of(self.of(argument(node)) if node.this else Type.OTHER)
            return Type.LITERAL if isinstance(node, exp.Null) else Type.OTHER
        if isinstance(function.result, Type):
            return function.result
        if function.result is not None:
            return function.result(node, self.of)
        return common([self.of(part) for part in function.parts(node)])

    def enum(self, node: exp.Expr) -> str | None:
        """The enumerated type of an expression, which is a text otherwise, as `Column.type` has it; None without."""
        spend()
        if isinstance(node, exp.Column):
            alias, name = leaf_of(node)
            source = next((s for s in self.relation.sources if s.alias == alias), None)
            of = "" if source is None else source.column(name).type
            return None if labels(of) is None else of
        if isinstance(node, exp.Parameter):
            known = self.parameters[int(node.name) - 1 : int(node.name)]
            return next((one.type for one in known if labels(one.type) is not None), None)
        if isinstance(node, exp.Paren):
            return self.enum(node.this)
        aggregate, function = AGGREGATES.get(type(node)), BY_TYPE.get(type(node))
        if aggregate is not None:
            return self.enum(argument(node)) if aggregate.result is None else None
        parts = [] if function is None else function.parts(node)
        return next(filter(None, map(self.enum, parts)), None)


def type_of(node: exp.Expr, relation: Relation, parameters: Parameters) -> Type:
    """The type of a base-form expression."""
    return Types(relation, parameters).of(node)


def type_of_number(text: str) -> Type:
    """The type of a number that is written down.

    >>> [type_of_number(text).name for text in ("7", "2147483648", "9223372036854775808", "0.5")]
    ['INT4', 'INT8', 'NUMERIC', 'NUMERIC']
    """
    holds = (of for of in (Type.INT4, Type.INT8) if text.isdigit() and int(text) < SPAN[of])
    return next(holds, Type.NUMERIC)


def check(node: exp.Expr, relation: Relation, parameters: Parameters) -> None:
    """Refuse (PV020) nodes of the allow-list that have types of values or arguments that are not allowed."""
    types = Types(relation, parameters)
    nodes = walk(node)
    spend(len(nodes))
    for part in nodes:
        if type(part) in COMPARISONS or isinstance(part, exp.Nullif):
            _check_compared(part, types)
        elif isinstance(part, (exp.Case, exp.Coalesce, exp.Greatest, exp.Least)):
            of = types.of(part)
            values = [value.unnest() for value in BY_TYPE[type(part)].parts(part)]
            if any(_bare(value) and not (of.enumerable and spelt(value.this, of)) for value in values):
                raise _unreadable(part)
            if isinstance(part, (exp.Greatest, exp.Least)):
                _check_order(values, types, part)
        if type(part) in ORDERING and any(map(types.enum, operands(part))):
            raise not_allowed(part, UNORDERED)
        blank = blanks.seen(part, types.name, parameters)
        if blank is not None:
            raise not_allowed(part, blank)
        if isinstance(part, exp.Column) and types.of(part) in UNREAD:
            raise not_allowed(part, "of this type")
        if _typed(part) and not _held(part, types):
            raise _unreadable(part)
        if isinstance(part, (exp.And, exp.Or, exp.Not)):
            for operand in part.iter_expressions():
                _check_truth(operand, types)
        elif isinstance(part, exp.Is) and isinstance(part.expression, exp.Boolean):
            _check_truth(part.this, types)
        if type(part) in CHECKED:
            check_function(part, types.of, parameters)
        elif isinstance(part, exp.Literal):
            if not part.is_string and len(part.this) > MOST_DIGITS:
                raise not_allowed(part, f"of more than {MOST_DIGITS} digits")
        elif isinstance(part, exp.Parameter):
            if types.of(part) in (Type.OTHER, Type.OTHER_ARRAY, Type.BRIEF):
                raise not_allowed(part, "of this type")
            parameter = parameters[int(part.name) - 1]
            if types.of(part) is Type.NUMERIC and not parameter.meets(_short):
                raise not_allowed(part, f"of more than {MOST_DIGITS} digits")
    if sum(written_size(node)) > MOST_WRITTEN:
        raise Refusal(
            "54001",
            "an expression is too long after the guards against errors are added",
            position=position(node),
        )


def written_size(node: exp.Expr) -> tuple[int, int]:
    """About how many nodes a backend's form of an expression has: its value, and the conditions that guard it.

    >>> written_size(exp.column("a")), written_size(exp.column("a") * exp.column("b"))
    ((1, 0), (3, 24))
    >>> written_size(exp.paren(exp.column("a") * exp.column("b")))
    (4, 24)
    """
    spend()
    if isinstance(node, exp.AtTimeZone) and not time_zones.at_utc(node):
        moment = time_zones.begun(node)
        operand, times = (node.this, MOST_STEPS) if moment is None else (moment, 2 * MOST_STEPS)
        return times * (1 + sum(written_size(operand))), 0
    parts = [written_size(part) for part in node.iter_expressions() if not isinstance(part, exp.Identifier)]
    values, guards = sum(value for value, _ in parts), sum(guard for _, guard in parts)
    if isinstance(node, exp.Paren):
        # Arithmetic in it goes on: the guards are written once, around all of it.
        return 1 + values, guards
    if isinstance(node, (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg, exp.Abs)):
        return 1 + values, guards + 8 * (1 + values)
    if type(node) in CHECKED and not isinstance(node, (exp.Case, exp.Coalesce, exp.Nullif)):
        return 1 + _copies(node) * (values + guards), 0
    return 1 + values + guards, 0


def _copies(node: exp.Expr) -> int:
    """How often a backend's form of a function or cast may have its operand."""
    if any(map(time_zones.in_zone, node.iter_expressions())):
        # What is made of a time in a zone has no guard of its own.
        return 1
    if isinstance(node, exp.Cast) and CASTS.get(node.to.this) in DATED:
        return 2
    return 3 if isinstance(node, (exp.Floor, exp.Ceil)) else 4


def check_condition(node: exp.Expr, relation: Relation, parameters: Parameters) -> None:
    """`check` of a condition: a text that PostgreSQL would read as a truth value is refused (42804)."""
    _check_truth(node, Types(relation, parameters))
    check(node, relation, parameters)


def _check_truth(node: exp.Expr, types: Types) -> None:
    if types.of(node) is not Type.BOOL and not isinstance(node.unnest(), exp.Null):
        raise Refusal("42804", "a condition must be a truth value", position=position(node))


def _check_compared(part: exp.Expr, types: Types) -> None:
    if not readable(part, types):
        raise _unreadable(part)
    _check_order(operands(part), types, part)
    arrays = any(types.of(o).element for o in operands(part))
    if arrays and not isinstance(part, (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ, exp.In)):
        raise not_allowed(part, "of arrays")


def _check_order(values: Iterable[exp.Expr], types: Types, at: exp.Expr | None) -> None:
    for value in values:
        of = types.of(value)
        # What is no value, such as a list, has no type either, nor has a unit.
        columns = [c for c in walk(value, exp.Column) if c.name != UNIT]
        found = {types.of(c) for c in columns} if of in UNTOLD else {of}
        if of in UNCOMPARED and found & UNCOMPARED:
            raise not_compared(value if at is None else at, of)


def check_order(
    values: Iterable[exp.Expr], relation: Relation, parameters: Parameters, at: exp.Expr | None = None
) -> None:
    """Refuse (PV020) values that rows are grouped, ordered or compared by, of a type that has no bounds for that."""
    _check_order(values, Types(relation, parameters), at)


def check_extreme(call: exp.Expr, value: exp.Expr, relation: Relation, parameters: Parameters) -> None:
    """Refuse (PV020) the least or greatest of values of a type that not all engines have it for."""
    check_order([value], relation, parameters, call)
    if type_of(value, relation, parameters) is Type.BYTEA:
        raise not_allowed(call, "of bytea")


def not_compared(node: exp.Expr, of: Type) -> Refusal:
    """PV020 for a value of a type that is not compared."""
    return Refusal(
        "PV020",
        f"values of {f'type {of.postgres}' if of.postgres else 'this type'} cannot be grouped by, ordered or compared "
        "on private rows",
        hint="Let the owner declare a view or a column of what is in them.",
        position=position(node),
    )


def readable(part: exp.Expr, types: Types) -> bool:
    """Whether DuckDB reads the constants of a comparison as PostgreSQL does."""
    compared = operands(part)
    found = {types.of(o) for o in compared} - TEXTUAL
    return all(_spelt(operand, of, types.parameters) for operand in compared for of in found or {Type.TEXT})


def _spelt(value: exp.Expr, of: Type, parameters: Parameters) -> bool:
    """Whether a value is no constant, or one that every engine reads as the same value of a type."""
    constant = value.unnest()
    if isinstance(constant, exp.Literal) and constant.is_string:
        return spelt(constant.this, of)
    if isinstance(constant, exp.Parameter):
        parameter = parameters[int(constant.name) - 1]
        return parameter.meets(spelt, type_named(parameter.type))
    return True


def _bare(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and node.is_string


def _typed(node: exp.Expr) -> bool:
    """Whether a node is a constant with a type of its own."""
    return isinstance(node, exp.Parameter) or (isinstance(node, exp.Cast) and _bare(node.this.unnest()))


def _compared(node: exp.Expr) -> bool:
    """Whether a node is an operand of a comparison."""
    above = node.parent
    while isinstance(above, (exp.Paren, exp.Any, exp.All)):
        above = above.parent
    return type(above) in COMPARISONS


def _held(constant: exp.Expr, types: Types) -> bool:
    """Whether every engine holds a constant with a type. Intervals, bytes and json have checks of the functions that
    take them, and parameters that are compared the check of comparisons."""
    of = types.of(constant)
    if (not of.enumerable and of.element is None) or (
        isinstance(constant, exp.Parameter) and _compared(constant)
    ):
        return True
    if isinstance(constant, exp.Parameter):
        return types.parameters[int(constant.name) - 1].meets(settled, of)
    return settled(constant.this.unnest().this, of)


def settled(text: str, of: Type) -> bool:
    """Whether every engine holds a text as the same value of a type.

    >>> settled("0.5", Type.NUMERIC), settled("nan", Type.NUMERIC), settled("9" * 29, Type.NUMERIC)
    (True, False, False)
    """
    return spelt(text, of) and (of is not Type.NUMERIC or WHOLE.fullmatch(text) is not None)


def _short(number: str) -> bool:
    return len(number) <= MOST_DIGITS


def spelt(text: str, of: Type) -> bool:
    """Whether every engine reads a text as the same value of a type.

    >>> spelt("2024-01-31", Type.DATE), spelt("yesterday", Type.DATE)
    (True, False)
    """
    if of.element is not None:
        listed = elements(text, dimensions=1)
        return listed is not None and all(one is None or settled(one, of.element) for one in listed)
    if of is Type.INTERVAL:
        return measured(text) is not None
    spelling = SPELLINGS.get(of.family)
    return spelling is None or re.fullmatch(spelling, text, re.IGNORECASE) is not None


def operands(comparison: exp.Expr) -> list[exp.Expr]:
    """What a comparison compares."""
    parts = [p for k, p in comparison.args.items() if k != "expressions"] + comparison.expressions
    return [p for p in parts if p is not None]


def _unreadable(part: exp.Expr) -> Refusal:
    return Refusal(
        "PV020",
        "a constant in this spelling is not allowed on private rows",
        hint="Write '2024-01-31', '2024-01-31 12:30:00', 'true', and numbers in digits.",
        position=position(part),
    )
