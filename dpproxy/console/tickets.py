"""Signed cookies: who holds one has logged in, or has at least been handed the login page; and the token of a form."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass

from dpproxy.config.identity import ROLES
from mechanisms.randomness import random_bytes

SECONDS = 8 * 3600
"""How long a login lasts."""


@dataclass(frozen=True)
class Ticket:
    """A cookie's content: `role` after a login, empty before; valid until `expires` (Unix time)."""

    id: str
    role: str
    expires: int


class Tickets:
    """Makes and reads tickets.

    `key`: 32 secret bytes; `verifiers`: of the roles' passwords by now, so that another password ends all logins of its
    role. A ticket of an ended login is remembered until it would have expired.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.verifiers: Mapping[str, str] = {}
        self._gone: dict[str, int] = {}

    def issue(self, now: float, role: str) -> str:
        """A new ticket, as its cookie has it.

        >>> tickets = Tickets(bytes(32))
        >>> tickets.read(tickets.issue(0, "owner"), now=1).role, tickets.read("x.owner.2.3", now=1)
        ('owner', None)
        """
        said = f"{random_bytes(16).hex()}.{role}.{int(now) + SECONDS}"
        return f"{said}.{self._sign('ticket', said, role)}"

    def read(self, cookie: str, now: float) -> Ticket | None:
        """The ticket of a cookie, None for one that was not issued here, has expired or was handed back."""
        said, _, signature = cookie.rpartition(".")
        id, role, expires = said.split(".") if said.count(".") == 2 else ("", "", "0")
        if role not in ("", *ROLES) or not _same(signature, self._sign("ticket", said, role)):
            return None
        if int(expires) <= now or id in self._gone:
            return None
        return Ticket(id, role, int(expires))

    def end(self, ticket: Ticket, now: float) -> None:
        """Ends a ticket before it expires."""
        self._gone = {id: expires for id, expires in self._gone.items() if expires > now}
        self._gone[ticket.id] = ticket.expires

    def token(self, ticket: Ticket) -> str:
        """The token that every form of the ticket's holder must contain."""
        return self._sign("form", ticket.id, ticket.role)

    def sent_by(self, ticket: Ticket, token: str) -> bool:
        """Whether a form with this token was made for the holder."""
        return _same(token, self.token(ticket))

    def _sign(self, purpose: str, text: str, role: str) -> str:
        key = hmac.digest(self._key, self.verifiers.get(role, "").encode(), "sha256")
        return hmac.digest(key, f"{purpose}:{text}".encode(errors="replace"), "sha256").hex()


def _same(given: str, right: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), right.encode())
