"""A short run of the truth oracle on each engine, and what it compares."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from tests.oracle.world import Server
from tests.truth.compare import close, keys
from tests.truth.run import run
from tests.truth.world import world

STATEMENTS = 150


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("truth")
    for above in (folder, folder.parent):
        above.chmod(0o755)
    made = Server(folder)
    yield made
    made.close()


@pytest.mark.service
@pytest.mark.parametrize("engine", ["duckdb", "postgresql"])
def test_answers_without_noise_are_postgresqls(engine: str, server: Server, tmp_path: Path) -> None:
    with world(server, tmp_path, engine, "57") as asked:
        counted, findings = run(asked, "57", 600, STATEMENTS)
    assert not findings
    assert counted["answered"] > STATEMENTS / 3, counted


def test_values_that_differ_are_told() -> None:
    assert close(3, 3)
    assert not close(3, 4)
    assert close(None, 0)
    assert not close(None, 1)
    assert close(Decimal("2.5"), 2.5)
    assert not close(Decimal(1000), 1010.0)
    assert keys((Decimal("1.50"), "a"), 2) == keys((1.5, "a"), 2)
    assert keys(("a ", True), 2) != keys(("a", True), 2)
