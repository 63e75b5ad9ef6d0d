"""(b) Statements a second, with their median and 99th percentile, by connections and workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.latency.pgbench import Speed, measured
from benchmarks.latency.serving import serving
from benchmarks.visits import QUESTIONS, make_duckdb, policy

_COUNT, _BY_COUNTRY = (QUESTIONS[n].sql for n in (0, 1))
SCRIPTS = {
    "replay": f"{_BY_COUNTRY.format(n=999)};\n",
    "new, cheap": f"\\set n random(1000, 2000000000)\n{_COUNT.format(n=':n')};\n",
    "catalog": "SELECT relname FROM pg_catalog.pg_class WHERE relkind = 'r' ORDER BY 1 LIMIT 5;\n",
}
CONNECTIONS = (1, 8, 64)


@dataclass(frozen=True)
class Rate:
    """One measurement."""

    workers: int
    what: str
    connections: int
    speed: Speed


def rates(
    folder: Path, workers: int, rows: int, seconds: float, connections: Sequence[int] = CONNECTIONS
) -> list[Rate]:
    """Measures every script on every number of connections, `seconds` each, on a DuckDB file of `rows` rows."""
    url = make_duckdb(folder / f"visits{rows}.duckdb", rows)
    place = folder / f"workers{workers}"
    found = []
    with serving(place, policy(url), workers) as proxy:
        with proxy.connect() as first:
            first.execute(SCRIPTS["replay"].encode())
        for what, script in SCRIPTS.items():
            for clients in connections:
                speed = measured(place, proxy.place, script, clients=clients, mode="simple", seconds=seconds)
                found.append(Rate(workers, what, clients, speed))
    return found
