"""OpenDP's context over Polars: a lazy frame with a margin."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import opendp.prelude as dp
import polars as pl

from benchmarks.peers.tasks import (
    COUNTRIES,
    DELTA,
    EPSILON,
    MOST_SECONDS,
    ROWS_OF_A_PERSON,
    TASKS,
    Answer,
    Groups,
    Outcome,
    cannot,
    top,
)

MOST_ROWS = 100_000
"""Of the whole data set: public knowledge that sums of integers need."""


def answered(file: Path, query: Callable[[Any], Any]) -> Groups:
    """One query with a budget of its own."""
    context = dp.Context.compositor(
        data=pl.scan_csv(file),
        privacy_unit=dp.unit_of(contributions=1, identifier="person_id"),
        privacy_loss=dp.loss_of(epsilon=EPSILON, delta=DELTA),
        split_evenly_over=1,
        margins=[dp.polars.Margin(by=["country"], max_length=MOST_ROWS)],
    )
    rows = query(context.query()).release().collect().rows()
    return {str(row[0]) if len(row) > 1 else "": float(row[-1]) for row in rows}


def main(file: Path) -> Outcome:
    """Every task on the rows of a CSV file."""
    dp.enable_features("contrib", "honest-but-curious")
    outcome = Outcome(
        f"OpenDP {version('opendp')} (Polars)",
        "a person's rows come or go",
        f"1 row of a person and country for people, else {ROWS_OF_A_PERSON} rows of a person",
    )
    countries = pl.LazyFrame({"country": COUNTRIES})
    total = dp.len(), pl.col("seconds").cast(pl.Int64).fill_null(0).dp.sum((0, MOST_SECONDS))

    def by_country(query: Any, rows: int, what: Any) -> Any:
        return query.truncate_per_group(rows).group_by("country").agg(what).with_keys(countries)

    by_article = partial(
        answered,
        file,
        lambda q: q.truncate_per_group(ROWS_OF_A_PERSON).group_by("article").agg(dp.len()),
    )
    answers: tuple[Answer, ...] = (
        partial(answered, file, lambda q: by_country(q, 1, total[0])),
        lambda: top(by_article()),
        partial(answered, file, lambda q: q.truncate_per_group(ROWS_OF_A_PERSON).select(dp.len())),
        partial(answered, file, lambda q: by_country(q, ROWS_OF_A_PERSON, total[1])),
        cannot("its n_unique counts the values of one column whole, not with a person's bounded ones"),
    )
    for task, answer in zip(TASKS, answers, strict=True):
        outcome.ask(task, answer)
    return outcome


if __name__ == "__main__":
    print(main(Path(sys.argv[1])).dump())
