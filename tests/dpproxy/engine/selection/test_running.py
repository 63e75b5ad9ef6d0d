"""Running counts of unknown items: near the truth, paid once, and the same stream when new days arrive."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from dpproxy.config.key_file import load_keys, save_keys
from dpproxy.deployment.service import Service, configured
from rewriter.refusal import Refusal
from tests.dpproxy.engine.test_executor import Analyst
from tests.dpproxy.serving import POLICY, make, owner_of, within

pytestmark = pytest.mark.service

DAYS = 15
BUYERS = 6000
MORE = """
[budget]
information = 5
calls = 20
period = "none"

[tables.sales]
privacy_unit = "person_id"
max_rows_per_unit = 2
horizon = { day = ["2024-01-01", "2024-01-15"], events_per_unit = 1 }
[tables.sales.columns]
item = {}
kind_id = {}

[tables.openings]
privacy_unit = "person_id"
max_rows_per_unit = 1
[tables.openings.columns]
day = { range = ["2024-01-01", "2024-01-15"] }

[tables.kinds]
public = true
unique = ["kind_id"]
"""
SALES = """
INSERT INTO sales SELECT i, CASE WHEN i % 3 > 0 THEN 'tea' ELSE 'rum' END, 1 + i % 2,
  DATE '2024-01-01' + CAST(i % 15 AS INTEGER)
FROM range({buyers}) r(i) WHERE i % 15 BETWEEN {first} AND {last}
"""
RUNNING = (
    "SELECT item, day, SUM(COUNT(*)) OVER (PARTITION BY item ORDER BY day) AS n FROM sales GROUP BY item, day"
)
BY_DAY = f"SELECT * FROM ({RUNNING}) q ORDER BY day, item"
OPENINGS = RUNNING.replace("sales", "openings")
KINDS = """
SELECT k.kind, day, SUM(COUNT(*)) OVER (PARTITION BY k.kind ORDER BY day) FROM sales JOIN kinds k USING (kind_id)
GROUP BY k.kind, day"""
ERROR = 400
"""Seven standard deviations of four partial sums of sigma 2 * 2/0.15."""
Rows = dict[tuple[str, str], float]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Sales of the first seven days; a person who buys what nobody else does."""
    make(tmp_path, POLICY + MORE)
    with duckdb.connect(tmp_path / "people.duckdb") as connection:
        connection.execute(
            "CREATE TABLE sales (person_id INTEGER NOT NULL, item VARCHAR, kind_id INTEGER, day DATE)"
        )
        connection.execute(SALES.format(buyers=BUYERS, first=0, last=6))
        connection.execute("INSERT INTO sales VALUES (100000, 'alone', 1, DATE '2024-01-02')")
        connection.execute("CREATE TABLE openings AS SELECT person_id, item, day FROM sales")
        connection.execute("CREATE TABLE kinds (kind_id INTEGER PRIMARY KEY, kind VARCHAR NOT NULL)")
        connection.execute("INSERT INTO kinds VALUES (1, 'one'), (2, 'two')")
    return tmp_path


@contextmanager
def on(folder: Path, epoch: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """The deployment on a day."""
    with Service.start(configured(folder / "dpproxy.toml"), alone=True) as service:
        monkeypatch.setattr(service.answering.epochs, "name", lambda: epoch)
        yield service


def change(folder: Path, sql: str) -> None:
    with owner_of(folder / "people.duckdb") as connection:
        connection.execute(sql)


def asked(analyst: Analyst, sql: str = BY_DAY) -> Rows:
    return {(item, day): float(n) for item, day, n in analyst.ask(sql)}


def truth(item: str, day: str) -> int:
    """How many have bought by then: rum on each third day, tea on the others, every day as many."""
    rum = (int(day[-2:]) + 2) // 3
    return BUYERS // DAYS * (rum if item == "rum" else int(day[-2:]) - rum)


def near(rows: Rows) -> bool:
    return bool(rows) and all(abs(n - truth(item, day)) < ERROR for (item, day), n in rows.items())


def test_a_ledger_taken_as_it_is_draws_its_streams_anew(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a restored ledger has forgotten of a stream was told with its noise; the data may be others since."""
    ledger = folder / ".dpproxy" / "ledger"
    with on(folder, "2024-01-09", monkeypatch) as service:
        Analyst(service, "ann").ask(KINDS)
    shutil.copytree(ledger, folder / "backup")
    with on(folder, "2024-01-09", monkeypatch) as service:
        first = asked(Analyst(service, "ann"))
    shutil.rmtree(ledger)
    (folder / "backup").rename(ledger)
    assert within("budget", "accept", "--uncharged", "-c", str(folder / "dpproxy.toml"))[0] == 0
    with on(folder, "2024-01-09", monkeypatch) as service:
        second = asked(Analyst(service, "ann"))
    assert near(second)
    both = first.keys() & second.keys()
    assert sum(first[cell] == second[cell] for cell in both) < len(both) / 2, "not the same noise again"


def test_a_stream_has_one_key_and_another_begins_with_the_epoch_after_a_rotation(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = folder / ".dpproxy" / "key"
    with on(folder, "2024-01-09", monkeypatch) as service:
        first = asked(Analyst(service, "ann"))
    save_keys(key, load_keys(key, may_make=False).rotated("2024-01-09"), replace=True)
    with on(folder, "2024-01-09", monkeypatch) as service:
        ann = Analyst(service, "ann")
        assert asked(ann) == first
        assert ann.used() == (1, 1)
        monkeypatch.setattr(service.answering.epochs, "name", lambda: "2024-01-10")
        second = asked(ann)
        assert ann.used() == (2, 2), "a stream of its own"
    both = first.keys() & second.keys()
    assert sum(first[cell] == second[cell] for cell in both) < len(both) / 2, "not the same noise again"


def test_a_stream_goes_on_when_days_arrive(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with on(folder, "2024-01-09", monkeypatch) as service:
        ann = Analyst(service, "ann")
        first = asked(ann)
        assert near(first)
        assert max(day for _, day in first) == "2024-01-07", "the eighth may still come"
        assert {item for item, _ in first} == {"tea", "rum"}
        assert ann.used() == (1, 1)
        assert asked(ann) == first
        assert ann.used() == (1, 1)
        assert "UnknownDomainSquareRoot" in ann.last.rows[0].mechanism
    change(folder, SALES.format(buyers=BUYERS, first=7, last=11))
    with on(folder, "2024-01-14", monkeypatch) as service:
        ann, bob = Analyst(service, "ann"), Analyst(service, "bob")
        second = asked(ann)
        assert first.items() <= second.items()
        assert max(day for _, day in second) == "2024-01-12"
        assert near(second)
        assert ann.used() == (1, 1), "what goes on is paid once"
        assert asked(bob) == second
        assert bob.used() == (1, 1), "and by each account"
        releases = ann.ask("SELECT mechanism, information, calls, replayed FROM dpproxy.releases")
        assert [float(row[1]) for row in releases if "SquareRoot" in row[0]].count(1) == 1


def test_a_past_that_changes_is_not_shown(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal noise over other events would show the difference exactly; what was looked at stays."""
    with on(folder, "2024-01-09", monkeypatch) as service:
        first = asked(Analyst(service, "ann"))
    change(folder, "DELETE FROM sales WHERE person_id < 1500; " + SALES.format(buyers=0, first=0, last=0))
    with on(folder, "2024-01-10", monkeypatch) as service:
        second = asked(Analyst(service, "ann"))
    assert {key: n for key, n in second.items() if key[1] <= "2024-01-07"} == first
    later = {key: n for key, n in second.items() if key[1] == "2024-01-08"}
    assert later
    assert all(n < first[item, "2024-01-07"] for (item, _), n in later.items())


def test_an_exhausted_account_still_gets_what_goes_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it began with the tree, which it keeps."""
    policy = folder / "dpproxy.toml"
    policy.write_text('[privacy]\nmechanisms = "paper"\n' + policy.read_text())
    with on(folder, "2024-01-09", monkeypatch) as service:
        ann = Analyst(service, "ann")
        first = asked(ann)
        assert "UnknownDomainBinary" in ann.last.rows[0].mechanism
        for number in range(4):
            ann.ask(f"SELECT COUNT(*) FROM people WHERE person_id <> {number}")
        assert ann.used()[0] == 5
    policy.write_text(policy.read_text().replace('"paper"', '"clipped"'))
    with on(folder, "2024-01-11", monkeypatch) as service:
        ann, bob = Analyst(service, "ann"), Analyst(service, "bob")
        second = asked(ann)
        assert first.items() < second.items()
        assert "UnknownDomainBinary" in ann.last.rows[0].mechanism
        assert ann.used() == (5, 1)
        for number in range(5):
            bob.ask(f"SELECT COUNT(*) FROM people WHERE person_id <> {number}")
        with pytest.raises(Refusal) as refused:
            asked(bob)
        assert refused.value.code == "PV001"


def test_nothing_is_charged_before_a_time_is_over(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with on(folder, "2024-01-02", monkeypatch) as service:
        ann = Analyst(service, "ann")
        assert asked(ann) == {}
        assert ann.used() == (0, 0)
    with on(folder, "2024-01-03", monkeypatch) as service:
        ann = Analyst(service, "ann")
        assert {day for _, day in asked(ann)} <= {"2024-01-01"}
        assert ann.used() == (1, 1)


def test_a_team_pays_once_for_a_stream(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever of its members looks first, and when: at the same times, or at more of them in a later epoch."""
    file = folder / "dpproxy.toml"
    file.write_text(file.read_text() + '[budget.teams.shop]\nmembers = ["ann", "bob", "eve"]\n')

    def team(service: Service) -> tuple[int, int]:
        used = service.ledger.accounts.get("team:shop").used
        return used.information // 10**6, used.calls // 10**6

    with on(folder, "2024-01-09", monkeypatch) as service:
        ann, bob = Analyst(service, "ann"), Analyst(service, "bob")
        first = asked(ann)
        assert asked(bob) == first
        assert (ann.used(), bob.used(), team(service)) == ((1, 1), (1, 1), (1, 1))
    with on(folder, "2024-01-11", monkeypatch) as service:
        eve = Analyst(service, "eve")
        assert first.items() < asked(eve).items()
        assert (eve.used(), team(service)) == ((1, 1), (1, 1))
        eve.ask("SELECT COUNT(*) FROM people")
        assert team(service)[0] == 2, "another question"
        assert service.ledger.history.verify() is None


def test_without_a_horizon_each_epoch_has_a_stream_of_its_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has said that the past stays."""
    answers = []
    for paid, epoch in ((1, "2024-01-09"), (2, "2024-01-10")):
        with on(folder, epoch, monkeypatch) as service:
            ann = Analyst(service, "ann")
            answers.append(asked(ann, OPENINGS))
            assert ann.used() == (paid, paid)
    assert all(near({key: n for key, n in rows.items() if key[1] <= "2024-01-07"}) for rows in answers)
    assert answers[0] != answers[1]


def test_other_public_rows_make_another_stream(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used = []
    for epoch, sql in (
        ("2024-01-09", "SELECT 1"),
        ("2024-01-10", "UPDATE kinds SET kind = 'three' WHERE kind_id = 1"),
        ("2024-01-11", "SELECT 1"),
    ):
        change(folder, sql)
        with on(folder, epoch, monkeypatch) as service:
            ann = Analyst(service, "ann")
            assert asked(ann, KINDS)
            used.append(ann.used())
    assert used == [(1, 1), (2, 2), (2, 2)]


@pytest.mark.parametrize(
    ("condition", "same"), [("item <> 'rum'", False), ("TRUE", True), ("day >= '2024-01-02'", False)]
)
def test_what_is_counted_names_the_stream(
    folder: Path, monkeypatch: pytest.MonkeyPatch, condition: str, same: bool
) -> None:
    with on(folder, "2024-01-09", monkeypatch) as service:
        ann = Analyst(service, "ann")
        rows = asked(ann)
        others = asked(ann, RUNNING.replace("FROM sales", f"FROM sales WHERE {condition}"))
        shared = rows.keys() & others.keys()
        assert shared
        assert all(rows[key] == others[key] for key in shared) == same
        assert ann.used() == ((1, 1) if same else (2, 2))


def test_explain_prices_a_stream(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with on(folder, "2024-01-09", monkeypatch) as service:
        ann = Analyst(service, "ann")
        lines = [line for (line,) in ann.ask(f"EXPLAIN {RUNNING}")]
        assert any("UnknownDomainSquareRoot, times 1 to 7 of 15" in line for line in lines)
        assert any("standard deviation 18.64 to 25.85, depending on the time" in line for line in lines)
        assert any("at most 1 information unit and 1 call" in line for line in lines)
        assert ann.used() == (0, 0)
