"""How a cube's price is best split over its marginals: all of it on the finest groups, on all marginals under one
length, or on each by itself.

A unit's vector has its total in each cell of each marginal B, times a weight w_B. It is clipped as a whole, so the
noise of a cell of B is that of the vector over w_B. All estimates of a cell are combined by least squares. The
marginals' Gram matrices commute: a variance is a sum over the sets of keys A within B of dim(A) over the precision of
A's residuals, which is the sum of w_B^2 N/N_B over the marginals B with all keys of A (ResidualPlanner's, for weights
of marginals).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import duckdb
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_matrix

from benchmarks.accuracy.page import percent

Values = NDArray[np.float64]
STDDEV = 14.46
"""Of the noise of a total, in lengths, for one unit of price less what the choice of a length costs."""
QUANTILES = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99)
"""The lengths that are tried, of the units' own."""
QUARTER, MONTH = (f"date_trunc('{grain}', transaction_timestamp)" for grain in ("quarter", "month"))
CUBES = {
    "quarter, brand": (QUARTER, "brand"),
    "quarter, brand, age": (QUARTER, "brand", "age"),
    "quarter, department": (QUARTER, "department"),
    "quarter, age, income": (QUARTER, "age", "income"),
    "month, department, income": (MONTH, "department", "income"),
    "week, department, age": ("week", "department", "age"),
}
PREFACE = """What a cube's price is best spent on, computed for sales over the sample data at one unit with the best
lengths, which nobody knows: [benchmarks/accuracy/splits.py](../benchmarks/accuracy/splits.py). *Finest*: on the finest
groups, which the others are added up from. *One vector*: on all marginals in one vector, clipped as a whole, with the
best weights, and with those that are best if each unit has one row. *Apart*: on each marginal by itself, in equal
parts; nothing adds up then. The error is the geometric mean over the marginals of the median relative error of their
cells."""


@dataclass(frozen=True)
class Split:
    """The errors of a cube with so many cells."""

    cube: str
    cells: int
    finest: float
    best: float
    one_row: float
    apart: float


class Cube:
    """The totals of units in the cells of each marginal; `codes`: of the rows, by key, from 0."""

    def __init__(self, units: NDArray[np.int64], codes: Sequence[NDArray[np.int64]], totals: Values) -> None:
        sizes = [int(code.max()) + 1 for code in codes]
        self.marginals = [
            of for count in range(len(sizes) + 1) for of in combinations(range(len(sizes)), count)
        ]
        self.sizes = np.array([math.prod(sizes[n] for n in of) for of in self.marginals])
        self._dims = np.array([math.prod(sizes[n] - 1 for n in of) for of in self.marginals])
        self._within = np.array([[set(a) <= set(b) for b in self.marginals] for a in self.marginals])
        cells = [
            np.ravel_multi_index([codes[n] for n in of], [sizes[n] for n in of])
            if of
            else np.zeros(len(units), int)
            for of in self.marginals
        ]
        shapes = [(int(units.max()) + 1, int(size)) for size in self.sizes]
        self._totals = [
            csr_matrix((totals, (units, cell)), shape) for cell, shape in zip(cells, shapes, strict=True)
        ]
        self._squares = np.stack([np.asarray(one.multiply(one).sum(1)).ravel() for one in self._totals], 1)

    def variances(self, weights: Values) -> Values:
        """Of a cell of each marginal, in the vector's, by the squared weights of the marginals."""
        share = self.sizes[-1] / self.sizes
        precision = self._within @ (weights * share)
        return np.asarray(share / self.sizes * ((self._dims / precision) @ self._within))

    def errors(self, weights: Values) -> Values:
        """Of each marginal, with the length that suits all of them best."""
        lengths = np.sqrt(self._squares @ weights)
        tried = [self._at(weights, lengths, c) for c in np.quantile(lengths[lengths > 0], QUANTILES)]
        return min(tried, key=mean)

    def _at(self, weights: Values, lengths: Values, length: float) -> Values:
        factors = np.minimum(1, length / np.maximum(lengths, 1e-9))
        return np.array(
            [
                _error(totals, factors, variance * (length * STDDEV) ** 2)
                for totals, variance in zip(self._totals, self.variances(weights), strict=True)
            ]
        )

    def apart(self, place: int) -> float:
        """The error of a marginal that is bought by itself, for its part of the price."""
        lengths = np.sqrt(self._squares[:, place])
        return min(
            _error(
                self._totals[place],
                np.minimum(1, c / np.maximum(lengths, 1e-9)),
                len(self.marginals) * (c * STDDEV) ** 2,
            )
            for c in np.quantile(lengths[lengths > 0], QUANTILES)
        )


def splits(sample: Path) -> list[Split]:
    """Every cube over the sample data, whose files are in a folder."""
    return [_split(name, _cube(sample, keys)) for name, keys in CUBES.items()]


def written_for_splits(found: Sequence[Split]) -> str:
    """The part of the page."""
    rows = [
        f"| {one.cube} | {one.cells:,} | "
        + " | ".join(map(percent, (one.finest, one.best, one.one_row, one.apart)))
        + " |"
        for one in found
    ]
    heads = ("cube", "cells", "finest", "one vector, best weights", "one vector, units of one row", "apart")
    return "\n".join(
        ["## Cubes", "", PREFACE, "", "| " + " | ".join(heads) + " |", "|" + "---|" * len(heads), *rows]
    )


def mean(errors: Values) -> float:
    """The geometric mean."""
    return float(np.exp(np.log(errors).mean()))


def _split(name: str, cube: Cube) -> Split:
    finest = np.zeros(len(cube.marginals))
    finest[-1] = 1

    def found(worth: Callable[[Values], float], *starts: Values) -> Values:
        """The squared weights, of sum 1, that are worth least, from starts in logarithms."""
        runs = [
            minimize(lambda x: worth(_shares(x)), start, method="Nelder-Mead", options={"maxiter": 400})
            for start in starts
        ]
        return _shares(min(runs, key=lambda run: float(run.fun)).x)

    even = np.zeros(len(finest))
    best = found(lambda w: mean(cube.errors(w)), np.log(np.maximum(finest, 1e-3)), even)
    one_row = found(lambda w: mean(cube.variances(w) * cube.sizes**2), even)
    apart = mean(np.array([cube.apart(place) for place in range(len(finest))]))
    of_all, of_best, of_one_row = (mean(cube.errors(weights)) for weights in (finest, best, one_row))
    return Split(name, int(cube.sizes[-1]), of_all, of_best, of_one_row, apart)


def _shares(logarithms: Values) -> Values:
    raised = np.exp(logarithms - logarithms.max())
    return np.asarray(raised / raised.sum())


def _error(totals: csr_matrix, factors: Values, variance: float) -> float:
    """The median relative error of the cells that are not 0: what clips leave out, and noise."""
    true, clipped = totals.T @ np.ones(len(factors)), totals.T @ factors
    there = true != 0
    return float(np.median(np.sqrt((clipped - true)[there] ** 2 + variance) / abs(true[there])))


def _cube(sample: Path, keys: Sequence[str]) -> Cube:
    coded = ", ".join(
        f"dense_rank() OVER (ORDER BY coalesce(CAST({key} AS VARCHAR), '')) - 1" for key in keys
    )
    tables = " ".join(
        f"{how} '{sample / name}.parquet' {using}"
        for how, name, using in (
            ("FROM", "transactions", ""),
            ("JOIN", "products", "USING (product_id)"),
            ("JOIN", "households", "USING (household_id)"),
        )
    )
    with duckdb.connect() as connection:
        rows = connection.execute(
            f"SELECT dense_rank() OVER (ORDER BY household_id) - 1, {coded}, sales_value {tables}"
        ).fetchnumpy()
    units, *codes, totals = rows.values()
    return Cube(units, codes, totals.astype(float))
