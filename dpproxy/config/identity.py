"""[identity] of dpproxy.toml: who may ask on behalf of whom."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, Field

from dpproxy.config.values import SECTION
from dpproxy.pgwire.identifiers import possible_name

OWNER = "owner"
"""Whom the owner's commands ask as: what this account has paid for is nobody else's, so that nobody logs in as it."""
LEAST_PASSWORD = 10
"""Characters of a password, an analyst's or the owner's."""


def is_pattern(name: str) -> bool:
    """Whether a name stands for others: * for any characters, ? for one.

    >>> is_pattern("bi_*"), is_pattern("ann")
    (True, False)
    """
    return "*" in name or "?" in name


def _name(value: object) -> object:
    if isinstance(value, str) and not (possible_name(value) and value.isprintable()):
        raise ValueError(f'"{value}" cannot be the name of an analyst')
    if value == OWNER:
        raise ValueError(f'"{OWNER}" is kept for the commands of the data owner')
    return value


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
    key_file: str
    issuer: str = Field(min_length=1)
    audience: str = Field(min_length=1)
    algorithm: Algorithm = "RS256"
    claim: str = Field(default="sub", min_length=1)


class IdentitySection(_Logins):
    """[identity]: who may ask on behalf of whom, and who proves it otherwise than by a password."""

    services: dict[Name, ServiceLogin] = {}
    tokens: TokensSection | None = None

    def patterns(self) -> dict[str, str]:
        """Where names are given by a pattern, by key: accounts appear there as they are asked for."""
        named = {f"services.{name}.analysts": one.analysts for name, one in self.services.items()}
        if self.tokens is not None:
            named["tokens.analysts"] = self.tokens.analysts
        return {key: one for key, names in named.items() for one in names if is_pattern(one)}
