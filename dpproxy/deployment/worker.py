"""One of several processes that serve a port, by the order of its parent: `python -m dpproxy.deployment.worker`."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import sys
from contextlib import suppress

import uvloop

from dpproxy.deployment.service import EXPECTED, Service
from dpproxy.deployment.workers import BEAT, BEAT_SECONDS, READY, Order
from dpproxy.embedded.launcher import die_with
from dpproxy.server.cancel_forwarding import CancelForwarder
from dpproxy.server.listener import Shared
from dpproxy.server.session_limit import SessionLimit
from dpproxy.server.shutdown import leave
from dpproxy.telemetry.statement_log import json_everywhere


def main() -> None:
    """Serves until SIGTERM, SIGINT or the parent's end; says on standard output that it is ready, or why not, and
    from then on that its loop runs."""
    order = pickle.loads(bytes.fromhex(sys.stdin.readline()))
    assert isinstance(order, Order)
    if not die_with(order.parent, signal.SIGKILL):
        raise SystemExit(1)
    try:
        if order.config.server.log == "json":
            json_everywhere()
        with Service.start(order.config, alone=False, place=order.place) as service:
            uvloop.run(_serve(service, order))
    except EXPECTED as error:
        print(" ".join(str(error).split()) or type(error).__name__, flush=True)
        raise SystemExit(1) from None
    leave()


async def _serve(service: Service, order: Order) -> None:
    number, folder = order.place.number, order.place.folder
    section = order.config.server
    seats = SessionLimit(section.max_sessions, section.max_sessions_per_login, folder / "seats", number)
    shared = Shared(seats, CancelForwarder(folder, number))
    beating: list[asyncio.Task[None]] = []

    def ready(host: str, port: int) -> None:
        os.write(sys.stdout.fileno(), READY)
        beating.append(asyncio.create_task(_beat()))

    await service.server(shared).serve(ready, service.stop)


async def _beat() -> None:
    """Tells the parent that the loop runs. It does not wait for a parent that does not read."""
    os.set_blocking(sys.stdout.fileno(), False)
    while True:
        with suppress(BlockingIOError):
            os.write(sys.stdout.fileno(), BEAT)
        await asyncio.sleep(BEAT_SECONDS)


if __name__ == "__main__":
    main()
