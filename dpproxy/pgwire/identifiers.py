"""Names and texts as SQL writes them, and which names PostgreSQL keeps whole."""

from __future__ import annotations

from rewriter.policy import TableName
from rewriter.refusal import Refusal

NAME_BYTES = 63
"""The longest name that PostgreSQL keeps whole."""


def possible_name(analyst: str) -> bool:
    """Whether PostgreSQL can have a role of an analyst's name, as it is.

    >>> possible_name("alice"), possible_name("pg_monitor"), possible_name("x" * 64)
    (True, False, False)
    """
    if analyst.startswith("pg_") or analyst in ("", "public", "none") or "\0" in analyst:
        return False
    try:
        return len(analyst.encode()) <= NAME_BYTES
    except UnicodeEncodeError:
        return False


def unusable_name(analyst: str) -> Refusal:
    """The refusal (28000) of a name that PostgreSQL or we keep to ourselves."""
    shown = analyst.replace("\0", " ").encode(errors="replace").decode()
    return Refusal("28000", f'"{shown[:NAME_BYTES]}" cannot be the name of an analyst')


def identifier(name: str) -> str:
    """A name as an identifier.

    >>> identifier('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text as a literal, under standard_conforming_strings.

    >>> literal("it's")
    "'it''s'"
    """
    return "'" + text.replace("\0", "").replace("'", "''") + "'"


def qualified(name: TableName) -> str:
    """A table's name as identifiers.

    >>> qualified(("public", "users"))
    '"public"."users"'
    """
    return f"{identifier(name[0])}.{identifier(name[1])}"
