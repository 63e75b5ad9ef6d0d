"""Statements that set the role a session acts for: SET ROLE in its spellings."""

from __future__ import annotations

from rewriter.statements.lexer import Token, statement_tokens
from rewriter.statements.short_texts import remembered

NONE = "none"
"""No other role than the login's."""


@remembered
def assumed(text: str) -> str | None:
    """The role that a SET statement takes, as PostgreSQL reads its name; NONE for none, None for other statements.

    RESET ROLE and SET role TO DEFAULT return to the session's own role, and take none. Raises Refusal as `tokens`.

    >>> assumed("SET LOCAL ROLE Ann"), assumed('set role = "Ann"'), assumed("SET ROLE NONE"), assumed("SET jit = off")
    ('ann', 'Ann', 'none', None)
    """
    found = statement_tokens(text)
    if not found or found[0].word != "SET":
        return None
    rest = found[1:]
    if rest and rest[0].word in ("SESSION", "LOCAL"):
        rest = rest[1:]
    if not rest or rest[0].name != "role":
        return None
    value = rest[1:]
    if len(value) == 2 and value[0].word in ("=", "TO"):
        value = value[1:]
        if value[0].word == "DEFAULT":
            return NONE
    return _name(value[0]) if len(value) == 1 else ""


def _name(token: Token) -> str:
    """A name as PostgreSQL reads it; "" for what is none."""
    return token.name or token.value or ""
