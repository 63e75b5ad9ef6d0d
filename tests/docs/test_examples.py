"""docs/examples.md through psql on the sample data: answers within their noise of the truth, at the page's price."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from dpproxy.backends.sample import database_of
from dpproxy.cli.demo import psql_line
from tests.dpproxy.serving import ROOT, Running, serving

pytestmark = pytest.mark.service

PAGE = (ROOT / "docs" / "examples.md").read_text()
SECTION = re.compile(
    r"^## (.+?)\n.*?```sql\n(.*?)```.*?```text\n(.*?)```.*?```sql\n-- the truth\n(.*?)```", re.M | re.S
)
EXAMPLES = {title: (asked, shown, truth) for title, asked, shown, truth in SECTION.findall(PAGE)}
DEVIATION = re.compile(r"\(standard deviation ([\d,.]+)\); one unit counts for at most")
CHARGED = re.compile(r"charged ([\d.]+) information units? and ([\d.]+) calls?")
Row = tuple[str, ...]


@dataclass(frozen=True)
class Check:
    """The first `keys` columns name a group; `errors`: the most that the others may be off, about six deviations.

    A sum may be off by six of the deviations that its notice tells, too: they grow with the length found for its clip.
    `least` rows come out at least; the truth of a group that comes out without a number is `above` something.
    """

    keys: int
    errors: tuple[float, ...] = ()
    least: int = 1
    above: float = 0


CHECKS = {
    "Counts of groups, without LIMIT": Check(1, (700,), 10),
    "Groups that are present": Check(1, (), 20, 100),
    "How many different products": Check(0, (45_000,)),
    "How many different products, by group": Check(1, (52_000,), 7),
    "Running counts over an unknown domain": Check(2, (150,), 20),
    "Sums, averages and quantiles of bounded numbers": Check(0, (283_000, 90, 300, 700, 2000)),
    "The largest groups with their counts": Check(1, (133,), 5),
    "The largest groups without their counts": Check(1, (), 5, 900),
    "Sums of any number of rows": Check(0, (1_300_000,)),
    "Averages of any number of rows": Check(0, (10,)),
    "Counts of units in groups that a unit may share": Check(1, (331,), 53),
}
BY_THE_ANSWER = "Counts of groups, without LIMIT"


@pytest.fixture(scope="module")
def demo(clone: Path) -> Iterator[Running]:
    with serving(["demo", "--port", "0"], folder=clone, root=clone) as running:
        yield running


def asked(demo: Running, sql: str) -> tuple[list[Row], str]:
    """psql's rows and what it says beside them."""
    found = subprocess.run(
        [*psql_line(demo.port), "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-c", sql],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={**os.environ, "PGOPTIONS": "-c dpproxy.price_first=off"},
    )
    return [tuple(line.split("|")) for line in found.stdout.splitlines()], found.stderr


def true(clone: Path, sql: str, keys: int) -> dict[Row, Row]:
    with duckdb.connect(database_of(clone / "sample_data"), read_only=True) as connection:
        rows = connection.execute(sql).fetchall()
    texts = (tuple("" if v is None else str(v) for v in row) for row in rows)
    return {row[:keys]: row[keys:] for row in texts}


def found(truths: dict[Row, Row], key: Row) -> Row:
    """The truth at a key; a running count at a time without events is the one before."""
    if key in truths:
        return truths[key]
    return truths[max(k for k in truths if k[1:] == key[1:] and k[0] < key[0])]


def test_every_example_is_checked() -> None:
    assert EXAMPLES.keys() == CHECKS.keys()


@pytest.mark.parametrize("title", CHECKS)
def test_the_answer_is_near_the_truth_at_the_pages_price(demo: Running, clone: Path, title: str) -> None:
    sql, shown, truth = EXAMPLES[title]
    check = CHECKS[title]
    rows, said = asked(demo, sql)
    truths = true(clone, truth, check.keys)
    assert len(rows) >= check.least
    clipped = DEVIATION.search(said)
    noise = 6 * float(clipped[1].replace(",", "")) if clipped else 0
    for row in rows:
        exact = [float(v) for v in found(truths, row[: check.keys])]
        values = [float(v) for v in row[check.keys :]]
        assert len(values) == len(check.errors)
        errors = [value - one for value, one in zip(values, exact, strict=False)]
        assert all(abs(e) < max(most, noise) for e, most in zip(errors, check.errors, strict=True)), (
            row,
            exact,
        )
        assert exact[0] > check.above
    paid, told = CHARGED.search(said), CHARGED.search(shown)
    assert paid
    assert told
    if title == BY_THE_ANSWER:
        assert float(paid[1]) <= 10
        assert float(paid[2]) <= 3
    else:
        assert paid.groups() == told.groups()


def test_sums_of_groups_know_what_their_noise_has_in_common(demo: Running) -> None:
    """Of 53 weeks: variances of the sum, the average, half of them and a difference, from both parts of the noise."""
    weeks = EXAMPLES["Counts of units in groups that a unit may share"][0].replace(" ORDER BY week", "")
    ((shown,), said) = asked(
        demo,
        f"SELECT dp_stddev(SUM(households)), dp_stddev(AVG(households)), dp_stddev(SUM(CASE WHEN week <= 26 THEN "
        f"households END)), dp_stddev(SUM(CASE WHEN week < 3 THEN (3 - 2 * week) * households END)) FROM ({weeks}) q",
    )
    assert "CorrelatedCounts" in said
    own, common = (53 + 53**0.5) / 4, (53**0.5 + 1) / 4
    expected = (53 * own + 53**2 * common, own / 53 + common, 26 * own + 26**2 * common, 2 * own)
    assert [float(size) for size in shown] == pytest.approx([v**0.5 * 40 / 3 for v in expected], rel=1e-3)


def test_a_notice_tells_what_the_page_says(demo: Running) -> None:
    sql, shown, _ = EXAMPLES["The largest groups with their counts"]
    _, said = asked(demo, sql.replace("GROUP BY", "WHERE week > 1 GROUP BY"))
    noise = re.search(r"households \+- .*?\)", shown)
    assert noise
    assert noise[0] in said
    assert re.search(r"threshold \d+", said)
