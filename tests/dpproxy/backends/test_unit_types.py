"""One unit that is spelt in several ways counts once on every backend, as its own equality has it.

The SQL that we write has to be as coarse as the equality of the backend's keys: where it told two spellings of one key
apart, a person would be two units, and removing them would change twice what a price assumes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from dpproxy.backends.base import Backend, Cancellation
from dpproxy.catalog.build_policy import build_policy, open_backend
from dpproxy.config.sections import ConfigError, load
from rewriter.api import histogram_query, split_query
from rewriter.logical.plan import AggregateNode
from rewriter.policy import Policy
from tests.dpproxy.postgres_data import Databases, databases

pytestmark = pytest.mark.service

POLICY = """
[backend]
url = "{url}"
[privacy]
mechanisms = "paper"
[tables.people]
privacy_unit = "u"
[tables.visits]
privacy_unit_path = ["u -> people.u"]
max_rows_per_unit = 2
max_groups_per_unit = {{ page = 1 }}
[tables.stays]
privacy_unit = "u"
unique = ["u"]
"""
CITEXT = (
    "CREATE TYPE citext",
    "CREATE FUNCTION citextin(cstring) RETURNS citext AS 'textin' LANGUAGE internal IMMUTABLE STRICT",
    "CREATE FUNCTION citextout(citext) RETURNS cstring AS 'textout' LANGUAGE internal IMMUTABLE STRICT",
    "CREATE TYPE citext (INPUT = citextin, OUTPUT = citextout, INTERNALLENGTH = VARIABLE, STORAGE = extended, "
    "CATEGORY = 'S', COLLATABLE = true)",
    "CREATE CAST (citext AS text) WITHOUT FUNCTION AS IMPLICIT",
    "CREATE CAST (text AS citext) WITHOUT FUNCTION AS ASSIGNMENT",
    *(
        f"CREATE FUNCTION citext_{name}(citext, citext) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT RETURN "
        f'lower($1::text COLLATE "default") COLLATE "C" {sign} lower($2::text COLLATE "default") COLLATE "C"'
        for name, sign in (("lt", "<"), ("le", "<="), ("eq", "="), ("ge", ">="), ("gt", ">"))
    ),
    "CREATE FUNCTION citext_cmp(citext, citext) RETURNS integer LANGUAGE sql IMMUTABLE STRICT RETURN "
    'bttextcmp(lower($1::text COLLATE "default") COLLATE "C", lower($2::text COLLATE "default") COLLATE "C")',
    *(
        f"CREATE OPERATOR {sign} (LEFTARG = citext, RIGHTARG = citext, FUNCTION = citext_{name}{also})"
        for name, sign, also in (
            ("lt", "<", ""),
            ("le", "<=", ""),
            ("eq", "=", ", MERGES"),
            ("ge", ">=", ""),
            ("gt", ">", ""),
        )
    ),
    "CREATE OPERATOR CLASS citext_ops DEFAULT FOR TYPE citext USING btree AS OPERATOR 1 <, OPERATOR 2 <=, "
    "OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 citext_cmp(citext, citext)",
    "SET allow_system_table_mods = on",
    "INSERT INTO pg_extension SELECT 1, 'citext', oid, relnamespace, true, '1.6' FROM pg_class "
    "WHERE relname = 'pg_class'",
    "INSERT INTO pg_depend SELECT 'pg_type'::regclass, 'citext'::regtype, 0, 'pg_extension'::regclass, 1, 0, 'e'",
)
"""What CREATE EXTENSION citext makes, in SQL, for a server that comes without it."""
Make = Callable[[Sequence[str]], str]
"""A database with the outcome of statements; gives its URL."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    with databases(tmp_path_factory.mktemp("unit_types") / "server") as started:
        yield started


@pytest.fixture
def on_postgres(server: Databases) -> Make:
    def made(statements: Sequence[str]) -> str:
        with server.owner("postgres") as owner:
            found = owner.execute("SELECT FROM pg_available_extensions WHERE name = 'citext'").fetchone()
        before = ("CREATE EXTENSION citext",) if found is not None else CITEXT
        return server.url(server.make([*before, *statements]))

    return made


@pytest.fixture
def on_duckdb(tmp_path: Path) -> Make:
    def made(statements: Sequence[str]) -> str:
        with duckdb.connect(tmp_path / "units.duckdb") as database:
            for statement in statements:
                database.execute(statement)
        return "duckdb:///units.duckdb"

    return made


@contextmanager
def opened(folder: Path, url: str, policy: str = POLICY) -> Iterator[tuple[Backend, Policy]]:
    """The backend behind `url`, and the policy over it."""
    file = folder / "dpproxy.toml"
    file.write_text(policy.format(url=url))
    config = load(file)
    backend = open_backend(config, slots=1)
    with closing(backend):
        yield backend, build_policy(config, backend.schema(), backend)


def total(backend: Backend, policy: Policy, sql: str, delta0: int | None = None) -> int:
    """The sum of a statement's first measure over all groups, without noise."""
    (node,) = split_query(sql, policy).nodes
    assert isinstance(node, AggregateNode)
    query = histogram_query(node, policy, (), None if node.keys else ((),), delta0, 100, backend.dialect)
    with backend.open() as slot:
        fetched = slot.fetch(query, "secret", Cancellation(), 100)
    return int(fetched.counts(len(node.keys) or 1).sum())


QUESTIONS = {
    "SELECT COUNT(DISTINCT u) FROM visits": 1,
    "SELECT page, COUNT(DISTINCT u) FROM visits GROUP BY page": 1,
    "SELECT COUNT(*) FROM visits": 2,
    "SELECT COUNT(*) FROM stays": 1,
    "SELECT COUNT(DISTINCT p.u) FROM people p JOIN visits v ON p.u = v.u JOIN stays s ON s.u = p.u": 1,
    "SELECT COUNT(*) FROM (SELECT u, MAX(page) AS last FROM visits GROUP BY u) t WHERE last > 'a'": 1,
    "SELECT COUNT(*) FROM people WHERE u NOT IN (SELECT u FROM visits WHERE page = 'never')": 1,
}
"""By how much a unit can change each: what its price assumes of one group, caps, and a key that our SQL enforces."""


def rows(kind: str, spelt: Sequence[str], others: Sequence[str]) -> list[str]:
    """Tables with units of type `kind`: one that is spelt in these ways, others, and rows without a unit."""
    made = ["CREATE DOMAIN email AS citext CHECK (VALUE <> 'nobody')"] if kind == "email" else []
    made += [
        f"CREATE TABLE people (u {kind} PRIMARY KEY)",
        f"CREATE TABLE visits (u {kind}, page VARCHAR(9))",
        f"CREATE TABLE stays (u {kind}, ward INTEGER)",
    ]
    for key in (spelt[0], *others):
        made.append(f"INSERT INTO people VALUES ({key})")
    for number, key in enumerate((*spelt, *others, "NULL", "NULL")):
        made.append(f"INSERT INTO visits VALUES ({key}, 'page {number}'), ({key}, 'page {number + 1}')")
        made.append(f"INSERT INTO stays VALUES ({key}, 1), ({key}, 2)")
    return made


def without(kind: str, key: str) -> list[str]:
    """Takes a unit's rows out, as the backend itself compares keys."""
    return [f"DELETE FROM {name} WHERE u = CAST({key} AS {kind})" for name in ("people", "visits", "stays")]


def changes(folder: Path, make: Make, kind: str, spelt: Sequence[str], others: Sequence[str]) -> list[int]:
    """By how much each answer changes as one unit's rows are taken out."""
    found: list[list[int]] = []
    for removed in ((), without(kind, spelt[-1])):
        (folder / "units.duckdb").unlink(missing_ok=True)
        with opened(folder, make([*rows(kind, spelt, others), *removed])) as (backend, policy):
            found.append([total(backend, policy, sql, 1) for sql in QUESTIONS])
    assert found[1][0] == len(others), "each unit counts once, and rows without one do not count"
    return [whole - rest for whole, rest in zip(*found, strict=True)]


HYPHENS = "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"
UUIDS = (HYPHENS, HYPHENS.upper(), "'a0eebc999c0b4ef8bb6d6bb9bd380a11'"), (HYPHENS.replace("a0", "b0"),)
CASES = ("'a@b'", "'A@b'", "'A@B'"), ("'a@b '", "'a'")
ON_POSTGRES = {
    "varchar(8)": (("'ab'", "'ab'"), ("'AB'", "'ab '", "'ab  '")),
    "char(4)": (("'ab'", "'ab  '", "'ab '"), ("'AB'", "' ab'")),
    "citext": CASES,
    "email": CASES,
    "uuid": UUIDS,
    "bytea": ((r"'\x00ff'", r"'\000\377'", r"'\x00FF'"), (r"'\x00'", r"'\x00ff00'")),
    "numeric": (("1", "1.0", "1.00"), ("2", "1.5")),
    "date": (("'2024-01-02'", "'20240102'"), ("'2024-02-01'",)),
}
"""Types of keys: spellings of one unit, and other units."""
ON_DUCKDB = {
    "VARCHAR(8)": (("'ab'", "'ab'"), ("'AB'", "'ab '")),
    "CHAR(4)": (("'ab'", "'ab'"), ("'AB'", "'ab  '")),
    "UUID": UUIDS,
    "BLOB": ((r"'\x00\xFF'::BLOB", r"'\x00\xff'::BLOB"), (r"'\x00'::BLOB", r"'\x00\xff\x00'::BLOB")),
    "DECIMAL(9, 2)": (("1", "1.0", "1.00"), ("2", "1.5")),
    "DATE": (("'2024-01-02'", "DATE '2024-01-02'"), ("'2024-02-01'",)),
}


@pytest.mark.parametrize("kind", ON_POSTGRES)
def test_a_unit_counts_once_on_postgres(kind: str, on_postgres: Make, tmp_path: Path) -> None:
    assert changes(tmp_path, on_postgres, kind, *ON_POSTGRES[kind]) == list(QUESTIONS.values())


@pytest.mark.parametrize("kind", ON_DUCKDB)
def test_a_unit_counts_once_on_duckdb(kind: str, on_duckdb: Make, tmp_path: Path) -> None:
    assert changes(tmp_path, on_duckdb, kind, *ON_DUCKDB[kind]) == list(QUESTIONS.values())


@pytest.mark.parametrize(
    ("kind", "key", "said"),
    [
        ("inet", "'10.0.0.1'", "type inet, which can neither name"),
        ("timestamptz", "'2024-01-01'", "timestamp with time zone cannot name a privacy unit: an integer"),
        ("boolean", "true", "boolean cannot name"),
    ],
)
def test_other_types_are_refused(kind: str, key: str, said: str, on_postgres: Make, tmp_path: Path) -> None:
    url = on_postgres(rows(kind, [key], []))
    with pytest.raises(ConfigError, match=said), opened(tmp_path, url):
        pass


def test_without_the_fold_a_unit_would_be_several(on_postgres: Make, tmp_path: Path) -> None:
    """What the test of citext rests on: read by its bytes, it changes more than is paid for."""
    spelt, others = CASES
    found = []
    for removed in ((), without("citext", spelt[-1])):
        with opened(tmp_path, on_postgres([*rows("citext", spelt, others), *removed])) as (backend, policy):
            tables = {
                name: replace(table, columns=tuple(replace(c, caseless=False) for c in table.columns))
                for name, table in policy.tables.items()
            }
            policy = replace(policy, tables=tables)
            found.append(total(backend, policy, "SELECT COUNT(*) FROM (SELECT u FROM stays GROUP BY u) t"))
    assert found[0] - found[1] == len(spelt)


def test_an_index_over_the_bytes_of_citext_is_no_key(on_postgres: Make, tmp_path: Path) -> None:
    """It lets 'a' and 'A' repeat, which are one unit."""
    made = rows("citext", *CASES)
    made[0] = "CREATE TABLE people (u citext NOT NULL)"
    made.append("CREATE UNIQUE INDEX ON people (u text_ops)")
    with opened(tmp_path, on_postgres(made)) as (backend, policy):
        assert policy.tables["public", "people"].keys == ()
        assert (("public", "people"), ("u",)) not in backend.schema().unique
    made[-1] = "CREATE UNIQUE INDEX ON people (u)"
    with opened(tmp_path, on_postgres(made)) as (_, policy):
        assert policy.tables["public", "people"].keys == (frozenset({"u"}),)


def test_citext_and_text_are_two_units(on_postgres: Make, tmp_path: Path) -> None:
    """Compared with text, citext is text to PostgreSQL."""
    made = rows("citext", *CASES)
    made[1] = made[1].replace("citext", "text")
    url = on_postgres(made)
    with pytest.raises(ConfigError, match="types text and citext are not alike"), opened(tmp_path, url):
        pass


OWN_IDS = """
[backend]
url = "{url}"
[privacy]
mechanisms = "paper"
[tables.users]
privacy_unit = "id"
[tables.sales]
privacy_unit_path = ["user_id -> users.id"]
[tables.payments]
privacy_unit_path = ["sale_id -> sales.id"]
max_rows_per_unit = 3
max_groups_per_unit = {{ kind = 1 }}
"""
OVER_SALES = {
    "SELECT COUNT(DISTINCT users_id) FROM payments": 1,
    "SELECT COUNT(*) FROM payments WHERE id > 0": 3,
    "SELECT kind, COUNT(DISTINCT users_id) FROM payments GROUP BY kind": 1,
    "SELECT COUNT(*) FROM (SELECT users_id, MAX(id) AS last FROM payments GROUP BY users_id) t WHERE last > 1": 1,
    "SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY users_id ORDER BY id) AS n FROM payments) t "
    "WHERE n = 1": 1,
    "SELECT COUNT(*) FROM users WHERE id IN (SELECT users_id FROM payments)": 1,
    "SELECT COUNT(DISTINCT p.users_id) FROM payments p JOIN users u ON u.id = p.users_id": 1,
    "SELECT COUNT(DISTINCT u.id) FROM payments p JOIN users u ON u.id = p.users_id": 1,
    "SELECT COUNT(DISTINCT s.user_id) FROM payments p JOIN sales s ON s.id = p.sale_id": 1,
}


def over_sales(kind: str, removed: str | None) -> list[str]:
    """Three units with three sales each and two payments for each; one of them is spelt in several ways."""
    made = [
        f"CREATE TABLE users (id {kind} PRIMARY KEY)",
        f"CREATE TABLE sales (id INTEGER PRIMARY KEY, user_id {kind})",
        "CREATE TABLE payments (id INTEGER PRIMARY KEY, sale_id INTEGER, kind VARCHAR(9))",
        "INSERT INTO users VALUES ('a@b'), ('c'), ('d')",
        "INSERT INTO payments SELECT i, i % 10, 'kind ' || i % 4 FROM generate_series(1, 20) AS r(i)",
    ]
    other = "A@b" if kind == "citext" else "a@b"
    for number, key in enumerate(("a@b", other, "a@b", "c", "c", "c", "d", "d", "d", None)):
        made.append(f"INSERT INTO sales VALUES ({number}, {'NULL' if key is None else repr(key)})")
    if removed is not None:
        mine = f"(SELECT id FROM sales WHERE user_id = CAST('{removed}' AS {kind}))"
        made.append(f"DELETE FROM payments WHERE sale_id IN {mine}")
        made.append(f"DELETE FROM sales WHERE user_id = CAST('{removed}' AS {kind})")
        made.append(f"DELETE FROM users WHERE id = CAST('{removed}' AS {kind})")
    return made


@pytest.mark.parametrize(
    ("engine", "kind"), [("duckdb", "VARCHAR"), ("postgres", "varchar(9)"), ("postgres", "citext")]
)
def test_a_unit_over_two_hops_counts_once_beside_an_own_id(
    engine: str, kind: str, on_duckdb: Make, on_postgres: Make, tmp_path: Path
) -> None:
    found: list[list[int]] = []
    for removed in (None, "a@b"):
        (tmp_path / "units.duckdb").unlink(missing_ok=True)
        url = (on_duckdb if engine == "duckdb" else on_postgres)(over_sales(kind, removed))
        with opened(tmp_path, url, OWN_IDS) as (backend, policy):
            found.append([total(backend, policy, sql, 1) for sql in OVER_SALES])
    assert [whole - rest for whole, rest in zip(*found, strict=True)] == list(OVER_SALES.values())
