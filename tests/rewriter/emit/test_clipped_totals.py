"""What one unit adds to a clipped total depends on its own rows alone, and is no longer than the price assumes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path

import duckdb
import numpy as np
import psycopg
import pytest
from sqlglot import exp

from dpproxy.backends.duckdb.adapter import RAISING
from dpproxy.embedded.server import Embedded
from mechanisms.unit_clip import UnitClip, clipped
from rewriter.emit.clipped_totals import Vectors, averages_query, clipped_query, lengths_query
from rewriter.emit.engines.base import Engine
from rewriter.emit.engines.duckdb import DUCKDB
from rewriter.emit.engines.postgres import POSTGRES
from rewriter.emit.histogram import histogram_query
from rewriter.emit.other_queries import QueryContext
from rewriter.ir.measure import Count, Joint, Total, Vector
from rewriter.logical.plan import AggregateNode
from rewriter.logical.split import split_query
from rewriter.plan import Cells, HistogramQuery
from rewriter.policy import Column, Hop, Policy, Table

pytestmark = pytest.mark.service

COLUMNS = {
    "unit": "bigint",
    "g": "text",
    "k": "bigint",
    "x": "double precision",
    "n": "bigint",
    "d": "numeric(20,4)",
    "m": "numeric(12,2)",
}
SCALES = {"x": 2, "m": 3}
POLICY = Policy(
    {
        ("public", "t"): Table(
            "public",
            "t",
            tuple(Column(name, kind, scale=SCALES.get(name)) for name, kind in COLUMNS.items()),
            False,
            ("t",),
            privacy_unit="unit",
        )
    },
    unit_clips=True,
)
LARGEST = 2**63 - 1
Row = tuple[object, ...]
FLOATS = (0.0, -0.0, 0.1, 12.345, -7.5, 1e9, -1e300, 1e308, math.inf, -math.inf, math.nan, None)
INTEGERS = (0, 1, -1, 5, 1000, -(10**9), LARGEST, -LARGEST - 1, None)
NUMBERS = ("0", "0.0001", "-3.5", "9999999999999999.9999", "-9999999999999999.9999", None)
MONEY = ("0", "0.29", "-3.50", "9999999999.99", "-9999999999.99", None)


def rows() -> list[Row]:
    """Forty units: of one row and of many, with numbers that no engine adds up easily; unit 7 has 5,000 rows."""
    random = np.random.default_rng(20)
    found: list[Row] = [(None, "a", 1, 1.0, 1, "1", "1")]
    for unit in range(40):
        for _ in range(5000 if unit == 7 else int(random.integers(1, 30))):
            g, k = random.choice(["a", "b", "c", "z"]), int(random.integers(0, 3))
            tame = bool(random.integers(0, 3)) and unit % 2 == 0
            x = random.normal(20, 30) if tame else FLOATS[random.integers(len(FLOATS))]
            n = int(random.integers(-50, 100)) if tame else INTEGERS[random.integers(len(INTEGERS))]
            d = f"{random.normal(3, 9):.4f}" if tame else NUMBERS[random.integers(len(NUMBERS))]
            m = f"{random.normal(3, 9):.2f}" if tame else MONEY[random.integers(len(MONEY))]
            found.append((unit, None if g == "z" else str(g), k, None if x is None else float(x), n, d, m))
    return found


ROWS = rows()
UNITS = tuple(range(40))


def schema(types: dict[str, str]) -> str:
    return (
        "CREATE TABLE t ("
        + ", ".join(f"{name} {types.get(kind, kind)}" for name, kind in COLUMNS.items())
        + ")"
    )


@dataclass(frozen=True)
class Part:
    """The rows of the table, but those of a unit, or of one unit alone, or none."""

    without: int | None = None
    only: int | None = None
    empty: bool = False

    def rows(self) -> list[Row]:
        if self.empty:
            return []
        return (
            [r for r in ROWS if r[0] != self.without and self.only in (None, r[0])] if self != ALL else ROWS
        )


ALL = Part()
Run = Callable[[HistogramQuery, Part], list[tuple[int, ...]]]


@cache
def loaded(part: Part, threads: int) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": str(threads), "disabled_optimizers": RAISING})
    types = {"text": "VARCHAR", "double precision": "DOUBLE", "numeric(20,4)": "DECIMAL(20,4)"}
    connection.execute(schema(types))
    if part.rows():
        columns = zip(*part.rows(), strict=True)
        texts = [[None if v is None else str(v) for v in column] for column in columns]
        connection.execute("INSERT INTO t SELECT " + ", ".join("unnest(?::VARCHAR[])" for _ in texts), texts)
    return connection


def in_duckdb(query: HistogramQuery, part: Part, threads: int = 1) -> list[tuple[int, ...]]:
    return loaded(part, threads).execute(query.sql, [list(a) for a in query.arrays]).fetchall()


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder: Path = tmp_path_factory.mktemp("clips")
    with (
        Embedded.start(folder, durable=False) as server,
        psycopg.connect(server.conninfo(), autocommit=True, cursor_factory=psycopg.RawCursor) as connection,
    ):
        schemas: dict[Part, str] = {}

        def run(query: HistogramQuery, part: Part) -> list[tuple[int, ...]]:
            new = part not in schemas
            name = schemas.setdefault(part, f"part{len(schemas)}")
            if new:
                connection.execute(f"CREATE SCHEMA {name}".encode())
            connection.execute(f"SET search_path = {name}".encode())
            if new:
                connection.execute(schema({}).encode())
                with connection.cursor().copy(b"COPY t FROM STDIN") as copy:
                    for row in part.rows():
                        copy.write_row(row)
            return connection.execute(query.sql.encode(), [list(a) for a in query.arrays]).fetchall()

        yield run


QUESTIONS: dict[str, Cells] = {
    "SELECT COUNT(*) FROM t": ((),),
    "SELECT g, COUNT(x) FROM t GROUP BY g": (("a",), ("b",), (None,), ("unseen",)),
    "SELECT g, k, SUM(x) FROM t GROUP BY g, k": tuple((g, str(k)) for g in "ab" for k in range(3)),
    "SELECT SUM(n) FROM t": ((),),
    "SELECT g, SUM(d), COUNT(*), SUM(d) FILTER (WHERE k = 1) FROM t GROUP BY g": (("a",), (None,)),
    "SELECT k, SUM(m), AVG(m) FROM t GROUP BY k": (("0",), ("1",), ("2",)),
    "SELECT k, AVG(x) FROM t GROUP BY k": (("0",), ("1",), ("2",)),
    "SELECT VAR_POP(n), SUM(n), AVG(x), COUNT(d) FROM t": ((),),
    "SELECT g, STDDEV_SAMP(d) FROM t GROUP BY g": (("b",), ("c",)),
    "SELECT k, SUM(n), COUNT(x), COUNT(*) FROM t GROUP BY k": (("0",), ("2",), ("7",), ("1",)),
}
WEIGHTS = {"SELECT k, SUM(n), COUNT(x), COUNT(*) FROM t GROUP BY k": ((64, 1, 5, 3), (1, 2, 64, 7), ())}
CENTRE, ROW = -3, 7
SCALE = 1024
LENGTHS = (1, 100, 10**7)


@dataclass(frozen=True)
class Queries:
    """Those of bins, those of the clipped sums at several lengths, and each vector's parts among the sums."""

    bins: list[HistogramQuery]
    sums: list[HistogramQuery]
    parts: list[range]


def queries(sql: str, dialect: Engine) -> Queries:
    node = split_query(sql, POLICY).nodes[0]
    assert isinstance(node, AggregateNode)
    vectors, joint, parts = [], [], [range(0)]
    for place, measure in enumerate(node.measures):
        assert isinstance(measure, (Total, Joint))
        about = (CENTRE, ROW) if isinstance(measure, Joint) else (0, 1)
        by = WEIGHTS[sql][place] if sql in WEIGHTS else ()
        vectors.append(Vector(place, *about, multipliers=by))
        joint += [vectors[-1]] if isinstance(measure, Joint) else []
        size = 2 + measure.squares if isinstance(measure, Joint) else 1
        parts.append(range(parts[-1].stop, parts[-1].stop + size))
    every = Vectors(node, vectors, QUESTIONS[sql], QueryContext(POLICY, (), dialect))
    bins = [lengths_query(every, 4, 200)]
    bins += [averages_query(replace(every, vectors=joint), 4, 164)] if joint else []
    sums = [clipped_query(every, [(length, SCALE)] * len(vectors)) for length in LENGTHS]
    # What was written before it is used again, or written anew, as the same text.
    assert sums[0] == clipped_query(replace(every), [(LENGTHS[0], SCALE)] * len(vectors))
    return Queries(bins, sums, parts[1:])


def added(run: Run, query: HistogramQuery, data: Part) -> Counter[tuple[int, int]]:
    """The sums by cell and part."""
    return Counter({(row[0], part): value for row in run(query, data) for part, value in enumerate(row[1:])})


def counted(run: Run, query: HistogramQuery, data: Part) -> Counter[tuple[int, int]]:
    """Units by vector and bin."""
    return Counter({(vector, number): units for vector, number, units in run(query, data)})


def check(run: Run, sql: str, dialect: Engine, units: Sequence[int]) -> None:
    asked = queries(sql, dialect)
    whole = [counted(run, query, ALL) for query in asked.bins]
    totals = [added(run, query, ALL) for query in asked.sums]
    for unit in units:
        others, own = Part(without=unit), Part(only=unit)
        for query, all_units in zip(asked.bins, whole, strict=True):
            alone = counted(run, query, own)
            assert len({vector for vector, _ in alone}) == alone.total()
            assert all_units == counted(run, query, others) + alone
        for query, summed, length in zip(asked.sums, totals, LENGTHS, strict=True):
            fewer, part = added(run, query, others), added(run, query, own)
            moved = {at: summed[at] - fewer[at] for at in {*summed, *fewer}}
            assert {at: v for at, v in moved.items() if v} == {at: v for at, v in part.items() if v}
            for columns in asked.parts:
                square = sum(v * v for (_, column), v in part.items() if column in columns)
                assert square <= (SCALE * length) ** 2


@pytest.mark.parametrize("sql", QUESTIONS)
def test_a_unit_adds_the_same_whoever_else_is_there(sql: str) -> None:
    check(in_duckdb, sql, DUCKDB, (0, 1, 2, 7, 9))


@pytest.mark.parametrize("sql", QUESTIONS)
def test_a_unit_adds_the_same_in_postgresql(sql: str, postgres: Run) -> None:
    check(postgres, sql, POSTGRES, (0, 1, 7))


@pytest.mark.parametrize("sql", QUESTIONS)
def test_both_engines_and_any_number_of_threads_agree(sql: str, postgres: Run) -> None:
    ours, theirs = queries(sql, DUCKDB), queries(sql, POSTGRES)
    for query, other in zip(ours.bins + ours.sums, theirs.bins + theirs.sums, strict=True):
        first = sorted(in_duckdb(query, ALL))
        assert first == sorted(in_duckdb(query, ALL, threads=2)) == sorted(in_duckdb(query, ALL, threads=4))
        assert first == sorted(postgres(other, ALL))


def test_the_sums_are_those_of_the_mechanism() -> None:
    """Numbers of rows by group, computed here."""
    sql = "SELECT g, COUNT(x) FROM t GROUP BY g"
    cells = QUESTIONS[sql]
    for query, length in zip(queries(sql, DUCKDB).sums, LENGTHS, strict=True):
        expected = np.zeros(len(cells), dtype=np.int64)
        for unit in UNITS:
            own = [
                sum(1 for r in ROWS if (r[0], (r[1],)) == (unit, cell) and r[3] is not None) for cell in cells
            ]
            expected += clipped(np.array(own), length, SCALE)
        found = added(in_duckdb, query, ALL)
        assert [found[number, 0] for number in range(1, len(cells) + 1)] == expected.tolist()


def test_weighted_sums_are_those_of_the_mechanism() -> None:
    """Each total times the multiplier of its cell, before lengths and parts are made of it."""
    (sql,) = WEIGHTS
    cells = QUESTIONS[sql]
    for part, (column, by) in enumerate(zip((3, None), WEIGHTS[sql][1:], strict=True), 1):
        for query, length in zip(queries(sql, DUCKDB).sums, LENGTHS, strict=True):
            expected = np.zeros(len(cells), dtype=np.int64)
            for unit in UNITS:
                rows = [r for r in ROWS if r[0] == unit and (column is None or r[column] is not None)]
                own = [sum(str(r[2]) == cell for r in rows) for (cell,) in cells]
                expected += clipped(np.array(own) * np.array(by or (1,) * len(cells)), length, SCALE)
            found = added(in_duckdb, query, ALL)
            assert [found[number, part] for number in range(1, len(cells) + 1)] == expected.tolist()


def test_a_text_of_several_lines_stays_what_it_is() -> None:
    (node,) = split_query("SELECT COUNT(x) FROM t WHERE g = E'a\\n  b'", POLICY).nodes
    assert isinstance(node, AggregateNode)
    query = lengths_query(Vectors(node, [Vector(0)], ((),), QueryContext(POLICY, (), DUCKDB)), 4, 200)
    assert query.kept is not None
    assert "'a\n  b'" in query.sql
    assert "'a\n  b'" in query.kept.sql


@pytest.mark.parametrize("multiplier", [0, -1, 65])
def test_no_total_is_multiplied_by_more_than_a_bigint_holds(multiplier: int) -> None:
    (node,) = split_query("SELECT g, COUNT(x) FROM t GROUP BY g", POLICY).nodes
    assert isinstance(node, AggregateNode)
    vectors = Vectors(
        node, [Vector(0, multipliers=(1, multiplier))], (("a",), ("b",)), QueryContext(POLICY, (), DUCKDB)
    )
    with pytest.raises(ValueError, match="from 1 to 64"):
        clipped_query(vectors, [(1, SCALE)])


@pytest.mark.parametrize("anchor", [1, 2, 3, 10, 1000])
def test_a_unit_is_in_the_bin_of_the_shortest_length_that_does_not_cut_it(anchor: int) -> None:
    """Lengths are roots of integers: sqrt(2) is cut at 1, as at all that rounds to 1."""
    sql = "SELECT g, COUNT(x) FROM t GROUP BY g"
    (node,) = split_query(sql, POLICY).nodes
    assert isinstance(node, AggregateNode)
    node = replace(node, measures=(Total(None, node.measures[0].argument, anchor),))
    cells, mechanism = QUESTIONS[sql], UnitClip(eps_per=Fraction(1), anchor=anchor, cells=1)
    query = lengths_query(Vectors(node, [Vector(0)], cells, QueryContext(POLICY, (), DUCKDB)), 4, 200)
    for unit in UNITS:
        own = Counter(r[1] for r in ROWS if r[0] == unit and r[3] is not None)
        square = sum(own[cell] ** 2 for (cell,) in cells)
        expected = [n for n in range(200) if mechanism.length_of(n) ** 2 >= square][:1] if square else []
        assert [place for _, place, _ in in_duckdb(query, Part(only=unit))] == expected


@pytest.mark.parametrize("scale", [1, 2, 7, 15])
def test_a_sum_of_decimals_is_a_whole_number_in_doubles(scale: int) -> None:
    """In DuckDB, up to 2^50 exactly, and beyond it at least that."""
    random = np.random.default_rng(scale)
    some = np.floor(2.0 ** random.uniform(0, 50, 20_000)).astype(np.int64).tolist()
    numbers = [*range(2**50 - 2000, 2**50 + 2000), *some, *(-n for n in some)]
    texts = [str(Decimal(n).scaleb(-scale)) for n in numbers]
    whole = DUCKDB.whole(exp.column("d"), 10**scale).sql("duckdb")
    with duckdb.connect() as connection:
        rows = connection.execute(
            f"SELECT CAST({whole} AS BIGINT) FROM (SELECT unnest(?::DECIMAL(38, {scale})[]) AS d)", [texts]
        ).fetchall()
    assert [found for (found,) in rows][4000:] == numbers[4000:]
    assert [min(found, 2**50) for (found,) in rows[:4000]] == [min(n, 2**50) for n in numbers[:4000]]


def test_nothing_is_nothing() -> None:
    for sql in QUESTIONS:
        asked = queries(sql, DUCKDB)
        assert not any(in_duckdb(query, Part(empty=True)) for query in asked.bins + asked.sums)


def test_rows_of_units_that_are_not_there_count_nowhere() -> None:
    """Two of four units are not in the table of units, or not among those that its owner lets pass."""
    people = Table(
        "public",
        "people",
        (Column("id", "integer"),),
        False,
        ("people",),
        privacy_unit="id",
        keys=(frozenset({"id"}),),
        where="NOT gone",
    )
    visits = Table(
        "public",
        "visits",
        (
            Column("id", "integer"),
            Column("place", "text", domain=("a", "b")),
            Column("m", "numeric(9,2)", scale=2),
        ),
        False,
        ("visits",),
        privacy_unit="id",
        path=(Hop("id", ("public", "people"), "id"),),
    )
    policy = Policy({("public", t.name): t for t in (people, visits)}, unit_clips=True)
    cells: Cells = (("a",), ("b",))
    (node,) = split_query(
        "SELECT place, COUNT(*), COUNT(DISTINCT id), SUM(m) FROM visits GROUP BY place", policy
    ).nodes
    assert isinstance(node, AggregateNode)
    context = QueryContext(policy, (), DUCKDB)
    counts = histogram_query(
        replace(node, measures=(Count(None, 5),), outputs=()), policy, (), cells, None, None, DUCKDB
    )
    totals = [place for place, measure in enumerate(node.measures) if isinstance(measure, Total)]
    clipped = clipped_query(
        Vectors(node, [Vector(p, 0, 1) for p in totals], cells, context), [(10**6, 1)] * len(totals)
    )
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, gone BOOLEAN)")
        connection.execute("INSERT INTO people VALUES (1, false), (2, false), (3, true)")
        connection.execute("CREATE TABLE visits (id INTEGER, place VARCHAR, m DECIMAL(9,2))")
        connection.execute(
            "INSERT INTO visits SELECT i % 5, CASE WHEN i < 10 THEN 'a' ELSE 'b' END, 1 FROM range(20) r(i)"
        )
        connection.execute("UPDATE visits SET id = NULL WHERE id = 0")
        for query in (counts, clipped):
            assert "IN (" in query.sql
            found = connection.execute(query.sql, [list(a) for a in query.arrays]).fetchall()
            assert {value for row in found for value in row[1:]} <= {4, 400}, "four rows, or their 4.00"
            assert len(found) == 2
