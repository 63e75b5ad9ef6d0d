"""A deployment with something to show on the console, and names that try to be markup."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import duckdb
import psycopg

from tests.dpproxy.deployment import COUNT, POLICY, Running, command, make

PASSWORD = "correct horse battery"
EVIL = "<script>alert(1)</script>"
EVIL_TABLE = "<img src=x onerror=alert(2)>"
ANALYSTS = ("ann", EVIL)
REFUSED = "SELECT * FROM people"
_BUDGETS = f"""
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
    """The configuration, with analysts and the owner's password set."""
    file = make(folder, POLICY.replace("\n[tables.people]\n", _BUDGETS, 1))
    with duckdb.connect(folder / "people.duckdb") as connection:
        connection.execute(f'CREATE TABLE "{EVIL_TABLE}" (a INTEGER)')
    done = command("console", "password", "--password-stdin", "-c", str(file), entry=f"{PASSWORD}\n")
    assert done.returncode == 0, done.stderr
    for name in ANALYSTS:
        done = command("user", "add", name, "--password-stdin", "-c", str(file), entry="pw\n")
        assert done.returncode == 0, done.stderr
    return file


def ask(run: Running) -> None:
    """Each analyst has an answer, the same again, and a refusal."""
    for name in ANALYSTS:
        with run.connect(name, "pw") as connection:
            for _ in range(2):
                assert connection.execute(COUNT.encode()).fetchall()
            with suppress(psycopg.Error):
                connection.execute(REFUSED.encode())
