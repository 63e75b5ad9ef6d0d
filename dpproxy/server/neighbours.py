"""The workers on one port as they speak to each other: a connection may reach another worker than its session's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

_SECONDS = 5.0
"""How long another worker may take to answer."""
_MOST_BYTES = 300


class Neighbours:
    """The other workers of a port, each with a socket in a private folder that only they can open.

    A worker never passes on what it was asked by another one.
    """

    def __init__(self, folder: Path, number: int) -> None:
        self._folder, self._own = folder, folder / f"{number}.worker"
        self._listener: asyncio.Server | None = None

    async def listen(self, answer: Callable[[bytes], Awaitable[bytes]]) -> None:
        """Answers the other workers; removes the socket of a dead predecessor."""
        self._own.unlink(missing_ok=True)

        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                async with asyncio.timeout(_SECONDS):
                    writer.write(await answer(await reader.read(_MOST_BYTES)))
                    await writer.drain()
            except (OSError, TimeoutError):
                pass
            finally:
                writer.close()

        self._listener = await asyncio.start_unix_server(take, self._own)

    async def ask(self, question: bytes) -> list[bytes]:
        """The answers of all other workers, empty of one that does not answer."""
        others = [place for place in self._folder.glob("*.worker") if place != self._own]
        return await asyncio.gather(*(_answer_of(place, question) for place in others))

    def close(self) -> None:
        """Answers no more."""
        if self._listener is not None:
            self._listener.close()


async def _answer_of(place: Path, question: bytes) -> bytes:
    """Asks another worker. One that no longer runs has no sessions."""
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(_SECONDS):
            reader, writer = await asyncio.open_unix_connection(place)
            try:
                writer.write(question)
                await writer.drain()
                return await reader.read()
            finally:
                writer.close()
    return b""
