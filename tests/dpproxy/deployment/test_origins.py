"""Answers of one ledger are of one backend's data: another one under the same key would share them, and noise."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import pytest

from budget.account import OtherData
from dpproxy.backends import connect
from dpproxy.deployment.service import Service, configured
from tests.dpproxy.engine.test_executor import Analyst
from tests.dpproxy.serving import POLICY, make, within

pytestmark = pytest.mark.service

COUNT = "SELECT COUNT(*) FROM people"
ANSWERS = "SELECT count(*) FROM dpproxy_ledger.answer"


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A deployment that has answered; beside its file another one over other people, with an equal policy."""
    folder: Path = tmp_path_factory.mktemp("origins")
    file = make(folder, POLICY)
    with duckdb.connect(folder / "others.duckdb") as connection:
        connection.execute(f"ATTACH '{folder}/people.duckdb' AS first (READ_ONLY)")
        connection.execute("COPY FROM DATABASE first TO others")
        connection.execute("DELETE FROM people WHERE person_id > 99")
    (folder / "others.toml").write_text(POLICY.replace("people.duckdb", "others.duckdb"))
    with Service.start(configured(file), alone=True) as service:
        Analyst(service, "ann").ask(COUNT)
    return folder


@pytest.fixture
def folder(used: Path, tmp_path: Path) -> Path:
    shutil.copytree(used, tmp_path / "moved", ignore=shutil.ignore_patterns("front*"))
    return tmp_path / "moved"


def test_other_data_are_refused_until_the_owner_says_that_they_are_the_same(folder: Path) -> None:
    others = str(folder / "others.toml")
    with pytest.raises(OtherData) as refused:
        Service.start(configured(folder / "others.toml"), alone=True)
    for said in (
        "DuckDB file ../../people.duckdb",
        "DuckDB file ../../others.duckdb",
        "dpproxy budget accept",
    ):
        assert said in str(refused.value)
    status, out, err = within("query", "--analyst", "ann", "-c", others, COUNT)
    assert (status, out, err) == (1, "", f"dpproxy: {refused.value}\n")
    assert within("budget", "show", "-c", others)[0] == 0, "the owner may look"
    status, out, err = within("budget", "accept", "-c", others)
    assert (status, err) == (0, "")
    assert "Its answers are of DuckDB file ../../others.duckdb." in out
    for file in ("others.toml", "dpproxy.toml"):
        with Service.start(configured(folder / file), alone=True) as service:
            Analyst(service, "ann").ask(COUNT)


def test_a_deployment_that_is_moved_as_a_whole_keeps_its_answers(folder: Path) -> None:
    """By their keys: nothing that the key of a release is made of has changed."""
    with Service.start(configured(folder / "dpproxy.toml"), alone=True) as service:
        ann = Analyst(service, "ann")
        first = ann.ask(COUNT)
        assert "answered before in this epoch" in " ".join(ann.notices)
        assert ann.ask(COUNT) == first
        assert ann.used() == (1, 0)


def test_the_data_of_a_server_are_named_without_passwords(tmp_path: Path) -> None:
    def named(url: str) -> str:
        return connect(url, folder=tmp_path, memory="1GB", slots=1).place(None)

    assert named("duckdb:///a.duckdb") == f"DuckDB file {(tmp_path / 'a.duckdb').resolve()}"
    one = named("postgresql://reader:secret@one:5433/shop?sslmode=require")
    assert one == "PostgreSQL database host=one port=5433 dbname=shop user=reader"
    assert one == named("postgresql://reader:other@one:5433/shop?connect_timeout=3")
    assert named("postgresql://reader@one/shop").startswith("PostgreSQL database host=one port=")
    others = (
        "postgresql://reader@two:5433/shop",
        "postgresql://reader@one:5433/mine",
        "postgresql://a@one:5433/shop",
    )
    assert (
        len({one, *map(named, others), named("postgresql://reader@one:5433/shop?options=-csearch_path%3Dx")})
        == 5
    )
