"""Analysts who log in by a signed token (JWT, RFC 7519) in place of a password, by PyJWT."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import jwt

from dpproxy.server.issuer import Keys, KeysUnavailable

LEEWAY_SECONDS = 30
"""How far the issuer's clock may be off."""
_KINDS = ("jwt", "at+jwt")
"""Of the header's `typ`: a provider also signs what proves no login, such as that somebody has logged out."""


@dataclass(frozen=True)
class Tokens:
    """Login by signed tokens: which analysts need one, and which tokens are valid.

    Attributes:
        analysts: names and patterns of those who log in by token only.
        keys: where the issuer's keys are.
        issuer, audience: what the token's iss and aud must be.
        clients: for whom a token may be issued (azp), besides the audience itself.
        algorithm: the only one that signatures may have.
        claim: the claim that names the analyst.
    """

    analysts: tuple[str, ...]
    keys: Keys
    issuer: str
    audience: str
    clients: tuple[str, ...]
    algorithm: str
    claim: str

    def wanted(self, user: str) -> bool:
        """Whether this analyst logs in by a token, and by nothing else."""
        return any(fnmatchcase(user, pattern) for pattern in self.analysts)

    async def proves(self, user: str, token: str) -> bool:
        """Whether a token says that its bearer is `user`: signed, of the issuer, for this audience, not expired."""
        try:
            head = jwt.get_unverified_header(token)
            if str(head.get("typ", "jwt")).lower().removeprefix("application/") not in _KINDS:
                return False
            key = await self.keys.named(head.get("kid"))
            claims = jwt.decode(
                token,
                key,
                algorithms=[self.algorithm],
                audience=self.audience,
                issuer=self.issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud", self.claim]},
            )
        except (jwt.PyJWTError, KeysUnavailable, TypeError, ValueError, RecursionError):
            return False
        return claims[self.claim] == user and self._for_us(claims) and self._verified(claims)

    def _for_us(self, claims: Mapping[str, Any]) -> bool:
        """Whether it was issued for a known client; one with several audiences has to name it (OIDC Core, 3.1.3.7)."""
        several = claims["aud"] not in (self.audience, [self.audience])
        return claims.get("azp", None if several else self.audience) in (self.audience, *self.clients)

    def _verified(self, claims: Mapping[str, Any]) -> bool:
        """Whether an address is the bearer's: providers let people write any that they have not proved yet."""
        return self.claim != "email" or claims.get("email_verified", True) in (True, "true")
