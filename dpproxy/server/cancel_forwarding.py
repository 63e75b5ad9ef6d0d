"""Forwards CancelRequests between workers on one port: a request may reach a worker other than its session's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

_SECONDS = 5.0
"""How long another worker may take to cancel before the client's connection is closed."""
_MOST_BYTES = 300


class CancelForwarder:
    """The other workers of a port, each with a socket in a private folder that only they can open.

    A request is forwarded unchanged, with its secret. A worker never forwards a request from another worker.
    """

    def __init__(self, folder: Path, number: int) -> None:
        self._folder, self._own = folder, folder / f"{number}.cancel"
        self._listener: asyncio.Server | None = None

    async def listen(self, cancel: Callable[[bytes], Awaitable[bool]]) -> None:
        """Accepts requests from the other workers; removes the socket of a dead predecessor."""
        self._own.unlink(missing_ok=True)

        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                async with asyncio.timeout(_SECONDS):
                    await cancel(await reader.read(_MOST_BYTES))
            except (OSError, TimeoutError):
                pass
            finally:
                writer.close()

        self._listener = await asyncio.start_unix_server(take, self._own)

    async def pass_on(self, body: bytes) -> None:
        """Forwards a CancelRequest to every other worker, and waits until each has handled it."""
        others = [place for place in self._folder.glob("*.cancel") if place != self._own]
        await asyncio.gather(*(_hand_over(place, body) for place in others))

    def close(self) -> None:
        """Accepts no more requests."""
        if self._listener is not None:
            self._listener.close()


async def _hand_over(place: Path, body: bytes) -> None:
    """Sends a request to another worker. One that no longer runs has no sessions to cancel."""
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(_SECONDS):
            reader, writer = await asyncio.open_unix_connection(place)
            try:
                writer.write(body)
                await writer.drain()
                await reader.read()
            finally:
                writer.close()
