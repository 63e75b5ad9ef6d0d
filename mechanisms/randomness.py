"""The only place with random bytes: a keyed stream for noise, key derivation, and the system's entropy."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Plain = None | bool | int | str | bytes | Fraction | Sequence["Plain"]
"""What keys are made of."""
KEY_VERSION = b"\x01"
"""Begins whatever keys are made of: another encoding has another version, so that no two values have one key."""

KEY_BYTES = 32
MOST_WORDS = 1 << 34
"""Words one stream may give: half of what ChaCha20 gives before its 32-bit block counter wraps."""


class Stream:
    """ChaCha20 keyed by a 32-byte seed: the same seed and labels give the same words, no word is given twice.

    >>> Stream(bytes(32)).child("gumbel", 0).words(2).tolist()
    [17438650996323311254, 7451247731699333416]
    >>> Stream(bytes(32)).child("laplace", 0).words(2).tolist()
    [9650901857072091771, 3830337678893339911]

    A stream is either read or split: `child` separates by label (stage, step, aggregate), and asking
    one stream twice for the same label is an error, so that no noise is ever used twice.
    """

    __slots__ = ("_cipher", "_given", "_key", "_labels")

    def __init__(self, key: bytes) -> None:
        """Start at the beginning of the stream of `key`, 32 bytes; ValueError for any other length."""
        if len(key) != KEY_BYTES:
            raise ValueError(f"a stream's key has {KEY_BYTES} bytes")
        self._key = key
        self._cipher: CipherContext | None = None
        self._given = 0
        self._labels: set[bytes] = set()

    def __repr__(self) -> str:
        return "Stream(...)"

    def child(self, *labels: str | int) -> Stream:
        """Give the independent stream of these labels; ValueError if they were asked for before."""
        label = _framed([f"{type(part).__name__}:{part}".encode() for part in labels])
        if label in self._labels:
            raise ValueError(f"stream {labels} was already taken")
        self._labels.add(label)
        return Stream(hmac.digest(self._key, b"child" + label, hashlib.sha256))

    def words(self, n: int) -> Words:
        """Give the next `n` words, uniform on 0..2^64-1, shape (n,); OverflowError at the stream's end."""
        if self._cipher is None:
            words_key = hmac.digest(self._key, b"words", hashlib.sha256)
            self._cipher = Cipher(algorithms.ChaCha20(words_key, bytes(16)), mode=None).encryptor()
        self._given += n
        if self._given > MOST_WORDS:
            raise OverflowError("a stream ends after 2^34 words")
        return np.frombuffer(self._cipher.update(bytes(8 * n)), dtype="<u8").astype(np.uint64, copy=False)


def seed(key: bytes, release_key: bytes, reservation: bytes) -> Stream:
    """Give the noise of one reservation of one release.

    `key`: the noise key (32 bytes, `derive(master, "noise")`); `release_key`: what is released, with
    every parameter of its law, so that two scales never share noise; `reservation`: the unique id under
    which it is paid, so that no seed comes twice (Audience Engagements API, section 8.2, corrected).
    """
    return Stream(hmac.digest(key, _framed([b"seed", release_key, reservation]), hashlib.sha256))


def release_key(key: bytes, value: Plain) -> bytes:
    """Name a release by HMAC-SHA256 over a plain value in canonical encoding: 32 bytes, the answer store's key.

    >>> release_key(bytes(32), ["a", "bc"]) == release_key(bytes(32), ["ab", "c"])
    False

    TypeError for a value that is not plain.
    """
    return hmac.digest(key, KEY_VERSION + encoded(value), hashlib.sha256)


def encoded(value: Plain) -> bytes:
    """A plain value as bytes that no other one has: a type's letter, the content's length, the content.

    >>> encoded(["a", None, Fraction(1, 2)])
    b'l13:s1:an0:q3:1/2'
    >>> encoded(1) == encoded(True), encoded([]) == encoded([[]])
    (False, False)

    TypeError for a float, whose text is no exact value, and for any other type.
    """
    match value:
        case str():
            return _text(value)
        case tuple() | list():
            letter, content = b"l", b"".join([_text(v) if v.__class__ is str else encoded(v) for v in value])
        case None:
            letter, content = b"n", b""
        case bool():
            letter, content = b"b", b"1" if value else b"0"
        case int():
            letter, content = b"i", str(value).encode()
        case bytes():
            letter, content = b"y", value
        case Fraction():
            letter, content = b"q", str(value).encode()
        case _:
            raise TypeError(f"a {type(value).__name__} has no canonical encoding")
    return b"%c%d:%b" % (letter, len(content), content)


def _text(value: str) -> bytes:
    """`encoded` of a text, which most values are."""
    content = value.encode(errors="surrogatepass")
    return b"s%d:%b" % (len(content), content)


def derive(master: bytes, purpose: str) -> bytes:
    """Derive the 32-byte key of a purpose ("noise", "release-key", "rank-hash", "fake-salt") by HKDF-SHA256.

    >>> derive(bytes(32), "noise") == derive(bytes(32), "rank-hash")
    False

    ValueError if `master` is shorter than 32 bytes or the purpose is empty.
    """
    if len(master) < KEY_BYTES:
        raise ValueError(f"the master key has at least {KEY_BYTES} bytes")
    if not purpose:
        raise ValueError("a key is derived for a purpose")
    info = b"dpproxy " + purpose.encode()
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=info).derive(master)


def random_bytes(n: int) -> bytes:
    """Give `n` bytes of the system's entropy, for keys, salts, passwords and nonces."""
    return os.urandom(n)


def _framed(parts: Sequence[bytes]) -> bytes:
    """Join parts so that no two different lists give the same bytes."""
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)
