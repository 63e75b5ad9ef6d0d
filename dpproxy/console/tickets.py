"""Signed cookies: who holds one has logged in, or has at least been handed the login page; and the token of a form."""

from __future__ import annotations

import hmac
from dataclasses import dataclass

from mechanisms.randomness import random_bytes

SECONDS = 8 * 3600
"""How long a login lasts."""


@dataclass(frozen=True)
class Ticket:
    """A cookie's content: `owner` after a login, not before; valid until `expires` (Unix time)."""

    id: str
    owner: bool
    expires: int


class Tickets:
    """Makes and reads tickets of one owner's password.

    `key`: 32 secret bytes, `verifier`: of the password, so that another password ends all logins. A ticket of an ended
    login is remembered until it would have expired.
    """

    def __init__(self, key: bytes, verifier: str) -> None:
        self._key = hmac.digest(key, verifier.encode(), "sha256")
        self._gone: dict[str, int] = {}

    def issue(self, now: float, *, owner: bool) -> str:
        """A new ticket, as its cookie has it.

        >>> tickets = Tickets(bytes(32), "")
        >>> tickets.read(tickets.issue(0, owner=True), now=1).owner, tickets.read("x.1.2.3", now=1)
        (True, None)
        """
        said = f"{random_bytes(16).hex()}.{int(owner)}.{int(now) + SECONDS}"
        return f"{said}.{self._sign('ticket', said)}"

    def read(self, cookie: str, now: float) -> Ticket | None:
        """The ticket of a cookie, None for one that was not issued here, has expired or was handed back."""
        said, _, signature = cookie.rpartition(".")
        if not _same(signature, self._sign("ticket", said)):
            return None
        id, owner, expires = said.split(".")
        if int(expires) <= now or id in self._gone:
            return None
        return Ticket(id, owner == "1", int(expires))

    def end(self, ticket: Ticket, now: float) -> None:
        """Ends a ticket before it expires."""
        self._gone = {id: expires for id, expires in self._gone.items() if expires > now}
        self._gone[ticket.id] = ticket.expires

    def token(self, ticket: Ticket) -> str:
        """The token that every form of the ticket's holder must contain."""
        return self._sign("form", ticket.id)

    def sent_by(self, ticket: Ticket, token: str) -> bool:
        """Whether a form with this token was made for the holder."""
        return _same(token, self.token(ticket))

    def _sign(self, purpose: str, text: str) -> str:
        return hmac.digest(self._key, f"{purpose}:{text}".encode(errors="replace"), "sha256").hex()


def _same(given: str, right: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), right.encode())
