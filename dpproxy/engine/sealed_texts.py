"""Texts of statements as the ledger keeps them: encrypted, so that a copy of it without the key does not show them.

A question in words, beside them, has its constants in the clear.
"""

from __future__ import annotations

from contextlib import suppress

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from mechanisms import randomness

_NONCE = 12


class SealedTexts:
    """Seals and opens texts by AES-256-GCM under a key of the deployment's, each for one account and release.

    >>> texts = SealedTexts(bytes(32))
    >>> sealed = texts.seal("SELECT 1", "analyst:ann", b"release")
    >>> texts.open(sealed, "analyst:ann", b"release"), texts.open(sealed, "analyst:ben", b"release")
    ('SELECT 1', None)
    """

    def __init__(self, *keys: bytes) -> None:
        """`keys`: the deployment's, of which those for this purpose are derived; the first one seals, all open."""
        self._ciphers = [AESGCM(randomness.derive(key, "statement texts")) for key in keys]

    def seal(self, text: str, account: str, release_key: bytes) -> bytes:
        """A nonce and the encrypted text."""
        nonce = randomness.random_bytes(_NONCE)
        told = text.encode(errors="surrogatepass")
        return nonce + self._ciphers[0].encrypt(nonce, told, _of(account, release_key))

    def open(self, sealed: bytes, account: str, release_key: bytes) -> str | None:
        """The text; None for what was sealed with another key, or for another account or release."""
        for cipher in self._ciphers:
            with suppress(InvalidTag):
                told = cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], _of(account, release_key))
                return told.decode(errors="surrogatepass")
        return None


def _of(account: str, release_key: bytes) -> bytes:
    return release_key + account.encode()
