"""A real ledger on an embedded PostgreSQL with fsync on, and an independent computation of its balances."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction

import psycopg
import pytest

from budget.account import Limit, Pinned
from budget.ledger import Ledger
from dpproxy.embedded.server import Embedded

PINNED = Pinned(Fraction("0.15"), Fraction("1e-10"), Fraction("1e-9"), "household")

BALANCES = """
SELECT account.name, used_information, used_calls, reserved_information, reserved_calls,
    COALESCE((SELECT sum(information) FROM dpproxy_ledger.entry
        WHERE account = name AND period_number >= account.period_first), 0),
    COALESCE((SELECT sum(calls) FROM dpproxy_ledger.entry
        WHERE account = name AND period_number >= account.period_first), 0),
    COALESCE((SELECT sum(CASE stage WHEN 0 THEN at_most_information ELSE -at_most_information END)
        FROM dpproxy_ledger.entry WHERE account = name), 0),
    COALESCE((SELECT sum(CASE stage WHEN 0 THEN at_most_calls ELSE -at_most_calls END)
        FROM dpproxy_ledger.entry WHERE account = name), 0)
FROM dpproxy_ledger.account AS account
"""

_numbers = itertools.count()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    with Embedded.start(tmp_path_factory.mktemp("ledger") / "server", durable=True) as running:
        yield running


@pytest.fixture(scope="session")
def shared_ledger(server: Embedded) -> Iterator[Ledger]:
    ledger = Ledger.open(server.conninfo(), PINNED, instance="tests")
    yield ledger
    ledger.close()


@pytest.fixture
def ledger(shared_ledger: Ledger, server: Embedded) -> Iterator[Ledger]:
    """The ledger; when the test is over, every balance must be what its entries say."""
    yield shared_ledger
    with psycopg.connect(server.conninfo()) as connection:
        for name, *amounts in connection.execute(BALANCES.encode()):
            assert amounts[:4] == amounts[4:], f"the balance of {name} is not what its entries say"


@pytest.fixture(scope="session")
def pinned() -> Pinned:
    return PINNED


@pytest.fixture
def account(ledger: Ledger) -> Callable[..., str]:
    """Makes a new account of so many units and calls."""

    def make(information: int = 100, calls: int = 10, kind: str = "analyst", **rest: str) -> str:
        name = f"{kind}:{next(_numbers)}"
        values: dict[str, object] = {"period": "month", **rest}
        ledger.accounts.seed(name, Limit(information * 10**6, calls * 10**6, **values))  # type: ignore[arg-type]
        return name

    return make


@pytest.fixture
def sql(server: Embedded) -> Callable[..., list[tuple[object, ...]]]:
    """Runs a statement behind the ledger's back."""

    def run(statement: str, *values: object) -> list[tuple[object, ...]]:
        with psycopg.connect(server.conninfo(), autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    return run


@pytest.fixture
def age(sql: Callable[..., list[tuple[object, ...]]]) -> Callable[[str, float], None]:
    """Lets hours pass for an account: all it remembers of time moves into the past."""

    def pass_hours(name: str, hours: float) -> None:
        sql(
            "UPDATE dpproxy_ledger.account SET period_started = period_started - %s * interval '1 hour',"
            " seen_at = seen_at - %s * interval '1 hour' WHERE name = %s",
            hours,
            hours,
            name,
        )

    return pass_hours


@dataclass(frozen=True)
class Jumping:
    """A ledger on a server whose clock goes wrong by as much as it is told."""

    ledger: Ledger
    conninfo: str

    def ahead(self, **by: float) -> None:
        """The server's clock is ahead of the true time by so much from now on, or behind it."""
        with psycopg.connect(self.conninfo, autocommit=True) as connection:
            connection.execute("UPDATE faked.clock SET ahead = %s", (timedelta(**by),))


@pytest.fixture(scope="session")
def jumping_server(server: Embedded) -> Iterator[Jumping]:
    """Its database has a clock_timestamp() of its own before PostgreSQL's."""
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE jumping")
        connection.execute("ALTER DATABASE jumping SET search_path = faked, pg_catalog")
    conninfo = server.conninfo(dbname="jumping")
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA faked")
        connection.execute("CREATE TABLE faked.clock AS SELECT interval '0' AS ahead")
        connection.execute(
            "CREATE FUNCTION faked.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS"
            " 'SELECT pg_catalog.clock_timestamp() + (SELECT ahead FROM faked.clock)'"
        )
        connection.execute("GRANT USAGE ON SCHEMA faked TO PUBLIC")
        connection.execute("GRANT SELECT ON faked.clock TO PUBLIC")
    ledger = Ledger.open(conninfo, PINNED, instance="jumping")
    yield Jumping(ledger, conninfo)
    ledger.close()


@pytest.fixture
def jumping(jumping_server: Jumping) -> Iterator[Jumping]:
    """The same, its clock right at the beginning; its balances are what its entries say at the end."""
    jumping_server.ahead()
    yield jumping_server
    assert jumping_server.ledger.history.verify() is None
