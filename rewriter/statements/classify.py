"""What kind of statement a text is, decided from its words alone: before any parser of SQL proper.

In:  EXPLAIN SELECT COUNT(*) FROM users
Out: private, an EXPLAIN, whose query is SELECT COUNT(*) FROM users
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from rewriter.refusal import Refusal
from rewriter.statements.lexer import Token, tokens
from rewriter.statements.published_table import SCHEMA as PUBLISHED
from rewriter.statements.published_table import publication
from rewriter.statements.set_statement import check_setting
from rewriter.statements.utility_statement import utility


class Verdict(StrEnum):
    """How a statement is handled: by the front, by the privacy step, or as a change of published answers."""

    RELAY = "relay"
    PRIVATE = "private"
    PUBLISH = "publish"


@dataclass(frozen=True)
class ClassifiedStatement:
    """One classified statement; `body` is the query in an EXPLAIN, DECLARE, COPY or PREPARE, else the text
    itself, and `offset` where it begins in the text. `explain`: the format of an EXPLAIN."""

    verdict: Verdict
    explain: Literal["TEXT", "JSON"] | None
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
_CARRIERS = {
    "DECLARE": "DECLARE CURSOR for an aggregate query",
    "COPY": "COPY TO STDOUT of an aggregate query in parentheses",
    "PREPARE": "PREPARE of an aggregate query",
}
_OFF = ("OFF", "FALSE", "0")


def classify(text: str, guarded: Collection[str]) -> ClassifiedStatement:
    """How `text` is to be handled; `guarded` are the lower-case names of the relations that the front guards.

    Raises Refusal for statements that no analyst may send. A private read that this function misses fails
    in the front, whose tables carry a guard.

    >>> classify("SELECT 1", {"users"}).verdict.value
    'relay'
    >>> classify("select count(*) from Users", {"users"}).verdict.value
    'private'
    """
    found = tokens(text)
    if not found:
        return ClassifiedStatement(Verdict.RELAY, None, text)
    _refuse_several(found)
    word = found[0].word
    if word in WRITES:
        if publication(text) is not None:
            return ClassifiedStatement(Verdict.PUBLISH, None, text)
        raise Refusal(
            "25006",
            f"cannot execute {word}: dpproxy answers queries and changes no data",
            hint="Send a SELECT, or publish its answer by CREATE TABLE in the schema published; the data owner changes "
            "data in the backend.",
            position=found[0].start + 1,
        )
    if word in REFUSED:
        raise Refusal(
            "0A000", f"{word} is not supported by dpproxy", hint="Send the query itself.", position=1
        )
    if word in ("SET", "RESET"):
        check_setting(found)
    if word == "EXPLAIN":
        return _explain(text, found, guarded)
    names = _names(found, guarded)
    if word in QUERY and names:
        return ClassifiedStatement(Verdict.PRIVATE, None, text)
    if word in _CARRIERS and names:
        return _carried(text, word, names[0])
    return ClassifiedStatement(Verdict.RELAY, None, text)


def _names(found: Sequence[Token], guarded: Collection[str]) -> list[Token]:
    """Where the text names guarded relations; empty for a statement that reads catalogs or published answers.

    Such a statement is the front's: the guard refuses it if it reads private tables as well, and an alias that
    is called like one keeps no tool from its catalogs, and no dashboard from its answers.
    """
    named: list[Token] = []
    for token, following in zip(found, [*found[1:], None], strict=True):
        name = (token.name or "").lower()
        if name and _is_the_fronts(name, following):
            return []
        if name in guarded:
            named.append(token)
    return named


def _is_the_fronts(name: str, following: Token | None) -> bool:
    called = following is not None and following.text in ("(", ".")
    if name == PUBLISHED and called:
        return True
    return name == "information_schema" or (name.startswith("pg_") and not called)


def _refuse_several(found: Sequence[Token]) -> None:
    ends = [i for i, t in enumerate(found) if t.text == ";"]
    if ends and any(t.text != ";" for t in found[ends[0] :]):
        raise Refusal(
            "42601",
            "cannot insert multiple commands into a prepared statement",
            hint="Send one statement at a time, or all of them as a simple query.",
            position=found[ends[0]].start + 1,
        )


def _carried(text: str, word: str, name: Token) -> ClassifiedStatement:
    """A statement with a query on private tables in it."""
    carrier = utility(text)
    body = tokens(carrier.body) if carrier is not None else []
    if carrier is None or not body or body[0].word not in QUERY:
        raise Refusal(
            "0A000",
            f"this {word} over private tables is not supported",
            hint=f"Send {_CARRIERS[word]}.",
            position=name.start + 1,
        )
    return ClassifiedStatement(Verdict.PRIVATE, None, carrier.body, carrier.offset)


def _explain(text: str, found: Sequence[Token], guarded: Collection[str]) -> ClassifiedStatement:
    start = 1
    words = [t.word for t in found]
    options: dict[str, str] = {}
    if words[1:2] == ["("]:
        close = words.index(")") if ")" in words else len(words) - 1
        options, start = _options(words[2:close]), close + 1
    while start < len(words) and words[start] in ("ANALYZE", "ANALYSE", "VERBOSE"):
        options[words[start]] = ""
        start += 1
    if not _names(found[start:], guarded):
        return ClassifiedStatement(Verdict.RELAY, None, text)
    if options.get("ANALYZE", options.get("ANALYSE", "OFF")) not in _OFF:
        raise Refusal(
            "0A000",
            "EXPLAIN ANALYZE would run the query",
            hint="Use EXPLAIN: it shows the price without running the query.",
            position=found[1].start + 1,
        )
    if options.get("FORMAT", "TEXT") not in ("TEXT", "JSON"):
        raise Refusal(
            "0A000",
            f"EXPLAIN (FORMAT {options['FORMAT']}) of a private query is not supported",
            hint="Use EXPLAIN (FORMAT JSON), or EXPLAIN alone.",
            position=found[1].start + 1,
        )
    form: Literal["TEXT", "JSON"] = "JSON" if options.get("FORMAT") == "JSON" else "TEXT"
    return _explained(text, found[start], words[start], form)


def _options(words: Sequence[str]) -> dict[str, str]:
    """EXPLAIN's options in parentheses, each with its value, empty where it has none."""
    options, name = {}, ""
    for word in words:
        if word == ",":
            name = ""
        elif name:
            options[name] = word
        else:
            name = word
            options[name] = ""
    return options


def _explained(text: str, first: Token, word: str, form: Literal["TEXT", "JSON"]) -> ClassifiedStatement:
    offset = first.start
    carrier = utility(text[offset:]) if word == "DECLARE" else None
    if carrier is not None:
        return ClassifiedStatement(Verdict.PRIVATE, form, carrier.body, offset + carrier.offset)
    if word not in QUERY:
        raise Refusal(
            "0A000",
            f"EXPLAIN {word} over private tables is not supported",
            hint="Use EXPLAIN with the SELECT itself.",
            position=offset + 1,
        )
    return ClassifiedStatement(Verdict.PRIVATE, form, text[offset:], offset)
