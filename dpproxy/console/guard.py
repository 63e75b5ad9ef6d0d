"""For every response: security headers, and a check of the Host header."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dpproxy.config.values import is_loopback

POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
"""No script at all, no inline style, nothing from elsewhere."""
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
_YEAR = 31_536_000


class SecurityMiddleware:
    """Wraps an application. `tls`: browsers are required to use https from now on (HSTS).

    Without TLS only names of this machine are answered to, so that no page elsewhere can have a browser ask under a
    name of its own that it points here.
    """

    def __init__(self, app: ASGIApp, *, tls: bool) -> None:
        self._app, self._tls = app, tls
        self._headers = {**HEADERS}
        if tls:
            self._headers["Strict-Transport-Security"] = f"max-age={_YEAR}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            return
        app = self._app if self._tls or _own_name(Headers(scope=scope).get("host", "")) else _STRANGER

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        await app(scope, receive, guarded)


_STRANGER = PlainTextResponse("This console is asked by 127.0.0.1 or localhost.\n", 421)


def _own_name(host: str) -> bool:
    """Whether a Host header names this machine itself.

    >>> _own_name("127.0.0.1:6480"), _own_name("localhost"), _own_name("[::1]:6480"), _own_name("evil.example:6480")
    (True, True, True, False)
    """
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    return is_loopback(name.removeprefix("[").removesuffix("]"))
