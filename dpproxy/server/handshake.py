"""From a connection's first byte to who its client is: TLS, startup packet, certificate or password."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial

from dpproxy.pgwire import messages as m
from dpproxy.pgwire.auth import ScramVerifier
from dpproxy.pgwire.startup import Startup, read_startup
from dpproxy.server.door import Door
from dpproxy.server.fair_pool import ByName
from dpproxy.server.jwt import Tokens
from dpproxy.server.ldap import MOST_LOGINS, Directory
from dpproxy.server.login import ask_in_cleartext, authenticate
from dpproxy.server.login_methods import LoginMethods
from dpproxy.server.tls import ALPN, Tls
from dpproxy.server.transport import Channel
from rewriter.refusal import Refusal

log = logging.getLogger("dpproxy.server.handshake")

_PLACES, _EACH = 8, 2
"""Proofs that are looked at together, and strange ones of one address."""
_OWNERS = 2
"""The same of the owner's passwords, of which each takes a core for a while."""
_PACE_SECONDS = 0.1
_AT_ONCE = 2
"""Verifiers of one name that are looked up at once."""


class Entrance:
    """Reads clients' messages before their first statement.

    `verifier`: gives an analyst's SCRAM verifier, or None; it may block, so it runs on `threads`. `trust`: nobody
    has to prove anything; `methods`: by what some analysts prove who they are.
    """

    def __init__(
        self,
        tls: Tls,
        verifier: Callable[[str], str | None],
        fake_salt_key: bytes,
        threads: Executor,
        *,
        trust: bool,
        statement_timeout: float,
        methods: LoginMethods,
    ) -> None:
        self._tls, self._verifier, self._fake_salt_key = tls, verifier, fake_salt_key
        self._threads = threads
        self._trust, self._statement_timeout = trust, statement_timeout
        self._methods = methods
        self._looked_up = ByName(_AT_ONCE)
        self._analysts = Door(_PLACES, _EACH, _PACE_SECONDS)
        self._owners, self._owner_threads = (
            Door(_OWNERS, 1, _PACE_SECONDS),
            ThreadPoolExecutor(_OWNERS, "owner"),
        )
        self._providers: Mapping[type[Tokens | Directory], Door] = {
            kind: Door(MOST_LOGINS, _EACH, _PACE_SECONDS) for kind in (Tokens, Directory)
        }

    def reload(self, tls: Tls, methods: LoginMethods) -> None:
        """Lets later clients in by another certificate and other methods; failed logins stay counted."""
        self._tls, self._methods = tls, methods

    async def startup(self, channel: Channel) -> Startup | bytes:
        """Reads packets up to the startup packet, or the cancel request in its place, whose body it gives.

        Raises Refusal, ProtocolError, ConnectionEnded.
        """
        if await channel.begins_with_tls():
            await self._secure(channel, early=channel.inbound.rest())
            if channel.application_protocol != ALPN:
                raise m.ProtocolError(
                    f'received direct SSL connection request without ALPN protocol "{ALPN}"'
                )
        # Each is taken once, so that this loop ends; a second one is read as a version that nobody speaks.
        possible = {m.GSSENC_REQUEST} if channel.is_secure else {m.GSSENC_REQUEST, m.SSL_REQUEST}
        while True:
            code, body = await channel.startup()
            if code in possible:
                possible.remove(code)
                if code == m.SSL_REQUEST:
                    channel.send(b"S")
                    await self._secure(channel)
                    continue
                channel.send(b"N")
                if len(channel.inbound):
                    raise m.ProtocolError("received unencrypted data after GSSAPI encryption request")
            elif code == m.CANCEL_REQUEST:
                return body
            else:
                return read_startup(code, body, self._statement_timeout)

    async def _secure(self, channel: Channel, *, early: bytes = b"") -> None:
        tls = self._tls
        await channel.secure(tls.context, early=early)
        channel.binding = tls.binding

    async def identify(self, channel: Channel, user: str) -> None:
        """Lets a client be `user`, by certificate or password; raises Refusal 28000, 28P01, ProtocolError."""
        if self._trust:
            return
        methods = self._methods
        if (provider := methods.of(user)) is not None:
            await self._ask_provider(channel, user, methods, provider)
            return
        async with self._looked_up.of(user):
            known = await asyncio.get_running_loop().run_in_executor(self._threads, self._verifier, user)
        certificate = channel.certificate
        if certificate is None:
            await self._ask_password(channel, user, known)
        elif known is None or not methods.certifies(certificate, user):
            raise Refusal("28000", f'certificate authentication failed for user "{user}"')

    async def _ask_password(self, channel: Channel, user: str, known: str | None) -> None:
        fake = ScramVerifier.fake(self._fake_salt_key, user)
        verifier = fake if known is None else ScramVerifier.read(known)
        turn = partial(self._analysts.turn, channel.peer, user)
        await authenticate(channel, user, verifier, known is not None, channel.binding, turn)

    async def prove(self, channel: Channel, user: str, holds: Callable[[str], bool]) -> None:
        """Lets a client be `user` by a password that `holds`, which may block; raises Refusal 28000, 28P01."""
        password = await ask_in_cleartext(channel)
        loop = asyncio.get_running_loop()
        async with self._owners.turn(channel.peer, user) as attempt:
            attempt.right = await loop.run_in_executor(self._owner_threads, holds, password)
        if not attempt.right:
            raise Refusal(
                "28P01",
                f'password authentication failed for user "{user}"',
                hint="The owner's password is set by dpproxy console password, the auditor's with --auditor.",
            )

    async def _ask_provider(
        self, channel: Channel, user: str, methods: LoginMethods, provider: Tokens | Directory
    ) -> None:
        """Lets a client be `user` by an identity provider, which may have to name a group of one of our teams."""
        shown = await ask_in_cleartext(channel)
        loop = asyncio.get_running_loop()
        async with self._providers[type(provider)].turn(channel.peer, user) as attempt:
            answered = loop.time() + provider.failed_seconds
            proof = await provider.proof(user, shown)
            teams = methods.teams_of(proof) if proof is not None and provider.groups else ()
            attempt.right = proof is not None and (bool(teams) or not provider.groups)
        if proof is not None and provider.groups and not teams:
            log.warning("%r is in no group of [budget.teams], and is refused", user)
        if not attempt.right:
            await asyncio.sleep(answered - loop.time())
            raise provider.refused(user)
        if teams and proof is not None:
            await loop.run_in_executor(self._threads, methods.joined, user, teams, proof.as_of)
