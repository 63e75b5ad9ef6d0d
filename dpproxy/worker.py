"""One of several processes that serve a port: `python -m dpproxy.worker`, told by its parent what to serve."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import sys
from contextlib import suppress

import uvloop

from dpproxy.cli_options import EXPECTED
from dpproxy.neighbours import Neighbours
from dpproxy.seats import Seats
from dpproxy.server import Shared
from dpproxy.service import Service
from dpproxy.statement_log import json_everywhere
from dpproxy.workers import READY, Order


def main() -> None:
    """Serves until SIGTERM, SIGINT or the parent's end; says on standard output that it is ready, or why not."""
    order = pickle.loads(bytes.fromhex(sys.stdin.readline()))
    assert isinstance(order, Order)
    try:
        if order.config.server.log == "json":
            json_everywhere()
        with Service.start(order.config, alone=False, place=order.place) as service:
            uvloop.run(_serve(service, order))
    except EXPECTED as error:
        print(" ".join(str(error).split()) or type(error).__name__, flush=True)
        raise SystemExit(1) from None


async def _serve(service: Service, order: Order) -> None:
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin.fileno(), _parent_gone)
    number, folder = order.place.number, order.place.folder
    section = order.config.server
    seats = Seats(section.max_sessions, section.max_sessions_per_login, folder / "seats", number)
    shared = Shared(seats, Neighbours(folder, number))
    await service.server(shared).serve(_ready)


def _parent_gone() -> None:
    asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
    os.kill(os.getpid(), signal.SIGTERM)


def _ready(host: str, port: int) -> None:
    with suppress(BrokenPipeError):
        sys.stdout.buffer.write(READY)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
