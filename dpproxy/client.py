"""A small client of our own: one statement over a connected socket, for the commands that need no server."""

from __future__ import annotations

import itertools
import socket
import struct
from dataclasses import dataclass, field
from typing import BinaryIO

from dpproxy.pgwire.messages import PROTOCOL_3_0, cstring, message, split_fields

_NULL = -1


class ClientError(Exception):
    """What the other side refused or failed with, by its SQLSTATE, message, detail and hint."""

    def __init__(self, fields: dict[str, str]) -> None:
        super().__init__(fields.get("M", "the connection was closed"))
        self.code = fields.get("C", "08006")
        self.detail = fields.get("D")
        self.hint = fields.get("H")

    @property
    def line(self) -> str:
        """All of it on one line.

        >>> ClientError({"C": "PV010", "M": "no rows leave", "H": "count them"}).line
        'no rows leave (count them) [PV010]'
        """
        more = "; ".join(part for part in (self.detail, self.hint) if part)
        text = f"{self.args[0]} ({more}) [{self.code}]" if more else f"{self.args[0]} [{self.code}]"
        return " ".join(text.split())


@dataclass
class Result:
    """The rows of a statement as text, with the names and type OIDs of their columns, and its notices."""

    columns: list[str] = field(default_factory=list)
    oids: list[int] = field(default_factory=list)
    rows: list[tuple[str | None, ...]] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)


def ask(connection: socket.socket, user: str, statement: str) -> Result:
    """Logs in as `user` without a password, runs one statement by the simple protocol, and hangs up.

    Raises ClientError for an ErrorResponse, a request for a password, and a lost connection.
    """
    settings = {"user": user, "database": "dpproxy", "application_name": "dpproxy", "client_encoding": "UTF8"}
    startup = struct.pack(">i", PROTOCOL_3_0)
    startup += b"".join(map(cstring, itertools.chain(*settings.items()))) + b"\0"
    with connection, connection.makefile("rb") as stream:
        connection.sendall(struct.pack(">i", len(startup) + 4) + startup)
        _read_until_ready(stream)
        connection.sendall(message("Q", cstring(statement)))
        result = _read_until_ready(stream)
        connection.sendall(message("X"))
        return result


def _read_until_ready(stream: BinaryIO) -> Result:
    result = Result()
    failure: ClientError | None = None
    while True:
        kind, body = _read(stream)
        match kind:
            case b"Z":
                if failure is not None:
                    raise failure
                return result
            case b"E":
                failure = ClientError(split_fields(b"E\0\0\0\0" + body))
                if split_fields(b"E\0\0\0\0" + body).get("V") in ("FATAL", "PANIC"):
                    raise failure
            case b"N":
                result.notices.append(split_fields(b"N\0\0\0\0" + body).get("M", ""))
            case b"T":
                result.columns, result.oids = _columns(body)
            case b"D":
                result.rows.append(_row(body))
            case b"R" if body[:4] != bytes(4):
                raise ClientError({"C": "28000", "M": "a password was asked for"})


def _read(stream: BinaryIO) -> tuple[bytes, bytes]:
    header = stream.read(5)
    if len(header) < 5:
        raise ClientError({})
    kind, length = struct.unpack(">ci", header)
    body = stream.read(length - 4)
    if len(body) < length - 4:
        raise ClientError({})
    return kind, body


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
