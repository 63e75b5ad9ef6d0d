"""No stored value makes an engine raise, whatever is asked: neither the longest nor the strangest of its type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from pathlib import Path

import duckdb
import psycopg
import pytest
from sqlglot import exp, parse_one

from dpproxy.backends.duckdb.adapter import RAISING
from dpproxy.embedded import server as embedded
from dpproxy.embedded.binaries import find_binaries
from dpproxy.embedded.server import Embedded
from dpproxy.pgwire.identifiers import literal
from rewriter.emit.engines.base import Engine
from rewriter.emit.engines.duckdb import DUCKDB
from rewriter.emit.engines.postgres import POSTGRES
from rewriter.policy import front_name, labels
from rewriter.scalar.aggregates import AGGREGATES
from rewriter.scalar.functions import BY_TYPE, FUNCTIONS
from rewriter.syntax.postgres_dialect import Reading
from tests.rewriter import spoiled
from tests.rewriter.bounded import MEASURED
from tests.rewriter.queries import ANSWERED, TRUNCATED
from tests.rewriter.spoiled import DUCKDB_VALUES, LARGE, ODD_STATEMENTS, POSTGRES_VALUES, World
from tests.rewriter.test_checked import GOLDEN
from tests.stability.corpora import entries

pytestmark = pytest.mark.service

VERSIONS = (15, 18)
EVERY = 11
"""Of the statements about a column of each type one in so many is run always, another one for each column."""
STAGED = "WHERE e.amount > (SELECT AVG(amount) FROM events WHERE article_id = e.article_id)"
"""Compares with released numbers, which have no type here."""
EXPRESSIONS = Path(__file__).with_name("scalar").joinpath("functions.sql").read_text().splitlines()
FUNCTION_STATEMENTS = tuple(
    text
    for e in EXPRESSIONS
    for text in (
        f"SELECT count(*) FROM vals WHERE ({e}) IS NOT NULL",
        f"SELECT {e}, count(*) FROM vals GROUP BY 1",
    )
)
SHOP_STATEMENTS = tuple(s for s in dict.fromkeys((*GOLDEN, *ANSWERED, *TRUNCATED)) if STAGED not in s)
Connect = Callable[[str], psycopg.Connection]


@pytest.fixture(scope="module", params=VERSIONS)
def connect(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connect]:
    """New databases of a PostgreSQL of each version."""
    found = find_binaries(request.param)
    if found is None:
        pytest.skip(f"PostgreSQL {request.param} is not installed")
    patch = pytest.MonkeyPatch()
    patch.setattr(embedded, "find_binaries", lambda major=None: found)
    with ExitStack() as stack:
        stack.callback(patch.undo)
        started = Embedded.start(tmp_path_factory.mktemp("spoiled"), durable=False)
        stack.callback(started.stop)
        numbers = count()

        def made(name: str) -> psycopg.Connection:
            database = f"{name}{next(numbers)}"
            with psycopg.connect(started.conninfo(), autocommit=True) as first:
                first.execute(f"CREATE DATABASE {database}".encode())
            new = psycopg.connect(started.conninfo(dbname=database), autocommit=True)
            new.execute("SET timezone = 'UTC'")
            return stack.enter_context(new)

        yield made


def odd_statements(world: World, every: int = 1) -> list[str]:
    """What is asked about each column of the table with one of each type."""
    columns = [c for c in world.types["odd"] if c != "id"]
    return [
        text.format(c=column)
        for number, column in enumerate(columns)
        for place, text in enumerate(ODD_STATEMENTS)
        if (number + place) % every == 0
    ]


def covering(statements: Sequence[str]) -> list[str]:
    """The first statements in which each kind of node stands."""
    seen: set[type[exp.Expr]] = set()
    found = []
    for sql in statements:
        if not sql.startswith("SELECT"):
            continue
        kinds = {type(node) for node in parse_one(sql, dialect=Reading).walk()}
        if not kinds <= seen:
            found.append(sql)
            seen |= kinds
    return found


def raised(
    world: World, statements: Sequence[str], dialect: Engine, connect: Connect, *, least: int
) -> list[str]:
    """What an engine raises at the queries of some statements, of which there have to be `least`."""
    front = connect("front")
    for table in world.policy.tables.values():
        for c in table.columns:
            if listed := labels(c.type):
                texts = ", ".join(map(literal, listed))
                front.execute(f"CREATE TYPE {front_name(c.type)} AS ENUM ({texts})".encode())
        columns = ", ".join(f"{c.name} {front_name(c.type)}" for c in table.columns)
        front.execute(f"CREATE TABLE {table.name} ({columns})".encode())
    if dialect is POSTGRES:
        back = connect("back")
        for text in world.made():
            back.execute(text.encode())
        queries, found = spoiled.failures(statements, world, dialect, back, front)
    else:
        with duckdb.connect(config={"threads": "2", "disabled_optimizers": RAISING}) as memory:
            memory.execute("SET timezone = 'UTC'")
            for text in world.made():
                memory.execute(text)
            queries, found = spoiled.failures(statements, world, dialect, memory, front)
    assert queries >= least
    return found


@pytest.mark.parametrize(("dialect", "values"), [(POSTGRES, POSTGRES_VALUES), (DUCKDB, DUCKDB_VALUES)])
def test_some_statements(
    dialect: Engine, values: dict[str, tuple[str, ...]], connect: Connect, request: pytest.FixtureRequest
) -> None:
    once(dialect, request)
    odd = spoiled.odd(values)
    assert not raised(odd, odd_statements(odd, EVERY), dialect, connect, least=150)
    shop, functions = spoiled.of_policy(MEASURED, values), spoiled.of_policy(spoiled.functions(), values)
    assert not raised(shop, covering(SHOP_STATEMENTS), dialect, connect, least=30)
    assert not raised(functions, covering(FUNCTION_STATEMENTS), dialect, connect, least=100)


@pytest.mark.slow
@pytest.mark.parametrize(("dialect", "values"), [(POSTGRES, POSTGRES_VALUES), (DUCKDB, DUCKDB_VALUES)])
def test_every_statement(
    dialect: Engine, values: dict[str, tuple[str, ...]], connect: Connect, request: pytest.FixtureRequest
) -> None:
    once(dialect, request)
    odd = spoiled.odd(values)
    assert not raised(odd, odd_statements(odd), dialect, connect, least=2000)
    shop, functions = spoiled.of_policy(MEASURED, values), spoiled.of_policy(spoiled.functions(), values)
    assert not raised(shop, SHOP_STATEMENTS, dialect, connect, least=900)
    assert not raised(functions, FUNCTION_STATEMENTS, dialect, connect, least=2000)


@pytest.mark.slow
@pytest.mark.parametrize(("dialect", "values"), [(POSTGRES, POSTGRES_VALUES), (DUCKDB, DUCKDB_VALUES)])
def test_the_corpora(
    dialect: Engine,
    values: dict[str, tuple[str, ...]],
    connect: Connect,
    shared: Path,
    request: pytest.FixtureRequest,
) -> None:
    once(dialect, request)
    statements = [str(e["sql"]) for e in entries(shared / "corpora" / "legit.yaml")]
    assert not raised(spoiled.of_policy(MEASURED, values), statements, dialect, connect, least=100)


@pytest.mark.slow
@pytest.mark.parametrize(("dialect", "values"), [(POSTGRES, POSTGRES_VALUES), (DUCKDB, DUCKDB_VALUES)])
def test_values_of_300_megabytes(
    dialect: Engine, values: dict[str, tuple[str, ...]], connect: Connect, request: pytest.FixtureRequest
) -> None:
    once(dialect, request)
    plain = {"bigint", "integer", "BIGINT", "INTEGER"}
    large = {of: (*LARGE.get(of, ()), *found[-1:]) for of, found in values.items() if of in {*LARGE, *plain}}
    # PostgreSQL writes no row of a gigabyte.
    odd = replace(spoiled.odd(large), together=False)
    assert not raised(odd, odd_statements(odd), dialect, connect, least=100)


def once(dialect: Engine, request: pytest.FixtureRequest) -> None:
    """DuckDB is the same beside every version of PostgreSQL."""
    if dialect is DUCKDB and request.node.callspec.params["connect"] != VERSIONS[-1]:
        pytest.skip("run beside the newest version")


def test_every_function_is_written_in_a_form_or_total() -> None:
    tried = {type(part) for e in EXPRESSIONS for part in parse_one(e, dialect=Reading).walk()}
    for function in FUNCTIONS:
        assert bool(function.form) != function.total, function.words
        # What is refused, whatever its values, and what is another node by then.
        refused = (exp.SimilarTo, exp.ArrayContains, exp.DateTrunc)
        assert function.node in tried or issubclass(function.node, refused), function.words
    assert BY_TYPE[exp.Mul].form == "arithmetic"


def test_aggregates_are_total_or_of_sums() -> None:
    partial = {row.node for row in AGGREGATES.values() if not row.total}
    spread = {exp.Variance, exp.VariancePop, exp.Stddev, exp.StddevSamp, exp.StddevPop}
    assert partial == {exp.Sum, exp.Avg, *spread}
