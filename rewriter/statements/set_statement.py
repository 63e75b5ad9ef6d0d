"""What an analyst may SET: by name, and for a few settings by value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from rewriter.refusal import Refusal
from rewriter.statements.lexer import Token, TokenKind

ERROR_COLUMNS = "dpproxy.error_columns"
ROLE = "role"

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
        "dpproxy.distinct_values",
        "dpproxy.error",
        "dpproxy.error_columns",
        "dpproxy.max_cost",
        "dpproxy.most_units",
        "dpproxy.notices",
        "dpproxy.price_first",
        "dpproxy.query_calls",
        "dpproxy.query_information",
        "dpproxy.refresh",
        "dpproxy.reuse",
        "dpproxy.spend",
        "dpproxy.units",
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


VALUES = {
    "client_encoding": ("utf8", "utf-8", "unicode"),
    "names": ("utf8", "utf-8", "unicode"),
    "standard_conforming_strings": ("on", "true", "yes", "1"),
    "client_min_messages": ("log", "info", "notice", "warning", "error", "fatal", "panic"),
}
"""What the settings may be that decide how a statement is read, or what a server says of itself."""
_WANTED = {
    "client_encoding": ("client_encoding must be UTF8", "Write `SET client_encoding TO 'UTF8'`."),
    "names": ("client_encoding must be UTF8", "Write `SET NAMES 'UTF8'`."),
    "standard_conforming_strings": (
        "standard_conforming_strings must be on: statements are read that way",
        "Write `SET standard_conforming_strings TO on`.",
    ),
    "client_min_messages": ("debug messages are not available", "Write `SET client_min_messages TO notice`."),
}


def allowed_value(name: str, value: str) -> bool:
    """Whether a setting may have a value: the checked ones only those of a list, whatever else PostgreSQL takes.

    >>> allowed_value("standard_conforming_strings", "ON"), allowed_value("standard_conforming_strings", "of")
    (True, False)
    """
    return name not in VALUES or value.lower() in VALUES[name]


def check_setting(tokens: Sequence[Token]) -> None:
    """Raises Refusal for a SET or RESET that no analyst may send; `tokens` are the whole statement's."""
    resets = tokens[0].word == "RESET"
    rest = [token for token in tokens[1:] if token.text != ";"]
    if rest and rest[0].word in ("SESSION", "LOCAL"):
        rest = rest[1:]
    parts = 3 if len(rest) > 2 and rest[1].text == "." else 1
    name = "".join(token.name or token.text for token in rest[:parts]).lower()
    value = rest[parts:]
    if value and value[0].word in ("=", "TO"):
        value = value[1:]
    resets = resets or not value or [token.word for token in value] == ["DEFAULT"]
    if tokens[0].word == "RESET" and name == "all":
        return
    if name == "role" or (name == "authorization" and resets):
        # The session checks the role, because it knows its own login.
        return
    if name not in SETTINGS:
        raise Refusal(
            "42501",
            f'setting "{name}" cannot be changed through dpproxy',
            hint="Its own settings are dpproxy.units, dpproxy.error, dpproxy.most_units, dpproxy.max_cost, "
            "dpproxy.price_first, dpproxy.reuse, dpproxy.spend, "
            "dpproxy.query_information, dpproxy.query_calls, dpproxy.distinct_values, dpproxy.error_columns, "
            "dpproxy.refresh and dpproxy.notices; drivers' usual ones are accepted.",
            position=tokens[0].start + 1,
        )
    if not (resets or allowed_value(name, _said(value))):
        message, hint = _WANTED[name]
        code = "42501" if name == "client_min_messages" else "0A000"
        raise Refusal(code, message, hint=hint, position=value[0].start + 1)


def _said(value: Sequence[Token]) -> str:
    """The value if it is a single plain token, else "": the value of E'' or U&'' may differ from its text."""
    if len(value) != 1:
        return ""
    return value[0].value or value[0].name or ("" if value[0].kind is TokenKind.CODED else value[0].text)


def hears(settings: Mapping[str, str], level: Literal["notice", "warning"]) -> bool:
    """Whether client_min_messages lets a NOTICE or a WARNING through."""
    least = settings.get("client_min_messages", "notice").lower()
    return least not in ("error", "fatal", "panic") and (least != "warning" or level == "warning")
