"""The table of mechanisms, row by row."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from mechanisms.choose import MechanismSettings, NoMechanism, choose
from mechanisms.histogram import Cost, Mechanism

GAUSSIAN = MechanismSettings(Fraction(3, 20), Fraction(1, 10**10), "gaussian", None, 1000)
LAPLACE = replace(GAUSSIAN, noise="laplace")
CHEAP = replace(GAUSSIAN, spend="cheap")
ACCURATE = replace(GAUSSIAN, spend="accurate")


def pick(
    settings: MechanismSettings,
    domain_size: int | None,
    delta0: int | None,
    k: int | None,
    counts: bool = True,
) -> Mechanism:
    return choose(settings, domain_size=domain_size, delta0=delta0, tau=2, k=k, counts=counts)


@pytest.mark.parametrize(
    ("settings", "domain_size", "delta0", "k", "name", "information", "calls"),
    [
        (GAUSSIAN, 1, None, None, "KnownGauss", 1, 0),  # no GROUP BY
        (LAPLACE, 1, None, None, "KnownLap", 1, 0),
        (GAUSSIAN, 50, 4, None, "KnownGauss", 4, 0),  # accurate up to 4
        (GAUSSIAN, 50, 5, None, "KnownGauss", 1, 0),  # then cheap
        (CHEAP, 50, 4, None, "KnownGauss", 1, 0),
        (ACCURATE, 50, 5, None, "KnownGauss", 5, 0),
        (LAPLACE, 50, 5, None, "KnownLap", 5, 0),
        (CHEAP, 50, 5, None, "KnownGauss", 1, 0),
        (GAUSSIAN, 500, 5, 10, "KnownGauss", 1, 0),  # a declared bound: the LIMIT comes afterwards
        (GAUSSIAN, 3, 50, None, "KnownGauss", 3, 0),  # min(g, |dom|)
        (GAUSSIAN, 64, None, None, "KnownGauss", 1, 0),
        (LAPLACE, 64, None, None, "KnownLap", 64, 0),
        (GAUSSIAN, 300, None, 10, "KnownGumb", 20, 0),
        (LAPLACE, 300, None, 10, "KnownGumb", 20, 0),
        (LAPLACE, 300, 300, 10, "KnownGumb", 20, 0),  # a declaration that bounds nothing
        (ACCURATE, 300, None, 10, "KnownGumb", 20, 0),
        (CHEAP, 300, None, 10, "KnownGauss", 1, 0),
        (GAUSSIAN, 20, None, 10, "KnownGauss", 1, 0),  # 2k is not below |dom|
        (GAUSSIAN, 21, None, 10, "KnownGumb", 20, 0),
        (GAUSSIAN, 3, None, 10, "KnownGauss", 3, 0),  # k beyond |dom|
        (GAUSSIAN, 300, None, 150, "KnownGauss", 1, 0),
        (GAUSSIAN, None, 3, None, "UnkGauss", 1, 1),
        (GAUSSIAN, None, 3, 10, "UnkGauss", 1, 1),
        (LAPLACE, None, 3, None, "UnkLap", 1, 1),
        (CHEAP, None, 3, None, "UnkGauss", 1, 1),
        (GAUSSIAN, None, None, 10, "UnkGumb", 21, 1),
        (LAPLACE, None, None, 10, "UnkGumb", 21, 1),
    ],
)
def test_rows(
    settings: MechanismSettings,
    domain_size: int | None,
    delta0: int | None,
    k: int | None,
    name: str,
    information: int,
    calls: int,
) -> None:
    mechanism = pick(settings, domain_size, delta0, k)
    assert mechanism.name == name
    cost = mechanism.cost_at_most
    assert cost == Cost(Fraction(information), Fraction(calls), cost.epsilon)
    assert (cost.epsilon is None) == (mechanism.noise_family == "gaussian")
    assert (mechanism.fetch is None) == (domain_size is not None)
    assert (mechanism.threshold is None) == (domain_size is not None)
    assert ("tau", "2") in mechanism.parameters


def test_without_counts() -> None:
    assert pick(GAUSSIAN, 300, None, 10, counts=False).cost_at_most.information == 10
    mechanism = pick(GAUSSIAN, None, None, 10, counts=False)
    assert mechanism.cost_at_most == Cost(Fraction(11), Fraction(1), Fraction(11))
    assert mechanism.stddev is None


@pytest.mark.parametrize(("k", "fetch"), [(None, 1001), (10, 1001), (100, 1001), (101, 1011)])
def test_fetch(k: int | None, fetch: int) -> None:
    assert pick(GAUSSIAN, None, 3, k).fetch == fetch
    assert k is None or pick(GAUSSIAN, None, None, k).fetch == fetch


@pytest.mark.parametrize(("domain_size", "delta0"), [(None, None), (65, None), (65, 65), (65, 70)])
def test_only_a_limit_would_help(domain_size: int | None, delta0: int | None) -> None:
    with pytest.raises(NoMechanism, match="LIMIT"):
        pick(GAUSSIAN, domain_size, delta0, None)


def test_without_delta_only_known_domains_are_answered() -> None:
    pure = replace(GAUSSIAN, delta_per=Fraction(0))
    assert pick(pure, 300, None, 10).name == "KnownGumb"
    for delta0, k in ((3, None), (None, 10)):
        with pytest.raises(NoMechanism, match="delta_per"):
            pick(pure, None, delta0, k)


@pytest.mark.parametrize("bad", [{"domain_size": 0}, {"delta0": 0}, {"tau": 0}, {"k": 0}, {"k": True}])
def test_bounds_below_one(bad: dict[str, int]) -> None:
    arguments = {"domain_size": 10, "delta0": 1, "tau": 1, "k": 1, **bad}
    with pytest.raises(ValueError, match=next(iter(bad))):
        choose(
            GAUSSIAN,
            domain_size=arguments["domain_size"],
            delta0=arguments["delta0"],
            tau=arguments["tau"],
            k=arguments["k"],
            counts=True,
        )


def test_settings_out_of_range() -> None:
    for change in (
        {"eps_per": Fraction(0)},
        {"eps_per": 0.15},
        {"eps_per": Fraction(17)},
        {"delta_per": Fraction(-1, 10)},
        {"delta_per": Fraction(3, 4)},
        {"delta_per": float("nan")},
        {"noise": "gauss"},
        {"spend": "free"},
        {"d_bar": 0},
    ):
        with pytest.raises(ValueError, match=r"must be|unknown"):
            MechanismSettings(**{**vars(GAUSSIAN), **change})
