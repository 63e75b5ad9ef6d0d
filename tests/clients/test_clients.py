"""The short version of `make clients`, and what it relies on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.asyncpg_client import Asyncpg
from tests.clients.client import BY_COUNTRY, FEATURES, Client
from tests.clients.corpus import corpus_world, replay
from tests.clients.counted import Counts
from tests.clients.programs import Pgjdbc, Psql
from tests.clients.python_clients import Psycopg3
from tests.clients.table import CLIENTS, Cell, cells, printed
from tests.clients.world import World
from tests.conftest import missing


@pytest.mark.client
@pytest.mark.parametrize("client", [Psql, Psycopg3, Asyncpg, Pgjdbc], ids=lambda client: str(client.name))
def test_a_client_has_every_feature(on_duckdb: World, client: type[Client]) -> None:
    lacking = client.missing()
    if lacking is not None:
        missing(lacking)
    assert [cell for cell in cells(on_duckdb, [client]) if cell.outcome != "ok"] == []


@pytest.mark.client
def test_an_execution_too_many_is_seen(on_duckdb: World) -> None:
    with on_duckdb.connect() as connection:
        for wanted in (0, 2):
            with pytest.raises(AssertionError), on_duckdb.counts.expected(wanted):
                connection.execute(BY_COUNTRY.format(on_duckdb.fresh()).encode())


def test_counts_are_read_by_another_process(tmp_path: Path) -> None:
    counting, reading = (Counts(tmp_path / "counts") for _ in range(2))
    counting.add(steps=2, fetched=1)
    assert reading.now == (2, 1)


class Broken(Client):
    """A client that fails in one feature and has no other."""

    name = "broken"
    without = dict.fromkeys(FEATURES[1:], "it is not whole")

    def connect(self) -> None:
        """Fails."""
        raise AssertionError("it is\nbroken")


class Absent(Client):
    """A client that is not installed."""

    name = "absent"

    @classmethod
    def missing(cls) -> str | None:
        """Never there."""
        return "a thing"


@pytest.mark.client
def test_the_table_tells_what_failed_and_what_is_not_there(on_duckdb: World) -> None:
    found = list(cells(on_duckdb, [Broken, Absent]))
    assert found[0] == Cell("broken", "connect", "FAILED", "AssertionError: it is broken")
    assert {cell.outcome for cell in found[1:-1]} == {"-"}
    assert found[-1] == Cell("absent", "", "skipped", "a thing is not installed")
    lines: list[str] = []
    printed(found, lines.append)
    assert lines[1].split() == ["broken", "FAILED", *["-"] * (len(FEATURES) - 1)]
    assert lines[2].split() == ["absent", *["skipped"] * len(FEATURES)]
    assert "absent : skipped: a thing is not installed" in lines


def test_every_client_has_a_method_for_each_feature() -> None:
    for client in CLIENTS:
        assert all(callable(getattr(client, f, None)) or f in client.without for f in FEATURES), client


@pytest.mark.slow
@pytest.mark.parametrize("hidden", [True, False])
def test_what_clients_were_seen_to_send_is_answered(shared: Path, tmp_path: Path, hidden: bool) -> None:
    corpus = shared / "corpora" / "clients"
    with corpus_world(tmp_path, corpus, hidden) as (world, expected):
        found = replay(world, corpus, tmp_path, "--expected", str(expected), "--level", "types")
    assert found.share >= 0.97
    assert found.unexplained() == []
