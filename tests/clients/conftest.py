"""The clients' policy, served once for the whole run from each backend."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.world import World, duckdb_world, postgres_world


@pytest.fixture(scope="session")
def on_duckdb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The policy on DuckDB."""
    folder: Path = tmp_path_factory.mktemp("clients-duckdb")
    with duckdb_world(folder) as world:
        yield world


@pytest.fixture(scope="session")
def on_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The policy on PostgreSQL."""
    folder: Path = tmp_path_factory.mktemp("clients-postgres")
    with postgres_world(folder) as world:
        yield world
