"""The policy against a real backend: what it may rely on, and every mistake that the schema shows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dpproxy.backends.base import BackendSchema
from dpproxy.catalog.build_policy import build_policy, open_backend, policy_warnings, unit_name, unit_words
from dpproxy.config.sections import ConfigError, load
from rewriter.ir.relation import unit_column
from rewriter.policy import Column, Hop, enumerated
from tests.dpproxy import shop

USERS, PRODUCTS, ORDERS = ("public", "users"), ("public", "products"), ("public", "orders")
ITEMS, VISITS = ("public", "items"), ("app", "visits")
SIZE = enumerated("public", "size", ("small", "it's large"))


def test_the_policy_of_the_shop(tmp_path: Path) -> None:
    config, backend, policy = shop.opened(shop.make(tmp_path))
    assert list(policy.tables) == [USERS, PRODUCTS, ORDERS, ITEMS, VISITS]
    assert policy.search_path == ("app", "public")
    users, orders = policy.tables[USERS], policy.tables[ORDERS]
    assert users.columns == (
        Column("user_id", "bigint", nullable=False, declared=False, required=True),
        Column("country", "text", domain=("DE", "FR", "US")),
        Column("birth_year", "integer", range=("1900", "2020")),
        Column("email", "text", hidden=True),
    )
    assert (users.privacy_unit, users.path, users.keys) == ("user_id", (), (frozenset({"user_id"}),))
    assert users.comment == "Who buys"
    assert orders.path == (Hop("user_id", USERS, "user_id"),)
    assert orders.column("placed") == Column(
        "placed",
        "timestamp without time zone",
        nullable=False,
        range=("2024-01-01 00:00:00", "2024-12-31 23:59:59.999999"),
    )
    assert orders.max_rows_per_unit == 100
    assert unit_name(policy) == "user_id"
    assert policy_warnings(config, backend.schema()) == (
        "items.extra is not shown: PostgreSQL has no type for STRUCT(x INTEGER)",
    )


def test_a_path_of_several_hops(tmp_path: Path) -> None:
    _, _, policy = shop.opened(shop.make(tmp_path))
    items, visits = policy.tables[ITEMS], policy.tables[VISITS]
    assert items.path == (Hop("order_id", ORDERS, "order_id"), Hop("user_id", USERS, "user_id"))
    assert items.privacy_unit == "user_id"
    assert items.max_groups_per_unit == {frozenset({"product_id"}): 7, frozenset({"product_id", "size"}): 9}
    assert items.column("product_id") == Column(
        "product_id", "integer", domain_from=(PRODUCTS, "product_id"), nullable=False
    )
    assert items.column("size") == Column("size", SIZE, domain=("small", "it's large"), sized=True)
    assert items.column("extra") is None
    assert (visits.privacy_unit, visits.path) == ("visitor", (Hop("visitor", USERS, "user_id"),))
    assert visits.backend_name == ("app", "visits")


def test_values_of_a_duckdb_enumeration_are_known_by_the_owners_word(tmp_path: Path) -> None:
    """CREATE TYPE ... AS ENUM (SELECT ...) takes them from rows: they may be what people wrote."""
    said = 'size = { domain_from = "type", nullable = true }'
    shop.make(tmp_path)
    known = SIZE, ("small", "it's large")
    for entry, shown in ((said, known), ("size = {}", ("text", None)), ("", ("text", None))):
        file = shop.write(tmp_path, shop.POLICY.replace(said, entry))
        column = shop.opened(file)[2].tables[ITEMS].column("size")
        assert column is not None
        assert (column.type, column.domain, column.nullable) == (*shown, True)
    with pytest.raises(ConfigError, match="is no enumerated type") as caught:
        shop.opened(shop.write(tmp_path, shop.POLICY.replace('"products.product_id" }', '"type" }')))
    assert caught.value.key == "tables.items.columns.product_id.domain_from"


def test_only_the_backends_constraints_are_keys_of_private_tables(tmp_path: Path) -> None:
    """UNIQUE lets NULLs repeat: it is no key where a column may hold them."""
    _, _, policy = shop.opened(shop.make(tmp_path))
    items = policy.tables[ITEMS]
    assert items.keys == ()
    assert items.declared_keys == (frozenset({"order_id", "product_id"}),)
    filled = shop.SCHEMA.replace(
        "order_id BIGINT REFERENCES orders", "order_id BIGINT NOT NULL REFERENCES orders"
    )
    filled = filled.replace("product_id INTEGER REFERENCES", "product_id INTEGER NOT NULL REFERENCES")
    (tmp_path / "filled").mkdir()
    _, _, policy = shop.opened(shop.make(tmp_path / "filled", schema=filled))
    assert policy.tables[ITEMS].keys == (frozenset({"order_id", "product_id"}),)
    assert policy.tables[ITEMS].declared_keys == ()


def test_a_nullable_unit_may_be_a_key(tmp_path: Path) -> None:
    """Rows without a unit are dropped, so that what is left does not repeat."""
    schema = shop.SCHEMA.replace("visitor BIGINT,", "visitor BIGINT UNIQUE,").replace(
        "page VARCHAR,", "page VARCHAR UNIQUE,"
    )
    _, _, policy = shop.opened(shop.make(tmp_path, schema=schema))
    assert policy.tables[VISITS].keys == (frozenset({"visitor"}),)


def test_keys_of_public_tables_are_checked_on_their_rows(tmp_path: Path) -> None:
    file = shop.make(tmp_path)
    products = shop.opened(file)[2].tables[PRODUCTS]
    assert products.keys == (frozenset({"product_id"}), frozenset({"name"}))
    assert products.declared_keys == ()
    with pytest.raises(ConfigError, match="color repeats in the table") as caught:
        shop.opened(shop.write(tmp_path, shop.POLICY.replace('["name"]', '["color"]')))
    assert caught.value.key == "tables.products.unique"


def test_public_tables_are_copied_up_to_a_size(tmp_path: Path) -> None:
    file = shop.make(tmp_path)
    assert shop.opened(file)[2].tables[PRODUCTS].in_front
    shop.write(tmp_path, shop.POLICY + "[front]\npublic_rows = 2\n")
    assert not shop.opened(file)[2].tables[PRODUCTS].in_front


NUMBERED = shop.SCHEMA.replace(
    "CREATE TABLE items (", "CREATE TABLE items (user_id INTEGER UNIQUE, "
).replace("INSERT INTO items VALUES", "INSERT INTO items (order_id, product_id, size, price, extra) VALUES")
"""The shop whose items have a column of their own that is called as the unit, which may be NULL."""


def test_the_unit_at_a_paths_end_has_another_name_than_a_column_of_the_table(tmp_path: Path) -> None:
    items = shop.opened(shop.make(tmp_path, schema=NUMBERED))[2].tables[ITEMS]
    assert items.privacy_unit == "users_user_id"
    assert items.column("user_id") == Column("user_id", "integer", declared=False)
    assert items.columns[-1] == Column(
        "users_user_id", "bigint", nullable=False, declared=False, virtual=True
    )
    assert (items.keys, unit_column(items)) == ((), "users_user_id"), "of the table's own there may be NULLs"


@pytest.mark.parametrize(
    ("columns", "name"),
    [
        ("users_user_id INTEGER, ", "users_user_id_2"),
        ("users_user_id_2 INTEGER, USERS_USER_ID INTEGER, ", "users_user_id_3"),
    ],
)
def test_another_name_that_is_taken_too(tmp_path: Path, columns: str, name: str) -> None:
    """Without regard to case, by which DuckDB does not tell columns apart."""
    schema = NUMBERED.replace("CREATE TABLE items (", f"CREATE TABLE items ({columns}")
    assert shop.opened(shop.make(tmp_path, schema=schema))[2].tables[ITEMS].privacy_unit == name


def test_another_name_is_one_that_postgresql_keeps_whole(tmp_path: Path) -> None:
    long = "\u00fc" * 30
    policy = shop.POLICY.replace("[tables.users", f'[tables."{long}"').replace("-> users.", f"-> {long}.")
    name = (
        shop.opened(shop.make(tmp_path, policy, NUMBERED.replace("users", long)))[2]
        .tables[ITEMS]
        .privacy_unit
    )
    assert name == f"{long}_us"


def test_a_path_that_names_its_end_says_nothing_of_a_column_called_so(tmp_path: Path) -> None:
    """UNIQUE (user_id) leaves NULLs alone: only of rows without a unit may they be left aside."""
    named = shop.POLICY.replace("[tables.items]\n", '[tables.items]\nprivacy_unit = "user_id"\n')
    assert shop.opened(shop.make(tmp_path, named, NUMBERED))[2].tables[ITEMS].keys == ()


def test_a_hidden_column_whose_name_means_the_paths_end(tmp_path: Path) -> None:
    hidden = shop.POLICY.replace(
        "[tables.items.columns]", "[tables.items.columns]\nuser_id = { hidden = true }"
    )
    schema = NUMBERED.replace(
        "user_id INTEGER UNIQUE", "user_id INTEGER PRIMARY KEY DEFAULT (nextval('numbers'))"
    )
    items = shop.opened(shop.make(tmp_path, hidden, f"CREATE SEQUENCE numbers; {schema}"))[2].tables[ITEMS]
    assert (items.privacy_unit, items.keys) == ("user_id", ())
    assert not any(column.virtual for column in items.columns)


def test_a_hidden_unit_is_shown_under_no_other_name(tmp_path: Path) -> None:
    hidden = shop.POLICY.replace("email = { hidden", "user_id = { hidden = true }\nemail = { hidden")
    items = shop.opened(shop.make(tmp_path, hidden, NUMBERED))[2].tables[ITEMS]
    assert items.privacy_unit == "users_user_id"
    assert items.column("users_user_id") is None


MISTAKES = [
    ("[tables.users]", "[tables.usres]", "tables.usres", "users"),
    ('[tables."app.visits"]', '[tables."app.visit"]', "tables.app.visit", "app.visits"),
    ("country =", "contry =", "tables.users.columns.contry", "country"),
    (
        'privacy_unit = "user_id"\n[tables.users.c',
        'privacy_unit = "user"\n[tables.users.c',
        "tables.users.privacy_unit",
        "user_id",
    ),
    ('unique = ["name"]', 'unique = ["nam"]', "tables.products.unique", "name"),
    ('unique = ["name"]', 'unique = ["name", "name"]', "tables.products.unique", None),
    ('unique = ["order_id, product_id"]', 'unique = ["order_id, order_id"]', "tables.items.unique", None),
    ('["DE", "FR", "US"]', '["DE", "FR", "DE"]', "tables.users.columns.country.domain", None),
    ('["DE", "FR", "US"]', "[]", "tables.users.columns.country.domain", None),
    ('["DE", "FR", "US"]', "[1]", "tables.users.columns.country.domain", None),
    ("range = [1900, 2020]", "range = [2020, 1900]", "tables.users.columns.birth_year.range", None),
    ("range = [1900, 2020]", "range = [1900, 1e10]", "tables.users.columns.birth_year.range", None),
    (
        "range = [1900, 2020], nullable = true",
        "nullable = false",
        "tables.users.columns.birth_year.nullable",
        None,
    ),
    ('domain = ["DE", "FR", "US"]', 'range = ["A", "Z"]', "tables.users.columns.country.range", None),
    (
        'domain = ["DE", "FR", "US"], nullable = true',
        "bounds = [0, 1]",
        "tables.users.columns.country.bounds",
        None,
    ),
    ("products.product_id", "product.product_id", "tables.items.columns.product_id.domain_from", "products"),
    ("products.product_id", "products.product", "tables.items.columns.product_id.domain_from", "product_id"),
    ("products.product_id", "products.name", "tables.items.columns.product_id.domain_from", None),
    ("products.product_id", "orders.order_id", "tables.items.columns.product_id.domain_from", None),
    (
        'domain_from = "type", nullable = true',
        'domain = ["smal"]',
        "tables.items.columns.size.domain",
        "small",
    ),
    ("price = {", "extra = { domain = [1] }\nprice = {", "tables.items.columns.extra", None),
    ("public = true\n", "public = true\nmax_rows_per_unit = 1\n", "tables.products.max_rows_per_unit", None),
    ("public = true\n", "public = false\n", "tables.products", None),
    (
        "public = true\n",
        "public = true\ncolumns = { name = { domain = ['cup'] } }\n",
        "tables.products.columns.name",
        None,
    ),
    ('"product_id, size" = 9', '"product_id" = 9', "", None),
    ('"product_id, size" = 9', '"prize" = 9', "tables.items.max_groups_per_unit", "price"),
    (
        '"product_id, size" = 9',
        '"size, product_id" = 9, "product_id,size" = 8',
        "tables.items.max_groups_per_unit",
        None,
    ),
    ('["user_id -> users.user_id"]', '["user_id => users.user_id"]', "tables.orders.privacy_unit_path", None),
    (
        '["user_id -> users.user_id"]',
        '["user -> users.user_id"]',
        "tables.orders.privacy_unit_path",
        "user_id",
    ),
    (
        '["user_id -> users.user_id"]',
        '["user_id -> user.user_id"]',
        "tables.orders.privacy_unit_path",
        "users",
    ),
    (
        '["user_id -> users.user_id"]',
        '["user_id -> users.usr_id"]',
        "tables.orders.privacy_unit_path",
        "user_id",
    ),
    ('["user_id -> users.user_id"]', '["user_id -> users.country"]', "tables.orders.privacy_unit_path", None),
    (
        '["user_id -> users.user_id"]',
        '["user_id -> users.birth_year"]',
        "tables.orders.privacy_unit_path",
        None,
    ),
    (
        '["user_id -> users.user_id"]',
        '["user_id -> products.product_id"]',
        "tables.orders.privacy_unit_path",
        None,
    ),
    (
        '["user_id -> users.user_id"]',
        '["order_id -> items.order_id"]',
        "tables.orders.privacy_unit_path",
        None,
    ),
    (
        '["user_id -> users.user_id"]',
        '["order_id -> orders.order_id"]',
        "tables.orders.privacy_unit_path",
        None,
    ),
    ('privacy_unit = "visitor"\n', 'privacy_unit = "page"\n', "tables.app.visits.privacy_unit", "visitor"),
    ('privacy_unit_path = ["visitor -> users.user_id"]\n', "", "tables.app.visits.privacy_unit", None),
    (
        "max_rows_per_unit = 100",
        'horizon = { placed = ["2024-01-01", "2024-02-01"] }',
        "tables.orders.horizon.events_per_unit",
        None,
    ),
    ("max_rows_per_unit = 100", "horizon = { events_per_unit = 1 }", "tables.orders.horizon", None),
    (
        "max_rows_per_unit = 100",
        'horizon = { placd = ["2024-01-01", "2024-02-01"], events_per_unit = 1 }',
        "tables.orders.horizon.placd",
        "placed",
    ),
    (
        "max_rows_per_unit = 100",
        'horizon = { placed = ["2024-03-01", "2024-02-01"], events_per_unit = 1 }',
        "tables.orders.horizon.placed",
        None,
    ),
    (
        "max_rows_per_unit = 100",
        "horizon = { user_id = [1, 2], events_per_unit = 1 }",
        "tables.orders.horizon.user_id",
        None,
    ),
]


@pytest.mark.parametrize(("old", "new", "key", "nearest"), MISTAKES)
def test_a_mistake_is_named(tmp_path: Path, old: str, new: str, key: str, nearest: str | None) -> None:
    assert shop.POLICY.count(old) == 1 or old.startswith("public")
    file = shop.make(tmp_path, shop.POLICY.replace(old, new))
    with pytest.raises(ConfigError) as caught:
        shop.opened(file)
    assert (caught.value.file, caught.value.key, caught.value.nearest) == (file, key, nearest)


PATH = 'privacy_unit_path = ["user_id -> users.user_id"]\n'
PLACED = 'placed = { range = ["2024-01-01", "2024-12-31"] }'
HORIZON = 'max_rows_per_unit = 100\nhorizon = { placed = ["2024-01-01", "2024-12-31"], events_per_unit = 3 }'


def test_what_comes_with_later_work_is_checked_and_taken(tmp_path: Path) -> None:
    horizon = 'horizon = { placed = ["2024-01-01", "2024-12-31"], events_per_unit = 100 }'
    policy = shop.POLICY.replace(f"{PATH}max_rows_per_unit = 100", horizon)
    assert shop.opened(shop.make(tmp_path, policy.replace("bounds = [0, 99.5]", "unit_bounds = [0, 99.5]")))


def test_two_privacy_units_without_a_way_between_them(tmp_path: Path) -> None:
    policy = shop.POLICY.replace('privacy_unit_path = ["visitor -> users.user_id"]\n', "")
    with pytest.raises(ConfigError, match="two privacy units; lead one to the other by privacy_unit_path"):
        shop.opened(shop.make(tmp_path, policy))


STAFF = """
[tables."app.visits"]
privacy_unit = "visitor"
privacy_unit_kind = "staff"
"""


def staffed(policy: str) -> str:
    """The shop's policy, in which visits are of staff, who are nobody's customers."""
    return policy[: policy.index('[tables."app.visits"]')] + STAFF


def test_units_of_two_kinds(tmp_path: Path) -> None:
    _, _, policy = shop.opened(shop.make(tmp_path, staffed(shop.POLICY)))
    assert {name: t.kind for name, t in policy.tables.items() if t.kind} == {VISITS: "staff"}
    assert (unit_name(policy), unit_words(policy)) == ("user_id", "user_id or staff")
    assert (unit_words(policy, "staff"), unit_words(policy, "")) == ("staff", "user_id")
    assert policy.tables[VISITS].privacy_unit == "visitor"


def test_the_kind_is_that_of_the_paths_end(tmp_path: Path) -> None:
    users = 'privacy_unit = "user_id"\n[tables.users.columns]'
    customers = shop.POLICY.replace(users, users.replace("\n", '\nprivacy_unit_kind = "customer"\n'))
    _, _, policy = shop.opened(shop.make(tmp_path, customers))
    assert {t.kind for t in policy.tables.values() if not t.public} == {"customer"}
    items = '[tables.items]\nprivacy_unit_kind = "staff"'
    with pytest.raises(ConfigError, match="which says what kind its units are") as caught:
        shop.opened(shop.write(tmp_path, customers.replace("[tables.items]", items)))
    assert caught.value.key == "tables.items.privacy_unit_kind"
    with pytest.raises(ConfigError, match="a public table has no privacy unit"):
        shop.opened(
            shop.write(
                tmp_path, shop.POLICY.replace("public = true", 'public = true\nprivacy_unit_kind = "x"')
            )
        )


PACKED = """
CREATE TABLE users (user_id BIGINT PRIMARY KEY, name VARCHAR);
CREATE TABLE orders (order_id BIGINT PRIMARY KEY, user_id BIGINT, packer BIGINT);
CREATE TABLE items (order_id BIGINT, product_id INTEGER);
"""
LED = """
[backend]
url = "duckdb:///shop.duckdb"
[tables.users]
privacy_unit = "user_id"
[tables.orders]
{}
[tables.items]
privacy_unit_path = ["order_id -> orders.order_id", "{} -> users.user_id"]
"""


@pytest.mark.parametrize(
    ("orders", "column"),
    [
        ('privacy_unit_path = ["user_id -> users.user_id"]', "user_id"),
        ('privacy_unit = "user_id"', "user_id"),
    ],
)
def test_a_path_through_a_table_of_the_same_unit(tmp_path: Path, orders: str, column: str) -> None:
    _, _, policy = shop.opened(shop.make(tmp_path, LED.format(orders, column), PACKED))
    assert policy.tables[ITEMS].path[0] == Hop("order_id", ORDERS, "order_id")


@pytest.mark.parametrize(
    ("orders", "column"),
    [
        ('privacy_unit_path = ["user_id -> users.user_id"]', "packer"),
        ('privacy_unit = "user_id"', "packer"),
        ('privacy_unit = "user_id"\nprivacy_unit_kind = "buyer"', "packer"),
    ],
)
def test_a_path_through_a_table_of_other_units(tmp_path: Path, orders: str, column: str) -> None:
    """Without a buyer's orders the items of others, who packed them, would be nobody's."""
    with pytest.raises(ConfigError, match=r"gives to another unit") as caught:
        shop.opened(shop.make(tmp_path, LED.format(orders, column), PACKED))
    assert caught.value.key == "tables.items.privacy_unit_path"


def test_a_unit_of_floating_point_numbers(tmp_path: Path) -> None:
    schema = shop.SCHEMA.replace("visitor BIGINT", "visitor DOUBLE")
    policy = '[backend]\nurl = "duckdb:///shop.duckdb"\n[tables."app.visits"]\nprivacy_unit = "visitor"\n'
    with pytest.raises(ConfigError, match="cannot name a privacy unit"):
        shop.opened(shop.make(tmp_path, policy, schema))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://x", "duckdb:///"),
        ("duckdb://data.duckdb", "duckdb:///"),
        ("duckdb:///", "duckdb:///"),
        ("data.duckdb", "duckdb:///"),
    ],
)
def test_a_backend_that_is_not_served(tmp_path: Path, url: str, said: str) -> None:
    file = shop.write(tmp_path, shop.POLICY.replace("duckdb:///shop.duckdb", url))
    with pytest.raises(ConfigError, match=said) as caught:
        open_backend(load(file), slots=1)
    assert caught.value.key == "backend.url"


@pytest.mark.parametrize(
    ("ddl", "table", "said"),
    [
        ("CREATE TABLE v (u BIGINT, xmin INTEGER)", "v", "hide it"),
        (f"CREATE TABLE v (u BIGINT, {'x' * 64} INTEGER)", "v", "63 bytes"),
        (f"CREATE TABLE {'x' * 64} (u BIGINT)", "x" * 64, "63 bytes"),
        ("CREATE SCHEMA dpproxy; CREATE TABLE dpproxy.v (u BIGINT)", "dpproxy.v", "front's own"),
        ("CREATE SCHEMA pg_x; CREATE TABLE pg_x.v (u BIGINT)", "pg_x.v", "front's own"),
        ("CREATE VIEW v AS SELECT 1 AS u", "v", "is said of tables"),
    ],
)
def test_names_that_the_front_cannot_have(tmp_path: Path, ddl: str, table: str, said: str) -> None:
    policy = f'[backend]\nurl = "duckdb:///shop.duckdb"\n[tables."{table}"]\nprivacy_unit = "u"\n'
    with pytest.raises(ConfigError, match=said):
        shop.opened(shop.make(tmp_path, policy, ddl))


def unkept(schema: BackendSchema) -> BackendSchema:
    """The schema of a backend that enforces no keys, as Spark."""
    tables = {
        name: replace(table, primary_key=None, unique=(), foreign_keys=(), keeps_keys=False)
        for name, table in schema.tables.items()
    }
    return BackendSchema(tables)


def test_where_no_keys_are_kept_a_hop_ends_at_one_that_is_vouched_for(tmp_path: Path) -> None:
    config, backend, _ = shop.opened(shop.make(tmp_path))
    schema = unkept(backend.schema())
    with pytest.raises(ConfigError, match=r'vouched_key = "order_id" in \[tables\.orders\]'):
        build_policy(config, schema, backend)
    vouched = config.tables["orders"].model_copy(update={"vouched_key": "order_id"})
    config = config.model_copy(update={"tables": {**config.tables, "orders": vouched}})
    policy = build_policy(config, schema, backend)
    assert policy.tables[ITEMS].path[0] == Hop("order_id", ORDERS, "order_id")
    assert policy.tables[ORDERS].keys == (), "one row a unit is still enforced"
    assert any("nobody enforces that order_id is unique" in told for told in policy_warnings(config, schema))


def test_a_key_is_not_vouched_for_where_the_backend_keeps_keys(tmp_path: Path) -> None:
    config, backend, _ = shop.opened(shop.make(tmp_path))
    vouched = config.tables["orders"].model_copy(update={"vouched_key": "order_id"})
    config = config.model_copy(update={"tables": {**config.tables, "orders": vouched}})
    with pytest.raises(ConfigError, match="keeps keys"):
        build_policy(config, backend.schema(), backend)


def test_row_filters_and_computed_columns(tmp_path: Path) -> None:
    shop.make(tmp_path)
    said = shop.POLICY.replace(
        "[tables.users.columns]",
        'where = "email IS NOT NULL"\n[tables.users.columns]\n'
        'adult = { expression = "birth_year < 2006", domain = [true, false], nullable = true }',
    ).replace('unique = ["name"]', 'unique = ["name"]\nwhere = "color = \'red\'"')
    _, _, policy = shop.opened(shop.write(tmp_path, said))
    users = policy.tables[USERS]
    assert users.where == "email IS NOT NULL"
    assert users.columns[-1] == Column(
        "adult", "boolean", domain=("true", "false"), expression="birth_year < 2006"
    )
    assert policy.tables[PRODUCTS].where == "color = 'red'"
    assert policy.secretive
    assert not shop.opened(shop.write(tmp_path, shop.POLICY))[2].secretive


@pytest.mark.parametrize(
    ("old", "new", "key", "why"),
    [
        (
            "[tables.users.columns]",
            'where = "birth_year"\n[tables.users.columns]',
            "tables.users.where",
            "is no condition: it has type INTEGER",
        ),
        (
            "[tables.users.columns]",
            'where = "birth_year > (SELECT 1)"\n[tables.users.columns]',
            "tables.users.where",
            "has a subquery",
        ),
        (
            "[tables.users.columns]",
            'where = "kountry IS NULL"\n[tables.users.columns]',
            "tables.users.where",
            'Referenced column "kountry" not found',
        ),
        (
            PLACED,
            'note = { expression = "1" }',
            "tables.orders.columns.note",
            "the backend's table has such a column",
        ),
        (
            PLACED,
            'Note = { expression = "1" }',
            "tables.orders.columns.Note",
            "the backend's table has such a column",
        ),
        (PLACED, 'xmin = { expression = "1" }', "tables.orders.columns.xmin", "PostgreSQL has such a column"),
        (
            PLACED,
            "x = { expression = \"{'a': 1}\" }",
            "tables.orders.columns.x.expression",
            "PostgreSQL has no type for STRUCT",
        ),
        (
            PLACED,
            'x = { expression = "1" }\ny = { expression = "x + 1" }',
            "tables.orders.columns.y.expression",
            'Referenced column "x" not found',
        ),
        (PLACED, 'x = { expression = "1", domain = ["a"] }', "tables.orders.columns.x.domain", "a"),
        (
            '["user_id -> users.user_id"]\nmax_rows_per_unit = 100\n[tables.orders.columns]',
            '["buyer -> users.user_id"]\n[tables.orders.columns]\nbuyer = { expression = "user_id + 1" }',
            "tables.orders.privacy_unit_path",
            '"buyer" is computed',
        ),
        (
            '[tables."app.visits"]\nprivacy_unit = "visitor"\nprivacy_unit_path = ["visitor -> users.user_id"]',
            '[tables."app.visits"]\nprivacy_unit = "who"\n'
            '[tables."app.visits".columns]\nwho = { expression = "visitor % 2" }',
            "tables.app.visits.privacy_unit",
            '"who" is computed',
        ),
        (
            f"{PATH}max_rows_per_unit = 100",
            f'{HORIZON}\nwhere = "note IS NULL"',
            "tables.orders.horizon",
            "a row filter may drop them",
        ),
        (f"{PATH}max_rows_per_unit = 100", HORIZON, None, ""),
        (
            f"{PATH}max_rows_per_unit = 100\n[tables.orders.columns]",
            f'{HORIZON}\n[tables.orders.columns]\nx = {{ expression = "1" }}',
            "tables.orders.horizon",
            "computed columns may change",
        ),
    ],
)
def test_sql_of_the_owners_that_cannot_be(
    tmp_path: Path, old: str, new: str, key: str | None, why: str
) -> None:
    shop.make(tmp_path)
    assert old in shop.POLICY
    file = shop.write(tmp_path, shop.POLICY.replace(old, new))
    if key is None:
        shop.opened(file)
        return
    with pytest.raises(ConfigError) as caught:
        shop.opened(file)
    assert caught.value.key == key
    assert why in caught.value.message


@pytest.mark.parametrize(
    ("path", "over"),
    [("user_id -> users.user_id", "users"), ("order_id -> old_orders.order_id", "old_orders")],
)
def test_units_along_a_path_have_no_horizon(tmp_path: Path, path: str, over: str) -> None:
    """Also where the path starts from the unit: rows of a unit that the last table loses would go, and come back."""
    shop.make(
        tmp_path,
        shop.POLICY,
        f"{shop.SCHEMA}CREATE TABLE old_orders (order_id BIGINT PRIMARY KEY, user_id BIGINT);",
    )
    said = shop.POLICY.replace(f"{PATH}max_rows_per_unit = 100", f'privacy_unit_path = ["{path}"]\n{HORIZON}')
    said += '[tables.old_orders]\nprivacy_unit = "user_id"\n'
    with pytest.raises(ConfigError) as caught:
        shop.opened(shop.write(tmp_path, said))
    assert caught.value.key == "tables.orders.horizon"
    assert f'a change of table "{over}" can move them' in caught.value.message
    assert "name the unit by the table's own columns, without privacy_unit_path" in caught.value.message
