"""The keys of an identity provider: from a file, or by OpenID Connect Discovery 1.0 from the issuer itself.

Why it is not asked at the start: docs/decisions/issuers-are-asked-at-logins.md.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import h11
import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from dpproxy.config.identity import is_https

log = logging.getLogger("dpproxy.server.issuer")

SECONDS = 5.0
"""For both documents of an issuer together."""
MOST_BYTES = 1 << 18
"""Of one document."""
FRESH_SECONDS = 600.0
"""The issuer is asked again for keys that are older."""
KEPT_SECONDS = 3600.0
"""Keys are used for so long where the issuer cannot be asked."""
BRAKE_SECONDS = 15.0
"""Between two questions to the issuer, whatever logins ask for."""
Key = jwt.PyJWK | bytes
"""One of a JWKS, or a public key in PEM."""


class KeysUnavailable(Exception):
    """The issuer's keys cannot be had; the message says why."""


class Keys(Protocol):
    """Where the keys of an issuer are."""

    async def named(self, name: str | None) -> Key:
        """The key of this `kid`, or the only key there is; raises KeysUnavailable."""


@dataclass(frozen=True)
class KeyFile:
    """The issuer's public key (PEM) or keys (JWKS) in a file, read at each login."""

    path: Path

    async def named(self, name: str | None) -> Key:
        """The key of this `kid`, or the only key there is; raises KeysUnavailable."""
        keys = await asyncio.to_thread(self.read)
        return keys if isinstance(keys, bytes) else _meant(keys, name)

    def read(self) -> Sequence[jwt.PyJWK] | bytes:
        """The keys; raises KeysUnavailable."""
        try:
            content = self.path.read_bytes()
        except OSError as error:
            raise KeysUnavailable(f"{self.path} cannot be read ({error.strerror})") from None
        if content.lstrip().startswith(b"{"):
            return _keys(content, str(self.path))
        try:
            load_pem_public_key(content)
        except (ValueError, UnsupportedAlgorithm):
            raise KeysUnavailable(f"{self.path} holds no public key in PEM, nor a JWKS") from None
        return content


class Issuer:
    """The issuer at a URL, whose keys are fetched when a login needs them, and kept for a while.

    Logins share a question, which only those wait for whose key is not known; there is one in BRAKE_SECONDS.
    """

    def __init__(self, url: str, ca_file: Path | None = None) -> None:
        """`ca_file`: authorities to trust in place of the system's; raises KeysUnavailable where it is unusable."""
        self._url = url
        try:
            self._tls = ssl.create_default_context(cafile=ca_file)
        except (ssl.SSLError, OSError) as error:
            raise KeysUnavailable(f"{ca_file} cannot be used ({error.strerror or error})") from None
        self._keys: Sequence[jwt.PyJWK] = ()
        self._had, self._asked = float("-inf"), float("-inf")
        self._asking: asyncio.Task[None] | None = None

    async def named(self, name: str | None) -> Key:
        """The key of this `kid`, or the only key there is; raises KeysUnavailable."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        known = now - self._had < KEPT_SECONDS and any(name in (None, key.key_id) for key in self._keys)
        idle = self._asking is None or self._asking.done()
        if idle and now - self._asked > BRAKE_SECONDS and not (known and now - self._had < FRESH_SECONDS):
            self._asked, self._asking = now, loop.create_task(self._ask())
        if not known:
            if self._asking is not None:
                # A login that ends leaves the question to the others.
                await asyncio.shield(self._asking)
            if loop.time() - self._had > KEPT_SECONDS:
                raise KeysUnavailable("the keys that are known are too old")
        return _meant(self._keys, name)

    async def fetched(self) -> Sequence[jwt.PyJWK]:
        """The keys that the issuer publishes now; raises KeysUnavailable."""
        try:
            async with asyncio.timeout(SECONDS):
                place = f"{self._url.rstrip('/')}/.well-known/openid-configuration"
                said = _object(await self._get(place), place)
                if said.get("issuer") != self._url:
                    raise KeysUnavailable(f"{place} is of another issuer")
                where = said.get("jwks_uri")
                if not isinstance(where, str) or not is_https(where):
                    raise KeysUnavailable(f"{place} names no jwks_uri with https")
                return _keys(await self._get(where), where)
        except TimeoutError:
            raise KeysUnavailable(f"{self._url} does not answer within {SECONDS:g} s") from None
        except (OSError, ssl.SSLError, h11.ProtocolError, ValueError) as error:
            raise KeysUnavailable(f"{self._url} cannot be asked ({type(error).__name__})") from None

    async def _ask(self) -> None:
        try:
            self._keys = await self.fetched()
        except KeysUnavailable as error:
            log.warning("the keys of the issuer are not renewed: %s", error)
        else:
            self._had = asyncio.get_running_loop().time()

    async def _get(self, url: str) -> bytes:
        """A document of at most MOST_BYTES, without following redirects."""
        parts = urlsplit(url)
        assert parts.hostname is not None
        tls = self._tls if parts.scheme == "https" else None
        port = parts.port or (443 if tls else 80)
        reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=tls, limit=MOST_BYTES)
        try:
            client = h11.Connection(h11.CLIENT)
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            wanted = [("Host", parts.netloc), ("Accept", "application/json"), ("Connection", "close")]
            writer.write(client.send(h11.Request(method="GET", target=target, headers=wanted)) or b"")
            writer.write(client.send(h11.EndOfMessage()) or b"")
            return await _body(client, reader, url)
        finally:
            writer.close()


async def _body(client: h11.Connection, reader: asyncio.StreamReader, url: str) -> bytes:
    body = b""
    while True:
        event = client.next_event()
        if event is h11.NEED_DATA:
            client.receive_data(await reader.read(1 << 14))
        elif isinstance(event, h11.Response):
            if event.status_code != 200:
                raise KeysUnavailable(f"{url} answers with status {event.status_code}")
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > MOST_BYTES:
                raise KeysUnavailable(f"{url} has more than {MOST_BYTES} bytes")
        elif isinstance(event, h11.EndOfMessage):
            return body
        elif not isinstance(event, h11.InformationalResponse):
            raise KeysUnavailable(f"{url} does not answer with HTTP")


def _keys(content: bytes, place: str) -> Sequence[jwt.PyJWK]:
    """The keys of a JWKS that sign; those of kinds that are not known are left out."""
    said = _object(content, place)
    try:
        found = jwt.PyJWKSet.from_dict(said).keys
    except (jwt.PyJWTError, UnsupportedAlgorithm, ValueError, TypeError, AttributeError, KeyError):
        raise KeysUnavailable(f"{place} holds no JWKS") from None
    return [key for key in found if key.public_key_use in (None, "sig")]


def _object(content: bytes, place: str) -> dict[str, Any]:
    try:
        said = json.loads(content)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise KeysUnavailable(f"{place} holds no JSON object")
    return said


def _meant(keys: Sequence[jwt.PyJWK], name: str | None) -> jwt.PyJWK:
    meant = [key for key in keys if name in (None, key.key_id)]
    if len(meant) != 1:
        raise KeysUnavailable("no one key of the issuer is meant")
    return meant[0]
