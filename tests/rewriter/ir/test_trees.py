"""Trees of SQL: no node is hidden from a walk."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from rewriter.ir.trees import walk
from tests.rewriter.queries import ANSWERED, TRUNCATED

LITERALS = (
    r"""SELECT N'a', B'01', X'0f', E'a\nb', U&'d\0061t', $$a$$, $x$b$x$, 'a' 'b', 1e3, .5, 0x1F, 1_000, TRUE, NULL""",
    """SELECT "A b", t."c" AS "d e", U&"d\\0061t", t.*, $1, current_date, date '2024-01-01', interval '1' day FROM t""",
    "SELECT CAST(a AS numeric(5, 2)), b::int[], ARRAY[1, (SELECT 2)], a[1:2], (r).x, x IS NOT DISTINCT FROM y FROM r",
    "SELECT EXTRACT(year FROM d), TRIM(BOTH 'x' FROM y), x COLLATE \"C\", y AT TIME ZONE (SELECT 'UTC') FROM r",
)


def every_node(node: exp.Expr) -> list[exp.Expr]:
    found = [node]
    for value in node.args.values():
        for part in value if isinstance(value, (list, tuple)) else [value]:
            found += every_node(part) if isinstance(part, exp.Expr) else []
    return found


@pytest.mark.parametrize("sql", [*LITERALS, *ANSWERED, *TRUNCATED])
def test_a_walk_sees_every_node(sql: str) -> None:
    """Names, constants and other leaves are not looked into: sqlglot must keep nothing but texts in them."""
    for tree in sqlglot.parse(sql, read="postgres"):
        assert tree is not None
        assert {id(node) for node in walk(tree)} == {id(node) for node in every_node(tree)}
