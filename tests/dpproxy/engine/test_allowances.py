"""Allowances: what an owner lets a query spend on costly kinds, told by EXPLAIN before anything is paid."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from dpproxy.config.sections import ConfigError, load
from dpproxy.deployment.service import Service, configured
from rewriter.refusal import Refusal
from tests.dpproxy.engine.test_executor import Analyst
from tests.dpproxy.serving import POLICY, make

pytestmark = pytest.mark.service

ALLOWANCES = "[privacy]\nallowances = { count_release = 12, partition_selection = 7, distinct_count = 3 }\n"
MORE = """
[tables.words]
privacy_unit = "person_id"
max_rows_per_unit = 4
[tables.words.columns]
word = {}
place = { domain = ["a", "b", "c"] }
"""
WORDS = "SELECT word, COUNT(DISTINCT person_id) AS n FROM words GROUP BY word"
LISTED = "SELECT DISTINCT word FROM words"
DISTINCT = "SELECT COUNT(DISTINCT word) FROM words"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder: Path = tmp_path_factory.mktemp("allowances")
    file = make(folder, ALLOWANCES + POLICY + MORE)
    with duckdb.connect(folder / "people.duckdb") as connection:
        connection.execute("CREATE TABLE words (person_id INTEGER NOT NULL, word VARCHAR, place VARCHAR)")
        connection.execute(
            "INSERT INTO words SELECT i, 'word ' || (i % 2), ['a', 'b', 'c'][1 + i % 3] FROM range(5000) r(i)"
        )
    with Service.start(configured(file), alone=True) as running:
        yield running


@pytest.fixture
def ann(service: Service, request: pytest.FixtureRequest) -> Analyst:
    return Analyst(service, f"ann {request.node.name}"[:60])


def explained(ann: Analyst, sql: str) -> list[str]:
    return [line.strip() for (line,) in ann.ask(f"EXPLAIN {sql}")]


@pytest.mark.parametrize(
    ("sql", "cost", "price"),
    [
        (
            WORDS,
            "at most 12 information units and 5 calls",
            "at most 12 information units and 5 calls, for at most",
        ),
        (
            LISTED,
            "at most 7 information units and 5 calls",
            "7 information units and 5 calls, the whole allowance",
        ),
        (DISTINCT, "at most 1.25 information units and 0 calls", "1.25 information units"),
        (
            "SELECT place, COUNT(DISTINCT person_id) FROM words GROUP BY place",
            "at most 3 information units and 0 calls",
            "3 information units, for all groups together",
        ),
        (
            f"{WORDS} ORDER BY n DESC LIMIT 4",
            "at most 9 information units and 1 call",
            "2 information units per returned row (1 for rank, 1 for count), plus 1 unit and 1 call per query",
        ),
    ],
)
def test_explain_prices_each_kind_in_words(ann: Analyst, sql: str, cost: str, price: str) -> None:
    lines = explained(ann, sql)
    assert f"Cost: {cost}" in lines
    assert any(line.startswith(f"Price: {price}") for line in lines), lines
    assert ann.used() == (0, 0)


def test_calls_buy_steps(ann: Analyst) -> None:
    assert any("for at most 50 steps" in line for line in explained(ann, WORDS))


def test_a_query_spends_no_more_than_its_kind_may(ann: Analyst) -> None:
    assert ann.ask(WORDS)
    assert 0 < ann.used()[0] <= 12
    ann.ask(LISTED)
    information, _ = ann.used()
    assert information <= 12 + 7


def test_distinct_counts_above_the_allowance_are_refused(ann: Analyst) -> None:
    with pytest.raises(Refusal) as refused:
        ann.ask("SELECT place, COUNT(DISTINCT word) FROM words GROUP BY place")
    assert (refused.value.code, refused.value.message) == (
        "PV025",
        "distinct counts of values may cost at most 3 information units in a query here; "
        "this query needs 3.75 information units",
    )
    assert ann.used() == (0, 0)
    ann.ask(DISTINCT)
    assert ann.used() == (1.25, 0)


def test_the_top_half_costs_half_where_counts_are_not_asked_for(ann: Analyst) -> None:
    top = f"{WORDS} ORDER BY n DESC LIMIT 2"
    with_counts = ann.ask(top)
    paid = ann.used()[0]
    without = ann.ask("SELECT word FROM words GROUP BY word ORDER BY COUNT(DISTINCT person_id) DESC LIMIT 2")
    assert len(with_counts) == len(without) == 2
    assert (paid, ann.used()[0] - paid) == (2 * 2 + 1, 2 + 1)


@pytest.mark.parametrize(
    ("written", "key", "nearest"),
    [
        ("{ count_relase = 1 }", "privacy.allowances.count_relase", "count_release"),
        ("{ distinct_count = -1 }", "privacy.allowances.distinct_count", None),
        ('{ distinct_count = "5" }', "privacy.allowances.distinct_count", None),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, written: str, key: str, nearest: str | None) -> None:
    file = tmp_path / "dpproxy.toml"
    file.write_text(f"[privacy]\nallowances = {written}\n{POLICY}")
    with pytest.raises(ConfigError) as found:
        load(file)
    assert (found.value.key, found.value.nearest) == (key, nearest)


def test_a_kind_may_not_be_offered(tmp_path: Path) -> None:
    file = make(
        tmp_path,
        "[privacy]\nallowances = { partition_selection = 0, count_release = 0, distinct_count = 0 }\n"
        + POLICY
        + MORE,
    )
    with duckdb.connect(tmp_path / "people.duckdb") as connection:
        connection.execute("CREATE TABLE words (person_id INTEGER NOT NULL, word VARCHAR, place VARCHAR)")
    with Service.start(configured(file), alone=True) as service:
        ann = Analyst(service, "ann")
        for sql, what in (
            (LISTED, "lists of groups without an aggregate"),
            (WORDS, "counts of groups without LIMIT"),
            (DISTINCT, "distinct counts of values"),
        ):
            with pytest.raises(Refusal, match=f"^{what} are not offered here$") as refused:
                ann.ask(sql)
            assert refused.value.code == "PV025"
        assert ann.used() == (0, 0)
