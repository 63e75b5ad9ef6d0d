"""Bad input: refused before randomness is drawn, with no value of the data in the message."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from mechanisms.choose import MechanismSettings, choose
from mechanisms.continual import UnknownDomainBinary
from mechanisms.correlated_counts import CorrelatedCounts
from mechanisms.count_release import KnownCountRelease, PrivateCountRelease
from mechanisms.histogram import Histogram, Mechanism
from mechanisms.known_domain import KnownGauss, KnownGumb, KnownLap
from mechanisms.numeric import ClampedSum
from mechanisms.quantile import QuantileChoice, QuantileTree
from mechanisms.square_root import UnknownDomainSquareRoot
from mechanisms.top_counts import TopCounts
from mechanisms.unknown_domain import UnkGauss, UnkGumb, UnkLap
from tests.mechanisms.goodness import stream
from tests.mechanisms.scripted import Untouched

EPS, DELTA = Fraction(3, 20), Fraction(1, 10**10)
KNOWN: list[Mechanism] = [
    KnownLap(EPS, 1, 1, 3),
    KnownGauss(EPS, 1, 1, 3, "cheap"),
    KnownGumb(EPS, 1, 2, 3, True),
    CorrelatedCounts(EPS, 3, Fraction(1)),
    TopCounts(KnownGumb(EPS, 1, 2, 3, False)),
    KnownCountRelease(eps_per=EPS, information=Fraction(20), cells=3, eps_star=EPS),
]
UNKNOWN: list[Mechanism] = [
    UnkLap(EPS, DELTA, 1, 1, 2),
    UnkGauss(EPS, DELTA, 1, 1, 2),
    UnkGumb(EPS, DELTA, 1, 1, 2, True),
    UnkGumb(EPS, DELTA, 1, 1, 2, True, index_step=False),
    TopCounts(UnkGumb(EPS, DELTA, 1, 1, 2, False)),
    PrivateCountRelease(
        eps_per=EPS, information=Fraction(20), delta_per=DELTA, calls=Fraction(5), k_bar=2, eps_star=EPS
    ),
]
BAD_COUNTS = [
    np.array([777, 777, -1]),
    np.array([2**53 + 777, 777, 777]),
    np.array([777.0, 777.0, 777.0]),
    np.array([777, 777, 777], dtype=np.int32),
    np.array([[777], [777], [777]]),
    np.array([777, 777, 777, 777]),
]


def refused(mechanism: Mechanism, counts: Any, complete: bool) -> None:
    with pytest.raises(ValueError, match=r"counts|rows|cell") as error:
        mechanism.release(Histogram(counts, complete), Untouched())
    assert "777" not in str(error.value)
    assert re.search(r"\[|array", str(error.value)) is None


@pytest.mark.parametrize("mechanism", KNOWN + UNKNOWN, ids=lambda mechanism: mechanism.name)
@pytest.mark.parametrize("counts", BAD_COUNTS, ids=range(len(BAD_COUNTS)))
def test_bad_counts(mechanism: Mechanism, counts: Any) -> None:
    refused(mechanism, counts, complete=True)


@pytest.mark.parametrize("mechanism", KNOWN, ids=lambda mechanism: mechanism.name)
def test_a_known_domain_is_whole(mechanism: Mechanism) -> None:
    refused(mechanism, np.array([777, 777]), complete=True)
    refused(mechanism, np.array([777, 777, 777]), complete=False)


@pytest.mark.parametrize("mechanism", UNKNOWN, ids=lambda mechanism: mechanism.name)
def test_an_unknown_domain_is_as_fetched(mechanism: Mechanism) -> None:
    refused(mechanism, np.array([777, 777]), complete=False)
    refused(mechanism, np.array([777, 778, 777]), complete=False)


@pytest.mark.parametrize("mechanism", KNOWN + UNKNOWN, ids=lambda mechanism: mechanism.name)
def test_the_largest_counts(mechanism: Mechanism) -> None:
    release = mechanism.release(Histogram(np.array([2**53, 5, 0]), complete=True), stream(mechanism.name))
    assert release.values is not None
    assert abs(int(release.values[0]) - 2**53) < 10**4
    assert release.indices[0] == 0


@pytest.mark.parametrize("mechanism", KNOWN + UNKNOWN, ids=lambda mechanism: mechanism.name)
def test_replaying_a_stream_gives_the_same_release(mechanism: Mechanism) -> None:
    histogram = Histogram(np.array([2000, 1990, 0]), complete=True)
    first, again = (mechanism.release(histogram, stream("replay")) for _ in range(2))
    assert first.indices.tolist() == again.indices.tolist()
    assert first.values is not None
    assert again.values is not None
    assert first.values.tolist() == again.values.tolist()


@pytest.mark.parametrize("mechanism", KNOWN + UNKNOWN, ids=lambda mechanism: mechanism.name)
def test_a_stream_serves_one_release(mechanism: Mechanism) -> None:
    histogram, once = Histogram(np.array([2, 1, 0]), complete=True), stream("once")
    mechanism.release(histogram, once)
    with pytest.raises(ValueError, match="already taken"):
        mechanism.release(histogram, once)


@pytest.mark.parametrize(
    "make",
    [
        lambda: KnownLap(Fraction(0), 1, 1, 1),
        lambda: KnownLap(0.15, 1, 1, 1),  # type: ignore[arg-type]
        lambda: KnownLap(EPS, 0, 1, 1),
        lambda: KnownLap(EPS, 1, 0, 1),
        lambda: KnownLap(EPS, 1, 1, 0),
        lambda: KnownLap(EPS, 1.0, 1, 1),  # type: ignore[arg-type]
        lambda: KnownGauss(EPS, 1, 1, 1, "dear"),  # type: ignore[arg-type]
        lambda: KnownGauss(EPS, 1, 2**31 + 1, 1, "cheap"),
        lambda: KnownLap(Fraction(1, 10**6), 2**31, 1, 1),
        lambda: KnownGauss(Fraction(1, 10**6), 2**31, 1, 1, "accurate"),
        lambda: UnkGauss(EPS, DELTA, 2**30, 2**30, 1),
        lambda: UnkGumb(Fraction(1, 10**6), DELTA, 2**20, 1, 2, True),
        lambda: KnownGumb(EPS, 1, 4, 3, True),
        lambda: KnownGumb(EPS, 1, 0, 3, True),
        lambda: UnkLap(EPS, Fraction(0), 1, 1, 1),
        lambda: UnkLap(EPS, float("nan"), 1, 1, 1),  # type: ignore[arg-type]
        lambda: UnkLap(EPS, DELTA, 1, 1, 0),
        lambda: UnkGauss(EPS, Fraction(2, 3), 1, 1, 1),
        lambda: UnkGauss(EPS, DELTA, -1, 1, 1),
        lambda: UnkGumb(EPS, DELTA, 1, 5, 5, True),
        lambda: UnkGumb(Fraction(1, 10), Fraction(1, 10), 1, 5, 50, True),
    ],
)
def test_parameters_out_of_range(make: Callable[[], Mechanism]) -> None:
    with pytest.raises(ValueError, match=r"must|delta_per|spend"):
        make()


def test_unk_gumb_never_starts_outside_its_condition() -> None:
    """What the constructor lets through obeys delta_per <= e^eps (1 - e^(-eps/tau)), up to the edge."""
    for eps, tau in ((Fraction(1, 100), 1), (Fraction(1, 100), 50), (Fraction(3), 2)):
        x = eps / tau
        edge = min(x / (1 + x), Fraction(1, 2))
        assert UnkGumb(eps, edge, tau, 1, 2, True).delta_per <= np.exp(float(eps)) * -np.expm1(-float(x))
        with pytest.raises(ValueError, match="delta_per"):
            UnkGumb(eps, edge * Fraction(11, 10), tau, 1, 2, True)


def test_every_parameter_is_in_the_release_key() -> None:
    """Any two choices that differ in one public fact differ in their parameters' texts."""
    names = set()
    chosen = 0
    for noise in ("gaussian", "laplace"):
        for spend in ("accurate", "cheap"):
            for eps, delta, d_bar in ((EPS, DELTA, 50), (2 * EPS, DELTA, 50), (EPS, 2 * DELTA, 60)):
                settings = MechanismSettings(eps, delta, noise, spend, d_bar)
                for domain_size in (None, 40, 41):
                    for delta0, k, tau in (
                        (2, None, 1),
                        (2, None, 2),
                        (3, None, 1),
                        (None, 5, 1),
                        (None, 6, 1),
                    ):
                        mechanism = choose(
                            settings, domain_size=domain_size, delta0=delta0, tau=tau, k=k, counts=True
                        )
                        names.add((mechanism, mechanism.parameters))
                        chosen += 1
    assert chosen == 180
    assert len({texts for _, texts in names}) == len({mechanism for mechanism, _ in names})
    for one, other in pairwise(sorted(names, key=lambda pair: pair[1])):
        assert (one[0] == other[0]) == (one[1] == other[1])


NEW: list[tuple[Any, dict[str, Any]]] = [
    (
        UNKNOWN[-1],
        {
            "eps_per": Fraction(1, 4),
            "information": Fraction(21),
            "tau": 2,
            "relative_error": Fraction(1, 5),
            "eps_star": Fraction(1, 5),
            "delta_star": Fraction(1, 10**12),
            "brownian": True,
            "delta_per": Fraction(1, 10**9),
            "calls": Fraction(6),
            "k_bar": 3,
        },
    ),
    *(
        (
            kind(EPS, DELTA, 1, 2, 9, False),
            {
                "eps_per": 2 * EPS,
                "delta_per": 2 * DELTA,
                "delta0": 2,
                "events": 3,
                "horizon": 8,
                "once": True,
            },
        )
        for kind in (UnknownDomainBinary, UnknownDomainSquareRoot)
    ),
    (
        ClampedSum(eps_per=EPS, lo=0, hi=9, tau=1, keys=2),
        {
            "eps_per": 2 * EPS,
            "lo": 1,
            "hi": 8,
            "tau": 2,
            "keys": 3,
            "delta0": 2,
            "noise": "laplace",
            "spend": "cheap",
            "centred": True,
        },
    ),
    (QuantileTree(EPS, 1, 3, "gaussian"), {"eps_per": 2 * EPS, "tau": 2, "levels": 4, "noise": "laplace"}),
    (
        QuantileChoice(EPS, 1, 9, Fraction(1, 2)),
        {"eps_per": 2 * EPS, "tau": 2, "cells": 8, "quantile": Fraction(1, 3)},
    ),
]


@pytest.mark.parametrize(("mechanism", "changes"), NEW, ids=lambda value: getattr(value, "name", ""))
def test_every_field_is_in_the_release_key(mechanism: Any, changes: dict[str, Any]) -> None:
    """Each field changed alone changes the parameters' texts; none is left out."""
    assert set(changes) == {field.name for field in fields(mechanism)}
    texts = {mechanism.parameters}
    for name, value in changes.items():
        texts.add(replace(mechanism, **{name: value}).parameters)
    assert len(texts) == len(changes) + 1


def test_a_histogram_does_not_print_its_counts() -> None:
    assert "777" not in repr(Histogram(np.array([777]), complete=True))
