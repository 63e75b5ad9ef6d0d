"""Analysts who log in by the password that an LDAP directory knows: by a simple bind, or a search and a bind.

Why our own client, and why the name has to be written as in the directory: docs/decisions/directories-know-one-name.md.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

from dpproxy.server import ldap_messages as ldap
from dpproxy.server.proof import Proof
from rewriter.refusal import Refusal

log = logging.getLogger("dpproxy.server.ldap")

SECONDS = 10.0
"""For all of a login."""
MOST_LOGINS = 8
"""Connections to the directory at once, all of them of people who have not logged in yet."""
MOST_BYTES = 1 << 20
"""Of one message of the directory."""
_MOST_ANSWERS = 100


class DirectoryError(Exception):
    """The directory cannot be asked; the message says why, and names neither user nor password."""


@dataclass(frozen=True)
class Server:
    """Where a directory is. `tls`: None where nothing is encrypted; `upgraded`: TLS begins by StartTLS."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    upgraded: bool


@dataclass(frozen=True)
class Directory:
    """Login by a directory.

    Attributes:
        analysts: names and patterns of those who log in by it only.
        server: where it is.
        dn: the name to bind as, in which {user} stands for the user; empty where the user is searched for.
        base: below which entry the user is searched for.
        attribute: the user's name in their entry, its only value.
        bind_dn, password_file: as whom to search, and the file of that password, read at each login; without: nobody.
        groups: the attribute that lists a user's groups, empty where these do not matter.
    """

    analysts: tuple[str, ...]
    server: Server
    dn: str
    base: str
    attribute: str
    bind_dn: str
    password_file: Path | None
    groups: str = ""

    def wanted(self, user: str) -> bool:
        """Whether this analyst logs in by the directory, and by nothing else."""
        return any(fnmatchcase(user, pattern) for pattern in self.analysts)

    failed_seconds = 0.5
    """From a password to its refusal, at least: for those whom it knows the directory has a password to compare."""

    def refused(self, user: str) -> Refusal:
        """Whatever was wrong."""
        return Refusal("28P01", f'password authentication failed for user "{user}"')

    async def proof(self, user: str, password: str) -> Proof | None:
        """What the directory says of a user whom it knows by exactly this name and password."""
        # Servers take a bind without a password for one of nobody, and let it succeed.
        if not password:
            return None
        try:
            async with self._asked() as connection:
                entry = await self._entry(connection, user, password)
        except DirectoryError as error:
            log.warning("the directory cannot be asked: %s", error)
            return None
        if entry is None or list(entry.values(self.attribute)) != [user]:
            return None
        return Proof(frozenset(entry.values(self.groups)), datetime.now(UTC))

    async def reach(self) -> None:
        """Connects, and binds as bind_dn where there is one; raises DirectoryError."""
        async with self._asked() as connection:
            if self.bind_dn:
                await self._bind_to_search(connection)

    @asynccontextmanager
    async def _asked(self) -> AsyncIterator[_Connection]:
        """A conversation of SECONDS at most, in which everything that goes wrong is a DirectoryError."""
        try:
            async with asyncio.timeout(SECONDS), _connected(self.server) as connection:
                yield connection
        except TimeoutError:
            raise DirectoryError(f"it does not answer within {SECONDS:g} s") from None
        except (OSError, ssl.SSLError, asyncio.IncompleteReadError, ldap.NotLdap) as error:
            raise DirectoryError(str(error) or type(error).__name__) from None

    async def _bind_to_search(self, connection: _Connection) -> None:
        if not await connection.bind(self.bind_dn, await asyncio.to_thread(self._secret)):
            raise DirectoryError("it does not let bind_dn in")

    async def _entry(self, connection: _Connection, user: str, password: str) -> ldap.Entry | None:
        """The entry of a user whose password this is."""
        wanted = [self.attribute, *([self.groups] if self.groups else [])]
        if self.dn:
            dn = self.dn.replace("{user}", ldap.escaped(user))
            if not await connection.bind(dn, password):
                return None
            return _only(await connection.search(dn, ldap.BASE, None, wanted))
        await self._bind_to_search(connection)
        found = _only(await connection.search(self.base, ldap.SUBTREE, (self.attribute, user), wanted))
        return found if found is not None and await connection.bind(found.dn, password) else None

    def _secret(self) -> str:
        """Raises DirectoryError."""
        if self.password_file is None:
            return ""
        try:
            secret = self.password_file.read_text().strip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise DirectoryError(f"bind_password_file cannot be read ({type(error).__name__})") from None
        if not secret:
            raise DirectoryError("bind_password_file is empty")
        return secret


def _only(entries: Sequence[ldap.Entry]) -> ldap.Entry | None:
    return entries[0] if len(entries) == 1 and entries[0].dn else None


@dataclass
class _Connection:
    """A conversation, one question after the other."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    number: int = 1

    async def bind(self, dn: str, password: str) -> bool:
        """Whether this is the password; without both it binds as nobody. Raises DirectoryError."""
        self._ask(ldap.bind(dn, password) if dn or password else ldap.bind_anonymously())
        code = ldap.result(await self._answer(ldap.BOUND))
        if code not in (ldap.SUCCESS, ldap.INVALID_CREDENTIALS):
            log.info("the directory answers a bind with code %d", code)
        return code == ldap.SUCCESS

    async def search(
        self, base: str, scope: int, equal: tuple[str, str] | None, attributes: Sequence[str]
    ) -> list[ldap.Entry]:
        """The entries that are found, two at most; none where the directory refuses. Raises DirectoryError."""
        self._ask(ldap.search(base, scope, equal, attributes, 2))
        entries = []
        for _ in range(_MOST_ANSWERS):
            kind, content = await self._read()
            if kind == ldap.ENTRY:
                entries.append(ldap.entry(content))
            elif kind == ldap.FOUND:
                code = ldap.result(content)
                if code:
                    log.info("the directory answers a search with code %d", code)
                return [] if code else entries
            elif kind != ldap.REFERENCE:
                raise ldap.NotLdap
        raise DirectoryError("it gives too many answers")

    def _ask(self, operation: bytes) -> None:
        self.number += 1
        self.writer.write(ldap.message(self.number, operation))

    async def _answer(self, expected: int) -> bytes:
        kind, content = await self._read()
        if kind != expected:
            raise ldap.NotLdap
        return content

    async def _read(self) -> tuple[int, bytes]:
        head = await self.reader.readexactly(2)
        more = await self.reader.readexactly(ldap.length_of_length(head))
        return ldap.read(await self.reader.readexactly(_size(head, more)), self.number)


@asynccontextmanager
async def _connected(server: Server) -> AsyncIterator[_Connection]:
    """A conversation with a directory; raises DirectoryError, OSError, NotLdap."""
    raw = await _socket(server)
    try:
        if server.upgraded:
            await _upgrade(raw)
        name = server.host if server.tls else None
        reader, writer = await asyncio.open_connection(sock=raw, ssl=server.tls, server_hostname=name)
    except BaseException:
        raw.close()
        raise
    connection = _Connection(reader, writer)
    try:
        yield connection
        writer.write(ldap.unbind(connection.number + 1))
    finally:
        # What was written is on its way. TLS would wait for the directory to end it, too, for up to half a minute.
        writer.transport.abort()


async def _socket(server: Server) -> socket.socket:
    loop = asyncio.get_running_loop()
    failure: OSError = OSError("no address")
    for family, kind, protocol, _, address in await loop.getaddrinfo(
        server.host, server.port, type=socket.SOCK_STREAM
    ):
        raw = socket.socket(family, kind, protocol)
        raw.setblocking(False)
        try:
            await loop.sock_connect(raw, address)
            return raw
        except OSError as error:
            failure = error
            raw.close()
        except BaseException:
            raw.close()
            raise
    raise failure


async def _upgrade(raw: socket.socket) -> None:
    """StartTLS. Not a byte is read beyond its answer: what somebody on the way puts behind it is read by TLS."""
    loop = asyncio.get_running_loop()

    async def exactly(size: int) -> bytes:
        got = b""
        while len(got) < size:
            more = await loop.sock_recv(raw, size - len(got))
            if not more:
                raise DirectoryError("it ends the connection")
            got += more
        return got

    await loop.sock_sendall(raw, ldap.message(1, ldap.start_tls()))
    head = await exactly(2)
    more = await exactly(ldap.length_of_length(head))
    kind, content = ldap.read(await exactly(_size(head, more)), 1)
    if kind != ldap.EXTENDED_DONE or ldap.result(content) != ldap.SUCCESS:
        raise DirectoryError("it refuses StartTLS")


def _size(head: bytes, more: bytes) -> int:
    size = int.from_bytes(more, "big") if more else head[1]
    if size > MOST_BYTES:
        raise DirectoryError("it sends too long a message")
    return size
