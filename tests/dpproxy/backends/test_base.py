"""What all backends share: a slot is given back once, whatever ends it."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import pytest

from dpproxy.backends.base import NOBODYS, BackendUnavailable, Cancellation, Cancelled, HeldSlot, Slots


def test_a_slot_is_given_back_once_with_what_it_held() -> None:
    slots, ended = Slots(1), list[str]()
    slot = HeldSlot(slots, NOBODYS, lambda: "connection", ended.append)
    with suppress(KeyError), slot:
        assert slot.held == "connection"
        gone = Cancellation()
        threading.Timer(0.05, gone.cancel).start()
        with pytest.raises(Cancelled):
            slots.acquire("ann", gone)
        raise KeyError
    with slot, pytest.raises(ValueError, match="given back"):
        assert slot.held
    assert ended == ["connection"]
    slots.acquire("ann", Cancellation())


def test_nobody_waits_for_a_slot_that_could_not_be_opened_or_closed() -> None:
    slots = Slots(1)

    def fail(*_: object) -> Any:
        raise BackendUnavailable

    with pytest.raises(BackendUnavailable):
        HeldSlot(slots, NOBODYS, fail, print)
    with pytest.raises(BackendUnavailable), HeldSlot(slots, NOBODYS, lambda: "connection", fail):
        pass
    slots.acquire("ann", Cancellation())
