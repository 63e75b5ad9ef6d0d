"""Rows and groups beyond the policy's caps are not counted, and no interval covers them: said wherever one is told."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
from sqlglot import exp

from dpproxy.config.sections import load
from dpproxy.deployment.service import Service
from dpproxy.engine.cap_notes import _narrower
from dpproxy.owner.explain_policy import in_words
from rewriter.ir.measure import FixedPoint
from tests.dpproxy.engine.test_executor import Analyst
from tests.dpproxy.serving import POLICY, make, owner_of

pytestmark = pytest.mark.service

MORE = """
[tables.logins]
privacy_unit = "person_id"
max_rows_per_unit_per_group = 1
horizon = { day = ["2024-01-01", "2024-01-07"], events_per_unit = 2 }
[tables.logins.columns]
site = {}
minutes = { unit_bounds = [0, 100] }
"""
LOGINS = """
CREATE TABLE logins AS SELECT i % 3000 AS person_id, 'site' || i % 2 AS site, 1 AS minutes,
DATE '2024-01-01' + CAST(i % 7 AS INTEGER) AS day FROM range(20000) r(i)
"""
ROWS = "at most 5 rows of one unit count"
VALUES = "a value of seconds counts within 0 to 60.5"
ONE = "at most 1 row of one unit counts"
GROUPS = "at most 2 groups of one unit count"
CAPPED = {
    "SELECT COUNT(*) AS n FROM visits": ROWS,
    "SELECT SUM(seconds) AS n FROM visits": f"{ROWS} and {VALUES}",
    "SELECT SUM(seconds) AS n FROM visits WHERE seconds BETWEEN 1 AND 60": ROWS,
    "SELECT AVG(seconds) AS n FROM visits": f"{ROWS} and {VALUES}",
    (
        "SELECT SUM(seconds) AS n FROM "
        "(SELECT seconds, ROW_NUMBER() OVER (PARTITION BY person_id ORDER BY seconds) AS r FROM visits) v WHERE r = 1"
    ): VALUES,
    "SELECT room, COUNT(*) AS n FROM visits GROUP BY room": f"{ROWS} in a group and {GROUPS}",
    "SELECT room, COUNT(DISTINCT person_id) AS n FROM visits GROUP BY room": GROUPS,
    "SELECT site, COUNT(*) AS n FROM logins GROUP BY site": f"{ONE} in a group",
    "SELECT SUM(minutes) AS n FROM logins": "the sum of one unit counts within its unit_bounds",
    "SELECT site, day, SUM(COUNT(*)) OVER (PARTITION BY site ORDER BY day) AS n FROM logins GROUP BY site, day": (
        "at most 2 rows of one unit count, its first"
    ),
}
UNCAPPED = (
    "SELECT COUNT(*) AS n FROM people",
    "SELECT town, COUNT(*) AS n FROM people GROUP BY town",
    "SELECT COUNT(DISTINCT person_id) AS n FROM visits",
    "SELECT COUNT(DISTINCT person_id) AS n FROM logins",
    "SELECT COUNT(*) AS n FROM (SELECT person_id, COUNT(*) AS own FROM visits GROUP BY person_id) AS e WHERE own > 0",
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder: Path = tmp_path_factory.mktemp("caps")
    file = make(folder, POLICY + MORE)
    file.write_text(file.read_text() + '[privacy]\nmechanisms = "paper"\n')
    with owner_of(folder / "people.duckdb") as connection:
        connection.execute(LOGINS)
    with Service.start(load(file), alone=True) as running:
        yield running


@pytest.mark.parametrize(("query", "cap"), CAPPED.items())
def test_what_is_capped_is_said_with_the_interval(service: Service, query: str, cap: str) -> None:
    ann = Analyst(service, f"ann {hash(query)}")
    beyond = f"{cap}: the excess is not counted, and the interval does not cover it"
    assert ann.ask(query)
    for notice in (ann.notices, (ann.ask(query), ann.notices)[1]):
        assert f"; {beyond}; " in " ".join(notice)
    ((last,),) = ann.ask("SELECT noise FROM dpproxy.last_release")
    ((kept,), *_) = ann.ask("SELECT noise FROM dpproxy.releases")
    assert last.endswith(f"; {beyond}")
    assert kept.endswith(f"; {beyond}")
    explained = [line for (line,) in ann.ask(f"EXPLAIN {query}")]
    assert f"  Not covered by intervals: {cap}, the excess is not counted" in explained
    words = "\n".join(in_words(service, query))
    assert ("Error to expect" in words) == (
        f"That is the truth of what counts: {cap}, the excess is not counted" in words
    )


@pytest.mark.parametrize("query", UNCAPPED)
def test_what_no_cap_can_change_is_not_said_to_be_capped(service: Service, query: str) -> None:
    ann = Analyst(service, f"ann {hash(query)}")
    ann.ask(query)
    told = [*ann.notices, *(line for (line,) in ann.ask(f"EXPLAIN {query}")), *in_words(service, query)]
    assert "95%" in told[0]
    assert not any("beyond" in line for line in told)


def test_a_number_without_an_interval_tells_its_caps(service: Service) -> None:
    ann = Analyst(service, "ann median")
    ann.ask("SELECT VAR_POP(seconds) FROM visits")
    assert (
        f"; {ROWS} and {VALUES}: the excess is not counted; no interval is known for var_pop; "
        in ann.notices[0]
    )
    ann.ask("SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY seconds) FROM visits")
    assert (
        f"; {ROWS} and {VALUES}: the excess is not counted, and the interval does not cover it; "
        in ann.notices[0]
    )


def test_wide_bounds_are_added_up_in_thousands() -> None:
    """Declared bounds above a million are on such a grid where totals are clipped."""
    whole = FixedPoint(exp.column("points"), -3, 0, 10_000)
    assert not _narrower(whole, Fraction(0), Fraction(10_000_000))
    assert _narrower(whole, Fraction(-1), Fraction(10_000_001))
