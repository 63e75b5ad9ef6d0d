"""What a query may spend: the owner's allowances for costly kinds, and the session's brake."""

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

ALLOWANCES = "[privacy]\nallowances = { count_release = 12, partition_selection = 7, distinct_count = 2 }\n"
MORE = """
[tables.words]
privacy_unit = "person_id"
max_rows_per_unit = 4
[tables.words.columns]
word = {}
place = { domain = ["a", "b", "c"] }
"""
WORDS = "SELECT word, COUNT(DISTINCT person_id) AS n FROM words GROUP BY word"
ROWS = "SELECT word, COUNT(*) AS n FROM words GROUP BY word"
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
            "at most 10 information units and 3 calls",
            "at most 10 information units and 3 calls, for at most",
        ),
        (
            LISTED,
            "at most 7 information units and 3 calls",
            "7 information units and 3 calls, the whole allowance",
        ),
        (
            ROWS,
            "at most 11 information units and 1 call",
            "10 information units and 1 call, the whole allowance",
        ),
        (DISTINCT, "at most 1 information unit and 0 calls", "1 information unit"),
        (
            "SELECT place, COUNT(DISTINCT person_id) FROM words GROUP BY place",
            "at most 1.9 information units and 0 calls",
            "1.9 information units, for all groups together",
        ),
        (
            f"{WORDS} ORDER BY n DESC LIMIT 4",
            "at most 7.25 information units and 1 call",
            "7.25 information units and 1 call, of which 2.25 for all counts together; rows not returned are free",
        ),
    ],
)
def test_explain_prices_each_kind_in_words(ann: Analyst, sql: str, cost: str, price: str) -> None:
    lines = explained(ann, sql)
    assert f"Cost: {cost}" in lines
    assert any(line.startswith(f"Price: {price}") for line in lines), lines
    assert ann.used() == (0, 0)


def test_calls_buy_steps(ann: Analyst) -> None:
    assert any("for at most 30 steps" in line for line in explained(ann, WORDS))


def test_a_query_spends_no_more_than_its_kind_may(ann: Analyst) -> None:
    assert ann.ask(WORDS)
    assert 0 < ann.used()[0] <= 10
    ann.ask(LISTED)
    information, _ = ann.used()
    assert information <= 12 + 7


def test_groups_of_totals_are_found_by_weights(ann: Analyst) -> None:
    """For what the session says where nothing bounds the groups of a unit, else at the level of the answer."""
    assert len(ann.ask(ROWS, {"dpproxy.max_cost": "4"})) == 2
    assert "dpproxy: WeightedGaussian, UnitClip; n +- " in ann.notices[0]
    assert "2 groups, those of enough units: what is computed from them is of these alone" in ann.notices[0]
    assert ann.used() == (4, 1)
    rooms = "SELECT room, SUM(seconds) AS s FROM visits GROUP BY room"
    assert "Shown: groups of a weight below about 89 are not shown" in "\n".join(explained(ann, rooms))
    assert len(ann.ask(rooms, {"dpproxy.units": "4"})) == 4
    assert ann.used() == (12, 2)


@pytest.mark.parametrize(
    ("first", "true", "mechanism"),
    [
        ("COUNT(DISTINCT person_id)", 2500, "PrivateCountRelease"),
        ("COUNT(DISTINCT CASE WHEN place <> 'b' THEN person_id END)", 1667, "WeightedGaussian"),
    ],
)
def test_counts_of_units_are_measured_over_the_groups_that_are_found(
    ann: Analyst, first: str, true: int, mechanism: str
) -> None:
    before, _ = ann.used()
    rows = ann.ask(
        f"SELECT word, {first}, COUNT(DISTINCT person_id) FILTER (WHERE place = 'a') FROM words GROUP BY word",
        {"dpproxy.max_cost": "4"},
    )
    assert f"dpproxy: {mechanism}, UnitClip" in ann.notices[0]
    assert len(rows) == 2
    assert all(abs(int(n) - true) < 600 and abs(int(m) - 833) < 300 for _, n, m in rows)
    assert 1 < ann.used()[0] - before <= 4


def test_distinct_counts_above_the_allowance_are_refused(ann: Analyst) -> None:
    with pytest.raises(Refusal) as refused:
        ann.ask("SELECT place, COUNT(DISTINCT word) FROM words GROUP BY place")
    assert (refused.value.code, refused.value.message) == (
        "PV025",
        "distinct counts of values may cost at most 2 information units in a query here; "
        "this query needs 3 information units",
    )
    assert ann.used() == (0, 0)
    ann.ask(DISTINCT)
    assert ann.used() == (1, 0)


def test_the_top_half_costs_half_where_counts_are_not_asked_for(ann: Analyst) -> None:
    top = f"{WORDS} ORDER BY n DESC LIMIT 2"
    with_counts = ann.ask(top)
    paid = ann.used()[0]
    without = ann.ask("SELECT word FROM words GROUP BY word ORDER BY COUNT(DISTINCT person_id) DESC LIMIT 2")
    assert len(with_counts) == len(without) == 2
    assert (paid, ann.used()[0] - paid) == (1 + 2 + 1.5, 1 + 2)


MAX_COST, PRICE_FIRST = "dpproxy.max_cost", "dpproxy.price_first"
TOP = f"{WORDS} ORDER BY n DESC LIMIT 4"
TOWNS = "SELECT town, COUNT(*) FROM people GROUP BY town"


def refused(ann: Analyst, sql: str, settings: dict[str, str]) -> Refusal:
    """The refusal of a statement that charges nothing."""
    before = ann.used()
    with pytest.raises(Refusal) as found:
        ann.ask(sql, settings)
    assert ann.used() == before
    return found.value


def test_without_a_limit_the_session_says_how_much_is_spent(ann: Analyst) -> None:
    ann.ask(WORDS)
    assert (
        "groups for at most 10 information units and 3 calls: more by `SET dpproxy.max_cost = 12`"
        in ann.notices[0]
    )
    usual, _ = ann.used()
    assert 0 < usual <= 10
    ann.ask(WORDS, {MAX_COST: "4"})
    assert 0 < ann.used()[0] - usual <= 4
    spent, _ = ann.used()
    more = ann.ask(WORDS, {MAX_COST: "off"})
    assert "max_cost" not in ann.notices[0]
    assert 0 < ann.used()[0] - spent <= 12
    paid = ann.used()
    assert ann.ask(WORDS) == ann.ask(WORDS, {MAX_COST: "2"}) == more, (
        "the owner's whole allowance is the best answer"
    )
    assert ann.used() == paid


def test_what_costs_more_than_the_session_allows_is_refused_with_a_way_out(ann: Analyst) -> None:
    refusal = refused(ann, TOP, {MAX_COST: "5.5"})
    assert (refusal.code, refusal.message, refusal.hint) == (
        "PV026",
        "this statement costs up to 7.25 information units and 1 call, more than dpproxy.max_cost allows, which is 5.5",
        "LIMIT 2, or `SET dpproxy.max_cost = 7.25`.",
    )
    assert (
        "Above dpproxy.max_cost: refused, unless it was answered before; it needs 7.25 information units and 1 call"
        in [line for (line,) in ann.ask(f"EXPLAIN {TOP}", {MAX_COST: "5.5"})]
    )
    rows = ann.ask(TOP, {MAX_COST: "7.25"})
    assert ann.ask(TOP, {MAX_COST: "0.5"}) == rows, "an answer that was paid for is free"
    assert len(ann.ask(TOP.replace("LIMIT 4", "LIMIT 2"), {MAX_COST: "5.5"})) == 2


@pytest.mark.parametrize("most", ["0.5", "2", "12", "13"])
def test_several_parts_share_what_there_is(ann: Analyst, most: str) -> None:
    sql = f"SELECT (SELECT COUNT(*) FROM ({WORDS}) w), (SELECT COUNT(*) FROM ({LISTED}) l), ({DISTINCT})"
    if float(most) < 1 + 2:
        refusal = refused(ann, sql, {MAX_COST: most})
        assert refusal.hint is not None
        most = refusal.hint.split("= ")[1].split("`")[0]
        assert most == "18", "1, and the usual 10 and 7"
    ann.ask(sql, {MAX_COST: most})
    paid = ann.used()
    assert 0 < paid[0] <= float(most)
    ann.ask(sql, {MAX_COST: most})
    assert ann.used() == paid, "the same statement asks for the same answers"


@pytest.mark.parametrize("wish", ["0", "-1", "much", "1e99"])
def test_other_values_of_the_brake_are_refused(ann: Analyst, wish: str) -> None:
    for name in (MAX_COST, PRICE_FIRST):
        assert refused(ann, TOWNS, {name: wish}).code == "22023"


def test_a_price_is_shown_first_and_bought_when_sent_again(ann: Analyst) -> None:
    first = {PRICE_FIRST: "3"}
    assert ann.ask(TOWNS, first), "a price below is not shown first"
    paid, _ = ann.used()
    refusal = refused(ann, TOP, first)
    assert refusal.code == "PV027"
    assert refusal.message.startswith(
        "this statement costs up to 7.25 information units and 1 call of the 29"
    )
    assert refusal.detail is not None
    assert "groups of fewer than about" in refusal.detail
    assert refused(ann, TOP.replace("4", "3"), first).code == "PV027", "another statement has its own price"
    rows = ann.ask(TOP, first)
    assert 0 < ann.used()[0] - paid <= 7.25
    assert ann.ask(TOP, first) == rows, "an answer that was paid for has no price"
    other = Analyst(ann.service, f"other {ann.name}"[:60])
    assert refused(other, TOP, first).code == "PV027"
    assert Analyst(ann.service, other.name).ask(TOP, first), "in another session of the same analyst"


def test_an_empty_answer_says_why(ann: Analyst) -> None:
    few = WORDS.replace("FROM words", "FROM words WHERE person_id < 20")
    assert ann.ask(few) == []
    assert "no group is large enough to be shown" in ann.notices[0]
    assert "groups of fewer than about 136 units are not shown: form larger groups, or `SET" in ann.notices[0]
    assert ann.used()[0] < 10
    assert ann.ask(LISTED.replace("words", "words WHERE person_id < 20")) == []
    assert "groups of a weight below about" in ann.notices[0]


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


@pytest.fixture(scope="module")
def careful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Costly kinds are not offered."""
    folder: Path = tmp_path_factory.mktemp("careful")
    costly = "allowances = { partition_selection = 0, count_release = 0, distinct_count = 0 }"
    file = make(folder, f"[privacy]\n{costly}\n{POLICY}{MORE}")
    with duckdb.connect(folder / "people.duckdb") as connection:
        connection.execute("CREATE TABLE words (person_id INTEGER NOT NULL, word VARCHAR, place VARCHAR)")
    with Service.start(configured(file), alone=True) as running:
        yield running


def test_a_kind_may_not_be_offered(careful: Service) -> None:
    ann = Analyst(careful, "ann")
    for sql, what in (
        (LISTED, "lists of groups without an aggregate"),
        (WORDS, "counts of groups without LIMIT"),
        (ROWS, "totals of groups without LIMIT"),
        (DISTINCT, "distinct counts of values"),
    ):
        with pytest.raises(Refusal, match=f"^{what} are not offered here$") as refused:
            ann.ask(sql)
        assert refused.value.code == "PV025"
    assert ann.used() == (0, 0)
