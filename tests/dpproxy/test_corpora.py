"""The corpora through a real client: how much is answered, and that nothing leaks that must not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
import yaml

from tests.dpproxy.deployment import Running, command, serving

AT_LEAST = 83
NOT_NULL_KEYS = {"users": "user_id", "articles": "article_id", "events": "event_id"}


@pytest.fixture(scope="module")
def corpora(shared: Path) -> Path:
    return shared / "corpora"


@pytest.fixture(scope="module")
def server(corpora: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The corpora's data and policy, served by the command."""
    folder = tmp_path_factory.mktemp("corpora")
    subprocess.run([sys.executable, str(corpora / "make_data.py"), str(folder)], check=True, timeout=120)
    with duckdb.connect(folder / "data.duckdb") as connection:
        connection.execute((corpora / "schema.sql").read_text())
        for table in NOT_NULL_KEYS:
            connection.execute(
                f"INSERT INTO {table} SELECT * FROM read_csv('{folder / table}.csv', header = true)"
            )
    policy = (corpora / "dpproxy.toml").read_text()
    (folder / "dpproxy.toml").write_text('[backend]\nurl = "duckdb:///data.duckdb"\n' + policy)
    command("user", "add", "ann", "--password-stdin", folder=folder, entry="pencil\n")
    with serving(["serve", "-c", str(folder / "dpproxy.toml"), "--port", "0"], folder=folder) as running:
        yield running


def entries(path: Path) -> list[dict[str, Any]]:
    return [e for e in yaml.safe_load(path.read_text()) if e.get("sql")]


def asked(server: Running, sql: str) -> psycopg.Error | None:
    """The error that a client gets, None for an answer; rows are fetched to the end."""
    with server.connect("ann", "pencil") as connection:
        try:
            cursor = connection.execute(sql.encode())
            if cursor.description is not None:
                cursor.fetchall()
        except psycopg.Error as error:
            return error
    return None


def test_most_of_what_analysts_ask_is_answered(server: Running, corpora: Path) -> None:
    found = {e["id"]: asked(server, e["sql"]) for e in entries(corpora / "legit.yaml")}
    answered = [name for name, error in found.items() if error is None]
    refused = {name: e.sqlstate for name, e in found.items() if e is not None}
    print(f"\nlegitimate queries: {len(answered)} of {len(found)} answered, refused: {refused}")
    assert len(answered) >= AT_LEAST
    assert all(state is not None and state[:2] in ("PV", "0A") for state in refused.values())


def test_nothing_that_must_be_refused_is_answered(server: Running, corpora: Path) -> None:
    attacks = entries(corpora / "attacks.yaml")
    found = {e["id"]: asked(server, e["sql"]) for e in attacks}
    must = [e["id"] for e in attacks if e["allowed"] == ["reject"]]
    leaks = [name for name in must if found[name] is None]
    answered = sum(error is None for error in found.values())
    print(
        f"\nattacks: {len(must)} must be refused, {len(leaks)} were not; {answered} of {len(found)} answered"
    )
    assert not leaks


def test_no_message_holds_a_value_of_the_data(server: Running, corpora: Path) -> None:
    """What is in a message came from the statement or the policy: the outlier's own words are in none."""
    for entry in entries(corpora / "attacks.yaml"):
        error = asked(server, entry["sql"])
        if error is not None and "Chief Privacy Officer" not in entry["sql"]:
            parts = (error.diag.message_primary, error.diag.message_detail, error.diag.message_hint)
            assert not any("Chief Privacy Officer" in part for part in parts if part)
