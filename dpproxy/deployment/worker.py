"""One of several processes that serve a port, by the order of its parent: `python -m dpproxy.deployment.worker`."""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import signal
import socket
import sys
from contextlib import suppress

import uvloop

from dpproxy.deployment.service import EXPECTED, Service
from dpproxy.deployment.workers import BEAT, BEAT_SECONDS, HOLDING, LATE, READY, Order
from dpproxy.embedded.launcher import die_with
from dpproxy.server.listener import Server, Shared
from dpproxy.server.neighbours import Neighbours
from dpproxy.server.session_limit import SessionLimit
from dpproxy.server.shutdown import leave
from dpproxy.telemetry.lateness import Late, Lateness
from dpproxy.telemetry.statement_log import json_everywhere

log = logging.getLogger("dpproxy.deployment.worker")

_LONGEST = 1 << 26
"""Bytes of an order."""


def main() -> None:
    """Serves until SIGTERM, SIGINT or the parent's end; says on standard output that it is ready, or why not, and
    from then on that its loop runs. Each further order is another policy."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    order = _order(sys.stdin.buffer.readline())
    if not die_with(order.parent, signal.SIGKILL):
        raise SystemExit(1)
    try:
        if order.config.server.log == "json":
            json_everywhere()
        with Service.start(
            order.config, alone=False, place=order.place, generation=order.generation
        ) as service:
            uvloop.run(_serve(service, order))
    except EXPECTED as error:
        print(" ".join(str(error).split()) or type(error).__name__, flush=True)
        raise SystemExit(1) from None
    leave()


async def _serve(service: Service, order: Order) -> None:
    number, folder = order.place.number, order.place.folder
    section = order.config.server
    seats = SessionLimit(section.max_sessions, section.max_sessions_per_login, folder / "seats", number)
    shared = Shared(seats, Neighbours(folder, number))
    server = service.server(shared)
    tasks: list[asyncio.Task[None]] = []

    def ready(host: str, port: int) -> None:
        os.write(sys.stdout.fileno(), READY)
        tasks.extend(map(asyncio.create_task, (_beat(service.lateness), _follow(service, server))))

    inherited = None if order.inherited is None else socket.socket(fileno=order.inherited)
    await server.serve(ready, service.stop, inherited)


async def _follow(service: Service, server: Server) -> None:
    """Goes over to each policy that the parent sends. A worker that cannot follow must not serve under another one."""
    reader = asyncio.StreamReader(limit=_LONGEST)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        order = _order(line)
        try:
            await asyncio.to_thread(service.follow, order.config, order.generation)
            service.carry_on(server)
        except Exception:
            log.exception("this worker cannot follow the policy")
            os._exit(1)
        os.write(sys.stdout.fileno(), HOLDING)


def _order(line: bytes) -> Order:
    order = pickle.loads(bytes.fromhex(line.decode()))
    assert isinstance(order, Order)
    return order


async def _beat(lateness: Lateness) -> None:
    """Tells the parent that the loop runs, and whether clients are served. It does not wait for a parent that does not
    read."""
    os.set_blocking(sys.stdout.fileno(), False)
    while True:
        beat = BEAT
        try:
            lateness.check()
        except Late:
            beat = LATE
        with suppress(BlockingIOError):
            os.write(sys.stdout.fileno(), beat)
        await asyncio.sleep(BEAT_SECONDS)


if __name__ == "__main__":
    main()
