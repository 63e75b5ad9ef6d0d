"""Published answers in the ledger: one name once, one refresh once, and a ledger of before learns to keep them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from importlib.resources import files

import psycopg
import pytest

from budget.account import Charge, Limit
from budget.ledger import Ledger
from budget.publications import NameTaken, PublishedAnswer, Released
from budget.schema import MIGRATIONS
from dpproxy.embedded.server import Embedded
from tests.budget.dying import PINNED

pytestmark = pytest.mark.service

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(days=1)
COLUMNS = (("town", "text"), ("n", "bigint"))


def released(answer: bytes = b"rows", due_at: datetime | None = LATER) -> Released:
    return Released(COLUMNS, answer, Charge(7, 1), NOW, due_at)


@pytest.fixture
def one(ledger: Ledger) -> Iterator[PublishedAnswer]:
    found = ledger.publications.publish(
        "towns", "ann", "SELECT 1", {"dpproxy.spend": "cheap"}, "epoch", released()
    )
    yield found
    ledger.publications.unpublish(found)


def test_what_is_published_is_found_as_it_was(ledger: Ledger, one: PublishedAnswer) -> None:
    assert ledger.publications.get("towns") == one
    assert ledger.publications.all() == (one,)
    assert ledger.publications.answer(one) == b"rows"
    assert (one.columns, one.charged, one.settings) == (COLUMNS, Charge(7, 1), {"dpproxy.spend": "cheap"})
    assert (one.released_at, one.due_at, one.failure) == (NOW, LATER, None)
    with pytest.raises(NameTaken):
        ledger.publications.publish("towns", "bob", "SELECT 2", {}, "once", released())


def test_names_and_comments_change(ledger: Ledger, one: PublishedAnswer) -> None:
    commented = ledger.publications.comment(one, "", "by town")
    assert commented is not None
    commented = ledger.publications.comment(one, "n", "how many")
    assert commented is not None
    assert commented.comments == {"": "by town", "n": "how many"}
    assert ledger.publications.answer(one) is None, "another version"
    other = ledger.publications.publish("other", "ann", "SELECT 2", {}, "once", released(due_at=None))
    with pytest.raises(NameTaken):
        ledger.publications.rename(one, "other")
    assert ledger.publications.unpublish(other)
    renamed = ledger.publications.rename(one, "other")
    assert renamed is not None
    assert (renamed.name, renamed.comments) == ("other", commented.comments)
    taken = ledger.publications.comment(renamed, "n", None)
    assert taken is not None
    assert taken.comments == {"": "by town"}
    assert ledger.publications.unpublish(taken)
    assert not ledger.publications.unpublish(taken)
    assert ledger.publications.rename(taken, "x") is ledger.publications.comment(taken, "", "x") is None


def test_one_of_many_renews_and_only_when_it_is_due(ledger: Ledger, one: PublishedAnswer) -> None:
    next_turn = LATER + timedelta(days=1)
    assert ledger.publications.claim_refresh(one, next_turn, "under way", due=NOW) is None
    with ThreadPoolExecutor(8) as threads:
        claims = list(
            threads.map(
                lambda _: ledger.publications.claim_refresh(one, next_turn, "under way", due=LATER), range(24)
            )
        )
    (claim,) = [claim for claim in claims if claim is not None]
    waiting = ledger.publications.get("towns")
    assert waiting is not None
    assert (waiting.failure, waiting.due_at) == ("under way", next_turn), (
        "told, also if nobody lives to end it"
    )
    assert ledger.publications.rename(one, "moved"), "what changes meanwhile keeps no answer from its place"
    renewed = ledger.publications.refreshed(one, claim, released(b"new", next_turn))
    assert renewed is not None
    assert (renewed.name, renewed.failure, renewed.due_at) == ("moved", None, next_turn)
    assert ledger.publications.answer(renewed) == b"new"
    assert ledger.publications.refreshed(one, claim, released(b"twice")) is None, "a claim is ended once"


def test_a_failure_leaves_the_old_answer(ledger: Ledger, one: PublishedAnswer) -> None:
    claim = ledger.publications.claim_refresh(one, None, "under way", due=None)
    assert claim is not None
    ledger.publications.refresh_failed(one, claim, "PV001: no", LATER)
    failed = ledger.publications.get("towns")
    assert failed is not None
    assert (failed.failure, failed.due_at, failed.released_at) == ("PV001: no", LATER, NOW)
    assert ledger.publications.answer(failed) == b"rows"
    ledger.publications.unpublish(one)
    assert ledger.publications.claim_refresh(one, None, "", due=None) is None


@pytest.fixture
def database(server: Embedded) -> Callable[[str], str]:
    def make(name: str) -> str:
        with psycopg.connect(server.conninfo(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return server.conninfo(dbname=name)

    return make


def test_a_ledger_of_version_6_learns_to_publish(database: Callable[[str], str]) -> None:
    conninfo = database("publications_6")
    with psycopg.connect(conninfo) as connection:
        for version, file in enumerate(MIGRATIONS[:6], 1):
            connection.execute(files("budget.migrations").joinpath(file).read_bytes())
            connection.execute("INSERT INTO dpproxy_ledger.migration (version) VALUES (%s)", (version,))
        connection.execute(
            "INSERT INTO dpproxy_ledger.account (name, limit_information, limit_calls, period, mode)"
            " VALUES ('analyst:ann', 9, 1, 'day', 'enforce')"
        )
    ledger = Ledger.open(conninfo, PINNED, instance="new")
    assert ledger._store.rows("SELECT current_user") == [("dpproxy_ledger",)], "with the least privileges"
    assert ledger.accounts.limit("analyst:ann") == Limit(9, 1, "day")
    kept = ledger.publications.publish("towns", "ann", "SELECT 1", {}, "once", released())
    assert ledger.publications.all() == (kept,)
    assert ledger.history.verify() is None
    assert ledger.publications.unpublish(kept)
    ledger.close()
