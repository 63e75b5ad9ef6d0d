"""Rollover of epochs with several workers: the parent reloads the public tables once, and the workers wait for it."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable
from pathlib import Path

from dpproxy.front.front import FrontError
from rewriter.refusal import Refusal

log = logging.getLogger("dpproxy.deployment.epoch_rollover")

_NAME = "owner"
_DONE, _CHANGED, _FAILED = b"done", b"changed", b"failed"
_SECONDS = 600.0
_MOST_BYTES = 100


class EpochLeader:
    """The parent's side: `turn` reads the public tables of an epoch, given by name, and may block."""

    def __init__(self, folder: Path, turn: Callable[[str], None]) -> None:
        self._place, self._turn = folder / _NAME, turn
        self._listener: asyncio.Server | None = None

    async def listen(self) -> None:
        """Takes the workers' calls."""
        self._listener = await asyncio.start_unix_server(self._take, self._place)

    def close(self) -> None:
        """Takes no more calls."""
        if self._listener is not None:
            self._listener.close()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            epoch = (await reader.read(_MOST_BYTES)).decode()
            writer.write(await asyncio.to_thread(self._outcome, epoch))
            await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    def _outcome(self, epoch: str) -> bytes:
        try:
            self._turn(epoch)
        except Refusal:
            return _CHANGED
        except Exception as error:
            log.error("the epoch %s cannot begin: %s", epoch, type(error).__name__)
            return _FAILED
        return _DONE


def turn_at_owner(folder: Path, epoch: str) -> None:
    """The worker's side: has the parent begin an epoch and waits for it.

    Raises Refusal where the tables no longer are what the policy says, FrontError where they cannot be read.
    """
    outcome = b""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(_SECONDS)
            connection.connect(str(folder / _NAME))
            connection.sendall(epoch.encode())
            outcome = connection.recv(_MOST_BYTES)
    except OSError:
        pass
    if outcome == _CHANGED:
        raise tables_changed()
    if outcome != _DONE:
        raise FrontError("the public tables cannot be reloaded")


class OncePerEpoch:
    """Runs a function once for each epoch, on the first call; a failure is retried.

    >>> begun = []
    >>> turn = OncePerEpoch("2024-01-01", begun.append)
    >>> for epoch in ("2024-01-01", "2024-01-02", "2024-01-02"):
    ...     turn(epoch)
    >>> begun
    ['2024-01-02']
    """

    def __init__(self, epoch: str, begin: Callable[[str], None]) -> None:
        self._epoch, self._begin = epoch, begin
        self._lock = threading.Lock()

    def __call__(self, epoch: str) -> None:
        with self._lock:
            if epoch != self._epoch:
                self._begin(epoch)
                self._epoch = epoch


def tables_changed() -> Refusal:
    """55000: the backend's tables no longer are what the policy says of them."""
    return Refusal(
        "55000",
        "the backend's tables have changed, so nothing can be answered",
        hint="Ask the data owner to run dpproxy check, and to reload or restart the proxy.",
    )
