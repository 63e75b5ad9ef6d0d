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


def kept(name: str, keys: int, measure: Callable[[], list[Measured]], console: Console) -> list[Measured]:
    """A part's figures, measured now or in a run that was interrupted."""
    file = KEPT / f"{name} {keys}"
    if not file.exists():
        console.print(f"{name} (load {os.getloadavg()[0]:.1f})")
        KEPT.mkdir(parents=True, exist_ok=True)
        new = file.with_suffix(".new")
        new.write_bytes(pickle.dumps(measure()))
        new.rename(file)
    found: list[Measured] = pickle.loads(file.read_bytes())
    return found


def of_sample(folder: Path, keys: int) -> list[Measured]:
    """The questions over the sample data."""
    file = folder / "sample.duckdb"
    sample.build(ROOT / "sample_data", file)
    return ask_all(file, ROOT / "sample_data" / "dpproxy.toml", questions("sample"), keys)


def of_shop(folder: Path, keys: int) -> list[Measured]:
    """The questions over the shop."""
    return ask_all(*made_shop(folder), questions("shop"), keys)


def made_shop(folder: Path) -> tuple[Path, Path]:
    """The shop and its policy."""
    file, policy = folder / "shop.duckdb", folder / "shop.toml"
    if not file.exists():
        shop.make(file)
        policy.write_text(shop.POLICY)
    return file, policy


def of_tpch(folder: Path, keys: int, generator: Path, queries: Path) -> list[Measured]:
    """TPC-H's queries."""
    file, policy = folder / "tpch.duckdb", folder / "tpch.toml"
    tpch.make(file, generator)
    policy.write_text(POLICY)
    return ask_all(file, policy, tpch.questions(queries), keys)


def _kept_on_page(part: str, text: str, console: Console) -> None:
    console.print(text, markup=False, soft_wrap=True)
    page = rewritten(PAGE.read_text() if PAGE.exists() else "", "", HEADER)
    PAGE.write_text(rewritten(page, part, text))


def main(arguments: Sequence[str]) -> int:
    """Asks, writes and prints; 1 where a target is missed."""
    parser = ArgumentParser(prog="python -m benchmarks.accuracy")
    parser.add_argument("--keys", type=int, default=20)
    parser.add_argument("--tpch", type=Path, help="the environment with tpchgen-cli and TPC-H's queries")
    parser.add_argument(
        "--venv", type=Path, help="what the names of the other libraries' environments begin with"
    )
    parser.add_argument(
        "--parts",
        nargs="+",
        default=[
            *("sample", "precision", "choices", "dashboard", "splits"),
            *("newcomer", "shop", "tpch", "times", "peers"),
        ],
    )
    options = parser.parse_args(arguments)
    console, keys, missed = Console(width=170), options.keys, False
    with tempfile.TemporaryDirectory(prefix="accuracy-") as name:
        folder = Path(name)
        parts: dict[str, tuple[str, str, Callable[[], list[Measured]]]] = {
            "sample": ("The sample data", SAMPLE, lambda: of_sample(folder, keys)),
            "shop": ("A shop of 100,000 customers", SHOP, lambda: of_shop(folder, keys)),
        }
        queries = [*(options.tpch / "sources").glob("sqlglot-*.tar.gz")] if options.tpch else []
        generator = options.tpch / "bin" / "tpchgen-cli" if options.tpch else Path()
        made = bool(queries) and generator.exists()
        if made:
            parts["tpch"] = ("TPC-H", TPCH, lambda: of_tpch(folder, keys, generator, queries[0]))
        for part in options.parts:
            if part == "times":
                _kept_on_page(part, times_written(times(folder), machine()), console)
                continue
            if part == "splits":
                _kept_on_page(part, written_for_splits(splits(ROOT / "sample_data")), console)
                continue
            if part == "newcomer":
                file = folder / "newcomer.duckdb"
                sample.build(ROOT / "sample_data", file)
                asked = ask_newcomers(file, ROOT / "sample_data" / "dpproxy.toml", min(keys, 5))
                _kept_on_page(part, written_for_newcomers(asked, machine(), min(keys, 5)), console)
                continue
            if part == "choices":
                file, policy = folder / "choices.duckdb", ROOT / "sample_data" / "dpproxy.toml"
                sample.build(ROOT / "sample_data", file)
                chosen = choices(file, policy, [*questions("sample"), *questions("newcomer")])
                chosen += choices(*made_shop(folder), questions("shop"))
                missed |= max(one.ratio for one in chosen) > MOST
                _kept_on_page(part, written_for_choices(chosen, machine()), console)
                continue
            if part == "precision":
                file = folder / "precision.duckdb"
                sample.build(ROOT / "sample_data", file)
                levels = min(keys, 5)
                at = measured(file, ROOT / "sample_data" / "dpproxy.toml", questions("sample"), levels)
                _kept_on_page(part, written_for_levels(at, machine(), levels), console)
                continue
            if part == "dashboard":
                file = folder / "dashboard.duckdb"
                sample.build(ROOT / "sample_data", file)
                few = min(keys, 3)
                charts = charted(file, ROOT / "sample_data" / "dpproxy.toml", few)
                _kept_on_page(part, written_for_dashboards(charts, machine(), few), console)
                continue
            if part == "peers":
                file, policy = folder / "peers.duckdb", ROOT / "sample_data" / "dpproxy.toml"
                sample.build(ROOT / "sample_data", file)
                found_of_all = peers.rows(folder, file, policy, str(options.venv), keys)
                _kept_on_page(part, peers.written(found_of_all, machine()), console)
                continue
            if part in parts:
                title, preface, measure = parts[part]
                found = Part(part, title, preface, kept(part, keys, measure, console), keys)
                missed |= any(one.met is False for one in found.found)
                plot(ROOT / "docs" / "accuracy" / f"{part}.svg", found)
            else:
                why = "its generator or its queries could not be installed"
                found = Part(part, "TPC-H", TPCH, why=why)
            _kept_on_page(part, written(found, machine()), console)
    for part in options.parts:
        (KEPT / f"{part} {keys}").unlink(missing_ok=True)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
