"""How many sessions there may be: counted together by all processes that share a port."""

from __future__ import annotations

import fcntl
import mmap
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_COUNT = struct.Struct("=i")


class Seats:
    """One process's seats beside those of the others, whose counts lie in a file that all of them map.

    `place`: the file, made by `make`; None for a process that shares its port with nobody. `number`: which
    worker this is, from 0.

    >>> alone = Seats()
    >>> alone.take(1), alone.take(1)
    (True, False)
    """

    def __init__(self, place: Path | None = None, number: int = 0) -> None:
        self._file: IO[bytes] | None = None if place is None else place.open("r+b")
        self._counts = mmap.mmap(-1 if self._file is None else self._file.fileno(), self._size(number))
        self._number = number

    @staticmethod
    def make(place: Path, workers: int) -> None:
        """Writes a file for so many workers, with nobody seated."""
        place.write_bytes(bytes(_COUNT.size * workers))

    def take(self, most: int) -> bool:
        """Takes a seat unless `most` are taken by all together."""
        with self._alone():
            if sum(count for (count,) in _COUNT.iter_unpack(self._counts[:])) >= most:
                return False
            self._add(1)
            return True

    def leave(self) -> None:
        """Gives a seat back."""
        self._add(-1)

    def _add(self, change: int) -> None:
        at = self._number * _COUNT.size
        (count,) = _COUNT.unpack_from(self._counts, at)
        _COUNT.pack_into(self._counts, at, count + change)

    def _size(self, number: int) -> int:
        return 0 if self._file is not None else _COUNT.size * (number + 1)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if self._file is None:
            yield
            return
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)


def empty_seats(place: Path, number: int) -> None:
    """Gives back the seats of a worker that is gone."""
    with place.open("r+b") as file:
        file.seek(number * _COUNT.size)
        file.write(bytes(_COUNT.size))
