"""Slots of a backend: shared by login, and no wait outlasts its client."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from dpproxy.backends.base import Cancellation, Cancelled, Slots


def waits(slots: Slots, threads: ThreadPoolExecutor, login: str, taken: list[str]) -> Future[None]:
    """A thread that takes a slot as soon as it can; it waits by when this returns."""

    def take() -> None:
        slots.acquire(login, Cancellation())
        taken.append(login)

    before = slots.waiting
    future = threads.submit(take)
    while slots.waiting == before and not future.done():
        time.sleep(0.001)
    return future


def test_one_login_leaves_a_slot_to_others_and_they_have_turns() -> None:
    slots, taken = Slots(4), list[str]()
    with ThreadPoolExecutor(12) as threads:
        eves = [waits(slots, threads, "eve", taken) for _ in range(6)]
        assert taken == ["eve"] * 3
        waits(slots, threads, "ann", taken).result(10)
        assert taken == ["eve"] * 3 + ["ann"]
        ben = waits(slots, threads, "ben", taken)
        slots.release("ann")
        ben.result(10)
        cat = waits(slots, threads, "cat", taken)
        slots.release("eve")
        slots.release("ben")
        cat.result(10)
        for _ in range(3):
            slots.release("eve")
        for one in eves:
            one.result(10)
    assert sorted(taken) == ["ann", "ben", "cat", *["eve"] * 6]


def test_a_wait_ends_with_its_client_and_holds_nothing() -> None:
    slots, gone = Slots(1), Cancellation()
    slots.acquire("ann", Cancellation())
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(slots.acquire, "ben", gone)
        gone.cancel()
        with pytest.raises(Cancelled):
            waiting.result(10)
    assert slots.waiting == 0
    slots.release("ann")
    slots.acquire("ben", Cancellation())


def test_nothing_is_lost_in_a_crowd() -> None:
    slots, inside, most = Slots(3), [0], [0]
    lock = threading.Lock()

    def work(number: int) -> None:
        cancellation = Cancellation()
        if number % 5 == 0:
            threading.Timer(0.002, cancellation.cancel).start()
        try:
            slots.acquire(f"login {number % 4}", cancellation)
        except Cancelled:
            return
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        time.sleep(0.001)
        with lock:
            inside[0] -= 1
        slots.release(f"login {number % 4}")

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(work, range(300)))
    assert most[0] == 3
    for _ in range(2):
        slots.acquire("ann", Cancellation())
    slots.acquire("ben", Cancellation())
