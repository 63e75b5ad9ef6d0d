"""The ledger's high-water mark, in a file next to the key, by which an older copy of the ledger is detected.

Two slots are written in turn, each sealed with a key of its own, so that a write that was cut short leaves the
slot before. The file has its full size from the beginning: one fdatasync makes a mark durable.
"""

from __future__ import annotations

import errno
import fcntl
import hmac
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from budget.account import LedgerOlder
from budget.highwater import HighWater
from dpproxy.config.sections import ConfigError
from mechanisms import randomness

_SLOT = 1 << 15
_EMPTY = "the high-water mark cannot be read: it is damaged, or was made with another key"


class MarkFile:
    """The mark of one ledger for all processes that use one key file.

    `keys`: the deployment's, so that a mark of another key does not pass; the first one seals.
    """

    def __init__(self, key_path: Path, *keys: bytes) -> None:
        self.path = mark_path(key_path)
        self._secrets = [randomness.derive(key, "high-water mark") for key in keys]

    def read(self) -> HighWater | None:
        """The mark, None where there is no file; raises ConfigError for a file without a mark."""
        try:
            with self._locked(fcntl.LOCK_SH, os.O_RDONLY) as file:
                return self._last(file)[1]
        except FileNotFoundError:
            return None

    def advance(self, take: Callable[[HighWater], HighWater]) -> None:
        """Replaces the mark durably by what `take` makes of it, under the lock of the file.

        Raises LedgerOlder where that is behind the mark or of another ledger, ConfigError, OSError.
        """
        with self._locked(fcntl.LOCK_EX, os.O_RDWR) as file:
            number, last = self._last(file)
            mark = take(last)
            if mark.ledger != last.ledger or mark.number < last.number:
                raise LedgerOlder(f"the ledger ends at entry {mark.number}, its mark at {last.number}")
            self._write(file, number + 1, mark)

    def reseal(self) -> None:
        """Seals the mark with the first key alone; raises ConfigError, OSError."""
        with self._locked(fcntl.LOCK_EX, os.O_RDWR) as file:
            number, mark = self._last(file)
            for slot in (1, 2):
                self._write(file, number + slot, mark)

    def replace(self, mark: HighWater) -> None:
        """Writes a mark, whatever mark the file had before; raises OSError."""
        new = self.path.with_name(f"{self.path.name}.new")
        with _opened(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC) as file:
            _written(file, bytes(2 * _SLOT), 0)
            self._write(file, 0, mark)
            os.fsync(file)
        os.replace(new, self.path)
        with _opened(self.path.parent, os.O_RDONLY) as folder:
            os.fsync(folder)

    @contextmanager
    def _locked(self, kind: int, flags: int) -> Iterator[int]:
        with _opened(self.path, flags) as file:
            fcntl.flock(file, kind)
            yield file

    def _write(self, file: int, number: int, mark: HighWater) -> None:
        said = f"{number} {mark.dump()}"
        content = f"{_seal(self._secrets[0], said)} {said}\n".encode()
        if len(content) > _SLOT:
            raise ValueError("the mark is too long for its slot")
        _written(file, content.ljust(_SLOT, b"\0"), number % 2 * _SLOT)
        os.fdatasync(file)

    def _last(self, file: int) -> tuple[int, HighWater]:
        marks = {}
        for slot in range(2):
            line, _, _ = os.pread(file, _SLOT, slot * _SLOT).partition(b"\n")
            seal, _, said = line.decode("ascii", "replace").partition(" ")
            if any(hmac.compare_digest(seal.encode(), _seal(one, said).encode()) for one in self._secrets):
                number, _, mark = said.partition(" ")
                marks[int(number)] = HighWater.load(mark)
        if not marks:
            raise ConfigError(self.path, "", _EMPTY)
        return max(marks.items())


def mark_path(key_path: Path) -> Path:
    """Where the mark of a key's ledger lies."""
    return key_path.with_name(f"{key_path.name}.mark")


def _seal(secret: bytes, said: str) -> str:
    return hmac.digest(secret, said.encode(), "sha256").hex()


def _written(file: int, content: bytes, offset: int) -> None:
    """Writes all of it; a full disk takes the beginning without an error."""
    if os.pwrite(file, content, offset) != len(content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    file = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        yield file
    finally:
        os.close(file)
