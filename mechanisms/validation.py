"""What every mechanism checks before any randomness is drawn; no message holds a value of the data."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from mechanisms.histogram import Counts, Histogram
from mechanisms.noise import LARGEST

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

LARGEST_COUNT = 1 << 53
LARGEST_BOUND = 1 << 31
LARGEST_EPSILON = Fraction(16)
SMALLEST_EPSILON = Fraction(1, 10**6)
SMALLEST_DELTA = Fraction(1, 1 << 100)


def check_epsilon(eps_per: Fraction) -> None:
    """Raise ValueError unless eps_per is an exact number from 1e-6 to 16."""
    if not isinstance(eps_per, Fraction) or not SMALLEST_EPSILON <= eps_per <= LARGEST_EPSILON:
        raise ValueError("eps_per must be a Fraction from 1e-6 to 16")


def check_delta(delta_per: Fraction) -> None:
    """Raise ValueError unless delta_per is an exact number from 2^-100 to 1/2."""
    if not isinstance(delta_per, Fraction) or not SMALLEST_DELTA <= delta_per <= Fraction(1, 2):
        raise ValueError("delta_per must be a Fraction from 2^-100 to 1/2")


def check_bounds(**bounds: int) -> None:
    """Raise ValueError unless every bound is an integer from 1 to 2^31.

    >>> check_bounds(tau=1, delta0=0)
    Traceback (most recent call last):
    ValueError: delta0 must be an integer from 1 to 2^31
    """
    for name, bound in bounds.items():
        if not isinstance(bound, int) or isinstance(bound, bool) or not 1 <= bound <= LARGEST_BOUND:
            raise ValueError(f"{name} must be an integer from 1 to 2^31")


def check_noise(variance: Fraction) -> None:
    """Raise ValueError unless noise of this scale^2, in counts squared, can be drawn (scale up to 2^40)."""
    if variance >= LARGEST**2:
        raise ValueError("tau, delta0 and eps_per together must give noise of a scale below 2^40")


def known_counts(histogram: Histogram, cells: int) -> Counts:
    """Give the counts of all cells of a known domain, in cell order; ValueError where one is missing."""
    _check_counts(histogram.counts)
    if not histogram.complete or len(histogram.counts) != cells:
        raise ValueError("a known domain needs the count of every cell")
    return histogram.counts


def fetched_counts(histogram: Histogram, fetch: int) -> Counts:
    """Give the top `fetch` counts, descending, with 0 in the places past a complete histogram's end.

    ValueError unless they are in descending order, at most `fetch`, and fewer only if complete.
    """
    counts = histogram.counts
    _check_counts(counts)
    if len(counts) > fetch:
        raise ValueError("more rows than were asked for")
    if len(counts) < fetch and not histogram.complete:
        raise ValueError("fewer rows than were asked for, of a histogram not known to be complete")
    if np.any(counts[1:] > counts[:-1]):
        raise ValueError("the rows are not in descending order")
    padded = np.zeros(fetch, dtype=np.int64)
    padded[: len(counts)] = counts
    return padded


def _check_counts(counts: Counts) -> None:
    if counts.dtype != np.int64 or counts.ndim != 1:
        raise ValueError("counts must be int64, one a row")
    if len(counts) and (counts.min() < 0 or counts.max() > LARGEST_COUNT):
        raise ValueError("counts must lie between 0 and 2^53")


def exact_texts(mechanism: DataclassInstance, **derived: Fraction | int) -> tuple[tuple[str, str], ...]:
    """Give a mechanism's name, its fields and the parameters derived from them, as (name, exact text)."""
    fields = {field.name: getattr(mechanism, field.name) for field in dataclasses.fields(mechanism)}
    named = {"mechanism": type(mechanism).__name__, **fields, **derived}
    return tuple((name, str(value)) for name, value in named.items())
