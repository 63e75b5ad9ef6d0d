"""What [identity] says of logins, with the files that it names."""

from __future__ import annotations

import os
import ssl
from dataclasses import replace

from budget.memberships import Memberships
from dpproxy.config.identity import TokensSection
from dpproxy.config.sections import Config, ConfigError
from dpproxy.server.issuer import Issuer, KeyFile, Keys, KeysUnavailable
from dpproxy.server.jwt import Tokens
from dpproxy.server.ldap import Directory, Server
from dpproxy.server.login_methods import COMMON_NAME, LoginMethods


def login_methods_of(config: Config, memberships: Memberships | None = None) -> LoginMethods:
    """By what analysts log in besides passwords of ours; raises ConfigError for files that cannot be read.

    `memberships`: where it is noted who is in which team; not needed where nobody logs in.
    """
    rules = config.identity.certificates or [COMMON_NAME]
    methods = LoginMethods(tokens_of(config), directory_of(config), rules, config.budget.teams_by_group)
    return methods if memberships is None else replace(methods, joined=memberships.note)


def tokens_of(config: Config) -> Tokens | None:
    """What [identity.tokens] says, None without it; raises ConfigError for keys that cannot be read."""
    section = config.identity.tokens
    if section is None:
        return None
    key = "key_file" if section.key_file else "ca_file"
    try:
        keys = _issuers_keys(config, section)
    except KeysUnavailable as error:
        raise ConfigError(config.file, f"identity.tokens.{key}", str(error)) from None
    return Tokens(
        tuple(section.analysts),
        keys,
        section.issuer,
        section.audience,
        tuple(section.clients),
        section.algorithm,
        section.claim,
        section.groups,
    )


def _issuers_keys(config: Config, section: TokensSection) -> Keys:
    if section.key_file:
        file = KeyFile(config.path(section.key_file))
        file.read()
        return file
    return Issuer(section.issuer, config.path(section.ca_file) if section.ca_file else None)


def directory_of(config: Config) -> Directory | None:
    """What [identity.ldap] says, None without it; raises ConfigError for files that cannot be read."""
    section = config.identity.ldap
    if section is None:
        return None
    scheme, host, port = section.address
    password = config.path(section.bind_password_file) if section.bind_password_file else None
    if password is not None and not os.access(password, os.R_OK):
        raise ConfigError(config.file, "identity.ldap.bind_password_file", f"{password} cannot be read")
    tls = None
    if scheme == "ldaps" or section.start_tls:
        try:
            tls = ssl.create_default_context(cafile=config.path(section.ca_file) if section.ca_file else None)
        except (ssl.SSLError, OSError) as error:
            raise ConfigError(config.file, "identity.ldap.ca_file", str(error.strerror or error)) from None
    return Directory(
        tuple(section.analysts),
        Server(host, port, tls, section.start_tls),
        section.dn,
        section.base,
        section.attribute,
        section.bind_dn,
        password,
        section.groups,
    )
