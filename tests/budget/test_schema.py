"""The schema: made on first use, migrated from version 1, used with the least privileges it needs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import errors

from budget.account import (
    Charge,
    LedgerError,
    LedgerUnavailable,
    Limit,
    Pinned,
    Reservation,
    ReserveRequest,
    Settlement,
)
from budget.ledger import Ledger
from budget.schema import MIGRATIONS
from dpproxy.embedded.server import Embedded
from tests.budget.dying import PINNED

pytestmark = pytest.mark.service

UNIT = 10**6
APPEND_ONLY = (
    "entry",
    "mark",
    "limit_change",
    "pinned",
    "epoch",
    "migration",
    "look",
    "stream_paid",
)
_numbers = itertools.count()


@pytest.fixture
def database(server: Embedded) -> Iterator[Callable[..., str]]:
    """Makes a new database and gives its conninfo."""
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:

        def make(owner: str | None = None) -> str:
            name = f"schema_{next(_numbers)}"
            connection.execute(f"CREATE DATABASE {name}" + (f" OWNER {owner}" if owner else ""))
            return server.conninfo(dbname=name)

        yield make


def version_1(conninfo: str) -> None:
    """A ledger as version 1 left it: two analysts and a team, a replay, a stored answer paid by both, two held."""
    with psycopg.connect(conninfo) as connection:
        connection.execute(files("budget.migrations").joinpath("01.sql").read_bytes())
        connection.execute(Path(__file__).with_name("version_1.sql").read_bytes())


def facts(conninfo: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(conninfo) as connection:
        return connection.execute(
            "SELECT number, reservation, account, kind, at_most_information, information, calls, written_at"
            " FROM dpproxy_ledger.entry ORDER BY number"
        ).fetchall()


def ask(ledger: Ledger, *chain: str) -> Charge:
    """A query from beginning to end, by all that a proxy needs."""
    for name in chain:
        ledger.accounts.seed(name, Limit(100 * UNIT, 10 * UNIT, "month"))
    key = b"%d" % next(_numbers)
    ledger.epochs.nonce("2026-01-01")
    with ledger.single_flight.hold([key]):
        ledger.release(hold(ledger, *chain, reached=False))
        ledger.settle(
            hold(ledger, *chain),
            Settlement(
                Charge(5 * UNIT, UNIT),
                release_key=key,
                request_key=key,
                answer=b"rows",
                mechanism="m",
                query="q",
                epoch="2026-01-01",
            ),
        )
    ledger.high_water.check(ledger.high_water.now())
    ledger.epochs.prune(["2026-01-02"])
    return ledger.accounts.get(chain[0]).used


def hold(ledger: Ledger, *chain: str, reached: bool = True) -> Reservation:
    return ledger.reserve(
        ReserveRequest(chain, [Charge(7 * UNIT, UNIT)], reached=reached, queries=["q"], mechanisms=["m"])
    )[0]


def test_version_1_is_taken_over(database: Callable[..., str]) -> None:
    conninfo = database()
    version_1(conninfo)
    before = facts(conninfo)
    ledger = Ledger.open(conninfo, PINNED, instance="another")
    assert facts(conninfo) == before
    assert ledger.history.verify() is None
    alice, bob, team = (ledger.accounts.get(name) for name in ("analyst:alice", "analyst:bob", "team:retail"))
    assert (alice.reserved, team.reserved) == (Charge(9 * UNIT, UNIT), Charge(5 * UNIT, UNIT))
    assert (alice.frozen, bob.limit.period, team.limit.mode) == (False, "week", "track")
    assert ledger.replay("analyst:bob", b"request one") == b"rows"
    assert [(row.query, row.mechanism, row.replayed) for row in ledger.history.releases("analyst:bob")] == [
        ("SELECT q", "UnkGumb", True),
        ("SELECT q", "UnkGumb", True),
        ("SELECT q", "UnkGumb", False),
        ("SELECT q", "UnkGumb", True),
    ]
    told = ledger.history.releases("analyst:alice")
    assert [row.replayed for row in told] == [False, True]
    assert ledger.epochs.prune([]) == 1
    assert ledger.history.releases("analyst:alice") == told
    ledger.close()
    again = Ledger.open(conninfo, PINNED, instance="proxy 1")
    assert again.accounts.get("analyst:alice").reserved == Charge(0, 0)
    assert again.history.verify() is None
    assert ask(again, "analyst:new", "team:retail") == Charge(5 * UNIT, UNIT)
    again.close()


def test_an_old_schema_is_migrated_once_by_many(database: Callable[..., str]) -> None:
    conninfo = database()
    version_1(conninfo)
    with ThreadPoolExecutor(6) as pool:
        opened = list(pool.map(lambda n: Ledger.open(conninfo, PINNED, instance=f"proxy {n + 2}"), range(6)))
    assert len({ledger.id for ledger in opened}) == 1
    assert opened[3].history.verify() is None
    for ledger in opened:
        ledger.close()
    with psycopg.connect(conninfo) as connection:
        versions = connection.execute("SELECT version FROM dpproxy_ledger.migration ORDER BY 1").fetchall()
    assert versions == [(number + 1,) for number in range(len(MIGRATIONS))]


def test_a_newer_schema_is_left_alone(database: Callable[..., str]) -> None:
    conninfo = database()
    Ledger.open(conninfo, PINNED, instance="x").close()
    with psycopg.connect(conninfo) as connection:
        connection.execute("INSERT INTO dpproxy_ledger.migration (version) VALUES (99)")
    with pytest.raises(LedgerError, match="newer"):
        Ledger.open(conninfo, PINNED, instance="x")


def test_every_ledger_has_an_id_of_its_own(database: Callable[..., str]) -> None:
    one, two = (Ledger.open(database(), PINNED, instance="x") for _ in range(2))
    assert one.id != two.id
    one.close()
    two.close()


def acting(conninfo: str) -> psycopg.Connection[Any]:
    return psycopg.connect(conninfo, autocommit=True, options="-c role=dpproxy_ledger")


def test_a_proxy_acts_with_the_least_privileges(database: Callable[..., str]) -> None:
    """The embedded ledger's login is a superuser, its sessions are not."""
    conninfo = database()
    ledger = Ledger.open(conninfo, PINNED, instance="x")
    assert ask(ledger, "analyst:a", "team:t") == Charge(5 * UNIT, UNIT)
    assert ledger._store.rows("SELECT current_user") == [("dpproxy_ledger",)]
    with acting(conninfo) as session:
        for table in APPEND_ONLY:
            for statement in (
                f"DELETE FROM dpproxy_ledger.{table}",
                f"TRUNCATE dpproxy_ledger.{table} CASCADE",
                f"DROP TABLE dpproxy_ledger.{table} CASCADE",
            ):
                with pytest.raises(errors.InsufficientPrivilege):
                    session.execute(statement)
        for edit in (
            "UPDATE dpproxy_ledger.entry SET information = 0",
            "UPDATE dpproxy_ledger.mark SET reached = false",
            "UPDATE dpproxy_ledger.pinned SET value = '1'",
            "UPDATE dpproxy_ledger.account SET name = 'analyst:b'",
            "UPDATE dpproxy_ledger.answer SET answer = ''",
            "DELETE FROM dpproxy_ledger.account",
            "ALTER TABLE dpproxy_ledger.account DROP CONSTRAINT account_within_limit",
            "CREATE TABLE dpproxy_ledger.more (a int)",
            "INSERT INTO dpproxy_ledger.migration (version) VALUES (9)",
        ):
            with pytest.raises(errors.InsufficientPrivilege):
                session.execute(edit)
    ledger.close()


def test_a_login_that_may_only_use_the_ledger(server: Embedded, database: Callable[..., str]) -> None:
    """Its owner made the schema; the proxy's URL names a member of the role."""
    conninfo = database()
    Ledger.open(conninfo, PINNED, instance="owner").close()
    with psycopg.connect(conninfo, autocommit=True) as owner:
        owner.execute("CREATE ROLE proxy_login LOGIN PASSWORD 'secret' IN ROLE dpproxy_ledger")
        (name,) = owner.execute("SELECT current_database()").fetchone() or ("",)
    login = server.conninfo(user="proxy_login", dbname=str(name), password="secret")
    ledger = Ledger.open(login, PINNED, instance="proxy")
    assert ask(ledger, "analyst:a", "team:t") == Charge(5 * UNIT, UNIT)
    with psycopg.connect(login) as session, pytest.raises(errors.InsufficientPrivilege):
        session.execute("DELETE FROM dpproxy_ledger.entry")
    ledger.close()


def test_a_database_of_ones_own_is_enough(server: Embedded, database: Callable[..., str]) -> None:
    """A login that can make no role makes the schema, and then uses it as its owner."""
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        connection.execute("CREATE ROLE plain_owner LOGIN PASSWORD 'secret'")
    name = psycopg.conninfo.conninfo_to_dict(database("plain_owner"))["dbname"]
    login = server.conninfo(user="plain_owner", dbname=str(name), password="secret")
    ledger = Ledger.open(login, PINNED, instance="proxy")
    assert ask(ledger, "analyst:a") == Charge(5 * UNIT, UNIT)
    assert ledger._store.rows("SELECT current_user") == [("plain_owner",)]
    ledger.close()


def test_a_login_that_may_do_nothing_is_told_so(server: Embedded, database: Callable[..., str]) -> None:
    conninfo = database()
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("CREATE ROLE powerless LOGIN PASSWORD 'secret'")
        (name,) = connection.execute("SELECT current_database()").fetchone() or ("",)
    login = server.conninfo(user="powerless", dbname=str(name), password="secret")
    with pytest.raises(LedgerError, match="may not"):
        Ledger.open(login, PINNED, instance="proxy")


def test_facts_are_held_by_constraints_too(shared_ledger: Ledger, server: Embedded) -> None:
    """What even the schema's owner cannot write: see migrations/01.sql."""
    shared_ledger.accounts.seed("analyst:constrained", Limit(10, 10, "day"))
    held = shared_ledger.reserve(
        ReserveRequest(["analyst:constrained"], [Charge(5, 1)], reached=True, queries=["q"], mechanisms=["m"])
    )[0]
    resolving = (
        "INSERT INTO dpproxy_ledger.entry (reservation, account, own, stage, kind, opened, at_most_information,"
        " at_most_calls, information, calls, period_number, written_at, at_most_epsilon, epsilon)"
        " VALUES (%s, 'analyst:constrained', true, 1, %s, 0, %s, 1, %s, 1, 1, now(), %s, %s)"
    )
    with psycopg.connect(server.conninfo(), autocommit=True) as owner:
        for kind, most, charged, epsilon, error in (
            ("settle", 5, 6, 9, errors.CheckViolation),
            ("settle", 6, 6, 9, errors.ForeignKeyViolation),
            ("refund", 5, 5, 9, errors.CheckViolation),
            ("settle", 5, 5, 10, errors.CheckViolation),
            ("settle", 5, 5, 2, errors.CheckViolation),
            ("settle", 5, 5, None, errors.NotNullViolation),
        ):
            with pytest.raises(error):
                owner.execute(resolving, (held.id, kind, most, charged, 9, epsilon))
        with pytest.raises(errors.CheckViolation):
            owner.execute(
                "UPDATE dpproxy_ledger.account SET used_information = 11 WHERE name = 'analyst:constrained'"
            )
        shared_ledger.spend(held)
        with pytest.raises(errors.UniqueViolation):
            owner.execute(resolving, (held.id, "settle", 5, 5, 9, 9))
    assert shared_ledger.history.verify() is None


def test_pinned_values_are_texts_of_exact_numbers() -> None:
    assert Pinned.texts(PINNED)["epsilon_per"] == "3/20"
    with pytest.raises(LedgerUnavailable):
        Ledger.open("host=127.0.0.1 port=1 connect_timeout=1", PINNED, instance="x")
