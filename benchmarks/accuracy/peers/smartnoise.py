"""SmartNoise SQL over a pandas frame; its own bounds come from approx_bounds."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pandas as pd
import snsql
from snsql.sql._mechanisms.approx_bounds import approx_bounds
from snsql.sql.odometer import OdometerHeterogeneous

from benchmarks.accuracy.peers.tasks import (
    BOUNDS,
    CAREFUL,
    CHOICE,
    COLUMNS,
    DELTA,
    EPSILON,
    OWN,
    Released,
    printed,
)


def each(answers: int) -> float:
    """The largest epsilon of an answer with which the library's odometer says at most EPSILON for all."""
    low, high = 0.0, EPSILON
    for _ in range(40):
        middle = (low + high) / 2
        odometer = OdometerHeterogeneous(snsql.Privacy(epsilon=middle, delta=DELTA / (2 * answers)))
        for _ in range(answers):
            odometer.spend()
        low, high = (middle, high) if odometer.spent[0] <= EPSILON else (low, middle)
    return low


def summed(
    frame: pd.DataFrame, column: str, lower: float, upper: float, epsilon: float, answers: int
) -> float:
    """One sum by SQL."""
    bounded = {"type": "float", "lower": lower, "upper": upper}
    columns = {"household_id": {"type": "int", "private_id": True}, column: bounded}
    metadata = {
        "": {"t": {"households": {"row_privacy": False, "max_ids": 1, "rows": len(frame), **columns}}}
    }
    privacy = snsql.Privacy(epsilon=epsilon, delta=DELTA / (2 * answers))
    reader = snsql.from_df(frame, privacy=privacy, metadata=metadata)
    return float(reader.execute(f"SELECT SUM({column}) AS n FROM t.households")[1][0])


def release(file: Path, answers: int, keys: int, _: float) -> Released:
    """Both kinds of bounds on the rows of a CSV file."""
    frame = pd.read_csv(file)
    epsilon = each(answers)

    def careful(task: str, _: int) -> float:
        return summed(frame, COLUMNS[task], 0, BOUNDS[task], epsilon, answers)

    def own(task: str, _: int) -> float:
        column = COLUMNS[task]
        found = approx_bounds(frame[column].astype(float), CHOICE * epsilon)
        if found is None or None in found:
            return 0.0
        return summed(frame, column, found[0], found[1], (1 - CHOICE) * epsilon, answers)

    done = Released(f"SmartNoise SQL {version('smartnoise-sql')}", "its odometer")
    done.ask(CAREFUL, careful, answers, keys)
    done.ask(OWN, own, answers, keys)
    return done


if __name__ == "__main__":
    printed(release)
