"""SmartNoise SQL over a pandas frame: SQL in, noisy rows out."""

from __future__ import annotations

import sys
from functools import partial
from importlib.metadata import version
from pathlib import Path

import pandas as pd
import snsql

from benchmarks.peers.tasks import DELTA, EPSILON, MOST_SECONDS, ROWS_OF_A_PERSON, TASKS, GroupValues, Outcome

COLUMNS = {
    "person_id": {"type": "int", "private_id": True},
    "country": {"type": "string"},
    "article": {"type": "int"},
    "seconds": {"type": "int", "lower": 0, "upper": MOST_SECONDS},
}
QUERIES = (
    ("SELECT country, COUNT(DISTINCT person_id) AS n FROM t.visits GROUP BY country", 1),
    (
        "SELECT article, COUNT(DISTINCT person_id) AS n FROM t.visits GROUP BY article ORDER BY n DESC LIMIT 10",
        ROWS_OF_A_PERSON,
    ),
    ("SELECT COUNT(*) AS n FROM t.visits", ROWS_OF_A_PERSON),
    ("SELECT country, SUM(seconds) AS n FROM t.visits GROUP BY country", ROWS_OF_A_PERSON),
    ("SELECT COUNT(DISTINCT article) AS n FROM t.visits", ROWS_OF_A_PERSON),
)
"""Each with the rows of a person that the table is declared to have."""


def answered(frame: pd.DataFrame, sql: str, rows_of_a_person: int) -> GroupValues:
    """One query with a budget of its own; groups are censored, by a count of people, where they are secret."""
    settings = {"max_ids": rows_of_a_person, "rows": len(frame), "censor_dims": "GROUP BY article" in sql}
    metadata = {"": {"t": {"visits": {**settings, **COLUMNS}}}}
    reader = snsql.from_df(frame, privacy=snsql.Privacy(epsilon=EPSILON, delta=DELTA), metadata=metadata)
    rows = reader.execute(sql)[1:]
    return {str(row[0]) if len(row) > 1 else "": float(row[-1]) for row in rows}


def main(file: Path) -> Outcome:
    """Every task on the rows of a CSV file."""
    frame = pd.read_csv(file)
    outcome = Outcome(
        f"SmartNoise SQL {version('smartnoise-sql')} (pandas)",
        f"a person has 1 row for people by country, else {ROWS_OF_A_PERSON}, sampled from all their rows",
        "separate bounds for a person's groups, rows in a group and rows in all: we declare the table once for each"
        " question; a public list of countries: it releases the countries in the data as they are",
    )
    for task, (sql, rows_of_a_person) in zip(TASKS, QUERIES, strict=True):
        outcome.ask(task, partial(answered, frame, sql, rows_of_a_person))
    return outcome


if __name__ == "__main__":
    print(main(Path(sys.argv[1])).dump())
