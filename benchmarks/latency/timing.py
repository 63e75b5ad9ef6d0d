"""What a stop-watch tells of private data: replies over the wire on neighbouring databases, plain and padded.

`make timing`, a part of docs/benchmarks.md; BENCH=quick takes a quarter of it and writes nothing. Four proxies for each
engine: with and without one person, plain and padded. Each question is new, so that it is bought; both databases are
asked it one right after the other, in an order that a coin decides, so that what else runs disturbs both alike.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from math import sqrt
from pathlib import Path
from statistics import median
from threading import Event

import duckdb
import psycopg

from benchmarks.machine import machine
from benchmarks.page_parts import rewritten
from tests.dpproxy.postgres_data import Databases, databases

PAGE = Path(__file__).parent.parent.parent / "docs" / "benchmarks.md"
ENGINES = ("DuckDB", "PostgreSQL")
TICK, TIMEOUT = 0.75, 4
ROUNDS, QUICK = 30, 4
FOLDS, CELLS = 5, 6
"""Of the classifier: folds, and cells of equal weight that the times are sorted into."""
CONCURRENT, SECONDS = 8, 6.0
POLICY = """
[backend]
url = "{url}"
[server]
auth = "trust"
statement_timeout = "{timeout}s"
[privacy]
timing = "{timing}"
tick = "{tick}ms"
[budget]
mode = "track"
[budget.dataset]
"""
TABLES = ("visits", "logs", "towns", "stays", "bills", "shares")
HEAVY, PAIRS = 1_000_000, 1_500
"""Rows of the person in `logs`, and in each of the two tables that are joined."""
COUNT = "SELECT count(*) FROM visits WHERE minutes > {0}"
NEIGHBOURS = {
    "an ordinary person": COUNT,
    "a person with 1,000,000 rows": "SELECT count(*) FROM logs WHERE minutes > {0}",
    "a group of one person": "SELECT town, count(*) FROM towns WHERE minutes > {0} "
    "GROUP BY town ORDER BY 2 DESC LIMIT 5",
    "a join of 1,500 rows with 1,500 of one person": "SELECT count(*) FROM stays s JOIN bills b "
    "ON s.person = b.person WHERE s.minutes > {0}",
}
AGAIN, OTHERS, LOAD = (
    "asked again, or new",
    "bought by another account before, or new",
    "a person with 1,000,000 rows, by a second session that repeats SELECT 1",
)
TEXT = """## Timing

What a stop-watch beside the client tells ([threat model](threat-model.md#timing), \
[why and how](decisions/replies-leave-at-ticks.md)): `make timing` asks neighbouring databases, with and without one \
person, {rounds} new questions of each kind, by psycopg at a proxy of its own: one database right after the other, or \
padded at the same time. An advantage is the rate at which a classifier says "present" where that is true, less the \
rate at which it says so where it is not: 0 is a guess, 1 is certainty; in brackets its 95% interval, which one row in \
twenty misses. The classifier has learnt from other samples than those that it judges. Padded: a tick of {tick} s, a \
time-out of {timeout} s. Where one person's rows make the work cross a tick, padding hides nothing. Measured on \
{machine}, at a load average of {load:.0f}.

| engine | what differs | plain: median ms | advantage | padded: median ms | advantage |
|---|---|---|---|---|---|
{lines}

{said} An answer and an error differ in themselves; the guarantee counts them as a failure.

Of the second session the table has the mean time of SELECT 1 while the first session waits. The machine's load is no \
reply: padding does not hide it.

| what padding costs | asked again, ms | a new count, ms | new counts a second, {concurrent} analysts |
|---|---|---|---|
{cost}
"""
Samples = dict[str, tuple[list[float], list[float]]]
"""By what differs: milliseconds with it, and without it."""


def rows_of(table: str, present: bool) -> Iterator[str]:
    """The statements that make a table, with the person or without."""
    yield f"CREATE TABLE {table} (person INTEGER NOT NULL, minutes DOUBLE PRECISION, town TEXT, share INTEGER)"
    people = "SELECT p AS person, (p * 7919 + n * 104729) % 1000 AS minutes, 'town ' || p % 7, 1 + n FROM {0}"
    ranges = "generate_series(2, 2000) AS a(p), generate_series(1, 10) AS b(n)"
    yield f"INSERT INTO {table} {people.format(ranges)}"
    if present:
        number = {"logs": HEAVY, "stays": PAIRS, "bills": PAIRS}.get(table, 10)
        share = "0" if table == "shares" else "1"
        yield (
            f"INSERT INTO {table} SELECT 1, n % 1000, 'elsewhere', {share} FROM generate_series(1, {number}) AS a(n)"
        )


def policy(url: str, timing: str) -> str:
    """A configuration; in `shares` a row of the person makes PostgreSQL raise."""
    text = POLICY.format(url=url, timing=timing, timeout=TIMEOUT, tick=int(TICK * 1000))
    for table in TABLES:
        text += f'[tables.{table}]\nprivacy_unit = "person"\n'
        text += 'where = "100 / share > 0"\n' if table == "shares" else ""
    return text


@contextmanager
def serving(folder: Path, text: str) -> Iterator[int]:
    """A proxy's port."""
    folder.mkdir()
    (folder / "dpproxy.toml").write_text(text)
    command = [sys.executable, "-m", "dpproxy", "serve", "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent.parent)}
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
        ) as process,
    ):
        assert process.stdout is not None
        try:
            heard = process.stdout.readline()
            while "listening on" not in heard:
                if not heard:
                    raise SystemExit(f"a proxy does not start: {(folder / 'log').read_text()}")
                heard = process.stdout.readline()
            yield int(heard.rsplit(":", 1)[1])
        finally:
            process.terminate()


def url_of(engine: str, folder: Path, server: Databases, present: bool) -> str:
    """The URL of a database."""
    made = [statement for table in TABLES for statement in rows_of(table, present)]
    if engine == "PostgreSQL":
        name = server.make(made)
        with server.owner(name) as owner:
            owner.execute("ANALYZE")
        return server.url(name)
    file = folder / f"{'with' if present else 'without'}.duckdb"
    with duckdb.connect(file) as connection:
        for statement in made:
            connection.execute(statement)
    return f"duckdb:///{file}"


@dataclass
class Client:
    """One account's session; `fresh` gives constants that no question had before."""

    port: int
    user: str
    fresh: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.connection = psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user=self.user,
            dbname="any",
            sslmode="disable",
            autocommit=True,
            options="-c dpproxy.reuse=off",
        )

    def ask(self, text: str) -> float:
        """Milliseconds from the statement to its last row, or its error."""
        begun = time.perf_counter()
        try:
            self.connection.execute(text.encode(), prepare=False).fetchall()
        except psycopg.Error as error:
            if error.sqlstate not in ("PV090", "57014"):
                raise
        return (time.perf_counter() - begun) * 1000


def constants(rounds: int) -> Iterator[float]:
    """Different ones of about the same selectivity."""
    return (300 + number / (10 * rounds) for number in range(10**6))


@dataclass
class Pair:
    """The proxies with and without the person."""

    present: int
    absent: int

    def measured(self, rounds: int, *, at_once: bool) -> Samples:
        """Times of all kinds; `at_once`: both databases at the same time, which waiting replies allow."""
        samples: Samples = defaultdict(lambda: ([], []))
        sides = [Client(port, "ann") for port in (self.present, self.absent)]
        other = Client(self.absent, "bob")
        fresh = constants(rounds)
        with ThreadPoolExecutor(2) as pool:

            def both(name: str, first: Callable[[], float], second: Callable[[], float]) -> None:
                tasks = [(0, first), (1, second)]
                random.shuffle(tasks)
                if at_once:
                    for side, done in [(side, pool.submit(task)) for side, task in tasks]:
                        samples[name][side].append(done.result())
                else:
                    for side, task in tasks:
                        samples[name][side].append(task())

            def accounts(name: str, buyer: Client, asking: Client) -> None:
                bought, new = COUNT.format(next(fresh)), COUNT.format(next(fresh))
                buyer.ask(bought)
                for side, text in random.sample([(0, bought), (1, new)], 2):
                    samples[name][side].append(asking.ask(text))

            for client in (*sides, other):
                # The first statement of a kind takes longer.
                for text in NEIGHBOURS.values():
                    client.ask(text.format(1.5 + len(client.user)))
            for _ in range(rounds):
                for name, text in NEIGHBOURS.items():
                    asked = text.format(next(fresh))
                    both(name, partial(sides[0].ask, asked), partial(sides[1].ask, asked))
                again = partial(accounts, AGAIN, sides[0], sides[0])
                others = partial(accounts, OTHERS, other, sides[1])
                if at_once:
                    list(pool.map(lambda ask: ask(), (again, others)))
                else:
                    again()
                    others()
        return samples

    def failing(self, number: int) -> tuple[float, float]:
        """Medians where the person's row makes the backend raise, and without the person."""
        sides = Client(self.present, "cid"), Client(self.absent, "cid")
        fresh = constants(number)
        texts = [f"SELECT count(*) FROM shares WHERE minutes > {next(fresh)}" for _ in range(number)]
        with ThreadPoolExecutor(2) as pool:
            first, second = pool.map(lambda side: median(map(side.ask, texts)), sides)
        return first, second

    def loaded(self, rounds: int) -> tuple[list[float], list[float]]:
        """Mean milliseconds of SELECT 1 in a second session while the first one waits for its reply."""
        seen: tuple[list[float], list[float]] = ([], [])
        fresh = (700 + number / 1000 for number in range(10**6))
        clients = [(Client(port, "ann"), Client(port, "ann")) for port in (self.present, self.absent)]
        with ThreadPoolExecutor(1) as pool:
            for _ in range(rounds):
                text = NEIGHBOURS["a person with 1,000,000 rows"].format(next(fresh))
                for side in random.sample((0, 1), 2):
                    asking, probing = clients[side]
                    asked, times = pool.submit(asking.ask, text), []
                    while not asked.done():
                        times.append(probing.ask("SELECT 1"))
                    seen[side].append(sum(times) / len(times))
        return seen


def rate(port: int) -> float:
    """New counts a second, asked by several analysts at once."""
    stop = Event()

    def ask(number: int) -> int:
        client, fresh, done = Client(port, f"analyst {number}"), constants(1000), 0
        while not stop.is_set():
            client.ask(COUNT.format(next(fresh) + number / 7))
            done += 1
        return done

    with ThreadPoolExecutor(CONCURRENT) as pool:
        asked = [pool.submit(ask, number) for number in range(CONCURRENT)]
        time.sleep(SECONDS)
        stop.set()
        return sum(one.result() for one in asked) / SECONDS


def advantage(present: Sequence[float], absent: Sequence[float]) -> tuple[float, float, float]:
    """How much more often a classifier says "present" where that is true than where it is not, with a 95% interval.

    It sorts a time into one of several cells of equal weight, and says what is more frequent there. Each sample is
    judged by what was learnt from other folds. Wilson's intervals of both rates, combined as Newcombe does.

    >>> advantage([1.0] * 50, [2.0] * 50)[0], advantage([1.0, 2.0] * 25, [1.0, 2.0] * 25)[0]
    (1.0, 0.0)
    """
    said = [0, 0]
    for fold in range(FOLDS):
        known = [
            [value for number, value in enumerate(values) if number % FOLDS != fold]
            for values in (present, absent)
        ]
        pooled = sorted([*known[0], *known[1]])
        edges = [pooled[len(pooled) * cell // CELLS] for cell in range(1, CELLS)]

        def cell(value: float, edges: Sequence[float] = edges) -> int:
            return sum(edge <= value for edge in edges)

        votes = defaultdict[int, float](float)
        for sign, learnt in zip((1, -1), known, strict=True):
            for value in learnt:
                votes[cell(value)] += sign
        for side, values in enumerate((present, absent)):
            said[side] += sum(
                votes[cell(value)] > 0 for number, value in enumerate(values) if number % FOLDS == fold
            )
    (p, p_low, p_high), (q, q_low, q_high) = wilson(said[0], len(present)), wilson(said[1], len(absent))
    low = p - q - sqrt((p - p_low) ** 2 + (q_high - q) ** 2)
    return p - q, low, p - q + sqrt((p_high - p) ** 2 + (q - q_low) ** 2)


def wilson(hits: int, of: int, z: float = 1.96) -> tuple[float, float, float]:
    """A share and its interval."""
    share = hits / of
    middle, half = share + z * z / (2 * of), z * sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return share, (middle - half) / (1 + z * z / of), (middle + half) / (1 + z * z / of)


def told(samples: tuple[Sequence[float], Sequence[float]]) -> tuple[str, str]:
    """Medians, and the advantage."""
    best, low, high = advantage(*samples)
    return f"{median(samples[0]):.1f} / {median(samples[1]):.1f}", f"{best:.2f} [{low:.2f}, {high:.2f}]"


def tables(engine: str, folder: Path, server: Databases, rounds: int) -> tuple[list[str], list[str], str]:
    """The lines of both tables, and what failures say."""
    folder.mkdir()
    urls = {present: url_of(engine, folder, server, present) for present in (True, False)}
    with ExitStack() as stack:
        ports = {
            timing: Pair(
                *(
                    stack.enter_context(serving(folder / f"{timing}-{present}", policy(url, timing)))
                    for present, url in urls.items()
                )
            )
            for timing in ("plain", "padded")
        }
        plain = ports["plain"].measured(rounds, at_once=False)
        padded = ports["padded"].measured(rounds, at_once=True)
        plain[LOAD], padded[LOAD] = (ports[one].loaded(max(rounds // 2, 5)) for one in ("plain", "padded"))
        lines = [
            f"| {engine} | {name} | {' | '.join(told(plain[name]))} | {' | '.join(told(padded[name]))} |"
            for name in plain
        ]
        fails = ""
        if engine == "PostgreSQL":
            (bad, good), (late, on_tick) = (ports[one].failing(3) for one in ("plain", "padded"))
            fails = (
                f"A person whose row makes PostgreSQL raise, or nobody: the error comes after {bad:.0f} ms, the "
                f"answer after {good:.0f} ms; padded, after {late:.0f} ms and {on_tick:.0f} ms."
            )
        rates = {one: rate(ports[one].absent) for one in ports}
        name = "an ordinary person"
        cost = [
            f"| {engine}, {one} | {median(times[AGAIN][0]):.0f} | {median(times[name][1]):.0f} | {rates[one]:.1f} |"
            for one, times in (("plain", plain), ("padded", padded))
        ]
    return lines, cost, fails


def page(rounds: int) -> str:
    """Both tables as a part of a page."""
    lines: list[str] = []
    cost: list[str] = []
    said = ""
    with tempfile.TemporaryDirectory() as name, databases(Path(name) / "server") as server:
        for engine in ENGINES:
            found, costs, fails = tables(engine, Path(name) / engine, server, rounds)
            print(*found, *costs, fails, sep="\n", flush=True)
            lines, cost, said = lines + found, cost + costs, said + fails
    return TEXT.format(
        rounds=rounds,
        tick=f"{TICK:g}",
        timeout=TIMEOUT,
        machine=machine(),
        load=os.getloadavg()[2],
        lines="\n".join(lines),
        said=said,
        concurrent=CONCURRENT,
        cost="\n".join(cost),
    )


def main() -> int:
    """Measures, prints, and writes the part of the page unless BENCH=quick."""
    quick = os.environ.get("BENCH") == "quick"
    part = page(QUICK if quick else ROUNDS)
    print(part)
    if not quick:
        PAGE.write_text(rewritten(PAGE.read_text(), "timing", part))
    return 0


if __name__ == "__main__":
    sys.exit(main())
