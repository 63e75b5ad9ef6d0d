"""`make corpora` and `make coverage`, small: some statements over 300 people, on both backends, and clients' own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.corpora import coverage
from benchmarks.corpora import errors as corpora
from benchmarks.corpora.errors import Ask, Rows, World
from benchmarks.deployed import ENGINES

pytestmark = pytest.mark.service

SOME = 3


@pytest.fixture(scope="module")
def world(shared: Path) -> Iterator[World]:
    with corpora.made(shared / "corpora", 300) as made:
        yield made


@pytest.fixture(scope="module")
def proxies(world: World, shared: Path) -> Iterator[dict[str, Ask]]:
    with ExitStack() as stack:
        yield {
            engine: stack.enter_context(corpora.proxy(world.folder / engine, url, shared / "corpora"))
            for engine, url in zip(ENGINES, world.urls, strict=True)
        }


def test_corpora(world: World, proxies: dict[str, Ask], shared: Path) -> None:
    listed = corpora.queries(shared / "corpora", "legit.yaml")[:SOME]
    truths = {e["id"]: corpora.true_rows(world.server, world.database, e["sql"]) for e in listed}
    found: dict[str, dict[str, Rows | str]] = {
        engine: {e["id"]: corpora.answered(ask, e["sql"]) for e in listed} for engine, ask in proxies.items()
    }
    console = Console(width=170, record=True)
    assert corpora.report("legit.yaml", found, truths, 1.0, console) == 0
    assert f"{SOME} of {SOME} answered, 0 of them" in console.export_text()
    refused: dict[str, Rows | str] = dict.fromkeys(truths, "ERROR 54000: no")
    assert corpora.report("legit.yaml", found | {"DuckDB": refused}, truths, 1.0, console) == 1


def test_coverage(world: World, proxies: dict[str, Ask], shared: Path) -> None:
    listed = [*coverage.legit(shared / "corpora")][:SOME]
    refused = (one for one in coverage.others(shared / "corpora") if not one.answerable)
    # MIN of a text is answered, though the corpus says that it cannot be.
    listed += [one for one in refused if "MIN(" not in one.sql][:SOME]
    truths = [coverage.truth(world.server, world.database, one) for one in listed]
    found = [
        [coverage.asked(ask, one, truth) for one, truth in zip(listed, truths, strict=True)]
        for ask in proxies.values()
    ]
    page = coverage.written([("Some", found)])
    assert "0 of them with an undocumented code" in page
    assert all(one.kind == "with rows" for one in found[0][:SOME])
    assert all(one.kind == "refused as they must be" for one in found[0][SOME:])


def test_the_corpus_of_clients_is_read(shared: Path) -> None:
    listed = [*coverage.clients(shared / "corpora")]
    assert len({one.source for one in listed}) > 3
    assert any(one.answerable for one in listed)
