"""TPC-H's statements and tables for `make bench-ratios`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb

from benchmarks.corpora import tpch

VENV = Path(__file__).parent.parent.parent / ".venv-tpch"
ASKED = (1, 4, 5, 6, 7, 8, 9, 12, 13, 14, 15, 19)
"""The queries that read private tables, are answered, and wait for no released number: those of later stages, 17 and
22, have SQL that is known only then."""
PAIRED = frozenset({"Q7"})
"""It pairs two nations by an OR."""
_WHERE = re.compile(r"\bwhere\b", re.IGNORECASE)


def statements() -> Mapping[str, str]:
    """The queries by name, each with a condition on rows and a number {n}; none where they are not fetched."""
    packed: Sequence[Path] = sorted(VENV.glob("sources/sqlglot-*.tar.gz"))
    texts = tpch.queries(packed[0]) if packed else []
    return {f"Q{n}": _numbered(n, texts[n - 1]) for n in ASKED if texts}


def _numbered(query: int, text: str) -> str:
    """
    >>> _numbered(6, "SELECT 1 FROM lineitem WHERE l_tax > 0")
    'SELECT 1 FROM lineitem where l_orderkey <> {n} and l_tax > 0'
    """
    if query == 13:
        return text.replace("c_custkey = o_custkey", "c_custkey = o_custkey and o_orderkey <> {n}")
    if query == 19:
        return text.replace("p_partkey = l_partkey", "p_partkey = l_partkey and l_orderkey <> {n}")
    key = "o_orderkey" if query == 4 else "l_orderkey"
    return _WHERE.sub(f"where {key} <> {{n}} and", text, count=1)


def build(file: Path) -> None:
    """Makes the DuckDB file with tpchgen-cli."""
    with tpch.data(VENV / "bin" / "tpchgen-cli") as files, duckdb.connect(file) as connection:
        connection.execute(tpch.SCHEMA)
        for name, rows in files.items():
            options = "header = true, allow_quoted_nulls = false"
            connection.execute(f"INSERT INTO {name} SELECT * FROM read_csv('{rows}', {options})")
