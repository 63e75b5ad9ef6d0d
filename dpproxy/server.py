"""The listener: TLS, limits, logins, cancel requests, and the drain at the end."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

from dpproxy.channel import Address, Channel, ConnectionEnded
from dpproxy.login import AUTHENTICATION_OK, FrontConnection, FrontFailed, authenticate, log_in_at_front
from dpproxy.neighbours import Neighbours
from dpproxy.pgwire import messages as m
from dpproxy.pgwire.auth import Verifier
from dpproxy.pgwire.startup import Startup, read_startup
from dpproxy.seats import Seats
from dpproxy.session import SHUTDOWN, Answering, Services, Session
from dpproxy.tls import is_loopback, tls_context
from mechanisms.randomness import random_bytes
from rewriter.refusal import Refusal

log = logging.getLogger("dpproxy.server")

LOGIN_SECONDS = 60.0
"""Time from a connection's first byte to its login."""
DRAIN_SECONDS = 30.0
"""How long a drain waits for statements that the front runs (privacy steps have statement_timeout)."""
_LOGINS = 100
"""Connections that may be logging in beyond max_sessions; more are closed unheard."""
_THREADS, _LOGIN_THREADS = 32, 8


@dataclass(frozen=True)
class Settings:
    """[server] of the configuration. `statement_timeout`: seconds; `login_seconds`: time for a login."""

    host: str = "127.0.0.1"
    port: int = 6432
    tls_cert: str = ""
    tls_key: str = ""
    auth: Literal["scram", "trust"] = "scram"
    max_sessions: int = 200
    statement_timeout: float = 300.0
    login_seconds: float = LOGIN_SECONDS


@dataclass(frozen=True)
class Rooms:
    """What the server stands on.

    `verifier`: the SCRAM verifier of an analyst, or None; `role_for`: their role and password at the
    front, raises Refusal; both may block. `fake_salt_key`: 32 secret bytes that stay the same over restarts.
    """

    answering: Answering
    front: Address
    database: str
    role_for: Callable[[str], tuple[str, str]]
    verifier: Callable[[str], str | None]
    fake_salt_key: bytes


@dataclass(frozen=True)
class Shared:
    """What a server shares with the other processes on its port: one limit of sessions, and cancel requests."""

    seats: Seats
    neighbours: Neighbours


class ServerError(Exception):
    """The server cannot start; the message says why."""


class Server:
    """Serves a configuration until it is closed."""

    def __init__(self, settings: Settings, rooms: Rooms, shared: Shared | None = None) -> None:
        """`shared`: what binds it to other processes on the same port.

        Raises ServerError for settings that would let anyone listen in.
        """
        loopback = is_loopback(settings.host)
        if settings.auth == "trust" and not loopback:
            raise ServerError('auth = "trust" is for loopback only')
        if not loopback and not (settings.tls_cert and settings.tls_key):
            raise ServerError(f"host {settings.host} is not loopback: it needs tls_cert and tls_key")
        self._settings = settings
        self._rooms = rooms
        try:
            self._tls = tls_context(settings.tls_cert, settings.tls_key)
        except ValueError as error:
            raise ServerError(str(error)) from None
        self._threads = ThreadPoolExecutor(_THREADS, "step")
        self._login_threads = ThreadPoolExecutor(_LOGIN_THREADS, "login")
        self._sessions: dict[int, Session] = {}
        self._logins: set[asyncio.Task[None]] = set()
        self._jobs: set[asyncio.Future[object]] = set()
        self._shared = shared
        self._seats = Seats() if shared is None else shared.seats
        self._draining = False
        self._listener: asyncio.Server | None = None
        self._services = Services(
            rooms.answering, self._threads, rooms.front, settings.statement_timeout, self._job_begun
        )

    async def start(self) -> tuple[str, int]:
        """Opens the port and gives the address; raises ServerError."""
        loop, settings, shared = asyncio.get_running_loop(), self._settings, self._shared
        if shared is not None:
            await shared.neighbours.listen(self._cancel)
        try:
            self._listener = await loop.create_server(
                lambda: Channel(m.Inbound({}), self._accepted),
                settings.host,
                settings.port,
                backlog=512,
                reuse_port=shared is not None or None,
            )
        except OSError as error:
            raise ServerError(f"cannot listen on {settings.host}:{settings.port}: {error.strerror}") from None
        host, port = self._listener.sockets[0].getsockname()[:2]
        return host, port

    async def admit(self, connection: socket.socket) -> None:
        """Serves one connected socket, as if it had come in by the port."""
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(lambda: Channel(m.Inbound({}), self._accepted), connection)

    async def serve(self, ready: Callable[[str, int], None]) -> None:
        """Serves until SIGTERM or SIGINT, then drains; `ready` gets host and port. Raises ServerError."""
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopped.set)
        try:
            ready(*await self.start())
            await stopped.wait()
        finally:
            await self.drain()

    async def drain(self, seconds: float = DRAIN_SECONDS) -> None:
        """Closes the port, ends idle sessions with 57P01, and waits for what runs.

        `seconds`: for statements of the front; privacy steps, also of clients that have gone, have
        statement_timeout more.
        """
        self._draining = True
        if self._listener is not None:
            self._listener.close()
        if self._shared is not None:
            self._shared.neighbours.close()
        for login in self._logins:
            login.cancel()
        for session in list(self._sessions.values()):
            session.drain()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        last = deadline + self._settings.statement_timeout
        while (self._jobs or self._sessions) and loop.time() < min(deadline, last):
            if self._jobs:
                deadline = loop.time() + seconds
            await asyncio.sleep(0.01)
        for session in list(self._sessions.values()):
            session.abort()
        if self._logins:
            await asyncio.wait(self._logins)
        self._login_threads.shutdown(wait=False)
        self._threads.shutdown(wait=False)

    def _job_begun(self, job: asyncio.Future[object]) -> None:
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)

    def _accepted(self, channel: Channel) -> None:
        if self._draining or len(self._logins) >= _LOGINS:
            channel.transport.abort()
            return
        login = asyncio.get_running_loop().create_task(self._log_in(channel))
        self._logins.add(login)
        login.add_done_callback(self._logins.discard)

    async def _log_in(self, channel: Channel) -> None:
        """From the first byte to a running session; whoever does not get that far is told why, and closed."""
        last_words = b""
        try:
            async with asyncio.timeout(self._settings.login_seconds):
                await self._welcome(channel)
            return
        except ConnectionEnded:
            pass
        except Refusal as refusal:
            last_words = m.error(refusal.code, refusal.message, severity="FATAL", hint=refusal.hint)
        except m.ProtocolError as error:
            last_words = m.error(error.code, error.message, severity="FATAL")
        except FrontFailed as failure:
            unreachable = m.error("08006", "the front is not reachable", severity="FATAL")
            last_words = failure.raw or unreachable
        except TimeoutError:
            last_words = m.error("57014", "canceling authentication due to timeout", severity="FATAL")
        except asyncio.CancelledError:
            last_words = SHUTDOWN
        except (ssl.SSLError, OSError):
            pass
        except Exception as error:
            log.error("unexpected %s during a login", type(error).__name__)
            last_words = m.error("XX000", "internal error in the proxy", severity="FATAL")
        channel.send(last_words)
        channel.close()

    async def _welcome(self, channel: Channel) -> None:
        startup = await self._startup(channel)
        if startup is None:
            channel.close()
            return
        if not self._seats.take(self._settings.max_sessions):
            raise Refusal("53300", "sorry, too many clients already")
        try:
            channel.send(startup.negotiation)
            await self._check_password(channel, startup.user)
            channel.send(AUTHENTICATION_OK)
            front = await self._enter_front(startup)
            if channel.closed.done():
                front.channel.close()
                raise ConnectionEnded
        except BaseException:
            self._seats.leave()
            raise
        self._open(channel, startup, front)

    async def _startup(self, channel: Channel) -> Startup | None:
        """Reads packets up to the startup packet; None where it was a cancel request instead."""
        secured = False
        while True:
            code, body = await channel.startup()
            if code == m.SSL_REQUEST and not secured:
                channel.send(b"S")
                await channel.secure(self._tls)
                secured = True
            elif code == m.GSSENC_REQUEST:
                channel.send(b"N")
            elif code == m.CANCEL_REQUEST:
                if not await self._cancel(body) and self._shared is not None:
                    await self._shared.neighbours.pass_on(body)
                return None
            else:
                return read_startup(code, body, self._settings.statement_timeout)

    async def _cancel(self, body: bytes) -> bool:
        """Whether the session is one of this process."""
        session = self._sessions.get(int.from_bytes(body[:4], "big"))
        if session is not None and session.is_mine(body[4:]):
            await session.cancel()
        return session is not None

    async def _check_password(self, channel: Channel, user: str) -> None:
        if self._settings.auth == "trust":
            return
        loop = asyncio.get_running_loop()
        text = await loop.run_in_executor(self._login_threads, self._rooms.verifier, user)
        fake = Verifier.fake(self._rooms.fake_salt_key, user)
        verifier = fake if text is None else Verifier.read(text)
        await authenticate(channel, user, verifier, text is not None)

    async def _enter_front(self, startup: Startup) -> FrontConnection:
        loop, rooms = asyncio.get_running_loop(), self._rooms
        role, password = await loop.run_in_executor(self._login_threads, rooms.role_for, startup.user)
        return await log_in_at_front(rooms.front, rooms.database, role, password, startup.settings)

    def _open(self, channel: Channel, startup: Startup, front: FrontConnection) -> None:
        """Greets as PostgreSQL does, with the analyst's own name and a secret of this session."""
        secret = random_bytes(4)
        own = m.message("S", m.cstring("session_authorization") + m.cstring(startup.user))
        for status in front.greeting:
            channel.send(own if status[5:].startswith(b"session_authorization\0") else status)
        channel.send(m.message("K", front.pid.to_bytes(4, "big") + secret))
        channel.send(m.message("Z", b"I"))
        session = Session(channel, front, startup.user, secret, self._services, self._closed)
        self._sessions[front.pid] = session
        session.start()

    def _closed(self, session: Session) -> None:
        if self._sessions.get(session.pid) is session:
            del self._sessions[session.pid]
        self._seats.leave()
