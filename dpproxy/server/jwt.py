"""Analysts who log in by a signed token (JWT, RFC 7519) in place of a password, by PyJWT."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

import jwt

from dpproxy.server.issuer import Keys, KeysUnavailable
from dpproxy.server.proof import Proof
from rewriter.refusal import Refusal

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
        groups: the claim that lists their groups, empty where these do not matter.
    """

    analysts: tuple[str, ...]
    keys: Keys
    issuer: str
    audience: str
    clients: tuple[str, ...]
    algorithm: str
    claim: str
    groups: str = ""

    def wanted(self, user: str) -> bool:
        """Whether this analyst logs in by a token, and by nothing else."""
        return any(fnmatchcase(user, pattern) for pattern in self.analysts)

    failed_seconds = 0.0
    """From a wrong token to its refusal, at least."""

    def refused(self, user: str) -> Refusal:
        """Whatever was wrong."""
        return Refusal(
            "28P01",
            f'token authentication failed for user "{user}"',
            hint="The password is a signed token that names this user; it may have expired.",
        )

    async def proof(self, user: str, token: str) -> Proof | None:
        """What a token says of its bearer: signed, of the issuer, for this audience, not expired, and of `user`."""
        try:
            head = jwt.get_unverified_header(token)
            if str(head.get("typ", "jwt")).lower().removeprefix("application/") not in _KINDS:
                return None
            key = await self.keys.named(head.get("kid"))
            claims = jwt.decode(
                token,
                key,
                algorithms=[self.algorithm],
                audience=self.audience,
                issuer=self.issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud", self.claim, *(["iat"] if self.groups else [])]},
            )
            as_of = datetime.fromtimestamp(float(claims.get("iat", 0)), UTC)
        except (
            jwt.PyJWTError,
            KeysUnavailable,
            TypeError,
            ValueError,
            ArithmeticError,
            OSError,
            RecursionError,
        ):
            return None
        if not (claims[self.claim] == user and self._for_us(claims) and self._verified(claims)):
            return None
        return Proof(_texts(claims.get(self.groups)), as_of)

    def _for_us(self, claims: Mapping[str, Any]) -> bool:
        """Whether it was issued for a known client; one with several audiences has to name it (OIDC Core, 3.1.3.7)."""
        several = claims["aud"] not in (self.audience, [self.audience])
        return claims.get("azp", None if several else self.audience) in (self.audience, *self.clients)

    def _verified(self, claims: Mapping[str, Any]) -> bool:
        """Whether an address is the bearer's: providers let people write any that they have not proved yet."""
        return self.claim != "email" or claims.get("email_verified", True) in (True, "true")


def _texts(said: object) -> frozenset[str]:
    """A claim that is a text or a list of texts; nothing of any other."""
    listed = said if isinstance(said, list) else [said]
    return frozenset(one for one in listed if isinstance(one, str))
