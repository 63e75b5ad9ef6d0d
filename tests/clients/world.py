"""A policy served for real from DuckDB or PostgreSQL, with counters at the backend."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from dpproxy.embedded.server import Embedded
from tests import preloaded
from tests.clients.counted import Counts
from tests.clients.data import POLICY, fill_duckdb, fill_postgres

ROOT = Path(__file__).parent.parent.parent
ANALYST, PASSWORD, DATABASE = "ann", "red-pencil", "dpproxy"


@dataclass
class World:
    """A served policy: where it listens, and what its backend has run."""

    backend: str
    port: int
    counts: Counts
    _asked: Iterator[int] = field(default_factory=lambda: itertools.count(1), repr=False)

    def fresh(self) -> int:
        """A number below every user_id that no statement has had before, so that its answer is no replay."""
        return -next(self._asked)

    @property
    def url(self) -> str:
        """A connection URI with TLS and the password."""
        return f"postgresql://{ANALYST}:{PASSWORD}@127.0.0.1:{self.port}/{DATABASE}?sslmode=require"

    def connect(self, **more: Any) -> psycopg.Connection[tuple[Any, ...]]:
        """psycopg, in autocommit unless said otherwise."""
        return psycopg.connect(self.url, **{"autocommit": True, **more})


@contextmanager
def served(
    folder: Path, policy: str, *, backend: str, analysts: Sequence[str] = (ANALYST,)
) -> Iterator[World]:
    """Serves a policy over TLS and SCRAM, in a process and on a port of its own."""
    (folder / "dpproxy.toml").write_text(policy)
    program = ("-m", "tests.clients.serve", str(folder), *analysts)
    process = preloaded.start(program, folder=ROOT)
    try:
        said = process.stdout.readline()
        assert said.startswith("listening on "), f"nothing listens, exit status {process.wait(10)}"
        yield World(backend, int(said.rpartition(" ")[2]), Counts(folder / "counts"))
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()


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
