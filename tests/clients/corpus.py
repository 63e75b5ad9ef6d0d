"""The statements that real clients were seen to send, replayed against the proxy before a PostgreSQL that holds their schema."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpproxy.embedded import Embedded
from tests.clients.data import fill_postgres
from tests.clients.world import ANALYST, PASSWORD, World, served

POLICY = """
[backend]
url = "{url}"
[budget]
information = 100000
calls = 10000

[tables."app.users"]
privacy_unit = "user_id"
[tables."app.users".columns]
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


@contextmanager
def corpus_world(folder: Path, corpus: Path) -> Iterator[World]:
    """The proxy before a PostgreSQL of the corpus' own schema.sql."""
    with Embedded.start(folder / "backend", durable=False) as server:
        url = fill_postgres(server, "shop", (corpus / "schema.sql").read_text())
        with served(folder, POLICY.format(url=url), backend="PostgreSQL") as world:
            yield world


def replay(
    world: World, corpus: Path, database: str, *more: str
) -> tuple[int, Sequence[dict[str, Any]], str]:
    """How many (client, statement) pairs were replayed, those that were answered otherwise, and what was printed."""
    failures = Path(str(corpus / "unused")) if False else None
    raise NotImplementedError(failures)
