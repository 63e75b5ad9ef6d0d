"""Fixtures of the wire: one front for the whole run, one server for each test."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpproxy.front.front import Front
from dpproxy.pgwire.startup import startup_packet
from tests.dpproxy.wire import Raw, Served, served, start_front


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


@pytest.fixture
def direct(wire_front: Front) -> Raw:
    """A connection to the front itself."""
    role, password = wire_front.role_for("ann")
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(10)
    assert isinstance(wire_front.address, Path)
    connection.connect(str(wire_front.address))
    raw = Raw(connection)
    raw.send(startup_packet({"user": role, "database": wire_front.database}))
    raw.scram(password)
    return raw
