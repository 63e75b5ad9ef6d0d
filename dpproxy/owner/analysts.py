"""Analysts in the ledger, by SCRAM verifiers only."""

from __future__ import annotations

import asyncio

from dpproxy.config.identity import LEAST_PASSWORD, OWNER
from dpproxy.config.sections import Config
from dpproxy.deployment.service import LedgerAndKey, open_front, opened_vault
from dpproxy.pgwire.auth import ScramVerifier
from dpproxy.pgwire.identifiers import NAME_BYTES
from dpproxy.reporting.rows import OutputError
from dpproxy.server.local_client import end_sessions


class UserError(OutputError):
    """A name or a password that cannot be."""


def add(config: Config, name: str, password: str) -> None:
    """Adds an analyst.

    Raises UserError for a short password and a name that no analyst can have, AnalystExists.
    """
    _check(name, password)
    if name == OWNER:
        raise UserError(f"the name {OWNER} is kept for the commands of the data owner")
    with opened_vault(config) as vault:
        vault.ledger.analysts.add(name, str(ScramVerifier.make(password)))


def names(config: Config) -> tuple[str, ...]:
    """The analysts' names."""
    with opened_vault(config) as vault:
        return vault.ledger.analysts.names()


def set_password(config: Config, name: str, password: str) -> None:
    """Sets an analyst's password; raises UserError for a short one and for nobody known."""
    _check(name, password)
    with opened_vault(config) as vault:
        if not vault.ledger.analysts.set_verifier(name, str(ScramVerifier.make(password))):
            raise UserError(f"there is no analyst {name}")


def remove(config: Config, name: str) -> None:
    """Removes an analyst, then ends the sessions that are left; raises UserError where there is none."""
    with opened_vault(config) as vault:
        if not vault.ledger.analysts.remove(name):
            raise UserError(f"there is no analyst {name}")
        _end_sessions(config, vault, name)


def _end_sessions(config: Config, vault: LedgerAndKey, name: str) -> None:
    """Where no server runs there are none."""
    if vault.owner and not config.front.url:
        return
    with open_front(config) as front:
        role, password = front.role_for(name)
        asyncio.run(end_sessions(front.address, front.database, role, password))


def _check(name: str, password: str) -> None:
    if len(password.strip()) < LEAST_PASSWORD:
        raise UserError(
            f"an analyst's password has at least {LEAST_PASSWORD} characters, blanks at its ends not counted"
        )
    if not name or name.startswith("pg_") or len(name.encode()) > NAME_BYTES or not name.isprintable():
        raise UserError("an analyst's name has 1 to 63 bytes, is printable, and does not begin with pg_")
