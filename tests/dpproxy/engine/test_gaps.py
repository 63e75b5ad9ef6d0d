"""What other people's statements need, on both engines, compared with the bare database: gaps.sql."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import psycopg
import pytest

from dpproxy.deployment.service import Service, configured
from dpproxy.server.local_client import ClientError
from tests.dpproxy.postgres_data import databases
from tests.spark_server import copied, owner, with_spark
from tests.spark_server import url as spark_url

pytestmark = pytest.mark.service

USERS = 600


def rows(number: int) -> str:
    """Rows of an integer `i`, from 0, in both engines."""
    return f"(SELECT CAST(g AS INTEGER) AS i FROM generate_series(0, {number - 1}) AS s(g)) AS r"


SCHEMA = (
    "CREATE TYPE order_status AS ENUM ('paid', 'open', 'lost')",
    "CREATE TABLE countries (code VARCHAR(2) PRIMARY KEY, name VARCHAR(20) NOT NULL, euro BOOLEAN NOT NULL)",
    "CREATE TABLE calendar (day DATE PRIMARY KEY)",
    "CREATE TABLE products (id INTEGER PRIMARY KEY, brand VARCHAR(20), manager INTEGER, price NUMERIC(9, 2))",
    "CREATE TABLE users (id BIGINT PRIMARY KEY, country VARCHAR(2) NOT NULL, born DATE NOT NULL, "
    "joined TIMESTAMPTZ NOT NULL, height INTEGER NOT NULL)",
    "CREATE TABLE orders (id BIGINT PRIMARY KEY, user_id BIGINT NOT NULL REFERENCES users (id), "
    "placed TIMESTAMPTZ NOT NULL, shipped TIMESTAMPTZ, status order_status NOT NULL, channel VARCHAR(9), "
    "rating INTEGER, pieces INTEGER)",
    "CREATE TABLE items (order_id BIGINT REFERENCES orders (id), product_id INTEGER REFERENCES products (id), "
    "quantity INTEGER NOT NULL, PRIMARY KEY (order_id, product_id))",
    "CREATE TABLE returns (id BIGINT PRIMARY KEY, order_id BIGINT REFERENCES orders (id), product_id INTEGER)",
    "CREATE TABLE members (club VARCHAR(9), number INTEGER, PRIMARY KEY (club, number))",
    "CREATE TABLE staff (badge UUID PRIMARY KEY, level INTEGER)",
    "CREATE VIEW open_orders AS SELECT o.*, u.country FROM orders o JOIN users u ON u.id = o.user_id "
    "WHERE o.status = 'open'",
    f"INSERT INTO countries SELECT chr(65 + i) || 'X', 'Country ' || i, i % 2 = 0 FROM {rows(20)}",
    f"INSERT INTO calendar SELECT DATE '2024-01-01' + i FROM {rows(365)}",
    f"INSERT INTO products SELECT i, 'brand ' || i % 10, i % 10 % 3, 5 + i FROM {rows(40)}",
    "INSERT INTO users SELECT i, chr(65 + i % 3) || 'X', DATE '1960-01-01' + i % 400 * 30, "
    "TIMESTAMPTZ '2024-01-01 12:00:00+00' + i % 360 * INTERVAL '1 day', 150 + i % 41 "
    f"FROM {rows(USERS)}",
    # The orders of a user are 91 days apart, so that every day has some; each has two items, each eighth is returned.
    f"INSERT INTO orders SELECT i, i % {USERS}, p, p + (1 + i % 5) * INTERVAL '10 hour', "
    "CAST(CASE WHEN i % 10 < 6 THEN 'paid' WHEN i % 10 < 9 THEN 'open' ELSE 'lost' END AS order_status), "
    "CASE i % 7 % 3 WHEN 0 THEN 'web' WHEN 1 THEN 'app' END, 1 + i % 11 % 5, 1 + i % 2 FROM (SELECT i, "
    f"TIMESTAMPTZ '2024-01-01 00:30:00+00' + (i % {USERS} % 92 + i / {USERS} * 91) * INTERVAL '1 day' "
    f"+ i % 24 * INTERVAL '1 hour' AS p FROM {rows(4 * USERS)}) AS t",
    "INSERT INTO items SELECT i / 2, p, 1 + p % 10 % 4 + i % 3 / 2 * 3 "
    f"FROM (SELECT i, (i / 2 * 7 + i % 2 * 13) % 40 AS p FROM {rows(8 * USERS)}) AS t",
    "INSERT INTO returns SELECT i, order_id, product_id FROM (SELECT row_number() OVER (ORDER BY order_id, product_id)"
    " AS i, order_id, product_id FROM items) AS t WHERE i % 4 = 0",
    f"INSERT INTO members SELECT 'club ' || i % 2, i / 2 FROM {rows(600)}",
    f"INSERT INTO staff SELECT CAST(md5(CAST(i AS VARCHAR)) AS UUID), 1 + i % 3 FROM {rows(600)}",
)
POLICY = """
[backend]
url = "{}"
[privacy]
epsilon_per = 16
delta_per = 1e-6
query_information = 2
[budget]
mode = "track"

[tables.countries]
public = true
[tables.calendar]
public = true
[tables.products]
public = true

[tables.users]
privacy_unit = "id"
[tables.users.columns]
country = {{ domain = ["AX", "BX", "CX"], nullable = false }}
born = {{ range = ["1960-01-01", "1999-12-31"] }}
joined = {{ range = ["2024-01-01", "2024-12-31"] }}
height = {{ bounds = [100, 250] }}

[tables.orders]
privacy_unit_path = ["user_id -> users.id"]
[tables.orders.columns]
placed = {{ range = ["2024-01-01", "2024-12-30"] }}
status = {{ domain_from = "type" }}
channel = {{ domain = ["web", "app"], nullable = true }}
rating = {{ range = [1, 5], nullable = false }}

[tables.items]
privacy_unit_path = ["order_id -> orders.id"]
[tables.items.columns]
product_id = {{ domain_from = "products.id" }}

[tables.returns]
privacy_unit_path = ["order_id -> orders.id"]

[tables.open_orders]

[tables.members]
privacy_unit = ["club", "number"]
privacy_unit_kind = "member"
[tables.members.columns]
club = {{ domain = ["club 0", "club 1"] }}

[tables.staff]
privacy_unit = "badge"
privacy_unit_kind = "staff"
"""
ON_SPARK = (
    ("[tables.users]\n", '[tables.users]\nvouched_key = "id"\n'),
    ("[tables.orders]\n", '[tables.orders]\nvouched_key = "id"\n'),
    ('{{ domain_from = "type" }}', '{{ domain = ["paid", "open", "lost"] }}'),
    ("[tables.open_orders]\n", ""),
)
"""What its owner declares in place of constraints and enumerated types; there are no views."""
REFUSED_ON_SPARK = {
    **dict.fromkeys((" age(", "(age(", "log(", "SIMILAR TO", "shipped - placed"), "PV020"),
    "open_orders": "42P01",
    "GROUP BY c.code": "42803",
    "p.id, p.brand": "42803",
}
"""The code of what is not answered there, by words of the statement: no proof that Spark computes alike, no views, and
no keys on which columns could depend."""
STATED = re.compile(r"(\S+) \+- ([\d.,]+)(?: to ([\d.,]+))? with 95%")
COMPUTED = {"so_far": 20, "total": 20, "mean": 1, "hours": 1, "median": 1, "low": 1}
"""Columns computed from released numbers, and quantiles, with how many times the noise of one number theirs may be:
that of a year of days is 19 times a day's. All others of which no notice states an interval are exact."""
INTERVALS, CLIPPED, SEVERAL = 3, 0.02, 0.05
"""How many stated intervals a value may be off, and by what share: what clips cut, and what noise may add up to."""
TEXT, VARCHAR, FIRST_OF_USERS = 25, 1043, 16384
"""OIDs of types: DuckDB's VARCHAR is text, whatever its length, and Spark has enumerated types as texts."""


@dataclass(frozen=True)
class Statement:
    """A statement of gaps.sql, its section, and the code that begins its comment if it is refused."""

    section: str
    sql: str
    code: str


def statements() -> Iterator[Statement]:
    section = ""
    for block in Path(__file__).with_name("gaps.sql").read_text().split("\n\n"):
        if titled := re.match(r"-- == (.+) ==", block):
            section = titled[1]
        elif sql := re.sub(r"^--.*\n", "", block, flags=re.M).strip().removesuffix(";"):
            coded = re.match(r"-- (\w{5}): ", block)
            if sql.lstrip().startswith("--"):
                continue
            yield Statement(section, sql, coded[1] if coded and section == "Still refused" else "")


STATEMENTS = list(statements())


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[psycopg.Connection, str]]:
    """The database without the proxy, and its URL."""
    with databases(tmp_path_factory.mktemp("gaps") / "server") as server:
        name = server.make(SCHEMA)
        with server.owner(name) as owner:
            owner.execute("SET timezone = 'UTC'")
            yield owner, server.url(name)


@pytest.fixture(scope="module", params=["duckdb", "postgres", pytest.param("spark", marks=with_spark)])
def service(
    request: pytest.FixtureRequest,
    bare: tuple[psycopg.Connection, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Service]:
    folder: Path = tmp_path_factory.mktemp(f"gaps_{request.param}")
    url, policy = bare[1], POLICY
    if request.param != "postgres":
        with duckdb.connect(folder / "gaps.duckdb") as connection:
            for statement in SCHEMA:
                connection.execute(re.sub(r" / (?=\d)", " // ", statement))
            if request.param == "spark":
                with owner() as session:
                    copied(connection, session)
        url = "duckdb:///gaps.duckdb"
    if request.param == "spark":
        url = spark_url()
        for before, after in ON_SPARK:
            assert before in policy
            policy = policy.replace(before, after)
    (folder / "dpproxy.toml").write_text(policy.format(url))
    with Service.start(configured(folder / "dpproxy.toml"), alone=True) as running:
        yield running


def shown(oid: int) -> int:
    """The type as which both databases show one."""
    return VARCHAR if oid == TEXT or oid >= FIRST_OF_USERS else oid


def errors_of(columns: list[str], notices: list[str]) -> list[tuple[float, float] | None]:
    """How far each column may be off, and by what share of its value; None where it is exact."""
    found = STATED.findall(" ".join(notices))
    told = {name: INTERVALS * float((high or low).replace(",", "")) for name, low, high in found}
    most = max(told.values(), default=0)
    told_of = {name: (error, CLIPPED) for name, error in told.items()}
    computed = {name: (times * most, SEVERAL) for name, times in COMPUTED.items()}
    return [(computed | told_of).get(name) for name in columns]


def near(said: str | None, true: str | None, error: tuple[float, float] | None) -> bool:
    """Whether a value is the true one but for its error."""
    if said is None or true is None or error is None:
        return said == true
    whole = said.lstrip("-").isdigit() and true.isdigit()
    # Noise of a standard deviation of 0.1 is 1 in one of a hundred counts, and 0 in the others.
    return abs(float(said) - float(true)) <= max(error[0], whole) + error[1] * abs(float(true))


@pytest.mark.parametrize("asked", [s for s in STATEMENTS if not s.code], ids=lambda s: s.sql[:60])
def test_answers_are_those_of_the_bare_database(
    service: Service, bare: tuple[psycopg.Connection, str], asked: Statement
) -> None:
    if service.config.backend.url.startswith("sc:"):
        for words, code in REFUSED_ON_SPARK.items():
            if words in asked.sql:
                with pytest.raises(ClientError) as refused:
                    asyncio.run(service.ask("ann", asked.sql))
                assert refused.value.code == code
                return
    answer = asyncio.run(service.ask("ann", asked.sql))
    with psycopg.RawCursor(bare[0]) as cursor:
        truth = cursor.execute(asked.sql.encode())
        result = truth.pgresult
        assert result is not None
        columns = [(result.fname(n) or b"").decode() for n in range(result.nfields)]
        oids = [result.ftype(n) for n in range(result.nfields)]
        rows = [
            tuple(v if (v := result.get_value(r, c)) is None else v.decode() for c in range(result.nfields))
            for r in range(result.ntuples)
        ]
    print(*answer.notices, answer.rows[:9], rows[:9], sep="\n")
    assert answer.columns == columns
    assert [*map(shown, answer.oids)] == [*map(shown, oids)]
    errors = errors_of(columns, answer.notices)

    def key(row: tuple[str | None, ...]) -> list[str | None]:
        return [value for value, error in zip(row, errors, strict=True) if error is None]

    groups = [key(row) for row in rows]
    found = [row for row in answer.rows if key(row) in groups]
    assert [key(row) for row in found] == groups
    for said, true in zip(found, rows, strict=True):
        assert all(map(near, said, true, errors)), (said, true, errors)
    for said in answer.rows:
        if key(said) not in groups:  # A group of a known domain that nobody is in.
            assert all(
                v is None or e is None or near(v, "0", e) for v, e in zip(said, errors, strict=True)
            ), said


@pytest.mark.parametrize("asked", [s for s in STATEMENTS if s.code], ids=lambda s: s.sql[:60])
def test_still_refused(service: Service, asked: Statement) -> None:
    with pytest.raises(ClientError) as refused:
        asyncio.run(service.ask("ann", asked.sql))
    assert refused.value.code == asked.code
