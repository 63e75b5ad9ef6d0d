"""The door: a few proofs at a time, known ones first, and the newest of the others."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from dpproxy.server.door import STRANGER_SECONDS, Door, TooManyFailures
from dpproxy.server.login_throttle import FREE_FAILURES


class Knocking:
    """Attempts at a door with four places, two of one address, whose proofs end when they are told to."""

    def __init__(self) -> None:
        self.door = Door(4, 2, 0.0)
        self.inside: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self._ends: dict[str, asyncio.Future[bool]] = {}

    async def knock(self, peer: str, user: str = "ann") -> str:
        """Begins an attempt and gives its name; it may have to wait."""
        name = f"{peer} {user} {len(self.tasks)}"
        self._ends[name] = asyncio.get_running_loop().create_future()
        self.tasks[name] = asyncio.create_task(self._prove(name, peer, user))
        await self.settle()
        return name

    async def end(self, name: str, *, right: bool = False) -> None:
        """The proof of an attempt was looked at."""
        self._ends[name].set_result(right)
        await self.tasks[name]
        await self.settle()

    async def settle(self) -> None:
        """Lets all go on that can."""
        for _ in range(5):
            await asyncio.sleep(0)

    async def _prove(self, name: str, peer: str, user: str) -> None:
        async with self.door.turn(peer, user) as attempt:
            self.inside.append(name)
            attempt.right = await self._ends[name]
            self.inside.remove(name)


def run(test: Callable[[Knocking], Awaitable[None]]) -> None:
    async def all_of_it() -> None:
        knocking = Knocking()
        await test(knocking)
        for task in knocking.tasks.values():
            task.cancel()
        await asyncio.gather(*knocking.tasks.values(), return_exceptions=True)

    asyncio.run(all_of_it())


def test_few_are_inside_and_of_one_address_fewer() -> None:
    async def test(k: Knocking) -> None:
        for n in range(4):
            await k.knock("10.0.0.1", f"name {n}")
        assert len(k.inside) == 2
        for n in range(2, 30):
            await k.knock(f"10.0.0.{n}")
        assert Counter(name.split()[0] for name in k.inside) == {"10.0.0.1": 2, "10.0.0.2": 1}

    run(test)


def test_the_newest_of_equals_goes_first_and_who_is_known_before_them() -> None:
    async def test(k: Knocking) -> None:
        await k.end(await k.knock("10.0.0.9"), right=True)
        held = [await k.knock(f"10.0.0.{n}") for n in range(1, 4)]
        waiting = [await k.knock(f"10.0.1.{n}") for n in range(3)]
        known = await k.knock("10.0.0.9")
        assert k.inside == [*held, known], "a place is left for whoever is known"
        beside = await k.knock("10.0.0.9", "ben")
        await k.end(known, right=True)
        assert k.inside == held
        await k.end(held[0])
        assert k.inside[-1] == beside, "from an address where another's proof was right"
        await k.end(held[1])
        assert k.inside[-1] == waiting[2]
        again = await k.knock("10.0.0.1")
        await k.end(held[2])
        assert k.inside[-1] == waiting[1], "not who has failed before"
        await k.end(beside)
        await k.end(waiting[2])
        assert k.inside == [waiting[1], waiting[0], again]

    run(test)


def test_whoever_goes_away_holds_no_place() -> None:
    async def test(k: Knocking) -> None:
        held = [await k.knock(f"10.0.0.{n}") for n in range(1, 4)]
        waits, comes = await k.knock("10.0.1.1"), await k.knock("10.0.1.2")
        for name in (comes, held[0]):
            k.tasks[name].cancel()
            with suppress(asyncio.CancelledError):
                await k.tasks[name]
        await k.settle()
        assert waits in k.inside
        assert comes not in k.inside

    run(test)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that attempts wait before they have a place, without waiting."""
    noted: list[float] = []
    sleep = asyncio.sleep

    async def slept(seconds: float) -> None:
        noted.append(seconds)
        await sleep(0)

    monkeypatch.setattr("dpproxy.server.door.asyncio.sleep", slept)
    return noted


async def wrong(door: Door, peer: str, user: str) -> None:
    async with door.turn(peer, user):
        pass


async def right(door: Door, peer: str, user: str) -> None:
    async with door.turn(peer, user) as attempt:
        attempt.right = True


def test_failures_of_a_pair_slow_it_and_many_turn_it_away(waits: list[float]) -> None:
    async def test() -> None:
        door = Door(4, 2, 0.0)
        for _ in range(FREE_FAILURES + 20):
            await wrong(door, "10.0.0.1", "ann")
        assert [round(w) for w in waits] == [0] * FREE_FAILURES + list(range(1, 21))
        with pytest.raises(TooManyFailures):
            await wrong(door, "10.0.0.1", "ann")
        await right(door, "10.0.0.1", "ben")
        assert round(waits[-1]) == 0

    asyncio.run(test())


@pytest.mark.parametrize("sprayed", ["addresses", "names", "both"])
def test_who_changes_names_or_addresses_is_slowed_and_nobody_is_locked_out(
    sprayed: str, waits: list[float]
) -> None:
    async def test() -> None:
        door = Door(4, 2, 0.0)
        await right(door, "10.0.0.9", "ann")
        for n in range(200):
            peer = "10.1.1.1" if sprayed == "names" else f"10.1.{n}.1"
            await wrong(door, peer, "ann" if sprayed == "addresses" else f"name {n}")
        assert max(waits[-10:]) == STRANGER_SECONDS, "but not more"
        for user in ("ann", "ben"):
            await right(door, "10.0.0.9", user)
            assert waits[-1] == 0, (
                "nothing that others do from elsewhere slows who comes from a known address"
            )
        await right(door, "10.0.0.7", "ann")
        assert waits[-1] <= STRANGER_SECONDS

    asyncio.run(test())
