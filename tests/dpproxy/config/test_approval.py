"""What a second person has to approve: everything that lets anybody spend more, and nothing else."""

from __future__ import annotations

import tomllib

import pytest

from dpproxy.config.approval import ApprovedLimits
from dpproxy.config.sections import AccountLimit, Budget
from dpproxy.config.values import exact

BEFORE = """
information = 100
calls = 10
[analysts.ann]
information = 200
[analysts.bob]
information = 50
[teams.acme]
members = ["ann", "bob"]
groups = ["g"]
information = 300
[dataset]
information = 1000
"""


def limits(text: str) -> ApprovedLimits:
    return ApprovedLimits.of(Budget(**tomllib.loads(text, parse_float=exact)))


@pytest.mark.parametrize(
    ("old", "new", "raised"),
    [
        ("information = 100\n", "information = 101\n", "any analyst: 101 information, approved 100"),
        ("calls = 10\n", "calls = 10.5\n", "any analyst: 10.5 calls, approved 10"),
        ("calls = 10\n", 'calls = 10\nperiod = "week"\n', "any analyst: period week, approved month"),
        ("calls = 10\n", 'calls = 10\nperiod = "none"\n', "any analyst: period none, approved month"),
        ("calls = 10\n", 'calls = 10\nmode = "track"\n', "any analyst: mode track, approved enforce"),
        ("information = 200\n", "information = 201\n", "analyst:ann: 201 information, approved 200"),
        ("[analysts.bob]\ninformation = 50\n", "", "analyst:bob: 100 information, approved 50"),
        (
            "[dataset]\n",
            "[analysts.eve]\ninformation = 101\n[dataset]\n",
            "analyst:eve: 101 information, approved 100",
        ),
        ('"ann", "bob"', '"ann"', "team:acme no longer has member bob"),
        ('groups = ["g"]\n', "", "team:acme no longer has group g"),
        ("information = 300\n", "information = 301\n", "team:acme: 301 information, approved 300"),
        ("[teams.acme]", "[teams.other]", "team:acme is no longer limited"),
        ("[dataset]\ninformation = 1000\n", "", "dataset is no longer limited"),
        ("information = 1000\n", "information = 1001\n", "dataset: 1001 information, approved 1000"),
    ],
)
def test_what_is_raised(old: str, new: str, raised: str) -> None:
    assert BEFORE.count(old) == 1
    approved = ApprovedLimits.read(str(limits(BEFORE)))
    assert raised in limits(BEFORE.replace(old, new)).above(approved)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("information = 100\n", "information = 99\n"),
        ("information = 200\n", "information = 0\n"),
        ("[analysts.ann]\ninformation = 200\n", ""),
        ("[dataset]\n", "[analysts.eve]\ninformation = 100\n[dataset]\n"),
        ("[dataset]\n", '[teams.more]\nmembers = ["ann"]\ninformation = 9999\n[dataset]\n'),
        ('"ann", "bob"', '"ann", "bob", "eve"'),
        ("[analysts.ann]\n", "[analysts.ann]\npublish = true\n"),
    ],
)
def test_what_is_lowered_or_the_same(old: str, new: str) -> None:
    approved = ApprovedLimits.read(str(limits(BEFORE)))
    assert list(limits(BEFORE.replace(old, new, 1)).above(approved)) == []


def test_what_an_account_may_have() -> None:
    approved = limits(BEFORE)
    for account, most in (("analyst:ann", 200), ("analyst:new", 100), ("team:acme", 300), ("dataset", 1000)):
        for amount in (most, most + 1):
            limit = AccountLimit(account, exact(str(amount)), exact("10"), "month", "enforce")
            assert approved.allows(limit) == (amount == most)
