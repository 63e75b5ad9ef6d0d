"""How late the loop and logins are, and that health tells it."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from dpproxy.telemetry import lateness
from dpproxy.telemetry.lateness import WHAT, Late, Lateness


@pytest.mark.parametrize("late", ["loop", "logins"])
def test_what_waits_is_told_while_it_waits_and_for_a_while_after(
    late: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lateness, "_BEAT_SECONDS", 0.01)
    monkeypatch.setattr(lateness, "_REMEMBERED_SECONDS", 0.3)
    monkeypatch.setattr(lateness, "LATE_SECONDS", 0.15)
    told: list[tuple[str, float]] = []
    one = Lateness(lambda *heard: told.append(heard))

    async def test() -> None:
        with ThreadPoolExecutor(1) as threads:
            watching = asyncio.create_task(one.watch(threads))
            await asyncio.sleep(0.05)
            one.check()
            if late == "loop":
                time.sleep(0.2)
                await asyncio.sleep(0)
            else:
                threads.submit(time.sleep, 0.5)
                await asyncio.sleep(0.4)
            with pytest.raises(Late):
                one.check()
            assert one.seconds(late) > 0.15 > one.seconds(WHAT[late == "loop"])
            while one.seconds(late) > 0.15:
                await asyncio.sleep(0.01)
            one.check()
            watching.cancel()

    asyncio.run(test())
    assert max(seconds for what, seconds in told if what == late) > 0.15


def test_a_loop_that_does_not_run_is_seen_from_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lateness, "LATE_SECONDS", 0.1)
    monkeypatch.setattr(lateness, "_BEAT_SECONDS", 0.01)
    one = Lateness()

    def look() -> bool:
        time.sleep(0.2)
        try:
            one.check()
        except Late:
            return True
        return False

    async def test() -> bool:
        with ThreadPoolExecutor(2) as threads:
            watching = asyncio.create_task(one.watch(threads))
            await asyncio.sleep(0.05)
            seen = threads.submit(look)
            time.sleep(0.3)
            watching.cancel()
            return seen.result()

    assert asyncio.run(test())
