"""When the replies of private statements leave: at ticks that no row decides.

Why: docs/decisions/replies-leave-at-ticks.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakValueDictionary

from dpproxy.backends.base import Cancellation
from dpproxy.server.fair_pool import Turns
from rewriter.refusal import Refusal

TIMED_OUT = "canceling statement due to statement timeout"


@dataclass(frozen=True)
class Ticks:
    """The moments at which a reply may leave, in seconds after its statement came: `first`, twice that, four
    times and so on before `last`, the time-out; then `last`.

    >>> ticks = Ticks(1.0, 5.0)
    >>> [ticks.after(seconds) for seconds in (0.01, 1.0, 1.01, 3.0, 4.5)]
    [1.0, 1.0, 2.0, 4.0, 5.0]
    """

    first: float
    last: float

    def after(self, seconds: float) -> float:
        """The first tick that is not before `seconds`."""
        tick = self.first
        while tick < seconds:
            tick *= 2
        return min(tick, self.last)


class PaddedTurns:
    """One step of a login at a time, whose result is given at a tick; used from the event loop's thread alone.

    A login's next step begins when the result of the one before is given: no other session reads, from balances or
    answers, that the work was over earlier. What is over holds no thread.
    """

    def __init__(self, turns: Turns[object], ticks: Ticks) -> None:
        """`turns`: the threads on which the steps run."""
        self._turns, self._ticks = turns, ticks
        self._places: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def run(
        self,
        login: str,
        since: float,
        work: Callable[[], object],
        waiting: Cancellation,
        stop: Callable[[], None],
        failed: Callable[[object], bool],
    ) -> object:
        """The result of `work`, at a tick; of work that runs into the time-out, when it is over.

        `since`: when its statement arrived, by the loop's clock; ticks count from there, or from when its turn came.
        `waiting`: ends work whose turn has not come. Later it is not asked: whether work was over at a moment that a
        client chooses would show in what it has cost. `stop`: called at the time-out, ends the work and answers for it
        where nothing of it is to be noted first.
        `failed`: whether a result says that private rows were read in vain, which leaves at the time-out, too.
        """
        place = self._places.setdefault(login, asyncio.Lock())
        queued = place.locked()
        async with place:
            if waiting.cancelled:
                return Refusal("57014", "canceling statement due to user request")
            clock = asyncio.get_running_loop().time
            begun = clock() if queued else since
            running = self._turns.run(login, work, waiting)
            await asyncio.wait([running], timeout=begun + self._ticks.last - clock())
            if running.done():
                late = failed(running.result())
                tick = self._ticks.last if late else self._ticks.after(clock() - begun)
                await asyncio.sleep(begun + tick - clock())
            else:
                stop()
        return await running
