"""A policy served for real from DuckDB or PostgreSQL, with counters at the backend."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import psycopg

from dpproxy.answer import Answering
from dpproxy.backends.base import Backend
from dpproxy.config import load
from dpproxy.embedded import Embedded
from dpproxy.pgwire.auth import Verifier
from dpproxy.server import Server, Settings
from dpproxy.service import Checked, Service
from tests.clients.counted import CountedAnswering, CountedBackend, Counts
from tests.clients.data import POLICY, fill_duckdb, fill_postgres

ANALYST, PASSWORD, DATABASE = "ann", "pencil", "shop"


@dataclass
class World:
    """A served policy: where it listens, and what its backend has run."""

    backend: str
    port: int
    counts: Counts
    service: Service = field(repr=False)
    _ages: Iterator[int] = field(default_factory=lambda: itertools.count(1), repr=False)

    def fresh(self) -> int:
        """A number below every user_id that no statement has had before, so that its answer is no replay."""
        return -next(self._ages)

    @property
    def url(self) -> str:
        """A connection URI with TLS and the password."""
        return f"postgresql://{ANALYST}:{PASSWORD}@127.0.0.1:{self.port}/{DATABASE}?sslmode=require"

    def connect(self, **more: Any) -> psycopg.Connection[tuple[Any, ...]]:
        """psycopg, in autocommit unless said otherwise."""
        return psycopg.connect(self.url, **{"autocommit": True, **more})


@contextmanager
def served(folder: Path, policy: str, *, backend: str) -> Iterator[World]:
    """Serves a policy over TLS and SCRAM on a port of its own, in a thread with its own event loop."""
    file = folder / "dpproxy.toml"
    file.write_text(policy)
    counts = Counts()
    with ExitStack() as stack:
        checked = Checked.open(load(file))
        stack.callback(checked.backend.close)
        counted = replace(checked, backend=cast(Backend, CountedBackend(checked.backend, counts)))
        service = Service(counted, stack, None, 1)
        service.ledger.add_analyst(ANALYST, str(Verifier.make(PASSWORD)))
        service.answering = cast(Answering, CountedAnswering(service.answering, counts))
        port = stack.enter_context(_listening(Server(Settings(port=0), service._rooms())))
        yield World(backend, port, counts, service)


@contextmanager
def _listening(server: Server) -> Iterator[int]:
    loop = asyncio.new_event_loop()
    ready: Future[int] = Future()

    def run() -> None:
        asyncio.set_event_loop(loop)
        ready.set_result(loop.run_until_complete(server.start())[1])
        loop.run_forever()
        loop.run_until_complete(asyncio.sleep(0.05))
        loop.close()

    thread = threading.Thread(target=run, name="server")
    thread.start()
    try:
        yield ready.result(20)
    finally:
        asyncio.run_coroutine_threadsafe(server.drain(0.2), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


@contextmanager
def duckdb_world(folder: Path) -> Iterator[World]:
    """The clients' policy on DuckDB."""
    url = fill_duckdb(folder / "shop.duckdb")
    with served(folder, POLICY.format(url=url), backend="DuckDB") as world:
        yield world


@contextmanager
def postgres_world(folder: Path) -> Iterator[World]:
    """The clients' policy on PostgreSQL."""
    with Embedded.start(folder / "backend", durable=False) as server:
        url = fill_postgres(server, "shop")
        with served(folder, POLICY.format(url=url), backend="PostgreSQL") as world:
            yield world


WORLDS = {"DuckDB": duckdb_world, "PostgreSQL": postgres_world}
