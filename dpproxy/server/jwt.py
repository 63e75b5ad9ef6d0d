"""Analysts who log in by a signed token (JWT, RFC 7519) in place of a password, by PyJWT."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_public_key

LEEWAY_SECONDS = 30
"""How far the issuer's clock may be off."""


class KeyFileError(Exception):
    """The issuer's keys cannot be read; the message says why."""


@dataclass(frozen=True)
class Tokens:
    """Login by signed tokens: which analysts need one, and which tokens are valid.

    Attributes:
        analysts: names and patterns of those who log in by token only.
        key_file: the issuer's public key (PEM) or keys (JWKS), read at each login.
        issuer, audience: what the token's iss and aud must be.
        algorithm: the only one that signatures may have.
        claim: the claim that names the analyst.
    """

    analysts: tuple[str, ...]
    key_file: Path
    issuer: str
    audience: str
    algorithm: str
    claim: str

    def wanted(self, user: str) -> bool:
        """Whether this analyst logs in by a token, and by nothing else."""
        return any(fnmatchcase(user, pattern) for pattern in self.analysts)

    def proves(self, user: str, token: str) -> bool:
        """Whether a token says that its bearer is `user`: signed, of the issuer, for this audience, not expired."""
        try:
            claims = jwt.decode(
                token,
                self._key(token),
                algorithms=[self.algorithm],
                audience=self.audience,
                issuer=self.issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud", self.claim]},
            )
        except (jwt.PyJWTError, KeyFileError, TypeError, ValueError):
            return False
        return claims.get(self.claim) == user

    def check(self) -> None:
        """Raises KeyFileError where the issuer's keys cannot be read."""
        keys = self._keys()
        if isinstance(keys, bytes):
            try:
                load_pem_public_key(keys)
            except (ValueError, UnsupportedAlgorithm):
                raise KeyFileError(f"{self.key_file} holds no public key in PEM, nor a JWKS") from None

    def _key(self, token: str) -> jwt.PyJWK | bytes:
        """The key that signed a token, by its `kid` where there are several."""
        keys = self._keys()
        if isinstance(keys, bytes):
            return keys
        name = jwt.get_unverified_header(token).get("kid")
        meant = [key for key in keys.keys if name is None or key.key_id == name]
        if len(meant) != 1:
            raise KeyFileError("no one key of the issuer is meant")
        return meant[0]

    def _keys(self) -> jwt.PyJWKSet | bytes:
        try:
            content = self.key_file.read_bytes()
            if not content.lstrip().startswith(b"{"):
                return content
            return jwt.PyJWKSet.from_dict(json.loads(content))
        except OSError as error:
            raise KeyFileError(f"{self.key_file} cannot be read ({error.strerror})") from None
        except (jwt.PyJWTError, ValueError) as error:
            raise KeyFileError(f"{self.key_file} holds no JWKS: {error}") from None
