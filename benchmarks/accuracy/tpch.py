"""TPC-H's aggregates over private rows; the customer is the privacy unit, as in docs/coverage.md."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.accuracy.questions import Question
from benchmarks.corpora import tpch
from benchmarks.corpora.errors import fill_duckdb

KEYS = {
    1: ("l_returnflag", "l_linestatus"),
    4: ("o_orderpriority",),
    5: ("n_name",),
    6: (),
    7: ("supp_nation", "cust_nation", "l_year"),
    8: ("o_year",),
    9: ("nation", "o_year"),
    12: ("l_shipmode",),
    13: ("c_count",),
    14: (),
    15: ("s_suppkey", "s_name", "s_address", "s_phone"),
    17: (),
    19: (),
    22: ("cntrycode",),
}
"""The queries that aggregate private rows into numbers of groups which are not single persons or orders."""


def make(file: Path, generator: Path) -> None:
    """Makes the DuckDB file with tpchgen-cli."""
    with tpch.data(generator) as files:
        url = fill_duckdb(file.parent, tpch.SCHEMA, files)
    Path(url.removeprefix("duckdb:///")).rename(file)


def questions(queries: Path) -> Sequence[Question]:
    """TPC-H's queries out of a file, as docs/coverage.md asks them."""
    texts = tpch.queries(queries)
    return [Question(f"q{n}", f"TPC-H Q{n}", texts[n - 1], keys) for n, keys in KEYS.items()]
