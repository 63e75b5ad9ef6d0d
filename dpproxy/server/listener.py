"""The listener: TLS, limits, logins, cancel requests, and the drain at the end."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import resource
import socket
import ssl
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Literal

from dpproxy.config.identity import AUDITOR, OWNER
from dpproxy.config.values import is_loopback
from dpproxy.engine.request import QueryRequest
from dpproxy.pgwire import messages as m
from dpproxy.pgwire.startup import Startup
from dpproxy.pgwire.step import PublishResult
from dpproxy.server import admin
from dpproxy.server.admin import Administration, Rows
from dpproxy.server.fair_pool import ByName, Turns
from dpproxy.server.handshake import Entrance
from dpproxy.server.impersonation import Identity
from dpproxy.server.login import AUTHENTICATION_OK, FrontConnection, FrontFailed, log_in_at_front
from dpproxy.server.login_methods import LoginMethods
from dpproxy.server.login_queue import PendingLogin, WaitingRoom
from dpproxy.server.loop_time import LoopTime
from dpproxy.server.neighbours import Neighbours
from dpproxy.server.padding import PaddedTurns, Ticks
from dpproxy.server.session import SHUTDOWN, Services, Session, StatementHandler, nothing_published
from dpproxy.server.session_limit import SessionLimit
from dpproxy.server.shutdown import ending
from dpproxy.server.tls import Tls, tls_for
from dpproxy.server.transport import Address, Channel, ConnectionEnded
from dpproxy.telemetry.lateness import Lateness
from dpproxy.telemetry.observer import Observer
from dpproxy.telemetry.stages import Observe, unobserved
from mechanisms.randomness import random_bytes
from rewriter.refusal import Refusal
from rewriter.statements.set_role import NONE
from rewriter.statements.set_statement import ERROR_COLUMNS

log = logging.getLogger("dpproxy.server.listener")

DRAIN_SECONDS = 30.0
"""How long a drain waits for statements that the front runs (privacy steps have statement_timeout)."""
_END_SECONDS = 5.0
"""And for logins that it has cancelled."""
LOGINS, LOGINS_OF_ONE_PEER = 1000, 200
"""Connections that may be logging in at once, and from one address: so many that a tool which opens all of its
connections together is not hindered."""
_DESCRIPTORS = 1 << 16
_CANCEL, _KILL, _SESSIONS, _PLANS = b"C", b"K", b"S", b"P"
"""What processes on one port ask each other, by the first byte."""
_SHOWN = {
    _SESSIONS: ("id", "login", "address", "application_name", "state", "connected_at", "process"),
    _PLANS: ("process", "kind", "kept", "bytes"),
}
_DAY = 86_400.0
"""Timeout of a padded statement at the front, whose clock also runs while it waits for its turn and its tick."""
_MADE_WAY = m.error("53300", "too many connections are logging in", severity="FATAL")
_SWITCH_SECONDS = 0.0005
"""How long a thread that computes keeps the interpreter from the event loop, which relays everybody's messages: a tenth
of what is usual."""
_THREADS, _LOGIN_THREADS, _PLANNING = 32, 8, 4
_THREADS_EACH, _PLANNING_EACH, _ENTERING = 8, 2, 2
"""Of one login at once: the others' statements, and their logins at the front, find the rest."""


@dataclass(frozen=True)
class ServerSettings:
    """[server] of the configuration; times in seconds.

    Attributes:
        login_seconds: from a connection's first byte to its login.
        startup_seconds: from the first byte to the end of the startup packet.
        idle_seconds: the longest silence of a client.
        max_sessions: open sessions, of which one login may have max_sessions_per_login.
        error_columns: the logins, by name or by pattern, whose sessions begin with dpproxy.error_columns on.
        tick: the first moment at which the reply of a private statement may leave; None: as soon as it is ready.
    """

    host: str = "127.0.0.1"
    port: int = 6432
    tls_cert: str = ""
    tls_key: str = ""
    auth: Literal["scram", "trust"] = "scram"
    max_sessions: int = 200
    statement_timeout: float = 300.0
    login_seconds: float = 60.0
    idle_seconds: float = 8 * 3600.0
    tls_client_ca: str = ""
    max_sessions_per_login: int = 50
    startup_seconds: float = 10.0
    error_columns: tuple[str, ...] = ()
    tick: float | None = None


@dataclass(frozen=True)
class Rooms:
    """The parts that the server is composed of.

    Attributes:
        answering: plans and answers private statements.
        front, database: the address of the front, and its database.
        role_for: an analyst's role and password at the front; may block, raises Refusal.
        verifier: the SCRAM verifier of an analyst, or None; may block.
        fake_salt_key: 32 secret bytes that stay the same over restarts.
        observe: called on any thread with the durations of the stages of private statements.
        identity: which logins may act for others.
        watcher: notified when statements end.
        methods: by what analysts log in, besides passwords of ours.
        publish: runs a statement on published answers; may block, raises Refusal.
        administration: what the owner's sessions are told; None where owners do not log in.
        remembered: what is kept of statements, by kind: how many, and about how many bytes.
        lateness: what measures how late clients are served.
    """

    answering: StatementHandler
    front: Address
    database: str
    role_for: Callable[[str], tuple[str, str]]
    verifier: Callable[[str], str | None]
    fake_salt_key: bytes
    observe: Observe = unobserved
    identity: Identity = field(default_factory=Identity)
    watcher: Observer = field(default_factory=Observer)
    methods: LoginMethods = field(default_factory=LoginMethods)
    publish: Callable[[QueryRequest], PublishResult] = nothing_published
    administration: Administration | None = None
    remembered: Callable[[], Mapping[str, tuple[int, int]]] = dict
    lateness: Lateness = field(default_factory=Lateness)


@dataclass(frozen=True)
class Shared:
    """Shared by all processes on one port: the limit of sessions, and a way to ask each other."""

    seats: SessionLimit
    neighbours: Neighbours


class ServerError(Exception):
    """The server cannot start; the message says why."""


def drain_seconds(statement_timeout: float) -> float:
    """How long a drain takes at most."""
    return DRAIN_SECONDS + statement_timeout + 2 * _END_SECONDS


def _nothing() -> None:
    """There is nothing to stop."""


class Server:
    """Serves a configuration until it is closed."""

    def __init__(self, settings: ServerSettings, rooms: Rooms, shared: Shared | None = None) -> None:
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
        tls = tls_of(settings)
        self._planning = Turns[object]("plan", threads=_PLANNING, each=_PLANNING_EACH, ended=_ended)
        self._threads = Turns[object]("step", threads=_THREADS, each=_THREADS_EACH, ended=_ended)
        self._padded = (
            None
            if settings.tick is None
            else PaddedTurns(self._threads, Ticks(settings.tick, settings.statement_timeout))
        )
        self._login_threads = ThreadPoolExecutor(_LOGIN_THREADS, "login")
        self._entering = ByName(_ENTERING)
        self._sessions: dict[int, Session] = {}
        self._logins: set[asyncio.Task[None]] = set()
        self._administering: set[asyncio.Task[None]] = set()
        # A session has two descriptors, the ledger and the console have theirs.
        self._room = WaitingRoom(min(LOGINS, descriptors() // 4), LOGINS_OF_ONE_PEER)
        self._jobs: set[asyncio.Future[object]] = set()
        self._shared = shared
        self._seats = (
            SessionLimit(settings.max_sessions, settings.max_sessions_per_login)
            if shared is None
            else shared.seats
        )
        self._time = LoopTime()
        self._draining = False
        self._listener: asyncio.Server | None = None
        self._watching: asyncio.Task[None] | None = None
        self._services = self._serving(rooms)
        self._entrance = Entrance(
            tls,
            rooms.verifier,
            rooms.fake_salt_key,
            self._login_threads,
            trust=settings.auth == "trust",
            statement_timeout=settings.statement_timeout if self._padded is None else _DAY,
            methods=rooms.methods,
        )

    def _serving(self, rooms: Rooms) -> Services:
        return Services(
            rooms.answering,
            self._planning,
            self._threads,
            rooms.front,
            self._settings.statement_timeout,
            self._settings.idle_seconds,
            self._job_begun,
            self._time,
            rooms.observe,
            rooms.identity,
            rooms.watcher,
            rooms.publish,
            self._padded,
        )

    def reload(self, settings: ServerSettings, rooms: Rooms) -> None:
        """Serves another policy: sessions go on, later clients are let in by the new certificate and issuer.

        Of `settings`, the certificate and `error_columns` count. Raises ServerError, and has then changed nothing.
        """
        self._entrance.reload(tls_of(settings), rooms.methods)
        self._settings = replace(self._settings, error_columns=settings.error_columns)
        self._rooms, self._services = rooms, self._serving(rooms)
        for session in self._sessions.values():
            session.reload(self._services)

    async def start(self, inherited: socket.socket | None = None) -> tuple[str, int]:
        """Opens the port and gives the address; raises ServerError. `inherited`: a socket that listens already."""
        loop, settings, shared = asyncio.get_running_loop(), self._settings, self._shared
        if shared is not None:
            await shared.neighbours.listen(self._answer_neighbour)

        def accepted() -> Channel:
            return Channel(m.Inbound({}), self._accepted)

        try:
            if inherited is not None:
                self._listener = await loop.create_server(accepted, sock=inherited, backlog=512)
            else:
                self._listener = await loop.create_server(
                    accepted,
                    settings.host,
                    settings.port,
                    backlog=512,
                    reuse_port=shared is not None or None,
                )
        except OSError as error:
            raise ServerError(f"cannot listen on {settings.host}:{settings.port}: {error.strerror}") from None
        self._watching = loop.create_task(self._rooms.lateness.watch(self._login_threads))
        host, port = self._listener.sockets[0].getsockname()[:2]
        return host, port

    async def admit(self, connection: socket.socket) -> None:
        """Serves one connected socket, as if it had come in by the port."""
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(lambda: Channel(m.Inbound({}), self._accepted), connection)

    async def serve(
        self,
        ready: Callable[[str, int], None],
        stop: Callable[[], None] = _nothing,
        inherited: socket.socket | None = None,
    ) -> None:
        """Serves until SIGTERM or SIGINT, then drains; `ready` gets host and port. Raises ServerError.

        `stop`: stops the parts below the server if the process has to be ended by force; `inherited`: as of `start`.
        """
        sys.setswitchinterval(_SWITCH_SECONDS)
        with ending(drain_seconds(self._settings.statement_timeout), stop) as asked:
            try:
                ready(*await self.start(inherited))
                await asked.wait()
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
        if self._watching is not None:
            self._watching.cancel()
        if self._shared is not None:
            self._shared.neighbours.close()
        for task in (*self._logins, *self._administering):
            task.cancel()
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
            await asyncio.wait(self._logins, timeout=_END_SECONDS)
        self._login_threads.shutdown(wait=False)
        self._planning.shutdown()
        self._threads.shutdown()

    def _job_begun(self, job: asyncio.Future[object]) -> None:
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)

    def _accepted(self, channel: Channel) -> None:
        if self._draining:
            channel.transport.abort()
            return
        loop = asyncio.get_running_loop()
        guest = PendingLogin(channel.peer, loop.time())
        guest.login = loop.create_task(self._log_in(channel, guest))
        self._room.enter(guest)
        self._logins.add(guest.login)
        guest.login.add_done_callback(lambda login: self._login_over(login, channel, guest))

    def _login_over(self, login: asyncio.Task[None], channel: Channel, guest: PendingLogin) -> None:
        """Also of a login that was cancelled before it began to run."""
        self._logins.discard(login)
        self._room.leave(guest)
        if login.cancelled():
            channel.send(_MADE_WAY if guest.sent_away else SHUTDOWN)
            channel.close()

    async def _log_in(self, channel: Channel, guest: PendingLogin) -> None:
        """From the first byte to a running session; a connection that fails before gets an error, and is closed."""
        last_words = b""
        try:
            async with asyncio.timeout(self._settings.login_seconds):
                await self._welcome(channel, guest)
            return
        except (ConnectionEnded, m.NoStartup):
            pass
        except Refusal as refusal:
            last_words = m.error(refusal.code, refusal.message, severity="FATAL", hint=refusal.hint)
        except m.ProtocolError as error:
            last_words = m.error(error.code, error.message, severity="FATAL")
        except FrontFailed as failure:
            unreachable = m.error("57P03", "the front cannot be reached", severity="FATAL")
            last_words = failure.raw or unreachable
        except TimeoutError:
            last_words = m.error("57014", "canceling authentication due to timeout", severity="FATAL")
        except (ssl.SSLError, OSError):
            pass
        except Exception as error:
            log.error("unexpected %s during a login", type(error).__name__)
            last_words = m.error("XX000", "internal error in the proxy", severity="FATAL")
        channel.send(last_words)
        channel.close()

    async def _welcome(self, channel: Channel, guest: PendingLogin) -> None:
        async with asyncio.timeout(self._settings.startup_seconds):
            startup = await self._entrance.startup(channel)
        self._room.named(guest)
        if isinstance(startup, bytes):
            await self._cancel_anywhere(startup)
            channel.close()
            return
        channel.send(startup.negotiation)
        administration = self._rooms.administration
        if administration and startup.database == admin.DATABASE:
            role = startup.user
            if role == OWNER or (role == AUDITOR and await asyncio.to_thread(administration.exists, role)):
                await self._entrance.prove(channel, role, partial(administration.holds, role))
                self._room.leave(guest)
                self._administer(channel, role)
                return
        await self._entrance.identify(channel, startup.user)
        self._room.leave(guest)
        seat = self._seats.take(startup.user)
        try:
            channel.send(AUTHENTICATION_OK)
            async with self._entering.of(startup.user):
                front = await self._enter_front(startup)
            if channel.closed.done():
                front.channel.close()
                raise ConnectionEnded
        except BaseException:
            self._seats.leave(seat)
            raise
        self._open(channel, startup, front, seat)

    async def _cancel_anywhere(self, body: bytes) -> None:
        if not await self._cancel(body):
            await self._ask_neighbours(_CANCEL + body)

    async def _cancel(self, body: bytes) -> bool:
        """Whether the session is one of this process."""
        session = self._sessions.get(int.from_bytes(body[:4], "big"))
        if session is not None and session.is_mine(body[4:]):
            await session.cancel()
        return session is not None

    # Several processes on one port

    async def _ask_neighbours(self, question: bytes) -> list[bytes]:
        return [] if self._shared is None else await self._shared.neighbours.ask(question)

    async def _answer_neighbour(self, question: bytes) -> bytes:
        kind, body = question[:1], question[1:]
        if kind == _CANCEL:
            await self._cancel(body)
        elif kind == _KILL:
            return self._kill(body)
        elif kind in _SHOWN:
            return json.dumps(self._shown(kind)).encode()
        return b""

    # The owner

    def _administer(self, channel: Channel, role: str) -> None:
        if len(self._administering) >= admin.MOST:
            raise Refusal("53300", "too many sessions of the owner")
        task = asyncio.get_running_loop().create_task(self._owner(channel, role))
        self._administering.add(task)
        task.add_done_callback(self._administering.discard)

    async def _owner(self, channel: Channel, role: str) -> None:
        last_words = b""
        try:
            await admin.administer(channel, role, partial(self._command, role))
        except m.ProtocolError as error:
            last_words = m.error(error.code, error.message, severity="FATAL")
        except ConnectionEnded:
            pass
        except asyncio.CancelledError:
            last_words = SHUTDOWN
        except Exception as error:
            log.error("unexpected %s in a session of the owner", type(error).__name__)
            last_words = m.error("XX000", "internal error in the proxy", severity="FATAL")
        channel.send(last_words)
        channel.close()

    async def _command(self, role: str, command: str) -> Rows:
        """The answer to an owner's command, or to an auditor's; raises Refusal."""
        words = command.upper().split()
        if role != OWNER and not (len(words) == 2 and words[0] == "SHOW" and words[1] in admin.AUDITED):
            shown = ", ".join(sorted(admin.AUDITED))
            raise Refusal("42501", "an auditor changes nothing", hint=f"SHOW takes {shown}.")
        administration = self._rooms.administration
        assert administration is not None
        match words:
            case ["SHOW", "HELP"]:
                return Rows("SHOW", ("command", "does"), admin.HELP)
            case ["SHOW", "SESSIONS" | "CLIENTS"]:
                return await self._of_all(_SESSIONS)
            case ["SHOW", "PLANS"]:
                return await self._of_all(_PLANS)
            case ["SHOW", subject]:
                return await asyncio.to_thread(administration.show, subject)
            case ["KILL", id] if id.isdecimal() and int(id) < 1 << 32:
                body = int(id).to_bytes(4, "big")
                if not self._kill(body) and not any(await self._ask_neighbours(_KILL + body)):
                    raise Refusal("22023", f"there is no session {int(id)}", hint="SHOW SESSIONS")
                return Rows("KILL")
            case ["RELOAD" | "PAUSE" | "RESUME" | "SHUTDOWN" | "DRAIN" as word]:
                await asyncio.to_thread(administration.tell, word.lower())
                return Rows(word)
        raise Refusal("42601", "this is no command of the owner's session", hint="SHOW HELP")

    async def _of_all(self, kind: bytes) -> Rows:
        """What all processes on the port show."""
        rows = [*self._shown(kind)]
        for answer in await self._ask_neighbours(kind):
            rows += json.loads(answer or b"[]")
        return Rows("SHOW", _SHOWN[kind], rows)

    def _shown(self, kind: bytes) -> list[tuple[str, ...]]:
        process = str(os.getpid())
        if kind == _SESSIONS:
            return [(*session.row, process) for session in self._sessions.values()]
        kept = self._rooms.remembered().items()
        return [(process, name, str(count), str(held)) for name, (count, held) in kept]

    def _kill(self, body: bytes) -> bytes:
        session = self._sessions.get(int.from_bytes(body, "big"))
        if session is None:
            return b""
        session.abort()
        return b"ended"

    async def _enter_front(self, startup: Startup) -> FrontConnection:
        loop, rooms = asyncio.get_running_loop(), self._rooms
        role, password = await loop.run_in_executor(self._login_threads, self._role_for, startup)
        settings = startup.settings
        if any(fnmatchcase(startup.user, pattern) for pattern in self._settings.error_columns):
            settings = {ERROR_COLUMNS: "on", **settings}
        return await log_in_at_front(rooms.front, rooms.database, role, password, settings)

    def _role_for(self, startup: Startup) -> tuple[str, str]:
        """The login's role at the front, and that for which it wants to act from the beginning; raises Refusal."""
        rooms, user = self._rooms, startup.user
        role_and_password = rooms.role_for(user)
        for role in {*rooms.identity.named(user), startup.settings.get("role", NONE)}:
            rooms.identity.assume(user, role)
        return role_and_password

    def _open(self, channel: Channel, startup: Startup, front: FrontConnection, seat: int) -> None:
        """Greets as PostgreSQL does, with the analyst's own name and a secret of this session."""
        secret = random_bytes(startup.secret_bytes)
        own = m.message("S", m.cstring("session_authorization") + m.cstring(startup.user))
        for status in front.greeting:
            channel.send(own if status[5:].startswith(b"session_authorization\0") else status)
        channel.send(m.message("K", front.pid.to_bytes(4, "big") + secret))
        channel.send(m.message("Z", b"I"))
        closed = partial(self._closed, seat)
        tool = startup.settings.get("application_name", "")
        session = Session(channel, front, startup.user, secret, self._services, closed, tool)
        self._sessions[front.pid] = session
        session.start()

    def _closed(self, seat: int, session: Session) -> None:
        if self._sessions.get(session.pid) is session:
            del self._sessions[session.pid]
        self._seats.leave(seat)


def tls_of(settings: ServerSettings) -> Tls:
    """The certificate and key of [server]; raises ServerError."""
    try:
        return tls_for(settings.tls_cert, settings.tls_key, settings.tls_client_ca)
    except ValueError as error:
        raise ServerError(str(error)) from None


def descriptors() -> int:
    """How many files and connections this process may have open, after asking for as many as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft = max(soft, min(hard, _DESCRIPTORS))
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft


def _ended() -> Refusal:
    """The result of work whose client has gone before its turn."""
    return Refusal("57014", "canceling statement due to user request")
