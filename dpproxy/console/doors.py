"""Limits of the console's port: connections by address, and seconds for each request.

A new connection replaces an unfinished request, so that silent and slow clients block nobody.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

MOST, MOST_OF_ADDRESS = 128, 32
"""Connections at once."""
REQUEST_SECONDS, ANSWER_SECONDS = 10.0, 60.0
"""Until a request is there as a whole, from the connection or the answer before on; and until it is answered."""
_FULL_SECONDS = 0.2


class HttpConnection(H11Protocol):
    """One connection, on which requests and answers have their seconds."""

    _timer: asyncio.TimerHandle | None = None
    _was_busy = False
    gone: Callable[[], None]

    @property
    def busy(self) -> bool:
        """Whether a whole request is being answered."""
        return self.cycle is not None and not self.cycle.more_body and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A connection begins."""
        super().connection_made(transport)
        self._begin()

    def data_received(self, data: bytes) -> None:
        """More of a request; what comes in little by little has no more time for that."""
        super().data_received(data)
        if self.busy and not self._was_busy:
            self._begin()

    def on_response_complete(self) -> None:
        """An answer ends; another request may be there already."""
        super().on_response_complete()
        self._begin()

    def connection_lost(self, exc: Exception | None) -> None:
        """A connection ends."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)
        self.gone()

    def _begin(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._was_busy = self.busy
        # Not close: that would wait for a peer who does not read.
        self._timer = self.loop.call_later(
            ANSWER_SECONDS if self.busy else REQUEST_SECONDS, self.transport.abort
        )


@dataclass(eq=False)
class _Guest:
    address: str
    socket: socket.socket
    connection: HttpConnection

    def end(self) -> None:
        """At whatever stage its connection is, TLS's first messages included."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)


class Doors:
    """Takes the connections of a `listener`.

    `state`: of the uvicorn server that ends them; `tls`: None for plain HTTP.
    """

    def __init__(
        self, listener: socket.socket, settings: Config, state: ServerState, tls: ssl.SSLContext | None
    ) -> None:
        self._listener, self._settings, self._state, self._tls = listener, settings, state, tls
        self._guests: dict[_Guest, None] = {}
        self._entering: set[asyncio.Task[None]] = set()
        listener.setblocking(False)

    async def open(self) -> None:
        """Lets in until it is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                arrived, (address, *_) = await loop.sock_accept(self._listener)
            except OSError:
                # No file is left for it, or it has gone by itself.
                await asyncio.sleep(_FULL_SECONDS)
                continue
            if self._makes_room(address):
                connection = HttpConnection(
                    config=self._settings, server_state=self._state, app_state={}, _loop=loop
                )
                guest = _Guest(address, arrived, connection)
                self._guests[guest] = None
                entering = asyncio.create_task(self._enter(guest))
                self._entering.add(entering)
                entering.add_done_callback(self._entering.discard)
            else:
                arrived.close()

    async def _enter(self, guest: _Guest) -> None:
        def gone() -> None:
            self._guests.pop(guest, None)

        guest.connection.gone = gone
        seconds = None if self._tls is None else REQUEST_SECONDS
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: guest.connection, guest.socket, ssl=self._tls, ssl_handshake_timeout=seconds
            )
        except OSError:
            gone()
            guest.socket.close()

    def _makes_room(self, address: str) -> bool:
        """Whether one more connection of an address is accepted; it may replace the oldest of the busiest address."""
        of = Counter(guest.address for guest in self._guests)
        if of[address] < MOST_OF_ADDRESS and len(self._guests) < MOST:
            return True
        crowd = address if of[address] >= MOST_OF_ADDRESS else of.most_common(1)[0][0]
        for guest in self._guests:
            if guest.address == crowd and not guest.connection.busy:
                del self._guests[guest]
                guest.end()
                return True
        return False
