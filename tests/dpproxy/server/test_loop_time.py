"""Turns of the event loop: whoever sends little is answered beside whoever sends much."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

from dpproxy.server import loop_time
from dpproxy.server.loop_time import AT_ONCE_SECONDS, TURN_SECONDS, LoopTime


class Clock:
    """Seconds that pass only when they are spent."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(loop_time, "perf_counter", made)
    return made


def worker(
    time: LoopTime, clock: Clock, login: str, name: str, done: list[str], work: int
) -> Callable[[], None]:
    """A session with so many units of work, of a tenth of a turn each."""
    left = [work]

    def turn() -> None:
        while left[0] and not time.over:
            clock.now += TURN_SECONDS / 10
            left[0] -= 1
        done.append(name)
        if left[0]:
            time.wait(login, turn)

    return turn


def test_logins_have_turns_and_of_each_its_sessions(clock: Clock) -> None:
    async def run() -> list[str]:
        time, done = LoopTime(), list[str]()
        for n in range(40):
            time.wait("mallory", worker(time, clock, "mallory", f"m{n}", done, 1000))
        time.wait("ann", worker(time, clock, "ann", "ann", done, 25))
        while done.count("ann") < 3:
            await asyncio.sleep(0)
        return done

    done = asyncio.run(run())
    assert [name[0] for name in done[:6]] == ["m", "a"] * 3, "forty sessions have a turn between two of ann's"
    assert len({name for name in done[:6] if name != "ann"}) == 3, "each time another session"


def test_what_is_little_is_processed_at_once_and_no_more_than_fits_in_a_round(clock: Clock) -> None:
    async def run() -> None:
        time = LoopTime()
        fitting = Counter[bool]()
        for n in range(100):
            fitting[time.begin(f"login {n}")] += 1
            if not time.over:
                clock.now += TURN_SECONDS / 2
            time.end()
        fits = round(2 * AT_ONCE_SECONDS / TURN_SECONDS)
        assert fitting == {True: fits, False: 100 - fits}
        await asyncio.sleep(0)
        assert time.begin("ann"), "the next round"
        time.end()
        time.wait("ann", lambda: None)
        assert not time.begin("ann"), "not past her own that wait"
        time.end()
        assert time.begin("ben")
        time.end()

    asyncio.run(run())


def test_whoever_leaves_has_no_turn(clock: Clock) -> None:
    async def run() -> list[str]:
        time, done = LoopTime(), list[str]()
        gone, stays = (worker(time, clock, "ann", name, done, 1) for name in ("gone", "stays"))
        time.wait("ann", gone)
        time.wait("ann", stays)
        time.leave("ann", gone)
        time.leave("nobody", gone)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return done

    assert asyncio.run(run()) == ["stays"]


def test_short_turns_have_one_round_and_a_long_one_ends_it(clock: Clock) -> None:
    async def served(work: int) -> list[str]:
        time, done = LoopTime(), list[str]()
        for n in range(10):
            time.wait("ann", worker(time, clock, "ann", f"{n}", done, work))
        await asyncio.sleep(0)
        return done.copy()

    assert len(asyncio.run(served(1))) == 10
    assert asyncio.run(served(100)) == ["0"]
