"""The variances that a cube's split is judged by, beside least squares over its whole matrix."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from benchmarks.accuracy.splits import Cube, Split, mean, written_for_splits


def test_variances_are_those_of_least_squares() -> None:
    sizes = (2, 3)
    cells = np.array([*product(*map(range, sizes))])
    cube = Cube(np.arange(len(cells)), list(cells.T), np.ones(len(cells)))
    weights = np.array([0.3, 0.1, 0.2, 0.4])
    marginals = [
        np.array(
            [
                [np.all(cell[list(of)] == at) for cell in cells]
                for at in product(*(range(sizes[n]) for n in of))
            ]
        )
        for of in cube.marginals
    ]
    asked = np.concatenate([np.sqrt(w) * one for w, one in zip(weights, marginals, strict=True)])
    covariance = np.linalg.inv(asked.T @ asked)
    for one, variance in zip(marginals, cube.variances(weights), strict=True):
        assert np.diag(one @ covariance @ one.T) == pytest.approx(variance)


def test_errors_are_what_clips_leave_out_and_noise() -> None:
    units = 2000
    cube = Cube(np.arange(units), [np.arange(units) % 2], np.ones(units))
    total, parts = cube.errors(np.array([0.0, 1.0]))
    assert (total, parts) == pytest.approx((14.46 * 2**0.5 / units, 14.46 / (units / 2))), (
        "nothing is clipped"
    )
    assert cube.apart(0) == pytest.approx(14.46 * 2**0.5 / units)
    assert mean(np.array([0.1, 0.4])) == pytest.approx(0.2)
    assert "| a, b | 1,234 | 10% | 20% | 30% | 40% |" in written_for_splits(
        [Split("a, b", 1234, 0.1, 0.2, 0.3, 0.4)]
    )
