"""PostgreSQL as a backend: what it alone has, from roles that may too much to connections that end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from dpproxy.backends.base import BackendError, BackendUnavailable, Cancellation, Fetched
from dpproxy.backends.postgres.adapter import PostgresBackend
from dpproxy.catalog.build_policy import build_policy
from dpproxy.config.sections import ConfigError, load
from dpproxy.deployment.service import Service, configured
from dpproxy.server.local_client import ClientError
from rewriter.plan import HistogramQuery
from rewriter.policy import enumerated
from tests.dpproxy.postgres_data import Databases, databases

pytestmark = pytest.mark.service


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    folder: Path = tmp_path_factory.mktemp("postgres")
    with databases(folder / "server") as made:
        yield made


OPENED: list[PostgresBackend] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


def backend_of(url: str, seconds: float = 60) -> PostgresBackend:
    OPENED.append(PostgresBackend(url, slots=1, seconds=seconds))
    return OPENED[-1]


def reading(server: Databases, *statements: str, seconds: float = 60) -> PostgresBackend:
    return backend_of(server.url(server.make(statements)), seconds)


def fetch(backend: PostgresBackend, sql: str) -> Fetched:
    with backend.open() as slot:
        return slot.fetch(HistogramQuery(sql, (), False, None), "", Cancellation(), 1000)


TYPES = [
    ("smallint", "smallint"),
    ("bigint", "bigint"),
    ("numeric", "numeric"),
    ("numeric(9,2)", "numeric(9,2)"),
    ("real", "real"),
    ("double precision", "double precision"),
    ("text", "text"),
    ("character varying(20)", "character varying(20)"),
    ("character(3)", "character(3)"),
    ("character(3)[]", "text[]"),
    ("boolean", "boolean"),
    ("date", "date"),
    ("timestamp without time zone", "timestamp without time zone"),
    ("timestamp(3) with time zone", "timestamp(3) with time zone"),
    ("time without time zone", "time without time zone"),
    ("interval", "interval"),
    ("uuid", "uuid"),
    ("bytea", "bytea"),
    ("jsonb", "jsonb"),
    ("integer[]", "integer[]"),
    ("text[]", "text[]"),
    ("positive", "integer"),
    ("shorter", "numeric(4,1)"),
    ("mood", enumerated("public", "mood", ["sad", "ok"])),
    ("mood[]", None),
    ("inet", None),
    ("money", None),
    ("point", None),
    ("int4range", None),
    ("xml", None),
    ("pair", None),
]


def test_types(server: Databases) -> None:
    listed = ", ".join(f"c{number} {kind}" for number, (kind, _) in enumerate(TYPES))
    backend = reading(
        server,
        "CREATE DOMAIN positive AS integer CHECK (VALUE > 0)",
        "CREATE DOMAIN short AS numeric(4,1)",
        "CREATE DOMAIN shorter AS short",
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE TYPE pair AS (x integer, y integer)",
        f"CREATE TABLE t ({listed})",
    )
    table = backend.schema().tables["public", "t"]
    assert [(kind, column.type) for (kind, _), column in zip(TYPES, table.columns, strict=True)] == TYPES


def test_what_the_server_does_not_enforce_is_no_constraint(server: Databases) -> None:
    backend = reading(
        server,
        "CREATE TABLE parent (id bigint PRIMARY KEY, v int)",
        "CREATE TABLE child () INHERITS (parent)",
        "CREATE TABLE other (id bigint UNIQUE, part int, CHECK (id > 0))",
        "CREATE UNIQUE INDEX partial ON other (part) WHERE part > 3",
        "CREATE UNIQUE INDEX computed ON other (abs(part))",
        "ALTER TABLE other ADD FOREIGN KEY (id) REFERENCES parent (id) NOT VALID",
        "CREATE TABLE whole (id bigint, region text, PRIMARY KEY (id, region)) PARTITION BY LIST (region)",
        "CREATE TABLE whole_eu PARTITION OF whole FOR VALUES IN ('eu')",
    )
    tables = backend.schema().tables
    assert {name for _, name in tables} == {"parent", "child", "other", "whole"}
    assert (tables["public", "parent"].primary_key, tables["public", "parent"].unique) == (None, ())
    assert all(column.nullable for column in tables["public", "parent"].columns)
    assert not any(column.nullable for column in tables["public", "whole"].columns)
    assert tables["public", "other"].unique == (("id",),)
    assert tables["public", "other"].foreign_keys == ()
    assert tables["public", "whole"].primary_key == ("id", "region")


def test_a_unit_whose_collation_folds_texts_is_refused(server: Databases, tmp_path: Path) -> None:
    """The catalog says so of a collation of ICU, which an embedded server is built without: it is written there."""
    name = server.make(
        (
            'CREATE COLLATION folding FROM "C"',
            "CREATE DOMAIN spelling AS text COLLATE folding",
            'CREATE TABLE people (u spelling PRIMARY KEY, plain text COLLATE "C")',
        )
    )
    with server.owner(name) as owner:
        owner.execute("SET allow_system_table_mods = on")
        owner.execute("UPDATE pg_collation SET collisdeterministic = false WHERE collname = 'folding'")
    schema = backend_of(server.url(name)).schema()
    assert [c.folds for c in schema.tables["public", "people"].columns] == [True, False]
    toml = tmp_path / "dpproxy.toml"
    toml.write_text(f'[backend]\nurl = "{server.url(name)}"\n[tables.people]\nprivacy_unit = "u"\n')
    with pytest.raises(ConfigError, match="makes one value of several texts"):
        build_policy(load(toml), schema, backend_of(server.url(name)))


def test_what_is_not_shown(server: Databases) -> None:
    name = server.make(
        (
            "CREATE TABLE shown (id bigint, secret text, v int)",
            "CREATE VIEW seen AS SELECT * FROM shown",
            "CREATE MATERIALIZED VIEW kept AS SELECT * FROM shown",
            "CREATE TABLE guarded (id bigint)",
            "ALTER TABLE guarded ENABLE ROW LEVEL SECURITY",
            "CREATE TABLE private (id bigint)",
            "CREATE FOREIGN DATA WRAPPER elsewhere",
            "CREATE SERVER away FOREIGN DATA WRAPPER elsewhere",
            "CREATE FOREIGN TABLE remote (id bigint) SERVER away",
            "CREATE TABLE parted (id bigint, part int) PARTITION BY LIST (part)",
            "CREATE TABLE parted_near PARTITION OF parted FOR VALUES IN (1) PARTITION BY LIST (id)",
            "CREATE FOREIGN TABLE parted_far PARTITION OF parted_near FOR VALUES IN (2) SERVER away",
            "CREATE TABLE parent (id bigint)",
            "CREATE FOREIGN TABLE child () INHERITS (parent) SERVER away",
        )
    )
    with server.owner(name) as owner:
        owner.execute("REVOKE SELECT ON private, shown FROM reader")
        owner.execute("GRANT SELECT (id, v) ON shown TO reader")
    tables = backend_of(server.url(name)).schema().tables
    assert set(tables) == {("public", "shown")}
    assert [column.name for column in tables["public", "shown"].columns] == ["id", "v"]


@pytest.mark.parametrize(
    ("grant", "told"),
    [
        ("ALTER ROLE {} CREATEDB", "may create roles"),
        ("ALTER ROLE {} SUPERUSER", "is a superuser"),
        ("GRANT pg_read_server_files TO {}", "server's files"),
        ("GRANT pg_write_all_data TO {}", "may write"),
        ("GRANT UPDATE ON t TO {}", "may write to a table"),
        ("ALTER TABLE t OWNER TO {}", "may write to a table"),
        ("GRANT CREATE ON SCHEMA public TO {}", "create things"),
    ],
)
def test_a_role_that_may_do_more_than_read_is_refused(
    server: Databases, request: pytest.FixtureRequest, grant: str, told: str
) -> None:
    role = f"role_{abs(hash(grant))}"
    name = server.make(("CREATE TABLE t (x int)", f"CREATE ROLE {role} LOGIN PASSWORD 'p'"))
    with server.owner(name) as owner:
        owner.execute(grant.format(role).encode())
    with pytest.raises(BackendUnavailable, match=told):
        backend_of(server.url(name, role, "p")).open()


def test_a_database_in_another_encoding_is_refused(server: Databases) -> None:
    with server.owner("postgres") as owner:
        owner.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    with pytest.raises(BackendUnavailable, match="encoding is not UTF8"):
        backend_of(server.url("latin")).open()


def test_reasons_for_which_nobody_connects(server: Databases) -> None:
    for url, told in (
        (server.url("postgres", password="wrong"), "the password is wrong"),
        (server.url("nowhere"), "there is no such database or role"),
    ):
        with pytest.raises(BackendUnavailable, match=told) as caught:
            backend_of(url).open()
        assert "wrong'" not in str(caught.value)
        assert caught.value.__context__ is None


def test_a_password_is_replaced_in_its_file(server: Databases, tmp_path: Path) -> None:
    name, file = server.make(()), tmp_path / "password"
    with server.owner(name) as owner:
        owner.execute("CREATE ROLE rotated LOGIN PASSWORD 'old'")
    url = server.url(name, "rotated", "").replace(":@", "@")
    backend = PostgresBackend(url, slots=2, seconds=60, password_file=file)
    OPENED.append(backend)
    file.write_text("old\n")
    with backend.open() as slot:
        with server.owner(name) as owner:
            owner.execute("ALTER ROLE rotated PASSWORD 'new'")
        # A connection that is open stays; another one needs the new password.
        with pytest.raises(BackendUnavailable, match="the password is wrong") as caught:
            backend.open()
        file.write_text("new\n")
        with backend.open():
            pass
        assert slot.fetch(HistogramQuery("SELECT 1", (), False, None), "", Cancellation(), 1000).rows == 1
    file.unlink()
    backend.close()
    with pytest.raises(BackendUnavailable, match="password_file cannot be read") as missing:
        PostgresBackend(url, slots=1, seconds=60, password_file=file).open()
    assert "old" not in str(caught.value) + str(missing.value)


def test_settings_are_pinned_whatever_the_role_has(server: Databases) -> None:
    name = server.make(("CREATE TABLE t (x int)",))
    with server.owner(name) as owner:
        for setting in ("TimeZone = 'Asia/Tokyo'", "DateStyle = 'German'", "search_path = 'public'"):
            owner.execute(f"ALTER ROLE reader SET {setting}".encode())
        if owner.info.server_version >= 170_000:
            owner.execute("ALTER ROLE reader SET transaction_timeout = '100ms'")
    try:
        backend = backend_of(server.url(name))
        names = "'TimeZone', 'DateStyle', 'search_path', 'work_mem', 'transaction_read_only'"
        sql = f"SELECT current_setting(n), DATE '2024-12-31' FROM unnest(ARRAY[{names}]) AS n"
        fetched = fetch(backend, sql)
        assert fetched.texts(0) == ("UTC", "ISO, YMD", "pg_catalog", "64MB", "on")
        assert set(fetched.texts(1)) == {"2024-12-31"}
        assert fetch(backend, "SELECT 1 FROM pg_sleep(0.3)").texts(0) == ("1",)
        backend.close()
    finally:
        with server.owner(name) as owner:
            owner.execute("ALTER ROLE reader RESET ALL")


def test_workers_share_a_query(server: Databases) -> None:
    """PostgreSQL plans none for cursors; what is added up is the same."""
    name = server.make(("CREATE TABLE t AS SELECT i, i % 7 AS g FROM generate_series(1, 1000) AS s(i)",))
    eager = "parallel_setup_cost = 0", "parallel_tuple_cost = 0", "min_parallel_table_scan_size = 0"
    try:
        with server.owner(name) as owner:
            for setting in eager:
                owner.execute(f"ALTER ROLE reader SET {setting}".encode())
        backend = backend_of(server.url(name))
        query = HistogramQuery("SELECT g, SUM(i)::bigint FROM public.t GROUP BY g", (), False, None)
        with backend.open() as slot:
            fetched = slot.fetch(query, "", Cancellation(), 100)
            slot.held.execute(b"SELECT pg_stat_force_next_flush()")
            launched = (
                b"SELECT parallel_workers_launched FROM pg_stat_database WHERE datname = current_database()"
            )
            assert slot.held.execute(launched).fetchall() > [(0,)]
        assert sum(fetched.counts(1).tolist()) == 500500
        backend.close()
    finally:
        with server.owner(name) as owner:
            owner.execute(b"ALTER ROLE reader RESET ALL")


def test_totals_of_units_are_joined_in_one_pass_over_each(server: Databases) -> None:
    """Few rows are expected of a CTE that is joined to itself; nested loops would compare 10^9 pairs, for a minute."""
    backend = reading(server, seconds=5)
    units = (
        "u AS MATERIALIZED (SELECT n FROM generate_series(1, 40000) AS s(n) WHERE n + 0 = n AND n - 0 = n)"
    )
    sql = (
        f"WITH {units}, m AS MATERIALIZED (SELECT n FROM u) SELECT count(*)::text FROM u JOIN m ON u.n = m.n"
    )
    assert fetch(backend, sql).texts(0) == ("40000",)
    backend.close()


def test_the_longest_query(server: Databases) -> None:
    backend = reading(server, seconds=0.2)
    started = time.monotonic()
    with pytest.raises(BackendError) as caught:
        fetch(backend, "SELECT pg_sleep(60)")
    assert time.monotonic() - started < 10
    assert caught.value.__context__ is None
    assert fetch(backend, "SELECT 1").rows == 1


def end_all(server: Databases, database: str) -> None:
    with server.owner("postgres") as owner:
        owner.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s", (database,)
        )


def test_a_connection_that_was_ended_is_replaced(server: Databases) -> None:
    name = server.make(())
    backend = backend_of(server.url(name))
    assert fetch(backend, "SELECT 1").rows == 1
    end_all(server, name)
    assert fetch(backend, "SELECT 1").rows == 1
    with backend.open() as slot:
        end_all(server, name)
        with pytest.raises(BackendError) as caught:
            slot.fetch(HistogramQuery("SELECT 1", (), False, None), "", Cancellation(), 10)
        assert caught.value.__context__ is None
        assert slot.fetch(HistogramQuery("SELECT 1", (), False, None), "", Cancellation(), 10).rows == 1
    backend.close()


def test_connections_are_kept_and_ended(server: Databases) -> None:
    name = server.make(())
    backend = backend_of(server.url(name))
    pids = {fetch(backend, "SELECT pg_backend_pid()").texts(0) for _ in range(3)}
    assert len(pids) == 1
    backend.close()
    with server.owner("postgres") as owner:
        for _ in range(100):
            row = owner.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = %s", (name,)
            ).fetchone()
            if row == (0,):
                return
            time.sleep(0.05)
    raise AssertionError("a connection outlived its backend")


def test_a_snapshot_of_its_own(server: Databases) -> None:
    backend = reading(server, "CREATE TABLE t (x int)")
    assert fetch(backend, "SELECT current_setting('transaction_isolation')").texts(0) == ("repeatable read",)
    with (
        pytest.raises(psycopg.errors.InsufficientPrivilege),
        psycopg.connect(server.url(server.make(()))) as other,
    ):
        other.execute("CREATE TABLE t (x int)")


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE orders DROP CONSTRAINT orders_pkey",
        "ALTER TABLE orders DROP CONSTRAINT orders_pkey; CREATE UNIQUE INDEX ON orders (id) WHERE owner > 0",
        "ALTER TABLE orders DROP CONSTRAINT orders_pkey; CREATE UNIQUE INDEX ON orders (id, owner)",
        "CREATE TABLE more () INHERITS (orders)",
        "ALTER TABLE orders RENAME TO others",
    ],
)
def test_a_path_is_followed_while_its_keys_are_kept_in_the_querys_snapshot(
    server: Databases, change: str
) -> None:
    name = server.make(("CREATE TABLE orders (id int PRIMARY KEY, owner int)",))
    backend = backend_of(server.url(name))
    query = HistogramQuery("SELECT 1", (), False, None, unique=frozenset({(("public", "orders"), ("id",))}))

    def fetched() -> int:
        with backend.open() as slot:
            return slot.fetch(query, "", Cancellation(), 10).rows

    assert fetched() == 1
    with server.owner(name) as owner:
        owner.execute(change.encode())
    with pytest.raises(BackendError):
        fetched()


FILTERED = """
[backend]
url = "{}"
[budget]
mode = "track"
[tables.u]
privacy_unit = "id"
[tables.t]
privacy_unit = "id"
where = "100 / i > 0"
"""


def test_a_row_filter_that_raises_fails_whatever_is_joined(server: Databases, tmp_path: Path) -> None:
    """If it failed only where the analyst's person has a row in `u`, that would be an exact answer about them."""
    database = server.make(
        [
            "CREATE TABLE u (id bigint, town text)",
            "CREATE TABLE t (id bigint, i int)",
            "INSERT INTO t SELECT g, g FROM generate_series(0, 300) g",
        ]
    )
    file = tmp_path / "dpproxy.toml"
    file.write_text(FILTERED.format(server.url(database)))
    with Service.start(configured(file), alone=True) as service:
        for sql in (
            "SELECT count(*) FROM u JOIN t USING (id) WHERE u.town = 'Ulm'",
            "SELECT count(*) FROM u WHERE u.town = 'Ulm' AND u.id IN (SELECT id FROM t)",
            "SELECT count(*) FROM u WHERE (SELECT count(*) FROM t WHERE t.id = u.id) > 0",
        ):
            with pytest.raises(ClientError, match="could not run"):
                asyncio.run(service.ask("ann", sql))
        asyncio.run(service.ask("bob", "SELECT count(*) FROM u"))


LONG = 140_000_000
EXTREME = """
[backend]
url = "{}"
[budget]
mode = "track"
[tables.t]
privacy_unit = "id"
privacy_unit_kind = "person"
max_rows_per_unit = 5
[tables.long]
privacy_unit = "id"
privacy_unit_kind = "person"
[tables.odd]
privacy_unit = "id"
privacy_unit_kind = "person"
unique = ["id"]
[tables.wide]
privacy_unit = "id"
privacy_unit_kind = "person"
[tables.named]
privacy_unit = ["a", "b", "c", "d"]
privacy_unit_kind = "name"
[tables.t.columns]
n = {{ bounds = [-5, 60], scale = 2 }}
i = {{ bounds = [0, 10] }}
"""
LARGE = "(i * 1e200 * 1e200)"
GROWN = f"replace(replace(replace(s, 'a', '{'x' * 100}'), 'x', '{'x' * 100}'), 'x', '{'x' * 100}')"
WIDE = ", ".join(f"replace(y, 'x', '{chr(0x1F600 + n) * 10}')" for n in range(28))
"""More than a gigabyte in one row, if each had ten million characters."""
CUT = ", ".join((f"left(s, {LONG})", f"right(s, {LONG})", f"substr(s, 1, {LONG})", "split_part(s, 'q', 1)"))
TINY = f"i{' * 1e-300' * 50}"
LAST = ", ".join(f"max({c}) OVER (PARTITION BY id) AS {c}" for c in "abcd")
RAISING = (
    f"SELECT count(*) FROM (SELECT id, sum({LARGE}) AS y FROM t WHERE s = 'aaa' GROUP BY id) x WHERE y > 3",
    f"SELECT count(*) FROM (SELECT id, avg({LARGE}) AS y FROM t WHERE s = 'aaa' GROUP BY id) x WHERE y > 3",
    f"SELECT count(*) FROM (SELECT id, variance({LARGE}) AS y FROM t WHERE s = 'aaa' GROUP BY id) x WHERE y > 3",
    "SELECT min(i * 1e-200 * 1e-200) FROM t",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY i * 1e-200 * 1e-200) FROM t",
    "SELECT sum(n), avg(n), variance(n), min(n) FROM t",
    "SELECT sum(greatest(0, least(n, 10))) FROM t WHERE n BETWEEN 0 AND 10",
    f"SELECT count(*) FROM (SELECT id, {GROWN} AS y FROM long WHERE id = 8) x "
    f"WHERE concat({', '.join(['y'] * 11)}) = 'b'",
    "SELECT count(*) FROM long WHERE trim(s) || 'a' = 'b'",
    "SELECT count(*) FROM long WHERE s ~ 'ab'",
    "SELECT count(*) FROM t WHERE coalesce(d, ts) > '2020-01-01'",
    "SELECT count(*) FROM t WHERE CASE WHEN i > 0 THEN d ELSE ts END > '2020-01-01'",
    "SELECT count(*) FROM t WHERE round(n, 2) > 5 OR ceil(n) > 5 OR n::numeric(10,2) > 5",
    f"SELECT count(*) FROM (SELECT id, {GROWN} AS y FROM long WHERE id = 8) x GROUP BY {WIDE}",
    f"SELECT count(*) FROM (SELECT DISTINCT id, {WIDE} FROM (SELECT id, {GROWN} AS y FROM long WHERE id = 8) x) z",
    "SELECT n, count(*) FROM odd WHERE id = 7 GROUP BY n",
    "SELECT count(DISTINCT b), count(DISTINCT n), count(DISTINCT a), count(DISTINCT i) FROM odd",
    "SELECT count(*) FROM (SELECT DISTINCT id, b, a FROM odd) x",
    "SELECT count(*) FROM odd WHERE 'x' = ANY (a)",
    "SELECT s, count(*) FROM long GROUP BY s",
    f"SELECT count(*) FROM (SELECT id, row_number() OVER (PARTITION BY id ORDER BY {CUT}) AS r FROM long) x "
    "WHERE r = 1",
    f"SELECT count(*) FROM (SELECT id, count(DISTINCT x) AS r FROM (SELECT id, x, {LAST} FROM wide) y "
    "WHERE a <> 'q' AND b <> 'q' AND c <> 'q' AND d <> 'q' GROUP BY id) z",
    "SELECT count(DISTINCT x) FROM named",
    f"SELECT count(1{' / y' * 9}) FROM (SELECT id, max({TINY}) AS y FROM t GROUP BY id) x",
    f"SELECT sum(1{' / y' * 9}) FROM (SELECT id, max({TINY}) OVER (PARTITION BY id) AS y FROM t) x",
    f"SELECT sum(i{' / n' * 11}), count(i{' / (n * 0.5)' * 9}) FROM t",
    "SELECT sum(f), avg(f), stddev(f), max(f) FROM t WHERE f BETWEEN -1e30 AND 1e30",
    "SELECT corr(f, i), percentile_cont(0.5) WITHIN GROUP (ORDER BY f) FROM t WHERE f BETWEEN -1e30 AND 1e30",
    "SELECT sum(least(greatest(i::float8 * 1e-300 * 1e-21, -1e10), 1e10)) FROM t",
)
"""Statements at which PostgreSQL would raise for the extreme rows below or, with what they multiply, for any row."""


def test_no_row_makes_postgresql_raise(server: Databases, tmp_path: Path) -> None:
    """Whether a query fails would be an exact answer about the person whose row it is."""
    database = server.make(
        [
            "CREATE TABLE t (id bigint, i int, n numeric, s text, d date, ts timestamp, f double precision)",
            "INSERT INTO t VALUES (7, 5, 5, 'aaa', NULL, NULL, 5e-324), (7, 5, 5, 'aaa', NULL, NULL, 'NaN')",
            "INSERT INTO t SELECT g, 5, 5, 'aaa', '2020-01-02', '2020-01-02' FROM generate_series(1, 300) g",
            "CREATE TABLE long (id bigint, s text)",
            f"INSERT INTO long VALUES (7, repeat('ö', {LONG})), (8, repeat('a', 100))",
            "CREATE TABLE named AS SELECT s AS a, s AS b, s AS c, s AS d, 1 AS x FROM long",
            "CREATE TABLE wide AS SELECT 7::bigint AS id, * FROM named",
            "CREATE TABLE odd (id bigint, j jsonb, n numeric[], b bytea, a text[], i int[])",
            "INSERT INTO odd SELECT 7, ('[' || repeat('1e131000,', 8299) || '1]')::jsonb, array_agg(d), 'a', '{x,y}', "
            "'{1}' FROM (SELECT '1e131000'::numeric AS d FROM generate_series(1, 8300)) AS ds",
            "INSERT INTO t (id, i, n, d) VALUES (7, 5, 1e-16383, '5874897-12-31'), (7, 5, 'NaN', 'infinity'), "
            "(7, 5, (repeat('9', 131072) || '.999')::numeric, NULL), (7, 5, '-Infinity', NULL)",
        ]
    )
    file = tmp_path / "dpproxy.toml"
    file.write_text(EXTREME.format(server.url(database)))
    with Service.start(configured(file), alone=True) as service:
        for sql in RAISING:
            asyncio.run(service.ask("ann", sql))
        with pytest.raises(ClientError, match="finite bounds"):
            asyncio.run(service.ask("ann", "SELECT min(i * 1e200 * 1e200) FROM t"))
        for sql in ("SELECT j, count(*) FROM odd GROUP BY j", "SELECT count(DISTINCT j) FROM odd"):
            with pytest.raises(ClientError, match="jsonb cannot be grouped by"):
                asyncio.run(service.ask("ann", sql))
