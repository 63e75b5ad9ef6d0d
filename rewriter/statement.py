"""What kind of statement a text is, decided from its words alone: before any parser of SQL proper."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from rewriter.refusal import Refusal

MAX_TEXT = 16 * 1024
MAX_NESTING = 100


class Verdict(StrEnum):
    """Where a statement goes: to the front as it is, or through the privacy step."""

    RELAY = "relay"
    PRIVATE = "private"


@dataclass(frozen=True)
class Statement:
    """One classified statement; `body` is the query of an EXPLAIN, else the text itself, and `offset` where
    it begins in the text."""

    verdict: Verdict
    explain: bool
    body: str
    offset: int = 0


QUERY = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "("})
WRITES = frozenset(
    [
        "INSERT",
        "UPDATE",
        "DELETE",
        "MERGE",
        "TRUNCATE",
        "CREATE",
        "ALTER",
        "DROP",
        "COMMENT",
        "GRANT",
        "REVOKE",
        "REINDEX",
        "CLUSTER",
        "VACUUM",
        "ANALYZE",
        "REFRESH",
        "IMPORT",
        "REASSIGN",
        "SECURITY",
        "LOCK",
    ]
)
REFUSED = frozenset(["DO", "CALL", "LOAD", "CHECKPOINT", "NOTIFY"])
SETTINGS = frozenset(
    [
        "application_name",
        "bytea_output",
        "characteristics",
        "client_encoding",
        "client_min_messages",
        "constraints",
        "datestyle",
        "default_transaction_isolation",
        "default_transaction_read_only",
        "dpproxy.notices",
        "dpproxy.spend",
        "extra_float_digits",
        "idle_in_transaction_session_timeout",
        "intervalstyle",
        "jit",
        "lock_timeout",
        "names",
        "search_path",
        "standard_conforming_strings",
        "statement_timeout",
        "synchronous_commit",
        "time",
        "timezone",
        "transaction",
        "transaction_isolation",
        "transaction_read_only",
    ]
)


def classify(text: str, guarded: Collection[str]) -> Statement:
    """How `text` is to be handled; `guarded` are the lower-case names of the relations that the front guards.

    Raises Refusal for statements that no analyst may send. A private read that hides from this look fails
    in the front, whose tables carry a guard.

    >>> classify("SELECT 1", {"users"}).verdict.value
    'relay'
    >>> classify("select count(*) from Users", {"users"}).verdict.value
    'private'
    """
    if len(text.encode()) > MAX_TEXT:
        raise Refusal(
            "54000",
            f"statement is longer than {MAX_TEXT // 1024} kB",
            hint="Send a shorter statement, for example with fewer constants in IN (...).",
        )
    tokens = _tokens(text)
    if not tokens:
        return Statement(Verdict.RELAY, False, text)
    _refuse_deep(tokens)
    _refuse_several(tokens)
    word = tokens[0].text.upper()
    if word in WRITES:
        raise Refusal(
            "25006",
            f"cannot execute {word}: dpproxy answers questions and changes nothing",
            hint="Ask with SELECT; the data owner changes data in the backend.",
            position=tokens[0].start + 1,
        )
    if word in REFUSED:
        raise Refusal(
            "0A000", f"{word} is not supported by dpproxy", hint="Send the query itself.", position=1
        )
    if word in ("SET", "RESET"):
        _check_setting(tokens)
    if word == "EXPLAIN":
        return _explain(text, tokens, guarded)
    names = [t for t in tokens if t.text.lower() in guarded and t.token_type is not TokenType.STRING]
    if word in QUERY and names:
        return Statement(Verdict.PRIVATE, False, text)
    if word in ("DECLARE", "COPY", "PREPARE") and names:
        raise Refusal(
            "0A000",
            f"{word} over private tables is not supported yet",
            hint="Send the SELECT itself; a driver's fetch size works with it.",
            position=names[0].start + 1,
        )
    return Statement(Verdict.RELAY, False, text)


class _Tokenizer(Postgres.Tokenizer):
    """PostgreSQL's tokens throughout: sqlglot would take the rest of a DECLARE or EXPLAIN as one string."""

    COMMANDS: ClassVar[set[TokenType]] = set()


def _tokens(text: str) -> list[Token]:
    try:
        return _Tokenizer().tokenize(text)
    except (SqlglotError, RecursionError, ValueError) as error:
        raise Refusal(
            "42601", "the statement could not be read", hint="Check quotes and comments."
        ) from error


def _refuse_deep(tokens: list[Token]) -> None:
    depth = 0
    for token in tokens:
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if depth > MAX_NESTING:
            raise Refusal(
                "54001", f"parentheses are nested deeper than {MAX_NESTING}", position=token.start + 1
            )


def _refuse_several(tokens: list[Token]) -> None:
    ends = [i for i, t in enumerate(tokens) if t.token_type is TokenType.SEMICOLON]
    if (
        ends
        and ends[0] + 1 < len(tokens)
        and any(t.token_type is not TokenType.SEMICOLON for t in tokens[ends[0] :])
    ):
        raise Refusal(
            "0A000",
            "several statements in one string are not supported",
            hint="Send one statement at a time.",
            position=tokens[ends[0]].start + 1,
        )


def _check_setting(tokens: list[Token]) -> None:
    words = [t.text for t in tokens[1:]]
    if words and words[0].upper() in ("SESSION", "LOCAL"):
        words = words[1:]
    name = "".join(words[:3]).lower() if len(words) > 2 and words[1] == "." else (words or [""])[0].lower()
    value = "".join(words[1:]).strip("=").upper()
    if value.startswith("TO"):
        value = value[2:]
    if tokens[0].text.upper() == "RESET" and name == "all":
        return
    if name not in SETTINGS:
        raise Refusal(
            "42501",
            f'setting "{name}" cannot be changed through dpproxy',
            hint="dpproxy.notices and dpproxy.spend are its own settings; drivers' usual ones are accepted.",
            position=tokens[0].start + 1,
        )
    if name in ("client_encoding", "names") and value not in ("UTF8", "UTF-8", "UNICODE", "DEFAULT"):
        raise Refusal("0A000", "client_encoding must be UTF8", hint="SET client_encoding TO 'UTF8'")
    if name == "client_min_messages" and value.startswith("DEBUG"):
        raise Refusal("42501", "debug messages are not available", hint="SET client_min_messages TO notice")


def _explain(text: str, tokens: list[Token], guarded: Collection[str]) -> Statement:
    start = 1
    words = [t.text.upper() for t in tokens]
    options: set[str] = set()
    if words[1:2] == ["("]:
        close = words.index(")") if ")" in words else len(words) - 1
        options, start = set(words[2:close]), close + 1
    while start < len(words) and words[start] in ("ANALYZE", "VERBOSE"):
        options.add(words[start])
        start += 1
    private = any(t.text.lower() in guarded and t.token_type is not TokenType.STRING for t in tokens[start:])
    if not private:
        return Statement(Verdict.RELAY, False, text)
    if "ANALYZE" in options:
        raise Refusal(
            "0A000", "EXPLAIN ANALYZE would run the query", hint="Use EXPLAIN: it prices without running."
        )
    offset = tokens[start].start
    return Statement(Verdict.PRIVATE, True, text[offset:], offset)
