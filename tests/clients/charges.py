"""What the statements of BI tools cost: those they were seen to send, and those they send to learn about columns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import psycopg

from tests.clients.corpus import replay
from tests.clients.world import World

TOOLS = ("metabase", "superset", "grafana", "dbeaver")
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
HEADS = ("tool", "statement", "answer", "information", "calls")


@dataclass(frozen=True)
class Charged:
    """A statement of a tool, how it ended and what it cost; units."""

    tool: str
    statement: str
    answer: str
    information: Fraction
    calls: Fraction

    def cells(self) -> tuple[str, ...]:
        """As a row of the table."""
        amounts = (f"{float(amount):g}" for amount in (self.information, self.calls))
        return (self.tool, self.statement, self.answer, *amounts)


def charges(world: World, corpus: Path, folder: Path, expected: Path) -> Iterator[Charged]:
    """Each statement on data by itself; those on catalogs, settings and constants together, by their number.

    All tools ask as one analyst, so that what one has paid for the next has for nothing.
    """
    for tool in TOOLS:
        before = _used(world)
        found = replay(
            world, corpus, folder, "--expected", str(expected), "--level", "types", "--clients", tool
        )
        spent = _spent(before, _used(world))
        assert not found.unexplained()
        kinds = f"{found.total} on catalogs, settings and constants"
        yield Charged(tool, kinds, f"{found.passed} as PostgreSQL's", *spent)
        for sql in (*_on_data(corpus, tool), *BY_THEMSELVES[tool]):
            before = _used(world)
            answer = _asked(world, sql)
            yield Charged(tool, f"`{_short(sql)}`", answer, *_spent(before, _used(world)))


def table(rows: Sequence[Charged]) -> str:
    """The rows in Markdown, with a total for each tool."""
    lines = ["| " + " | ".join(HEADS) + " |", "|" + "---|" * len(HEADS)]
    for tool in TOOLS:
        own = [row for row in rows if row.tool == tool]
        information, calls = (sum((getattr(r, unit) for r in own), Fraction(0)) for unit in HEADS[3:])
        lines += ["| " + " | ".join(row.cells()) + " |" for row in own]
        lines.append(f"| **{tool}** | | | **{float(information):g}** | **{float(calls):g}** |")
    return "\n".join(lines)


def _on_data(corpus: Path, tool: str) -> list[str]:
    operations = (json.loads(line) for line in (corpus / "corpus.jsonl").read_text().splitlines())
    return [one["sql"] for one in operations if one["client"] == tool and one["kind"] == "data"]


def _asked(world: World, sql: str) -> str:
    with world.connect(user="analyst") as connection:
        try:
            rows = len(connection.execute(sql.encode(), prepare=False).fetchall())
        except psycopg.Error as error:
            return str(error.sqlstate)
        replayed = connection.execute("SELECT replayed FROM dpproxy.last_release").fetchall() == [(True,)]
    if sql.startswith("EXPLAIN"):
        return "its plan"
    return f"{rows} row{'' if rows == 1 else 's'}{', paid before' if replayed else ''}"


def _used(world: World) -> tuple[Fraction, Fraction]:
    with world.connect(user="analyst") as connection:
        found = dict(connection.execute("SELECT unit, used FROM dpproxy.budget").fetchall())
    return Fraction(found["information"]), Fraction(found["calls"])


def _spent(before: tuple[Fraction, Fraction], after: tuple[Fraction, Fraction]) -> tuple[Fraction, Fraction]:
    return after[0] - before[0], after[1] - before[1]


def _short(statement: str) -> str:
    """On one line, without the quotes and schemas that the tools write."""
    return (
        " ".join(statement.split())
        .replace('"app"."users".', "")
        .replace('"app"."events".', "")
        .replace('"', "")
    )
