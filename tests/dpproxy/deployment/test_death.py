"""kill -9 during a query, at every point of its way: charged or not charged, never answered and not charged."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from tests.dpproxy.dying import POINTS
from tests.dpproxy.serving import POLICY, ROOT, make, serving

pytestmark = pytest.mark.service

TRUST = """
[server]
auth = "trust"
[budget.dataset]
"""
SQL = "SELECT town, COUNT(*) AS n FROM people WHERE person_id <> {} GROUP BY town ORDER BY town"
USED = "SELECT used, reserved FROM dpproxy.budget WHERE unit = 'information'"
SETTLED = ("after:settle", "after:execute")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One deployment for all points: each has an analyst and a question of its own."""
    path: Path = tmp_path_factory.mktemp("death")
    make(path, POLICY + TRUST)
    return path


@pytest.mark.parametrize("point", POINTS)
def test_never_answered_and_not_charged(point: str, folder: Path) -> None:
    program = [str(ROOT / "tests" / "dpproxy" / "dying.py"), point]
    name = point.replace(":", " ")
    sql = SQL.format(POINTS.index(point)).encode()
    answered = None
    with serving(["serve", "--port", "0"], folder=folder, program=program) as running:
        try:
            with running.connect(name) as connection:
                answered = connection.execute(sql).fetchall()
        except psycopg.OperationalError:
            pass
        assert running.process.wait(60) == -9, "the process must have died at its point"
    with serving(["serve", "--port", "0"], folder=folder) as running, running.connect(name) as again:
        used, reserved = again.execute(USED).fetchall()[0]
        assert reserved == 0
        assert answered is None, "rows leave only after everything is done"
        if point in SETTLED:
            assert used == 1
        again.execute(sql).fetchall()
        total = again.execute(USED).fetchall()[0][0]
        assert total == (used if point in SETTLED else used + 1), "a settled answer is read again for nothing"
