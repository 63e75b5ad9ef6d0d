"""docs/ledger.md: its example runs and prints what it says, and every name in it exists."""

from __future__ import annotations

import itertools
import re
from contextlib import redirect_stdout
from io import StringIO
from operator import attrgetter
from pathlib import Path

import psycopg
import pytest

from budget import account
from budget.ledger import Ledger
from dpproxy.embedded.server import Embedded

pytestmark = pytest.mark.service

_numbers = itertools.count()
CLASSES = {"Ledger", "RollbackGuardedLedger", "PostgresStore"}
PAGE = (Path(__file__).parent.parent.parent / "docs/ledger.md").read_text()


def block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```", PAGE, flags=re.M | re.S)
    assert found
    return found[1]


@pytest.fixture
def database(server: Embedded) -> str:
    name = f"documented_{next(_numbers)}"
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return name


def test_the_example_prints_what_it_says(server: Embedded, database: str) -> None:
    said = StringIO()
    with redirect_stdout(said):
        exec(block("python"), {"URL": server.conninfo(dbname=database)})
    assert said.getvalue() == block("text")


def test_the_role_can_be_given(server: Embedded, database: str) -> None:
    said = StringIO()
    with redirect_stdout(said):
        exec(block("python"), {"URL": server.conninfo(dbname=database)})
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        connection.execute(block("sql").encode())
    with redirect_stdout(said):
        exec(block("python"), {"URL": server.conninfo(user="proxy", dbname=database, password="...")})
    again = block("text").replace(
        "charged 7 information units and 1 call", "charged 0 information units and 0 calls"
    )
    assert said.getvalue() == block("text") + again


def test_parts_calls_and_errors_exist(ledger: Ledger) -> None:
    parts = set(re.findall(r"^\| `ledger\.([a-z_]+)` \|", PAGE, flags=re.M))
    assert parts == {name for name in vars(ledger) if not name.startswith("_")} - {"id"}
    calls = set(re.findall(r"`([a-z_.]+)\(", PAGE))
    assert all(callable(attrgetter(call)(ledger)) for call in calls)
    assert len(calls) > 10
    errors = set(re.findall(r"`([A-Z][A-Za-z]+)`", PAGE)) - CLASSES
    assert errors <= set(vars(account))
    assert len(errors) > 5
