"""One connection: read by awaiting while it logs in, by callback afterwards, with flow control both ways."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

from dpproxy.pgwire.messages import Inbound, ProtocolError

Address = Path | tuple[str, int]
"""A Unix socket, or host and port."""
HIGH_WATER = 1 << 16
"""Bytes waiting in one direction before the other side is no longer read."""


class ConnectionEnded(Exception):
    """The other side has gone."""


class Channel(asyncio.Protocol):
    """A connection that is read either by `startup` and `message`, or, once attached, by a callback."""

    def __init__(self, inbound: Inbound, accepted: Callable[[Channel], None] | None = None) -> None:
        self.inbound = inbound
        self.congested = False
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._accepted = accepted
        self._transport: asyncio.Transport | None = None
        self._arrived = asyncio.Event()
        self._receive: Callable[[bytes], None] | None = None
        self._flow: Callable[[], None] | None = None
        self._reading = True

    @property
    def transport(self) -> asyncio.Transport:
        """The transport, once connected."""
        assert self._transport is not None
        return self._transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=HIGH_WATER)
        connection = transport.get_extra_info("socket")
        if connection.family != socket.AF_UNIX:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self._accepted is not None:
            self._accepted(self)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)
        self._arrived.set()
        if self._flow is not None:
            self._flow()

    def data_received(self, data: bytes) -> None:
        if self._receive is not None:
            self._receive(data)
            return
        self.inbound.feed(data)
        self._arrived.set()
        self.read_if(len(self.inbound) < HIGH_WATER)

    def pause_writing(self) -> None:
        self.congested = True

    def resume_writing(self) -> None:
        self.congested = False
        if self._flow is not None:
            asyncio.get_running_loop().call_soon(self._flow)

    def read_if(self, wanted: bool) -> None:
        """Reads on, or stops reading until called again."""
        if wanted != self._reading and not self.transport.is_closing():
            self._reading = wanted
            (self.transport.resume_reading if wanted else self.transport.pause_reading)()

    async def startup(self) -> tuple[int, bytes]:
        """The next packet without a kind, as (code, body); raises ProtocolError, ConnectionEnded."""
        while (packet := self.inbound.take_startup()) is None:
            await self._more()
        return packet

    async def message(self) -> tuple[int, bytes]:
        """The next message, as (kind, body); raises ProtocolError, ConnectionEnded."""
        while (message := self.inbound.take()) is None:
            await self._more()
        return message

    async def _more(self) -> None:
        if self.closed.done():
            raise ConnectionEnded
        self._arrived.clear()
        self.read_if(True)
        await self._arrived.wait()

    async def secure(self, context: ssl.SSLContext) -> None:
        """Turns to TLS, as the server; what arrives before that is known is kept, not handled.

        Raises ProtocolError where the client sent anything unencrypted after asking for TLS.
        """
        if len(self.inbound):
            raise ProtocolError("received unencrypted data after SSL request")
        loop = asyncio.get_running_loop()
        self._reading = True
        transport = await loop.start_tls(self.transport, self, context, server_side=True)
        if transport is None:
            raise ConnectionEnded
        transport.set_write_buffer_limits(high=HIGH_WATER)
        self._transport = transport

    def attach(self, receive: Callable[[bytes], None], flow: Callable[[], None]) -> None:
        """From now on bytes go to `receive`; `flow` is called when `congested` ends, and at the end."""
        self._receive, self._flow = receive, flow

    def send(self, data: bytes) -> None:
        """Sends, or queues for sending; nothing after the end."""
        if data and not self.transport.is_closing():
            self.transport.write(data)

    def close(self) -> None:
        """Sends what is queued and closes; what a peer does not take within five seconds is dropped."""
        if not self.transport.is_closing():
            self.transport.close()
            asyncio.get_running_loop().call_later(5, self.transport.abort)


async def connect(address: Address, inbound: Inbound) -> Channel:
    """Connects; raises OSError."""
    loop = asyncio.get_running_loop()
    if isinstance(address, Path):
        _, channel = await loop.create_unix_connection(lambda: Channel(inbound), str(address))
    else:
        _, channel = await loop.create_connection(lambda: Channel(inbound), *address)
    return channel
