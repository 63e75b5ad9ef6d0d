"""By what analysts prove who they are, where it is not a password of ours."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from dpproxy.config.identity import CertificateRule
from dpproxy.server.jwt import Tokens
from dpproxy.server.ldap import Directory
from dpproxy.server.proof import Proof
from dpproxy.server.tls import certified

COMMON_NAME = CertificateRule(pattern="(.*)", analyst="\\1")
"""Whom a certificate names where the file has no rules."""


def _nothing_noted(analyst: str, teams: Collection[str], as_of: datetime) -> None:
    """No group matters."""


@dataclass(frozen=True)
class LoginMethods:
    """What [identity] says of logins.

    Attributes:
        tokens: the issuer whose signed tokens some analysts show.
        directory: what knows the passwords of some analysts.
        certificates: whom a client's certificate names.
        teams: the groups of each team whose members a provider tells.
        joined: notes the teams of an analyst as of a time; may block, raises LedgerError.
    """

    tokens: Tokens | None = None
    directory: Directory | None = None
    certificates: Sequence[CertificateRule] = (COMMON_NAME,)
    teams: Mapping[str, frozenset[str]] = field(default_factory=dict)
    joined: Callable[[str, Collection[str], datetime], None] = _nothing_noted

    def of(self, user: str) -> Tokens | Directory | None:
        """By whose word a user logs in, None for a password of ours or a certificate."""
        return next((one for one in (self.tokens, self.directory) if one and one.wanted(user)), None)

    def teams_of(self, proof: Proof) -> Collection[str]:
        """The teams that somebody's groups lead to."""
        return [team for team, groups in self.teams.items() if groups & proof.groups]

    def certifies(self, certificate: bytes, user: str) -> bool:
        """Whether a certificate, which was verified, names a user."""
        fields = ((rule, certified(certificate, rule.field)) for rule in self.certificates)
        return any(value and rule.names(value) == user for rule, value in fields)
