"""`dpproxy check`: the class of each column of a policy, and what the budgets guarantee."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, replace
from fractions import Fraction

from budget.accounting import (
    BOUNDED_RANGE,
    ZCDP_SIMPLE,
    ZCDP_TIGHT,
    PrivacyBound,
    guarantee,
    retention_periods,
    shown_up,
)
from dpproxy.config.sections import PERIOD_DAYS, AccountLimit, Budget, ColumnSection, Privacy, TableSection
from dpproxy.engine.paying_accounts import second_limit
from dpproxy.owner.column_costs import cost
from dpproxy.reporting.tables import print_table
from rewriter.policy import Column, Policy, Table, shown_type

_DIGITS = 4


@dataclass(frozen=True)
class ColumnClass:
    """One column: its domain (known or unknown), how many of its groups a unit counts in, its bounds.

    `cost`: what counting units by it costs.
    """

    table: str
    column: str
    type: str
    domain: str
    l0: str
    bounds: str
    cost: str


@dataclass(frozen=True)
class Guarantee:
    """What the limits of one account guarantee by one accounting.

    `epsilon`, `delta`: of one period; `kept_epsilon`, `kept_delta`: of data that are kept for as long as a
    period, which up to two periods touch. All rounded up; None where the accounting does not apply.
    """

    account: str
    information: str
    calls: str
    period: str
    accounting: str
    epsilon: str | None
    delta: str | None
    kept_epsilon: str | None
    kept_delta: str | None
    smallest: bool


def guarantees(limits: Iterable[AccountLimit], privacy: Privacy) -> list[Guarantee]:
    """The guarantee of every account that the file limits, by the three accountings; `privacy`: what it rests on.

    An account in mode "track" has none.
    """
    return [bound for limit in limits for bound in guarantee_of(privacy, limit, limit)]


def guarantee_of(
    privacy: Privacy, limit: AccountLimit, kept: AccountLimit | None, days: int | None = None
) -> list[Guarantee]:
    """The guarantee of one account's limits, by the three accountings; none in mode "track".

    `kept`: the largest limits that have been in force while the data were kept, None where there was no limit
    for some of the time; `days`: how long they are kept, None for as long as a period.
    """
    if limit.mode == "track":
        return []
    one = {bound.accounting: bound for bound in _bounds_of(privacy, limit, 1)}
    all_of_it = {bound.accounting: bound for bound in _kept_bounds(privacy, kept, days)}
    found = []
    for accounting in (BOUNDED_RANGE, ZCDP_SIMPLE, ZCDP_TIGHT):
        here, there = one.get(accounting), all_of_it.get(accounting)
        found.append(
            Guarantee(
                limit.account,
                _number(limit.information),
                _number(limit.calls),
                limit.period,
                accounting,
                *_shown(here),
                *_shown(there),
                smallest=here is not None and here.smallest,
            )
        )
    return found


def _kept_bounds(privacy: Privacy, kept: AccountLimit | None, days: int | None) -> tuple[PrivacyBound, ...]:
    if kept is None:
        return ()
    period = PERIOD_DAYS[kept.period]
    return _bounds_of(privacy, kept, retention_periods(days or period or 1, period))


def classes(policy: Policy, config: Mapping[str, TableSection], privacy: Privacy) -> list[ColumnClass]:
    """Every visible column, table by table; `config`: the file's [tables]; `privacy`: the prices.

    >>> table = Table("public", "u", (Column("id", "bigint"), Column("c", "text", True, ("x", "y"))), False,
    ...               ("u",), privacy_unit="id", keys=(frozenset({"id"}),))
    >>> [(c.column, c.domain, c.l0) for c in classes(Policy({("public", "u"): table}), {}, Privacy())]
    [('id', 'privacy unit', '1'), ('c', 'known: 2 values and NULL', '1')]
    """
    found = []
    for table in policy.tables.values():
        name = shown_name(table)
        declared = config[name].columns if name in config else {}
        for column in table.columns:
            if not column.hidden:
                bounds = _bounds(declared.get(column.name))
                found.append(
                    ColumnClass(
                        name,
                        column.name,
                        shown_type(column.type),
                        _domain(table, column),
                        _l0(table, column),
                        bounds,
                        cost(table, column, privacy, one_row=_one_row_a_unit(table)),
                    )
                )
    return found


def shown_name(table: Table) -> str:
    """The table's name as an analyst writes it."""
    return table.name if table.schema == "public" else f"{table.schema}.{table.name}"


def rows_per_unit(table: Table, policy: Policy) -> str:
    """How many rows of one unit count, in words.

    >>> visits = Table("public", "v", (), False, ("v",), privacy_unit="id", max_rows_per_unit=5)
    >>> rows_per_unit(visits, Policy({}, unit_clips=True))
    'any number of rows a unit (quantiles and running counts: 5 rows a unit)'
    >>> rows_per_unit(visits, Policy({}))
    '5 rows a unit'
    """
    said = [_rows_per_unit(table, policy)]
    said += ["filtered"] if table.where is not None else ["a view"] if table.view is not None else []
    return "; ".join(said)


def _rows_per_unit(table: Table, policy: Policy) -> str:
    if table.public:
        return "public"
    if _one_row_a_unit(table):
        return "one row a unit"
    per_unit, per_group = table.max_rows_per_unit, table.max_rows_per_unit_per_group
    parts = [f"{per_unit} rows a unit"] if per_unit is not None else []
    parts += [f"{per_group} a unit and group"] if per_group is not None else []
    said = ", ".join(parts)
    if policy.unit_clips:
        return "any number of rows a unit" + (f" (quantiles and running counts: {said})" if said else "")
    return said or "rows of a unit not bounded: COUNT(*) is refused"


def _one_row_a_unit(table: Table) -> bool:
    return bool(table.unit) and any(key <= set(table.unit) for key in table.keys)


def _domain(table: Table, column: Column) -> str:
    if table.public:
        return "known: public"
    if column.name == table.privacy_unit:
        return "privacy unit"
    null = " and NULL" if column.nullable else ""
    if column.domain is not None:
        return f"known: {len(column.domain)} values{null}"
    if column.domain_from is not None:
        (_, name), target = column.domain_from
        return f"known: {name}.{target}{null}"
    if column.range is not None:
        return f"known: {column.range[0]} to {column.range[1]}{null}"
    return "unknown"


def _l0(table: Table, column: Column) -> str:
    if table.public:
        return ""
    if _one_row_a_unit(table) or column.name == table.privacy_unit:
        return "1"
    declared = table.max_groups_per_unit.get(frozenset({column.name}))
    return "unrestricted" if declared is None else str(declared)


def _bounds(column: ColumnSection | None) -> str:
    if column is None:
        return ""
    for bounds, words in ((column.bounds, "a row"), (column.unit_bounds, "a unit and group")):
        if bounds is not None:
            scale = "" if column.scale is None else f", scale {column.scale}"
            return f"{_number(bounds[0])} to {_number(bounds[1])} {words}{scale}"
    said = [] if column.magnitude is None else [f"about {_number(column.magnitude)}"]
    return ", ".join([*said, *([] if column.scale is None else [f"scale {column.scale}"])])


def _number(value: Fraction) -> str:
    return str(value) if value.denominator == 1 else f"{float(value):g}"


def limits_of(budget: Budget, privacy: Privacy) -> list[AccountLimit]:
    """The accounts that the file names: any analyst's, those with limits of their own, teams, the dataset."""
    members = [name for team in budget.teams.values() for name in team.members]
    named = [link for name in (*budget.analysts, *members) for link in budget.chain(name, budget.teams)]
    listed = {f"analyst:{name}" for name in budget.analysts}
    anybody, *shared = budget.chain("", budget.teams)
    links = [
        replace(anybody, account="any analyst"),
        *(link for link in named if link.account in listed or link.account.startswith("team:")),
        *shared,
    ]
    return [replace(link, epsilon=second_limit(privacy, link.information)) for link in dict.fromkeys(links)]


def _bounds_of(privacy: Privacy, limit: AccountLimit, periods: int) -> tuple[PrivacyBound, ...]:
    return guarantee(
        limit.information,
        limit.calls,
        privacy.epsilon_per,
        privacy.delta_per,
        privacy.delta_prime,
        bounded_range_only=privacy.noise == "laplace",
        periods=periods,
        epsilon_star=limit.epsilon,
    )


def _shown(bound: PrivacyBound | None) -> tuple[str | None, str | None]:
    if bound is None:
        return None, None
    return shown_up(bound.epsilon, _DIGITS), shown_up(bound.delta, _DIGITS)


def print_guarantees(title: str, bounds: Iterable[Guarantee], days: int | None = None) -> None:
    """Prints guarantees as a table; `days`: how long data are kept, None for as long as a period."""
    heads = ("account", "units", "calls", "period", "accounting", "epsilon", "delta", "epsilon*", "delta*")
    rows = [(*astuple(bound)[:4], marked(bound), *astuple(bound)[5:9]) for bound in bounds]
    print_table(title, heads, rows, right=(1, 2, 5, 6, 7, 8))
    kept = "a period's length, which two periods meet" if days is None else f"{days} days"
    print(f"* of data that are kept for {kept}. The smallest epsilon is marked with <.")


def marked(bound: Guarantee) -> str:
    """The accounting, with a sign where its epsilon is the smallest."""
    if bound.epsilon is None:
        return f"{bound.accounting} (only where all noise ever was laplace)"
    return bound.accounting + (" <" if bound.smallest else "")
