"""What an analyst may SET: by name, and for a few settings by value."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token

from rewriter.refusal import Refusal

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
        "dpproxy.distinct",
        "dpproxy.error_columns",
        "dpproxy.notices",
        "dpproxy.query_calls",
        "dpproxy.query_information",
        "dpproxy.refresh",
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


def check_setting(tokens: Sequence[Token]) -> None:
    """Raises Refusal for a SET or RESET that no analyst may send; `tokens` are the whole statement's."""
    words = [t.text for t in tokens[1:]]
    if words and words[0].upper() in ("SESSION", "LOCAL"):
        words = words[1:]
    name = "".join(words[:3]).lower() if len(words) > 2 and words[1] == "." else (words or [""])[0].lower()
    value = "".join(words[1:]).strip("=").upper()
    if value.startswith("TO"):
        value = value[2:]
    if tokens[0].text.upper() == "RESET" and name == "all":
        return
    resets = tokens[0].text.upper() == "RESET" or value == "DEFAULT"
    if name == "role" or (name == "authorization" and resets):
        # Which role, the session decides: it knows whose it is.
        return
    if name not in SETTINGS:
        raise Refusal(
            "42501",
            f'setting "{name}" cannot be changed through dpproxy',
            hint="Its own settings are dpproxy.spend, dpproxy.query_information, dpproxy.query_calls, "
            "dpproxy.distinct, dpproxy.error_columns, dpproxy.refresh and dpproxy.notices; drivers' usual ones are "
            "accepted.",
            position=tokens[0].start + 1,
        )
    if name in ("client_encoding", "names") and value not in ("UTF8", "UTF-8", "UNICODE", "DEFAULT"):
        raise Refusal("0A000", "client_encoding must be UTF8", hint="SET client_encoding TO 'UTF8'")
    if name == "standard_conforming_strings" and value not in ("ON", "TRUE", "YES", "1", "DEFAULT"):
        raise Refusal(
            "0A000",
            "standard_conforming_strings must be on: statements are read that way",
            hint="SET standard_conforming_strings TO on",
        )
    if name == "client_min_messages" and value.startswith("DEBUG"):
        raise Refusal("42501", "debug messages are not available", hint="SET client_min_messages TO notice")
