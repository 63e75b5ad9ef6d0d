"""DuckDB as a backend: its schema in PostgreSQL's words, histograms, and nothing but them."""

from __future__ import annotations

import asyncio
import datetime as dt
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from uuid import UUID

import duckdb
import numpy as np
import pytest

from dpproxy.backends import connect
from dpproxy.backends.base import (
    BackendError,
    BackendUnavailable,
    Cancellation,
    Cancelled,
    Fetched,
    ForeignKey,
    text,
)
from dpproxy.backends.duckdb.adapter import DuckDBBackend, DuckDBSlot
from dpproxy.backends.duckdb.instance import LINGER_SECONDS
from dpproxy.catalog.build_policy import build_policy, open_backend
from dpproxy.config.sections import ConfigError, load
from dpproxy.deployment.service import Service, configured
from rewriter.emit.engines.duckdb import DUCKDB
from rewriter.emit.histogram import histogram_query
from rewriter.logical.plan import AggregateNode
from rewriter.logical.split import split_query
from rewriter.plan import HistogramQuery, Kept
from rewriter.policy import Column, Policy, Table
from tests.dpproxy import shop

ENDLESS = "SELECT count(*) FROM range(100000000000) AS a, range(1000) AS b"


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[DuckDBBackend]:
    shop.make(tmp_path)
    opened = DuckDBBackend(tmp_path / "shop.duckdb", memory="500MB", slots=2)
    yield opened
    opened.close()


def made(folder: Path, ddl: str) -> DuckDBBackend:
    with duckdb.connect(folder / "made.duckdb") as database:
        database.execute(ddl)
    return DuckDBBackend(folder / "made.duckdb", memory="500MB", slots=1)


def fetch(backend: DuckDBBackend, sql: str, *arrays: tuple[str | None, ...], most: int = 1000) -> Fetched:
    with backend.open() as slot:
        return slot.fetch(HistogramQuery(sql, arrays, False, None), "secret", Cancellation(), most)


def public(*columns: Column, name: str = "products") -> Table:
    return Table("public", name, columns, True, ("main", name))


TYPES = [
    ("BOOLEAN", "boolean"),
    ("TINYINT", "smallint"),
    ("UTINYINT", "smallint"),
    ("SMALLINT", "smallint"),
    ("USMALLINT", "integer"),
    ("INTEGER", "integer"),
    ("UINTEGER", "bigint"),
    ("BIGINT", "bigint"),
    ("UBIGINT", "numeric(20,0)"),
    ("HUGEINT", "numeric(39,0)"),
    ("UHUGEINT", "numeric(39,0)"),
    ("FLOAT", "real"),
    ("DOUBLE", "double precision"),
    ("DECIMAL(9,2)", "numeric(9,2)"),
    ("VARCHAR", "text"),
    ("BLOB", "bytea"),
    ("UUID", "uuid"),
    ("JSON", "json"),
    ("DATE", "date"),
    ("TIME", "time without time zone"),
    ("INTERVAL", "interval"),
    ("TIMESTAMP", "timestamp without time zone"),
    ("TIMESTAMP_S", "timestamp without time zone"),
    ("TIMESTAMP_MS", "timestamp without time zone"),
    ("TIMESTAMP_NS", "timestamp without time zone"),
    ("TIMESTAMPTZ", "timestamp with time zone"),
    ("ENUM ('a', 'b')", "text"),
    ("ENUM ('a', 'b')[]", None),
    ("ENUM ('a', 'b')[2]", None),
    ("INTEGER[]", "integer[]"),
    ("VARCHAR[3]", "text[]"),
    ("STRUCT(x INTEGER)", None),
    ("MAP(INTEGER, INTEGER)", None),
    ("UNION(x INTEGER, y VARCHAR)", None),
    ("BIT", None),
    ("INTEGER[][]", None),
]


def test_types(tmp_path: Path) -> None:
    listed = ", ".join(f"c{number} {kind}" for number, (kind, _) in enumerate(TYPES))
    table = made(tmp_path, f"CREATE TABLE t ({listed})").schema().tables["public", "t"]
    assert [(kind, column.type) for (kind, _), column in zip(TYPES, table.columns, strict=True)] == TYPES


def test_columns_that_are_computed_as_they_are_read_are_not_shown(tmp_path: Path) -> None:
    """DuckDB takes an update that their expression cannot compute, and raises at each later read of the row."""
    backend = made(
        tmp_path,
        "CREATE TABLE t (text VARCHAR, generated INTEGER, n INTEGER AS (CAST(text AS INTEGER)), "
        "always INTEGER DEFAULT (1))",
    )
    table = backend.schema().tables["public", "t"]
    assert [column.name for column in table.columns] == ["text", "generated", "always"]


def test_only_moments_have_an_era(backend: DuckDBBackend) -> None:
    sql = """SELECT 'Vancouver (BC)', DATE '0044-03-15 (BC)', TIMESTAMP '0044-03-15 (BC) 12:00:00',
    TIMESTAMPTZ '0044-03-15 (BC) 12:00:00+00', TIMESTAMP_S '0044-03-15 (BC) 12:00:00', DATE '2024-01-01'"""
    found = fetch(backend, sql)
    assert [found.texts(column)[0] for column in range(6)] == [
        "Vancouver (BC)",
        "0044-03-15 BC",
        "0044-03-15 12:00:00 BC",
        "0044-03-15 12:00:00+00 BC",
        "0044-03-15 12:00:00 BC",
        "2024-01-01",
    ]


def test_constraints_and_comments(backend: DuckDBBackend) -> None:
    tables = backend.schema().tables
    assert set(tables) == {
        *(("public", name) for name in ("users", "products", "orders", "items", "secrets")),
        ("app", "visits"),
    }
    users, items = tables["public", "users"], tables["public", "items"]
    assert (users.comment, users.columns[1].comment) == ("Who buys", "Where it's sent")
    assert users.backend_name == ("main", "users")
    assert users.primary_key == ("user_id",)
    assert [column.nullable for column in users.columns] == [False, True, True, True]
    assert items.primary_key is None
    assert items.unique == (("order_id", "product_id"),)
    assert items.foreign_keys == (
        ForeignKey(("order_id",), ("public", "orders"), ("order_id",)),
        ForeignKey(("product_id",), ("public", "products"), ("product_id",)),
    )
    size = items.column("size")
    assert size is not None
    assert size.values == ("small", "it's large")


def test_a_schema_called_like_the_file(tmp_path: Path) -> None:
    backend = made(tmp_path, "CREATE SCHEMA made.made; CREATE TABLE made.made.t (x INTEGER)")
    table = backend.schema().tables["made", "t"]
    assert backend.count(Table("made", "t", (), True, table.backend_name)) == 0


def test_two_schemas_that_would_get_one_name(tmp_path: Path) -> None:
    ddl = "CREATE TABLE t (x INTEGER); CREATE SCHEMA public; CREATE TABLE public.t (x INTEGER)"
    with pytest.raises(BackendUnavailable, match='both called "t"'):
        made(tmp_path, ddl).schema()


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("DATE '0044-03-15 (BC)'", "0044-03-15 BC"),
        ("INTERVAL '1 month -2 days 3 seconds'", "1 month -2 days 00:00:03"),
        ("CAST('nan' AS DOUBLE)", "nan"),
        ("170141183460469231731687303715884105727", "170141183460469231731687303715884105727"),
        ("'\\xAB'::BLOB", "\\xab"),
        ("['a\"b', NULL]", '{"a\\"b",NULL}'),
        ("[DATE '2024-01-01']", '{"2024-01-01"}'),
    ],
)
def test_keys_of_its_own_types_as_postgresql_reads_them(
    backend: DuckDBBackend, value: str, written: str | None
) -> None:
    assert fetch(backend, f"SELECT {value}").texts(0) == (written,)


def test_what_duckdb_says_is_withheld(backend: DuckDBBackend) -> None:
    with pytest.raises(BackendError) as caught:
        fetch(backend, "SELECT error(email) FROM users")
    assert str(caught.value) == "the backend could not run this query"
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


@pytest.mark.parametrize("value", ["9223372036854775808", "NULL::BIGINT", "'1'", "1.5", "true"])
def test_a_count_that_is_no_int64(backend: DuckDBBackend, value: str) -> None:
    fetched = fetch(backend, f"SELECT {value}")
    with pytest.raises(BackendError) as caught:
        fetched.counts(0)
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM '{file}'",
        "SELECT * FROM glob('/*')",
        "COPY users TO '{folder}/out.csv'",
        "EXPORT DATABASE '{folder}/out'",
        "ATTACH '{folder}/other.duckdb'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "SET python_enable_replacements = true",
        "SET memory_limit = '100GB'",
        "SELECT * FROM frame",
        "INSERT INTO users VALUES (9)",
        "SELECT 1) AS q; SELECT (2",
    ],
)
def test_the_connection_is_locked_down(
    backend: DuckDBBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    monkeypatch.setattr("dpproxy.backends.duckdb.adapter.frame", {"x": np.array([1])}, raising=False)
    (tmp_path / "some.csv").write_text("a,b\n1,2\n")
    written = statement.format(file=tmp_path / "some.csv", folder=tmp_path)
    with pytest.raises(BackendError):
        fetch(backend, written)
    with pytest.raises(duckdb.Error), backend._quick.cursor() as cursor:
        cursor.execute(written)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["dpproxy.toml", "shop.duckdb", "some.csv"]


def test_memory_is_limited(tmp_path: Path) -> None:
    shop.make(tmp_path)
    backend = DuckDBBackend(tmp_path / "shop.duckdb", memory="20MB", slots=1)
    with pytest.raises(BackendError):
        fetch(backend, "SELECT count(*) FROM (SELECT DISTINCT md5(i::VARCHAR) FROM range(3000000) AS t(i))")


@pytest.mark.parametrize(
    ("memory", "threads", "bits"),
    [("4GB", 2, 21), ("500MB", 2, 18), ("4GB", 16, 18), ("20MB", 2, 14), ("1TB", 1, 24)],
)
def test_arrays_of_sums_take_a_quarter_of_the_memory(
    tmp_path: Path, memory: str, threads: int, bits: int
) -> None:
    shop.make(tmp_path)
    backend = DuckDBBackend(tmp_path / "shop.duckdb", memory=memory, slots=1, threads=threads)
    for instance in (backend._quick, backend.careful):
        with instance.cursor() as cursor:
            assert cursor.execute("SELECT current_setting('perfect_ht_threshold')").fetchall() == [(bits,)]
    backend.close()


@pytest.mark.parametrize(("sums", "bits"), [(1, 21), (8, 21), (9, 20), (16, 20), (17, 19), (200, 16)])
def test_arrays_of_many_sums_have_fewer_places(tmp_path: Path, sums: int, bits: int) -> None:
    shop.make(tmp_path)
    backend = DuckDBBackend(tmp_path / "shop.duckdb", memory="4GB", slots=1, threads=2)
    columns = ", ".join(f"sum(i + {n}) AS c{n}" for n in range(sums))
    shown = f"SELECT current_setting('perfect_ht_threshold'), {columns} FROM range(2) AS t(i)"
    assert fetch(backend, shown).texts(0) == (str(bits),)
    assert fetch(backend, "SELECT current_setting('perfect_ht_threshold')").texts(0) == ("21",)
    backend.close()


@pytest.mark.service
@pytest.mark.parametrize("most", [(1 << 20) - 1, (1 << 31) - 1])
def test_no_name_of_a_unit_decides_the_memory_of_many_sums(tmp_path: Path, most: int) -> None:
    units = f"SELECT (i * 500)::INTEGER AS u FROM range(2000) AS t(i) UNION ALL SELECT {most}"
    made(tmp_path, f"CREATE TABLE t AS {units}").close()
    sums = ", ".join(f"sum(u - {n}) AS c{n}" for n in range(200))
    program = f"""
import resource
from pathlib import Path
from dpproxy.backends.base import Cancellation
from dpproxy.backends.duckdb.adapter import DuckDBBackend
from rewriter.plan import HistogramQuery
backend = DuckDBBackend(Path({str(next(tmp_path.glob("*.duckdb")))!r}), memory="4GB", slots=1, threads=2)
with backend.open() as slot:
    sql = "SELECT u, {sums} FROM t GROUP BY u"
    assert slot.fetch(HistogramQuery(sql, (), False, None), "", Cancellation(), 5000).rows == 2001
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert int(ran.stdout) < 2_000_000


def test_the_time_zone_is_utc(backend: DuckDBBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        sql = "SELECT current_setting('TimeZone'), CAST(TIMESTAMPTZ '2024-01-01 00:00:00+00' AS VARCHAR)"
        fetched = fetch(backend, sql)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert fetched.texts(0) == ("UTC",)
    assert fetched.texts(1) == ("2024-01-01 00:00:00+00",)


@pytest.mark.service
def test_the_owner_can_write_while_nothing_is_asked(backend: DuckDBBackend, tmp_path: Path) -> None:
    write = "import duckdb, sys; duckdb.connect(sys.argv[1]).execute('INSERT INTO secrets VALUES (1)')"
    command = [sys.executable, "-c", write, str(tmp_path / "shop.duckdb")]
    with backend.open():
        assert subprocess.run(command, capture_output=True, check=False).returncode != 0
    time.sleep(LINGER_SECONDS + 0.1)
    subprocess.run(command, check=True)
    assert fetch(backend, "SELECT count(*) FROM secrets").counts(0).tolist() == [1]


def test_a_file_that_its_owner_does_not_write_to_stays_attached(tmp_path: Path) -> None:
    """Unless another one takes its place."""
    for name, number in (("made", 1), ("new", 2)):
        with duckdb.connect(tmp_path / f"{name}.duckdb") as database:
            database.execute(f"CREATE TABLE t AS SELECT {number} AS x")
    backend = connect("duckdb:///made.duckdb", folder=tmp_path, memory="500MB", slots=1, owner_writes=False)
    assert isinstance(backend, DuckDBBackend)
    assert fetch(backend, "SELECT x FROM t").counts(0).tolist() == [1]
    time.sleep(LINGER_SECONDS + 0.2)
    assert backend._quick._attached
    (tmp_path / "new.duckdb").replace(tmp_path / "made.duckdb")
    assert fetch(backend, "SELECT x FROM t").counts(0).tolist() == [2]
    backend.close()


@pytest.mark.parametrize("put", [Path.replace, shutil.copyfile])
def test_a_file_that_is_replaced_between_two_queries(
    tmp_path: Path, put: Callable[[Path, Path], object]
) -> None:
    for name, number in (("made", 1), ("new", 2)):
        with duckdb.connect(tmp_path / f"{name}.duckdb") as database:
            database.execute(f"CREATE TABLE t AS SELECT {number} AS x FROM range({number} * 100000)")
    backend = DuckDBBackend(tmp_path / "made.duckdb", memory="500MB", slots=2)
    with backend.open() as slot:
        assert (
            slot.fetch(HistogramQuery("SELECT max(x) FROM t", (), False, None), "", Cancellation(), 1).rows
            == 1
        )
        with backend.open():
            pass
    put(tmp_path / "new.duckdb", tmp_path / "made.duckdb")
    assert fetch(backend, "SELECT max(x) FROM t").counts(0).tolist() == [2]
    backend.close()


def test_the_file_is_let_go_of_when_nobody_asks(backend: DuckDBBackend) -> None:
    def threads() -> list[str]:
        return [one.name for one in threading.enumerate() if "DuckDB" in one.name]

    for _ in range(20):
        fetch(backend, "SELECT count(*) FROM users")
    assert len(threads()) <= 2
    deadline = time.monotonic() + 10
    while threads():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    with backend._quick._lock:
        assert backend._quick._attached == ()
    assert fetch(backend, "SELECT count(*) FROM users").rows == 1


@pytest.mark.service
def test_a_file_that_its_owner_writes_to(backend: DuckDBBackend, tmp_path: Path) -> None:
    hold = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", hold, str(tmp_path / "shop.duckdb")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"held\n"
        with pytest.raises(BackendUnavailable, match="another process has it open for writing"):
            backend.open()
        owner.communicate(b"")
    # The failed attempts gave their slots back.
    with backend.open(), backend.open() as slot:
        assert slot.fetch(HistogramQuery("SELECT 1", (), False, None), "", Cancellation(), 1).rows == 1


@pytest.mark.service
def test_the_latest_rows_are_read_and_those_that_only_the_log_has(
    backend: DuckDBBackend, tmp_path: Path
) -> None:
    insert = "INSERT INTO secrets SELECT * FROM range({})"
    with duckdb.connect(tmp_path / "shop.duckdb") as owner:
        owner.execute(insert.format(2))
    assert fetch(backend, "SELECT count(*) FROM secrets").counts(0).tolist() == [2]
    write = f"c = duckdb.connect(sys.argv[1]); c.execute('{insert.format(3)}')"
    die = f"import duckdb, os, sys; {write}; os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", die, str(tmp_path / "shop.duckdb")], check=False)
    assert (tmp_path / "shop.duckdb.wal").exists()
    assert fetch(backend, "SELECT count(*) FROM secrets").counts(0).tolist() == [5]


@pytest.mark.parametrize("name", ["memory.duckdb", "it's, [a] *.duckdb", "temp", 'naïve " data.db'])
def test_names_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    with duckdb.connect(tmp_path / "made.duckdb") as database:
        database.execute("CREATE TABLE t AS SELECT 7 AS x")
    (tmp_path / "made.duckdb").rename(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    backend = DuckDBBackend(Path(name), memory="500MB", slots=1)
    assert fetch(backend, "SELECT x FROM main.t").counts(0).tolist() == [7]
    assert list(backend.schema().tables) == [("public", "t")]
    backend.close()


@pytest.mark.parametrize(
    "sql", ["COPY (SELECT 1) TO '{0}'", "DETACH dpproxy_data", "SELECT 1; SELECT 2", "ATTACH '{0}' AS x"]
)
def test_only_a_select_is_run(backend: DuckDBBackend, tmp_path: Path, sql: str) -> None:
    file = tmp_path / "shop.duckdb"
    before = file.read_bytes()
    with pytest.raises(BackendError):
        fetch(backend, sql.format(file))
    assert file.read_bytes() == before
    assert fetch(backend, "SELECT count(*) FROM main.users").rows == 1


def test_it_can_be_asked_again_after_its_end(backend: DuckDBBackend) -> None:
    with backend.open() as slot:
        backend.close()
        assert slot.fetch(HistogramQuery("SELECT 1", (), False, None), "", Cancellation(), 1).rows == 1
    backend.close()
    assert fetch(backend, "SELECT count(*) FROM users").rows == 1


def test_a_link_that_its_owner_turns_to_another_file(tmp_path: Path) -> None:
    link = tmp_path / "now.duckdb"
    for number in (1, 2):
        with duckdb.connect(tmp_path / f"{number}.duckdb") as database:
            database.execute(f"CREATE TABLE t AS SELECT {number} AS x")
    link.symlink_to(tmp_path / "1.duckdb")
    backend = DuckDBBackend(link, memory="500MB", slots=1)
    assert fetch(backend, "SELECT x FROM t").counts(0).tolist() == [1]
    link.unlink()
    link.symlink_to(tmp_path / "2.duckdb")
    assert fetch(backend, "SELECT x FROM t").counts(0).tolist() == [2]
    backend.close()


def test_an_instance_that_has_failed_is_replaced_while_others_still_use_it(backend: DuckDBBackend) -> None:
    """DuckDB ends one by an internal error, after which every statement on it fails."""
    sql = "SELECT count(*) FROM users"
    query = HistogramQuery(sql, (), False, None)
    with backend.open() as first:
        assert backend._quick._instance is not None
        backend._quick._instance.close()
        with backend.open() as second:
            assert second.fetch(query, "", Cancellation(), 1).counts(0).tolist() == [3]
            assert first.fetch(query, "", Cancellation(), 1).counts(0).tolist() == [3]
    assert fetch(backend, sql).counts(0).tolist() == [3]


def test_a_file_that_is_missing_or_no_database(tmp_path: Path) -> None:
    with pytest.raises(BackendUnavailable, match="there is no DuckDB file"):
        DuckDBBackend(tmp_path / "none", memory="1GB", slots=1).schema()
    (tmp_path / "text").write_text("private words\n" * 1000)
    with pytest.raises(BackendUnavailable, match="could not be opened") as caught:
        DuckDBBackend(tmp_path / "text", memory="1GB", slots=1).open()
    assert "private" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, None),
        (np.int64(7), "7"),
        (-0.0, "-0.0"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (Decimal("1E-7"), "0.0000001"),
        (Decimal("NaN"), "NaN"),
        (b"\x00\xff", "\\x00ff"),
        (dt.date(1, 1, 1), "0001-01-01"),
        (dt.datetime(2024, 1, 1, 1, tzinfo=dt.UTC), "2024-01-01 01:00:00+00:00"),
        (dt.time(1, 2, 3), "01:02:03"),
        (dt.timedelta(days=-1, microseconds=5), "-1 days 0.000005 seconds"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ([True, [1.5, None]], '{"true",{"1.5",NULL}}'),
    ],
)
def test_values_as_text(value: object, written: str | None) -> None:
    assert text(value) == written


def test_a_value_of_an_unknown_kind_is_no_text() -> None:
    with pytest.raises(BackendError):
        text(object())


def test_a_late_hook_runs_at_once_and_a_withdrawn_one_never() -> None:
    cancellation, seen = Cancellation(), list[str]()
    cancellation.on_cancel(lambda: seen.append("withdrawn"))()
    cancellation.on_cancel(lambda: seen.append("kept"))
    cancellation.cancel()
    cancellation.cancel()
    cancellation.on_cancel(lambda: seen.append("late"))
    assert seen == ["kept", "late"]


def test_nothing_is_computed_outside_of_its_try(backend: DuckDBBackend) -> None:
    twice = "SELECT TRY(CAST(x AS INTEGER) = 1), TRY(CAST(x AS INTEGER) = 2) FROM (SELECT user_id - {} AS x FROM users)"
    assert fetch(backend, twice.format(2**62)).texts(0) == (None, None, None)


def test_no_query_fails_by_the_largest_value_of_a_column(backend: DuckDBBackend) -> None:
    sql = "SELECT user_id FROM users WHERE CASE WHEN user_id >= {} THEN 'p' WHEN FALSE THEN 'q' END >= 'a'"
    assert fetch(backend, sql.format("2.5")).texts(0) == ("3",)
    assert fetch(backend, sql.format("1990.5")).texts(0) == ()


@pytest.mark.parametrize(("timed_out", "raised"), [(True, Cancelled), (False, BackendError)])
def test_what_fails_with_statistics_is_asked_without_and_in_time(
    timed_out: bool, raised: type[Exception], backend: DuckDBBackend
) -> None:
    """The second instance has the same file, the same limits, and hears of a cancellation. A client that cancels then
    has seen by the time that the first one failed, so that it counts as a failure."""
    fails = (
        "SELECT user_id FROM users WHERE CASE WHEN user_id >= 1990.5 THEN 'p' WHEN FALSE THEN 'q' END >= 'a'"
    )
    with backend._quick.cursor() as cursor, pytest.raises(duckdb.Error):
        cursor.execute(fails)
    cancellation = Cancellation()
    threading.Timer(0.3, partial(cancellation.cancel, timed_out=timed_out)).start()
    with backend.open() as slot, pytest.raises(raised):
        slot.fetch(HistogramQuery(f"{fails} UNION ALL {ENDLESS}", (), False, None), "", cancellation, 1000)
    for statement in ("SELECT * FROM '/etc/passwd'", "SET memory_limit = '1GB'"):
        with pytest.raises(duckdb.Error), backend.careful.cursor() as cursor:
            cursor.execute(statement)


def keeping(kept: str, rest: str, *arrays: tuple[str, ...], whole: str = "SELECT -1") -> HistogramQuery:
    """`rest` reads the table u."""
    named = f"WITH u AS (SELECT * FROM {DUCKDB.kept_table}) {rest}"
    return HistogramQuery(whole, arrays, False, None, integers=True, kept=Kept(kept, named))


def test_what_queries_begin_with_runs_once_a_slot(backend: DuckDBBackend) -> None:
    drawn = "SELECT CAST(random() * 1e9 AS BIGINT) AS x FROM range(3) WHERE len(CAST($1 AS TEXT[])) > 0"
    with backend.open() as slot, backend.open() as other:

        def ask(query: HistogramQuery, of: DuckDBSlot = slot) -> list[int]:
            return [int(x) for x in of.fetch(query, "", Cancellation(), 10).counts(0)]

        first = ask(keeping(drawn, "SELECT x FROM u", ("a",)))
        assert len({*first}) == 3
        assert ask(keeping(drawn, "SELECT SUM(x)::BIGINT FROM u", ("a",))) == [sum(first)]
        assert ask(keeping(drawn, "SELECT x FROM u", ("b",))) != first
        assert ask(keeping("SELECT 7 AS x", "SELECT x FROM u")) == [7]
        assert ask(keeping(drawn, "SELECT x FROM u", ("a",))) != first
        of_others = HistogramQuery(f"SELECT x FROM {DUCKDB.kept_table}", (), False, None)
        with pytest.raises(BackendError):
            other.fetch(of_others, "", Cancellation(), 10)
    assert not fetch(backend, "SELECT 1 FROM duckdb_tables() WHERE temporary").rows


def test_what_is_kept_hides_no_table_of_the_owners(tmp_path: Path) -> None:
    """Not one that has the name of a part of our queries."""
    backend = made(tmp_path, "CREATE TABLE u AS SELECT 999 AS x")
    plain = HistogramQuery("SELECT x FROM main.u", (), False, None, integers=True)
    with backend.open() as slot:
        for sql, x in (("SELECT 7 AS x", 7), ("SELECT x + 1 AS x FROM main.u", 1000)):
            found = slot.fetch(keeping(sql, "SELECT x FROM u"), "", Cancellation(), 10)
            assert found.counts(0).tolist() == [x]
            assert slot.fetch(plain, "", Cancellation(), 10).counts(0).tolist() == [999]
    backend.close()


@pytest.mark.parametrize(
    "kept", ["SELECT 1 AS x) AS q; DROP TABLE users; FROM (SELECT 1", "DROP TABLE users", "SELEC"]
)
def test_only_a_select_is_kept(kept: str, backend: DuckDBBackend) -> None:
    with backend.open() as slot, pytest.raises(BackendError):
        slot.fetch(keeping(kept, "SELECT 1", whole=kept), "", Cancellation(), 10)


def test_what_does_not_fit_into_memory_is_not_kept(tmp_path: Path) -> None:
    many = made(tmp_path, "CREATE TABLE t AS SELECT 1 AS x")
    many = DuckDBBackend(many.path, memory="100MB", slots=1)
    rows = "SELECT hash(range) AS x FROM range(20000000)"
    with many.open() as slot:
        for _ in range(2):
            found = slot.fetch(keeping(rows, "SELECT 1", whole="SELECT 2"), "", Cancellation(), 10)
            assert found.counts(0).tolist() == [2]
        assert (
            slot.fetch(keeping("SELECT 1 AS x", "SELECT 1", whole="SELECT 2"), "", Cancellation(), 1).rows
            == 1
        )
    many.close()


def test_keeping_can_be_cancelled(backend: DuckDBBackend) -> None:
    cancellation = Cancellation()
    threading.Timer(0.3, cancellation.cancel).start()
    with backend.open() as slot, pytest.raises(Cancelled):
        slot.fetch(keeping(ENDLESS, "SELECT 1"), "", cancellation, 10)


SPELT = ("berlin", "Berlin", "bERLIn")
FOLDING = (
    "CREATE TABLE {} (u INTEGER {}, city VARCHAR COLLATE NOCASE, t VARCHAR, m ENUM ('a', 'B'), f DOUBLE[])"
)


def spelt(folder: Path) -> Policy:
    """A policy over a table of 30 units in one city, which is written in three ways."""
    with duckdb.connect(folder / "spelt.duckdb") as database:
        database.execute(FOLDING.format("people", "PRIMARY KEY"))
        database.execute("CREATE TABLE cities (name VARCHAR COLLATE NOCASE PRIMARY KEY, land VARCHAR)")
        database.execute("INSERT INTO cities SELECT unnest($1), unnest($1)", [SPELT])
        rows = [(n, SPELT[n % 3], SPELT[n % 3], "aB"[n % 2], [-0.0 if n % 2 else 0.0]) for n in range(30)]
        database.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?)", rows)
    (folder / "dpproxy.toml").write_text(
        '[backend]\nurl = "duckdb:///spelt.duckdb"\n[tables.people]\nprivacy_unit = "u"\n'
        "[tables.people.columns]\ncity = {}\nf = {}\n[tables.cities]\npublic = true\n"
    )
    config = load(folder / "dpproxy.toml")
    backend = open_backend(config, slots=1)
    try:
        return build_policy(config, backend.schema(), backend)
    finally:
        backend.close()


@pytest.mark.parametrize(
    ("sql", "cells", "wanted"),
    [
        ("SELECT city, COUNT(*) FROM people GROUP BY 1", None, dict.fromkeys(SPELT, 10)),
        ("SELECT city, COUNT(*) FROM people GROUP BY 1", [*SPELT, "BERLIN"], {1: 10, 2: 10, 3: 10, 4: 0}),
        ("SELECT m, COUNT(*) FROM people GROUP BY 1", None, {"a": 15, "B": 15}),
        (
            "SELECT c.land, COUNT(*) FROM people p JOIN cities c ON c.name = p.city GROUP BY 1",
            None,
            dict.fromkeys(SPELT, 10),
        ),
        ("SELECT city, COUNT(*) FROM people WHERE city = 'BERLIN' GROUP BY 1", ["BERLIN"], {1: 0}),
        ("SELECT city, COUNT(*) FROM people WHERE city IN ('berlin') GROUP BY 1", ["berlin"], {1: 10}),
        (
            "SELECT m, COUNT(DISTINCT u) FROM (SELECT u, m, MAX(city) AS c FROM people GROUP BY 1, 2) s GROUP BY 1",
            None,
            {"a": 15, "B": 15},
        ),
    ],
)
def test_texts_compare_by_their_bytes_whatever_their_columns_collation(
    tmp_path: Path, sql: str, cells: list[str] | None, wanted: dict[object, int]
) -> None:
    policy = spelt(tmp_path)
    (node,) = split_query(sql, policy).nodes
    assert isinstance(node, AggregateNode)
    known = None if cells is None else tuple((c,) for c in cells)
    query = histogram_query(node, policy, (), known, node.bound.value, 100, DUCKDB)
    backend = DuckDBBackend(tmp_path / "spelt.duckdb", memory="500MB", slots=1)
    with backend.open() as slot:
        found = slot.fetch(query, "secret", Cancellation(), 100)
    backend.close()
    assert dict(zip(*found.columns, strict=True)) == wanted


def test_a_list_of_floats_has_one_zero_as_its_label(tmp_path: Path) -> None:
    policy = spelt(tmp_path)
    (node,) = split_query("SELECT f, COUNT(*) FROM people GROUP BY 1", policy).nodes
    assert isinstance(node, AggregateNode)
    query = histogram_query(node, policy, (), None, 1, 100, DUCKDB)
    labels = set()
    for unit in (0, 1):
        with duckdb.connect(tmp_path / "spelt.duckdb") as database:
            database.execute(
                f"DELETE FROM people WHERE u % 2 <> {unit}" if unit == 0 else "UPDATE people SET f = [-0.0]"
            )
        backend = DuckDBBackend(tmp_path / "spelt.duckdb", memory="500MB", slots=1)
        with backend.open() as slot:
            labels.add(str(slot.fetch(query, "secret", Cancellation(), 100).texts(0)))
        backend.close()
    assert len(labels) == 1


def test_a_unit_whose_collation_folds_texts_is_refused(tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "spelt.duckdb") as database:
        database.execute("CREATE TABLE people (u VARCHAR COLLATE NOCASE PRIMARY KEY)")
        database.execute("CREATE TABLE visits (u VARCHAR REFERENCES people (u))")
    toml = tmp_path / "dpproxy.toml"
    for table, line in (
        ("people", 'privacy_unit = "u"'),
        ("visits", 'privacy_unit_path = ["u -> people.u"]'),
    ):
        people = '[tables.people]\nprivacy_unit = "u"\n' if table == "visits" else ""
        toml.write_text(f'[backend]\nurl = "duckdb:///spelt.duckdb"\n{people}[tables.{table}]\n{line}\n')
        config = load(toml)
        backend = open_backend(config, slots=1)
        with pytest.raises(ConfigError, match="makes one value of several texts"):
            build_policy(config, backend.schema(), backend)
        backend.close()


@pytest.mark.parametrize(
    ("unit", "leading"),
    [
        ("BIGINT", "UHUGEINT"),
        ("DECIMAL(38,10)", "HUGEINT"),
        ("BIGINT", "DECIMAL(38,20)"),
        ("BIGINT", "HUGEINT"),
    ],
)
def test_a_path_compares_numbers_without_an_error(tmp_path: Path, unit: str, leading: str) -> None:
    with duckdb.connect(tmp_path / "wide.duckdb") as database:
        database.execute(f"CREATE TABLE people (id {unit} PRIMARY KEY)")
        database.execute(f"CREATE TABLE visits (person {leading})")
        database.execute(f"CREATE TABLE calls (id {leading})")
    toml = tmp_path / "dpproxy.toml"
    people = '[backend]\nurl = "duckdb:///wide.duckdb"\n[tables.people]\nprivacy_unit = "id"\n'
    for table, line in (
        ("visits", 'privacy_unit_path = ["person -> people.id"]'),
        ("calls", 'privacy_unit = "id"'),
    ):
        toml.write_text(f"{people}[tables.{table}]\n{line}\n")
        config = load(toml)
        backend = open_backend(config, slots=1)
        if (unit, leading) == ("BIGINT", "HUGEINT"):
            build_policy(config, backend.schema(), backend)
        else:
            with pytest.raises(ConfigError, match="give the columns one type"):
                build_policy(config, backend.schema(), backend)
        backend.close()


def test_stored_times_that_are_read_as_one_are_no_keys(tmp_path: Path) -> None:
    moments = ", ".join(f"(TIMESTAMP_NS '2024-01-01 00:00:00.00000000{n}', {n})" for n in (1, 2))
    backend = made(
        tmp_path,
        "CREATE TABLE t (k TIMESTAMP_NS PRIMARY KEY, n INTEGER UNIQUE, UNIQUE (k, n));"
        f"CREATE TABLE s (k TIMESTAMP_NS REFERENCES t); INSERT INTO t VALUES {moments}",
    )
    table, referring = (backend.schema().tables["public", name] for name in "ts")
    assert (table.primary_key, table.unique, referring.foreign_keys) == (None, (("n",),), ())
    read = public(Column("k", "timestamp without time zone"), Column("n", "integer"), name="t")
    assert backend.repeats(read, ["k"])
    assert not backend.repeats(read, ["k", "n"])
    assert [row[0] for row in backend.read_public(read)] == ["2024-01-01 00:00:00"] * 2
    backend.close()


def test_a_path_is_followed_while_its_keys_are_kept_in_the_attached_file(tmp_path: Path) -> None:
    declared = shop.POLICY.replace("max_groups_per_unit", "max_rows_per_unit = 9\nmax_groups_per_unit")
    _, backend, policy = shop.opened(shop.make(tmp_path, declared))
    policy = replace(policy, unit_clips=False)
    (node,) = split_query("SELECT COUNT(*) FROM items", policy).nodes
    assert isinstance(node, AggregateNode)
    query = histogram_query(node, policy, (), ((),), None, None, DUCKDB)
    assert query.unique == {(("main", "orders"), ("order_id",))}

    def counted() -> int:
        with backend.open() as slot:
            return int(slot.fetch(query, "secret", Cancellation(), 10).counts(1)[0])

    assert counted() == 3
    unkept = shop.SCHEMA.replace("order_id BIGINT PRIMARY KEY", "order_id BIGINT")
    unkept = unkept.replace("order_id BIGINT REFERENCES orders (order_id)", "order_id BIGINT")
    time.sleep(2 * LINGER_SECONDS)
    (tmp_path / "shop.duckdb").unlink()
    shop.make(tmp_path, schema=unkept)
    with pytest.raises(BackendError):
        counted()
    time.sleep(2 * LINGER_SECONDS)
    (tmp_path / "shop.duckdb").unlink()
    shop.make(tmp_path)
    assert counted() == 3
    backend.close()


COMPOSED = """
[backend]
url = "duckdb:///composed.duckdb"
[budget]
mode = "track"
[tables.p]
privacy_unit = "id"
privacy_unit_kind = "person"
"""


@pytest.mark.service
def test_arrays_and_bytes_are_groups_with_their_counts(tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "composed.duckdb") as connection:
        connection.execute("CREATE TABLE p (id BIGINT PRIMARY KEY, a VARCHAR[], b BLOB, n DECIMAL(9,2))")
        connection.execute(
            "INSERT INTO p SELECT g, CASE WHEN g % 4 = 0 THEN ['a\"', NULL] ELSE ['b'] END, "
            "CASE WHEN g % 4 = 0 THEN 'x'::BLOB ELSE '\\x00y'::BLOB END, 5 FROM range(20000) AS r(g)"
        )
    file = tmp_path / "dpproxy.toml"
    file.write_text(COMPOSED)
    with Service.start(configured(file), alone=True) as service:

        def asked(sql: str) -> dict[object, int]:
            rows = asyncio.run(service.ask("ann", sql)).rows
            return {row[0] if len(row) > 1 else None: int(row[-1] or 0) for row in rows}

        arrays = asked("SELECT a, count(*) FROM p GROUP BY a")
        assert arrays == {
            "{b}": pytest.approx(15000, abs=200),
            '{"a\\"",NULL}': pytest.approx(5000, abs=200),
        }
        texts = asked("SELECT b, count(*) FROM p GROUP BY b")
        assert texts == {
            "\\x0079": pytest.approx(15000, abs=200),
            "\\x78": pytest.approx(5000, abs=200),
        }
        # A constant that no decimal reaches.
        assert asked("SELECT count(*) FROM p WHERE n < 1e300") == {None: pytest.approx(20000, abs=200)}
        assert asked("SELECT count(*) FROM p WHERE n > 1e300") == {None: pytest.approx(0, abs=200)}
