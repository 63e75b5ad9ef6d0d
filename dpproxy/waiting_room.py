"""Who may be logging in at the same time: whoever keeps silent makes way for those who come later."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass


@dataclass(eq=False)
class Guest:
    """A connection whose client has not proved who it is.

    `peer`: where it comes from; `login`: what talks with it, once it runs; `sent_away`: whether it had to make way.
    """

    peer: str
    login: asyncio.Task[None] | None = None
    sent_away: bool = False


class _Line:
    """Guests in the order of their coming, those that have not said anything yet apart."""

    def __init__(self) -> None:
        self.silent: dict[Guest, None] = {}
        self.named: dict[Guest, None] = {}

    def __len__(self) -> int:
        return len(self.silent) + len(self.named)

    @property
    def first_to_go(self) -> Guest:
        return next(iter(self.silent or self.named))

    def leave(self, guest: Guest) -> None:
        self.silent.pop(guest, None)
        self.named.pop(guest, None)


class WaitingRoom:
    """At most `most` guests, `of_one_peer` from one place: one more sends away the oldest, of the silent ones first.

    So a place that fills the room empties it itself, and whoever comes with a startup packet always gets in.
    """

    def __init__(self, most: int, of_one_peer: int) -> None:
        self._most, self._of_one_peer = most, of_one_peer
        self._all = _Line()
        self._of_peer: defaultdict[str, _Line] = defaultdict(_Line)

    def __len__(self) -> int:
        return len(self._all)

    def enter(self, guest: Guest) -> None:
        """Lets a guest in, at the expense of another where there is no room."""
        of_peer = self._of_peer[guest.peer]
        if len(of_peer) >= self._of_one_peer:
            self._send_away(of_peer.first_to_go)
        elif len(self._all) >= self._most:
            self._send_away(self._all.first_to_go)
        for line in (self._all, self._of_peer[guest.peer]):
            line.silent[guest] = None

    def named(self, guest: Guest) -> None:
        """The guest has said who it is."""
        for line in (self._all, self._of_peer[guest.peer]):
            if guest in line.silent:
                del line.silent[guest]
                line.named[guest] = None

    def leave(self, guest: Guest) -> None:
        """The guest has gone, or has proved who it is."""
        self._all.leave(guest)
        self._of_peer[guest.peer].leave(guest)
        if not self._of_peer[guest.peer]:
            del self._of_peer[guest.peer]

    def _send_away(self, guest: Guest) -> None:
        self.leave(guest)
        guest.sent_away = True
        if guest.login is not None:
            guest.login.cancel()
