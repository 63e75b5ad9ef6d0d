"""The keys of requests, releases and streams stay as they are: what an account has paid for is found by them.

A file in `keys` has a line for each engine and statement: the start of the SHA-256 of its text, and that of its keys.
DPPROXY_UPDATE_GOLDEN=1 adds the lines of statements that are new and changes none: a line whose keys are to be others
is deleted by hand, and the change that does it says what becomes of the answers that were bought.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import duckdb
import pytest
import yaml

from benchmarks.corpora import coverage
from budget.account import Charge
from dpproxy.backends import sample
from dpproxy.catalog.build_policy import build_policy, open_backend
from dpproxy.config.sections import Config
from dpproxy.deployment.service import configured
from dpproxy.engine.optimizer import plan_release, smaller
from dpproxy.engine.options import terms
from dpproxy.engine.planner import BoundNode, Planner
from dpproxy.engine.release_keys import ReleaseKeys
from dpproxy.engine.release_plan import charge
from dpproxy.front.front import Front
from rewriter.refusal import Refusal
from rewriter.statements.classify import Verdict
from rewriter.statements.lexer import substitute
from rewriter.statements.parameterization import parameterized
from tests import spark_server
from tests.clients.corpus import POLICY as CLIENTS
from tests.dpproxy import shop
from tests.dpproxy.postgres_data import Databases, databases
from tests.spark_server import with_spark

pytestmark = pytest.mark.service

FOLDER = Path(__file__).parent / "keys"
WISHES: tuple[dict[str, str], ...] = (
    {},
    {"dpproxy.spend": "cheap"},
    {"dpproxy.spend": "accurate", "dpproxy.query_information": "3"},
    {"dpproxy.distinct_values": "present"},
)
LOGINS = """
[tables.logins]
privacy_unit = "user_id"
horizon = { seen = ["2024-01-01", "2024-12-31"], events_per_unit = 20 }
"""
SHOP_SCHEMA = (
    f"{shop.SCHEMA}ALTER TABLE orders ADD COLUMN status VARCHAR;"
    "CREATE TABLE logins (user_id BIGINT, device VARCHAR, seen TIMESTAMP);"
)
ROWS = "max_rows_per_unit = 50\nmax_rows_per_unit_per_group = 5\n"
SHOP_POLICY = (
    shop.POLICY.replace('unique = ["order_id, product_id"]\n', f'unique = ["order_id, product_id"]\n{ROWS}')
    + ROWS
    + LOGINS
)
CAPS = {"transactions": (2000, 20), "campaigns": (20, 1), "coupon_redemptions": (50, 10)}
"""The row caps of the sample policy for which keys were pinned: most rows of a household, in all and in a group."""
ARTICLES = (
    "INSERT INTO articles SELECT i, 'Article ' || i, 'topic ' || i % 8 FROM generate_series(1, 60) AS r(i)"
)


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    with Front.start(tmp_path_factory.mktemp("keys") / "front", sessions=4) as started:
        yield started


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    with databases(tmp_path_factory.mktemp("keys") / "server") as started:
        yield started


def keys_of(file: Path, front: Front, statements: Sequence[str], mechanisms: str = "paper") -> Iterator[str]:
    """The lines of the statements that are answered, where nothing is said by the papers' mechanisms."""
    config = configured(file)
    privacy = config.privacy.model_copy(update={"mechanisms": mechanisms})
    config = config.model_copy(update={"privacy": privacy})
    backend = open_backend(config, slots=1)
    try:
        schema = backend.schema()
        policy = build_policy(config, schema, backend)
        front.clone(policy, schema)
        for table in policy.tables.values():
            if table.in_front:
                front.load_public(table, backend.read_public(table))
        planner = Planner(policy, front, backend.dialect)
        engine = config.backend.url.partition(":")[0]
        for sql in dict.fromkeys(statements):
            try:
                keys = list(_keys(sql, planner, config))
            except Refusal:
                continue
            if keys:
                yield f"{engine} {_digest([sql.encode()])} {_digest(keys)}\n"
    finally:
        backend.close()


def _keys(sql: str, planner: Planner, config: Config) -> Iterator[bytes]:
    """Every key of a statement on several terms, constants that hang on releases as they are before these."""
    if planner.classify(sql) is Verdict.RELAY:
        return
    for other in _others(sql):
        with suppress(Refusal):
            planner.plan(other, (), ())
    planner.prepare(sql, ())
    makes = ReleaseKeys(b"\1" * 32, bytes(32), b"\2" * 32)
    for node in planner.plan(sql, (), ()):
        if not isinstance(node, BoundNode):
            continue
        for noise in ("gaussian", "laplace"):
            privacy = config.privacy.model_copy(update={"noise": noise, "scans": "charge"})
            for wishes in WISHES:
                on = replace(terms(privacy, wishes), length="day", epoch="2026-11-23")
                try:
                    one = plan_release(node, on, makes)
                except Refusal as refusal:
                    yield refusal.code.encode()
                    continue
                most = charge(one.cost_at_most)
                less = smaller(one, Charge(most.information // 2, most.calls // 2))
                yield from (one.request_key, one.release_key, one.stream or b"", less.release_key)


def _others(sql: str) -> list[str]:
    """Two statements like this one with other constants, from whose plans the planner learns how to plan it."""
    found = parameterized(sql)
    if found is None:
        return []
    days = ("2024-02-03", "2024-03-05")
    return [
        substitute(found.text, {n: _other(c, day) for n, c in enumerate(found.constants, 1)}) for day in days
    ]


def _other(constant: str, day: str) -> str:
    if constant.isdigit():
        return str(int(constant) + int(day[-1]))
    return f"'{day}'" if constant[:1].isdigit() else f"'no {day}'"


def _digest(parts: Sequence[bytes]) -> str:
    return sha256(b"".join(len(part).to_bytes(4, "big") + part for part in parts)).hexdigest()[:16]


def check(name: str, lines: Iterable[str]) -> None:
    """Compares one engine's lines with those of a file."""
    file, found = FOLDER / name, set(lines)
    written = file.read_text().splitlines(keepends=True) if file.exists() else []
    (engine,) = {line.split()[0] for line in found}
    pinned = {line for line in written if line.startswith(f"{engine} ")}
    changed, new = pinned - found, found - pinned
    assert not changed, f"{len(changed)} of {len(pinned)} statements have other keys, or none: {changed}"
    if new and os.environ.get("DPPROXY_UPDATE_GOLDEN") == "1":
        file.write_text("".join(sorted([*written, *new])))
    else:
        assert not new, f"{len(new)} statements have no line in {file.name}"


@pytest.mark.parametrize(("mechanisms", "name"), [("paper", "shop.txt"), ("clipped", "shop_clipped.txt")])
def test_keys_of_the_shop(mechanisms: str, name: str, front: Front, tmp_path: Path) -> None:
    statements = (FOLDER / "shop.sql").read_text().strip().split(";\n")
    file = shop.make(tmp_path, SHOP_POLICY, SHOP_SCHEMA)
    found = list(keys_of(file, front, statements, mechanisms))
    assert len(found) == len(statements)
    check(name, found)


@pytest.fixture(params=["duckdb", "postgresql", pytest.param("spark", marks=with_spark)])
def corpora(request: pytest.FixtureRequest, server: Databases, shared: Path, tmp_path: Path) -> Path:
    """A dpproxy.toml over the tables of the corpora in an engine, the private ones empty."""
    schema, url = (shared / "corpora" / "schema.sql").read_text(), "duckdb:///data.duckdb"
    with duckdb.connect(tmp_path / "data.duckdb") as connection:
        connection.execute(schema + ARTICLES)
        if request.param == "spark":
            url = spark_server.url()
            with spark_server.owner() as owner:
                spark_server.copied(connection, owner)
    if request.param == "postgresql":
        url = server.url(server.make([schema, ARTICLES]))
    file = tmp_path / "dpproxy.toml"
    file.write_text(f'[backend]\nurl = "{url}"\n' + (shared / "corpora" / "dpproxy.toml").read_text())
    return file


def test_keys_of_the_corpora(front: Front, corpora: Path, shared: Path) -> None:
    folder = shared / "corpora"
    statements = [one.sql for one in (*coverage.legit(folder), *coverage.others(folder))]
    check("corpora.txt", keys_of(corpora, front, [*statements, *listed(folder / "attacks.yaml")]))


def test_keys_of_the_questions(front: Front, sample_data: Path, shared: Path, tmp_path: Path) -> None:
    sample.build(sample_data, tmp_path / "data.duckdb")
    file = tmp_path / "dpproxy.toml"
    policy = (sample_data / "dpproxy.toml").read_text()
    for table, (whole, group) in CAPS.items():
        caps = f"max_rows_per_unit = {whole}\nmax_rows_per_unit_per_group = {group}\n"
        policy = policy.replace(f"[tables.{table}]\n", f"[tables.{table}]\n{caps}")
    file.write_text(
        re.sub('^url = "duckdb:.*"$', 'url = "duckdb:///data.duckdb"', policy, flags=re.MULTILINE)
    )
    check("questions.txt", keys_of(file, front, listed(shared / "corpora" / "accuracy.yaml")))


def test_keys_of_what_clients_send(front: Front, server: Databases, shared: Path, tmp_path: Path) -> None:
    folder = shared / "corpora"
    schema = (folder / "clients" / "schema.sql").read_text().partition("CREATE ROLE")[0]
    file = tmp_path / "dpproxy.toml"
    file.write_text(CLIENTS.format(url=server.url(server.make([schema]))))
    check("clients.txt", keys_of(file, front, [one.sql for one in coverage.clients(folder)]))


def listed(file: Path) -> list[str]:
    """The statements of a corpus."""
    return [entry["sql"] for entry in yaml.safe_load(file.read_text()) if "sql" in entry]
