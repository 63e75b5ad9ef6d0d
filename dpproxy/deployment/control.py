"""The owner's word to a running server: SIGHUP, and a socket beside the front's folder that says how it went."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from dpproxy.config.sections import Config

log = logging.getLogger("dpproxy.deployment.control")

_RELOAD, _DONE = b"reload", b"done"
_SECONDS = 600.0
_MOST_BYTES = 4000


class NoServer(Exception):
    """No server runs, or it does not answer."""


def control_path(config: Config) -> Path:
    """Where the socket of a configuration's server is."""
    data_dir = config.path(config.front.data_dir)
    return data_dir.with_name(f"{data_dir.name}.control")


@asynccontextmanager
async def reloading(
    place: Path, reload: Callable[[], Awaitable[None]], expected: tuple[type[Exception], ...]
) -> AsyncIterator[None]:
    """Within the context, SIGHUP and `ask_to_reload` have `reload` called, one call after the other.

    `expected`: what it may raise; the first line of the text is for the owner.
    """
    turn, begun = asyncio.Lock(), set[asyncio.Task[bytes]]()

    async def outcome() -> bytes:
        async with turn:
            try:
                await reload()
            except expected as error:
                said = " ".join(str(error).split()) or type(error).__name__
                log.error("the policy was not reloaded: %s", said)
                return said.encode()[:_MOST_BYTES]
            except Exception as error:
                log.exception("the policy was not reloaded")
                return type(error).__name__.encode()
            log.warning("the policy was reloaded")
            return _DONE

    def hear() -> None:
        task = asyncio.create_task(outcome())
        begun.add(task)
        task.add_done_callback(begun.discard)

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            if await reader.read(_MOST_BYTES) == _RELOAD:
                writer.write(await outcome())
                await writer.drain()
        writer.close()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, hear)
    place.unlink(missing_ok=True)
    with _reached(place) as path, socket.socket(socket.AF_UNIX) as bound:
        bound.bind(path)
        place.chmod(0o600)
        listener = await asyncio.start_unix_server(take, sock=bound)
    try:
        yield
    finally:
        listener.close()
        place.unlink(missing_ok=True)
        loop.remove_signal_handler(signal.SIGHUP)


def ask_to_reload(config: Config) -> str:
    """Has the running server read its file again; why it has not, or "" where it has. Raises NoServer."""
    said = b""
    with suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_SECONDS)
        with _reached(control_path(config)) as path:
            connection.connect(path)
        connection.sendall(_RELOAD)
        said = connection.recv(_MOST_BYTES)
    if not said:
        raise NoServer(f"no running dpproxy of {config.file} answers")
    return "" if said == _DONE else said.decode()


@contextmanager
def _reached(place: Path) -> Iterator[str]:
    """A name of a socket that is short enough, as long as the context lasts."""
    place.parent.mkdir(parents=True, exist_ok=True)
    folder = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{place.name}"
    finally:
        os.close(folder)
