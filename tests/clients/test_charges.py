"""The table of docs/clients.md: what the statements of BI tools cost."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.clients.charges import charges, table
from tests.clients.corpus import corpus_world
from tests.clients.world import ROOT

pytestmark = pytest.mark.client

MADE = re.compile(r"<!-- made: charges -->\n(.*?)\n<!-- end -->", re.DOTALL)
PAYS_AS_IT_GOES = "AS metric"
"""In the statement whose groups come out until its allowance is spent: what it costs is up to chance."""


def fixed(made: str) -> list[str]:
    """The lines of a table without that statement and the totals, in which it is."""
    return [line for line in made.splitlines() if PAYS_AS_IT_GOES not in line and not line.startswith("| **")]


def test_the_statements_of_bi_tools_cost_what_the_page_says(tmp_path: Path, shared: Path) -> None:
    corpus = shared / "corpora" / "clients"
    with corpus_world(tmp_path, corpus) as (world, expected):
        rows = [*charges(world, corpus, tmp_path, expected)]
    made = table(rows)
    print(f"\n{made}")
    told = MADE.search((ROOT / "docs" / "clients.md").read_text())
    assert told is not None
    assert fixed(told[1]) == fixed(made)
    (dear,) = (row for row in rows if PAYS_AS_IT_GOES in row.statement)
    assert dear.information <= 50
    assert dear.calls <= 5
