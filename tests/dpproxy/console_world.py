"""A deployment with something to show on the console, and names that try to be markup."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import duckdb
import psycopg

from dpproxy.cli import console
from dpproxy.config.identity import OWNER
from dpproxy.deployment.service import configured
from tests.dpproxy.serving import COUNT, POLICY, Running, make

PASSWORD = "correct horse battery"
EVIL = "<script>alert(1)</script>"
EVIL_TABLE = "<img src=x onerror=alert(2)>"
ANALYSTS = ("ann", EVIL)
REFUSED = "SELECT * FROM people"
_BUDGETS = f"""
[server]
auth = "trust"

[budget]
information = 100

[budget.analysts."{EVIL}"]
information = 12
calls = 3

[tables."{EVIL_TABLE}"]
public = true

[tables.people]
"""


def make_world(folder: Path) -> Path:
    """The configuration, with the owner's password set."""
    file = make(folder, POLICY.replace("\n[tables.people]\n", _BUDGETS, 1))
    with duckdb.connect(folder / "people.duckdb") as connection:
        connection.execute(f'CREATE TABLE "{EVIL_TABLE}" (a INTEGER)')
    console.password(configured(file), PASSWORD, OWNER)
    return file


def ask(run: Running) -> None:
    """Each analyst has an answer, the same again, and a refusal."""
    for name in ANALYSTS:
        with run.connect(name) as connection:
            for _ in range(2):
                assert connection.execute(COUNT.encode()).fetchall()
            with suppress(psycopg.Error):
                connection.execute(REFUSED.encode())
