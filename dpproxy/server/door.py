"""Whose proof is looked at next: a few at a time, and guessers hold nobody up for long.

Why: docs/decisions/failures-are-counted-by-address.md.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from dpproxy.server.login_throttle import Throttle
from rewriter.refusal import Refusal

STRANGER_SECONDS = 1.0
"""What failures of others cost at most whoever comes from where nobody has logged in before."""
_OF_NAME, _OF_ALL = 20, 100
"""Failures that cost nothing: for a name from any addresses, and of all."""
_MOST_KNOWN = 10_000


class TooManyFailures(Refusal):
    """28000: of one address for one name."""

    def __init__(self) -> None:
        super().__init__("28000", "too many failed logins", hint="Try again in a minute.")


@dataclass(eq=False)
class Attempt:
    """One proof. `rank`: 0 goes first; `right`: to be set where the proof was right."""

    peer: str
    user: str
    rank: int
    right: bool = False
    admitted: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Door:
    """At most `places` proofs are looked at together, of the strange ones one less, and `each` of one address.

    A proof is strange until one from the same address for the same name was right here. Of those who wait, who is not
    strange goes first, then who comes from an address where somebody's was right, then from one without failures. Among
    equals the newest goes first, so that however many guess, whoever has just come does not wait behind them. `pace`:
    seconds for which a strange proof that was wrong keeps its place.
    """

    def __init__(self, places: int, each: int, pace: float) -> None:
        self._places, self._each, self._pace = places, each, pace
        self._pairs, self._addresses = Throttle(), Throttle()
        self._names, self._all = Throttle(_OF_NAME), Throttle(_OF_ALL)
        self._known = OrderedDict[tuple[str, ...], None]()
        """Addresses, and pairs of an address and a name, for which a proof was right."""
        self._waiting: list[Attempt] = []
        self._strange = Counter[str]()
        self._inside = 0

    @asynccontextmanager
    async def turn(self, peer: str, user: str) -> AsyncIterator[Attempt]:
        """Waits until a proof may be looked at; raises TooManyFailures where too many of this pair wait."""
        now = asyncio.get_running_loop().time()
        wait = self._pairs.turn((peer, user), now)
        if wait is None:
            raise TooManyFailures
        here = (peer,) in self._known
        free = self._addresses.is_free(peer, now)
        self._addresses.turn(peer, now)
        if not here:
            others = (self._names.turn(user, now), self._all.turn("", now))
            wait = max(wait, *(STRANGER_SECONDS if w is None else min(w, STRANGER_SECONDS) for w in others))
        await asyncio.sleep(wait)
        attempt = Attempt(peer, user, 0 if (peer, user) in self._known else 1 if here else 2 if free else 3)
        await self._place(attempt)
        try:
            yield attempt
        finally:
            if attempt.right:
                self._welcome(attempt, here)
            if attempt.rank and not attempt.right:
                asyncio.get_running_loop().call_later(self._pace, self._leave, attempt)
            else:
                self._leave(attempt)

    def _welcome(self, attempt: Attempt, here: bool) -> None:
        """A right proof counts as no failure, and whoever comes likewise is known from now on."""
        self._pairs.succeeded((attempt.peer, attempt.user))
        self._addresses.succeeded(attempt.peer)
        if not here:
            self._names.succeeded(attempt.user)
            self._all.succeeded("")
        for key in ((attempt.peer,), (attempt.peer, attempt.user)):
            self._known[key] = None
            self._known.move_to_end(key)
        while len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)

    async def _place(self, attempt: Attempt) -> None:
        self._waiting.insert(0, attempt)
        self._admit()
        try:
            await attempt.admitted
        except asyncio.CancelledError:
            if attempt.admitted.cancelled():
                self._waiting.remove(attempt)
            else:
                self._leave(attempt)
            raise

    def _admit(self) -> None:
        """Lets in who is next, as long as there are places."""
        while self._inside < self._places and (able := list(filter(self._fits, self._waiting))):
            attempt = min(able, key=lambda one: one.rank)  # the first of them, which is the newest
            self._waiting.remove(attempt)
            self._inside += 1
            self._strange[attempt.peer] += bool(attempt.rank)
            attempt.admitted.set_result(None)

    def _fits(self, attempt: Attempt) -> bool:
        few = self._strange[attempt.peer] < self._each and self._strange.total() < self._places - 1
        return (few or not attempt.rank) and not attempt.admitted.done()

    def _leave(self, attempt: Attempt) -> None:
        self._inside -= 1
        self._strange[attempt.peer] -= bool(attempt.rank)
        self._strange += Counter()  # drops zeros
        self._admit()
