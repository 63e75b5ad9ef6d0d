"""Who would have been stopped: by hand, and beside what a real ledger refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budget.account import LOST_CHARGES, Charge, EntryKind, EntryRow, Exhausted, Limit
from budget.ledger import Ledger
from budget.simulate import SimulatedPeriod, share_stopped, simulate

Event = tuple[str, EntryKind, float, int, int]
START = datetime(2026, 1, 1, tzinfo=UTC)


def history(*events: Event, at_most: int = 10) -> list[EntryRow]:
    """Entries of (account, kind, hours since START, reservation, charged); a release holds `at_most` and a call."""
    return [
        EntryRow(
            number,
            UUID(int=reservation),
            account,
            True,
            kind,
            Charge(at_most, 1),
            Charge(charged, 1 if charged else 0),
            1,
            START + timedelta(hours=hours),
            "m",
            "q",
            False,
        )
        for number, (account, kind, hours, reservation, charged) in enumerate(events)
    ]


def bought(account: str, *hours: float, charged: int = 10) -> list[EntryRow]:
    """One release after the other, each settled at once."""
    events: list[Event] = []
    for number, hour in enumerate(hours):
        events += [(account, "reserve", hour, number, 0), (account, "settle", hour, number, charged)]
    return history(*events)


def test_a_day_at_a_time() -> None:
    entries = bought("a", 0, 1, 2, 25, 26)
    (result,) = simulate(entries, [Limit(20, 9, "day")])
    assert result.periods == (
        SimulatedPeriod(START, 3, 1, timedelta(hours=2)),
        SimulatedPeriod(START + timedelta(hours=25), 2, 0, None),
    )
    assert result.stopped


@pytest.mark.parametrize(
    ("limit", "refused"),
    [
        (Limit(50, 5, "none"), 0),
        (Limit(49, 5, "none"), 1),
        (Limit(50, 4, "none"), 1),
        (Limit(10, 5, "month"), 4),
        (Limit(9, 5, "month"), 5),
        (Limit(10, 5, "day", "track"), 2),
        (Limit(0, 0, "week"), 5),
    ],
)
def test_each_limit_in_turn(limit: Limit, refused: int) -> None:
    (result,) = simulate(bought("a", 0, 1, 2, 25, 50), [limit])
    assert sum(period.refused for period in result.periods) == refused
    assert sum(period.releases for period in result.periods) == 5


def test_what_is_refused_costs_nothing_and_smaller_ones_still_go() -> None:
    big = history(("a", "reserve", 0, 1, 0), ("a", "settle", 0, 1, 30), at_most=30)
    small = bought("a", 1, 2)
    (result,) = simulate([*big, *small], [Limit(20, 5, "none")])
    assert result.periods == (SimulatedPeriod(START, 3, 1, timedelta(0)),)


def test_what_is_held_counts_until_it_is_resolved() -> None:
    one: Event = ("a", "reserve", 0.0, 1, 0)
    two: Event = ("a", "reserve", 1.0, 2, 0)
    resolutions: list[tuple[EntryKind, int, int]] = [("release", 0, 0), ("settle", 4, 0), ("spend", 10, 1)]
    for kind, charged, refused in resolutions:
        (result,) = simulate(history(one, ("a", kind, 0.5, 1, charged), two), [Limit(14, 9, "none")])
        assert sum(period.refused for period in result.periods) == refused
    (result,) = simulate(history(one, two), [Limit(14, 9, "none")])
    assert result.stopped


def test_replays_are_free() -> None:
    (result,) = simulate(history(("a", "replay", 0, 1, 0)), [Limit(0, 0, "day")])
    assert result.periods == ()


def test_figure_5_by_hand() -> None:
    """Three analysts: one stopped on the first day, one on the tenth, one never."""
    entries = sorted(
        [*bought("eager", *[0.1] * 4), *bought("steady", 0, 100, 200, 240), *bought("rare", 0, 300)],
        key=lambda entry: entry.time,
    )
    entries = [
        EntryRow(
            **{
                **vars(entry),
                "number": number,
                "reservation": UUID(int=hash((entry.account, entry.reservation)) % 2**128),
            }
        )
        for number, entry in enumerate(entries)
    ]
    results = simulate(entries, [Limit(30, 9, "month"), Limit(300, 9, "month")])
    tight = [result for result in results if result.limit.information == 30]
    shares = [share_stopped(tight, timedelta(days=days)) for days in (1, 9, 10, 30)]
    assert shares == [Fraction(1, 3), Fraction(1, 3), Fraction(2, 3), Fraction(2, 3)]
    wide = [result for result in results if result.limit.information == 300]
    assert share_stopped(wide, timedelta(days=30)) == 0
    assert share_stopped([], timedelta(days=30)) == 0


@given(
    st.lists(st.integers(0, 10), max_size=30),
    st.integers(0, 100),
    st.integers(0, 12),
)
def test_nobody_goes_beyond_a_limit(charges: list[int], information: int, calls: int) -> None:
    events: list[Event] = []
    for number, charged in enumerate(charges):
        events += [("a", "reserve", number, number, 0), ("a", "settle", number, number, charged)]
    results = simulate(history(*events), [Limit(information, calls, "none")])
    expected, used, used_calls = 0, 0, 0
    for charged in charges:
        if used + 10 > information or used_calls + 1 > calls:
            expected += 1
        else:
            used, used_calls = used + charged, used_calls + bool(charged)
    assert sum(period.refused for result in results for period in result.periods) == expected


@pytest.mark.service
def test_the_ledger_refuses_what_the_simulation_stops(ledger: Ledger, account: Callable[..., str]) -> None:
    """One history, tracked; the same again under the limit that was simulated."""
    limit = Limit(20 * 10**6, 2 * 10**6, "month")
    tracked, enforced = account(mode="track"), account(20, 2)
    refused = 0
    for cost in (9, 8, 7, 3, 1, 1):
        ledger.update_budget(tracked, Charge(cost * 10**6, 10**5))
        try:
            ledger.update_budget(enforced, Charge(cost * 10**6, 10**5))
        except Exhausted:
            refused += 1
    (result,) = simulate(ledger.history.entries(tracked), [limit])
    assert sum(period.refused for period in result.periods) == refused == 3


def test_what_was_charged_for_a_loss_is_no_question() -> None:
    asked = history(("ann", "reserve", 0, 1, 0), ("ann", "settle", 1, 1, 5))
    lost, spent = history(("dataset", "reserve", 2, 2, 0), ("dataset", "spend", 2, 2, 90), at_most=90)
    entries = [*asked, replace(lost, query=LOST_CHARGES), replace(spent, query=None)]
    limits = [Limit(100, 100, "none")]
    assert simulate(entries, limits) == simulate(asked, limits)
