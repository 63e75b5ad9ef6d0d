"""The console's port: uvicorn on the running loop, without its signal handlers, logs and name."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.types import ASGIApp

from dpproxy.config.sections import Config
from dpproxy.console.doors import REQUEST_SECONDS, Doors
from dpproxy.server.listener import ServerError
from dpproxy.server.tls import tls_for

_END_SECONDS = 5


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves the signals to the server of the analysts."""
        yield


@asynccontextmanager
async def listening(app: ASGIApp, config: Config) -> AsyncIterator[str]:
    """Serves `app` at [server] http, over TLS where a certificate is configured; gives its URL.

    Raises ServerError where the port is taken or the certificate cannot be used.
    """
    section = config.server
    host, port = section.http_address
    settings = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=int(REQUEST_SECONDS),
        timeout_graceful_shutdown=_END_SECONDS,
    )
    settings.load()
    tls = None
    if section.tls_cert:
        try:
            files = (str(config.path(written)) for written in (section.tls_cert, section.tls_key))
            tls = tls_for(*files).context
        except ValueError as error:
            raise ServerError(str(error)) from None
        tls.set_alpn_protocols(["http/1.1"])
    server = _Server(settings)
    with _bound(host, port) as listener:
        # It serves what is let in here, and takes no connections itself.
        serving = asyncio.create_task(server.serve([]))
        doors = asyncio.create_task(Doors(listener, settings, server.server_state, tls).open())
        try:
            scheme = "https" if section.tls_cert else "http"
            shown = f"[{host}]" if ":" in host else host
            yield f"{scheme}://{shown}:{listener.getsockname()[1]}/"
        finally:
            doors.cancel()
            server.should_exit = True
            await serving


@contextmanager
def _bound(host: str, port: int) -> Iterator[socket.socket]:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(address[:2], family=family, backlog=64)
    except OSError as error:
        raise ServerError(f"cannot listen on {host}:{port}: {error.strerror}") from None
    with listener:
        yield listener
