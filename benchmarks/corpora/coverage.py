"""`make coverage`: what of all corpora is answered on both backends, by where a statement comes from: docs/coverage.md.

Builds on `make corpora`, whose data and truth it takes. Statements of clients go against their own schema, on
PostgreSQL. Exit code 1 for a refusal whose code is in no catalogue.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import yaml
from rich.console import Console
from rich.progress import track

from benchmarks.corpora.errors import PARAMETERS, Ask, Rows, made, proxy, relative_error, true_rows
from benchmarks.deployed import ENGINES
from benchmarks.page_parts import rewritten
from dpproxy.deployment.service import Service, configured
from dpproxy.server.local_client import ClientError
from rewriter.refusal import CATALOGUE
from tests.clients.corpus import POLICY
from tests.dpproxy.postgres_data import Databases

USERS = 20_000
PAGE = Path(__file__).parent.parent.parent / "docs" / "coverage.md"
PAID = re.compile(r"charged ([\d.]+) information units? and ([\d.]+) calls?")
LATER = re.compile(r"\s*(fetch|close|execute|deallocate)\b", re.I)
"""Statements that need another one before them."""
HEADS = (
    "source",
    "statements",
    "with rows",
    "empty",
    "refused as they must be",
    "refused otherwise",
    "codes",
)
NUMBERS = ("median price in units", "median relative error")


@dataclass(frozen=True)
class CorpusStatement:
    """A statement to ask: where it is from, and whether the corpus says that it can be answered."""

    source: str
    sql: str
    answerable: bool


@dataclass(frozen=True)
class Outcome:
    """What became of a statement: `code` of a refusal and `why`, else the rows, the price and the error.

    `rows`: some came, or the truth has none; `released`: how many came.
    """

    statement: CorpusStatement
    code: str = ""
    why: str = ""
    rows: bool = False
    released: int = 0
    price: float = 0
    error: float | None = None

    @property
    def kind(self) -> str:
        """The column of the table that counts it."""
        if self.code:
            return "refused otherwise" if self.statement.answerable else "refused as they must be"
        return "with rows" if self.rows else "empty"


def legit(corpora: Path) -> Iterator[CorpusStatement]:
    """Analysts' queries that must be answered, by their mechanism's class."""
    for entry in yaml.safe_load((corpora / "legit.yaml").read_text()):
        yield CorpusStatement(f"legit: {entry['mechanism']}", entry["sql"], True)


def others(corpora: Path) -> Iterator[CorpusStatement]:
    """Queries of other systems' documentation and tests."""
    for entry in yaml.safe_load((corpora / "queries-by-others.yaml").read_text()):
        sql = entry["sql"]
        for name, value in PARAMETERS.items():
            sql = sql.replace(name, value)
        yield CorpusStatement(_source(entry["source"]), sql, entry["answerable"] == "yes")


def clients(corpora: Path) -> Iterator[CorpusStatement]:
    """What clients were seen to send that reads private rows, without parameters, each by itself."""
    seen = set()
    for line in (corpora / "clients" / "corpus.jsonl").read_text().splitlines():
        sent: dict[str, Any] = json.loads(line)
        key = sent["client"], sent.get("sql")
        wanted = sent["kind"] == "data" and not sent["leak"] and not sent.get("vals")
        if wanted and "$1" not in sent["sql"] and not LATER.match(sent["sql"]) and key not in seen:
            seen.add(key)
            yield CorpusStatement(f"client: {sent['client']}", sent["sql"], aggregate(sent["sql"]))


def aggregate(sql: str) -> bool:
    """Whether a client's statement asks for more than rows as they are.

    >>> aggregate("select country, count(*) from app.users group by 1"), aggregate("select * from app.users limit 5")
    (True, False)
    """
    return re.search(r"\b(count|sum|avg|min|max)\s*\(|group by|select distinct", sql, re.I) is not None


def _source(written: str) -> str:
    """The project that a query is from, without version and file."""
    return written.split("@")[0].split(" ")[0].rstrip(",")


def asked(ask: Ask, statement: CorpusStatement, truth: Rows) -> Outcome:
    """A statement asked through a proxy."""
    try:
        answer = ask(statement.sql)
    except ClientError as error:
        return Outcome(statement, code=error.code, why=str(error))
    paid = [PAID.search(notice) for notice in answer.notices]
    price = sum(float(found[1]) for found in paid if found is not None)
    return Outcome(
        statement,
        rows=bool(answer.rows) or not truth,
        released=len(answer.rows),
        price=price,
        error=relative_error(answer.rows, truth),
    )


def table(outcomes: Sequence[Sequence[Outcome]]) -> Iterator[tuple[str, ...]]:
    """The rows of the table, one a source: counts of the first engine's outcomes, errors of all."""
    first = outcomes[0]
    for source in dict.fromkeys(one.statement.source for one in first):
        of_it = [[one for one in engine if one.statement.source == source] for engine in outcomes]
        kinds = [Counter(one.kind for one in engine) for engine in of_it]
        codes = Counter(one.code for one in of_it[0] if one.kind == "refused otherwise")
        counts = [" / ".join(dict.fromkeys(str(kind[head]) for kind in kinds)) for head in HEADS[2:6]]
        prices = [one.price for one in of_it[0] if not one.code]
        errors = [_median([one.error for one in engine if one.error is not None]) for engine in of_it]
        yield (
            source,
            str(len(of_it[0])),
            *counts,
            ", ".join(f"{code} {n}" for code, n in codes.most_common()),
            f"{median(prices):g}" if prices else "",
            " / ".join(f"{e:.2%}" if e is not None else "-" for e in errors),
        )


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def written(sections: Sequence[tuple[str, Sequence[Sequence[Outcome]]]]) -> str:
    """The page."""
    lines = [HEADER]
    for title, outcomes in sections:
        lines += [f"## {title}", "", "| " + " | ".join((*HEADS, *NUMBERS)) + " |", "|" + "---|" * 9]
        lines += ["| " + " | ".join(row) + " |" for row in table(outcomes)]
        every = [one for engine in outcomes for one in engine]
        named = sum(one.code in CATALOGUE for one in every)
        refused = sum(bool(one.code) for one in every)
        lines += [
            "",
            f"Refused {refused} times, {refused - named} of them with an undocumented code.",
            "",
        ]
    return "\n".join(lines)


HEADER = f"""# Coverage

`make coverage` writes this page from the corpora in `$DPPROXY_SHARED`. Statements are run one after the other through a
proxy with the corpora's policy (epsilon_per 0.15, `scans = "charge"`) over the data of {USERS:,} generated people; true
answers are PostgreSQL's own. "x / y" gives DuckDB's and PostgreSQL's results where they differ; prices are DuckDB's.

- "With rows" includes statements whose true answer is empty.
- "Empty": the true answer has rows, but no group is large enough to be released.
- "Refused as they must be": the corpus says that no differentially private answer exists, mostly because the query
  asks for single rows. "Refused otherwise": the corpus says that the query should be answered.
- "Relative error": the mean of |released - true|/max(|true|, 1) over the numbers of an answer, then the median over
  the statements.

Which groups are large enough depends on the number of people. The queries by others with empty answers ask for groups
of about one person (an amount to the cent and a birth year; a country, a title and a day), for counts by minute, or for
running counts under a policy that allows 400 events a person. `make corpora` runs them over more people and prints the
error of each query. The unchanged queries of TPC-H, TPC-DS and ClickBench have sections below.
"""


def main() -> int:
    """Ask everything, print the tables and write the page."""
    corpora = Path(os.environ["DPPROXY_SHARED"]) / "corpora"
    console = Console()
    sections: list[tuple[str, Sequence[Sequence[Outcome]]]] = []
    with ExitStack() as stack:
        world = stack.enter_context(made(corpora, USERS))
        for title, listed in (
            ("Analysts' queries", [*legit(corpora)]),
            ("Queries by others", [*others(corpora)]),
        ):
            truths = [truth(world.server, world.database, one) for one in listed]
            found = []
            for engine, url in zip(ENGINES, world.urls, strict=True):
                with proxy(world.folder / engine, url, corpora) as ask:
                    pairs = track(
                        [*zip(listed, truths, strict=True)],
                        f"{title} on {engine}",
                        console=console,
                        transient=True,
                    )
                    found.append([asked(ask, one, truth) for one, truth in pairs])
            sections.append((title, found))
        sections.append(
            ("Statements of clients, on PostgreSQL", [_of_clients(world.server, world.folder, corpora)])
        )
    page = written(sections)
    console.print(page, markup=False, soft_wrap=True)
    PAGE.write_text(rewritten(PAGE.read_text(), "", page))
    codes = {one.code for _, engines in sections for engine in engines for one in engine if one.code}
    return 1 if codes - set(CATALOGUE) else 0


def _of_clients(server: Databases, folder: Path, corpora: Path) -> list[Outcome]:
    database = server.make(((corpora / "clients" / "schema.sql").read_text(), "ANALYZE"))
    place = folder / "clients"
    place.mkdir()
    file = place / "dpproxy.toml"
    file.write_text(POLICY.format(url=server.url(database)))
    with Service.start(configured(file), alone=True) as service:

        def ask(sql: str) -> Any:
            return asyncio.run(service.ask("analyst", f"/* dpproxy.reuse = off */ {sql}"))

        listed = [*clients(corpora)]
        return [asked(ask, one, truth(server, database, one)) for one in listed]


def truth(server: Databases, database: str, statement: CorpusStatement) -> Rows:
    """PostgreSQL's rows; nothing for what has to be refused: joins of everything with everything are among them."""
    return true_rows(server, database, statement.sql) if statement.answerable else []


if __name__ == "__main__":
    sys.exit(main())
