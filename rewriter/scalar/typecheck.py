"""Expressions over private rows: what kind of value each is, and which of them are allowed with which values."""

from __future__ import annotations

import re

from sqlglot import exp

from rewriter.effort import spend
from rewriter.ir.parameter import Parameter as Parameter
from rewriter.ir.parameter import Parameters as Parameters
from rewriter.ir.relation import Relation
from rewriter.refusal import Refusal
from rewriter.scalar.array_literal import elements
from rewriter.scalar.function_checks import CASTS as CASTS
from rewriter.scalar.function_checks import FUNCTIONS, check_function, not_allowed
from rewriter.scalar.interval import measured
from rewriter.syntax.allowlist import position

KINDS = {
    "smallint": "int",
    "integer": "int",
    "bigint": "int",
    "numeric": "number",
    "real": "float",
    "double precision": "float",
    "text": "text",
    "character varying": "text",
    "character": "text",
    "boolean": "bool",
    "date": "date",
    "timestamp without time zone": "timestamp",
    "timestamp with time zone": "timestamptz",
    "time without time zone": "time",
    "uuid": "uuid",
    "interval": "interval",
    "bytea": "bytea",
    "json": "json",
    "jsonb": "jsonb",
}
LOGICAL = (
    exp.Predicate,
    exp.And,
    exp.Or,
    exp.Not,
    exp.Boolean,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
    exp.Escape,
    exp.StartsWith,
    exp.RegexpLike,
    exp.RegexpILike,
)
TEXTS = (
    exp.Lower,
    exp.Upper,
    exp.Trim,
    exp.Substring,
    exp.DPipe,
    exp.Concat,
    exp.Left,
    exp.Right,
    exp.Replace,
    exp.SplitPart,
    exp.Pad,
    exp.RegexpReplace,
    exp.TimeToStr,
)
DATED = {"date", "timestamp", "timestamptz"}
NAMED = {"age": "age", "make_date": "date"}
COMPARISONS = (
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
    exp.Between,
    exp.In,
)
"""What can raise only where DuckDB converts a value to compare it."""

_DATE, _TIME = r"\d{4}-\d\d-\d\d", r"([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,6})?)?"
SPELLINGS = {
    "int": r"-?\d{1,19}",
    "float": r"-?(\d+(\.\d+)?(e[+-]?\d+)?|nan|infinity)",
    "number": r"-?(\d+(\.\d+)?|nan|infinity)",
    "bool": "t|f|true|false",
    "date": rf"{_DATE}|-?infinity",
    "timestamp": rf"{_DATE}( {_TIME})?|-?infinity",
    "timestamptz": rf"{_DATE}( {_TIME}([+-]\d\d(:\d\d)?)?)?|-?infinity",
    "time": _TIME,
    "uuid": "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "bytea": r"\\x([0-9a-f]{2})*",
}
"""How a constant of a kind is spelt that PostgreSQL and DuckDB read alike; DuckDB would raise at many others,
but only where a row reaches it: the error would reveal that there is one."""

MOST_DIGITS = 38
MOST_WRITTEN = 50_000
"""Nodes of an expression as a backend gets it."""


def kind_of_type(type_name: str) -> str:
    """The kind of a PostgreSQL type as format_type prints it; "other" for those not computed with.

    >>> kind_of_type("character varying(20)"), kind_of_type("bigint[]")
    ('text', 'int[]')
    """
    if type_name.endswith("[]"):
        return f"{kind_of_type(type_name[:-2])}[]"
    head, _, rest = type_name.partition("(")
    return KINDS.get((head.strip() + rest.partition(")")[2]).strip(), "other")


def enumerable(found: str) -> bool:
    """Whether one text stands for each value of a kind, so that its values can be listed as cells.

    >>> enumerable("date"), enumerable("interval"), enumerable("int[]")
    (True, False, False)
    """
    return found not in ("interval", "bytea", "json", "jsonb") and not found.endswith("[]")


def kind(node: exp.Expr, relation: Relation, parameters: Parameters) -> str:
    """The kind of value of a base-form expression: int, number, float, text, bool, date, timestamp ... or literal."""
    spend()

    def of(part: exp.Expr) -> str:
        return kind(part, relation, parameters)

    if isinstance(node, exp.Column):
        return kind_of_type(relation.source(node.table).column(node.name).type)
    if isinstance(node, exp.Parameter):
        return kind_of_type(parameters[int(node.name) - 1].type)
    if isinstance(node, exp.Literal):
        whole = node.this.isdigit() and int(node.this) < 2**63
        return "literal" if node.is_string else ("int" if whole else "number")
    if isinstance(node, LOGICAL):
        return "bool"
    if isinstance(node, exp.Cast):
        return CASTS.get(node.to.this, "other")
    if isinstance(node, TEXTS):
        return "text"
    if isinstance(node, (exp.Length, exp.Count, exp.StrPosition, exp.WidthBucket)):
        return "int"
    if isinstance(node, exp.Interval):
        return "interval"
    if isinstance(node, exp.Anonymous):
        return NAMED.get(node.name.lower(), "other")
    if isinstance(node, exp.Extract):
        return "number"
    if isinstance(node, (exp.TimestampTrunc, exp.DateTrunc)):
        return "timestamptz" if of(node.this) == "date" else of(node.this)
    if isinstance(node, exp.Case):
        return _common(
            [of(i.args["true"]) for i in node.args["ifs"]] + [of(d) for d in [node.args.get("default")] if d]
        )
    if isinstance(node, (exp.Coalesce, exp.Greatest, exp.Least)):
        return _common([of(node.this), *(of(e) for e in node.expressions)])
    if isinstance(node, (exp.Paren, exp.Neg, exp.Abs, exp.Nullif, exp.Min, exp.Max)):
        return of(node.this)
    if isinstance(node, (exp.Round, exp.Trunc)) and node.args.get("decimals") is not None:
        return "number"
    if isinstance(node, (exp.Floor, exp.Ceil, exp.Round, exp.Trunc, exp.Sign, exp.Pow)):
        return "number" if of(node.this) == "number" else "float"
    if isinstance(node, (exp.Sqrt, exp.Ln, exp.Exp)):
        return "float"
    if isinstance(node, (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)):
        left, right = of(node.this), of(node.expression)
        if isinstance(node, (exp.Add, exp.Sub)) and {left, right} & (DATED | {"interval"}):
            return _moved(left, right, isinstance(node, exp.Sub))
        return _common([left, right])
    return "literal" if isinstance(node, exp.Null) else "other"


def _moved(left: str, right: str, subtracted: bool) -> str:
    """The kind of a date or timestamp plus or minus something."""
    if subtracted and left == right == "date":
        return "int"
    if subtracted and left in ("date", "timestamp") and right in ("date", "timestamp"):
        return "interval"
    if right == "interval" or (left == "interval" and not subtracted):
        moved = left if right == "interval" else right
        return "timestamp" if moved == "date" else moved
    if left == "date" and right == "int":
        return "date"
    return "date" if right == "date" and left == "int" and not subtracted else "other"


def _common(kinds: list[str]) -> str:
    found = {k for k in kinds if k != "literal"}
    if not found:
        return "text"
    for wider in ("float", "number", "int"):
        if wider in found and found <= {"float", "number", "int"}:
            return wider
    return found.pop() if len(found) == 1 else "other"


def check(node: exp.Expr, relation: Relation, parameters: Parameters) -> None:
    """Refuse (PV020) nodes of the allow-list that have kinds of values or arguments that are not allowed."""

    def of(part: exp.Expr) -> str:
        return kind(part, relation, parameters)

    if written_size(node)[0] + written_size(node)[1] > MOST_WRITTEN:
        raise Refusal(
            "54001",
            "an expression is too long after the guards against errors are added",
            position=position(node),
        )
    for part in node.find_all(exp.Expr):
        spend()
        if isinstance(part, COMPARISONS):
            _check_compared(part, relation, parameters)
        if isinstance(part, (exp.And, exp.Or, exp.Not)):
            for operand in part.iter_expressions():
                _check_truth(operand, relation, parameters)
        elif isinstance(part, exp.Is) and isinstance(part.expression, exp.Boolean):
            _check_truth(part.this, relation, parameters)
        if isinstance(part, FUNCTIONS):
            check_function(part, of, parameters)
        elif isinstance(part, exp.Literal):
            if not part.is_string and len(part.this) > MOST_DIGITS:
                raise not_allowed(part, f"of more than {MOST_DIGITS} digits")
        elif isinstance(part, exp.Parameter):
            if of(part).startswith("other"):
                raise not_allowed(part, "of this type")
            if of(part) == "number" and len(parameters[int(part.name) - 1].value or "") > MOST_DIGITS:
                raise not_allowed(part, f"of more than {MOST_DIGITS} digits")


def written_size(node: exp.Expr) -> tuple[int, int]:
    """About how many nodes a backend's form of an expression has: its value, and the conditions that guard it.

    >>> written_size(exp.column("a")), written_size(exp.column("a") * exp.column("b"))
    ((1, 0), (3, 24))
    """
    spend()
    parts = [written_size(part) for part in node.iter_expressions() if not isinstance(part, exp.Identifier)]
    values, guards = sum(value for value, _ in parts), sum(guard for _, guard in parts)
    if isinstance(node, (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg, exp.Abs)):
        return 1 + values, guards + 8 * (1 + values)
    if isinstance(node, FUNCTIONS):
        return 1 + 4 * (values + guards), 0
    return 1 + values + guards, 0


def check_condition(node: exp.Expr, relation: Relation, parameters: Parameters) -> None:
    """`check` of a condition: a text that PostgreSQL would read as a truth value is refused (42804)."""
    _check_truth(node, relation, parameters)
    check(node, relation, parameters)


def _check_truth(node: exp.Expr, relation: Relation, parameters: Parameters) -> None:
    if kind(node, relation, parameters) != "bool" and not isinstance(node.unnest(), exp.Null):
        raise Refusal("42804", "a condition must be a truth value", position=position(node))


def _check_compared(part: exp.Expr, relation: Relation, parameters: Parameters) -> None:
    if not readable(part, relation, parameters):
        raise _unreadable(part)
    arrays = any(kind(o, relation, parameters).endswith("[]") for o in operands(part))
    if arrays and not isinstance(part, (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ, exp.In)):
        raise not_allowed(part, "of arrays")


def readable(part: exp.Expr, relation: Relation, parameters: Parameters) -> bool:
    """Whether DuckDB reads the constants of a comparison as PostgreSQL does."""
    compared = operands(part)
    kinds = {kind(o, relation, parameters) for o in compared} - {"literal", "text"}
    for operand in compared:
        constant = operand.unnest()
        if isinstance(constant, exp.Literal) and constant.is_string:
            text, possible = constant.this, kinds
        elif isinstance(constant, exp.Parameter):
            parameter = parameters[int(constant.name) - 1]
            text, possible = parameter.value, {kind_of_type(parameter.type)}
        else:
            continue
        if text is not None and not all(spelt(text, k) for k in possible):
            return False
    return True


def spelt(text: str, found: str) -> bool:
    """Whether every engine reads a text as the same value of a kind.

    >>> spelt("2024-01-31", "date"), spelt("yesterday", "date")
    (True, False)
    """
    if found.endswith("[]"):
        listed = elements(text, dimensions=1)
        return listed is not None and all(one is None or spelt(one, found[:-2]) for one in listed)
    if found == "interval":
        return measured(text) is not None
    return found not in SPELLINGS or re.fullmatch(SPELLINGS[found], text, re.IGNORECASE) is not None


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
