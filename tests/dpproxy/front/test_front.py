"""The front: the clone of what the policy shows, public rows, analysts' roles, arrays, and reading statements."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psycopg
import pytest

from dpproxy.backends.base import BackendSchema
from dpproxy.backends.duckdb.adapter import DuckDBBackend
from dpproxy.engine.result.binary_arrays import INT8_ARRAY, TEXT_ARRAY, int8_array, text_array
from dpproxy.front.front import Front, FrontError
from dpproxy.front.statement import Described
from rewriter.policy import Policy
from rewriter.refusal import Refusal
from tests.dpproxy import shop
from tests.dpproxy.backends.test_duckdb import TYPES

pytestmark = pytest.mark.service

PRODUCTS = ("public", "products")


@pytest.fixture(scope="module")
def shopped(tmp_path_factory: pytest.TempPathFactory) -> tuple[DuckDBBackend, Policy]:
    _, backend, policy = shop.opened(shop.make(tmp_path_factory.mktemp("shop")))
    return backend, policy


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    with Front.start(tmp_path_factory.mktemp("front")) as front:
        yield front


@pytest.fixture
def front(started: Front, shopped: tuple[DuckDBBackend, Policy]) -> Front:
    filled(started, *shopped)
    return started


def filled(front: Front, backend: DuckDBBackend, policy: Policy) -> None:
    front.clone(policy, backend.schema())
    for table in policy.tables.values():
        if table.in_front:
            front.load_public(table, backend.read_public(table))


def session(front: Front, analyst: str = "alice") -> psycopg.Connection:
    role, password = front.role_for(analyst)
    assert isinstance(front.address, Path)
    host = str(front.address.parent)
    return psycopg.connect(host=host, user=role, password=password, dbname=front.database, autocommit=True)


def asked(front: Front, sql: str) -> list[tuple[object, ...]]:
    with session(front) as analyst:
        return analyst.execute(sql.encode()).fetchall()


def test_the_clone_shows_what_the_policy_shows(front: Front) -> None:
    columns = asked(
        front,
        "SELECT table_schema || '.' || table_name, column_name, data_type, is_nullable "
        "FROM information_schema.columns WHERE table_schema NOT IN ('pg_catalog', 'information_schema') "
        "ORDER BY table_schema, table_name, ordinal_position",
    )
    text, integer, bigint, numeric = "text", "integer", "bigint", "numeric"
    zoned, plain = "timestamp with time zone", "timestamp without time zone"
    assert columns == [
        ("app.visits", "visitor", bigint, "YES"),
        ("app.visits", "page", text, "YES"),
        ("app.visits", "seen", zoned, "YES"),
        *(("dpproxy.budget", name, text, "YES") for name in ("account", "unit")),
        *(("dpproxy.budget", name, numeric, "YES") for name in ("limit", "used", "reserved", "left")),
        ("dpproxy.budget", "refreshes_at", zoned, "YES"),
        *(("dpproxy.columns", name, text, "YES") for name in ("table_schema", "table_name", "column_name")),
        *(("dpproxy.columns", name, text, "YES") for name in ("data_type", "class")),
        *(("dpproxy.last_release", name, text, "YES") for name in ("mechanism", "stddev", "noise")),
        ("dpproxy.last_release", "threshold", numeric, "YES"),
        *(("dpproxy.last_release", name, numeric, "YES") for name in ("information", "calls")),
        *(("dpproxy.last_release", name, numeric, "YES") for name in ("information_left", "calls_left")),
        ("dpproxy.last_release", "replayed", "boolean", "YES"),
        ("dpproxy.last_release", "notice", text, "YES"),
        ("dpproxy.last_release", "warning", text, "YES"),
        ("dpproxy.last_release", "at", zoned, "YES"),
        ("dpproxy.published", "name", text, "YES"),
        *(("dpproxy.published", name, text, "YES") for name in ("publisher", "refresh")),
        *(("dpproxy.published", name, zoned, "YES") for name in ("refreshed_at", "next_refresh")),
        *(("dpproxy.published", name, numeric, "YES") for name in ("information", "calls")),
        *(("dpproxy.published", name, text, "YES") for name in ("last_error", "query")),
        ("dpproxy.published", "version", "uuid", "YES"),
        ("dpproxy.releases", "at", zoned, "YES"),
        *(("dpproxy.releases", name, text, "YES") for name in ("query", "mechanism", "noise")),
        *(("dpproxy.releases", name, numeric, "YES") for name in ("information", "calls")),
        ("dpproxy.releases", "replayed", "boolean", "YES"),
        ("dpproxy.releases", "attributed", text, "YES"),
        ("public.items", "order_id", bigint, "YES"),
        ("public.items", "product_id", integer, "YES"),
        ("public.items", "size", "USER-DEFINED", "YES"),
        ("public.items", "price", numeric, "YES"),
        ("public.orders", "order_id", bigint, "NO"),
        ("public.orders", "user_id", bigint, "YES"),
        ("public.orders", "placed", plain, "YES"),
        ("public.orders", "note", "json", "YES"),
        ("public.products", "product_id", integer, "NO"),
        ("public.products", "name", text, "NO"),
        ("public.products", "color", text, "YES"),
        ("public.users", "user_id", bigint, "NO"),
        ("public.users", "country", text, "YES"),
        ("public.users", "birth_year", integer, "YES"),
    ]


def test_keys_and_references(front: Front) -> None:
    listed = "SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint WHERE contype IN "
    found = asked(front, f"{listed} ('p', 'u', 'f') AND conrelid <> 0 ORDER BY 1, 2")
    assert [row for row in found if not str(row[0]).startswith("pg_")] == [
        ("items", "FOREIGN KEY (order_id) REFERENCES orders(order_id)"),
        ("items", "FOREIGN KEY (product_id) REFERENCES products(product_id)"),
        ("items", "UNIQUE (order_id, product_id)"),
        ("orders", "FOREIGN KEY (user_id) REFERENCES users(user_id)"),
        ("orders", "PRIMARY KEY (order_id)"),
        ("products", "PRIMARY KEY (product_id)"),
        ("products", "UNIQUE (name)"),
        ("users", "PRIMARY KEY (user_id)"),
    ]


def test_comments_tell_a_columns_class(front: Front) -> None:
    found = asked(
        front,
        "SELECT attname, col_description(attrelid, attnum) FROM pg_attribute "
        "WHERE attrelid IN ('users'::regclass, 'items'::regclass) AND attnum > 0 ORDER BY attrelid, attnum",
    )
    assert {str(name): said for name, said in found} == {
        "user_id": "privacy unit",
        "country": "Where it's sent: known domain of 3 values and NULL",
        "birth_year": "known domain, 1900 to 2020 and NULL",
        "order_id": "unknown domain",
        "product_id": "known domain, products.product_id, a unit counts in at most 7, "
        "a unit counts in at most 9 with size",
        "size": "known domain of 2 values and NULL, a unit counts in at most 9 with product_id",
        "price": "unknown domain, in sums a row counts 0 to 99.5 with 2 decimals",
    }
    own = (
        "SELECT d.description, k.class FROM pg_description AS d JOIN pg_attribute AS a ON a.attrelid = d.objoid "
        "AND a.attnum = d.objsubid JOIN dpproxy.columns AS k ON k.column_name = a.attname AND k.table_name = 'users' "
        "WHERE d.objoid = 'users'::regclass AND a.attname IN ('country', 'birth_year') ORDER BY a.attnum"
    )
    assert asked(front, own) == [
        ("Where it's sent", "known domain of 3 values and NULL"),
        ("known domain, 1900 to 2020 and NULL", "known domain, 1900 to 2020 and NULL"),
    ]
    tables = (
        "SELECT obj_description(name::regclass) FROM unnest(ARRAY['users', 'products', 'orders']) AS name"
    )
    assert asked(front, tables) == [
        ("Who buys",),
        ("(public)",),
        ("(private, the unit is user_id)",),
    ]


def test_the_search_path_is_the_policys(front: Front) -> None:
    assert asked(front, "SHOW search_path") == [("app, public",)]
    assert front.describe("SELECT page FROM visits", ()) == (Described("page", "text", 25),)


def test_the_clone_is_made_once_and_follows_the_policy(
    front: Front, shopped: tuple[DuckDBBackend, Policy]
) -> None:
    backend, policy = shopped
    oid = "SELECT 'products'::regclass::oid"
    before = asked(front, oid)
    front.clone(policy, backend.schema())
    assert asked(front, oid) == before
    assert asked(front, "SELECT count(*) FROM products") == [(3,)]
    fewer = {name: table for name, table in policy.tables.items() if name[1] in ("users", "products")}
    front.clone(Policy(fewer), backend.schema())
    assert asked(
        front, "SELECT to_regclass('public.orders'), to_regclass('app.visits'), to_regclass('users')"
    ) == [(None, None, "users")]
    assert asked(front, "SELECT count(*) FROM products") == [(0,)]
    assert asked(front, "SHOW search_path") == [("public",)]
    assert front.describe("SELECT 1 AS x FROM users", ()) == (Described("x", "integer", 23),)


def test_every_type_of_the_backend(tmp_path: Path, started: Front) -> None:
    listed = ", ".join(f"c{number} {kind}" for number, (kind, _) in enumerate(TYPES))
    policy_text = '[backend]\nurl = "duckdb:///shop.duckdb"\n[tables.t]\npublic = true\n'
    file = shop.make(tmp_path, policy_text, f"CREATE TABLE t ({listed}); INSERT INTO t (c0) VALUES (NULL)")
    _, backend, policy = shop.opened(file)
    filled(started, backend, policy)
    described = started.describe("SELECT * FROM t", ())
    assert [column.type for column in described] == [kind for _, kind in TYPES if kind is not None]


VALUES = """CREATE TABLE t (a BOOLEAN, b HUGEINT, c DOUBLE, d DECIMAL(9,2), e BLOB, f DATE, g TIMESTAMPTZ, h TIME,
    i VARCHAR[], j VARCHAR, k TIMESTAMP_NS, l INTERVAL, m UUID);
INSERT INTO t VALUES (true, 170141183460469231731687303715884105727, 'inf', 1.5, '\\xAB', 'infinity',
    '2024-01-01 10:00:00+02', '24:00:00', ['a"b', NULL, ''], 'tab\t, new\nline, \\ and \\N', '2024-01-01 00:00:00.5',
    INTERVAL '1 month 2 days', 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11')"""


def test_public_values_arrive_as_they_are(tmp_path: Path, started: Front) -> None:
    policy_text = '[backend]\nurl = "duckdb:///shop.duckdb"\n[tables.t]\npublic = true\n'
    _, backend, policy = shop.opened(shop.make(tmp_path, policy_text, VALUES))
    filled(started, backend, policy)
    assert started.rows("SELECT * FROM t") == (
        (
            *("true", "170141183460469231731687303715884105727", "Infinity", "1.50", "\\xab", "infinity"),
            *("2024-01-01 08:00:00+00", "24:00:00", '{"a\\"b",NULL,""}', "tab\t, new\nline, \\ and \\N"),
            *("2024-01-01 00:00:00.5", "1 mon 2 days", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        ),
    )


def test_public_rows_are_replaced_all_at_once(front: Front, shopped: tuple[DuckDBBackend, Policy]) -> None:
    products = shopped[1].tables[PRODUCTS]

    def broken() -> Iterator[tuple[str | None, ...]]:
        yield ("7", "knife", None)
        raise RuntimeError("the backend went away")

    with pytest.raises(RuntimeError):
        front.load_public(products, broken())
    with pytest.raises(FrontError, match="products_pkey"):
        front.load_public(products, [("7", "knife", None), ("7", "spoon", None)])
    assert front.rows("SELECT count(*) FROM products") == (("3",),)
    with session(front) as reader, reader.transaction():
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        assert reader.execute("SELECT count(*) FROM products").fetchone() == (3,)
        front.load_public(products, [("7", "knife", None)])
        assert reader.execute("SELECT count(*) FROM products").fetchone() == (3,)
    assert front.rows("SELECT * FROM products") == (("7", "knife", None),)


def test_public_tables_that_refer_to_each_other_are_loaded_again(started: Front, tmp_path: Path) -> None:
    """As at the start of each epoch: rows of one are replaced while those of the other refer to them."""
    policy = """
        [backend]
        url = "duckdb:///shop.duckdb"
        [tables.users]
        privacy_unit = "user_id"
        [tables.makers]
        public = true
        [tables.goods]
        public = true
    """
    schema = """
        CREATE TABLE users (user_id BIGINT PRIMARY KEY);
        CREATE TABLE makers (maker_id INTEGER PRIMARY KEY);
        CREATE TABLE goods (good_id INTEGER PRIMARY KEY, maker_id INTEGER NOT NULL REFERENCES makers (maker_id));
        INSERT INTO makers VALUES (1), (2);
        INSERT INTO goods VALUES (10, 1), (11, 2)
    """
    _, backend, policies = shop.opened(shop.make(tmp_path, policy, schema))
    for _ in range(2):
        filled(started, backend, policies)
        assert started.rows("SELECT count(*) FROM goods JOIN makers USING (maker_id)") == (("2",),)


def test_who_loads_at_the_same_time_loads_one_after_the_other(
    front: Front, shopped: tuple[DuckDBBackend, Policy]
) -> None:
    products = shopped[1].tables[PRODUCTS]
    first_began, second_began = threading.Event(), threading.Event()

    def slow() -> Iterator[tuple[str | None, ...]]:
        first_began.set()
        second_began.wait(5)
        time.sleep(0.2)
        yield ("7", "knife", None)

    def load_second() -> None:
        first_began.wait(5)
        second_began.set()
        front.load_public(products, [("7", "knife", None), ("8", "spoon", None)])

    second = threading.Thread(target=load_second)
    second.start()
    front.load_public(products, slow())
    second.join()
    assert front.rows("SELECT name FROM products ORDER BY 1") == (("knife",), ("spoon",))


def test_only_public_tables_of_the_front_are_loaded(
    front: Front, shopped: tuple[DuckDBBackend, Policy]
) -> None:
    with pytest.raises(ValueError, match="not copied"):
        front.load_public(shopped[1].tables["public", "users"], [])


def test_a_role_belongs_to_one_analyst(front: Front) -> None:
    assert asked(front, "SELECT current_user, session_user") == [("alice", "alice")]
    odd = 'Bob "x"; --é'
    with session(front, odd) as bob:
        assert bob.execute("SELECT current_user").fetchone() == (odd,)
        assert bob.execute(
            "SELECT rolsuper OR rolcreaterole OR rolcreatedb OR rolbypassrls FROM pg_roles "
            "WHERE rolname = current_user"
        ).fetchone() == (False,)
    assert front.role_for("alice") == front.role_for("alice") != front.role_for(odd)


def test_what_an_analyst_changes_of_the_role_is_put_back(front: Front) -> None:
    with session(front) as alice:
        alice.execute("ALTER ROLE alice PASSWORD 'x'")
        alice.execute("ALTER ROLE alice SET client_encoding = 'LATIN1'")
        alice.execute("ALTER ROLE alice IN DATABASE dpproxy SET search_path = 'nowhere'")
    assert asked(front, "SELECT current_setting('client_encoding'), current_setting('search_path')") == [
        ("UTF8", "app, public")
    ]


def test_roles_log_in_without_rounds_and_others_passwords_have_them(front: Front) -> None:
    with session(front) as alice:
        if alice.info.server_version < 160000:
            pytest.skip("PostgreSQL 16 is the first that takes a number of rounds")
        assert kept_of(front, "alice").startswith("SCRAM-SHA-256$1:")
        assert alice.execute("SHOW scram_iterations").fetchone() == ("4096",)


def kept_of(front: Front, role: str) -> str:
    """What the front keeps of a role's password."""
    with front._as_admin() as admin:
        found = admin.execute("SELECT rolpassword FROM pg_authid WHERE rolname = %s", (role,)).fetchone()
    assert found is not None
    return str(found[0])


@pytest.mark.parametrize(
    "name", ["", "pg_monitor", "pg_x", "public", "none", "x" * 64, "é" * 32, "a\0b", "\ud800"]
)
def test_names_that_no_analyst_can_have(front: Front, name: str) -> None:
    with pytest.raises(Refusal) as caught:
        front.role_for(name)
    assert caught.value.code == "28000"


def test_our_own_roles_are_no_analysts(front: Front) -> None:
    with front._as_admin() as admin:
        ours = admin.execute("SELECT rolname FROM pg_roles WHERE rolname LIKE 'dpproxy%'").fetchall()
    assert len(ours) == 4
    for (name,) in ours:
        with pytest.raises(Refusal) as caught:
            front.role_for(str(name))
        assert caught.value.code == "28000"


def test_roles_are_made_by_many_threads_at_once(front: Front) -> None:
    made: list[tuple[str, str]] = []
    threads = [threading.Thread(target=lambda: made.append(front.role_for("crowd"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [front.role_for("crowd")] * 8


def unnested(front: Front, arrays: list[tuple[int, bytes]]) -> list[tuple[bytes | None, ...]]:
    calls = ", ".join(f"pg_catalog.unnest(${number})" for number in range(1, len(arrays) + 1))
    with session(front) as analyst:
        result = analyst.pgconn.exec_params(
            f"SELECT * FROM ROWS FROM ({calls})".encode(),
            [value for _, value in arrays],
            [oid for oid, _ in arrays],
            [1] * len(arrays),
        )
        assert not result.error_message, result.error_message
        return [
            tuple(result.get_value(row, column) for column in range(result.nfields))
            for row in range(result.ntuples)
        ]


def test_arrays_round_trip(front: Front) -> None:
    numbers = np.array([0, -1, 2**63 - 1, -(2**63)], dtype=np.int64)
    texts = ("", None, "NULL", 'é "{}\\,\n\U0001f600')
    rows = unnested(front, [(INT8_ARRAY, int8_array(numbers)), (TEXT_ARRAY, text_array(texts))])
    assert [int(row[0] or b"") for row in rows] == numbers.tolist()
    assert [None if row[1] is None else row[1].decode() for row in rows] == list(texts)


def test_empty_arrays(front: Front) -> None:
    empty = np.array([], dtype=np.int64)
    assert unnested(front, [(INT8_ARRAY, int8_array(empty)), (TEXT_ARRAY, text_array(()))]) == []


def test_arrays_of_a_hundred_thousand(front: Front) -> None:
    numbers = np.arange(100_000, dtype=np.int64) * -7
    started = time.perf_counter()
    encoded = int8_array(numbers)
    assert time.perf_counter() - started < 0.1
    texts = [f"t{number}" for number in range(100_000)]
    rows = unnested(front, [(INT8_ARRAY, encoded), (TEXT_ARRAY, text_array(texts))])
    assert [int(row[0] or b"") for row in rows] == numbers.tolist()
    assert [(row[1] or b"").decode() for row in rows] == texts


def test_a_text_that_is_no_unicode_is_no_array() -> None:
    with pytest.raises(UnicodeEncodeError):
        text_array(["\ud800"])


def test_describing_neither_plans_nor_runs(front: Front) -> None:
    sql = (
        "SELECT country, count(*) AS n, avg(birth_year), sum(price), price, $1::date AS d, 1/0 AS x "
        "FROM users JOIN orders USING (user_id) JOIN items USING (order_id) WHERE birth_year > $2 GROUP BY 1, 5"
    )
    assert front.describe(sql, (0, 20)) == (
        Described("country", "text", 25),
        Described("n", "bigint", 20),
        Described("avg", "numeric", 1700),
        Described("sum", "numeric", 1700),
        Described("price", "numeric(9,2)", 1700),
        Described("d", "date", 1082),
        Described("x", "integer", 23),
    )
    assert front.parameter_types(sql, (0, 20)) == (1082, 20)
    assert front.parameter_types(sql, ()) == (1082, 23)


@pytest.mark.parametrize(
    ("sql", "code", "position"),
    [
        ("SELECT contry FROM users", "42703", 8),
        ("SELECT email FROM users", "42703", 8),
        ("SELECT 1 FROM secrets", "42P01", 15),
        ("SELECT 'é', contry FROM users", "42703", 13),
        ("SELEC 1", "42601", 1),
        ("SELECT 1; SELECT 2", "42601", None),
        ("SELECT 1 /* ", "42601", 10),
        ("SELECT 'a\0b'", "22021", None),
        ("SELECT '\ud800'", "22021", None),
    ],
)
def test_what_does_not_parse_is_refused_in_the_fronts_words(
    front: Front, sql: str, code: str, position: int | None
) -> None:
    for refused in (
        lambda: front.describe(sql, ()),
        lambda: front.agrees(sql, "SELECT 1", ()),
        lambda: front.parameter_types(sql, ()),
        lambda: front.rows(sql),
    ):
        with pytest.raises(Refusal) as caught:
            refused()
        assert (caught.value.code, caught.value.position) == (code, position)


def test_a_refusal_carries_the_fronts_hint(front: Front) -> None:
    with pytest.raises(Refusal, match='column "contry" does not exist') as caught:
        front.describe("SELECT contry FROM users", ())
    assert caught.value.hint == 'Perhaps you meant to reference the column "users.country".'


def test_rows_are_text_under_pinned_settings(front: Front) -> None:
    sql = (
        "SELECT true, 0.1::float8, TIMESTAMPTZ '2024-01-01 00:00+02', DATE '2024-02-03', "
        "INTERVAL '1 day 2 hours', 'a'::bytea, NULL, 'é'"
    )
    assert front.rows(sql) == (
        ("true", "0.1", "2023-12-31 22:00:00+00", "2024-02-03", "1 day 02:00:00", "\\x61", None, "é"),
    )
    assert front.rows("SELECT 1 WHERE false") == ()


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT count(*) FROM users", "0A000"),
        ("SELECT 1/0", "22012"),
        ("SELECT * FROM generate_series(1, 11)", "54000"),
        ("DELETE FROM products", "42601"),
        ("SELECT pg_read_file('/etc/passwd')", "42501"),
        ("SELECT * FROM dpproxy.budget", "0A000"),
    ],
)
def test_rows_come_from_public_tables_only(front: Front, sql: str, code: str) -> None:
    with pytest.raises(Refusal) as caught:
        front.rows(sql, most=10)
    assert caught.value.code == code


def test_reading_by_many_threads_at_once(front: Front) -> None:
    wrong: list[object] = []

    def read(number: int) -> None:
        for _ in range(10):
            if front.rows(f"SELECT {number} FROM products") != ((str(number),),) * 3:
                wrong.append(number)
            if not front.agrees(f"SELECT {number}", f"SELECT {number}", ()):
                wrong.append(number)

    threads = [threading.Thread(target=read, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_functions_for_the_relay(front: Front) -> None:
    with session(front) as analyst:
        analyst.execute("SET datestyle = 'German'")
        analyst.execute("SET timezone = 'Asia/Tokyo'")
        analyst.execute("SET bytea_output = 'escape'")
        analyst.execute("SET extra_float_digits = -15")
        one = analyst.execute(
            "SELECT dpproxy.text_of(TIMESTAMPTZ '2024-01-01 00:00+00'), dpproxy.text_of('\\001'::bytea), "
            "dpproxy.text_of(0.1::float8), dpproxy.text_of(ARRAY[DATE '2024-02-01']), dpproxy.text_of(NULL::int)"
        ).fetchone()
        assert one == ("2024-01-01 00:00:00+00", "\\x01", "0.1", "{2024-02-01}", None)


@pytest.mark.parametrize("detail", ["NULL", "'the detail'"])
@pytest.mark.parametrize("hint", ["NULL", "'the hint'"])
def test_refusals_are_raised_with_what_they_have(front: Front, detail: str, hint: str) -> None:
    with session(front) as analyst, pytest.raises(psycopg.Error) as caught:
        analyst.execute(f"SELECT dpproxy.refuse('PV010', 'no % rows', {detail}, {hint})".encode())
    said = caught.value.diag
    assert (said.sqlstate, said.message_primary) == ("PV010", "no % rows")
    assert said.message_detail == (None if detail == "NULL" else "the detail")
    assert said.message_hint == (None if hint == "NULL" else "the hint")


def test_a_second_process_attaches_and_a_restart_keeps_the_clone(
    tmp_path: Path, shopped: tuple[DuckDBBackend, Policy]
) -> None:
    with Front.start(tmp_path) as first:
        filled(first, *shopped)
        with Front.start(tmp_path) as second:
            assert (first.owner, second.owner) == (True, False)
            second.clone(shopped[1], shopped[0].schema())
            assert second.role_for("alice") == first.role_for("alice")
            assert second.rows("SELECT count(*) FROM products") == (("3",),)
        assert first.rows("SELECT count(*) FROM products") == (("3",),)
        url = f"postgresql://{first._embedded.user}:{first._embedded.password}@/dpproxy?host={first.address.parent}"  # type: ignore[union-attr]
        with Front.connect(url) as by_url:
            assert by_url.address == first.address
            assert asked(by_url, "SELECT count(*) FROM products") == [(3,)]
            # Its roles' passwords are made of the url's, which somebody may have chosen.
            assert kept_of(by_url, "alice").startswith("SCRAM-SHA-256$4096:")
    with Front.start(tmp_path) as again:
        again.clone(shopped[1], shopped[0].schema())
        assert again.rows("SELECT count(*) FROM products") == (("3",),)


def test_connections_that_were_cut_are_made_anew(front: Front) -> None:
    assert front.rows("SELECT 1") == (("1",),)
    embedded = front._embedded
    assert embedded is not None
    with psycopg.connect(embedded.conninfo(dbname="dpproxy"), autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
    answers = set[object]()
    for _ in range(10):
        try:
            answers.add(front.rows("SELECT 1"))
        except Refusal as refusal:
            answers.add(refusal.code)
    assert answers <= {(("1",),), "57P01", "57P03", "08006"}
    assert front.rows("SELECT 1") == (("1",),)
    assert front.role_for("alice")[0] == "alice"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://u@/d", "password and a database"),
        ("postgresql://u:p@", "password and a database"),
        ("postgresql://[", "cannot be read"),
        ("postgresql://u:p@127.0.0.1:1/d", "cannot be prepared"),
    ],
)
def test_a_url_that_cannot_be_used(url: str, said: str) -> None:
    with pytest.raises(FrontError, match=said):
        Front.connect(url)


def test_an_empty_policy(started: Front) -> None:
    started.clone(Policy({}), BackendSchema())
    assert asked(started, "SELECT count(*) FROM pg_tables WHERE schemaname = 'dpproxy'") == [(5,)]
