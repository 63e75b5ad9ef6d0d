"""The console's routes: a login, eight pages, metrics and health. A button has the configuration read again, others
clear failures of the backend; nothing else changes anything."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import time
from typing import TypeVar
from urllib.parse import parse_qs

from anyio import CapacityLimiter, to_thread
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from budget.account import LedgerError
from dpproxy.config.identity import AUDITOR, OWNER, ROLES
from dpproxy.config.owner_password import load, verifier_path
from dpproxy.config.sections import ConfigError
from dpproxy.console import pages
from dpproxy.console.guarantees import guarantees
from dpproxy.console.guard import SecurityMiddleware
from dpproxy.console.sources import Part, Sources
from dpproxy.console.tickets import SECONDS, Ticket, Tickets
from dpproxy.deployment.control import RELOAD, NoServer, tell
from dpproxy.owner.failures import BY_CONSOLE
from dpproxy.server.door import Door, TooManyFailures
from dpproxy.telemetry.lateness import Late

T = TypeVar("T")
Page = Callable[[Sources, Mapping[str, str]], Mapping[str, object]]
PAGES: Mapping[str, tuple[str, Page]] = {
    "/": ("Accounts", pages.accounts),
    "/releases": ("Releases", pages.releases),
    "/refusals": ("Refusals", pages.refusals),
    "/failures": ("Failures", pages.failures),
    "/limits": ("Limits", pages.limits),
    "/columns": ("Columns", pages.columns),
    "/guarantee": ("Guarantee", guarantees),
    "/health": ("Health", pages.health),
}
"""Path, title and content of every page behind the login."""
_HERE = Path(__file__).parent
_COOKIE = "dpproxy_owner"
_MOST_BYTES = 4096
"""Of a form."""
_PLACES, _PACE_SECONDS = 2, 0.1
"""Passwords that are looked at together, and for how long a wrong one keeps its place."""
_QUICK = 8
_PROBE_SECONDS = 10.0
_NOT_YOURS = "This form was not made for you.\n"
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def application(sources: Sources) -> ASGIApp:
    """The console over `sources`, guarded."""
    return _Console(sources).guarded()


def metrics_token(key: bytes) -> str:
    """What a monitoring system shows to read the metrics; `key`: of the sources."""
    return hmac.digest(key, b"metrics", "sha256").hex()


class _Console:
    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._tls = bool(sources.config.server.tls_cert)
        key_path = sources.config.path(sources.config.privacy.key_file)
        self._paths = {role: verifier_path(key_path, role) for role in ROLES}
        self._tickets = Tickets(sources.keys[0])
        self._door = Door(_PLACES, 1, _PACE_SECONDS)
        self._probing: asyncio.Task[Sequence[Part]] | None = None
        self._quick, self._guesses = CapacityLimiter(_QUICK), CapacityLimiter(_PLACES)
        environment = Environment(
            loader=FileSystemLoader(_HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.globals["pages"] = [(path, title) for path, (title, _) in PAGES.items()]
        self._templates = environment

    def guarded(self) -> ASGIApp:
        """All routes."""
        shown = [Route(path, partial(self._page, path)) for path in PAGES]
        routes = [
            *shown,
            Route("/login", self._form, methods=["GET"]),
            Route("/login", self._log_in, methods=["POST"]),
            Route("/logout", self._log_out, methods=["POST"]),
            Route("/reload", self._reload, methods=["POST"]),
            Route("/failures/clear", self._clear, methods=["POST"]),
            Route("/metrics", self._metrics),
            Route("/healthz", self._alive),
            Route("/readyz", self._ready),
            Mount("/static", StaticFiles(directory=_HERE / "static")),
        ]
        handlers: dict[object, Callable[[Request, Exception], Awaitable[Response]]] = {
            404: self._missing,
            LedgerError: self._broken,
            ConfigError: self._broken,
            500: self._broken,
        }
        return SecurityMiddleware(Starlette(routes=routes, exception_handlers=handlers), tls=self._tls)

    # Pages

    async def _page(self, path: str, request: Request) -> Response:
        ticket = await self._ticket(request)
        if ticket is None or not ticket.role:
            return RedirectResponse("/login", 303)
        return await self._shown(path, ticket, request.query_params)

    async def _reload(self, request: Request) -> Response:
        """The same as `dpproxy reload`, by the owner alone; the page says why it failed."""
        ticket, _, refused = await self._owners(request)
        if ticket is None:
            return refused
        try:
            failure = await run_in_threadpool(tell, self._sources.config, RELOAD)
        except NoServer as error:
            failure = str(error)
        status, told = (
            (409, f"Nothing has changed. {failure}")
            if failure
            else (200, "The policy of the file is in force.")
        )
        return await self._shown("/health", ticket, {}, told=told, status=status)

    async def _clear(self, request: Request) -> Response:
        """The same as `dpproxy failures --clear`, by the owner alone: of one account, or of all."""
        ticket, sent, refused = await self._owners(request)
        if ticket is None:
            return refused
        account = None if "all" in sent else sent.get("account", "")
        cleared = await run_in_threadpool(self._sources.ledger.failures.clear, account, BY_CONSOLE)
        told = "1 failure was cleared." if cleared == 1 else f"{cleared} failures were cleared."
        return await self._shown("/failures", ticket, {}, told=told)

    async def _owners(self, request: Request) -> tuple[Ticket | None, Mapping[str, str], Response]:
        """The owner's ticket and form; for anybody else no ticket, and the refusal."""
        ticket, sent = await self._ticket(request), await _form_of(request)
        if sent is None or ticket is None or not self._tickets.sent_by(ticket, sent.get("token", "")):
            return None, {}, PlainTextResponse(_NOT_YOURS, 403)
        refused = PlainTextResponse("An auditor changes nothing.\n", 403)
        return (ticket if ticket.role == OWNER else None), sent, refused

    async def _shown(
        self, path: str, ticket: Ticket, query: Mapping[str, str], *, told: str = "", status: int = 200
    ) -> Response:
        title, content = PAGES[path]
        context = await run_in_threadpool(content, self._sources, query)
        name, more = path.strip("/") or "accounts", {"path": path, "told": told}
        return self._rendered(f"{name}.html", ticket, title=title, context={**context, **more}, status=status)

    async def _metrics(self, request: Request) -> Response:
        ticket = await self._ticket(request)
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        tokens = [metrics_token(key).encode() for key in self._sources.keys]
        known = any(hmac.compare_digest(given.encode(errors="replace"), token) for token in tokens)
        if not known and (ticket is None or ticket.role != OWNER):
            return PlainTextResponse("dpproxy console token prints the bearer token.\n", 401)
        if self._sources.metrics is None:
            return PlainTextResponse("This process serves no analysts: ask the one that does.\n", 404)
        return Response(await self._quickly(self._sources.metrics), media_type=_METRICS_TYPE)

    async def _alive(self, request: Request) -> Response:
        try:
            self._sources.served()
        except Late:
            return PlainTextResponse("clients wait\n", 503)
        return PlainTextResponse("alive\n")

    async def _ready(self, request: Request) -> Response:
        """One check is shared by concurrent requests: they hold no threads, and do not wait for ever."""
        if self._probing is None or self._probing.done():
            self._probing = asyncio.create_task(self._quickly(self._sources.probe.parts))
        try:
            parts = await asyncio.wait_for(asyncio.shield(self._probing), _PROBE_SECONDS)
        except TimeoutError:
            return JSONResponse({}, 503)
        told = {part.name: not part.failed for part in parts}
        return JSONResponse(told, 200 if all(told.values()) else 503)

    async def _quickly(self, look: Callable[[], T]) -> T:
        """In a thread that no page waits for."""
        return await to_thread.run_sync(look, limiter=self._quick)

    # The login

    async def _form(self, request: Request, failed: str = "", status: int = 200) -> Response:
        ticket = await self._ticket(request)
        cookie = None
        if ticket is None:
            cookie = self._tickets.issue(time(), "")
            ticket = self._tickets.read(cookie, time())
            assert ticket is not None
        elif ticket.role:
            return RedirectResponse("/", 303)
        response = self._rendered(
            "login.html",
            ticket,
            status=status,
            title="Log in",
            context={"failed": failed, "roles": list(self._tickets.verifiers)},
        )
        if cookie is not None:
            self._hand_out(response, cookie)
        return response

    async def _log_in(self, request: Request) -> Response:
        ticket, sent = await self._ticket(request), await _form_of(request)
        if sent is None or ticket is None or not self._tickets.sent_by(ticket, sent.get("token", "")):
            return await self._form(request, "This form was not made for you, or is too old. Try again.", 403)
        peer = request.client.host if request.client else ""
        role = AUDITOR if sent.get("user") == AUDITOR else OWNER
        right = await self._right(peer, role, sent.get("password", ""))
        if right is None:
            return await self._form(request, "Too many wrong passwords. Try again in a minute.", 429)
        if not right:
            return await self._form(request, "This is not the password.", 403)
        self._tickets.end(ticket, time())
        response = RedirectResponse("/", 303)
        self._hand_out(response, self._tickets.issue(time(), role))
        return response

    async def _log_out(self, request: Request) -> Response:
        ticket, sent = await self._ticket(request), await _form_of(request)
        if sent is None or ticket is None or not self._tickets.sent_by(ticket, sent.get("token", "")):
            return PlainTextResponse(_NOT_YOURS, 403)
        self._tickets.end(ticket, time())
        response = RedirectResponse("/login", 303)
        response.delete_cookie(_COOKIE)
        return response

    async def _right(self, peer: str, role: str, password: str) -> bool | None:
        """Whether this is the password of a role; None for those who have to come again."""
        try:
            async with self._door.turn(peer, role) as attempt:
                attempt.right = await to_thread.run_sync(
                    _holds, self._paths[role], password, limiter=self._guesses
                )
        except TooManyFailures:
            return None
        return attempt.right

    async def _ticket(self, request: Request) -> Ticket | None:
        """The visitor's, by the passwords of now: the owner may have set another one."""
        self._tickets.verifiers = await self._quickly(partial(_verifiers, self._paths))
        return self._tickets.read(request.cookies.get(_COOKIE, ""), time())

    def _hand_out(self, response: Response, cookie: str) -> None:
        response.set_cookie(
            _COOKIE, cookie, max_age=SECONDS, httponly=True, secure=self._tls, samesite="strict"
        )

    # What goes wrong

    async def _missing(self, request: Request, error: Exception) -> Response:
        return self._rendered(
            "error.html", None, status=404, title="No such page", context={"told": "There is no such page."}
        )

    async def _broken(self, request: Request, error: Exception) -> Response:
        told = "The ledger cannot be reached." if isinstance(error, LedgerError) else "Something went wrong."
        return self._rendered("error.html", None, status=503, title="Out of reach", context={"told": told})

    def _rendered(
        self,
        template: str,
        ticket: Ticket | None,
        *,
        title: str,
        context: Mapping[str, object],
        status: int = 200,
    ) -> HTMLResponse:
        token = self._tickets.token(ticket) if ticket is not None else ""
        role = ticket.role if ticket is not None else ""
        values = {"path": "", **context, "title": title, "token": token, "role": role}
        return HTMLResponse(self._templates.get_template(template).render(values), status)


def _verifiers(paths: Mapping[str, Path]) -> Mapping[str, str]:
    """Of the roles that have a password; raises ConfigError."""
    found = {role: load(path) for role, path in paths.items()}
    return {role: str(verifier) for role, verifier in found.items() if verifier is not None}


def _holds(path: Path, password: str) -> bool:
    verifier = load(path)
    return verifier is not None and verifier.holds(password)


async def _form_of(request: Request) -> Mapping[str, str] | None:
    """The fields of a small form; None for a large one, one that is no form, and one that did not come whole."""
    body = b""
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > _MOST_BYTES:
                return None
    except ClientDisconnect:
        return None
    try:
        return {name: values[0] for name, values in parse_qs(body.decode(), max_num_fields=8).items()}
    except ValueError:
        return None
