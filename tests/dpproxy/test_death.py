"""kill -9 during a query, at every point of its way: charged or not charged, never answered and not charged."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from tests.dpproxy.deployment import ROOT, command, make, serving
from tests.dpproxy.dying import POINTS

SQL = "SELECT town, COUNT(*) AS n FROM people GROUP BY town ORDER BY town"
USED = "SELECT used, reserved FROM dpproxy.budget WHERE unit = 'information'"
SETTLED = ("after:settle", "after:execute")


def prepared(folder: Path) -> Path:
    make(folder)
    command("user", "add", "ann", "--password-stdin", folder=folder, entry="pencil\n")
    return folder


@pytest.mark.parametrize("point", POINTS)
def test_never_answered_and_not_charged(point: str, tmp_path: Path) -> None:
    folder = prepared(tmp_path)
    program = [str(ROOT / "tests" / "dpproxy" / "dying.py"), point]
    answered = None
    with serving(["serve", "--port", "0"], folder=folder, program=program) as running:
        try:
            with running.connect("ann", "pencil") as connection:
                answered = connection.execute(SQL).fetchall()
        except psycopg.OperationalError:
            pass
        assert running.process.wait(60) == -9, "the process must have died at its point"
    with serving(["serve", "--port", "0"], folder=folder) as running, running.connect("ann", "pencil") as again:
        used, reserved = again.execute(USED).fetchall()[0]
        assert reserved == 0
        assert answered is None, "rows leave only after everything is done"
        if point in SETTLED:
            assert used == 1
        again.execute(SQL).fetchall()
        total = again.execute(USED).fetchall()[0][0]
        assert total == (used if point in SETTLED else used + 1), "a settled answer is read again for nothing"
