"""Expressions over private rows: what kind of value each is, and which of them are allowed with which values."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from rewriter.grammar import EXTRACTED, TRUNCATIONS, describe, position
from rewriter.refusal import Refusal
from rewriter.relation import Relation

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
}
CASTS = {
    exp.DType.SMALLINT: "int",
    exp.DType.INT: "int",
    exp.DType.BIGINT: "int",
    exp.DType.DECIMAL: "number",
    exp.DType.DOUBLE: "float",
    exp.DType.FLOAT: "float",
    exp.DType.TEXT: "text",
    exp.DType.VARCHAR: "text",
    exp.DType.BOOLEAN: "bool",
    exp.DType.DATE: "date",
    exp.DType.TIMESTAMP: "timestamp",
    exp.DType.UUID: "uuid",
}
CAST_FROM = {
    "int": {"int", "bool", "literal"},
    "number": {"int", "number", "literal"},
    "float": {"int", "float", "literal"},
    "text": {"int", "text", "date", "uuid", "literal"},
    "bool": {"bool", "literal"},
    "date": {"date", "timestamp", "literal"},
    "timestamp": {"date", "timestamp", "literal"},
    "uuid": {"uuid", "literal"},
}
LOGICAL = (exp.Predicate, exp.And, exp.Or, exp.Not, exp.Boolean, exp.NullSafeEQ, exp.NullSafeNEQ)
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
}
"""How a constant of a kind is spelt that PostgreSQL and DuckDB read alike; DuckDB would raise at many others,
but only where a row reaches it: the error would tell that there is one."""

MOST_DIGITS = 38


@dataclass(frozen=True)
class Parameter:
    """A client's parameter: its type's name in the front and its value as canonical text."""

    type: str
    value: str | None


Parameters = Sequence[Parameter]


def kind_of_type(type_name: str) -> str:
    """The kind of a PostgreSQL type as format_type prints it; "other" for those not computed with.

    >>> kind_of_type("character varying(20)")
    'text'
    """
    head, _, rest = type_name.partition("(")
    return KINDS.get((head.strip() + rest.partition(")")[2]).strip(), "other")


def kind(node: exp.Expr, relation: Relation, parameters: Parameters) -> str:
    """The kind of value of a base-form expression: int, number, float, text, bool, date, timestamp ... or literal."""

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
    if isinstance(node, (exp.Lower, exp.Upper, exp.Trim, exp.Substring, exp.DPipe)):
        return "text"
    if isinstance(node, (exp.Length, exp.Count)):
        return "int"
    if isinstance(node, exp.Extract):
        return "number"
    if isinstance(node, (exp.TimestampTrunc, exp.DateTrunc)):
        return "timestamptz" if of(node.this) == "date" else of(node.this)
    if isinstance(node, exp.Case):
        return _common(
            [of(i.args["true"]) for i in node.args["ifs"]] + [of(d) for d in [node.args.get("default")] if d]
        )
    if isinstance(node, exp.Coalesce):
        return _common([of(node.this), *(of(e) for e in node.expressions)])
    if isinstance(node, (exp.Paren, exp.Neg, exp.Abs, exp.Nullif, exp.Min, exp.Max)):
        return of(node.this)
    if isinstance(node, (exp.Floor, exp.Ceil)):
        return "number" if of(node.this) == "number" else "float"
    if isinstance(node, (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)):
        return _common([of(node.this), of(node.expression)])
    return "literal" if isinstance(node, exp.Null) else "other"


def _common(kinds: list[str]) -> str:
    found = {k for k in kinds if k != "literal"}
    if not found:
        return "text"
    for wider in ("float", "number", "int"):
        if wider in found and found <= {"float", "number", "int"}:
            return wider
    return found.pop() if len(found) == 1 else "other"


def check(node: exp.Expr, relation: Relation, parameters: Parameters) -> None:
    """Refuse (PV020) what is on the allow-list as a node but not with these kinds of values or arguments."""

    def of(part: exp.Expr) -> str:
        return kind(part, relation, parameters)

    for part in node.find_all(exp.Expr):
        if isinstance(part, COMPARISONS) and not readable(part, relation, parameters):
            raise _unreadable(part)
        if isinstance(part, (exp.And, exp.Or, exp.Not)):
            for operand in part.iter_expressions():
                _check_truth(operand, relation, parameters)
        elif isinstance(part, exp.Is) and isinstance(part.expression, exp.Boolean):
            _check_truth(part.this, relation, parameters)
        if isinstance(part, exp.Cast):
            target = CASTS.get(part.to.this)
            if target is None or of(part.this) not in CAST_FROM[target]:
                raise _not_allowed(part, "between these types")
        elif isinstance(part, exp.Extract) and part.name.lower() not in EXTRACTED:
            raise _not_allowed(part, "of this field")
        elif isinstance(part, (exp.TimestampTrunc, exp.DateTrunc)):
            if part.args["unit"].name.lower() not in TRUNCATIONS or of(part.this) not in (
                "date",
                "timestamp",
            ):
                raise _not_allowed(part, "with this unit or type")
        elif isinstance(
            part, (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg, exp.Abs, exp.Floor, exp.Ceil)
        ):
            if _arithmetic_kind(part, of) not in ("int", "number", "float"):
                raise _not_allowed(part, "on values that are no numbers")
        elif isinstance(part, (exp.Like, exp.ILike)):
            _check_pattern(part, parameters)
        elif isinstance(part, exp.Substring):
            if any(
                of(p) != "int" for p in (part.args.get("start"), part.args.get("length")) if p is not None
            ):
                raise _not_allowed(part, "with a pattern")
        elif isinstance(part, exp.Literal):
            if not part.is_string and len(part.this) > MOST_DIGITS:
                raise _not_allowed(part, f"of more than {MOST_DIGITS} digits")
        elif isinstance(part, exp.Parameter):
            if of(part) == "other":
                raise _not_allowed(part, "of this type")
            if of(part) == "number" and len(parameters[int(part.name) - 1].value or "") > MOST_DIGITS:
                raise _not_allowed(part, f"of more than {MOST_DIGITS} digits")
        elif isinstance(part, exp.DPipe) and not {of(part.this), of(part.expression)} <= {
            "text",
            "int",
            "literal",
        }:
            raise _not_allowed(part, "on values that are no text")


def check_condition(node: exp.Expr, relation: Relation, parameters: Parameters) -> None:
    """`check` of a condition: a text that PostgreSQL would read as a truth value is refused (42804)."""
    _check_truth(node, relation, parameters)
    check(node, relation, parameters)


def _check_truth(node: exp.Expr, relation: Relation, parameters: Parameters) -> None:
    if kind(node, relation, parameters) != "bool" and not isinstance(node.unnest(), exp.Null):
        raise Refusal("42804", "a condition must be a truth value", position=position(node))


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
        if text is not None and not all(_spelt(text, k) for k in possible):
            return False
    return True


def _spelt(text: str, found: str) -> bool:
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


def _arithmetic_kind(part: exp.Expr, of: Callable[[exp.Expr], str]) -> str:
    return _common([of(p) for p in (part.this, part.args.get("expression")) if p is not None])


def _check_pattern(part: exp.Expr, parameters: Parameters) -> None:
    pattern = part.expression.unnest()
    if isinstance(pattern, exp.Parameter):
        text = parameters[int(pattern.name) - 1].value
    elif isinstance(pattern, exp.Literal) and pattern.is_string:
        text = pattern.this
    else:
        raise _not_allowed(part, "with a pattern that is no constant")
    if text is not None and (len(text) - len(text.rstrip("\\"))) % 2:
        raise Refusal("22025", "LIKE pattern must not end with escape character", position=position(part))


def _not_allowed(part: exp.Expr, why: str) -> Refusal:
    return Refusal(
        "PV020",
        f"{describe(part)} {why} is not allowed on private rows",
        hint="It could fail on one person's row; compute it on the released rows instead.",
        position=position(part),
    )
