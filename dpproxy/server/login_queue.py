"""Limits concurrent logins: silent connections are ended in favour of new ones."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass

SPEAKING_SECONDS = 2.0
"""Until then a guest that has not said anything does not count as silent: TLS and a long way take time."""


@dataclass(eq=False)
class PendingLogin:
    """A connection whose client has not logged in yet.

    Attributes:
        peer: the address that it comes from.
        came: when it was opened, in seconds of a steady clock.
        login: the task that talks with it, once it runs.
        sent_away: it was ended to make room for another.
    """

    peer: str
    came: float
    login: asyncio.Task[None] | None = None
    sent_away: bool = False


class _Line:
    """Guests in the order of their arrival; guests that have sent no name yet are kept separate."""

    def __init__(self) -> None:
        self.silent: dict[PendingLogin, None] = {}
        self.named: dict[PendingLogin, None] = {}

    def __len__(self) -> int:
        return len(self.silent) + len(self.named)

    def first_to_go(self, now: float) -> PendingLogin:
        """The oldest silent guest that had SPEAKING_SECONDS to send its name, else the oldest guest."""
        silent, named = next(iter(self.silent), None), next(iter(self.named), None)
        if silent is not None and now - silent.came >= SPEAKING_SECONDS:
            return silent
        return min((guest for guest in (silent, named) if guest is not None), key=lambda guest: guest.came)

    def leave(self, guest: PendingLogin) -> None:
        self.silent.pop(guest, None)
        self.named.pop(guest, None)


class WaitingRoom:
    """At most `most` guests, `of_one_peer` from one place: one more sends away the oldest, of the silent ones first.

    So clients that fill the queue, silent or not, do not block logins that complete quickly.
    """

    def __init__(self, most: int, of_one_peer: int) -> None:
        self._most, self._of_one_peer = most, of_one_peer
        self._all = _Line()
        self._of_peer: defaultdict[str, _Line] = defaultdict(_Line)

    def __len__(self) -> int:
        return len(self._all)

    def enter(self, guest: PendingLogin) -> None:
        """Admits a guest; if there is no room, another guest is sent away."""
        of_peer = self._of_peer[guest.peer]
        if len(of_peer) >= self._of_one_peer:
            self._send_away(of_peer.first_to_go(guest.came))
        elif len(self._all) >= self._most:
            self._send_away(self._all.first_to_go(guest.came))
        for line in (self._all, self._of_peer[guest.peer]):
            line.silent[guest] = None

    def named(self, guest: PendingLogin) -> None:
        """Records that the guest has sent its name."""
        for line in (self._all, self._of_peer[guest.peer]):
            if guest in line.silent:
                del line.silent[guest]
                line.named[guest] = None

    def leave(self, guest: PendingLogin) -> None:
        """Removes a guest that has gone, or has logged in."""
        self._all.leave(guest)
        self._of_peer[guest.peer].leave(guest)
        if not self._of_peer[guest.peer]:
            del self._of_peer[guest.peer]

    def _send_away(self, guest: PendingLogin) -> None:
        self.leave(guest)
        guest.sent_away = True
        if guest.login is not None:
            guest.login.cancel()
