"""Messages of LDAP (RFC 4511) that a login needs, in BER with definite lengths; no sockets.

Values of a filter are octets of their own here, not parts of a text: nothing in a name can change a filter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

START_TLS = b"1.3.6.1.4.1.1466.20037"
BIND, SEARCH, EXTENDED = 0x60, 0x63, 0x77
BOUND, ENTRY, FOUND, REFERENCE, EXTENDED_DONE = 0x61, 0x64, 0x65, 0x73, 0x78
BASE, SUBTREE = 0, 2
"""Where a search looks: at one entry, or at all below it."""
SUCCESS, INVALID_CREDENTIALS = 0, 49
_INTEGER, _OCTETS, _ENUMERATED, _SEQUENCE, _SET = 0x02, 0x04, 0x0A, 0x30, 0x31
_UNBIND = b"\x42\x00"


class NotLdap(Exception):
    """What arrived is no message of LDAP."""


@dataclass(frozen=True)
class Entry:
    """An entry that was found: its name, and the values of attributes by their names in lower case."""

    dn: str
    attributes: Mapping[str, Sequence[str]]

    def values(self, attribute: str) -> Sequence[str]:
        """Of one attribute, however its name is written."""
        return self.attributes.get(attribute.lower(), ())


def escaped(value: str) -> str:
    r"""A value as part of a distinguished name (RFC 4514): what is no letter or digit is written by its bytes.

    >>> print(escaped("ann"), escaped("ann,ou=admins"), escaped("é "))
    ann ann\2cou\3dadmins \c3\a9\20
    """
    return "".join(
        c if c.isascii() and c.isalnum() else "".join(f"\\{byte:02x}" for byte in c.encode()) for c in value
    )


def bind(dn: str, password: str) -> bytes:
    """Asks to be bound as `dn`; raises ValueError without a name or password, which would prove nothing."""
    if not dn or not password:
        raise ValueError("a bind without a name or password proves nothing")
    return _tlv(BIND, _integer(3) + _text(dn) + _tlv(0x80, password.encode()))


def bind_anonymously() -> bytes:
    """Asks to be nobody in particular, for servers that let everybody search."""
    return _tlv(BIND, _integer(3) + _text("") + _tlv(0x80, b""))


def search(
    base: str, scope: int, equal: tuple[str, str] | None, attributes: Sequence[str], most: int
) -> bytes:
    """Asks for at most `most` entries; `equal`: attribute and value that they have, None for any entry."""
    wanted = _tlv(0x87, b"objectClass") if equal is None else _tlv(0xA3, _text(equal[0]) + _text(equal[1]))
    limits = _integer(most) + _integer(0) + _tlv(0x01, b"\x00")
    head = _text(base) + _tlv(_ENUMERATED, bytes([scope])) + _tlv(_ENUMERATED, b"\x00") + limits
    return _tlv(SEARCH, head + wanted + _tlv(_SEQUENCE, b"".join(map(_text, attributes))))


def start_tls() -> bytes:
    """Asks to go on in TLS."""
    return _tlv(EXTENDED, _tlv(0x80, START_TLS))


def message(number: int, operation: bytes) -> bytes:
    """An operation as a message of this number."""
    return _tlv(_SEQUENCE, _integer(number) + operation)


def unbind(number: int) -> bytes:
    """The last message."""
    return message(number, _UNBIND)


def length_of_length(head: bytes) -> int:
    """How many bytes of length follow the first two of a message; raises NotLdap.

    >>> length_of_length(bytes([0x30, 0x0c])), length_of_length(bytes([0x30, 0x82]))
    (0, 2)
    """
    more = head[1] - 0x80 if head[1] > 0x7F else 0
    if head[0] != _SEQUENCE or head[1] == 0x80 or more > 4:
        raise NotLdap
    return more


def read(content: bytes, number: int) -> tuple[int, bytes]:
    """Kind and content of the operation in a message, which has to be of this number; raises NotLdap."""
    parts = _parts(content)
    if _take(parts, _INTEGER) != _number(number):
        raise NotLdap
    return next(parts, None) or _refuse()


def result(content: bytes) -> int:
    """The code of a result; raises NotLdap."""
    code = _take(_parts(content), _ENUMERATED)
    if len(code) != 1:
        raise NotLdap
    return code[0]


def entry(content: bytes) -> Entry:
    """An entry that a search has found; values that are no text are left out. Raises NotLdap."""
    parts = _parts(content)
    dn = _decoded(_take(parts, _OCTETS)) or _refuse()
    attributes: dict[str, list[str]] = {}
    for kind, attribute in _parts(_take(parts, _SEQUENCE)):
        if kind != _SEQUENCE:
            raise NotLdap
        inner = _parts(attribute)
        name = _decoded(_take(inner, _OCTETS)) or _refuse()
        values = [_decoded(value) for kind, value in _parts(_take(inner, _SET)) if kind == _OCTETS]
        attributes[name.lower()] = [value for value in values if value is not None]
    return Entry(dn, attributes)


def _parts(content: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(content):
        if at + 2 > len(content):
            raise NotLdap
        kind, length, start = content[at], content[at + 1], at + 2
        if length > 0x7F:
            more = length - 0x80
            if not 0 < more <= 4 or start + more > len(content):
                raise NotLdap
            length, start = int.from_bytes(content[start : start + more], "big"), start + more
        if start + length > len(content):
            raise NotLdap
        yield kind, content[start : start + length]
        at = start + length


def _take(parts: Iterator[tuple[int, bytes]], kind: int) -> bytes:
    found, content = next(parts, (-1, b""))
    if found != kind:
        raise NotLdap
    return content


def _refuse() -> NoReturn:
    raise NotLdap


def _decoded(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _tlv(kind: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes([kind, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([kind, 0x80 + len(length)]) + length + content


def _number(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, "big")


def _integer(value: int) -> bytes:
    return _tlv(_INTEGER, _number(value))


def _text(value: str) -> bytes:
    return _tlv(_OCTETS, value.encode())
