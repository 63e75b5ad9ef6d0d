"""LIMIT and OFFSET as numbers."""

from __future__ import annotations

from sqlglot import exp

from rewriter.refusal import Refusal
from rewriter.scalar.typecheck import Parameters
from rewriter.syntax.allowlist import position

MAX_LIMIT = 2**62


def limit_of(tree: exp.Select, parameters: Parameters) -> int | None:
    """LIMIT + OFFSET as a number, None without a constant LIMIT; 2201W and 2201X for negative ones."""
    limit = _constant(tree.args.get("limit"), "2201W", "LIMIT", parameters)
    offset = _constant(tree.args.get("offset"), "2201X", "OFFSET", parameters)
    if limit is None or limit == 0:
        return limit
    return min(limit + (offset or 0), MAX_LIMIT)


def _constant(clause: exp.Expr | None, code: str, name: str, parameters: Parameters) -> int | None:
    if clause is None:
        return None
    value = clause.args.get("count") if isinstance(clause, exp.Fetch) else clause.args.get("expression")
    negative = isinstance(value, exp.Neg)
    value = value.this if isinstance(value, exp.Neg) else value
    if isinstance(value, exp.Parameter):
        text = parameters[int(value.name) - 1].value or ""
    else:
        text = value.this if isinstance(value, exp.Literal) and not value.is_string else ""
    if negative or text.startswith("-"):
        raise Refusal(code, f"{name} must not be negative", position=position(clause))
    return int(text) if text.isdigit() else None
