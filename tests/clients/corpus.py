"""The statements that real clients were seen to send, replayed before a PostgreSQL that holds their schema."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dpproxy.embedded.server import Embedded
from tests.clients.data import fill_postgres
from tests.clients.world import DATABASE, PASSWORD, World, served

HIDDEN = "email = {{ hidden = true }}\n"
POLICY = """
[backend]
url = "{url}"
[budget]
information = 100000
calls = 10000

[tables."app.users"]
privacy_unit = "user_id"
[tables."app.users".columns]
email = {{ hidden = true }}
country = {{ domain = ["DE", "FR"], nullable = true }}
age = {{ range = [18, 97], bounds = [0, 100], nullable = true }}
balance = {{ bounds = [0, 2000] }}
signup = {{ range = ["2023-01-01", "2025-12-31"] }}

[tables."app.events"]
privacy_unit = "user_id"
privacy_unit_path = ["user_id -> app.users.user_id"]
max_rows_per_unit = 20
max_rows_per_unit_per_group = 5
[tables."app.events".columns]
kind = {{ domain = ["click", "view"], nullable = true }}
ts = {{ range = ["2024-01-01", "2024-12-31"] }}
amount = {{ bounds = [0, 500] }}
article_id = {{ domain_from = "app.articles.article_id", nullable = true }}

[tables."app.articles"]
public = true
"""
REDUCED = """
DROP VIEW app.active_users;
DROP FUNCTION app.add1;
DROP INDEX app.events_user_ts;
ALTER TABLE app.users DROP email, ALTER signup DROP DEFAULT, DROP CONSTRAINT users_age_check;
ALTER TABLE app.articles ALTER article_id DROP DEFAULT;
DROP SEQUENCE app.articles_article_id_seq;
"""
"""Leaves what the policy shows: no view, function, sequence, default, plain index, check or hidden column."""
REASONS = {
    "grantee": "analysts have their privileges from a group",
    "client_encoding must be UTF8": "statements are UTF-8",
    "'contact address'": "col_description tells the class behind the comment",
}
"""Why an answer differs, by what replay.py or the statement says."""


@dataclass(frozen=True)
class Replayed:
    """What came of a replay: `failures` are (client, statement, what differs)."""

    passed: int
    total: int
    failures: tuple[tuple[str, str, str], ...]

    @property
    def share(self) -> float:
        """Which part passed."""
        return self.passed / self.total

    def unexplained(self) -> list[tuple[str, str, str]]:
        """The failures that REASONS does not explain."""
        return [one for one in self.failures if reason(*one) is None]


def reason(client: str, statement: str, differs: str) -> str | None:
    """Why a statement is answered otherwise than by PostgreSQL, None if nobody knows."""
    return next((why for words, why in REASONS.items() if words in differs or words in statement), None)


@contextmanager
def corpus_world(folder: Path, corpus: Path, hidden: bool = True) -> Iterator[tuple[World, Path]]:
    """The proxy before a PostgreSQL of the corpus' schema.sql, and what PostgreSQL itself answers.

    The latter is recorded from a database that holds only what the policy shows; `hidden`: no e-mail, which has a
    comment of its own.
    """
    policy, reduced = (
        (POLICY, REDUCED) if hidden else (POLICY.replace(HIDDEN, ""), REDUCED.replace("DROP email, ", ""))
    )
    schema = (corpus / "schema.sql").read_text()
    with Embedded.start(folder / "backend", durable=False) as server:
        url = fill_postgres(server, "held", schema)
        roles = "CREATE ROLE analyst"
        plain = "\n".join(line for line in schema.splitlines() if not line.startswith(roles))
        fill_postgres(server, DATABASE, plain, reduced)
        expected = folder / "expected.json"
        # The role is the server's, and was made with the first database.
        _run(corpus, str(server.socket_dir), 5432, "analyst", "secret", "--record", str(expected))
        with served(
            folder, policy.format(url=url), backend="PostgreSQL", analysts=("analyst", "afresh")
        ) as world:
            yield world, expected


def replay(world: World, corpus: Path, folder: Path, *more: str) -> Replayed:
    """Replays the corpus against the proxy; `more` are options of replay.py."""
    failed = folder / "failed.json"
    said = _run(corpus, "127.0.0.1", world.port, "analyst", PASSWORD, "--fail-file", str(failed), *more)
    found = re.search(r"^passed (\d+) of (\d+)$", said, re.MULTILINE)
    assert found is not None, said
    failures = tuple((one["client"], one["sql"], one["why"]) for one in json.loads(failed.read_text()))
    return Replayed(int(found[1]), int(found[2]), failures)


def _run(corpus: Path, host: str, port: int, user: str, password: str, *more: str) -> str:
    done = subprocess.run(
        [sys.executable, str(corpus / "replay.py"), host, str(port), user, DATABASE, password, *more],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "passed" in done.stdout or "recorded" in done.stdout, done.stderr
    return done.stdout
