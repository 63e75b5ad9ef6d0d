"""Fixtures of the wire: one front for the whole run, one server for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dpproxy.front import Front
from tests.dpproxy.wire import Served, served, start_front


@pytest.fixture(scope="session")
def wire_front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    """The front with `people` and `articles`."""
    folder: Path = tmp_path_factory.mktemp("wire")
    with start_front(folder / "front") as front:
        yield front


@pytest.fixture
def proxy(wire_front: Front) -> Iterator[Served]:
    """A server that trusts."""
    with served(wire_front) as server:
        yield server
