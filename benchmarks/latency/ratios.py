"""`make bench-ratios`: what a private answer costs beside the plain query, statement by statement, on both engines.

Over the sample data and TPC-H, on DuckDB over ten million visits, too, each in turn in one run: the plain statement on
the bare database, the queries of a private answer there by the proxy's adapter, and the private statement through a
served proxy: never seen before, planned before, answered before. No backend SQL may have DuckDB compare each row with
each. Ratios are to the plain statement's time, or to 10 ms where that is less. Writes its parts of docs/benchmarks.md,
which `BENCH=quick` leaves as they are, after two rounds; exit code 1 where a target is missed, or a ratio of the page
that was there has grown by a quarter.
"""

from __future__ import annotations

import csv
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import duckdb
import psycopg
from rich.console import Console

from benchmarks import visits
from benchmarks.corpora import tpch
from benchmarks.latency import ratios_tpch
from benchmarks.latency.serving import FRESH, Proxy, serving
from benchmarks.machine import machine
from benchmarks.page_parts import rewritten
from dpproxy.backends.base import Backend, Cancellation
from dpproxy.backends.postgres.session import ROOM, pinned
from dpproxy.backends.sample import build
from dpproxy.catalog.build_policy import open_backend
from dpproxy.deployment.service import Service, configured
from dpproxy.engine.optimizer import plan_release
from dpproxy.engine.options import terms
from dpproxy.engine.planner import BoundNode
from dpproxy.engine.release_keys import ReleaseKeys
from rewriter.plan import HistogramQuery
from tests.dpproxy.postgres_data import databases
from tests.duckdb_plans import joined_row_by_row

ROOT = Path(__file__).parent.parent.parent
SAMPLE = ROOT / "sample_data"
ROUNDS, QUICK, MOST_ROWS = 5, 2, 10**7
LEAST = 0.010
"""Seconds that a ratio is taken to at least."""
MEDIAN, WORST, GROWTH = 3.0, 8.0, 1.25
WAYS = ("plain", "backend", "cold", "cached", "replay")
JOINED = "FROM transactions t JOIN products p USING (product_id) WHERE t.product_id <> {n}"
STATEMENTS = {
    "rows": "SELECT COUNT(*) FROM transactions WHERE product_id <> {n}",
    "rows, filtered": "SELECT COUNT(*) FROM transactions WHERE quantity > 1 AND product_id <> {n}",
    "rows by week": "SELECT week, COUNT(*) FROM transactions WHERE product_id <> {n} GROUP BY week",
    "households by week": "SELECT week, COUNT(DISTINCT household_id) FROM transactions "
    "WHERE product_id <> {n} GROUP BY week",
    "top 10 stores": "SELECT store_id, COUNT(DISTINCT household_id) FROM transactions "
    "WHERE product_id <> {n} GROUP BY store_id ORDER BY 2 DESC LIMIT 10",
    "top 10 products": "SELECT product_id, COUNT(DISTINCT household_id) FROM transactions "
    "WHERE product_id <> {n} GROUP BY product_id ORDER BY 2 DESC LIMIT 10",
    "households by age": "SELECT age, COUNT(*) FROM households WHERE household_id <> {n} GROUP BY age",
    "households by department": f"SELECT p.department, COUNT(DISTINCT t.household_id) {JOINED} GROUP BY 1",
    "households by brand": f"SELECT p.brand, COUNT(DISTINCT t.household_id) {JOINED} GROUP BY 1",
    "rows by department": f"SELECT p.department, COUNT(*) {JOINED} GROUP BY 1",
    "households by age and department": "SELECT h.age, p.department, COUNT(DISTINCT h.household_id) FROM households h "
    "JOIN transactions t USING (household_id) JOIN products p USING (product_id) WHERE t.product_id <> {n} "
    "GROUP BY 1, 2",
    "sales": "SELECT SUM(sales_value) FROM transactions WHERE product_id <> {n}",
    "sales by month": "SELECT date_trunc('month', transaction_timestamp) AS month, SUM(sales_value) FROM transactions "
    "WHERE product_id <> {n} GROUP BY 1",
    "sales by week": "SELECT week, SUM(sales_value) FROM transactions WHERE product_id <> {n} GROUP BY week",
    "sales by age": "SELECT h.age, SUM(t.sales_value) FROM transactions t JOIN households h USING (household_id) "
    "WHERE t.product_id <> {n} GROUP BY 1",
    "sales by department": f"SELECT p.department, SUM(t.sales_value) {JOINED} GROUP BY 1",
    "average value": "SELECT AVG(sales_value) FROM transactions WHERE product_id <> {n}",
    "average value by week": "SELECT week, AVG(sales_value) FROM transactions WHERE product_id <> {n} GROUP BY week",
    "average sales of a household": "SELECT AVG(s) FROM (SELECT household_id, SUM(sales_value) AS s FROM transactions "
    "WHERE product_id <> {n} GROUP BY household_id) AS x",
    "baskets": "SELECT COUNT(DISTINCT basket_id) FROM transactions WHERE product_id <> {n}",
    "median value": "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY sales_value) FROM transactions "
    "WHERE product_id <> {n}",
}
"""The number is another one in each round, so that no answer is a stored one."""
TRUST = '[server]\nauth = "trust"\n'
VISITS = 10_000_000
SEEN = "FROM visits WHERE person_id <> {n}"
VISITED = {
    "visits": f"SELECT COUNT(*) {SEEN}",
    "visits, filtered": f"SELECT COUNT(*) {SEEN} AND seconds < 60",
    "visits by country": f"SELECT country, COUNT(*) {SEEN} GROUP BY country",
    "people by country": f"SELECT country, COUNT(DISTINCT person_id) {SEEN} GROUP BY country",
    "top 10 articles": f"SELECT article, COUNT(DISTINCT person_id) {SEEN} GROUP BY article ORDER BY 2 DESC LIMIT 10",
    "seconds": f"SELECT SUM(seconds) {SEEN}",
    "seconds by country": f"SELECT country, SUM(seconds) {SEEN} GROUP BY country",
    "average seconds": f"SELECT AVG(seconds) {SEEN}",
    "average seconds by country": f"SELECT country, AVG(seconds) {SEEN} GROUP BY country",
}
Run = Callable[[str, Sequence[object]], object]
Rounds = Sequence[tuple[int, list[HistogramQuery]]]
"""By round its number, and what the backend is asked then."""


@dataclass(frozen=True)
class DataSet:
    """Statements over the rows of a DuckDB file.

    Attributes:
        part: of the page.
        title, about: of the part.
        schema: of the same tables in PostgreSQL.
        policy: of the proxy over the data at a URL.
        build: makes the file.
        statements: by name, each with a place for a number.
        paired: those that say themselves which rows of two tables go together by more than equality.
        engines: what they are measured on.
    """

    part: str
    title: str
    about: str
    schema: str
    policy: Callable[[str], str]
    build: Callable[[Path], object]
    statements: Mapping[str, str]
    paired: frozenset[str] = frozenset()
    engines: tuple[str, ...] = ("DuckDB", "PostgreSQL")


def sample() -> DataSet:
    """The sample data and speed's statements."""

    def policy(url: str) -> str:
        text = (SAMPLE / "dpproxy.toml").read_text()
        text = text.replace("duckdb:///.dpproxy/completejourney.duckdb", url)
        text = text.replace("information = 300", "information = 1000000")
        return text.replace("calls = 30", "calls = 1000000") + TRUST

    return DataSet(
        "ratios",
        "Beside the plain query",
        "The sample data (1.47 million rows of 2,469 households)",
        (SAMPLE / "schema.sql").read_text(),
        policy,
        partial(build, SAMPLE),
        STATEMENTS,
    )


def tpc_h() -> DataSet:
    """TPC-H, whose generator and queries `make coverage` installs."""
    return DataSet(
        "ratios_tpch",
        "TPC-H beside the plain query",
        f"TPC-H at scale factor {tpch.SCALE:g} (600,000 lines of 15,000 customers), its queries as they stand but for "
        "a condition that makes another question of each round, under the policy of [coverage.md](coverage.md#tpc-h)",
        tpch.SCHEMA,
        lambda url: f'[backend]\nurl = "{url}"\n{tpch.POLICY}{TRUST}',
        ratios_tpch.build,
        ratios_tpch.statements(),
        ratios_tpch.PAIRED,
    )


def ten_million_visits() -> DataSet:
    """Visits of a million people, on DuckDB alone: a statement over them takes PostgreSQL up to ten seconds."""
    return DataSet(
        "ratios_visits",
        "Ten million rows beside the plain query",
        f"{VISITS:,} visits of {VISITS // 10:,} people to {visits.COUNTRIES} countries and a thousand articles",
        visits.DDL.format(text="TEXT"),
        visits.policy,
        partial(visits.make_duckdb, rows=VISITS),
        VISITED,
        engines=("DuckDB",),
    )


@dataclass(frozen=True)
class Ratios:
    """The medians of one statement's seconds by way, on `engine`."""

    engine: str
    name: str
    seconds: dict[str, float]

    def ratio(self, way: str) -> float:
        """Of a way to the plain statement."""
        return self.seconds[way] / max(self.seconds["plain"], LEAST)

    def row(self) -> str:
        """As a row of the page's table."""
        milliseconds = " | ".join(f"{1000 * self.seconds[way]:.1f}" for way in WAYS)
        ratios = " | ".join(f"{self.ratio(way):.1f}" for way in ("backend", "cached"))
        return f"| {self.engine} | {self.name} | {milliseconds} | {ratios} |"


def measured(data: DataSet, folder: Path, engine: str, rounds: int, names: Sequence[str]) -> Iterator[Ratios]:
    """Each of the statements `names`, `rounds` times in every way; the ways take turns."""
    file = folder / f"{data.part}.duckdb"
    if not file.exists():
        data.build(file)
    with ExitStack() as stack:
        url, plain = stack.enter_context(
            _duckdb(file) if engine == "DuckDB" else _postgres(file, folder, data.schema)
        )
        policy = data.policy(url)
        place = folder / f"{engine}_{data.part}"
        place.mkdir()
        (place / "dpproxy.toml").write_text(policy)
        queries = backend_queries(place / "dpproxy.toml", rounds + 1, data.statements)
        checked = {name: of_it for name, of_it in queries.items() if name not in data.paired}
        asked = [query for (_, first), *_ in checked.values() for query in first]
        if engine == "DuckDB" and (crossed := joined_row_by_row(file, asked)):
            raise SystemExit("DuckDB would compare each row with each: " + "\n".join(crossed))
        backend = open_backend(configured(place / "dpproxy.toml"), slots=1)
        stack.callback(backend.close)
        proxy = stack.enter_context(serving(place, policy))
        for name in names:
            yield _timed(engine, name, data.statements[name], queries[name], plain, backend, proxy)


def backend_queries(file: Path, rounds: int, statements: Mapping[str, str]) -> dict[str, Rounds]:
    """By statement for each round a number of its own and what the backend is asked then."""
    with Service.start(configured(file), alone=True) as service:
        on, keys = terms(service.config.privacy, {}), ReleaseKeys(bytes(32), b"", b"")
        planner = service.answering._planner

        def queries(sql: str) -> list[HistogramQuery]:
            constants = [
                planner.constant(sql, (), n, (), ()) for n in range(len(planner.prepare(sql, ()).constants))
            ]
            nodes = planner.plan(sql, (), (), constants)
            return [
                q
                for node in nodes
                if isinstance(node, BoundNode)
                for q in plan_release(node, on, keys).queries()
            ]

        return {
            name: [(n, queries(text.format(n=n))) for n in (next(FRESH) for _ in range(rounds))]
            for name, text in statements.items()
        }


def fetch_all(backend: Backend, queries: Sequence[HistogramQuery]) -> None:
    """Asks the backend all that one release does."""
    with backend.open() as slot:
        for query in queries:
            slot.fetch(query, "0" * 64, Cancellation(), MOST_ROWS)


def _timed(
    engine: str,
    name: str,
    statement: str,
    rounds: Rounds,
    plain: Run,
    backend: Backend,
    proxy: Proxy,
) -> Ratios:
    taken: dict[str, list[float]] = {way: [] for way in WAYS}
    with proxy.connect() as client:
        for number, queries in rounds:
            text, cached = (statement.format(n=n) for n in (number, next(FRESH)))
            client.execute(f"EXPLAIN {cached}".encode())

            def ask(sql: str) -> object:
                return client.execute(sql.encode()).fetchall()

            ways: dict[str, Callable[[], object]] = {
                "plain": partial(plain, text, ()),
                "backend": partial(fetch_all, backend, queries),
                "cold": partial(ask, text),
                "cached": partial(ask, cached),
                "replay": partial(ask, cached),
            }
            for way, act in ways.items():
                start = time.perf_counter()
                act()
                taken[way].append(time.perf_counter() - start)
    # The first round warms caches.
    return Ratios(engine, name, {way: statistics.median(seconds[1:]) for way, seconds in taken.items()})


@contextmanager
def _duckdb(file: Path) -> Iterator[tuple[str, Run]]:
    """Its URL, and what runs a text."""
    with duckdb.connect(file, read_only=True) as connection:
        connection.execute("SET timezone = 'UTC'")

        def run(sql: str, values: Sequence[object]) -> object:
            return connection.execute(sql, values).fetchall()

        yield f"duckdb:///{file}", run


@contextmanager
def _postgres(file: Path, folder: Path, schema: str) -> Iterator[tuple[str, Run]]:
    """The same rows in PostgreSQL, under the settings of the proxy's sessions there."""
    with databases(folder / f"server_{file.stem}") as server, duckdb.connect(file, read_only=True) as source:
        name = server.make([schema])
        with server.owner(name) as owner:
            owner.execute("SET session_replication_role = replica")
            for (table,) in source.execute(
                "SELECT table_name FROM duckdb_tables() ORDER BY table_oid"
            ).fetchall():
                with owner.cursor().copy(f"COPY {table} FROM STDIN") as copy:
                    for row in source.execute(f"FROM {table}").fetchall():
                        copy.write_row(row)
            owner.execute("VACUUM ANALYZE")
        url = server.url(name)
        with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.RawCursor) as connection:
            for setting, value in pinned(0).items():
                if setting != "search_path":
                    connection.execute("SELECT set_config($1, $2, false)", (setting, value))
            connection.execute(ROOM.encode())

            def run(sql: str, values: Sequence[object]) -> object:
                return connection.execute(sql.encode(), values or None).fetchall()

            yield url, run


def missed(found: Sequence[Ratios]) -> list[str]:
    """The targets that are not met, in words."""
    words = []
    for engine in dict.fromkeys(one.engine for one in found):
        ratios = {one.name: one.ratio("backend") for one in found if one.engine == engine}
        middle, worst = statistics.median(ratios.values()), max(ratios, key=lambda name: ratios[name])
        if middle > MEDIAN:
            words.append(f"{engine}: the median of the ratios is {middle:.1f}, more than {MEDIAN:.0f}")
        if engine == "DuckDB" and ratios[worst] > WORST:
            words.append(
                f"{engine}: {worst} takes {ratios[worst]:.1f} times the plain query, more than {WORST:.0f}"
            )
    return words


def grown(page: str, found: Sequence[Ratios]) -> list[str]:
    """The statements whose ratio was less than four fifths of what it is now when the page was written, in words."""
    cells = [row for row in csv.reader(page.splitlines(), delimiter="|") if len(row) == len(WAYS) + 6]
    before = {(row[1].strip(), row[2].strip()): row[-3].strip() for row in cells}
    return [
        f"{one.engine}: {one.name} took {old} times the plain query, now {one.ratio('backend'):.1f}"
        for one in found
        for old in [before.get((one.engine, one.name), "")]
        if old.replace(".", "").isdigit() and one.ratio("backend") > GROWTH * float(old)
    ]


def written(data: DataSet, found: Sequence[Ratios], rounds: int, where: str) -> str:
    """The part of the page."""
    lines = [
        f"## {data.title}",
        "",
        f"Written by `make bench-ratios` on {where}. {data.about}, "
        f"milliseconds, medians of {rounds} rounds in turns in one run, one connection. *backend*: the SQL of a "
        "private answer on the bare database, all its queries one after the other. *cold*, *cached* and *replay* are "
        "through the proxy, as above. The ratios are *backend* and *cached* to *plain*, to 10 ms where that is less. "
        "*backend* runs under the settings of the proxy's sessions, on PostgreSQL *plain* too, with at most two "
        "parallel workers. "
        "The unfiltered COUNT(*), which DuckDB reads off its "
        "metadata, is not among them.",
        "",
        *(f"- NOT met: {words}" for words in missed(found)),
        *(
            f"- {engine}: the median of the ratios is {statistics.median(ratios):.1f}, the largest {max(ratios):.1f}"
            for engine in dict.fromkeys(one.engine for one in found)
            for ratios in [[one.ratio("backend") for one in found if one.engine == engine]]
        ),
        "",
        f"| engine | statement | {' | '.join(WAYS)} | backend to plain | cached to plain |",
        "|" + "---|" * (len(WAYS) + 4),
        *(one.row() for one in found),
    ]
    return "\n".join(lines)


def main(names: Sequence[str]) -> int:
    """Measures these sets of data, prints, writes their parts of the page; 1 where a target is missed or a ratio has
    grown."""
    console, wrong = Console(width=150), []
    quick = os.environ.get("BENCH") == "quick"
    page, rounds = ROOT / "docs" / "benchmarks.md", QUICK if quick else ROUNDS
    for data in (SETS[name]() for name in names):
        if not data.statements:
            console.print(f"{data.title}: its queries are not here; `make .venv-tpch/.ready` fetches them")
            continue
        found = []
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            for engine in data.engines:
                for one in measured(data, Path(folder), engine, rounds, list(data.statements)):
                    console.print(one.row(), markup=False)
                    found.append(one)
        old = page.read_text()
        wrong += [f"{data.title}: {words}" for words in (*missed(found), *grown(old, found))]
        if not quick:
            page.write_text(rewritten(old, data.part, written(data, found, rounds, machine())))
    for words in wrong:
        console.print(words, markup=False)
    return int(bool(wrong))


SETS: Mapping[str, Callable[[], DataSet]] = {
    "sample": sample,
    "visits": ten_million_visits,
    "tpch": tpc_h,
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or list(SETS)))
