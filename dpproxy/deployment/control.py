"""The owner's words to the process that runs a deployment, by a socket beside the front's folder; SIGHUP is one."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from dpproxy.config.sections import Config
from dpproxy.server.systemd import READY, notify, reloading

log = logging.getLogger("dpproxy.deployment.control")

RELOAD = "reload"
_DONE = b"done"
_SECONDS = 600.0
_MOST_BYTES = 4000


class NoServer(Exception):
    """No server runs, or it does not answer."""


def control_path(config: Config) -> Path:
    """Where the socket of a configuration's server is."""
    data_dir = config.path(config.front.data_dir)
    return data_dir.with_name(f"{data_dir.name}.control")


@asynccontextmanager
async def controlled(
    place: Path, words: Mapping[str, Callable[[], Awaitable[object]]], expected: tuple[type[Exception], ...]
) -> AsyncIterator[None]:
    """Within the context, `tell` has the function of a word called, one after the other, and SIGHUP that of RELOAD.

    `expected`: what they may raise; its text, on one line, is for the owner.
    """
    turn, begun = asyncio.Lock(), set[asyncio.Task[None]]()

    async def outcome(word: str) -> bytes:
        async with turn:
            try:
                await words[word]()
            except expected as error:
                said = " ".join(str(error).split()) or type(error).__name__
                log.error("%s failed: %s", word, said)
                return said.encode()[:_MOST_BYTES]
            except Exception as error:
                log.exception("%s failed", word)
                return type(error).__name__.encode()
            log.warning("%s done", word)
            return _DONE

    async def reload() -> None:
        notify(*reloading())
        said = await outcome(RELOAD)
        notify(READY, "STATUS=" + ("" if said == _DONE else said.decode()))

    def hear() -> None:
        task = asyncio.create_task(reload())
        begun.add(task)
        task.add_done_callback(begun.discard)

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            if (word := (await reader.read(_MOST_BYTES)).decode(errors="replace")) in words:
                writer.write(await outcome(word))
                await writer.drain()
        writer.close()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, hear)
    place.unlink(missing_ok=True)
    # The listener's from here on, which closes it.
    bound = socket.socket(socket.AF_UNIX)
    with _reached(place) as path:
        bound.bind(path)
    place.chmod(0o600)
    listener = await asyncio.start_unix_server(take, sock=bound)
    try:
        yield
    finally:
        listener.close()
        place.unlink(missing_ok=True)
        loop.remove_signal_handler(signal.SIGHUP)


def tell(config: Config, word: str) -> str:
    """Says a word to the running server: why it has not done it, or "" where it has. Raises NoServer."""
    said = b""
    with suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_SECONDS)
        with _reached(control_path(config)) as path:
            connection.connect(path)
        connection.sendall(word.encode())
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
