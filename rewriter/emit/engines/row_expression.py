"""The data owner's own SQL over one row of a table: row filters and computed columns, in the backend's dialect.

It is written into queries word for word, so that it means what it means in the backend. What is checked here is that
it can be an expression of one row, wherever it is put; the backend says whether it is one.
"""

from __future__ import annotations

from itertools import pairwise

import sqlglot
from sqlglot import exp
from sqlglot.dialects import Dialect
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from rewriter.ir.trees import walk


def called_functions(text: str, dialect: str) -> frozenset[str]:
    """The names in lower case behind which an expression has a parenthesis: its functions, and some keywords.

    Raises ValueError for what is no single expression, or reads more than a row of the table.

    >>> sorted(called_functions("lower(a) = 'x' AND Pg_Catalog.Left(b, 1) IN ('y')", "postgres"))
    ['in', 'left', 'lower']
    >>> called_functions("a) OR (b", "postgres")
    Traceback (most recent call last):
    ...
    ValueError: is not understood as one expression
    """
    try:
        tokens = sqlglot.tokenize(text, read=dialect)
        parsed = Dialect.get_or_raise(dialect).parse_into(exp.Condition, text)
    except SqlglotError:
        raise ValueError("is not understood as one expression") from None
    if len(parsed) != 1 or parsed[0] is None or any(t.token_type is TokenType.SEMICOLON for t in tokens):
        raise ValueError("is not understood as one expression")
    # A comment could swallow what stands behind the text, and line breaks are indented.
    if any(t.comments or "\n" in t.text for t in tokens):
        raise ValueError("has a comment, or a line break within quotes")
    if walk(parsed[0], exp.Query, exp.UDTF, exp.Table):
        raise ValueError("has a subquery: it may read its own row only")
    if walk(parsed[0], exp.Star):
        raise ValueError("has a *: name the columns")
    if walk(parsed[0], exp.Placeholder, exp.Parameter, exp.SessionParameter):
        raise ValueError("has a parameter")
    return frozenset(
        one.text.lower() for one, after in pairwise(tokens) if after.token_type is TokenType.L_PAREN
    )
