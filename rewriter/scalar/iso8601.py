"""Times in ISO 8601's spelling with T and Z, as Grafana writes them, in PostgreSQL's own."""

from __future__ import annotations

import re

from sqlglot import exp

from rewriter.ir.relation import Relation
from rewriter.ir.trees import walk
from rewriter.ir.types import STAMPS, Type, type_named
from rewriter.scalar.functions import COMPARISONS
from rewriter.scalar.typecheck import operands

_ISO = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)(Z?)")


def plain_times(node: exp.Expr, relation: Relation) -> exp.Expr:
    """A base-form expression with the times that it compares columns of timestamps with in PostgreSQL's spelling.

    For a timestamp without time zone the Z is ignored, as in PostgreSQL; with time zone it means UTC. The client's
    own text stays as it is.
    """
    for comparison in [part for part in walk(node) if type(part) in COMPARISONS]:
        compared = operands(comparison)
        types = {_column_type(one, relation) for one in compared} - {None}
        if len(types) == 1 and types <= STAMPS:
            for constant in (one.unnest() for one in compared):
                _respell(constant, Type.TIMESTAMPTZ in types)
    return node


def _column_type(operand: exp.Expr, relation: Relation) -> Type | None:
    column = operand.unnest()
    if not isinstance(column, exp.Column):
        return None
    source = next((s for s in relation.sources if s.alias == column.table), None)
    return Type.OTHER if source is None else type_named(source.column(column.name).type)


def _respell(constant: exp.Expr, zoned: bool) -> None:
    found = (
        _ISO.fullmatch(constant.this) if isinstance(constant, exp.Literal) and constant.is_string else None
    )
    if found is not None:
        zone = "+00" if zoned and found[3] else ""
        constant.set("this", f"{found[1]} {found[2]}{zone}")
