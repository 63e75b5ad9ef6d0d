"""How many sessions there may be: counted together by all processes that share a port."""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from rewriter.refusal import Refusal

_SEAT = struct.Struct("=I12s")
"""Which worker holds it, counted from 1, and for whose login; zeros while it is free."""
_FREE = bytes(_SEAT.size)


class SessionLimit:
    """The sessions of one process, counted together with those of all processes on its port.

    >>> alone = SessionLimit(3, 2)
    >>> alone.take("ann"), alone.take("ann"), alone.take("bob")
    (0, 1, 2)
    >>> alone.leave(1)
    >>> alone.take("ann")
    1

    Args:
        most: the most sessions over all processes.
        of_one_login: the most sessions of one login.
        place: the file that all processes map, written by `make`; None for a process that has its port alone.
        number: which worker this is, from 0.
    """

    def __init__(self, most: int, of_one_login: int, place: Path | None = None, number: int = 0) -> None:
        self._most, self._of_one_login = most, of_one_login
        self._file: IO[bytes] | None = None if place is None else place.open("r+b")
        self._table = mmap.mmap(-1 if self._file is None else self._file.fileno(), _SEAT.size * most)
        self._worker = number + 1

    @staticmethod
    def make(place: Path, most: int) -> None:
        """Writes a file for so many seats, all free."""
        place.write_bytes(bytes(_SEAT.size * most))

    def take(self, login: str) -> int:
        """Takes a seat and gives its number; raises Refusal 53300 where a limit is reached."""
        own = hashlib.blake2b(login.encode(), digest_size=12).digest()
        with _alone(self._file):
            taken = list(_SEAT.iter_unpack(self._table[:]))
            held = Counter(holder for worker, holder in taken if worker)
            if held.total() >= self._most:
                raise Refusal(
                    "53300", "sorry, too many clients already", hint=_hint("max_sessions", self._most)
                )
            if held[own] >= self._of_one_login:
                raise Refusal(
                    "53300",
                    f'too many connections for role "{login}"',
                    hint=_hint("max_sessions_per_login", self._of_one_login),
                )
            seat = next(number for number, (worker, _) in enumerate(taken) if not worker)
            _SEAT.pack_into(self._table, seat * _SEAT.size, self._worker, own)
            return seat

    def leave(self, seat: int) -> None:
        """Gives a seat back."""
        with _alone(self._file):
            self._table[seat * _SEAT.size : (seat + 1) * _SEAT.size] = _FREE

    def close(self) -> None:
        """Lets go of the file."""
        self._table.close()
        if self._file is not None:
            self._file.close()


def empty_seats(place: Path, number: int) -> None:
    """Gives back the seats of a worker that is gone."""
    with place.open("r+b") as file, _alone(file):
        taken = _SEAT.iter_unpack(file.read())
        file.seek(0)
        file.write(b"".join(_FREE if seat[0] == number + 1 else _SEAT.pack(*seat) for seat in taken))
        file.flush()


def _hint(setting: str, most: int) -> str:
    return f"{setting} in [server] of dpproxy.toml allows {most} at one time."


@contextmanager
def _alone(file: IO[bytes] | None) -> Iterator[None]:
    if file is None:
        yield
        return
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)
