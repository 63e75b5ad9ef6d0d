"""(a) The same questions asked of the bare database and through the proxy, turn by turn."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import psycopg

from benchmarks.latency.ratios import Rounds, Run, backend_queries, fetch_all
from benchmarks.latency.serving import FRESH, Proxy, serving
from benchmarks.visits import QUESTIONS, make_duckdb, make_postgres, policy
from dpproxy.backends.base import Backend
from dpproxy.catalog.build_policy import open_backend
from dpproxy.deployment.service import configured
from tests.dpproxy.postgres_data import Databases, databases

WAYS = ("plain", "backend", "cold", "cached", "values", "replay")
"""The analyst's text on the bare database; all queries of a private answer, in a session of the proxy's backend;
through the proxy: a text never seen, one whose plan is cached, a prepared statement with new values, a replay."""


@dataclass
class Times:
    """Seconds of one question by way, on `engine` over `rows` rows."""

    engine: str
    rows: int
    question: str
    seconds: dict[str, list[float]] = field(default_factory=lambda: {way: [] for way in WAYS})

    def median(self, way: str) -> float:
        """Of one way."""
        return statistics.median(self.seconds[way])


def overhead(folder: Path, engine: str, rows: int, rounds: int) -> list[Times]:
    """Measures every question `rounds` times in every way; the ways take turns."""
    with ExitStack() as stack:
        if engine == "DuckDB":
            url = make_duckdb(folder / f"visits{rows}.duckdb", rows)
            run = stack.enter_context(_on_duckdb(folder / f"visits{rows}.duckdb"))
        else:
            server = stack.enter_context(databases(folder / f"server{rows}"))
            url = make_postgres(server, folder, rows)
            run = stack.enter_context(_on_postgres(server, url))
        place = folder / f"{engine}{rows}"
        place.mkdir(parents=True, exist_ok=True)
        (place / "dpproxy.toml").write_text(policy(url))
        written = backend_queries(
            place / "dpproxy.toml", rounds + 1, {one.name: one.sql for one in QUESTIONS}
        )
        backend = open_backend(configured(place / "dpproxy.toml"), slots=1)
        stack.callback(backend.close)
        proxy = stack.enter_context(serving(place, policy(url)))
        return [
            _measured(Times(engine, rows, one.name), one.sql, written[one.name], run, backend, proxy)
            for one in QUESTIONS
            if rows <= one.most
        ]


def _measured(times: Times, sql: str, rounds: Rounds, run: Run, backend: Backend, proxy: Proxy) -> Times:
    with proxy.connect() as client:
        for number, queries in rounds:
            text, cached, given = (sql.format(n=n) for n in (number, next(FRESH), "%s"))
            client.execute(f"EXPLAIN {cached}".encode())
            ways: dict[str, Callable[[], object]] = {
                "plain": partial(run, text, ()),
                "backend": partial(fetch_all, backend, queries),
                "cold": partial(_asked, client, text),
                "cached": partial(_asked, client, cached),
                "values": partial(_asked, client, given, (next(FRESH),)),
                "replay": partial(_asked, client, cached),
            }
            for way, do in ways.items():
                started = time.perf_counter()
                do()
                times.seconds[way].append(time.perf_counter() - started)
    for seconds in times.seconds.values():
        # The first round warms caches.
        del seconds[0]
    return times


def _asked(client: psycopg.Connection[Any], sql: str, values: Sequence[object] | None = None) -> object:
    return client.execute(sql.encode(), values, prepare=values is not None).fetchall()


@contextmanager
def _on_duckdb(file: Path) -> Iterator[Run]:
    with duckdb.connect(file, read_only=True, config={"memory_limit": "6GB"}) as connection:
        connection.execute("SET timezone = 'UTC'")

        def run(sql: str, values: Sequence[object]) -> object:
            return connection.execute(sql, values).fetchall()

        yield run


@contextmanager
def _on_postgres(server: Databases, url: str) -> Iterator[Run]:
    settings = "-c jit=off"
    with psycopg.connect(url, autocommit=True, options=settings) as connection:

        def run(sql: str, values: Sequence[object]) -> object:
            return connection.execute(sql.encode()).fetchall()

        yield run
