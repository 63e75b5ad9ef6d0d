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

from benchmarks.latency.serving import FRESH, Proxy, serving
from benchmarks.visits import QUESTIONS, make_duckdb, make_postgres, policy
from dpproxy.deployment.service import Service, configured
from dpproxy.engine.optimizer import plan_release
from dpproxy.engine.options import terms
from dpproxy.engine.planner import BoundNode
from dpproxy.engine.release_keys import ReleaseKeys
from rewriter.plan import HistogramQuery
from tests.dpproxy.postgres_data import Databases, databases

WAYS = ("plain", "histogram", "cold", "cached", "values", "replay")
"""The analyst's text on the bare database; the histogram query that a private answer needs, on the bare database;
through the proxy: a text never seen, one whose plan is cached, a prepared statement with new values, a replay."""
Run = Callable[[str, Sequence[object]], object]


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
        written = _written(place / "dpproxy.toml", rounds + 1)
        proxy = stack.enter_context(serving(place, policy(url)))
        return [
            _measured(Times(engine, rows, one.name), one.sql, queries, run, proxy)
            for one, queries in zip(QUESTIONS, written, strict=True)
            if rows <= one.most
        ]


def _written(file: Path, rounds: int) -> list[list[tuple[int, HistogramQuery]]]:
    """For each question and round, a number of its own and what the backend is asked then."""
    found = []
    with Service.start(configured(file), alone=True) as service:
        on = terms(service.config.privacy, {})
        keys = ReleaseKeys(bytes(32), b"", b"")
        for one in QUESTIONS:
            queries = []
            for number in (next(FRESH) for _ in range(rounds)):
                (node,) = service.answering._planner.plan(one.sql.format(n=number), (), ())
                assert isinstance(node, BoundNode)
                queries.append((number, next(plan_release(node, on, keys).queries())))
            found.append(queries)
    return found


def _measured(
    times: Times, sql: str, queries: list[tuple[int, HistogramQuery]], run: Run, proxy: Proxy
) -> Times:
    with proxy.connect() as client:
        for number, query in queries:
            values: list[object] = [list(array) for array in query.arrays]
            values += ["0" * 64] if query.rank_key else []
            text, cached, given = (sql.format(n=n) for n in (number, next(FRESH), "%s"))
            client.execute(f"EXPLAIN {cached}".encode())
            ways: dict[str, Callable[[], object]] = {
                "plain": partial(run, text, ()),
                "histogram": partial(run, query.sql, values),
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
            return connection.execute(*_numbered(sql, values)).fetchall()

        yield run


def _numbered(sql: str, values: Sequence[object]) -> tuple[bytes, dict[str, Any] | None]:
    """Parameters $1, $2 ... as psycopg has them."""
    if not values:
        return sql.encode(), None
    text = sql.replace("%", "%%")
    for number in range(len(values), 0, -1):
        text = text.replace(f"${number}", f"%(v{number})s")
    return text.encode(), {f"v{number}": value for number, value in enumerate(values, 1)}
