"""`dpproxy demo` on the whole sample data: what it prints, and that it is near the truth."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import duckdb
import pytest

from dpproxy.backends.sample import database_of
from dpproxy.cli.demo import QUERIES, psql_line
from tests.dpproxy.serving import serving

pytestmark = pytest.mark.service

CATEGORIES = (
    "SELECT p.product_category, count(DISTINCT t.household_id) FROM transactions t"
    " JOIN products p USING (product_id) GROUP BY 1"
)
NUMBERS = (
    "SELECT sum(sales_value) FROM transactions",
    "SELECT avg(basket) FROM (SELECT sum(sales_value) AS basket FROM transactions GROUP BY household_id, basket_id)",
)
PRODUCTS = "SELECT product_id::VARCHAR, count(DISTINCT household_id) FROM transactions GROUP BY 1"


def printed(clone: Path) -> list[str]:
    """What the demonstration prints after its port is open, until it has nothing more to say."""
    lines = []
    with serving(["demo", "--port", "0"], folder=clone, root=clone) as running:
        assert running.process.stdout is not None
        for line in running.process.stdout:
            lines.append(line.rstrip())
            if lines[-1].endswith("Ctrl-C stops."):
                break
        assert running.stop() == 0
    return lines


def parts(lines: list[str]) -> list[str]:
    """What is printed for each query."""
    return "\n".join(lines).split("sample=> ")[1:]


def answers(lines: list[str]) -> list[list[tuple[str, int]]]:
    """The rows under each query for groups."""
    return [
        [(key.strip(), int(n)) for key, n in re.findall(r"^ *(.+?) *\| +(\d+)$", part, re.M)]
        for part in parts(lines)[len(NUMBERS) :]
    ]


def numbers(lines: list[str]) -> list[tuple[float, float]]:
    """The sum and the average, each with its interval."""
    found = []
    for part in parts(lines)[: len(NUMBERS)]:
        (value,) = re.findall(r"^ +(-?[\d.]+)$", part, re.M)
        (within,) = re.findall(r"\+- ([\d.]+) with 95%", part)
        found.append((float(value), float(within)))
    return found


def test_first_queries_are_answered_near_the_truth_and_again_for_nothing(clone: Path) -> None:
    first = printed(clone)
    assert any(re.fullmatch(r"  \S*psql -h 127.0.0.1 -p \d+ -U demo -d demo", line) for line in first)
    assert [line for line in first if line.startswith("sample=> ")] == [f"sample=> {q};" for q in QUERIES]
    assert "\n".join(first).count("charged") == 4
    with duckdb.connect(database_of(clone / "sample_data"), read_only=True) as connection:
        truths = [dict(connection.execute(query).fetchall()) for query in (CATEGORIES, PRODUCTS)]
        exact = [float(connection.execute(query).fetchall()[0][0]) for query in NUMBERS]
    for (value, within), one in zip(numbers(first), exact, strict=True):
        assert within < 5 * one, "one length in a thousand is long enough for more than the sum itself"
        assert abs(value - one) <= 2.5 * within + 0.05 * one, "the noise, and what the clip leaves out"
    for rows, truth in zip(answers(first), truths, strict=True):
        assert len(rows) == 10
        assert all(abs(count - truth[key]) <= 0.1 * truth[key] for key, count in rows)

    started = time.monotonic()
    second = printed(clone)
    assert time.monotonic() - started < 30
    assert answers(second) == answers(first)
    assert numbers(second) == numbers(first)
    assert "\n".join(second).count("no charge") == 4


def test_without_an_installed_psql_the_line_names_one_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    program = psql_line(6432)[0]
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    assert said.stdout.startswith("psql (PostgreSQL)")
    assert Path(program).is_absolute()
