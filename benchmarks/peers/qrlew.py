"""Qrlew: SQL rewritten into SQL that draws the noise, run on PostgreSQL."""

from __future__ import annotations

import math
import sys
from functools import partial
from importlib.metadata import version

import psycopg2
import sqlalchemy as sa
from pyqrlew import Dataset, Dialect

from benchmarks.peers.tasks import (
    COUNTRIES,
    DELTA,
    EPSILON,
    MOST_SECONDS,
    ROWS_OF_A_PERSON,
    TASKS,
    GroupValues,
    Outcome,
    PeerQuery,
    cannot,
)

PERSON: list[tuple[str, list[str], str]] = [("visits", [], "person_id")]
PAIRS = "SELECT {0}, COUNT(person_id) AS n FROM (SELECT DISTINCT {0}, person_id FROM visits) AS pairs GROUP BY {0}"
"""It takes COUNT(DISTINCT person_id) for a count of rows."""
MOST_ROWS = 1_000_000
"""Of the table, by which counts are capped; it would read and use the exact number."""


def declared(engine: sa.Engine) -> Dataset:
    """The table with the ranges that are public."""
    found = Dataset.from_database("visits", engine, schema_name="public")
    rows = sa.text("SELECT count(*) FROM visits")
    with engine.connect() as connection:
        exact = connection.execute(rows).scalar_one()
    sizes = found.size.replace(f'"{exact}"', f'"{MOST_ROWS}"')
    whole = Dataset.from_str(str(found).split("\n")[0].removeprefix("Dataset: "), found.schema, sizes)
    listed = whole.with_possible_values("public", "visits", "country", list(COUNTRIES))
    return listed.with_range("public", "visits", "seconds", 0, MOST_SECONDS)


def answered(engine: sa.Engine, dataset: Dataset, sql: str, norm: float, groups: int) -> GroupValues:
    """One query with a budget of its own; `norm`: of a person's rows by group, to which larger ones are scaled."""
    private = dataset.relation(sql, Dialect.PostgreSql).rewrite_with_differential_privacy(
        dataset,
        PERSON,
        {"epsilon": EPSILON, "delta": DELTA},
        max_multiplicity=norm,
        max_privacy_unit_groups=groups,
    )
    with engine.connect() as connection:
        rows = connection.execute(sa.text(private.relation().to_query(Dialect.PostgreSql))).fetchall()
    return {str(row[0]) if len(row) > 1 else "": float(row[-1]) for row in rows}


def main(url: str) -> Outcome:
    """Every task on the rows of a PostgreSQL database."""
    engine = sa.create_engine("postgresql+psycopg2://", creator=partial(psycopg2.connect, url))
    dataset = declared(engine)
    outcome = Outcome(
        f"Qrlew {version('pyqrlew')} (PostgreSQL)",
        f"the L2 norm of a person's rows by group: 1 by country, sqrt({ROWS_OF_A_PERSON}) by article,"
        f" else {ROWS_OF_A_PERSON}; a person has {ROWS_OF_A_PERSON} articles",
        "COUNT(DISTINCT x): it counts rows, so people are counted in a subquery; noise from a cryptographic generator:"
        " its SQL applies Box and Muller's formula to PostgreSQL's random(); a secret number of rows: it reads the"
        " exact number and caps counts by it, so we set the cap to a million",
    )
    many = ROWS_OF_A_PERSON
    by_country, by_article = PAIRS.format("country"), PAIRS.format("article")
    answers: tuple[PeerQuery, ...] = (
        partial(answered, engine, dataset, by_country, 1, 1),
        partial(answered, engine, dataset, f"{by_article} ORDER BY n DESC LIMIT 10", math.sqrt(many), many),
        partial(answered, engine, dataset, "SELECT COUNT(*) AS n FROM visits", many, 1),
        partial(
            answered,
            engine,
            dataset,
            "SELECT country, SUM(seconds) AS n FROM visits GROUP BY country",
            many,
            1,
        ),
        cannot("COUNT(DISTINCT article) counts rows, or pairs of person and article over a subquery"),
    )
    for task, answer in zip(TASKS, answers, strict=True):
        outcome.ask(task, answer)
    return outcome


if __name__ == "__main__":
    print(main(sys.argv[1]).dump())
