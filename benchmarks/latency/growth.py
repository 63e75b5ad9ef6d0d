"""`make bench-growth`: what grows with history, distinct statements and sessions, and what must not.

A ledger is filled with answers of 10,000 analysts, half of them one analyst's, as its own statements would have written
them; then charges, pages of history and verification are timed. One served proxy is asked 100,000 distinct statements,
another holds 1,000 sessions: their memory. `BENCH=quick` takes a few minutes and a tenth of everything. Writes its part
of docs/benchmarks.md and a plot; exit code 1 where something grows that must not.
"""

from __future__ import annotations

import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

import psycopg
from rich.console import Console

from benchmarks.latency.ledger import query
from benchmarks.latency.serving import memory, serving
from benchmarks.machine import machine
from benchmarks.page_parts import rewritten
from benchmarks.plots import axes_of
from benchmarks.visits import make_duckdb, policy
from budget.account import Pinned
from budget.ledger import Ledger
from dpproxy.console.charts import last_days
from dpproxy.console.pages import DAYS, MOST_ACCOUNTS
from dpproxy.embedded.server import Embedded
from dpproxy.reporting.plots import plain_numbers

ROOT = Path(__file__).parent.parent.parent
Result = TypeVar("Result")
ANSWERS = (1_000, 10_000, 100_000, 1_000_000)
STATEMENTS, MARKS = 100_000, 20
SESSIONS = (1, 10, 100, 1_000)
LARGEST = "analyst:0"
GROWTH, AT_LEAST_MS = 1.5, 10.0
"""How much longer a charge or a page may take with all answers than with the fewest, and what is flat in any case."""
MORE_MEMORY = 1.1
"""How much more memory may be in use at the last of the statements than at half of them, which fill every cache."""
FILL = """
SET session_replication_role = replica;
SET synchronous_commit = off;
CREATE TEMP TABLE asked AS
    SELECT n, gen_random_uuid() AS id, 'analyst:' || CASE WHEN n % 2 = 0 THEN 0 ELSE n % 10000 END AS account,
        now() - interval '60 days' * (1 - (n - {first})::double precision / {count}) AS at
    FROM generate_series({first}, {first} + {count} - 1) AS n;
INSERT INTO dpproxy_ledger.account
    (name, limit_information, limit_calls, period, mode, period_number, period_first, period_started)
    SELECT 'analyst:' || n, 1000000000000000, 1000000000000000, 'none', 'enforce', 1, 1, now()
    FROM generate_series(0, 9999) AS n ON CONFLICT DO NOTHING;
INSERT INTO dpproxy_ledger.entry
    (reservation, account, own, stage, kind, opened, at_most_information, at_most_calls, at_most_epsilon,
    information, calls, epsilon, period_number, written_at, mechanism, query, release_key, noise)
    SELECT id, account, true, stage, CASE stage WHEN 0 THEN 'reserve' ELSE 'settle' END, CASE stage WHEN 1 THEN 0 END,
        21000000, 1000000, 1::bigint << 60, stage * 7000000, stage * 1000000, stage * (1::bigint << 60), 1, at,
        CASE stage WHEN 0 THEN 'KnownGauss' END,
        'SELECT COUNT(*) FROM visits WHERE seconds < ' || n, CASE stage WHEN 1 THEN sha256(uuid_send(id)) END,
        CASE stage WHEN 1 THEN 'standard deviation 23.1, 95% within 45.3' END
    FROM asked, generate_series(0, 1) AS stage ORDER BY n, stage;
INSERT INTO dpproxy_ledger.mark (reservation, reached) SELECT id, true FROM asked;
INSERT INTO dpproxy_ledger.answer (release_key, reservation, answer, information, calls, epsilon, epoch, stored_at)
    SELECT sha256(uuid_send(id)), id, decode(repeat('00', 300), 'hex'), 7000000, 1000000, 1::bigint << 60, '2026-11', at
    FROM asked;
INSERT INTO dpproxy_ledger.request (account, request_key, release_key, mechanism, query)
    SELECT account, sha256(uuid_send(id)), sha256(uuid_send(id)), 'KnownGauss', 'SELECT ' || n FROM asked;
UPDATE dpproxy_ledger.account SET
    used_information = used_information + 7000000 * of_it.n, used_calls = used_calls + 1000000 * of_it.n,
    used_epsilon = used_epsilon + 2::numeric ^ 60 * of_it.n
    FROM (SELECT account, count(*) AS n FROM asked GROUP BY account) AS of_it WHERE name = of_it.account;
DROP TABLE asked;
ANALYZE
"""
KINDS: Sequence[str] = (
    "SELECT COUNT(*) FROM visits WHERE seconds < {n}",
    "EXPLAIN SELECT country, COUNT(DISTINCT person_id) AS c{n} FROM visits WHERE seconds < {n} GROUP BY country",
    "SELECT person_id AS x{n} FROM visits",
    "SELECT CAST('{n}' AS varchar({n})) AS v{n}",
    *["SELECT {n} AS a{n}, relname FROM pg_catalog.pg_class WHERE oid = {n}"] * 46,
)
"""Bought, explained, refused, and catalog queries, each text another one."""


@dataclass(frozen=True)
class History:
    """A ledger with so many `answers`: milliseconds of a charge and of pages, seconds of verifying it."""

    answers: int
    charge: float
    page: float
    activity: float
    whole: float
    resumed: float


@dataclass(frozen=True)
class Growth:
    """All curves: by answers, then bytes by part after so many distinct statements, then with so many sessions (bytes,
    and milliseconds of a replay)."""

    histories: Sequence[History]
    statements: Sequence[tuple[int, dict[str, int]]]
    sessions: Sequence[tuple[int, dict[str, int], float]]


def fill(server: Embedded, first: int, count: int) -> None:
    """Adds so many charged answers, from number `first` on."""
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        for statement in FILL.format(first=first, count=count).split(";"):
            connection.execute(statement.encode())


def histories(folder: Path, answers: Sequence[int]) -> Iterator[History]:
    """One ledger, measured with each number of answers in turn."""
    pinned = Pinned(Fraction("0.15"), Fraction("1e-10"), Fraction("1e-9"), "household")
    with Embedded.start(folder / "ledger", durable=True) as server:
        filled = 0
        for count in answers:
            ledger = Ledger.open(server.conninfo(), pinned, instance="benchmark")
            fill(server, filled, count - filled)
            yield _history(ledger, count)
            filled = count
            ledger.close()


def _history(ledger: Ledger, answers: int) -> History:
    history, days = ledger.history, last_days(datetime.now(UTC).date(), DAYS)
    since = datetime.combine(days[0], datetime.min.time(), UTC)
    charge = _median(lambda: query(ledger, LARGEST), 60)
    page = _median(lambda: history.releases(LARGEST, most=100, newest=True), 20)
    activity = _median(
        lambda: (history.activity_by_day(days), history.activity_by_account(since, MOST_ACCOUNTS)), 3
    )
    whole, found = _timed(lambda: history.verified(settled=timedelta(0)))
    for _ in range(20):
        query(ledger, LARGEST)
    resumed, again = _timed(lambda: history.verified(found.checkpoint, settled=timedelta(0)))
    assert (found.difference, again.difference, again.entries) == (None, None, 40)
    return History(answers, 1000 * charge, 1000 * page, 1000 * activity, whole, resumed)


def over_statements(folder: Path, count: int, marks: int) -> Iterator[tuple[int, dict[str, int]]]:
    """The memory of a proxy after each part of so many distinct statements, all by one session."""
    with serving(folder / "statements", policy(make_duckdb(folder / "visits.duckdb", 1_000))) as proxy:
        yield 0, memory(proxy.pid)
        with proxy.connect() as client:
            for number in range(1, count + 1):
                with suppress(psycopg.Error):
                    client.execute(KINDS[number % len(KINDS)].format(n=number + 1_000).encode()).fetchall()
                if number % (count // marks) == 0:
                    yield number, memory(proxy.pid)


def over_sessions(folder: Path, counts: Sequence[int]) -> Iterator[tuple[int, dict[str, int], float]]:
    """The memory of a proxy with so many sessions, and how long one of them waits for a paid answer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 8 * counts[-1]), hard), hard))
    told = policy(make_duckdb(folder / "visits.duckdb", 1_000))
    for limit in ("max_sessions", "max_sessions_per_login"):
        told = told.replace(f"{limit} = 200", f"{limit} = {counts[-1] + 1}")
    with serving(folder / "sessions", told) as proxy, ExitStack() as stack:
        for held, count in zip((0, *counts), counts, strict=False):
            for _ in range(count - held):
                last = stack.enter_context(proxy.connect())
            yield count, memory(proxy.pid), 1000 * _replay(last)


def _replay(client: psycopg.Connection[object]) -> float:
    return _median(lambda: client.execute(b"SELECT COUNT(*) FROM visits").fetchall(), 30)


def _median(call: Callable[[], object], times: int) -> float:
    """Seconds of a call."""
    call()
    return statistics.median(_timed(call)[0] for _ in range(times))


def _timed(call: Callable[[], Result]) -> tuple[float, Result]:
    begun = time.perf_counter()
    result = call()
    return time.perf_counter() - begun, result


def missed(found: Growth) -> list[str]:
    """What grows that must not, in words."""
    first, last = found.histories[0], found.histories[-1]
    wrong = [
        f"{words} takes {now:.1f} ms with {last.answers:,} answers, {before:.1f} ms with {first.answers:,}"
        for words, before, now in (
            ("a charge", first.charge, last.charge),
            ("a page of releases", first.page, last.page),
        )
        if now > max(GROWTH * before, AT_LEAST_MS)
    ]
    counts = dict(found.statements)
    half, end = (sum(counts[max(counts) // part].values()) for part in (2, 1))
    if end > MORE_MEMORY * half:
        wrong.append(f"{max(counts):,} statements take {_mb(end)} MB, half of them {_mb(half)} MB")
    return wrong


def _mb(size: float) -> str:
    return f"{size / 1e6:.0f}"


def written(found: Growth, where: str) -> str:
    """The part of the page."""
    parts, (first, *_, last) = ("proxy", "front", "ledger"), found.histories
    shown = [one for place, one in enumerate(found.statements) if place in (0, 1) or place % 4 == 0]
    lines = [
        "## Growth",
        "",
        f"Written by `make bench-growth` on {where}. *charge*: reserve and settle, on disk; *page*: the newest 100 "
        "releases of an account that has half of all answers, the others being 10,000 analysts'; *activity*: the "
        "console's last 30 days by day and by account, half of the answers; *verify*: all balances from all entries, "
        "and from a checkpoint on with 20 new answers.",
        "",
        *(f"- NOT met: {words}" for words in missed(found)),
        f"- With {first.answers:,} and {last.answers:,} answers in the ledger a charge takes {first.charge:.1f} and "
        f"{last.charge:.1f} ms, a page of history {first.page:.1f} and {last.page:.1f} ms.",
        "",
        "| answers | charge, ms | page, ms | activity, ms | verify all, s | verify what is new, s |",
        "|---|---|---|---|---|---|",
        *(
            f"| {h.answers:,} | {h.charge:.1f} | {h.page:.1f} | {h.activity:.0f} | {h.whole:.1f} | {h.resumed:.1f} |"
            for h in found.histories
        ),
        "",
        "Memory after so many distinct statements of one session, a fiftieth of them bought, as many explained and "
        "refused, and casts to types of their own, the others catalog queries; shared memory counts once. The ledger's "
        "and the front's grow until their buffers, 128 and 64 MB, are in use.",
        "",
        f"| statements | {', MB | '.join(parts)}, MB |",
        "|---|---|---|---|",
        *(f"| {n:,} | {' | '.join(_mb(size[part]) for part in parts)} |" for n, size in shown),
        "",
        "Memory with so many open sessions, and the time of a replay in one of them:",
        "",
        f"| sessions | {', MB | '.join(parts)}, MB | replay, ms |",
        "|---|---|---|---|---|",
        *(
            f"| {n:,} | {' | '.join(_mb(size[p]) for p in parts)} | {ms:.1f} |"
            for n, size, ms in found.sessions
        ),
        "",
        "![Time by answers, memory by statements and by sessions](benchmarks/growth.svg)",
    ]
    return "\n".join(lines)


def plot(file: Path, found: Growth) -> None:
    """All curves side by side."""
    figure, (times, verifying, statements, sessions) = axes_of(16, 3.8, 4)
    answers = [one.answers / 1000 for one in found.histories]
    for name in ("charge", "page", "activity"):
        times.plot(answers, [getattr(one, name) for one in found.histories], marker="o", label=name)
    for name, label in (("whole", "all entries"), ("resumed", "what is new")):
        verifying.plot(answers, [getattr(one, name) for one in found.histories], marker="o", label=label)
    for part in ("proxy", "front", "ledger"):
        for place, curve in ((statements, found.statements), (sessions, found.sessions)):
            place.plot([n for n, *_ in curve], [size[part] / 1e6 for _, size, *_ in curve], label=part)
    for place in (times, verifying, sessions):
        place.set(xscale="log", yscale="log")
        plain_numbers(place.xaxis, 1, 1e6)
        plain_numbers(place.yaxis, 1, 1e6)
    statements.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}")
    times.set(title="Charges and pages", xlabel="thousand answers", ylabel="ms")
    verifying.set(title="Verification", xlabel="thousand answers", ylabel="s")
    statements.set(
        title="Memory by statements", xlabel="thousand distinct statements", ylabel="MB", ylim=(0, None)
    )
    sessions.set(title="Memory by sessions", xlabel="sessions", ylabel="MB")
    for place in (times, verifying, statements, sessions):
        place.grid(alpha=0.3)
        place.legend(fontsize=8)
    figure.savefig(file, metadata={"Date": None})


def main() -> int:
    """Measures, prints, writes the page; 1 where something grows that must not."""
    console, part = Console(width=150), 10 if os.environ.get("BENCH") == "quick" else 1
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder, kept = Path(name), [count for count in ANSWERS if count <= ANSWERS[-1] // part]
        found = Growth(
            [_said(console, one) for one in histories(folder, kept)],
            [_said(console, one) for one in over_statements(folder, STATEMENTS // part, MARKS)],
            [_said(console, one) for one in over_sessions(folder, SESSIONS[: 5 - len(str(part))])],
        )
    for words in missed(found):
        console.print(words, markup=False)
    page = ROOT / "docs" / "benchmarks.md"
    where = f"{machine()}, load average at the end {os.getloadavg()[0]:.1f}"
    page.write_text(rewritten(page.read_text(), "growth", written(found, where)))
    plot(page.parent / "benchmarks" / "growth.svg", found)
    return int(bool(missed(found)))


def _said(console: Console, one: Result) -> Result:
    console.print(one)
    return one


if __name__ == "__main__":
    sys.exit(main())
