"""(d) What the stages of one query take."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import defaultdict
from pathlib import Path

from benchmarks.latency.serving import FRESH
from benchmarks.visits import QUESTIONS, make_duckdb, policy
from dpproxy.deployment.service import Service, configured
from dpproxy.telemetry.stages import STAGES

KINDS = ("cold", "cached", "replay")
ALL = "all, login too"
"""Each query has a session of its own here."""


def profile(folder: Path, rows: int, rounds: int) -> dict[str, dict[str, float]]:
    """Median milliseconds by kind and stage of people by country, over a DuckDB file of `rows` rows; ALL of it too."""
    place = folder / "stages"
    place.mkdir(parents=True, exist_ok=True)
    file = place / "dpproxy.toml"
    file.write_text(policy(make_duckdb(folder / f"visits{rows}.duckdb", rows)))
    found: dict[str, dict[str, list[float]]] = {kind: defaultdict(list) for kind in KINDS}
    with Service.start(configured(file), alone=True) as service:
        seen: dict[str, float] = defaultdict(float)

        def observe(stage: str, seconds: float) -> None:
            seen[stage] += seconds * 1000

        def asked(sql: str, kind: str | None = None) -> None:
            seen.clear()
            started = time.perf_counter()
            asyncio.run(service.ask("bench", sql))
            seen[ALL] = (time.perf_counter() - started) * 1000
            for stage in (*STAGES, ALL) if kind else ():
                found[kind or ""][stage].append(seen[stage])

        service.observe = observe
        asked(QUESTIONS[1].sql.format(n=next(FRESH)))
        for _ in range(rounds):
            cold, cached = (QUESTIONS[1].sql.format(n=next(FRESH)) for _ in range(2))
            asked(f"EXPLAIN {cached}")
            for sql, kind in ((cold, "cold"), (cached, "cached"), (cached, "replay")):
                asked(sql, kind)
    return {kind: {s: statistics.median(v) for s, v in by.items()} for kind, by in found.items()}
