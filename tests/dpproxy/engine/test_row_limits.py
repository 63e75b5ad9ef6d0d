"""How many rows a query may bring is decided by public numbers, before it is paid, or with noise."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from dpproxy.deployment.service import Service, configured
from rewriter.refusal import Refusal
from tests.dpproxy.engine.test_executor import Analyst
from tests.dpproxy.serving import POLICY, make

pytestmark = pytest.mark.service

TERMS = """
[privacy]
epsilon_per = 3
quantile_bins = 1024
partition_selection = "pruned"
max_items_per_unit = 3
scans = "charge"
[budget]
information = 300
calls = 30
period = "none"
[tables.words]
privacy_unit = "person_id"
max_rows_per_unit = 4
[tables.words.columns]
word = {}
"""
LIMITED = POLICY.replace("[backend]\n", "[backend]\nmax_rows = 2000\n") + TERMS
CELLS = """
SELECT a.room, b.room, percentile_cont(0.5) WITHIN GROUP (ORDER BY v.seconds)
FROM visits v CROSS JOIN rooms a CROSS JOIN rooms b WHERE v.person_id = {} GROUP BY 1, 2
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder: Path = tmp_path_factory.mktemp("rows")
    file = make(folder, LIMITED)
    with duckdb.connect(folder / "people.duckdb") as connection:
        connection.execute("CREATE TABLE words (person_id INTEGER NOT NULL, word VARCHAR)")
        connection.execute("INSERT INTO words SELECT i, 'word ' || (i % 2) FROM range(900) r(i)")
        connection.execute("INSERT INTO words SELECT 7, 'own ' || i FROM range(100000) r(i)")
    with Service.start(configured(file), alone=True) as running:
        yield running


@pytest.mark.parametrize("person", [7, 7_000_000])
def test_bins_of_too_many_cells_are_refused_before_they_are_paid(service: Service, person: int) -> None:
    """16 cells of 1,024 bins, whoever is asked about: the first of them had rows, and was an error that cost a unit."""
    ann = Analyst(service, f"ann {person}")
    with pytest.raises(Refusal) as refused:
        ann.ask(CELLS.format(person))
    assert refused.value.code == "54000"
    assert "can bring 16,384 rows from the private data, more than the 2,000 that it may" in str(
        refused.value
    )
    with pytest.raises(Refusal, match="can bring"):
        ann.ask(f"EXPLAIN {CELLS.format(person)}")
    assert ann.used() == (0, 0)


def test_no_person_brings_more_labels_than_ten_for_each_that_counts(service: Service) -> None:
    """Person 7 has 100,000 words of their own: without a cut of their set, more than the rows that there may be."""
    ann = Analyst(service, "labels")
    assert [word for (word,) in ann.ask("SELECT DISTINCT word FROM words")] == ["word 0", "word 1"]


def test_more_pairs_than_fit_are_refused_with_noise_on_the_limit(service: Service) -> None:
    """Some 900 pairs fit into 2,000 rows; 3,600 do not, and that is charged: an answer to the question of how many."""
    ann = Analyst(service, "pairs")
    assert ann.ask("SELECT COUNT(DISTINCT word) FROM words WHERE person_id <> 7")
    before = ann.used()
    with pytest.raises(Refusal) as refused:
        ann.ask(
            "SELECT COUNT(DISTINCT w.word || r.room) FROM words w CROSS JOIN rooms r WHERE person_id <> 7"
        )
    assert refused.value.code == "54000"
    assert "needs more rows of the private data than the about 2,000 that it may" in str(refused.value)
    assert ann.used() == (before[0] + 1, before[1])
