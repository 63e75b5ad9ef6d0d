"""Caches bounded in number and bytes, for any thread."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

MOST_PLANS = 1000
MOST_BYTES = 64 << 20
"""Of each cache, about: of classified texts, of prepared statements, of plans, of answers to be repeated."""

Value = TypeVar("Value")


class Kept:
    """The last results by key: `count` of them at most, of about `most` bytes with what a result weighs itself."""

    def __init__(self, most: int = MOST_BYTES, count: int = MOST_PLANS) -> None:
        self._most, self._count = most, count
        self._held = 0
        self._lock = threading.Lock()
        self._values: OrderedDict[object, tuple[object, int]] = OrderedDict()

    def get(
        self, key: object, make: Callable[[], Value], weight: Callable[[Value], int] = lambda _: 0
    ) -> Value:
        """The value of `key`, which is made where it has none."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key][0]  # type: ignore[return-value]
        value = make()
        self.put(key, value, weight(value))
        return value

    def put(self, key: object, value: object, weight: int) -> None:
        """Keeps the value of `key`, in place of the one that it has."""
        bytes_held = weight + _written(key)
        with self._lock:
            _, before = self._values.pop(key, (None, 0))
            self._values[key] = (value, bytes_held)
            self._held += bytes_held - before
            while (self._held > self._most or len(self._values) > self._count) and len(self._values) > 1:
                _, (_, dropped) = self._values.popitem(last=False)
                self._held -= dropped

    def known(self, key: object) -> object | None:
        """The value of `key`, None where it has none."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    @property
    def size(self) -> tuple[int, int]:
        """How many, and about how many bytes."""
        with self._lock:
            return len(self._values), self._held

    def clear(self) -> None:
        """Drops all values."""
        with self._lock:
            self._values.clear()
            self._held = 0


def _written(key: object) -> int:
    """How many characters a key has."""
    if isinstance(key, str):
        return len(key)
    return sum(map(_written, key)) if isinstance(key, tuple) else 0
