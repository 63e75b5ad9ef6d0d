"""PostgreSQL protocol 3: reading messages as they arrive, within limits, and building the proxy's own."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

PROTOCOL_3_0, PROTOCOL_3_2 = 196608, 196610
SSL_REQUEST = 80877103
GSSENC_REQUEST = 80877104
CANCEL_REQUEST = 80877102

STARTUP_LIMIT = 10_000
"""Bytes of a startup packet, as in PostgreSQL."""
LOGIN_LIMITS: Mapping[int, int] = {ord("p"): 10_000}
"""What a client may send between its startup packet and its login, and how long (length word included)."""
_SHORT, _TEXT, _DATA = 10_000, 4 << 20, 16 << 20
CLIENT_LIMITS: Mapping[int, int] = {
    **dict.fromkeys(b"CDEHSXcf", _SHORT),
    **dict.fromkeys(b"QPF", _TEXT),
    **dict.fromkeys(b"Bd", _DATA),
}
"""What a client may send after its login."""
FRONT_LIMIT = 16 << 20
"""Bytes of a message of the front that is kept until it is whole (rows are not)."""
_STREAMED = b"Dd"
_LENGTH = struct.Struct(">I").unpack_from
_ELEMENT_OF = {1016: 20, 1009: 25}
INT8_ARRAY, TEXT_ARRAY = 1016, 1009
INT8 = 20


class ProtocolError(Exception):
    """Bytes that are no protocol: the connection ends with this SQLSTATE and text."""

    def __init__(self, message: str, code: str = "08P01") -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class NoStartup(ProtocolError):
    """The first bytes are no packet of the protocol: PostgreSQL closes without a word."""


class Inbound:
    """A client's bytes, cut into messages of the kinds and lengths that `limits` names.

    >>> inbound = Inbound(CLIENT_LIMITS)
    >>> inbound.feed(message("Q", b"select 1" + bytes(1))[:7])
    >>> inbound.take() is None
    True
    >>> inbound.feed(message("Q", b"select 1" + bytes(1))[7:])
    >>> inbound.take()
    (81, b'select 1\\x00')
    """

    def __init__(self, limits: Mapping[int, int]) -> None:
        self.limits = limits
        self._buffer = bytearray()
        self._start = 0

    def __len__(self) -> int:
        return len(self._buffer) - self._start

    @property
    def first(self) -> int:
        """The first byte that was not taken yet; there has to be one."""
        return self._buffer[self._start]

    def feed(self, data: bytes) -> None:
        """Adds bytes as they came."""
        self._buffer += data

    def take(self) -> tuple[int, bytes] | None:
        """The next whole message as (kind, body), or None; raises ProtocolError at its header."""
        buffer, start = self._buffer, self._start
        if len(buffer) == start:
            return None
        kind = buffer[start]
        limit = self.limits.get(kind)
        if limit is None:
            raise ProtocolError(f"invalid frontend message type {kind}")
        if len(buffer) < start + 5:
            return None
        length = int.from_bytes(buffer[start + 1 : start + 5], "big")
        if length < 4:
            raise ProtocolError("invalid message length")
        if length > limit:
            raise ProtocolError(f"message of {length} bytes is longer than {limit} bytes", "54000")
        if len(buffer) < start + 1 + length:
            return None
        body = bytes(buffer[start + 5 : start + 1 + length])
        self._advance(start + 1 + length)
        return kind, body

    def take_startup(self) -> tuple[int, bytes] | None:
        """The next packet without a kind as (code, body), or None; raises ProtocolError."""
        buffer, start = self._buffer, self._start
        if len(buffer) < start + 4:
            return None
        length = int.from_bytes(buffer[start : start + 4], "big")
        if not 8 <= length <= STARTUP_LIMIT:
            raise NoStartup("invalid length of startup packet")
        if len(buffer) < start + length:
            return None
        code = int.from_bytes(buffer[start + 4 : start + 8], "big")
        body = bytes(buffer[start + 8 : start + length])
        self._advance(start + length)
        return code, body

    def rest(self) -> bytes:
        """Returns the remaining bytes unread."""
        left = bytes(self._buffer[self._start :])
        self._advance(len(self._buffer))
        return left

    def _advance(self, to: int) -> None:
        self._start = to
        if to == len(self._buffer) or to > 65536:
            del self._buffer[:to]
            self._start = 0


class Outbound:
    """The front's bytes, cut into (kind, raw bytes): whole messages, but rows and copied data as they come.

    Runs of DataRow or CopyData are given as far as they have arrived, so that a row of any size passes
    without being kept and no row costs more than a look at its header.

    >>> outbound = Outbound()
    >>> rows, ready = message("D", b"ab") * 3, message("Z", b"I")
    >>> [(chr(kind), len(raw)) for kind, raw in outbound.feed(rows + ready[:3])]
    [('D', 21)]
    >>> [(chr(kind), raw) for kind, raw in outbound.feed(ready[3:])]
    [('Z', b'Z\\x00\\x00\\x00\\x05I')]
    """

    def __init__(self) -> None:
        self._partial = bytearray()
        self._streaming = 0
        self._rest = 0

    @property
    def at_start(self) -> bool:
        """Whether no message is incomplete."""
        return not self._rest and not self._partial

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Cuts the remaining bytes and `data` into messages; raises ProtocolError for a message beyond FRONT_LIMIT."""
        if self._rest:
            piece, data = data[: self._rest], data[self._rest :]
            self._rest -= len(piece)
            yield self._streaming, piece
        if self._partial:
            self._partial += data
            if len(self._partial) < self._wanted():
                return
            data = bytes(self._partial)
            self._partial.clear()
        position, end = 0, len(data)
        while end - position >= 5:
            kind = data[position]
            if kind in _STREAMED:
                start, position = position, _end_of_run(data, position, kind)
                self._streaming, self._rest = kind, max(0, position - end)
                yield kind, data[start:position]
                continue
            size = 1 + int.from_bytes(data[position + 1 : position + 5], "big")
            if size > FRONT_LIMIT:
                raise ProtocolError("a message of the front is too long", "54000")
            if end - position < size:
                break
            yield kind, data[position : position + size]
            position += size
        self._partial += data[position:]

    def _wanted(self) -> int:
        """Bytes needed before the message in `_partial` can be looked at again."""
        if len(self._partial) < 5 or self._partial[0] in _STREAMED:
            return 5
        size = 1 + int.from_bytes(self._partial[1:5], "big")
        return size if size <= FRONT_LIMIT else 5


def _end_of_run(data: bytes, position: int, kind: int) -> int:
    """Where a run of messages of one kind ends, perhaps beyond `data`."""
    end = len(data)
    while end - position >= 5 and data[position] == kind:
        position += 1 + _LENGTH(data, position + 1)[0]
    return position


def whole(data: bytes) -> bytes:
    """The kinds of the messages in `data`, empty unless they are whole.

    >>> whole(message("C", b"SELECT 0") + message("Z", b"I")), whole(message("C")[:4])
    (b'CZ', b'')
    """
    kinds, position, end = bytearray(), 0, len(data)
    while end - position >= 5:
        kinds.append(data[position])
        position += 1 + _LENGTH(data, position + 1)[0]
    return bytes(kinds) if position == end else b""


def split(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The messages in `data`, which are whole, as (kind, body)."""
    position = 0
    while position < len(data):
        end = position + 1 + _LENGTH(data, position + 1)[0]
        yield data[position], data[position + 5 : end]
        position = end


def message(kind: str, body: bytes = b"") -> bytes:
    """A message: kind, length, body.

    >>> message("S")
    b'S\\x00\\x00\\x00\\x04'
    """
    return struct.pack(">ci", kind.encode(), len(body) + 4) + body


def cstring(text: str) -> bytes:
    """UTF-8 and a zero byte; ValueError where the text holds one."""
    if "\0" in text:
        raise ValueError("a zero byte cannot be sent")
    return text.encode() + b"\0"


def split_cstrings(body: bytes, count: int) -> tuple[list[str], bytes]:
    """The first `count` strings of a body and the rest; raises ProtocolError.

    >>> split_cstrings(b"a\\0b\\0rest", 2)
    (['a', 'b'], b'rest')
    """
    *heads, rest = body.split(b"\0", count)
    if len(heads) < count:
        raise ProtocolError("invalid string in message")
    try:
        return [head.decode() for head in heads], rest
    except UnicodeDecodeError:
        raise ProtocolError('invalid byte sequence for encoding "UTF8"', "22021") from None


def parse(name: str, text: str, oids: Sequence[int] = ()) -> bytes:
    """Parse: a statement under a name, with its parameters' type OIDs."""
    return message("P", cstring(name) + cstring(text) + struct.pack(f">H{len(oids)}I", len(oids), *oids))


def describe(target: str, name: str) -> bytes:
    """Describe a statement ("S") or a portal ("P")."""
    return message("D", target.encode() + cstring(name))


def close(target: str, name: str) -> bytes:
    """Close a statement ("S") or a portal ("P")."""
    return message("C", target.encode() + cstring(name))


def execute(portal: str, rows: int = 0) -> bytes:
    """Execute a portal, at most `rows` rows (0: all)."""
    return message("E", cstring(portal) + struct.pack(">i", rows))


@dataclass(frozen=True)
class Values:
    """The parameters of a Bind as they came: format codes (0 text, 1 binary) and the raw values."""

    formats: tuple[int, ...]
    count: int
    raw: bytes

    def fits(self, parameters: int) -> bool:
        """Whether a statement with so many parameters takes them."""
        return self.count == parameters and len(self.formats) in (0, 1, parameters)

    def and_binary(self, more: Sequence[bytes]) -> Values:
        """These values followed by values in binary format.

        >>> Values((), 1, encoded([b"7"])).and_binary([b"x"]).formats
        (0, 1)
        """
        own = self.formats if len(self.formats) == self.count else (self.formats or (0,)) * self.count
        return Values((*own, *(1 for _ in more)), self.count + len(more), self.raw + encoded(more))


NO_VALUES = Values((), 0, b"")
_UNNAMED_EXECUTED = re.compile(rb"(?:D\0\0\0\x06P\0)?E\0\0\0\x09\0.{4}S\0\0\0\x04", re.DOTALL)


def bound_alone(data: bytes) -> str | None:
    """The statement that `data` binds to the unnamed portal, describes perhaps, executes and syncs; None for all else.

    >>> bound_alone(bind("", "s", NO_VALUES) + describe("P", "") + execute("") + message("S"))
    's'
    """
    if data[:1] != b"B":
        return None
    end = 1 + int.from_bytes(data[1:5], "big")
    name, found, _ = data[6:end].partition(b"\0")
    if not found or data[5] or _UNNAMED_EXECUTED.fullmatch(data, end) is None:
        return None
    try:
        return name.decode()
    except UnicodeDecodeError:
        return None


def encoded(values: Sequence[bytes | None]) -> bytes:
    """Values as Bind and arrays carry them: a length (-1 for NULL) and the bytes."""
    return b"".join(
        struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value for value in values
    )


def bind(portal: str, statement: str, values: Values, results: bytes = b"\0\0") -> bytes:
    """Bind; `results` is the result format section as it stands in the message."""
    formats = struct.pack(f">H{len(values.formats)}h", len(values.formats), *values.formats)
    body = cstring(portal) + cstring(statement) + formats + struct.pack(">H", values.count)
    return message("B", body + values.raw + results)


def split_values(body: bytes) -> tuple[Values, bytes]:
    """The values and the raw result format section of a Bind, after its names; raises ProtocolError."""
    try:
        (number,) = struct.unpack_from(">H", body)
        formats = struct.unpack_from(f">{number}h", body, 2)
        start = 2 + 2 * number
        (count,) = struct.unpack_from(">H", body, start)
        start, position = start + 2, start + 2
        for _ in range(count):
            (length,) = struct.unpack_from(">i", body, position)
            position += 4 + max(length, 0)
        (number,) = struct.unpack_from(">H", body, position)
    except struct.error:
        raise ProtocolError("insufficient data left in message") from None
    if len(body) != position + 2 + 2 * number:
        raise ProtocolError("invalid message format")
    return Values(formats, count, body[start:position]), body[position:]


def empty_array(oid: int) -> bytes:
    """An array without elements, in binary; KeyError for types other than int8[] and text[]."""
    return struct.pack(">iiI", 0, 0, _ELEMENT_OF[oid])


def text_array(values: Sequence[str | None]) -> bytes:
    """A text[] in binary.

    >>> split_text_array(text_array(["a", None])), split_text_array(text_array([]))
    (('a', None), ())
    """
    if not values:
        return empty_array(TEXT_ARRAY)
    items = [None if value is None else value.encode() for value in values]
    return struct.pack(">iiIii", 1, int(None in items), 25, len(items), 1) + encoded(items)


def split_text_array(value: bytes) -> tuple[str | None, ...]:
    """The elements of a one-dimensional text[] in binary."""
    dimensions, _, _ = struct.unpack_from(">iiI", value)
    items: list[str | None] = []
    position, left = 20, struct.unpack_from(">i", value, 12)[0] if dimensions else 0
    for _ in range(left):
        (length,) = struct.unpack_from(">i", value, position)
        position += 4
        items.append(None if length < 0 else value[position : position + length].decode())
        position += max(length, 0)
    return tuple(items)


def element_of(array: bytes) -> int:
    """The type OID of an array's elements, in binary."""
    (oid,) = struct.unpack_from(">I", array, 8)
    return int(oid)


def split_array(value: bytes) -> list[int | str | None]:
    """The elements of a one-dimensional int8[] or text[] in binary."""
    texts = split_text_array(value) if element_of(value) != INT8 else None
    if texts is not None:
        return list(texts)
    (dimensions,) = struct.unpack_from(">i", value)
    (count,) = struct.unpack_from(">i", value, 12) if dimensions else (0,)
    return [None if length < 0 else number for length, number in _int8_elements(value, count)]


def _int8_elements(value: bytes, count: int) -> Iterator[tuple[int, int]]:
    position = 20
    for _ in range(count):
        (length,) = struct.unpack_from(">i", value, position)
        yield length, 0 if length < 0 else struct.unpack_from(">q", value, position + 4)[0]
        position += 4 + max(length, 0)


def first_value(rows: bytes) -> bytes:
    """The first column of the first DataRow, not NULL."""
    (length,) = struct.unpack_from(">i", rows, 7)
    return rows[11 : 11 + length]


def first_row(rows: bytes) -> bytes:
    """The values of the first DataRow, each with its length."""
    return rows[7 : 1 + int.from_bytes(rows[1:5], "big")]


def split_oids(raw: bytes) -> tuple[int, ...]:
    """The type OIDs in a ParameterDescription (the whole message)."""
    (count,) = struct.unpack_from(">H", raw, 5)
    return struct.unpack_from(f">{count}I", raw, 7)


def error(
    code: str, text: str, *, severity: str = "ERROR", detail: str | None = None, hint: str | None = None
) -> bytes:
    """An ErrorResponse that the proxy itself makes (before or at the end of a session)."""
    fields = {"S": severity, "V": severity, "C": code, "M": text, "D": detail, "H": hint}
    return join_fields("E", {name: value for name, value in fields.items() if value is not None})


def split_fields(raw: bytes) -> dict[str, str]:
    """The fields of an ErrorResponse or NoticeResponse (the whole message).

    >>> split_fields(error("22012", "division by zero"))["C"]
    '22012'
    """
    return {part[:1].decode(): part[1:].decode(errors="replace") for part in raw[5:].split(b"\0") if part}


def join_fields(kind: str, fields: Mapping[str, str]) -> bytes:
    """An ErrorResponse ("E") or NoticeResponse ("N") of these fields."""
    return message(kind, b"".join(name.encode() + cstring(text) for name, text in fields.items()) + b"\0")


def notice(line: str) -> bytes:
    """A NoticeResponse."""
    return join_fields("N", {"S": "NOTICE", "V": "NOTICE", "C": "00000", "M": line})


def warning(line: str) -> bytes:
    """A NoticeResponse of a warning."""
    return join_fields("N", {"S": "WARNING", "V": "WARNING", "C": "01000", "M": line})


def is_fatal(raw: bytes) -> bool:
    """Whether an ErrorResponse ends its session."""
    return split_fields(raw).get("V", "ERROR") in ("FATAL", "PANIC")
