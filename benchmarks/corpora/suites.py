"""The suites' parts of docs/coverage.md, for `make coverage`: those whose files are there, each by itself."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.corpora import clickbench, tpcds, tpch
from benchmarks.corpora.coverage import PAGE
from benchmarks.corpora.suite import QueryOutcome, Suite, part, run
from benchmarks.page_parts import rewritten


def main(arguments: Sequence[str]) -> int:
    """Asks, prints and writes; 1 for a refusal whose code is in no catalogue."""
    parser = ArgumentParser(prog="python -m benchmarks.corpora.suites")
    parser.add_argument("--tpchgen", type=Path, help="the program tpchgen-cli")
    parser.add_argument("--tpch", type=Path, help="TPC-H's queries: SQL, or sqlglot's source package")
    parser.add_argument("--tpcds", type=Path, help="the Python of TPC-DS's generator")
    parser.add_argument("--clickbench", type=Path, help="ClickBench's postgresql/queries.sql")
    options = parser.parse_args(arguments)
    console = Console(width=170)
    found: list[QueryOutcome] = []
    if options.tpch and options.tpchgen:
        with tpch.data(options.tpchgen) as files:
            asked = run(tpch.SUITE, files, tpch.queries(options.tpch), console)
        found += _written("tpch", tpch.SUITE, asked, console)
    else:
        console.print("TPC-H is not asked: --tpch and --tpchgen name its queries and its generator")
    if options.tpcds:
        with tpcds.data(options.tpcds) as (suite, files, queries):
            asked = run(suite, files, queries, console)
        found += _written("tpcds", suite, asked, console)
    else:
        console.print("TPC-DS is not asked: --tpcds names the Python of its generator")
    if options.clickbench:
        with clickbench.data() as files:
            asked = run(clickbench.SUITE, files, tpch.queries(options.clickbench), console)
        found += _written("clickbench", clickbench.SUITE, asked, console)
    else:
        console.print("ClickBench is not asked: --clickbench names its queries")
    return int(any(one.unnamed for one in found))


def _written(name: str, suite: Suite, found: list[QueryOutcome], console: Console) -> list[QueryOutcome]:
    text = part(suite, found)
    console.print(text, markup=False, soft_wrap=True)
    PAGE.write_text(rewritten(PAGE.read_text(), name, text))
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
