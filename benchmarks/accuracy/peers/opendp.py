"""OpenDP's context over Polars in zCDP; it chooses no bounds by itself."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import opendp.prelude as dp
import polars as pl

from benchmarks.accuracy.peers.tasks import BOUNDS, CAREFUL, COLUMNS, Released, printed

MOST_ROWS = 1_000_000
"""Of the whole data set: public knowledge that sums need."""


def release(file: Path, answers: int, keys: int, rho: float) -> Released:
    """Careful bounds alone."""
    dp.enable_features("contrib", "honest-but-curious")
    frame = pl.read_csv(file).lazy()

    def careful(task: str, _: int) -> float:
        context = dp.Context.compositor(
            data=frame,
            privacy_unit=dp.unit_of(contributions=1, identifier="household_id"),
            privacy_loss=dp.loss_of(rho=rho),
            split_evenly_over=1,
            margins=[dp.polars.Margin(max_length=MOST_ROWS)],
        )
        column = pl.col(COLUMNS[task]).cast(pl.Int64).fill_null(0).dp.sum((0, BOUNDS[task]))
        query = context.query().truncate_per_group(1).select(column)
        return float(query.release().collect().item())

    done = Released(f"OpenDP {version('opendp')}", "zCDP")
    done.ask(CAREFUL, careful, answers, keys)
    return done


if __name__ == "__main__":
    printed(release)
