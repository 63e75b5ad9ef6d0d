"""The console's connections: a request has its seconds, an address its share, and what answers is left alone."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import uvloop
from starlette.types import Receive, Scope, Send

from dpproxy.config.sections import Config
from dpproxy.console import doors
from dpproxy.console.listener import listening
from dpproxy.deployment.service import configured
from tests.dpproxy.serving import make

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n"
SECONDS = 0.5
Connect = Callable[[str], Awaitable[socket.socket]]


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.setattr(doors, "REQUEST_SECONDS", SECONDS)
    return configured(make(tmp_path), http="127.0.0.1:0")


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers as soon as the request is whole."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


def with_console(
    config: Config, act: Callable[[Connect], Awaitable[None]], app: Callable[..., Awaitable[None]] = answer
) -> None:
    """Runs `act` beside a console, with what makes a connection to it from an address."""

    async def run() -> None:
        async with listening(app, config) as url:
            port = int(url.rstrip("/").rpartition(":")[2])

            async def connect(address: str) -> socket.socket:
                made = socket.socket()
                made.bind((address, 0))
                made.setblocking(False)
                await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", port))
                return made

            await act(connect)

    uvloop.run(asyncio.wait_for(run(), 60))


async def received(connection: socket.socket) -> bytes:
    """What comes next; nothing where the connection has ended."""
    try:
        return await asyncio.get_running_loop().sock_recv(connection, 1 << 16)
    except ConnectionError:
        return b""


async def said(connection: socket.socket, data: bytes) -> None:
    await asyncio.get_running_loop().sock_sendall(connection, data)


@pytest.mark.parametrize("before", [b"", GET], ids=["first", "later"])
@pytest.mark.parametrize("part", [b"", b"GET", POST, POST + b"abc"])
def test_a_request_that_does_not_come_whole_ends_its_connection(
    config: Config, before: bytes, part: bytes
) -> None:
    async def act(connect: Connect) -> None:
        one = await connect("127.0.0.1")
        if before:
            await said(one, before)
            assert b"200 OK" in await received(one)
        await said(one, part)
        assert b"200" not in await received(one)
        one.close()

    with_console(config, act)


def test_little_by_little_is_no_longer(config: Config) -> None:
    async def act(connect: Connect) -> None:
        one = await connect("127.0.0.1")

        async def drip() -> None:
            while True:
                await said(one, b"G")
                await asyncio.sleep(SECONDS / 10)

        dripping = asyncio.create_task(drip())
        assert b"200" not in await received(one)
        dripping.cancel()
        one.close()

    with_console(config, act)


def test_what_is_being_answered_stays_and_gives_way_to_nobody(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an address with its share full: silent ones go first, and none of those that wait for an answer."""
    go_on, waiting = asyncio.Event(), []

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        waiting.append(scope)
        await go_on.wait()
        await answer(scope, receive, send)

    async def act(connect: Connect) -> None:
        monkeypatch.setattr(doors, "REQUEST_SECONDS", 60.0)
        asking = [await connect("127.0.0.2") for _ in range(doors.MOST_OF_ADDRESS - 1)]
        for one in asking:
            await said(one, GET)
        silent = await connect("127.0.0.2")
        while len(waiting) < len(asking):
            await asyncio.sleep(0.01)
        late = await connect("127.0.0.2")
        assert await received(silent) == b"", "the silent one went for it"
        await said(late, GET)
        while len(waiting) <= len(asking):
            await asyncio.sleep(0.01)
        refused = await connect("127.0.0.2")
        assert await received(refused) == b"", "this address has its share, all of it at work"
        other = await connect("127.0.0.3")
        await said(other, GET)
        go_on.set()
        for one in (*asking, late, other):
            assert b"200 OK" in await received(one)
            one.close()
        for one in (silent, refused):
            one.close()

    with_console(config, act, slow)


def test_a_crowd_of_addresses_gives_way_to_one_more(config: Config) -> None:
    async def act(connect: Connect) -> None:
        monkey = [await connect(f"127.0.1.{1 + n % 8}") for n in range(doors.MOST + 40)]
        owner = await connect("127.0.0.1")
        await said(owner, GET)
        assert b"200 OK" in await received(owner)
        for one in (*monkey, owner):
            one.close()

    with_console(config, act)


def test_an_answer_that_nobody_reads_ends(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors, "ANSWER_SECONDS", SECONDS)
    ended: list[str] = []

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(1000):
            await send({"type": "http.response.body", "body": bytes(1 << 20), "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        ended.append("at the end")

    async def act(connect: Connect) -> None:
        one = await connect("127.0.0.1")
        await said(one, GET)
        for _ in range(600):
            if ended:
                break
            await asyncio.sleep(0.05)
        assert ended
        one.close()

    with_console(config, act, endless)
