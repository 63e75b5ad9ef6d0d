"""The host's disk as the file of the mark uses it: what was written but not flushed is there until the host crashes."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulator.world import World

SECTOR = 512


class _File:
    """Content as programs see it and as the disk has it, and the writes that lie between."""

    def __init__(self) -> None:
        self.seen, self.durable = bytearray(), bytearray()
        self.pending: list[tuple[int, bytes]] = []


def _write(content: bytearray, offset: int, data: bytes) -> None:
    content.extend(bytes(max(0, offset + len(data) - len(content))))
    content[offset : offset + len(data)] = data


class Disk:
    """What `dpproxy/config/highwater_file.py` finds in place of the modules os and fcntl."""

    O_RDONLY, O_RDWR, O_CREAT, O_TRUNC, O_CLOEXEC = (
        os.O_RDONLY,
        os.O_RDWR,
        os.O_CREAT,
        os.O_TRUNC,
        os.O_CLOEXEC,
    )
    LOCK_SH, LOCK_EX = fcntl.LOCK_SH, fcntl.LOCK_EX
    strerror = staticmethod(os.strerror)

    def __init__(self, world: World) -> None:
        self._world = world
        self._names: dict[str, _File] = {}
        self._durable_names: dict[str, _File] = {}
        self._open: dict[int, _File | None] = {}
        self._locks: dict[int, tuple[_File, int, object]] = {}
        self._last = 2

    def open(self, path: Path, flags: int, mode: int = 0o777) -> int:
        """Opens a file, or a folder."""
        self._last += 1
        if path.suffix:
            if str(path) not in self._names:
                if not flags & os.O_CREAT:
                    raise FileNotFoundError(str(path))
                self._names[str(path)] = _File()
            elif flags & os.O_TRUNC:
                self._names[str(path)] = _File()
        self._open[self._last] = self._names.get(str(path))
        return self._last

    def close(self, file: int) -> None:
        """Closes it, and lets go its lock."""
        self._open.pop(file, None)
        self._locks.pop(file, None)

    def flock(self, file: int, kind: int) -> None:
        """Waits for the lock of a file."""
        self._world.pause("mark: lock")
        wanted = self._file(file)

        def free() -> bool:
            others = [k for n, (f, k, _) in self._locks.items() if f is wanted and n != file]
            return not others or (kind == fcntl.LOCK_SH and fcntl.LOCK_EX not in others)

        self._world.wait(free)
        self._locks[file] = (wanted, kind, self._world.process)

    def pread(self, file: int, size: int, offset: int) -> bytes:
        """Reads."""
        self._world.pause("mark: read")
        return bytes(self._file(file).seen[offset : offset + size])

    def pwrite(self, file: int, data: bytes, offset: int) -> int:
        """Writes, not to the disk yet."""
        self._world.pause("mark: write")
        self._world.fail_disk()
        one = self._file(file)
        _write(one.seen, offset, data)
        one.pending.append((offset, data))
        return len(data)

    def fdatasync(self, file: int) -> None:
        """Has what was written on the disk; where that fails, it may never be."""
        self._world.pause("mark: before the flush")
        one = self._file(file)
        pending, one.pending = one.pending, []
        try:
            self._world.fail_disk()
        except OSError:
            self._torn(one, pending)
            raise
        for offset, data in pending:
            _write(one.durable, offset, data)
        self._world.pause("mark: after the flush")

    def fsync(self, file: int) -> None:
        """The same, or has a folder's names on the disk."""
        if self._open[file] is not None:
            self.fdatasync(file)
        else:
            self._world.pause("mark: before the folder's flush")
            self._durable_names = dict(self._names)

    def replace(self, old: Path, new: Path) -> None:
        """Gives a file another name."""
        self._world.pause("mark: rename")
        self._names[str(new)] = self._names.pop(str(old))

    def crash(self) -> None:
        """The host dies: of what was not flushed anything may be there, or nothing."""
        random = self._world.random
        names = self._names if random.random() < 0.5 else self._durable_names
        self._names, self._durable_names = dict(names), dict(names)
        for one in self._names.values():
            self._torn(one, one.pending)
            one.pending, one.seen = [], bytearray(one.durable)
        self._open.clear()
        self._locks.clear()

    def unlock(self, process: object) -> None:
        """A process has died."""
        self._locks = {n: lock for n, lock in self._locks.items() if lock[2] is not process}

    def durable(self, path: Path) -> bytes | None:
        """What would be there after a crash now, with luck; None without a file."""
        one = self._durable_names.get(str(path))
        return None if one is None else bytes(one.durable)

    def _torn(self, one: _File, pending: list[tuple[int, bytes]]) -> None:
        random = self._world.random
        for offset, data in pending:
            if random.random() < 0.6:
                kept = (
                    len(data) if random.random() < 0.5 else random.randrange(len(data) // SECTOR + 1) * SECTOR
                )
                _write(one.durable, offset, data[:kept])

    def _file(self, file: int) -> _File:
        one = self._open[file]
        assert one is not None
        return one
