"""Times in ISO 8601's spelling with T and Z, as Grafana writes them, in PostgreSQL's own."""

from __future__ import annotations

import re

from sqlglot import exp

from rewriter.ir.relation import Relation
from rewriter.ir.trees import walk
from rewriter.scalar.functions import COMPARISONS
from rewriter.scalar.kinds import kind_of_type
from rewriter.scalar.typecheck import operands

_ISO = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)(Z?)")


def plain_times(node: exp.Expr, relation: Relation) -> exp.Expr:
    """A base-form expression with the times that it compares columns of timestamps with in PostgreSQL's spelling.

    For a timestamp without time zone the Z is ignored, as in PostgreSQL; with time zone it means UTC. The client's
    own text stays as it is.
    """
    for comparison in walk(node, *COMPARISONS):
        compared = operands(comparison)
        kinds = {_kind(one, relation) for one in compared} - {""}
        if len(kinds) == 1 and "other" not in kinds:
            zoned = "timestamptz" in kinds
            for constant in (one.unnest() for one in compared):
                _respell(constant, zoned)
    return node


def _kind(operand: exp.Expr, relation: Relation) -> str:
    column = operand.unnest()
    if not isinstance(column, exp.Column):
        return ""
    source = next((s for s in relation.sources if s.alias == column.table), None)
    if source is None:
        return "other"
    found = kind_of_type(source.column(column.name).type)
    return found if found in ("timestamp", "timestamptz") else "other"


def _respell(constant: exp.Expr, zoned: bool) -> None:
    found = (
        _ISO.fullmatch(constant.this) if isinstance(constant, exp.Literal) and constant.is_string else None
    )
    if found is not None:
        zone = "+00" if zoned and found[3] else ""
        constant.set("this", f"{found[1]} {found[2]}{zone}")
