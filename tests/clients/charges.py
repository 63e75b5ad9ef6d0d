"""What the statements of BI tools cost, with and without reuse: those they were seen to send, and those they send to
learn about columns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import psycopg

from tests.clients.corpus import replay
from tests.clients.world import World

TOOLS = ("metabase", "superset", "grafana", "dbeaver", "tableau", "powerbi")
ANALYSTS = {"analyst": "on", "afresh": "off"}
"""Who asks everything in the same order, with dpproxy.reuse."""
BY_THEMSELVES = {
    "metabase": (
        'SELECT "app"."users"."country" AS "country" FROM "app"."users" GROUP BY "app"."users"."country" '
        'ORDER BY "app"."users"."country" ASC LIMIT 1000',
        'SELECT "app"."users"."profile" AS "profile" FROM "app"."users" GROUP BY "app"."users"."profile" '
        'ORDER BY "app"."users"."profile" ASC LIMIT 1000',
        'SELECT COUNT(*) AS "count" FROM "app"."users"',
    ),
    "superset": (
        "SELECT kind AS kind \nFROM app.events GROUP BY kind ORDER BY kind ASC\n LIMIT 10000",
        "SELECT amount AS amount \nFROM app.events GROUP BY amount\n LIMIT 10000",
    ),
    "grafana": ("SELECT DISTINCT country FROM app.users", "SELECT DISTINCT ok FROM app.events"),
    "dbeaver": ('SELECT DISTINCT "country" FROM app.users LIMIT 200',),
}
"""Value lists and counts of rows, as the tools' field scans, filters and variables write them."""
UNITS = ("information", "calls", "afresh")
HEADS = ("tool", "statement", "answer", *UNITS)


@dataclass(frozen=True)
class Charged:
    """A statement of a tool, how it ended and what it cost in units; `afresh`: information with dpproxy.reuse = off."""

    tool: str
    statement: str
    answer: str
    information: Fraction
    calls: Fraction
    afresh: Fraction

    def cells(self) -> tuple[str, ...]:
        """As a row of the table."""
        amounts = (f"{float(getattr(self, unit)):g}" for unit in UNITS)
        return (self.tool, self.statement, self.answer, *amounts)


def charges(world: World, corpus: Path, folder: Path, expected: Path) -> Iterator[Charged]:
    """Each statement on data by itself; those on catalogs, settings and constants together, by their number.

    All tools ask as one analyst, so that what one has paid for the next has for nothing; another one asks each
    statement on data without reuse.
    """
    with ExitStack() as stack:
        accounts = [stack.enter_context(world.connect(user=analyst)) for analyst in ANALYSTS]
        for tool in TOOLS:
            before = _used(accounts)
            found = replay(
                world, corpus, folder, "--expected", str(expected), "--level", "types", "--clients", tool
            )
            spent = [now - then for now, then in zip(_used(accounts), before, strict=True)]
            assert not found.unexplained()
            kinds = f"{found.total} on catalogs, settings and constants"
            yield Charged(tool, kinds, f"{found.passed} as PostgreSQL's", *spent)
            for sql in (*_on_data(corpus, tool), *BY_THEMSELVES.get(tool, ())):
                before = _used(accounts)
                answer, _ = [_asked(world, sql, analyst) for analyst in ANALYSTS]
                spent = [now - then for now, then in zip(_used(accounts), before, strict=True)]
                yield Charged(tool, f"`{_short(sql)}`", answer, *spent)


def table(rows: Sequence[Charged]) -> str:
    """The rows in Markdown, with a total for each tool."""
    lines = ["| " + " | ".join(HEADS) + " |", "|" + "---|" * len(HEADS)]
    for tool in TOOLS:
        own = [row for row in rows if row.tool == tool]
        totals = (sum((getattr(r, unit) for r in own), Fraction(0)) for unit in UNITS)
        lines += ["| " + " | ".join(row.cells()) + " |" for row in own]
        lines.append(f"| **{tool}** | | | {' | '.join(f'**{float(total):g}**' for total in totals)} |")
    return "\n".join(lines)


def _on_data(corpus: Path, tool: str) -> list[str]:
    operations = (json.loads(line) for line in (corpus / "corpus.jsonl").read_text().splitlines())
    return [one["sql"] for one in operations if one["client"] == tool and one["kind"] == "data"]


def _asked(world: World, sql: str, analyst: str) -> str:
    options = f"-c dpproxy.reuse={ANALYSTS[analyst]}"
    with world.connect(user=analyst, options=options) as connection:
        try:
            rows = len(connection.execute(sql.encode(), prepare=False).fetchall())
        except psycopg.Error as error:
            return str(error.sqlstate)
        replayed = connection.execute("SELECT replayed FROM dpproxy.last_release").fetchall() == [(True,)]
    if sql.startswith("EXPLAIN"):
        return "its plan"
    return f"{rows} row{'' if rows == 1 else 's'}{', paid before' if replayed else ''}"


def _used(accounts: Sequence[psycopg.Connection[Any]]) -> tuple[Fraction, Fraction, Fraction]:
    """Information and calls with reuse, information without."""
    found = []
    for connection in accounts:
        used: dict[str, str] = dict(connection.execute("SELECT unit, used FROM dpproxy.budget").fetchall())
        found += [Fraction(used["information"]), Fraction(used["calls"])]
    return found[0], found[1], found[2]


def _short(statement: str) -> str:
    """On one line, without the quotes and schemas that the tools write."""
    return (
        " ".join(statement.split())
        .replace('"app"."users".', "")
        .replace('"app"."events".', "")
        .replace('"', "")
    )
