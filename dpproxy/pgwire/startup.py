"""The startup packet: which settings a client may send, and which are passed on to the front."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dpproxy.pgwire.messages import (
    PROTOCOL_3_0,
    PROTOCOL_3_2,
    ProtocolError,
    cstring,
    message,
    split_cstrings,
)
from rewriter.refusal import Refusal
from rewriter.statements import set_statement

SETTINGS = (set_statement.SETTINGS | {"role"}) - {
    "characteristics",
    "client_encoding",
    "constraints",
    "names",
    "time",
    "transaction",
    "transaction_isolation",
    "transaction_read_only",
}
"""Settings that a startup packet may bring along, besides client_encoding: those of SET that are settings, and the
role, which is then checked as SET ROLE is."""
NAME_BYTES = 63
_UTF8 = {"utf8", "unicode", "sqlascii"}
_OFF = {"false", "off", "no", "0"}
_READ_WITH = {b"client_encoding": b"UTF8", b"standard_conforming_strings": b"on"}
_UNITS = {"": 1, "ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True)
class Startup:
    """A client's startup packet: `settings` are for the front, `unknown` are unknown protocol options.

    `asked`: the protocol version that the client asks for, as a number.
    """

    user: str
    database: str
    settings: Mapping[str, str]
    asked: int
    unknown: tuple[str, ...]

    @property
    def negotiation(self) -> bytes:
        """The NegotiateProtocolVersion that is due, or nothing."""
        if self.asked <= PROTOCOL_3_2 and not self.unknown:
            return b""
        names = b"".join(map(cstring, self.unknown))
        return message("v", struct.pack(">ii", self.version, len(self.unknown)) + names)

    @property
    def version(self) -> int:
        """The version that is spoken: at most 3.2."""
        return min(self.asked, PROTOCOL_3_2)

    @property
    def secret_bytes(self) -> int:
        """How long the secret is that cancels: protocol 3.0 has room for 4 bytes only."""
        return 32 if self.version >= PROTOCOL_3_2 else 4


def read_startup(code: int, body: bytes, statement_timeout: float) -> Startup:
    """Reads a startup packet.

    `statement_timeout`: seconds; clients may only ask for less. Raises Refusal for what is not served,
    ProtocolError for what is no startup packet.

    >>> packet = startup_packet({"user": "ann", "options": "-c dpproxy.notices=off"})
    >>> read_startup(PROTOCOL_3_0, packet[8:], 300.0).settings["dpproxy.notices"]
    'off'
    """
    if code >> 16 != 3:
        raise Refusal(
            "0A000", f"unsupported frontend protocol {code >> 16}.{code & 0xFFFF}: 3.0 to 3.2 are supported"
        )
    given = dict(_pairs(body))
    user = given.pop("user", "")
    if not user:
        raise Refusal("28000", "no user name specified in startup packet")
    if len(user.encode()) > NAME_BYTES or user.startswith("pg_"):
        raise Refusal("28000", "this name is not for analysts: it is reserved or longer than 63 bytes")
    database = given.pop("database", user)
    unknown = tuple(name for name in given if name.startswith("_pq_."))
    for name in unknown:
        del given[name]
    wanted = {**dict(_options(given.pop("options", ""))), **{k.lower(): v for k, v in given.items()}}
    settings = {"client_encoding": "UTF8", "statement_timeout": f"{int(statement_timeout * 1000)}"}
    for name, value in wanted.items():
        settings.update(_setting(name, value, statement_timeout))
    return Startup(user, database, settings, code, unknown)


def startup_packet(parameters: Mapping[str, str]) -> bytes:
    """A startup packet of protocol 3.0."""
    pairs = b"".join(cstring(name) + cstring(value) for name, value in parameters.items()) + b"\0"
    return struct.pack(">ii", len(pairs) + 8, PROTOCOL_3_0) + pairs


def _pairs(body: bytes) -> Iterator[tuple[str, str]]:
    while body != b"\0":
        (name, value), body = split_cstrings(body, 2)
        if not name or not body:
            raise ProtocolError("invalid startup packet layout: expected terminator as last byte")
        yield name, value


def _options(text: str) -> Iterator[tuple[str, str]]:
    """The settings in `options`, as the postgres command takes them: -c a=b, -ca=b, --a=b."""
    words = [re.sub(r"\\(.)", r"\1", word) for word in re.findall(r"(?:\\.|[^\s\\])+", text)]
    while words:
        word = words.pop(0)
        if word == "-c" and words:
            word += words.pop(0)
        match = re.fullmatch(r"(?:-c|--)([^=]+)=(.*)", word, re.DOTALL)
        if match is None:
            raise Refusal("42601", "invalid command-line argument for server process in options")
        yield match[1].replace("-", "_").lower(), match[2]


def _setting(name: str, value: str, statement_timeout: float) -> dict[str, str]:
    if name == "replication" and value.lower() in _OFF:
        return {}
    if name == "client_encoding":
        if re.sub("[^a-z0-9]", "", value.lower()) not in _UTF8:
            raise Refusal("0A000", "client_encoding must be UTF8")
        return {}
    if name == "statement_timeout":
        asked = milliseconds(value)
        return {name: str(asked)} if 0 < asked < statement_timeout * 1000 else {}
    if name == "standard_conforming_strings" and not set_statement.allowed_value(name, value):
        raise Refusal("0A000", "standard_conforming_strings must be on")
    if name in SETTINGS and set_statement.allowed_value(name, value):
        return {name: value}
    shown = re.sub("[^a-z0-9_.]", "?", name)[:NAME_BYTES]
    raise Refusal(
        "42501",
        f'parameter "{shown}" cannot be set at connection start',
        hint=f"Allowed are client_encoding, {', '.join(sorted(SETTINGS))}",
    )


def check_status(body: bytes) -> None:
    """Checks a ParameterStatus of the front; raises ProtocolError (0A000) if the front would read statements otherwise
    than the proxy does.

    >>> check_status(b"standard_conforming_strings\\0off\\0")
    Traceback (most recent call last):
    ...
    dpproxy.pgwire.messages.ProtocolError: standard_conforming_strings must be on
    """
    name, _, value = body[:-1].partition(b"\0")
    wanted = _READ_WITH.get(name, value)
    if value != wanted:
        raise ProtocolError(f"{name.decode()} must be {wanted.decode()}", "0A000")


def milliseconds(value: str) -> int:
    """A timeout as PostgreSQL writes it; raises Refusal 22023.

    >>> milliseconds("5min"), milliseconds("200ms"), milliseconds("0")
    (300000, 200, 0)
    """
    match = re.fullmatch(r"\s*(\d{1,10})\s*(ms|s|min|h|d|)\s*", value)
    if match is None:
        raise Refusal("22023", 'invalid value for parameter "statement_timeout"')
    return int(match[1]) * _UNITS[match[2]]
