"""`dpproxy console`: the owner's pages on a port of their own, their password, and the token of the metrics."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path

import uvloop

from dpproxy.config.key_file import load_keys
from dpproxy.config.owner_password import ScryptVerifier, load, save, verifier_path
from dpproxy.config.sections import Config
from dpproxy.console.app import application, metrics_token
from dpproxy.console.listener import listening
from dpproxy.console.sources import CONSOLE, Sources
from dpproxy.deployment.service import Service
from dpproxy.deployment.workers import Workers
from dpproxy.reporting.rows import OutputError
from dpproxy.telemetry import metrics
from mechanisms import randomness

ADDRESS = "127.0.0.1:6480"


def run(config: Config) -> None:
    """Serves the console until SIGTERM or Ctrl-C, beside a running server or for itself.

    Raises OutputError where no password is set, and what Service.start and `listening` raise.
    """
    if load(_place(config)) is None:
        raise OutputError("the owner has no password yet: dpproxy console password")
    with Service.start(config, alone=False) as service:
        uvloop.run(_run(config, service))


def beside(serving: Service | Workers, config: Config) -> AbstractAsyncContextManager[str]:
    """The console of a process that serves analysts; nothing where [server] http is empty."""
    if not config.server.http:
        return nullcontext("")
    if isinstance(serving, Workers):
        sources = Sources.of(serving.service, serving.metrics, serving.count, serving.check)
    else:
        sources = Sources.of(serving, lambda: metrics.page_of(serving.metrics), 1, serving.lateness.check)
    if load(_place(config)) is None:
        print("dpproxy: warning: nobody can log in to the console: dpproxy console password", file=sys.stderr)
    return listening(application(sources), config)


def password(config: Config, text: str, role: str) -> None:
    """Sets the password of a role, which ends all its logins; raises OutputError for a short one."""
    verifier, place = ScryptVerifier.make(text), verifier_path(config.path(config.privacy.key_file), role)
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    save(place, verifier)


def token(config: Config) -> None:
    """Prints the bearer token for /metrics; it lasts as long as the key."""
    keys = load_keys(config.path(config.privacy.key_file), may_make=False)
    print(metrics_token(randomness.derive(keys.present, CONSOLE)))


def announce(url: str) -> None:
    """Says where the console is."""
    if url:
        print(f"dpproxy: console at {url}", flush=True)


async def _run(config: Config, service: Service) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with listening(application(Sources.of(service, None, 1)), config) as url:
        announce(url)
        await stopped.wait()


def _place(config: Config) -> Path:
    return verifier_path(config.path(config.privacy.key_file))
