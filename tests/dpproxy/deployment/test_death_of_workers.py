"""kill -9 of one of several workers during a query, at every point of its way: never answered and not charged."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.dpproxy.deployment.test_death import SETTLED, SQL, TRUST, USED
from tests.dpproxy.dying import POINTS
from tests.dpproxy.serving import POLICY, ROOT, Running, make, serving

pytestmark = pytest.mark.service

SHORT = ("before:reserve", "after:reserve", "after:release", "after:settle")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the workers die of."""
    path: Path = tmp_path_factory.mktemp("death") / "point"
    return path


@pytest.fixture(scope="module")
def server(file: Path) -> Iterator[Running]:
    """One server for all points: each has an analyst and a question of its own."""
    make(file.parent, POLICY + TRUST)
    program = [str(ROOT / "tests" / "dpproxy" / "dying_worker.py"), str(file)]
    arguments = ["serve", "--port", "0", "--workers", "2"]
    with serving(arguments, folder=file.parent, program=program) as running:
        yield running


def asked(server: Running, name: str, sql: str) -> list[tuple[Any, ...]]:
    """By a new connection, as soon as one is taken."""
    for _ in range(200):
        try:
            with server.connect(name) as connection:
                return connection.execute(sql.encode()).fetchall()
        except psycopg.OperationalError:
            time.sleep(0.05)
    raise AssertionError("nobody answers")


@pytest.mark.parametrize(
    "point",
    [pytest.param(p, marks=[] if p in SHORT else [pytest.mark.slow]) for p in POINTS],
)
def test_never_answered_and_not_charged(point: str, server: Running, file: Path) -> None:
    name, sql = point.replace(":", " "), SQL.format(POINTS.index(point))
    with server.connect(name) as doomed:
        file.write_text(point)
        with pytest.raises(psycopg.OperationalError):
            doomed.execute(sql.encode()).fetchall()
        assert not file.exists(), "a worker must have died at its point"
    deadline = time.monotonic() + 60
    while (row := asked(server, name, USED)[0])[1] != 0:
        assert time.monotonic() < deadline, "what the dead worker held is not ended"
        time.sleep(0.05)
    used = row[0]
    if point in SETTLED:
        assert used == 1
    asked(server, name, sql)
    total = asked(server, name, USED)[0][0]
    assert total == (used if point in SETTLED else used + 1), "a settled answer is read again for nothing"
