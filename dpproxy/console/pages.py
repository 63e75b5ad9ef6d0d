"""What each page shows, as plain values for its template: amounts of budget, times and questions, no data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from heapq import nsmallest
from typing import get_args

from budget.account import AccountRow, Activity, Charge, Period
from budget.units import shown, units
from dpproxy.catalog.build_policy import unit_words
from dpproxy.config.epoch import epoch_name
from dpproxy.config.values import exact
from dpproxy.console.charts import Chart, Series, by_day, by_number, last_days
from dpproxy.console.sources import Sources
from dpproxy.engine.bounded_range import UNSAID, Accounting, accountable
from dpproxy.owner.accounts import account_named, charged, in_words, meaning, sent
from dpproxy.owner.check import classes, limits_of, rows_per_unit, shown_name
from dpproxy.owner.check_warnings import warnings
from dpproxy.owner.exceedance_plot import Curve
from dpproxy.owner.failures import shown as shown_failure
from dpproxy.owner.limit_drift import drift
from dpproxy.owner.simulation import PARTS, Tried, days_of, panels_of, refused, soonest, try_budgets

Context = Mapping[str, object]
DAYS = 30
"""Of releases and refusals that are shown."""
HISTORY_DAYS = 90
"""Of the history on which limits are tried."""
MOST_TRIED = 100_000
"""Latest entries of the ledger on which they are tried."""
MOST_SHAPES = 30
"""Most frequent shapes of refused statements that are shown."""
MOST_REFUSED = 200
"""Accounts and codes with most refusals that are shown."""
MOST_FAILURES = 200
"""Latest failures of the backend that are shown."""
MOST_ACCOUNTS = 200
"""Accounts that are shown."""
MOST_ASKED = 200
"""Latest questions of an account that are shown."""
_KINDS = ("bought", "replayed", "failed")
_LOW = Fraction(1, 10)
_MOST_BUDGETS = 8


@dataclass(frozen=True)
class Meter:
    """One unit of an account: amounts for people, and shares of the limit in percent for a bar."""

    unit: str
    limit: str
    used: str
    reserved: str
    left: str
    used_percent: float
    reserved_percent: float
    state: str


@dataclass(frozen=True)
class Account:
    """An account on the first page."""

    name: str
    meters: tuple[Meter, ...]
    period: str
    refreshes: str
    mode: str
    frozen: bool


def accounts(sources: Sources, query: Mapping[str, str]) -> Context:
    """Accounts and what is left of them, those with least first."""
    rows = sources.ledger.accounts.all()
    now = datetime.now(UTC)
    answered = sources.ledger.history.answered(now - timedelta(days=DAYS))
    refusals = sources.ledger.refusals.by_day(now.date() - timedelta(days=DAYS - 1))
    low = [row for row in rows if row.frozen or _share_left(row) < _LOW]
    shown = nsmallest(MOST_ACCOUNTS, rows, key=lambda row: (_share_left(row), row.account))
    return {
        "accounts": list(map(_account, shown)),
        "others": len(rows) - len(shown),
        "tiles": (
            ("Analysts", f"{len(sources.ledger.analysts.names())}", "who may log in with a password"),
            ("Releases", f"{answered:,}", f"in {DAYS} days, replays included"),
            ("Refusals", f"{sum(refusals.values()):,}", f"in {DAYS} days"),
            ("Nearly spent", f"{len(low)}", "accounts below 10% or frozen"),
        ),
        "drift": list(drift(sources.config.budget, rows)),
    }


def releases(sources: Sources, query: Mapping[str, str]) -> Context:
    """Releases and charges day by day, of all accounts or of one, and what that one has asked."""
    days = last_days(datetime.now(UTC).date(), DAYS)
    since = datetime.combine(days[0], datetime.min.time(), UTC)
    wanted = account_named(text) if (text := query.get("account", "").strip()) else ""
    history = sources.ledger.history
    daily = history.activity_by_day(days, wanted or None)
    by_account = history.activity_by_account(since, MOST_ACCOUNTS)
    asked = history.releases(wanted, since, most=MOST_ASKED, newest=True)[::-1] if wanted else ()
    return {
        "names": list(by_account),
        "wanted": wanted,
        "asked": [
            (
                _minute(r.time),
                in_words(r, sent(r, wanted, sources.texts)),
                r.mechanism,
                charged(r),
                r.attributed,
            )
            for r in asked
        ],
        "charts": (_chart_of_releases(days, daily), _chart_of_charges(days, daily)),
        "rows": [
            (f"{day.day} {day:%b}", *_activity([one]))
            for day, one in zip(reversed(days), reversed(daily), strict=True)
            if _releases(one)
        ],
        "by_account": [(wanted, *_activity(daily))]
        if wanted
        else [(name, *_activity([one])) for name, one in by_account.items()],
        "most": MOST_ACCOUNTS,
        "days": DAYS,
    }


def failures(sources: Sources, query: Mapping[str, str]) -> Context:
    """What failed at the backend, whom it has stopped, and whose failures can be cleared; no message of the backend."""
    rows, stopped = sources.ledger.failures.all(MOST_FAILURES), sources.ledger.failures.stopped()
    uncleared = {name for row in rows if row.cleared_at is None for name in (row.login, row.account)}
    names = sorted({*uncleared, *stopped.logins, *stopped.analysts})
    return {
        "rows": [(*shown_failure(row), row.asked) for row in rows],
        "whose": [
            (name, name.removeprefix("analyst:"), name in (*stopped.logins, *stopped.analysts))
            for name in names
        ],
        "most": MOST_FAILURES,
    }


def refusals(sources: Sources, query: Mapping[str, str]) -> Context:
    """What was refused, why, and to whom."""
    days = last_days(datetime.now(UTC).date(), DAYS)
    by_code, daily = Counter[str](), Counter[date]()
    for (day, code), times in sources.ledger.refusals.by_day(days[0]).items():
        by_code[code] += times
        daily[day] += times
    whom = sources.ledger.refusals.by_account(days[0], MOST_REFUSED)
    shapes = sources.ledger.refusals.shapes(days[0], MOST_SHAPES)
    return {
        "shapes": [(row.shape, row.code, f"{row.times:,}") for row in shapes],
        "texts": sources.config.audit.statements,
        "chart_of_days": by_day(
            "Refusals by day",
            f"Bars: refused statements on each of {DAYS} days, {daily.total():,} in all.",
            days,
            [Series("", tuple(float(daily[day]) for day in days))],
            "refused",
        ),
        "codes": [(code, meaning(code), f"{times:,}") for code, times in by_code.most_common()],
        "whom": [(row.account, row.code, f"{row.times:,}", _minute(row.last_at)) for row in whom],
        "most": MOST_REFUSED,
        "days": DAYS,
    }


def limits(sources: Sources, query: Mapping[str, str]) -> Context:
    """Who would have been stopped by other limits; `query`: period, information, calls as the form has them."""
    budget = sources.config.budget
    period: Period = next((p for p in get_args(Period) if p == query.get("period")), budget.period)
    given, mistakes = {}, []
    for unit, standard in (("information", budget.information), ("calls", budget.calls)):
        text = query.get(unit, "").strip()
        try:
            given[unit] = _amounts(text) if text else [standard * part for part in PARTS]
        except ValueError as error:
            mistakes.append((unit, str(error)))
            given[unit] = [standard * part for part in PARTS]
    since = datetime.now(UTC) - timedelta(days=HISTORY_DAYS)
    recent = sources.ledger.history.entries(None, since, None, MOST_TRIED)
    entries = [entry for entry in recent if entry.own]
    tried = try_budgets(entries, period, given["information"], given["calls"]) if entries else []
    panels = panels_of(tried, days_of(entries, period)) if entries else []
    return {
        "period": period,
        "periods": get_args(Period),
        "texts": {unit: query.get(unit, "") for unit in ("information", "calls")},
        "examples": {unit: ", ".join(_plain(amount) for amount in given[unit]) for unit in given},
        "mistakes": dict(mistakes),
        "charts": [
            _chart_of_limits(panel.unit, panel.curves)
            for panel in panels
            if any(any(curve.shares) for curve in panel.curves)
        ],
        "table_of_budgets": [_tried(one) for one in tried],
        "whom": [
            (result.account, one.unit, one.amount, soonest(result), f"{refused([result]):,}")
            for one in tried
            for result in one.results
            if result.stopped
        ],
        "history_days": HISTORY_DAYS,
        "most_tried": f"{MOST_TRIED:,}",
    }


def columns(sources: Sources, query: Mapping[str, str]) -> Context:
    """Tables, columns and their classes, as in `dpproxy check`."""
    checked = sources.checked
    found = classes(checked.policy, checked.config.tables, checked.config.privacy)
    tables = []
    for table in checked.policy.tables.values():
        rows = [astuple(column)[1:] for column in found if column.table == shown_name(table)]
        hidden = sum(column.hidden for column in table.columns)
        tables.append((shown_name(table), rows_per_unit(table, checked.policy), table.public, rows, hidden))
    return {"tables": tables, "unit": unit_words(checked.policy)}


def health(sources: Sources, query: Mapping[str, str]) -> Context:
    """Whether all parts can be reached, what they are, and what the configuration warns of."""
    checked, config = sources.checked, sources.config
    parts = sources.probe.parts()
    reachable = not any(part.failed for part in parts)
    privacy = accountable(config.privacy, UNSAID)
    if reachable:
        privacy = Accounting.read(config.privacy, sources.ledger.history).together
    told = [*checked.warnings, *warnings(checked, limits_of(config.budget, config.privacy), privacy)]
    mark = sources.ledger.high_water.now() if reachable else None
    facts = [
        ("Privacy unit", unit_words(checked.policy)),
        ("Epoch", f"{config.privacy.epoch}: {epoch_name(config.privacy.epoch, datetime.now(UTC))}"),
        ("Noise", config.privacy.noise),
        ("Entries in the ledger", f"{mark.number:,}" if mark is not None else "unknown"),
        ("Processes", f"{sources.workers}"),
        ("Console since", _minute(sources.begun)),
    ]
    if reachable:
        told += drift(config.budget, sources.ledger.accounts.all())
    return {"parts": parts, "reachable": reachable, "facts": facts, "warnings": told}


def _share_left(row: AccountRow) -> Fraction:
    """The least share of a unit that is left; all of what has no limit above 0."""
    information, calls, epsilon = (
        Fraction(getattr(row.left, unit), most) if (most := getattr(row.limit, unit)) else None
        for unit in ("information", "calls", "epsilon")
    )
    either = max((share for share in (information, epsilon) if share is not None), default=Fraction(1))
    return either if calls is None else min(either, calls)


def _account(row: AccountRow) -> Account:
    return Account(
        row.account,
        tuple(_meter(row, unit) for unit in row.limit.units),
        row.limit.period,
        "" if row.refreshes_at is None else _minute(row.refreshes_at),
        row.limit.mode,
        row.frozen,
    )


def _meter(row: AccountRow, unit: str) -> Meter:
    limit, used, reserved, left = (
        getattr(part, unit) for part in (row.limit, row.used, row.reserved, row.left)
    )
    used_percent = min(100.0, 100 * used / limit) if limit else 0.0
    reserved_percent = min(100.0 - used_percent, 100 * reserved / limit) if limit else 0.0
    share = Fraction(left, limit) if limit else Fraction(1)
    state = "spent" if left == 0 and limit else "low" if share < _LOW else "good"
    return Meter(
        unit,
        shown(limit),
        shown(used),
        shown(reserved),
        shown(left),
        round(used_percent, 2),
        round(reserved_percent, 2),
        state,
    )


def _releases(one: Activity) -> int:
    return one.bought + one.replayed + one.failed


def _chart_of_releases(days: Sequence[date], activity: Sequence[Activity]) -> Chart:
    about = f"Bars: releases on each of {len(days)} days, {sum(map(_releases, activity)):,} in all."
    series = [Series(kind, tuple(float(getattr(one, kind)) for one in activity)) for kind in _KINDS]
    return by_day("Releases by day", about, days, series, "releases")


def _chart_of_charges(days: Sequence[date], activity: Sequence[Activity]) -> Chart:
    total = shown(sum(one.charged.information for one in activity))
    about = f"Bars: information units charged on each of {len(days)} days, {total} in all."
    values = tuple(float(units(one.charged.information)) for one in activity)
    return by_day("Information units charged", about, days, [Series("", values)], "units")


def _activity(activity: Sequence[Activity]) -> tuple[str, ...]:
    """The cells of their sum: releases by kind, then charges."""
    counts = (f"{sum(getattr(one, kind) for one in activity):,}" for kind in _KINDS)
    charged = Charge.sum(one.charged for one in activity)
    return *counts, shown(charged.information), shown(charged.calls)


def _amounts(text: str) -> list[Fraction]:
    """Amounts from a form: numbers above 0, between commas; ValueError."""
    found = [exact(part.strip()) for part in text.split(",") if part.strip()]
    if not found or len(found) > _MOST_BUDGETS or any(not 0 < amount < 10**9 for amount in found):
        raise ValueError(f"1 to {_MOST_BUDGETS} numbers above 0, with commas between them")
    return found


def _chart_of_limits(unit: str, curves: Sequence[Curve]) -> Chart:
    about = (
        f"Lines: the share of analysts whom each {unit} budget would have stopped, by days since a refresh."
    )
    series = [Series(f"{curve.label} units", curve.shares) for curve in curves]
    most = max((value for one in series for value in one.values), default=0.0)
    top = next(top for top in (20.0, 40.0, 60.0, 80.0, 100.0) if top >= most)
    return by_number(f"Stopped by a budget of {unit}", about, "days since a refresh", series, top)


def _tried(one: Tried) -> tuple[str, ...]:
    stopped = [result for result in one.results if result.stopped]
    return one.unit, one.amount, f"{len(stopped)} of {len(one.results)}", f"{refused(one.results):,}"


def _plain(amount: Fraction) -> str:
    return str(amount) if amount.denominator == 1 else f"{float(amount):g}"


def _minute(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
