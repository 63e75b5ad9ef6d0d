"""The owner's session by `psql -U owner -d dpproxy`: what goes on, in PgBouncer's words; no statement and no row.

Simple queries only, each one command. The owner proves who they are by the console's password, inside of TLS. So does
an auditor, who is shown budgets, limits and settings, and changes nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from dpproxy.pgwire import messages as m
from dpproxy.server.login import AUTHENTICATION_OK
from dpproxy.server.transport import Channel
from mechanisms.randomness import random_bytes
from rewriter.refusal import Refusal

DATABASE = "dpproxy"
MOST = 10
"""Sessions of owners in one process."""
HELP = (
    ("SHOW SESSIONS", "sessions of analysts, with the ids that KILL takes; also SHOW CLIENTS"),
    ("SHOW STATS", "statements, releases, charges and refusals since the start"),
    ("SHOW POOLS", "sessions and slots of the backend in use"),
    ("SHOW BUDGETS", "accounts, in units"),
    ("SHOW LIMITS", "the limits that each account has had, and since when"),
    (
        "SHOW FAILURES",
        "statements that failed at the backend, without its messages: dpproxy failures has them",
    ),
    ("SHOW PLANS", "what is remembered of statements, by process"),
    ("SHOW CONFIG", "settings; those of which reloadable is yes are changed by RELOAD"),
    ("SHOW VERSION", "version of dpproxy"),
    ("RELOAD", "read dpproxy.toml again; a mistake changes nothing"),
    ("PAUSE", "buy nothing; paid answers are replayed, new questions wait for a minute"),
    ("RESUME", "buy again"),
    ("KILL id", "end a session; what its statement has cost stays charged"),
    ("SHUTDOWN", "answer what runs, then end; also DRAIN"),
)
AUDITED = frozenset(["HELP", "STATS", "POOLS", "BUDGETS", "LIMITS", "FAILURES", "PLANS", "CONFIG", "VERSION"])
"""What an auditor is shown."""
_TEXT_OID = 25
_STATUSES = (
    *(("server_version", "17.0 (dpproxy)"), ("server_encoding", "UTF8"), ("client_encoding", "UTF8")),
    *(("DateStyle", "ISO, YMD"), ("TimeZone", "UTC"), ("integer_datetimes", "on")),
    *(("standard_conforming_strings", "on"), ("is_superuser", "off")),
)


@dataclass(frozen=True)
class Rows:
    """The answer to a command: a table, or only its `tag`."""

    tag: str
    names: Sequence[str] = ()
    rows: Sequence[Sequence[str | None]] = ()


class Administration(Protocol):
    """What the owner's session is told by the deployment; every method may block."""

    def exists(self, role: str) -> bool:
        """Whether a role has a password."""

    def holds(self, role: str, password: str) -> bool:
        """Whether it is the password of a role; False where there is none."""

    def show(self, subject: str) -> Rows:
        """STATS, POOLS, BUDGETS, LIMITS, FAILURES, CONFIG or VERSION; raises Refusal for any other."""

    def tell(self, word: str) -> None:
        """Has the owner process reload, pause, resume or shut down; raises Refusal with the reason why it has not."""


async def administer(channel: Channel, role: str, answer: Callable[[str], Awaitable[Rows]]) -> None:
    """Answers commands until the client ends the session; raises ProtocolError, ConnectionEnded.

    `answer`: of one command; raises Refusal.
    """
    channel.inbound.limits = m.CLIENT_LIMITS
    statuses = b"".join(m.message("S", m.cstring(name) + m.cstring(value)) for name, value in _STATUSES)
    ready = m.message("Z", b"I")
    statuses += m.message("S", m.cstring("session_authorization") + m.cstring(role))
    channel.send(AUTHENTICATION_OK + statuses + m.message("K", random_bytes(8)) + ready)
    skipping = False
    while True:
        kind, body = await channel.message()
        if kind == ord("X"):
            return
        if kind == ord("Q"):
            channel.send(await _answered(body, answer) + ready)
        elif kind == ord("S"):
            skipping = False
            channel.send(ready)
        elif not skipping:
            skipping = True
            channel.send(m.error("0A000", "this session takes simple queries", hint="Connect with psql."))


async def _answered(body: bytes, answer: Callable[[str], Awaitable[Rows]]) -> bytes:
    try:
        (text,), _ = m.split_cstrings(body, 1)
        command = " ".join(text.replace(";", " ").split())
        if not command:
            return m.message("I")
        found = await answer(command)
    except Refusal as refusal:
        return m.error(refusal.code, refusal.message, hint=refusal.hint)
    tag = m.message("C", m.cstring(found.tag))
    return (_described(found.names) + b"".join(map(_row, found.rows)) if found.names else b"") + tag


def _described(names: Sequence[str]) -> bytes:
    columns = (m.cstring(name) + struct.pack(">ihihih", 0, 0, _TEXT_OID, -1, -1, 0) for name in names)
    return m.message("T", struct.pack(">h", len(names)) + b"".join(columns))


def _row(values: Sequence[str | None]) -> bytes:
    texts = [None if value is None else value.encode(errors="replace") for value in values]
    return m.message("D", struct.pack(">h", len(texts)) + m.encoded(texts))
