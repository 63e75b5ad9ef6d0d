"""SCRAM-SHA-256 (RFC 5802, 7677) as PostgreSQL speaks it: both sides, without sockets, and its verifiers."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import stringprep
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from mechanisms.randomness import random_bytes

MECHANISM = "SCRAM-SHA-256"
PLUS = "SCRAM-SHA-256-PLUS"
ITERATIONS = 4096
SALT_BYTES, NONCE_BYTES = 16, 18
_VERIFIER = re.compile(r"SCRAM-SHA-256\$(\d{1,7}):([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]+):([A-Za-z0-9+/=]+)")
_PROHIBITED = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)


class AuthenticationFailed(Exception):
    """The other side did not prove its password, or does not speak SCRAM; the text names no secret."""


@dataclass(frozen=True, repr=False)
class ScramVerifier:
    """A server's verifier of a password, in the format of PostgreSQL's pg_authid.rolpassword."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    @classmethod
    def make(cls, password: str, salt: bytes | None = None, iterations: int = ITERATIONS) -> ScramVerifier:
        """The verifier of a password, with a fresh salt of 16 bytes unless one is given.

        >>> str(ScramVerifier.make("pencil", bytes(16), 4096))[:45]
        'SCRAM-SHA-256$4096:AAAAAAAAAAAAAAAAAAAAAA==$c'
        """
        salt = random_bytes(SALT_BYTES) if salt is None else salt
        salted = hashlib.pbkdf2_hmac("sha256", saslprep(password), salt, iterations)
        client_key = _mac(salted, b"Client Key")
        return cls(iterations, salt, hashlib.sha256(client_key).digest(), _mac(salted, b"Server Key"))

    @classmethod
    def read(cls, text: str) -> ScramVerifier:
        """A verifier from its text; raises ValueError."""
        match = _VERIFIER.fullmatch(text)
        if match is None:
            raise ValueError("not a SCRAM-SHA-256 verifier")
        salt, stored_key, server_key = (base64.b64decode(part, validate=True) for part in match.groups()[1:])
        if len(stored_key) != 32 or len(server_key) != 32:
            raise ValueError("not a SCRAM-SHA-256 verifier")
        return cls(int(match[1]), salt, stored_key, server_key)

    @classmethod
    def fake(cls, key: bytes, user: str) -> ScramVerifier:
        """A verifier for an unknown user, with a constant salt and keys that no password has.

        `key`: 32 secret bytes kept over restarts, so that nobody learns from salts which users exist.
        """
        salt, stored_key, server_key = (
            _mac(key, label + user.encode()) for label in (b"salt\0", b"stored\0", b"server\0")
        )
        return cls(ITERATIONS, salt[:SALT_BYTES], stored_key, server_key)

    def __str__(self) -> str:
        salt, stored_key, server_key = map(_base64, (self.salt, self.stored_key, self.server_key))
        return f"{MECHANISM}${self.iterations}:{salt}${stored_key}:{server_key}"


class ServerScram:
    """The server's side of one login: `first` and `final` take the client's messages and give the answers."""

    def __init__(self, verifier: ScramVerifier, *, known: bool = True, binding: bytes | None = None) -> None:
        """`known`: whether the verifier is a user's at all; if not, every proof is wrong.

        `binding`: the TLS channel binding, None where -PLUS is not offered.
        """
        self._verifier = verifier
        self._known = known
        self._binding = binding
        self._bound = b""
        self._bare = ""
        self._server_first = ""
        self._nonce = ""

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The offered mechanisms, the best first."""
        return (MECHANISM,) if self._binding is None else (PLUS, MECHANISM)

    def first(self, data: bytes, mechanism: str = MECHANISM) -> bytes:
        """Answers the client's first message with nonce, salt and iterations; raises AuthenticationFailed.

        libpq sends an empty user name here (the startup packet has it), so it is ignored. A client that
        supports binding but saw no offer of it ("y") is under attack: -PLUS was removed from the list.
        """
        match = re.fullmatch(
            r"((n|y|p=tls-server-end-point),,)(n=[^,]*,r=([\x21-\x2b\x2d-\x7e]+))", _ascii(data)
        )
        binds = match is not None and match[2].startswith("p")
        if match is None or mechanism not in self.mechanisms or binds != (mechanism == PLUS):
            raise AuthenticationFailed("malformed SCRAM message")
        if match[2] == "y" and self._binding is not None:
            raise AuthenticationFailed("malformed SCRAM message: channel binding was offered")
        self._bound = match[1].encode() + ((self._binding or b"") if binds else b"")
        self._bare = match[3]
        self._nonce = match[4] + _base64(random_bytes(NONCE_BYTES))
        salt, iterations = _base64(self._verifier.salt), self._verifier.iterations
        self._server_first = f"r={self._nonce},s={salt},i={iterations}"
        return self._server_first.encode()

    def final(self, data: bytes) -> bytes:
        """Checks the client's proof and answers with the server's; raises AuthenticationFailed."""
        match = re.fullmatch(r"(c=([^,]*),r=([^,]*)),p=([^,]*)", _ascii(data))
        if match is None or match[2] != _base64(self._bound) or match[3] != self._nonce:
            raise AuthenticationFailed("malformed SCRAM message")
        signed = f"{self._bare},{self._server_first},{match[1]}".encode()
        signature = _mac(self._verifier.stored_key, signed)
        proof = _unbase64(match[4])
        if len(proof) != len(signature):
            raise AuthenticationFailed("malformed SCRAM message")
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        right = hmac.compare_digest(hashlib.sha256(client_key).digest(), self._verifier.stored_key)
        if not (right and self._known):
            raise AuthenticationFailed("password authentication failed")
        return b"v=" + _base64(_mac(self._verifier.server_key, signed)).encode()


class ClientScram:
    """The client's side of one login, towards the front."""

    def __init__(self, password: str) -> None:
        self._password = saslprep(password)
        self._nonce = _base64(random_bytes(NONCE_BYTES))
        self._server_proof = b""

    def first(self) -> bytes:
        """The first message."""
        return f"n,,n=,r={self._nonce}".encode()

    def final(self, data: bytes) -> bytes:
        """Answers the server's first message with the proof; raises AuthenticationFailed."""
        match = re.fullmatch(r"r=([^,]+),s=([^,]+),i=(\d{1,7})", _ascii(data))
        if match is None or not match[1].startswith(self._nonce):
            raise AuthenticationFailed("malformed SCRAM message")
        salted = _salted(self._password, _unbase64(match[2]), int(match[3]))
        client_key = _mac(salted, b"Client Key")
        without_proof = f"c=biws,r={match[1]}"
        signed = f"n=,r={self._nonce},{data.decode()},{without_proof}".encode()
        signature = _mac(hashlib.sha256(client_key).digest(), signed)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._server_proof = _mac(_mac(salted, b"Server Key"), signed)
        return f"{without_proof},p={_base64(proof)}".encode()

    def check(self, data: bytes) -> None:
        """Checks the server's proof; raises AuthenticationFailed."""
        if not hmac.compare_digest(data, b"v=" + _base64(self._server_proof).encode()):
            raise AuthenticationFailed("the server does not know the password")


def saslprep(password: str) -> bytes:
    """A password as SCRAM hashes it: RFC 4013, or, like PostgreSQL, its plain UTF-8 where that forbids it.

    >>> saslprep("I\\u00adX"), saslprep("\\u2168"), saslprep("\\u0007").hex()
    (b'IX', b'IX', '07')
    """
    mapped = "".join(
        " " if stringprep.in_table_c12(c) else c for c in password if not stringprep.in_table_b1(c)
    )
    text = unicodedata.normalize("NFKC", mapped)
    forbidden = any(table(c) for c in text for table in _PROHIBITED) or any(
        map(stringprep.in_table_a1, mapped)
    )
    if not text or forbidden or not _bidirectional(text):
        return password.encode()
    return text.encode()


def _bidirectional(text: str) -> bool:
    """RFC 3454, section 6: right-to-left text begins and ends so and has no left-to-right letters."""
    right = [stringprep.in_table_d1(c) for c in text]
    if not any(right):
        return True
    return right[0] and right[-1] and not any(map(stringprep.in_table_d2, text))


@lru_cache(maxsize=256)
def _salted(password: bytes, salt: bytes, iterations: int) -> bytes:
    """Kept for the front's roles, which log in again and again."""
    return hashlib.pbkdf2_hmac("sha256", password, salt, iterations)


def _mac(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _unbase64(text: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise AuthenticationFailed("malformed SCRAM message") from None
    return data


def _ascii(data: bytes) -> str:
    try:
        return data.decode("ascii")
    except UnicodeDecodeError:
        raise AuthenticationFailed("malformed SCRAM message") from None
