"""docs/benchmarks.md and its plots, written from a run."""

from __future__ import annotations

from pathlib import Path

from benchmarks.latency.overhead import WAYS, Times
from benchmarks.latency.results import Results, sheets, targets
from benchmarks.machine import machine
from benchmarks.page_parts import rewritten
from benchmarks.plots import axes_of

PREFACE = """# Benchmarks

Written by `make bench`{extent}; `BENCH=quick` takes a few minutes. Everything ran on one machine, clients included:
{machine}.

How far answers are off is in [accuracy.md](accuracy.md).

Each question is measured in six ways, in turn, in one run:

- *plain*: the analyst's text on the bare database, over a connection that stays open.
- *backend*: all queries of a private answer, which bound what each person adds, in a session like the proxy's. Its
  difference from *plain* is the cost of privacy on any engine; the rest is proxy overhead.
- *cold*: through the proxy, with a text that it has never seen.
- *cached*: through the proxy, with a cached plan (EXPLAIN ran before) and a new answer. Reservation and settlement are
  on disk before the answer is sent.
- *values*: a prepared statement with new parameter values.
- *replay*: an answer that was paid for before.

*added* is *cached* minus *backend*, in milliseconds; *ratio* is *cached* divided by *backend*.
"""


def write(docs: Path, results: Results) -> None:
    """Writes page and plots, and leaves what is there about peers."""
    page = docs / "benchmarks.md"
    old = page.read_text() if page.exists() else ""
    (docs / "benchmarks").mkdir(exist_ok=True)
    _plot_overhead(docs / "benchmarks" / "overhead.svg", results.times)
    _plot_rates(docs / "benchmarks" / "rates.svg", results)
    page.write_text(rewritten(old, "", _page(results)))


def _page(results: Results) -> str:
    extent = " (this is a quick run)" if results.extent == "quick" else ""
    busy = f", load average before the busiest part {results.load:.1f}"
    lines = [PREFACE.format(extent=extent, machine=machine() + busy), "## Targets", ""]
    lines += [f"- {check.line}" for check in targets(results)]
    for title, head, rows in sheets(results):
        lines += ["", f"## {title}", "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        lines += ["| " + " | ".join(row) + " |" for row in rows]
    for name, what in (("overhead", "Time by rows"), ("rates", "Statements a second by connections")):
        lines += ["", f"![{what}](benchmarks/{name}.svg)"]
    return "\n".join(lines) + "\n"


def _plot_overhead(file: Path, times: list[Times]) -> None:
    engines = list(dict.fromkeys(t.engine for t in times))
    questions = list(dict.fromkeys(t.question for t in times))
    figure, axes = axes_of(4 * len(questions), 3.5 * len(engines), len(questions), len(engines))
    for place, (engine, question) in zip(axes, ((e, q) for e in engines for q in questions), strict=True):
        of = [t for t in times if (t.engine, t.question) == (engine, question)]
        for way in WAYS:
            place.plot([t.rows for t in of], [1000 * t.median(way) for t in of], marker="o", label=way)
        place.set(xscale="log", yscale="log", title=f"{question}, {engine}", xlabel="rows", ylabel="ms")
        place.grid(alpha=0.3)
    axes[0].legend(fontsize=8)
    figure.savefig(file, metadata={"Date": None})


def _plot_rates(file: Path, results: Results) -> None:
    figure, axes = axes_of(9, 3.5, 2)
    for place, workers in zip(axes, (1, 2), strict=True):
        of = [r for r in results.rates if r.workers == workers]
        for what in dict.fromkeys(r.what for r in of):
            points = [(r.connections, r.speed.rate) for r in of if r.what == what]
            place.plot(*zip(*points, strict=True), marker="o", label=what)
        place.set(
            xscale="log",
            yscale="log",
            title=f"--workers {workers}",
            xlabel="connections",
            ylabel="statements/s",
        )
        place.grid(alpha=0.3)
    # Between the replays and the new queries, where no curve runs.
    axes[0].legend(fontsize=8, loc=(0.6, 0.15))
    figure.savefig(file, metadata={"Date": None})
