"""SmartNoise SQL over a pandas frame: SQL in, noisy rows out."""

from __future__ import annotations

import sys
from functools import partial
from importlib.metadata import version
from pathlib import Path

import pandas as pd
import snsql

from benchmarks.peers.tasks import DELTA, EPSILON, MOST_SECONDS, ROWS_OF_A_PERSON, TASKS, Groups, Outcome

COLUMNS = {
    "person_id": {"type": "int", "private_id": True},
    "country": {"type": "string"},
    "article": {"type": "int"},
    "seconds": {"type": "int", "lower": 0, "upper": MOST_SECONDS},
}
QUERIES = (
    "SELECT country, COUNT(DISTINCT person_id) AS n FROM t.visits GROUP BY country",
    "SELECT article, COUNT(DISTINCT person_id) AS n FROM t.visits GROUP BY article ORDER BY n DESC LIMIT 10",
    "SELECT COUNT(*) AS n FROM t.visits",
    "SELECT country, SUM(seconds) AS n FROM t.visits GROUP BY country",
    "SELECT COUNT(DISTINCT article) AS n FROM t.visits",
)


def answered(frame: pd.DataFrame, sql: str) -> Groups:
    """One query with a budget of its own; countries are public, so groups by them are not censored."""
    settings = {"max_ids": ROWS_OF_A_PERSON, "rows": len(frame), "censor_dims": "GROUP BY country" not in sql}
    metadata = {"": {"t": {"visits": {**settings, **COLUMNS}}}}
    privacy = snsql.Privacy(epsilon=EPSILON, delta=DELTA)
    rows = snsql.from_df(frame, privacy=privacy, metadata=metadata).execute(sql)[1:]
    return {str(row[0]) if len(row) > 1 else "": float(row[-1]) for row in rows}


def main(file: Path) -> Outcome:
    """Every task on the rows of a CSV file."""
    frame = pd.read_csv(file)
    outcome = Outcome(
        f"SmartNoise SQL {version('smartnoise-sql')}",
        "a person's rows come or go",
        f"{ROWS_OF_A_PERSON} rows of a person",
    )
    for task, sql in zip(TASKS, QUERIES, strict=True):
        outcome.ask(task, partial(answered, frame, sql))
    return outcome


if __name__ == "__main__":
    print(main(Path(sys.argv[1])).dump())
