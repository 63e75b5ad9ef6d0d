"""One key over the same data on every backend: the same rows are fetched, under the same release keys."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import duckdb
import pytest

from budget.account import Reservation, Settled, Settlement
from dpproxy.backends.base import Cancellation, Fetched, Slot
from dpproxy.deployment.service import Service, configured
from rewriter.plan import HistogramQuery
from tests.dpproxy.engine.test_over_postgres import PEOPLE
from tests.dpproxy.postgres_data import databases
from tests.dpproxy.serving import POLICY, make
from tests.spark_server import copied, owner, url, with_spark

pytestmark = pytest.mark.service

PRIVACY = """
[privacy]
epsilon_per = 4
delta_per = 1e-3
d_bar = 20
query_information = 2
query_calls = 2
max_items_per_unit = 2
partition_selection = "pruned"
quantile_bins = 16
epoch = "forever"
[budget]
mode = "track"
[tables.hobbies]
privacy_unit = "person_id"
[tables.hobbies.columns]
hobby = {}
kind = { domain = ["a", "b", "c", "d", "e", "f", "g", "h"] }
"""
HOBBIES = (
    "CREATE TABLE hobbies (person_id integer NOT NULL, hobby varchar(20), kind varchar(5))",
    "INSERT INTO hobbies SELECT i, CASE WHEN j > 0 THEN 'hobby ' || (i * j) % 23 END, substr('abcdefgh', 1 + j % 8, 1) "
    "FROM generate_series(1, 300) AS r(i), generate_series(0, 5) AS s(j)",
)
QUESTIONS = {
    "known, restricted": "SELECT town, COUNT(*) FROM people GROUP BY town",
    "known, unrestricted": "SELECT kind, COUNT(DISTINCT person_id) FROM hobbies GROUP BY kind ORDER BY 2 DESC LIMIT 2",
    "unknown, restricted": "SELECT room, COUNT(DISTINCT person_id) FROM visits GROUP BY room",
    "unknown, top k": "SELECT hobby, COUNT(DISTINCT person_id) FROM hobbies GROUP BY hobby ORDER BY 2 DESC LIMIT 3",
    "as many counts as fit": "SELECT hobby, COUNT(DISTINCT person_id) FROM hobbies GROUP BY hobby",
    "partition selection": "SELECT DISTINCT hobby FROM hobbies",
    "distinct count": "SELECT COUNT(DISTINCT hobby) FROM hobbies",
    "sum and average": "SELECT SUM(seconds), AVG(seconds) FROM visits",
    "rows of VALUES": "SELECT k.name, SUM(seconds) FROM visits JOIN (VALUES (0, 'it''s'), (1, 'b \\ \"c\"'), "
    "(2, NULL), (2, 'ü')) AS k(room, name) USING (room) GROUP BY k.name",
    "a calendar": "SELECT d.day::date, COUNT(*) FROM visits JOIN generate_series('2024-01-01'::date, '2024-01-03', "
    "'1 day') AS d(day) ON d.day < timestamptz '2024-01-02 12:00:00+00' OR seconds > 30 GROUP BY 1",
    "numbers of rows": "SELECT COUNT(*) FROM visits JOIN (SELECT floor, AVG(room) AS r, bool_and(room > 0) AS b, "
    "MAX(room) / 3.0 AS d, 1e-3::float8 * MIN(room) AS f FROM rooms GROUP BY floor) AS x "
    "ON x.r >= room AND x.d < 1 AND x.f < 1.5 AND x.b IS NOT NULL",
    "quantile": "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) FROM visits",
}
Seen = tuple[list[tuple[str | None, ...]], list[bytes], list[str]]


class Deployment:
    """A running service; what it fetches and the keys of what it settles are seen on their way."""

    def __init__(self, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
        self._service = service
        self._fetched: list[Fetched] = []
        self._keys: list[bytes] = []
        self.folder = service.config.folder
        with service.checked.backend.open() as opened:
            slot = type(opened)
        fetch, settle = slot.fetch, service.ledger.settle

        def fetching(one: Slot, query: HistogramQuery, key: str, stop: Cancellation, most: int) -> Fetched:
            self._fetched.append(fetch(one, query, key, stop, most))
            return self._fetched[-1]

        def settling(held: Reservation, settlement: Settlement) -> Settled:
            self._keys.append(settlement.release_key)
            return settle(held, settlement)

        monkeypatch.setattr(slot, "fetch", fetching)
        monkeypatch.setattr(service.ledger, "settle", settling)
        monkeypatch.setattr(service.ledger.epochs, "nonce", lambda _: b"the same nonce")

    def ask(self, sql: str) -> Seen:
        """The rows that were fetched first, the keys of the releases, and the names of the answer's columns."""
        self._fetched.clear()
        self._keys.clear()
        columns = asyncio.run(self._service.ask("ann", sql)).columns
        first = self._fetched[0]
        rows = zip(*(first.texts(n) for n in range(len(first.columns))), strict=True)
        return sorted(rows, key=repr), list(self._keys), columns


@pytest.fixture(scope="module")
def spark(
    both: tuple[Deployment, Deployment], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployment]:
    """The same data in Spark, which keeps no keys, under the same key of releases."""
    folder: Path = tmp_path_factory.mktemp("spark")
    with duckdb.connect(both[0].folder / "people.duckdb", read_only=True) as connection, owner() as session:
        copied(connection, session)
    (folder / "dpproxy.toml").write_text(POLICY.replace("duckdb:///people.duckdb", url()) + PRIVACY)
    (folder / ".dpproxy").mkdir()
    shutil.copy2(both[0].folder / ".dpproxy" / "key", folder / ".dpproxy")
    with (
        pytest.MonkeyPatch.context() as changed,
        Service.start(configured(folder / "dpproxy.toml"), alone=True) as service,
    ):
        yield Deployment(service, changed)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Deployment, Deployment]]:
    folder: Path = tmp_path_factory.mktemp("both")
    (folder / "postgres").mkdir()
    (folder / "duckdb").mkdir()
    make(folder / "duckdb", POLICY + PRIVACY)
    with duckdb.connect(folder / "duckdb" / "people.duckdb") as connection:
        for statement in HOBBIES:
            connection.execute(statement)
    with ExitStack() as stack:
        server = stack.enter_context(databases(folder / "server"))
        url = server.url(server.make((*PEOPLE, *HOBBIES)))
        here = POLICY.replace("duckdb:///people.duckdb", url)
        (folder / "postgres" / "dpproxy.toml").write_text(here + PRIVACY)
        changed = stack.enter_context(pytest.MonkeyPatch.context())
        deployments = []
        for name in ("duckdb", "postgres"):
            keys = folder / name / ".dpproxy"
            keys.mkdir()
            if name == "postgres":
                shutil.copy2(folder / "duckdb" / ".dpproxy" / "key", keys)
            service = Service.start(configured(folder / name / "dpproxy.toml"), alone=True)
            deployments.append(Deployment(stack.enter_context(service), changed))
        yield deployments[0], deployments[1]


@pytest.mark.parametrize("sql", QUESTIONS.values(), ids=QUESTIONS)
def test_rows_and_keys_are_the_same(both: tuple[Deployment, Deployment], sql: str) -> None:
    on_duckdb, on_postgres = (deployment.ask(sql) for deployment in both)
    assert on_duckdb[0]
    assert on_duckdb[1]
    assert on_duckdb == on_postgres


@with_spark
@pytest.mark.parametrize("sql", QUESTIONS.values(), ids=QUESTIONS)
def test_rows_are_the_same_in_spark(both: tuple[Deployment, Deployment], spark: Deployment, sql: str) -> None:
    here, there = both[0].ask(sql), spark.ask(sql)
    assert here[0] == there[0]
    assert here[2] == there[2]


def test_another_key_cuts_other_rows(both: tuple[Deployment, Deployment], tmp_path: Path) -> None:
    """What the comparison rests on: partition selection fetches other weights under another key."""
    folder = both[0].folder
    (tmp_path / "dpproxy.toml").write_text((folder / "dpproxy.toml").read_text())
    shutil.copy2(folder / "people.duckdb", tmp_path)
    with (
        Service.start(configured(tmp_path / "dpproxy.toml"), alone=True) as service,
        pytest.MonkeyPatch.context() as m,
    ):
        other = Deployment(service, m).ask(QUESTIONS["partition selection"])
    mine = both[0].ask(QUESTIONS["partition selection"] + " WHERE person_id > 0")
    assert mine[0] != other[0]
    assert mine[1] != other[1]
