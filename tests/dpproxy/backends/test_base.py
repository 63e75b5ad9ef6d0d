"""What all backends share: a slot is given back once, whatever ends it."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import pytest

from dpproxy.backends.base import BackendUnavailable, HeldSlot


def test_a_slot_is_given_back_once_with_what_it_held() -> None:
    slots, ended = threading.BoundedSemaphore(1), list[str]()
    slot = HeldSlot(slots, lambda: "connection", ended.append)
    with suppress(KeyError), slot:
        assert slot.held == "connection"
        assert not slots.acquire(blocking=False)
        raise KeyError
    with slot, pytest.raises(ValueError, match="given back"):
        assert slot.held
    assert ended == ["connection"]
    assert slots.acquire(blocking=False)


def test_nobody_waits_for_a_slot_that_could_not_be_opened_or_closed() -> None:
    slots = threading.BoundedSemaphore(1)

    def fail(*_: object) -> Any:
        raise BackendUnavailable

    with pytest.raises(BackendUnavailable):
        HeldSlot(slots, fail, print)
    with pytest.raises(BackendUnavailable), HeldSlot(slots, lambda: "connection", fail):
        pass
    assert slots.acquire(blocking=False)
