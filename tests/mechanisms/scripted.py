"""A stream that begins with chosen words, to reach the decisions that chance reaches once in 2^39 draws."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mechanisms.randomness import Stream, Words


class Scripted(Stream):
    """Gives the scripted words first, then goes on as the stream of its key; its children are real ones.

    `asked` lists how many words were asked for, call by call.
    """

    __slots__ = ("_script", "asked")

    def __init__(self, key: bytes, script: Sequence[int]) -> None:
        super().__init__(key)
        self._script = list(script)
        self.asked: list[int] = []

    def words(self, n: int) -> Words:
        self.asked.append(n)
        scripted, self._script = self._script[:n], self._script[n:]
        return np.concatenate([np.array(scripted, dtype=np.uint64), super().words(n - len(scripted))])


class Untouched(Stream):
    """Fails the test when anything is drawn from it."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(bytes(32))

    def child(self, *labels: str | int) -> Stream:
        raise AssertionError("randomness was asked for before the input was checked")

    def words(self, n: int) -> Words:
        raise AssertionError("randomness was drawn before the input was checked")
