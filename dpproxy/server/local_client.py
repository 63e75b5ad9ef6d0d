"""A small client of our own: one statement, for commands that work without a running server."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable

from dpproxy.pgwire import messages as m
from dpproxy.pgwire.startup import startup_packet
from dpproxy.reporting.rows import RowSet
from dpproxy.server.login import FrontFailed, log_in_at_front
from dpproxy.server.transport import Address, Channel, ConnectionEnded
from dpproxy.telemetry.progress import Progress

_LIMITS = dict.fromkeys(b"RSKENZTDCIAGHdc", 1 << 30)
_END_SESSIONS = (
    "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity"
    " WHERE usename = current_user AND pid <> pg_catalog.pg_backend_pid()"
)
_NULL = -1


class ClientError(Exception):
    """An error of the server, with its SQLSTATE, message, detail and hint."""

    def __init__(self, fields: dict[str, str]) -> None:
        super().__init__(fields)
        self.message = fields.get("M", "the connection was closed")
        self.code = fields.get("C", "08006")
        self.detail = fields.get("D")
        self.hint = fields.get("H")

    def __str__(self) -> str:
        return self.message

    @property
    def line(self) -> str:
        """All of it on one line.

        >>> ClientError({"C": "PV010", "M": "no rows leave", "H": "count them"}).line
        'no rows leave (count them) [PV010]'
        """
        more = "; ".join(part for part in (self.detail, self.hint) if part)
        text = f"{self.message} ({more}) [{self.code}]" if more else f"{self.message} [{self.code}]"
        return " ".join(text.split())


def unheard(progress: Progress) -> None:
    """Ignores progress."""


async def ask(
    connection: socket.socket, user: str, statement: str, heard: Callable[[Progress], None] = unheard
) -> RowSet:
    """Logs in without a password, runs one statement by the simple protocol, hangs up; raises ClientError.

    `heard`: called with the progress of a long statement, which is not part of the answer's notices.
    """
    loop = asyncio.get_running_loop()
    _, channel = await loop.create_connection(lambda: Channel(m.Inbound(_LIMITS)), sock=connection)
    try:
        channel.send(startup_packet({"user": user, "database": "dpproxy", "application_name": "dpproxy"}))
        await _answer(channel)
        channel.send(m.message("Q", m.cstring(statement)))
        return await _answer(channel, heard)
    except (ConnectionEnded, m.ProtocolError):
        raise ClientError({}) from None
    finally:
        channel.send(m.message("X"))
        await _hang_up(channel)


async def end_sessions(address: Address, database: str, role: str, password: str) -> None:
    """Ends every session of a front's role, which may end its own; raises ClientError."""
    try:
        channel = (await log_in_at_front(address, database, role, password, {})).channel
    except FrontFailed as failure:
        raise ClientError(m.split_fields(failure.raw)) from None
    channel.inbound.limits = _LIMITS
    try:
        channel.send(m.message("Q", m.cstring(_END_SESSIONS)))
        await _answer(channel)
    except (ConnectionEnded, m.ProtocolError):
        raise ClientError({}) from None
    finally:
        await _hang_up(channel)


async def _hang_up(channel: Channel) -> None:
    """Closes and waits for the end, which may be that of the event loop too."""
    channel.close()
    await channel.closed


async def _answer(channel: Channel, heard: Callable[[Progress], None] = unheard) -> RowSet:
    result = RowSet()
    failure: ClientError | None = None
    while True:
        kind, body = await channel.message()
        match chr(kind):
            case "Z":
                if failure is not None:
                    raise failure
                return result
            case "E":
                raw = m.message("E", body)
                failure = ClientError(m.split_fields(raw))
                if m.is_fatal(raw):
                    raise failure
            case "N":
                notice = m.split_fields(m.message("N", body)).get("M", "")
                progress = Progress.read(notice)
                if progress is None:
                    result.notices.append(notice)
                else:
                    heard(progress)
            case "T":
                result.columns, result.oids = _columns(body)
            case "D":
                result.rows.append(_row(body))


def _columns(body: bytes) -> tuple[list[str], list[int]]:
    (count,) = struct.unpack_from(">H", body)
    names, oids, rest = [], [], body[2:]
    for _ in range(count):
        name, _, rest = rest.partition(b"\0")
        names.append(name.decode())
        oids.append(struct.unpack_from(">I", rest, 6)[0])
        rest = rest[18:]
    return names, oids


def _row(body: bytes) -> tuple[str | None, ...]:
    (count,) = struct.unpack_from(">H", body)
    values: list[str | None] = []
    position = 2
    for _ in range(count):
        (length,) = struct.unpack_from(">i", body, position)
        position += 4
        values.append(None if length == _NULL else body[position : position + length].decode())
        position += max(length, 0)
    return tuple(values)
