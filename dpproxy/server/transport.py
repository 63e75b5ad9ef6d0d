"""One connection: read by awaiting while it logs in, by callback afterwards, with flow control both ways."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import cast

from dpproxy.pgwire.messages import Inbound, ProtocolError

Address = Path | tuple[str, int]
"""A Unix socket, or host and port."""
HIGH_WATER = 1 << 16
"""Bytes waiting in one direction before the other side is no longer read."""
_TLS_HANDSHAKE = 0x16
_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 120_000),
)
"""A peer that has vanished is noticed within two minutes."""


class ConnectionEnded(Exception):
    """The other side has gone."""


class Channel(asyncio.Protocol):
    """A connection that is read either by `startup` and `message`, or, once attached, by a callback."""

    def __init__(self, inbound: Inbound, accepted: Callable[[Channel], None] | None = None) -> None:
        self.inbound = inbound
        self.congested = False
        self.binding: bytes | None = None
        """What its TLS is bound to, None without it."""
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

    @property
    def is_secure(self) -> bool:
        """Whether it speaks TLS."""
        return self.transport.get_extra_info("ssl_object") is not None

    @property
    def application_protocol(self) -> str | None:
        """What the client named in TLS, if it did."""
        protocol: str | None = self.transport.get_extra_info("ssl_object").selected_alpn_protocol()
        return protocol

    @property
    def certificate(self) -> bytes | None:
        """The client's certificate (DER), which was verified; None if it showed none."""
        tls = self.transport.get_extra_info("ssl_object")
        found: bytes | None = None if tls is None else tls.getpeercert(binary_form=True)
        return found

    @property
    def peer(self) -> str:
        """Where the client is: its address without the port, of IPv6 the network that one client has for itself."""
        address = self.transport.get_extra_info("peername")
        return peer_of(address[0]) if isinstance(address, tuple) else ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Of any event loop: not all derive their transports and protocols from asyncio's classes.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=HIGH_WATER)
        connection = transport.get_extra_info("socket")
        if connection.family != socket.AF_UNIX:
            for option in _KEEPALIVE:
                connection.setsockopt(*option)
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

    async def begins_with_tls(self) -> bool:
        """Whether the first byte is that of a TLS handshake; raises ConnectionEnded."""
        while not len(self.inbound):
            await self._more()
        return self.inbound.first == _TLS_HANDSHAKE

    async def secure(self, context: ssl.SSLContext, *, early: bytes = b"") -> None:
        """Turns to TLS, as the server; `early`: what has arrived of it.

        Raises ProtocolError where the client sent anything unencrypted after asking for TLS.
        """
        if len(self.inbound):
            raise ProtocolError("received unencrypted data after SSL request")
        loop = asyncio.get_running_loop()
        # From here on bytes are for TLS, which resumes reading once it is established.
        self.read_if(False)
        self._reading = True
        starting = loop.create_task(loop.start_tls(self.transport, self, context, server_side=True))
        if early:
            # Twice: the task sets the new protocol, and the loop tells that protocol of its connection.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            _hand_over(cast(asyncio.BufferedProtocol, self.transport.get_protocol()), early)
        transport = await starting
        if transport is None:
            raise ConnectionEnded
        transport.set_write_buffer_limits(high=HIGH_WATER)
        self._transport = transport

    def attach(self, receive: Callable[[bytes], None], flow: Callable[[], None]) -> None:
        """From now on bytes go to `receive`. `flow` is called when `congested` becomes false, and at the end."""
        self._receive, self._flow = receive, flow

    def send(self, data: bytes) -> None:
        """Sends, or queues for sending; nothing after the end."""
        if data and not self.transport.is_closing():
            self.transport.write(data)

    def close(self) -> None:
        """Sends queued bytes and closes; bytes that the peer does not accept within five seconds are dropped."""
        if not self.transport.is_closing():
            self.transport.close()
            asyncio.get_running_loop().call_later(5, self.transport.abort)


def peer_of(address: str) -> str:
    """The address of a peer as it counts.

    >>> peer_of("192.0.2.7"), peer_of("::ffff:192.0.2.7"), peer_of("2001:db8:0:1:2:3:4:5")
    ('192.0.2.7', '192.0.2.7', '2001:db8:0:1::')
    """
    ip = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv4Address) or ip.ipv4_mapped is not None:
        return address.removeprefix("::ffff:")
    return str(ipaddress.IPv6Address(int(ip) >> 64 << 64))


def _hand_over(protocol: asyncio.BufferedProtocol, data: bytes) -> None:
    """Gives a protocol bytes as if they had just arrived."""
    while data:
        buffer = memoryview(protocol.get_buffer(len(data)))
        size = min(len(buffer), len(data))
        buffer[:size] = data[:size]
        protocol.buffer_updated(size)
        data = data[size:]


async def connect(address: Address, inbound: Inbound) -> Channel:
    """Connects; raises OSError."""
    loop = asyncio.get_running_loop()
    if isinstance(address, Path):
        _, channel = await loop.create_unix_connection(lambda: Channel(inbound), str(address))
    else:
        _, channel = await loop.create_connection(lambda: Channel(inbound), *address)
    return channel
