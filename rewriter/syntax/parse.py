"""Text -> one query tree within the limits, made of allowed structure only.

In:  SELECT /* of a tool */ COUNT(*) FROM shop.public.users WHERE country = E'D\\x45'
Out: SELECT COUNT(*) FROM public.users WHERE country = 'DE', as a tree
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Sequence

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from rewriter.effort import spend
from rewriter.ir.trees import walk
from rewriter.refusal import Refusal
from rewriter.statements.lexer import readable
from rewriter.syntax.allowlist import STRUCTURE, describe, describe_surplus, position, surplus
from rewriter.syntax.named_windows import write_out_windows
from rewriter.syntax.postgres_dialect import STRINGS, Reading, plain_type

logging.getLogger("sqlglot").setLevel(logging.ERROR)

NUMBER = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:e([+-]?\d{1,9}))?", re.IGNORECASE)
MAX_EXPONENT = 300
MAX_TOKENS = 10_000
MAX_NESTING = 20
MAX_CONSTANTS = 2000
MAX_DIGITS = 400


class _Reader(threading.local):
    """The tokenizer and the parser of one thread, which begin anew with each text."""

    def __init__(self) -> None:
        reading = Reading()
        self.tokenizer, self.parser = reading.tokenizer(), reading.parser()


_READER = _Reader()
_OPENS, _CLOSES = (TokenType.L_PAREN, TokenType.L_BRACKET), (TokenType.R_PAREN, TokenType.R_BRACKET)


def parse_query(text: str) -> exp.Query:
    """The tree of one SELECT (or VALUES, set operation) in PostgreSQL's dialect.

    Raises Refusal: 42601 not readable, 54001 beyond a limit, 0A000 structure that is not supported.

    >>> parse_query("SELECT 1 AS a").named_selects
    ['a']
    """
    try:
        text = readable(text)
        tokens = _READER.tokenizer.tokenize(text)
        _check_tokens(tokens)
        for token in tokens:
            # Tools write the time or a trace into comments: they are no part of the question.
            token.comments.clear()
        trees = [t for t in _READER.parser.parse(tokens, text) if t is not None]
    except (SqlglotError, ValueError) as error:
        raise Refusal(
            "42601", "the query could not be read", hint="Check its syntax with EXPLAIN."
        ) from error
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise Refusal(
            "0A000", "only a single SELECT can read private tables", hint="Send one SELECT at a time."
        )
    tree, changed = trees[0], False
    nodes = walk(tree)
    for node in nodes:
        if isinstance(node, STRINGS):
            # E'...' and $$...$$ as the texts that they are: the parser has resolved their escapes.
            node.replace(exp.Literal.string(node.name))
            changed = True
        elif isinstance(node, exp.DataType):
            changed |= plain_type(node)
        elif isinstance(node, exp.Table) and node.args.get("db") is not None:
            # Tools write databases before schemas; PostgreSQL checks them in the client's own text.
            changed |= node.args.get("catalog") is not None
            node.set("catalog", None)
        elif isinstance(node, exp.Select) and node.args.get("windows"):
            write_out_windows(node)
            changed = True
    if changed:
        nodes = walk(tree)
    _check_limits(tree, nodes)
    _check_structure(nodes)
    return tree


def _check_tokens(tokens: Sequence[Token]) -> None:
    """Check limits on tokens before parsing, which takes a hundred times as long as reading them."""
    if len(tokens) > MAX_TOKENS:
        raise Refusal(
            "54001",
            f"more than {MAX_TOKENS} words, numbers and signs",
            hint="Ask in several statements.",
            position=tokens[MAX_TOKENS].start + 1,
        )
    depth = 0
    for token in tokens:
        depth += (token.token_type in _OPENS) - (token.token_type in _CLOSES)
        if depth > 2 * MAX_NESTING:
            raise Refusal(
                "54001",
                f"parentheses are nested deeper than {2 * MAX_NESTING}",
                position=token.start + 1,
            )


def _check_limits(tree: exp.Query, nodes: Sequence[exp.Expr]) -> None:
    depths = {id(tree): 1}
    constants = steps = 0
    levels = {id(tree): 1}
    for node in nodes:
        parent = node.parent
        # Several passes look at, or copy, all that is below a node for each node.
        levels[id(node)] = level = levels.get(id(parent), 0) + 1
        steps += level
        own = depths.get(id(parent), 0) + isinstance(node, exp.Query) if parent is not None else 1
        depths[id(node)] = own
        if isinstance(node, exp.Literal):
            constants += 1
            if not node.is_string:
                _check_number(node)
        if own > MAX_NESTING:
            raise Refusal(
                "54001", f"subqueries are nested deeper than {MAX_NESTING}", position=position(node)
            )
    spend(steps)
    if constants > MAX_CONSTANTS:
        raise Refusal("54001", f"more than {MAX_CONSTANTS} constants")


def _check_number(node: exp.Literal) -> None:
    if len(node.this) > MAX_DIGITS:
        raise Refusal("54001", f"a number has more than {MAX_DIGITS} characters", position=position(node))
    found = NUMBER.fullmatch(node.this)
    if found is None:
        raise Refusal("42601", "a number could not be read", position=position(node))
    if abs(int(found[1] or 0)) > MAX_EXPONENT:
        raise Refusal("22003", "a number is out of range", position=position(node))


def _check_structure(nodes: Sequence[exp.Expr]) -> None:
    for node in nodes:
        for part in node.required_args:
            if node.args.get(part) is None:
                raise Refusal("42601", f"{describe(node)} is not complete", position=position(node))
        if isinstance(node, exp.Count) and node.this is None:
            raise Refusal(
                "42883",
                "function count() does not exist",
                hint="Write `COUNT(*)` in place of `COUNT()`.",
                position=position(node),
            )
        if isinstance(node, exp.Parameter):
            _check_parameter(node)
        allowed = STRUCTURE.get(type(node))
        if allowed is None:
            if isinstance(
                node, (exp.Command, exp.DDL, exp.DML, exp.Lateral, exp.TableSample, exp.Into, exp.Lock)
            ):
                raise _unsupported(
                    node, describe(node), _LATERAL if isinstance(node, exp.Lateral) else _PLAIN
                )
            continue
        extra = surplus(node, allowed)
        if extra is not None:
            raise _unsupported(node, describe_surplus(node, extra))


def _check_parameter(node: exp.Parameter) -> None:
    if not isinstance(node.this, exp.Literal):
        raise _unsupported(node, "operator @")
    if not (node.name.isascii() and node.name.isdigit()):
        raise Refusal("42601", "a parameter is a $ and a number", position=position(node))


_PLAIN = "Write no more than SELECT, FROM, JOIN, WHERE, GROUP BY, HAVING, ORDER BY, LIMIT and OFFSET."
_LATERAL = (
    "Write an aggregate that is correlated on the privacy unit as a subquery among the columns, or join a subquery "
    "that groups by the unit. For released columns as rows write UNION ALL over one WITH."
)


def _unsupported(node: exp.Expr, what: str, hint: str = _PLAIN) -> Refusal:
    return Refusal(
        "0A000",
        f"{what} is not supported in a query on private tables",
        hint=hint,
        position=position(node),
    )
