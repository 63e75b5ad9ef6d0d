"""Lists of values and counts of rows that tools ask for by themselves: free, charged once, or refused by their text."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from dpproxy.deployment.service import Service, configured
from rewriter.refusal import Refusal
from tests.dpproxy.engine.test_executor import Analyst
from tests.dpproxy.serving import POLICY, make

pytestmark = pytest.mark.service

MORE = """
[tables.words]
privacy_unit = "person_id"
max_rows_per_unit = 4
[tables.words.columns]
word = {}
place = { domain = ["a", "b", "c"] }
"""
NUMBERS = itertools.count()


def started(folder: Path, privacy: str) -> Service:
    file = make(folder, privacy + POLICY + MORE)
    with duckdb.connect(folder / "people.duckdb") as connection:
        connection.execute(
            "CREATE TABLE words (person_id INTEGER NOT NULL, word VARCHAR, place VARCHAR, tag VARCHAR)"
        )
        connection.execute(
            "INSERT INTO words SELECT i, 'word ' || (i % 2), ['a', 'b', 'c'][1 + i % 3], 'x' FROM range(5000) r(i)"
        )
    return Service.start(configured(file), alone=True)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with started(tmp_path_factory.mktemp("scans"), "") as running:
        yield running


@pytest.fixture
def ann(service: Service) -> Analyst:
    return Analyst(service, f"ann {next(NUMBERS)}")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DISTINCT tag FROM words",
        "SELECT tag FROM words GROUP BY tag ORDER BY tag",
        'SELECT "words"."tag" AS "tag" FROM "public"."words" GROUP BY "words"."tag" ORDER BY "words"."tag" LIMIT 50',
        "SELECT DISTINCT word FROM words LIMIT 5000",
        'SELECT "w"."word" AS "word" FROM "public"."words" "w" GROUP BY 1 ORDER BY 1 ASC LIMIT 1000',
        "SELECT word FROM words GROUP BY word FETCH FIRST 101 ROWS ONLY",
        "EXPLAIN SELECT DISTINCT tag FROM words",
        "SELECT COUNT(*), MIN(tag), MAX(tag) FROM words",
    ],
)
def test_a_scan_is_refused_and_costs_nothing(ann: Analyst, sql: str) -> None:
    with pytest.raises(Refusal) as caught:
        ann.ask(sql)
    assert caught.value.code == "PV024"
    assert '[privacy] scans = "charge"' in str(caught.value.detail)
    assert ann.used() == (0, 0)
    assert len(ann.ask(str(caught.value.hint))) >= 1


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DISTINCT word FROM words",
        "SELECT word FROM words GROUP BY word ORDER BY word LIMIT 100",
        "SELECT DISTINCT tag, word FROM words LIMIT 5000",
        "SELECT DISTINCT tag FROM words WHERE person_id > 0 LIMIT 5000",
        "SELECT tag, COUNT(DISTINCT person_id) FROM words GROUP BY tag ORDER BY 2 DESC LIMIT 10000",
        "SELECT COUNT(*) FROM (SELECT DISTINCT tag FROM words) t",
        "SELECT DISTINCT upper(tag) FROM words LIMIT 5000",
        "SELECT MIN(word) FROM words",
        "SELECT MIN(tag) FILTER (WHERE word = 'word 1') FROM words",
        "SELECT MIN(place) FROM words WHERE person_id > 0",
        "SELECT word, MAX(tag) FROM words GROUP BY word",
    ],
)
def test_what_somebody_has_written_is_answered_and_charged(ann: Analyst, sql: str) -> None:
    assert ann.ask(sql)
    assert ann.used()[0] > 0


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DISTINCT place FROM words LIMIT 10000",
        "SELECT place FROM words GROUP BY place ORDER BY place LIMIT 5000",
        "SELECT DISTINCT town FROM people",
    ],
)
def test_known_values_are_free(ann: Analyst, sql: str) -> None:
    assert len(ann.ask(sql)) == 3
    (notice,) = ann.notices
    assert notice.count("declared") == 1
    assert "declared values, whether they are in the data or not" in notice
    assert ann.used() == (0, 0)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM words LIMIT 0",
        'SELECT TRUE AS "_" FROM "public"."words" WHERE 1 <> 1 LIMIT 0',
        "WITH w AS (SELECT word, place FROM words) SELECT * FROM w ORDER BY 1 LIMIT 0;",
        "SELECT word || 'x' AS w, person_id + 1 FROM words WHERE tag = 'x' LIMIT 0",
        "SELECT * FROM words WHERE 1=0",
        "SELECT * FROM words WHERE (0 = 1) AND tag = 'x'",
        "SELECT word, person_id FROM words WHERE false",
        "SELECT * FROM (SELECT * FROM words) AS q WHERE 1=0",
        "SELECT * FROM (SELECT * FROM words WHERE NOT true) AS q",
        "SELECT * FROM words FETCH FIRST 0 ROWS ONLY",
        "SELECT tag, COUNT(*) FROM words WHERE 1 = 0 GROUP BY tag",
        "SELECT word FROM words WHERE 1=0 UNION ALL SELECT tag FROM words WHERE 2 < 1",
    ],
)
def test_a_look_at_the_columns_is_free(ann: Analyst, service: Service, sql: str) -> None:
    assert ann.ask(sql) == []
    assert ann.used() == (0, 0)
    presentation = service.answering.prepare(sql, ()).presentation
    assert service.front.describe(presentation, ()) == service.front.describe(sql, ())
    assert "words" not in presentation


@pytest.mark.parametrize(
    "sql", ["SELECT 1 FROM words LIMIT 1", "SELECT 'there' AS is, 1 FROM words AS w LIMIT 1"]
)
def test_a_look_whether_a_table_is_there_is_free(ann: Analyst, sql: str) -> None:
    (row,) = ann.ask(sql)
    assert row[-1] == "1"
    assert ann.used() == (0, 0)


@pytest.mark.parametrize(
    "sql",
    [
        "EXPLAIN SELECT * FROM words LIMIT 0",
        "SELECT * FROM words LIMIT 1",
        "SELECT * FROM words WHERE 1 = 0 OR tag = 'x'",
        "SELECT word FROM words WHERE 1=0 UNION ALL SELECT tag FROM words",
        "SELECT 1 FROM words WHERE tag = 'x' LIMIT 1",
        "SELECT 1 FROM words LIMIT 2",
        "SELECT 1 FROM words LIMIT 1 OFFSET 1",
        "SELECT w FROM words AS w LIMIT 1",
    ],
)
def test_rows_stay_refused(ann: Analyst, sql: str) -> None:
    with pytest.raises(Refusal) as refused:
        ann.ask(sql)
    assert refused.value.code == "PV010"


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT COUNT(*) FROM words WHERE person_id IS NULL", [("0",)]),
        (
            "SELECT COUNT(*) AS failures, COUNT(*) <> 0 AS should_warn FROM "
            "(SELECT person_id FROM words WHERE person_id IS NULL) AS dbt_internal_test",
            [("0", "f")],
        ),
        ("SELECT place, COUNT(*) FROM words WHERE person_id IS NULL GROUP BY place", []),
        (
            "SELECT COUNT(*) AS failures, COUNT(*) <> 0 AS should_warn FROM (SELECT person_id AS unique_field, "
            "COUNT(*) AS n_records FROM people WHERE person_id IS NOT NULL GROUP BY person_id HAVING COUNT(*) > 1) "
            "AS dbt_internal_test",
            [("0", "f")],
        ),
    ],
)
def test_what_a_constraint_says_is_free(ann: Analyst, sql: str, rows: list[tuple[str, ...]]) -> None:
    assert ann.ask(sql) == rows
    assert ann.used() == (0, 0)


@pytest.mark.parametrize("present", ["IS NOT NULL", "NOTNULL"])
def test_rows_that_a_constraint_leaves_are_counted(ann: Analyst, present: str) -> None:
    ((count,),) = ann.ask(f"SELECT COUNT(*) FROM words WHERE person_id {present}")
    assert int(count) > 100
    assert ann.used() > (0, 0)


@pytest.mark.parametrize(
    ("table", "having", "units"),
    [("people", "> 0", 900), ("people", ">= 1", 900), ("people", "= 2", 0), ("words", "> 1", 0)],
)
def test_repeated_units_that_no_key_forbids_are_counted(
    ann: Analyst, table: str, having: str, units: int
) -> None:
    repeated = f"SELECT person_id FROM {table} GROUP BY person_id HAVING COUNT(*) {having}"
    ((count,),) = ann.ask(f"SELECT COUNT(*) FROM ({repeated}) AS t")
    assert abs(int(count) - units) < 150
    assert ann.used() > (0, 0)


def test_what_no_constraint_says_is_charged(ann: Analyst) -> None:
    ann.ask("SELECT COUNT(*) FROM words WHERE tag IS NULL")
    (before, _) = ann.used()
    ann.ask("SELECT COUNT(*) FROM words w JOIN people p USING (person_id) WHERE w.person_id IS NULL")
    assert 0 < before < ann.used()[0]


def test_a_count_of_rows_costs_once(ann: Analyst) -> None:
    for _ in range(3):
        assert len(ann.ask("SELECT COUNT(*) FROM words")) == 1
    assert ann.used() == (1, 0)


def test_an_appended_limit_costs_what_max_k_says(ann: Analyst, service: Service) -> None:
    """UnkGumb: two units a group, of max_k groups at most."""
    sql = "SELECT tag, COUNT(DISTINCT person_id) AS n FROM words GROUP BY tag ORDER BY n DESC LIMIT {}"
    prices = []
    for limit in (100, 10000):
        plan = "  ".join(line for (line,) in ann.ask(f"EXPLAIN {sql.format(limit)}"))
        assert service.config.privacy.max_k == 100
        assert "top 100" in plan
        (price,) = (line for line in plan.split("  ") if line.startswith("Cost"))
        prices.append(price)
    assert prices[0] == prices[1]
    assert prices[0] == "Cost: at most 131.25 information units and 1 call"


def test_scans_can_be_charged(tmp_path: Path) -> None:
    with started(tmp_path, '[privacy]\nscans = "charge"\n') as running:
        ann = Analyst(running, "ann")
        assert ann.ask("SELECT DISTINCT tag FROM words LIMIT 5000") == [("x",)]
        assert ann.used()[0] > 0
