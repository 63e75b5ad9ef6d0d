"""Logging in: a client here, and this process at the front."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from dpproxy.pgwire import messages as m
from dpproxy.pgwire.auth import MECHANISM, PLUS, AuthenticationFailed, ClientScram, ScramVerifier, ServerScram
from dpproxy.pgwire.startup import check_status, startup_packet
from dpproxy.server.door import Attempt
from dpproxy.server.transport import Address, Channel, ConnectionEnded, connect
from rewriter.refusal import Refusal

_CLEARTEXT, _SASL, _SASL_CONTINUE, _SASL_FINAL = 3, 10, 11, 12
_FRONT_LIMITS = dict.fromkeys(b"RSKENZ", 1 << 16)
_CANCEL_SECONDS = 5
AUTHENTICATION_OK = m.message("R", struct.pack(">i", 0))


class FrontFailed(Exception):
    """The front did not let a session in; `raw` is its ErrorResponse, if it sent one."""

    def __init__(self, raw: bytes = b"") -> None:
        super().__init__("the front did not let a session in")
        self.raw = raw


@dataclass(frozen=True)
class FrontConnection:
    """A session at the front, ready for its first statement.

    `greeting`: the parameter statuses it sent; `pid` and `secret` are for cancelling.
    """

    channel: Channel
    greeting: tuple[bytes, ...]
    pid: int
    secret: bytes


async def authenticate(
    channel: Channel,
    user: str,
    verifier: ScramVerifier,
    known: bool,
    binding: bytes | None,
    turn: Callable[[], AbstractAsyncContextManager[Attempt]],
) -> None:
    """Asks a client for its password by SCRAM; raises Refusal 28P01, ProtocolError, ConnectionEnded.

    `binding`: what its TLS connection is bound to, None without one; `turn`: in which the proof is looked at; it
    raises Refusal.
    """
    scram = ServerScram(verifier, known=known, binding=binding)
    channel.inbound.limits = m.LOGIN_LIMITS
    try:
        channel.send(_request(_SASL, b"".join(map(m.cstring, scram.mechanisms)) + b"\0"))
        mechanism, first = _initial_response((await channel.message())[1])
        channel.send(_request(_SASL_CONTINUE, scram.first(first, mechanism)))
        proof = (await channel.message())[1]
        async with turn() as attempt:
            final = scram.final(proof)
            attempt.right = True
        channel.send(_request(_SASL_FINAL, final))
    except AuthenticationFailed as failure:
        if str(failure).startswith("malformed"):
            raise m.ProtocolError(str(failure)) from None
        raise Refusal("28P01", f'password authentication failed for user "{user}"') from None


async def ask_in_cleartext(channel: Channel) -> str:
    """Asks a client for its password as it is, inside of TLS only.

    Raises Refusal 28000, ProtocolError, ConnectionEnded.
    """
    if not channel.is_secure:
        raise Refusal(
            "28000",
            "this login needs TLS: its password is sent as it is",
            hint="Connect with sslmode=verify-full.",
        )
    channel.inbound.limits = m.LOGIN_LIMITS
    channel.send(_request(_CLEARTEXT, b""))
    (password,), rest = m.split_cstrings((await channel.message())[1], 1)
    if rest:
        raise m.ProtocolError("invalid password packet size")
    return password


async def log_in_at_front(
    address: Address, database: str, role: str, password: str, settings: Mapping[str, str]
) -> FrontConnection:
    """Opens a session at the front; raises FrontFailed."""
    try:
        channel = await connect(address, m.Inbound(_FRONT_LIMITS))
    except OSError:
        raise FrontFailed from None
    try:
        channel.send(startup_packet({"user": role, "database": database, **settings}))
        await _prove(channel, password)
        return await _greeted(channel)
    except (ConnectionEnded, AuthenticationFailed, m.ProtocolError):
        channel.close()
        raise FrontFailed from None
    except BaseException:
        channel.close()
        raise


async def cancel_at_front(address: Address, pid: int, secret: bytes) -> None:
    """Asks the front to cancel what a session runs, and waits until it has; one out of reach runs nothing."""
    try:
        channel = await connect(address, m.Inbound({}))
    except OSError:
        return
    channel.send(struct.pack(">iii", 12 + len(secret), m.CANCEL_REQUEST, pid) + secret)
    await asyncio.wait([channel.closed], timeout=_CANCEL_SECONDS)
    channel.close()


async def _prove(channel: Channel, password: str) -> None:
    scram = ClientScram(password)
    while True:
        kind, body = await _front_message(channel)
        if kind != ord("R"):
            raise FrontFailed
        (request,) = struct.unpack_from(">i", body)
        if request == 0:
            return
        if request == _CLEARTEXT:
            channel.send(m.message("p", m.cstring(password)))
        elif request == _SASL and MECHANISM.encode() in body[4:].split(b"\0"):
            first = scram.first()
            head = m.cstring(MECHANISM) + struct.pack(">i", len(first))
            channel.send(m.message("p", head + first))
        elif request == _SASL_CONTINUE:
            channel.send(m.message("p", scram.final(body[4:])))
        elif request == _SASL_FINAL:
            scram.check(body[4:])
        else:
            raise FrontFailed


async def _greeted(channel: Channel) -> FrontConnection:
    greeting: list[bytes] = []
    pid, secret = 0, b""
    while True:
        kind, body = await _front_message(channel)
        if kind == ord("S"):
            try:
                check_status(body)
            except m.ProtocolError as error:
                raise FrontFailed(m.error(error.code, error.message, severity="FATAL")) from None
            greeting.append(m.message("S", body))
        elif kind == ord("K"):
            pid, secret = int.from_bytes(body[:4], "big"), body[4:]
        elif kind == ord("Z"):
            return FrontConnection(channel, tuple(greeting), pid, secret)


async def _front_message(channel: Channel) -> tuple[int, bytes]:
    """The front's next message; raises FrontFailed with its error."""
    kind, body = await channel.message()
    if kind == ord("E"):
        raise FrontFailed(m.message("E", body))
    return kind, body


def _request(kind: int, data: bytes) -> bytes:
    return m.message("R", struct.pack(">i", kind) + data)


def _initial_response(body: bytes) -> tuple[str, bytes]:
    """The mechanism that a client has chosen and its first message; raises ProtocolError."""
    (mechanism,), rest = m.split_cstrings(body, 1)
    if mechanism not in (MECHANISM, PLUS):
        raise m.ProtocolError("client selected an invalid SASL authentication mechanism")
    if len(rest) < 4 or int.from_bytes(rest[:4], "big") != len(rest) - 4:
        raise m.ProtocolError("malformed SCRAM message")
    return mechanism, rest[4:]
