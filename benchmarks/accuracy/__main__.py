"""`make accuracy`: the errors of business questions over the sample data, a shop and TPC-H: docs/accuracy.md.

KEYS is the number of fresh keys, PARTS names the parts that are wanted. What an interrupted run has measured is
kept in `.bench` and not measured again. Each part of the page is kept until its next run.
"""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rich.console import Console

from benchmarks.accuracy import shop, tpch
from benchmarks.accuracy.asking import Measured, ask_all
from benchmarks.accuracy.choices import MOST, choices, written_for_choices
from benchmarks.accuracy.dashboard import charted, written_for_dashboards
from benchmarks.accuracy.newcomer import ask_newcomers, written_for_newcomers
from benchmarks.accuracy.page import Part, plot, written
from benchmarks.accuracy.peers import table as peers
from benchmarks.accuracy.precision import measured, written_for_levels
from benchmarks.accuracy.questions import questions
from benchmarks.accuracy.splits import splits, written_for_splits
from benchmarks.accuracy.times import times
from benchmarks.accuracy.times import written as times_written
from benchmarks.corpora.tpch import POLICY
from benchmarks.machine import machine
from benchmarks.page_parts import rewritten
from dpproxy.backends import sample

ROOT = Path(__file__).parent.parent.parent
SAMPLE_DATA = ROOT / "sample_data"
KEPT = ROOT / ".bench" / "accuracy"
PAGE = ROOT / "docs" / "accuracy.md"
HEADER = """# Accuracy

Written by `make accuracy`; each section is kept until its next run. Every question is asked of deployments with fresh
keys over DuckDB, and compared with the same SQL on the bare database, without bounds of any kind.

- *error*: the median over an answer's groups of |released - true|/|true|, for each column of numbers; NULL, a group
  that did not come out and an empty answer count as 100%. The table has the median over the keys with the 10th and the
  90th percentile. Groups whose true number is 0 do not count.
- *groups*: how many of the true groups came out, as a median over the keys, and the error of what came out alone, where
  that differs.
- *price*: information units, at epsilon 0.15 each.
- *target*: what the median error should be at most. A target for a price of 2 or 4 units a release is measured on a
  deployment whose epsilon_per is sqrt(2) or 2 times the default's, whose noise is what so many units buy.
- *error before*: the same with declared row caps and bounds of values in place of clipped totals, measured once and
  kept in [the questions' file](../benchmarks/accuracy/sample.yaml). Where groups are missing, it may be the error of
  those that came out."""
SAMPLE = """39 business questions over the 2,469 households of the sample data, under its policy."""
SHOP = """A generated shop: 100,000 customers of whom a third buy nothing, rows of a customer by Pareto's law, values
lognormal, returns negative, and a hundredth of the customers with values 100 times as large. The policy declares
neither row caps nor bounds of values ([benchmarks/accuracy/shop.py](../benchmarks/accuracy/shop.py))."""
TPCH = """TPC-H's queries that aggregate private rows, with data and policy of [coverage.md](coverage.md#tpc-h): scale
factor 0.1, and the customer is the privacy unit."""


@dataclass
class Run:
    """Measures the parts of the page.

    Attributes:
        folder: for databases and deployments.
        keys: how many.
        tpch: the environment with tpchgen-cli and TPC-H's queries, if there is one.
        venv: what the names of the other libraries' environments begin with.
        missed: a target, so far.
    """

    folder: Path
    keys: int
    tpch: Path | None
    venv: str
    console: Console
    missed: bool = False

    @cached_property
    def data(self) -> tuple[Path, Path]:
        """The sample data and their policy."""
        file = self.folder / "sample.duckdb"
        sample.build(SAMPLE_DATA, file)
        return file, SAMPLE_DATA / "dpproxy.toml"

    @cached_property
    def shop(self) -> tuple[Path, Path]:
        """The shop and its policy."""
        file, policy = self.folder / "shop.duckdb", self.folder / "shop.toml"
        shop.make(file)
        policy.write_text(shop.POLICY)
        return file, policy

    def of_sample(self) -> str:
        """The business questions."""
        return self._asked(
            "sample", "The sample data", SAMPLE, lambda: ask_all(*self.data, questions("sample"), self.keys)
        )

    def of_shop(self) -> str:
        """The questions over the shop."""
        title = "A shop of 100,000 customers"
        return self._asked("shop", title, SHOP, lambda: ask_all(*self.shop, questions("shop"), self.keys))

    def of_tpch(self) -> str:
        """TPC-H's queries."""
        queries = [*(self.tpch / "sources").glob("sqlglot-*.tar.gz")] if self.tpch else []
        generator = self.tpch / "bin" / "tpchgen-cli" if self.tpch else Path()
        if not queries or not generator.exists():
            why = "its generator or its queries could not be installed"
            return written(Part("tpch", "TPC-H", TPCH, why=why), machine())

        def measure() -> list[Measured]:
            file, policy = self.folder / "tpch.duckdb", self.folder / "tpch.toml"
            tpch.make(file, generator)
            policy.write_text(POLICY)
            return ask_all(file, policy, tpch.questions(queries[0]), self.keys)

        return self._asked("tpch", "TPC-H", TPCH, measure)

    def precision(self) -> str:
        """Units for wanted errors."""
        keys = min(self.keys, 5)
        return written_for_levels(measured(*self.data, questions("sample"), keys), machine(), keys)

    def choices(self) -> str:
        """Mechanisms and what others would cost."""
        chosen = choices(*self.data, [*questions("sample"), *questions("newcomer")])
        chosen += choices(*self.shop, questions("shop"))
        self.missed |= max(one.ratio for one in chosen) > MOST
        return written_for_choices(chosen, machine())

    def dashboard(self) -> str:
        """Dashboards with reuse."""
        keys = min(self.keys, 3)
        return written_for_dashboards(charted(*self.data, keys), machine(), keys)

    def splits(self) -> str:
        """Splits of cubes."""
        return written_for_splits(splits(SAMPLE_DATA))

    def newcomer(self) -> str:
        """A newcomer's questions."""
        keys = min(self.keys, 5)
        return written_for_newcomers(ask_newcomers(*self.data, keys), machine(), keys)

    def times(self) -> str:
        """Seconds of clipped totals."""
        return times_written(times(self.folder), machine())

    def peers(self) -> str:
        """Other libraries."""
        return peers.written(peers.rows(self.folder, *self.data, self.venv, self.keys), machine())

    def _asked(self, name: str, title: str, preface: str, measure: Callable[[], list[Measured]]) -> str:
        part = Part(name, title, preface, self._kept(name, measure), self.keys)
        self.missed |= any(one.met is False for one in part.found)
        plot(ROOT / "docs" / "accuracy" / f"{name}.svg", part)
        return written(part, machine())

    def _kept(self, name: str, measure: Callable[[], list[Measured]]) -> list[Measured]:
        """A part's figures, measured now or in a run that was interrupted."""
        file = KEPT / f"{name} {self.keys}"
        if not file.exists():
            self.console.print(f"{name} (load {os.getloadavg()[0]:.1f})")
            KEPT.mkdir(parents=True, exist_ok=True)
            new = file.with_suffix(".new")
            new.write_bytes(pickle.dumps(measure()))
            new.rename(file)
        found: list[Measured] = pickle.loads(file.read_bytes())
        return found


PARTS: dict[str, Callable[[Run], str]] = {
    "sample": Run.of_sample,
    "precision": Run.precision,
    "choices": Run.choices,
    "dashboard": Run.dashboard,
    "splits": Run.splits,
    "newcomer": Run.newcomer,
    "shop": Run.of_shop,
    "tpch": Run.of_tpch,
    "times": Run.times,
    "peers": Run.peers,
}


def main(arguments: Sequence[str]) -> int:
    """Asks, writes and prints; 1 where a target is missed."""
    parser = ArgumentParser(prog="python -m benchmarks.accuracy")
    parser.add_argument("--keys", type=int, default=20)
    parser.add_argument("--tpch", type=Path, help="the environment with tpchgen-cli and TPC-H's queries")
    parser.add_argument(
        "--venv", default="", help="what the names of the other libraries' environments begin with"
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=[*PARTS])
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="accuracy-") as name:
        run = Run(Path(name), options.keys, options.tpch, options.venv, Console(width=170))
        for part in options.parts:
            text = PARTS[part](run)
            run.console.print(text, markup=False, soft_wrap=True)
            page = rewritten(PAGE.read_text() if PAGE.exists() else "", "", HEADER)
            PAGE.write_text(rewritten(page, part, text))
    for part in options.parts:
        (KEPT / f"{part} {options.keys}").unlink(missing_ok=True)
    return int(run.missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
