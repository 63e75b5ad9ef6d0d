"""By what analysts prove who they are, where it is not a password of ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpproxy.config.identity import CertificateRule
from dpproxy.server.jwt import Tokens
from dpproxy.server.ldap import Directory
from dpproxy.server.tls import certified

COMMON_NAME = CertificateRule(pattern="(.*)", analyst="\\1")
"""Whom a certificate names where the file has no rules."""


@dataclass(frozen=True)
class LoginMethods:
    """What [identity] says of logins.

    Attributes:
        tokens: the issuer whose signed tokens some analysts show.
        directory: what knows the passwords of some analysts.
        certificates: whom a client's certificate names.
    """

    tokens: Tokens | None = None
    directory: Directory | None = None
    certificates: Sequence[CertificateRule] = (COMMON_NAME,)

    def certifies(self, certificate: bytes, user: str) -> bool:
        """Whether a certificate, which was verified, names a user."""
        fields = ((rule, certified(certificate, rule.field)) for rule in self.certificates)
        return any(value and rule.names(value) == user for rule, value in fields)
