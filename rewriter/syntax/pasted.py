"""SQL in hints: names and parts of statements as text that an analyst can paste.

SQL stands between backquotes in a hint, and means one of three things there: a statement, which can be sent as it is;
`new` in place of `old`, where `old` is a part of the analyst's statement; or a condition that is added to WHERE or ON.
"""

from __future__ import annotations

import re

from sqlglot import exp

from rewriter.ir.trees import walk
from rewriter.policy import Table
from rewriter.statements.lexer import RESERVED
from rewriter.syntax.round_trip import spellings


def identifier(name: str) -> str:
    """A name as it can be written in a statement.

    >>> identifier("country"), identifier("riskScore"), identifier("order")
    ('country', '"riskScore"', '"order"')
    """
    plain = re.fullmatch("[a-z_][a-z0-9_]*", name) and name not in RESERVED
    return name if plain else '"' + name.replace('"', '""') + '"'


def table_name(table: Table) -> str:
    """A table's name, with its schema unless that is public."""
    name = identifier(table.name)
    return name if table.schema == "public" else f"{identifier(table.schema)}.{name}"


def written(node: exp.Expr) -> str:
    """A part of the client's tree as text, without the table names that our reading has put before its columns.

    >>> from rewriter.syntax.parse import parse_query
    >>> written(parse_query("SELECT sum(x  * 2)").expressions[0])
    'SUM(x * 2)'
    """
    copy = node.copy()
    for column in walk(copy, exp.Column):
        table = column.args.get("table")
        if table is not None and "start" not in table.meta:
            column.set("table", None)
    return next(spellings(copy))


def instead(new: str, old: str) -> str:
    """The piece of a hint that says what to write in the place of a part of the statement."""
    return f"`{new}` in place of `{old}`"
