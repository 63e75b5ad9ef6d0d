"""The kinds of values in expressions: the types of PostgreSQL, as far as the rewriter tells them apart."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

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
"""The kinds of the types that values may be cast to."""
NUMBERS = ("int", "number", "float")
TEXTUAL = ("text", "literal")
DATED = ("date", "timestamp", "timestamptz")


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


def common(kinds: Sequence[str]) -> str:
    """The kind of a value that is one of several, as in CASE; constants take the kind of the others.

    >>> common(["int", "float"]), common(["literal", "date"]), common(["literal"]), common(["int", "date"])
    ('float', 'date', 'text', 'other')
    """
    found = {k for k in kinds if k != "literal"}
    if not found:
        return "text"
    if found <= {*NUMBERS}:
        return next(wider for wider in ("float", "number", "int") if wider in found)
    return found.pop() if len(found) == 1 else "other"


def moved(left: str, right: str, *, subtracted: bool) -> str:
    """The kind of a date or timestamp plus or minus something.

    >>> moved("date", "date", subtracted=True), moved("date", "interval", subtracted=False)
    ('int', 'timestamp')
    """
    if subtracted and left == right == "date":
        return "int"
    if subtracted and left in ("date", "timestamp") and right in ("date", "timestamp"):
        return "interval"
    if right == "interval" or (left == "interval" and not subtracted):
        of = left if right == "interval" else right
        return "timestamp" if of == "date" else of
    if left == "date" and right == "int":
        return "date"
    return "date" if right == "date" and left == "int" and not subtracted else "other"
