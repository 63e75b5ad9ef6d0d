"""The privacy step as the relay sees it: what is asked for, what comes back, and what of it errors may show."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from dpproxy.pgwire import messages as m
from dpproxy.pgwire.pending import Entry
from rewriter.refusal import Refusal

RESERVED = "dpproxy:"
"""Names of statements and portals that begin like this are the proxy's own."""
SETTINGS = (
    "dpproxy.notices",
    "dpproxy.spend",
    "dpproxy.query_information",
    "dpproxy.query_calls",
    "dpproxy.distinct",
    "dpproxy.error_columns",
    "datestyle",
    "timezone",
    "intervalstyle",
    "search_path",
    "statement_timeout",
)
"""What a step is told of the session's settings."""


_FETCHES = re.compile(r"(\s|--[^\n]*\n|/\*.*?\*/)*(fetch|move)\b", re.IGNORECASE | re.DOTALL)


class Prepared(Protocol):
    """A private statement, planned: the text for the front and the types of the arrays that it takes."""

    @property
    def presentation(self) -> str:
        """Parameters $1..$n are the client's own; the arrays follow."""

    @property
    def array_oids(self) -> tuple[int, ...]:
        """1016 (int8[]) or 1009 (text[]) each."""


class Answer(Protocol):
    """What a step released."""

    @property
    def arrays(self) -> tuple[bytes, ...]:
        """The arrays, in binary."""

    @property
    def notices(self) -> tuple[str, ...]:
        """To be said before the rows."""


@dataclass(frozen=True)
class Prepare:
    """Work to be done outside: plan a private statement (gives a Prepared)."""

    text: str
    oids: tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """Work to be done outside: the privacy step itself (gives an Answer).

    The session's statement_timeout is among the settings: the front raises it only when the step is over.
    """

    text: str
    oids: tuple[int, ...]
    parameters: tuple[str | None, ...]
    settings: Mapping[str, str]


class Wait:
    """Wait until the front has answered everything sent so far."""


class Skipped(Exception):
    """The front failed: nothing more happens until the client's next Sync."""


@dataclass(frozen=True)
class Statement:
    """A prepared statement of the client."""

    text: str
    private: bool

    @property
    def fetches(self) -> bool:
        """Whether it reads a portal by its name.

        >>> [Statement(text, False).fetches for text in ("/* c */ Fetch 1 FROM p", "SELECT 1")]
        [True, False]
        """
        return _FETCHES.match(self.text) is not None


@dataclass
class Portal:
    """A portal of the client; `answered`: the released arrays are bound, or it was never private."""

    statement: Statement
    oids: tuple[int, ...]
    values: m.Values
    results: bytes
    prepared: Prepared
    answered: bool = False

    def empty_arrays(self) -> list[bytes]:
        """What the presentation is bound with before the step."""
        return [m.empty_array(oid) for oid in self.prepared.array_oids]


_POINTS = "Ppq"
_WHERE = "WFLR"


def cleaned(raw: bytes, head: Entry) -> bytes:
    """An error of the proxy's own text: without what points into that text, with a refusal's position."""
    dropped = _POINTS if head.shown else _POINTS + _WHERE
    fields = {name: text for name, text in m.split_fields(raw).items() if name not in dropped}
    refusal = head.refusal
    if refusal is not None and refusal.position is not None and fields.get("C") == refusal.code:
        fields["P"] = str(refusal.position)
    return m.join_fields("E", fields)


def unplaced(raw: bytes) -> bytes:
    """A notice of the proxy's own text, without where in the front it was raised."""
    fields = m.split_fields(raw)
    return m.join_fields("N", {name: text for name, text in fields.items() if name not in _WHERE})


def question(parameters: int) -> str:
    """The statement by which the front says a portal's parameters, in one form, and the session's settings."""
    texts = [f"dpproxy.text_of(${i + 1})" for i in range(parameters)]
    texts += [f"pg_catalog.current_setting('{name}', true)" for name in SETTINGS]
    return f"SELECT ARRAY[{', '.join(texts)}]::pg_catalog.text[]"


def read_parameters(rows: bytes, count: int) -> tuple[tuple[str | None, ...], dict[str, str]]:
    """What the front said to `question`: the parameters and the settings that are set."""
    texts = m.split_text_array(m.first_value(rows))
    settings = {name: text for name, text in zip(SETTINGS, texts[count:], strict=True) if text}
    return texts[:count], settings


def strings(body: bytes, count: int) -> tuple[list[str], bytes]:
    """The first strings of a client's message and the rest; what is malformed is refused like any statement."""
    try:
        return m.split_cstrings(body, count)
    except m.ProtocolError as error:
        raise Refusal(error.code, error.message) from None


def only_text(body: bytes) -> str:
    """The text of a simple query; raises Refusal."""
    (text,), rest = strings(body, 1)
    if rest:
        raise Refusal("08P01", "invalid message format")
    return text


def check_names(*names: str) -> None:
    """Raises Refusal for names that are the proxy's own."""
    for name in names:
        if name.startswith(RESERVED):
            raise Refusal("42939", f'names that begin with "{RESERVED}" are reserved')
