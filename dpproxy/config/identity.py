"""[identity] of dpproxy.toml: who may ask on behalf of whom."""

from __future__ import annotations

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, Field, model_validator

from dpproxy.config.values import SECTION, is_loopback
from dpproxy.pgwire.identifiers import possible_name

OWNER = "owner"
"""Whom the owner's commands ask as: what this account has paid for is nobody else's, so that nobody logs in as it."""
AUDITOR = "auditor"
"""Who sees what the owner sees, and changes nothing."""
ROLES = (OWNER, AUDITOR)
LEAST_PASSWORD = 10
"""Characters of a password, an analyst's, the owner's or the auditor's."""


def is_pattern(name: str) -> bool:
    """Whether a name stands for others: * for any characters, ? for one.

    >>> is_pattern("bi_*"), is_pattern("ann")
    (True, False)
    """
    return "*" in name or "?" in name


def is_https(url: str) -> bool:
    """Whether a URL names a host by https, or by http one that only this machine can reach.

    >>> is_https("https://login.example.com"), is_https("http://127.0.0.1:8080/x"), is_https("http://example.com")
    (True, True, False)
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host or "")))


def _name(value: object) -> object:
    if isinstance(value, str) and not (possible_name(value) and value.isprintable()):
        raise ValueError(f'"{value}" cannot be the name of an analyst')
    if value == OWNER:
        raise ValueError(f'"{OWNER}" is kept for the commands of the data owner')
    return value


FIRST_GROUP = "\\1"
"""Stands for what the first parentheses of a pattern have matched."""
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Of public keys only: the proxy can check signatures and make none."""
Name = Annotated[str, BeforeValidator(_name)]


class _Logins(BaseModel):
    model_config = SECTION


class ServiceLogin(_Logins):
    """[identity.services.NAME]: a tool's login, which may act for these analysts, by name or by pattern."""

    analysts: Annotated[list[Name], Field(min_length=1)]


class TokensSection(_Logins):
    """[identity.tokens]: analysts, by name or by pattern, who log in by a signed token in place of a password."""

    analysts: Annotated[list[Name], Field(min_length=1)]
    issuer: str = Field(min_length=1)
    audience: str = Field(min_length=1)
    key_file: str = ""
    ca_file: str = ""
    clients: list[str] = []
    algorithm: Algorithm = "RS256"
    claim: str = Field(default="sub", min_length=1)
    groups: str = ""

    @model_validator(mode="after")
    def _keys_from_somewhere(self) -> TokensSection:
        if not self.key_file and not is_https(self.issuer):
            raise ValueError("without key_file the issuer is asked for its keys: issuer is a URL with https")
        if self.key_file and self.ca_file:
            raise ValueError(
                "ca_file is for an issuer that is asked for its keys: leave key_file or ca_file out"
            )
        return self


class LdapSection(_Logins):
    """[identity.ldap]: analysts, by name or by pattern, whose passwords a directory knows."""

    analysts: Annotated[list[Name], Field(min_length=1)]
    url: str
    start_tls: bool = False
    ca_file: str = ""
    dn: str = ""
    base: str = ""
    attribute: str = Field(default="uid", min_length=1)
    bind_dn: str = ""
    bind_password_file: str = ""
    groups: str = ""

    @property
    def address(self) -> tuple[str, str, int]:
        """Scheme, host and port of `url`; raises ValueError."""
        parts = urlsplit(self.url)
        usual = {"ldap": 389, "ldaps": 636}.get(parts.scheme)
        plain = f"{parts.scheme}://{parts.netloc}"
        if usual is None or not parts.hostname or parts.username or self.url not in (plain, f"{plain}/"):
            raise ValueError('url is "ldaps://HOST:PORT" or "ldap://HOST:PORT"')
        return parts.scheme, parts.hostname, parts.port or usual

    @model_validator(mode="after")
    def _safe(self) -> LdapSection:
        scheme, host, _ = self.address
        if scheme == "ldaps" and self.start_tls:
            raise ValueError("start_tls goes with ldap://: with ldaps:// TLS begins at once")
        if scheme == "ldap" and not self.start_tls and not is_loopback(host):
            raise ValueError("passwords would be sent in the clear: url with ldaps://, or start_tls = true")
        if bool(self.dn) == bool(self.base):
            raise ValueError("dn names a user's entry, or base says below which entry to search: one of them")
        if self.dn and (self.dn.count("{user}") != 1 or self.bind_dn):
            raise ValueError('dn has "{user}" in it, once, and goes without bind_dn')
        if bool(self.bind_dn) != bool(self.bind_password_file):
            raise ValueError("bind_dn and bind_password_file go together")
        return self


class CertificateRule(_Logins):
    """[[identity.certificates]]: whom a client's certificate names, by a pattern that matches all of one field."""

    field: Literal["cn", "dn", "email", "dns", "uri"] = "cn"
    pattern: str
    analyst: str = Field(min_length=1)

    @model_validator(mode="after")
    def _possible(self) -> CertificateRule:
        try:
            groups = re.compile(self.pattern).groups
        except re.error as error:
            raise ValueError(f"pattern is no regular expression: {error}") from None
        if FIRST_GROUP in self.analyst and not groups:
            raise ValueError(f"analyst has {FIRST_GROUP} in it: put a part of pattern in parentheses")
        if FIRST_GROUP not in self.analyst:
            _name(self.analyst)
        return self

    def names(self, value: str) -> str | None:
        r"""The analyst whom a field of this value names, None for nobody.

        >>> CertificateRule(pattern=r"(\w+)@example\.com", analyst=r"\1").names("ann@example.com")
        'ann'
        """
        match = re.fullmatch(self.pattern, value)
        if match is None:
            return None
        return self.analyst.replace(FIRST_GROUP, (match[1] or "") if match.re.groups else "")


class IdentitySection(_Logins):
    """[identity]: who may ask on behalf of whom, and who proves it otherwise than by a password."""

    services: dict[Name, ServiceLogin] = {}
    tokens: TokensSection | None = None
    ldap: LdapSection | None = None
    certificates: list[CertificateRule] = []

    @property
    def tells_groups(self) -> str:
        """A section whose logins tell their groups, empty where there is none."""
        said = {"tokens": self.tokens, "ldap": self.ldap}
        return next((key for key, one in said.items() if one is not None and one.groups), "")

    def patterns(self) -> dict[str, str]:
        """Where names are given by a pattern, by key: accounts appear there as they are asked for."""
        named = {f"services.{name}.analysts": one.analysts for name, one in self.services.items()}
        if self.tokens is not None:
            named["tokens.analysts"] = self.tokens.analysts
        if self.ldap is not None:
            named["ldap.analysts"] = self.ldap.analysts
        return {key: one for key, names in named.items() for one in names if is_pattern(one)}
