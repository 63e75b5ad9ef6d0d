"""The composition on real parts: what is charged, what is replayed, what refuses, and that answers stay the same."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import duckdb
import psycopg
import pytest
from psycopg import pq

from dpproxy.backends.base import Cancellation
from dpproxy.deployment.service import Service, configured
from dpproxy.engine import system_tables
from dpproxy.engine.last_release import LastRelease
from dpproxy.engine.request import QueryRequest, StepResult
from dpproxy.telemetry.stages import Stages
from mechanisms.correlated_counts import price_of_one
from rewriter.refusal import Refusal
from tests.dpproxy.serving import POLICY, make

pytestmark = pytest.mark.service

BUDGET = """
[budget]
information = 40
calls = 4
period = "none"
"""
TOWNS = "SELECT town, COUNT(*) AS n FROM people GROUP BY town"
HOBBIES = "SELECT hobby, COUNT(DISTINCT person_id) FROM hobbies GROUP BY hobby ORDER BY 2 DESC LIMIT {}"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder: Path = tmp_path_factory.mktemp("answer")
    file = make(folder, POLICY + HOBBY_POLICY + BUDGET)
    with duckdb.connect(folder / "people.duckdb") as connection:
        connection.execute("CREATE TABLE hobbies (person_id INTEGER NOT NULL, hobby VARCHAR)")
        connection.execute(
            "INSERT INTO hobbies SELECT i, 'hobby ' || j FROM range(900) r(i), range(30) s(j) WHERE i >= 25 * j"
        )
        connection.execute("INSERT INTO hobbies VALUES (1, 'only one person does this')")
    with Service.start(configured(file), alone=True) as running:
        yield running


HOBBY_POLICY = """
[tables.hobbies]
privacy_unit = "person_id"
"""


class Analyst:
    """Asks as a session does, and reads the presentation from the front."""

    def __init__(self, service: Service, name: str) -> None:
        self.service, self.name = service, name
        self.last = LastRelease()

    def ask(
        self, sql: str, settings: Mapping[str, str] | None = None, cancellation: Cancellation | None = None
    ) -> list[tuple[Any, ...]]:
        answering = self.service.answering
        prepared = answering.prepare(sql, ())
        answer = answering.execute(
            QueryRequest(
                sql,
                (),
                self.name,
                (),
                settings or {},
                cancellation or Cancellation(),
                self.last,
            )
        )
        self.notices = answer.notices
        return presented(self.service, prepared.presentation, prepared.array_oids, answer.arrays)

    def used(self) -> tuple[float, float]:
        rows = self.ask("SELECT used FROM dpproxy.budget ORDER BY unit DESC")
        return float(rows[0][0]), float(rows[1][0])


def presented(
    service: Service, sql: str, oids: tuple[int, ...], arrays: tuple[bytes, ...]
) -> list[tuple[Any, ...]]:
    """The presentation as the front shows it, values as text."""
    role, password = service.front.role_for("reader")
    address = str(cast(Path, service.front.address).parent)
    with psycopg.connect(
        host=address, user=role, password=password, dbname=service.front.database
    ) as connection:
        result = connection.pgconn.exec_params(sql.encode(), list(arrays), list(oids), [1] * len(arrays), 0)
        assert result.status == pq.ExecStatus.TUPLES_OK, result.error_message
        values = [[result.get_value(r, c) for c in range(result.nfields)] for r in range(result.ntuples)]
    return [tuple(None if v is None else v.decode() for v in row) for row in values]


@pytest.fixture
def ann(service: Service, request: pytest.FixtureRequest) -> Analyst:
    """An analyst of the test's own, with a full budget."""
    return Analyst(service, f"ann {request.node.name}"[:60])


def test_a_known_domain_costs_one_unit_and_its_replay_nothing(ann: Analyst) -> None:
    first = ann.ask(TOWNS)
    assert {town for town, _ in first} == {"Ulm", "Bonn", "Jena"}
    assert all(abs(int(n) - 300) < 120 for _, n in first)
    assert ann.used() == (1, 0)
    assert ann.ask(TOWNS + " ORDER BY 2 DESC LIMIT 2")[0] in first
    assert "no charge" in ann.notices[0]
    assert ann.used() == (1, 0)


def test_a_repeat_is_looked_up_in_the_ledger_and_not_computed(service: Service, ann: Analyst) -> None:
    def asked(settings: Mapping[str, str]) -> tuple[StepResult, set[str]]:
        stages: dict[str, float] = {}
        timings = Stages(lambda stage, seconds: stages.update({stage: seconds}))
        request = QueryRequest(TOWNS, (), ann.name, (), settings, last=ann.last, stages=timings)
        result = service.answering.execute(request)
        timings.tell()
        assert request.paid.bought + request.paid.replayed == 1
        return result, set(stages)

    answers = [asked({}) for _ in range(4)]
    assert [stages for _, stages in answers[2:]] == [{"plan", "replay"}] * 2
    assert len({result.arrays for result, _ in answers}) == 1
    assert answers[1][0].notices == answers[3][0].notices != answers[0][0].notices
    assert len(ann.ask("SELECT at FROM dpproxy.releases")) == 4
    assert ann.ask("SELECT replayed FROM dpproxy.last_release") == [("t",)]
    quiet, stages = asked({"dpproxy.notices": "off"})
    assert "present" in stages
    assert quiet.notices == ()
    service.answering._planner.forget()  # as a new epoch does
    assert "present" in asked({})[1]
    assert ann.used() == (1, 0)
    bob = Analyst(service, f"{ann.name} bob"[:60])
    bob.ask(TOWNS)
    assert bob.used() == (1, 0)


def test_the_top_k_of_an_unknown_domain_pays_what_it_gets(ann: Analyst) -> None:
    rows = ann.ask(HOBBIES.format(5))
    assert 1 <= len(rows) <= 5
    assert all(hobby.startswith("hobby ") for hobby, _ in rows)
    information, calls = ann.used()
    assert (information, calls) == (1 + len(rows) + float(price_of_one(len(rows))), 1)


def test_another_analyst_gets_the_same_answer_and_pays_for_it(service: Service, ann: Analyst) -> None:
    bob = Analyst(service, "bob")
    question = TOWNS + " HAVING COUNT(*) > -1000"
    assert sorted(ann.ask(question)) == sorted(bob.ask(question))
    assert bob.used() == ann.used() == (1, 0)


def test_many_askers_at_once_get_one_answer(service: Service) -> None:
    sql = "SELECT COUNT(*) FROM people WHERE town <> 'Bonn'"
    answers: list[list[tuple[Any, ...]]] = []
    twins = [Analyst(service, "twin") for _ in range(6)] + [Analyst(service, f"other {n}") for n in range(3)]
    threads = [threading.Thread(target=lambda a=a: answers.append(a.ask(sql))) for a in twins]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == len(twins)
    assert len({a[0] for a in answers}) == 1
    assert twins[0].used() == (1, 0)


def test_a_limit_that_is_not_covered_names_the_one_that_is(ann: Analyst) -> None:
    ann.ask(HOBBIES.format(14))
    information, _ = ann.used()
    assert information > 20, "the rest must not pay for another 14"
    other = HOBBIES.format(14).replace("FROM hobbies", "FROM hobbies WHERE hobby <> 'hobby 1'")
    used = ann.used()
    with pytest.raises(Refusal, match="does not cover this LIMIT") as refused:
        ann.ask(other)
    assert ann.used() == used
    assert refused.value.code == "PV001"
    covered = refused.value.hint
    assert covered is not None
    assert len(ann.ask(other.replace("LIMIT 14", covered))) == int(covered.removeprefix("LIMIT "))


def test_an_exhausted_budget_refuses_and_still_replays(ann: Analyst) -> None:
    for number in range(40):
        ann.ask(f"SELECT COUNT(*) FROM people WHERE person_id <> {number}")
    assert ann.used() == (40, 0)
    with pytest.raises(Refusal) as refused:
        ann.ask("SELECT COUNT(*) FROM people WHERE person_id > 7")
    assert refused.value.code == "PV001"
    assert "0 information units" in refused.value.message
    assert ann.ask("SELECT COUNT(*) FROM people WHERE person_id <> 3")
    assert ann.used() == (40, 0)


def test_a_query_with_several_nodes_is_paid_whole_or_not_at_all(ann: Analyst) -> None:
    for number in range(39):
        ann.ask(f"SELECT COUNT(*) FROM people WHERE person_id <> {number}")
    with pytest.raises(Refusal, match="exhausted"):
        ann.ask("SELECT (SELECT COUNT(*) FROM people WHERE person_id > 1), (SELECT COUNT(*) FROM visits)")
    assert ann.used() == (39, 0)


def test_limit_zero_and_explain_cost_nothing(ann: Analyst) -> None:
    assert ann.ask(HOBBIES.format(0)) == []
    lines = [line for (line,) in ann.ask("EXPLAIN " + HOBBIES.format(3))]
    assert any("UnkGumb" in line for line in lines)
    assert any("at most 5.9 information units and 1 call" in line for line in lines)
    assert not any("secret" in line and "$" not in line for line in lines)
    ((document,),) = ann.ask("EXPLAIN (FORMAT JSON) " + HOBBIES.format(3))
    root = json.loads(document)[0]["Plan"]
    assert (root["Node Type"], root["Information Units"], root["Calls"]) == ("Result", 5.9, 1)
    (node,) = root["Plans"]
    said = [line.strip() for line in lines]
    assert f"Groups of {node['Groups']}" in said
    assert {f"{name}: {node[name]}" for name in ("Cost", "Left")} <= {*said}
    assert {*map(str.strip, node["Backend"])} <= {*said}
    (mechanism,) = node["Plans"]
    assert f"Mechanism: {mechanism['Node Type']}" in said
    assert f"Price: {mechanism['Price']}" in said
    assert ann.used() == (0, 0)


def test_spend_decides_between_noise_and_price(ann: Analyst) -> None:
    sql = "SELECT room, COUNT(DISTINCT person_id) FROM visits WHERE room IN (1, 2, 3) GROUP BY room"
    ann.ask(sql, {"dpproxy.spend": "cheap"})
    assert ann.used() == (1, 0)
    ann.ask(sql, {"dpproxy.spend": "accurate", "dpproxy.reuse": "off"})
    assert ann.used() == (2.9, 0)
    with pytest.raises(Refusal) as refused:
        ann.ask(sql, {"dpproxy.spend": "lavish"})
    assert refused.value.code == "22023"


def test_notices_can_be_silenced(ann: Analyst) -> None:
    ann.ask(TOWNS, {"dpproxy.notices": "off"})
    assert not ann.notices


def test_without_a_limit_as_many_counts_come_out_as_the_allowance_pays_for(ann: Analyst) -> None:
    sql = "SELECT hobby, COUNT(DISTINCT person_id) FROM hobbies GROUP BY hobby"
    rows = ann.ask(sql, {"dpproxy.query_information": "20"})
    assert "PrivateCountRelease" in ann.notices[0]
    assert rows
    assert all(hobby.startswith("hobby ") for hobby, _ in rows)
    information, calls = ann.used()
    assert 0 < information <= 20
    assert 0 < calls <= 4, "no more than the account has"
    assert ann.ask(sql, {"dpproxy.query_information": "20"}) == rows
    assert ann.used() == (information, calls)


@pytest.mark.parametrize("order", ["", " ORDER BY COUNT(DISTINCT person_id % 9) DESC LIMIT 10"])
def test_numbers_of_different_values_ask_for_a_limit_by_a_count_of_units_or_rows(
    ann: Analyst, order: str
) -> None:
    with pytest.raises(Refusal) as refused:
        ann.ask(f"SELECT hobby, COUNT(DISTINCT person_id % 9) FROM hobbies GROUP BY hobby{order}")
    assert refused.value.code == "PV017"
    assert "ORDER BY COUNT(DISTINCT <privacy unit>) DESC LIMIT 10" in (refused.value.hint or "")
    assert ann.used() == (0, 0)


def test_several_counts_of_unknown_groups_cost_the_selection_and_each_count(ann: Analyst) -> None:
    rows = ann.ask(
        "SELECT hobby, COUNT(DISTINCT person_id) AS n, COUNT(DISTINCT person_id) FILTER (WHERE person_id < 500) "
        "FROM hobbies GROUP BY hobby ORDER BY n DESC LIMIT 3"
    )
    assert rows
    for hobby, n, young in rows:
        first = 25 * int(hobby.split()[1])
        assert abs(float(n) - (900 - first)) < 200
        assert abs(float(young) - max(500 - first, 0)) < 200
    assert ann.used() == (1 + len(rows) + 2 * float(price_of_one(len(rows))), 1)


def test_what_is_cancelled_after_the_backend_was_reached_stays_charged(ann: Analyst) -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    with pytest.raises(Refusal) as refused:
        ann.ask("SELECT COUNT(*) FROM visits WHERE room > 2", cancellation=cancellation)
    assert refused.value.code == "57014"
    assert ann.used() == (1, 0)


def test_releases_tell_ones_own_history(ann: Analyst) -> None:
    own = TOWNS.replace("GROUP", "WHERE person_id > 3 GROUP")
    ann.ask(own)
    ann.ask(own)
    rows = ann.ask("SELECT query, mechanism, information, replayed FROM dpproxy.releases ORDER BY at")
    assert [(r[1], float(r[2]), r[3]) for r in rows] == [("KnownGauss", 1, "f"), ("KnownGauss", 0, "t")]
    assert "person_id" in rows[0][0], "in canonical form"
    ann.ask(own.lower().replace("where", "WHERE"))
    again = ann.ask("SELECT query FROM dpproxy.releases ORDER BY at DESC LIMIT 1")
    assert again == [(rows[0][0],)], "the same question however it is written"


def test_padded_answers_do_not_say_when_they_were_made(ann: Analyst, monkeypatch: pytest.MonkeyPatch) -> None:
    ann.ask(TOWNS.replace("GROUP", "WHERE person_id > 6 GROUP"))
    answering = ann.service.answering
    config = answering._config
    privacy = config.privacy.model_copy(update={"timing": "padded"})
    monkeypatch.setattr(answering, "_config", config.model_copy(update={"privacy": privacy}))
    for table in ("releases", "last_release"):
        assert ann.ask(f"SELECT at, replayed FROM dpproxy.{table}") == [(None, "f")]


def test_a_page_of_releases_has_the_rows_that_all_of_them_have(
    ann: Analyst, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(4):
        ann.ask(TOWNS.replace("GROUP", "WHERE person_id > 3 GROUP"))
    whole, used = ann.ask("SELECT at, replayed FROM dpproxy.releases ORDER BY at DESC"), ann.used()
    monkeypatch.setattr(system_tables, "MOST_RELEASES", 3)
    for page, rows in (
        ("SELECT at, replayed FROM dpproxy.releases ORDER BY at DESC LIMIT 2", whole[:2]),
        ("SELECT at, replayed FROM dpproxy.releases ORDER BY at DESC LIMIT 2 OFFSET 1", whole[1:3]),
        ("SELECT at, replayed FROM dpproxy.releases ORDER BY at LIMIT 2", whole[:-3:-1]),
        ("SELECT x.* FROM (SELECT at, replayed FROM dpproxy.releases) AS x LIMIT 2", whole[:-3:-1]),
    ):
        assert ann.ask(page) == rows, page
    with pytest.raises(Refusal) as refused:
        ann.ask("SELECT at FROM dpproxy.releases WHERE replayed LIMIT 1")
    assert (refused.value.code, ann.used()) == ("54000", used)
    assert refused.value.hint
    assert len(ann.ask(refused.value.hint.replace("100", "3"))) == 3


def test_the_last_release_tells_what_notices_tell(ann: Analyst) -> None:
    assert ann.ask("SELECT * FROM dpproxy.last_release") == []
    question = TOWNS.replace("GROUP", "WHERE person_id > 4 GROUP")
    ann.ask(question, settings={"dpproxy.notices": "off"})
    assert not ann.notices
    shown = "SELECT mechanism, information, calls, information_left, calls_left, replayed, notice"
    first = ann.ask(f"{shown} FROM dpproxy.last_release")
    assert [row[:6] for row in first] == [("KnownGauss", "1", "0", "39", "4", "f")]
    ann.ask(question)
    notices = ann.notices
    (second,) = ann.ask(f"{shown} FROM dpproxy.last_release")
    assert second[:6] == ("KnownGauss", "0", "0", None, None, "t")
    assert (second[6],) == notices, "reading it is no release"
    with pytest.raises(Refusal):
        ann.ask(HOBBIES.format("-1"))
    assert ann.ask(f"{shown} FROM dpproxy.last_release") == [second]


def test_the_last_releases_are_read_from_another_session(service: Service) -> None:
    ann = Analyst(service, "ann of two sessions")
    own = TOWNS.replace("GROUP", "WHERE person_id > 5 GROUP")
    for sql in (own, "SELECT COUNT(*) AS m FROM people WHERE person_id > 5", own):
        ann.ask(sql, {"dpproxy.reuse": "off"})
    shown = "SELECT noise, information, replayed, notice FROM dpproxy.last_release"
    noise = "+- 26.1 with 95% (standard deviation 13.3)"
    paid = "charged 1 information unit and 0 calls"
    assert Analyst(service, "ann of two sessions").ask(shown) == [
        (f"n {noise}", "0", "t", f"dpproxy: KnownGauss; n {noise}; answered before: no charge"),
        (f"m {noise}", "1", "f", f"dpproxy: KnownGauss; m {noise}; {paid}"),
        (f"n {noise}", "1", "f", f"dpproxy: KnownGauss; n {noise}; {paid}"),
    ]
    assert Analyst(service, "bob of no session").ask(shown) == []


def test_a_part_without_groups_is_warned_of(service: Service) -> None:
    """What is joined with it has no rows either."""
    ann = Analyst(service, "ann of no groups")
    few = "SELECT hobby, COUNT(*) AS few FROM hobbies WHERE person_id < 3 GROUP BY hobby"
    assert ann.ask(f"WITH a AS ({TOWNS}), b AS ({few}) SELECT a.n, b.few FROM a CROSS JOIN b") == []
    warnings = [text for (text,) in ann.ask("SELECT warning FROM dpproxy.last_release") if text]
    assert (
        "dpproxy: no group of few is large enough to be shown, nor what is joined with such groups"
        in warnings
    )


def test_rows_within_the_noise_are_warned_of(service: Service) -> None:
    ann = Analyst(service, "ann of warnings")
    shown = ann.ask(TOWNS.replace("GROUP", "WHERE person_id < 0 GROUP"))
    ((warning,),) = ann.ask("SELECT warning FROM dpproxy.last_release")
    assert re.fullmatch(rf"dpproxy: the noise may exceed the value in \d of {len(shown)} rows of n", warning)
    ann.ask("SELECT COUNT(*) FROM people")
    assert ann.ask("SELECT warning FROM dpproxy.last_release") == [(None,)]


@pytest.mark.parametrize(
    ("shown", "told"),
    [
        ("10.0 * COUNT(*)", "x +- 261."),
        ("COUNT(*) / 10.0", "x +- 2.6 "),
        ("COUNT(*)::numeric / 10", "x +- 2.6 "),
        ("COUNT(*) / (5 + 5)", "count inside of x +- 26.1 "),
    ],
)
def test_an_interval_is_of_what_is_shown(service: Service, shown: str, told: str) -> None:
    ann = Analyst(service, "ann of intervals")
    ann.ask(f"SELECT {shown} AS x FROM people WHERE person_id > 7")
    ((noise,),) = ann.ask("SELECT noise FROM dpproxy.last_release")
    assert noise is not None
    assert noise.startswith(told)


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        (
            "SELECT town, ROUND(100.0 * COUNT(*) / SUM(COUNT(*)) OVER (), 1) AS share, "
            "RANK() OVER (ORDER BY COUNT(*)) AS place FROM people WHERE person_id > 7 GROUP BY town",
            r"count inside of share, place \+- 26.1 with 95% \(standard deviation 13.3\); the interval of share is "
            "shown by dp_low and dp_high, or SET dpproxy.error_columns = on; no interval is known for place",
        ),
        (
            "SELECT AVG(n), COUNT(*) FROM (SELECT town, COUNT(*) AS n FROM people GROUP BY town) AS q",
            r"n \+- 26.1 with 95% \(standard deviation 13.3\); the interval of avg is shown by dp_low and dp_high, "
            "or SET dpproxy.error_columns = on; no interval is known for count",
        ),
        (
            "SELECT MIN(LEAST(GREATEST(seconds, 0), 60)), VAR_POP(seconds) FROM visits",
            r"min from [\d.]+ to [\d.]+ with 95%; .*; no interval is known for var_pop",
        ),
    ],
)
def test_what_has_no_interval_of_its_own_is_told_so(service: Service, sql: str, told: str) -> None:
    ann = Analyst(service, "ann of expressions")
    ann.ask(sql)
    ((noise, notice),) = ann.ask("SELECT noise, notice FROM dpproxy.last_release")
    assert re.fullmatch(told, noise)
    assert noise in notice


def test_a_chosen_quantile_is_told_by_its_rank(service: Service) -> None:
    ann = Analyst(service, "ann of medians")
    ann.ask("SELECT PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY LEAST(GREATEST(seconds, 0), 60)) FROM visits")
    assert re.search(r"quantile 0.5 is within \d+ rows that count so of its rank with 95%", ann.notices[0])


def test_parameters_decide_domain_and_limit(service: Service) -> None:
    sql = "SELECT room, COUNT(DISTINCT person_id) FROM visits WHERE room = $1 GROUP BY room"
    answering = service.answering
    prepared = answering.prepare(sql, (23,))
    answer = answering.execute(QueryRequest(sql, (23,), "carl", ("2",), {}))
    oids = (23, *prepared.array_oids)
    rows = presented_with(service, prepared.presentation, oids, [b"2", *answer.arrays])
    assert [room for room, _ in rows] == ["2"]
    limited = HOBBIES.format("$1")
    with pytest.raises(Refusal) as refused:
        answering.execute(QueryRequest(limited, (20,), "carl", ("-1",), {}))
    assert refused.value.code == "2201W"


def presented_with(
    service: Service, sql: str, oids: tuple[int, ...], values: list[bytes]
) -> list[tuple[str, str]]:
    role, password = service.front.role_for("reader")
    address = str(cast(Path, service.front.address).parent)
    with psycopg.connect(
        host=address, user=role, password=password, dbname=service.front.database
    ) as connection:
        formats = [0] + [1] * (len(values) - 1)
        result = connection.pgconn.exec_params(sql.encode(), values, list(oids), formats, 0)
        assert result.status == pq.ExecStatus.TUPLES_OK, result.error_message
        return [
            ((result.get_value(r, 0) or b"").decode(), (result.get_value(r, 1) or b"").decode())
            for r in range(result.ntuples)
        ]


def test_an_unreachable_backend_costs_nothing(service: Service, ann: Analyst) -> None:
    file = service.config.path("people.duckdb")
    moved = file.with_suffix(".away")
    file.rename(moved)
    try:
        with pytest.raises(Refusal) as refused:
            ann.ask("SELECT COUNT(*) FROM people WHERE person_id > 10")
        assert refused.value.code == "57P03"
    finally:
        moved.rename(file)
    assert ann.used() == (0, 0)


def test_a_notice_tells_noise_by_column_and_the_release_keeps_it(ann: Analyst) -> None:
    ann.ask("SELECT town, COUNT(*) AS people FROM people WHERE person_id <> 17 GROUP BY town")
    (notice,) = ann.notices
    assert "people +- 26.1 with 95% (standard deviation 13.3)" in notice
    assert "charged 1 information unit and 0 calls" in notice
    noise = "people +- 26.1 with 95% (standard deviation 13.3)"
    assert ann.ask("SELECT noise, threshold FROM dpproxy.last_release") == [(noise, None)]
    assert ann.ask("SELECT noise FROM dpproxy.releases") == [(noise,)]


def test_fewer_rows_than_limit_asks_for_are_explained(service: Service) -> None:
    """There are four rooms, and nothing says that there are no more."""
    ann = Analyst(service, "ann fewer")
    rows = ann.ask(
        "SELECT room, COUNT(DISTINCT person_id) AS n FROM visits GROUP BY 1 ORDER BY 2 DESC LIMIT 40"
    )
    (notice,) = ann.notices
    (threshold,) = ann.ask("SELECT threshold FROM dpproxy.last_release")[0]
    assert 0 < len(rows) <= 4
    told = (
        f"{len(rows)} rows, fewer than LIMIT asks for: groups of fewer than about {threshold} units are not"
    )
    assert told in notice
