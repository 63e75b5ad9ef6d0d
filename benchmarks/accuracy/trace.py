"""300 statements of one analyst over the sample data, as Superset and Metabase send them for three dashboards.

A dashboard is opened, its filters are set to one state after the other, each of which sends every chart again, and
groups are clicked for what they are made of. A statement that was sent before is not sent twice: it is free anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.accuracy.questions import Question


@dataclass(frozen=True)
class Sent:
    """A statement: of which dashboard, and what made the tool send it: opened, filtered or clicked."""

    dashboard: str
    why: str
    question: Question


def sent() -> tuple[Sent, ...]:
    """The trace, in order."""
    found: dict[str, Sent] = {}
    for dashboard, why, keys, sql in (*_sales(), *_catalogue(), *_households()):
        found.setdefault(sql, Sent(dashboard, why, Question(f"t{len(found):03}", why, sql, keys)))
    return tuple(found.values())


Statement = tuple[str, str, tuple[str, ...], str]
Chart = tuple[tuple[str, ...], tuple[str, ...]]
"""Groups and metrics, each as `expression AS name`."""


def _named(one: str) -> str:
    """The name of `expression AS name`."""
    return one.rpartition(" AS ")[2].strip('"')


def _expression(one: str) -> str:
    return one.rpartition(" AS ")[0]


# Superset: sales over time.

DATES = "'YYYY-MM-DD HH24:MI:SS.US'"
RANGES = (
    ("2017-01-01", "2017-07-01"),
    ("2017-07-01", "2018-01-01"),
    *((f"2017-{month:02}-01", f"2017-{month + 3:02}-01") for month in (1, 4, 7)),
    ("2017-10-01", "2018-01-01"),
    *((f"2017-{month:02}-01", f"2017-{month + 1:02}-01") for month in (6, 11)),
    ("2017-12-01", "2018-01-01"),
)
SALES: tuple[Chart, ...] = (
    ((), ('SUM(sales_value) AS "Sales"',)),
    ((), ("COUNT(*) AS count",)),
    (("DATE_TRUNC('week', transaction_timestamp) AS __timestamp",), ('SUM(sales_value) AS "Sales"',)),
    (
        ("DATE_TRUNC('month', transaction_timestamp) AS __timestamp",),
        ('SUM(sales_value) AS "Sales"', "COUNT(*) AS count"),
    ),
    (("DATE_TRUNC('month', transaction_timestamp) AS __timestamp",), ('AVG(sales_value) AS "Average"',)),
    (
        ("DATE_TRUNC('quarter', transaction_timestamp) AS __timestamp",),
        ('SUM(sales_value) AS "Sales"', "COUNT(*) AS count"),
    ),
    (
        ("DATE_TRUNC('month', transaction_timestamp) AS __timestamp",),
        ('COUNT(DISTINCT household_id) AS "Households"',),
    ),
    (("extract(isodow from transaction_timestamp) AS weekday",), ('SUM(sales_value) AS "Sales"',)),
    (
        ("DATE_TRUNC('month', transaction_timestamp) AS __timestamp",),
        ('SUM(retail_disc) AS "Loyalty"', 'SUM(coupon_disc) AS "Coupons"'),
    ),
    ((), ('SUM(retail_disc) AS "Loyalty"',)),
    ((), ('AVG(sales_value) AS "Average"',)),
)


def _superset(chart: Chart, table: str, conditions: Sequence[str] = ()) -> tuple[tuple[str, ...], str]:
    groups, metrics = chart
    lines = [f"SELECT {', '.join((*groups, *metrics))} ", f"FROM {table} "]
    lines += ["WHERE " + " AND ".join(conditions)] if conditions else []
    lines += ["GROUP BY " + ", ".join(map(_expression, groups))] if groups else []
    lines += [f"ORDER BY {metrics[0].rpartition(' AS ')[2]} DESC "] if groups else []
    return tuple(map(_named, groups)), "\n".join([*lines, " LIMIT 50000"])


def _between(first: str, end: str) -> tuple[str, ...]:
    column = "transaction_timestamp"
    moments = [f"TO_TIMESTAMP('{day} 00:00:00.000000', {DATES})" for day in (first, end)]
    return f"{column} >= {moments[0]}", f"{column} < {moments[1]}"


def _sales() -> Iterator[Statement]:
    name = "sales over time, Superset"
    for filters in ((), *(_between(*one) for one in RANGES)):
        for chart in SALES:
            yield name, "filtered" if filters else "opened", *_superset(chart, "public.transactions", filters)
    for month in ("2017-05", "2017-09"):  # drill to detail by week
        filters = _between(f"{month}-01", f"{month[:5]}{int(month[5:]) + 1:02}-01")
        yield name, "clicked", *_superset(SALES[2], "public.transactions", filters)


# Metabase: sales of the catalogue.

TABLE = '"public"."transactions"'
JOINED = (
    f'{TABLE} INNER JOIN "public"."products" AS "Products" ON {TABLE}."product_id" = "Products"."product_id"'
)
VALUE, DEPARTMENT, BRAND = f'{TABLE}."sales_value"', '"Products"."department"', '"Products"."brand"'
MONTH = f"DATE_TRUNC('month', {TABLE}.\"transaction_timestamp\")"
PRIVATE = f"SUM(CASE WHEN {BRAND} = 'Private' THEN {VALUE} ELSE 0.0 END)"
CATALOGUE: tuple[Chart, ...] = (
    ((), (f'SUM({VALUE}) AS "sum"',)),
    ((), ('COUNT(*) AS "count"',)),
    ((), (f'{PRIVATE} AS "sum_where"',)),
    ((f'{DEPARTMENT} AS "department"',), (f'SUM({VALUE}) AS "sum"',)),
    ((f'{DEPARTMENT} AS "department"',), ('COUNT(*) AS "count"',)),
    ((f'{BRAND} AS "brand"',), (f'SUM({VALUE}) AS "sum"', 'COUNT(*) AS "count"')),
    ((f'{DEPARTMENT} AS "department"', f'{BRAND} AS "brand"'), (f'SUM({VALUE}) AS "sum"',)),
    ((f'{MONTH} AS "month"', f'{DEPARTMENT} AS "department"'), (f'SUM({VALUE}) AS "sum"',)),
    ((f'{MONTH} AS "month"',), (f'SUM({VALUE}) AS "sum"',)),
    ((f'{DEPARTMENT} AS "department"',), (f'AVG({VALUE}) AS "avg"',)),
)
DEPARTMENTS = ("GROCERY", "DRUG GM", "PRODUCE", "MEAT", "DELI", "FUEL")
CATALOGUE_FILTERS = (
    *((f"{DEPARTMENT} = '{one}'",) for one in DEPARTMENTS),
    (f"({DEPARTMENT} = 'MEAT') OR ({DEPARTMENT} = 'MEAT-PCKGD')",),
    (f"{BRAND} = 'Private'",),
    (f"{BRAND} = 'National'",),
)


def _metabase(chart: Chart, conditions: Sequence[str] = ()) -> tuple[tuple[str, ...], str]:
    groups, metrics = chart
    joined = any('"Products"' in part for part in (*groups, *metrics, *conditions))
    sql = "-- Metabase:: userID: 1 queryType: MBQL queryHash: 00\n"
    sql += f"SELECT {', '.join((*groups, *metrics))} FROM {JOINED if joined else TABLE}"
    sql += f" WHERE {' AND '.join(conditions)}" if conditions else ""
    keys = [_expression(group) for group in groups]
    if keys:
        sql += f" GROUP BY {', '.join(keys)} ORDER BY {', '.join(f'{key} ASC' for key in keys)}"
    return tuple(map(_named, groups)), sql


def _catalogue() -> Iterator[Statement]:
    name = "sales of the catalogue, Metabase"
    for filters in ((), *CATALOGUE_FILTERS):
        for chart in CATALOGUE:
            yield name, "filtered" if filters else "opened", *_metabase(chart, filters)
    category = '"Products"."product_category" AS "product_category"'
    for department in DEPARTMENTS[:4]:  # a bar is clicked: broken out by category
        filters = (f"{DEPARTMENT} = '{department}'",)
        yield name, "clicked", *_metabase(((category,), (f'SUM({VALUE}) AS "sum"',)), filters)
        yield name, "clicked", *_metabase(((category,), ('COUNT(*) AS "count"',)), filters)
        yield name, "clicked", *_metabase(((f'{MONTH} AS "month"',), (f'SUM({VALUE}) AS "sum"',)), filters)


# Superset: households, and what they buy, of a virtual dataset.

BUYING = (
    "(SELECT t.household_id, t.sales_value, h.age, h.income, h.home_ownership\n"
    "FROM transactions t JOIN households h ON h.household_id = t.household_id) AS virtual_table"
)
HOUSEHOLDS: tuple[tuple[str, Chart], ...] = (
    ("public.households", ((), ("COUNT(*) AS count",))),
    ("public.households", (("age AS age",), ("COUNT(*) AS count",))),
    ("public.households", (("income AS income",), ("COUNT(*) AS count",))),
    ("public.households", (("home_ownership AS home_ownership",), ("COUNT(*) AS count",))),
    ("public.households", (("age AS age", "income AS income"), ("COUNT(*) AS count",))),
    ("public.households", (("age AS age", "home_ownership AS home_ownership"), ("COUNT(*) AS count",))),
    (BUYING, ((), ('SUM(sales_value) AS "Sales"',))),
    (BUYING, (("age AS age", "income AS income"), ('SUM(sales_value) AS "Sales"',))),
    (BUYING, (("age AS age",), ('SUM(sales_value) AS "Sales"', "COUNT(*) AS count"))),
    (BUYING, (("age AS age",), ('AVG(sales_value) AS "Average"',))),
)
HOUSEHOLD_FILTERS = (
    *((f"age IN ('{age}')",) for age in ("25-34", "35-44", "45-54")),
    ("age IN ('55-64', '65+')",),
    *((f"income IN ('{income}')",) for income in ("50-74K",)),
    ("age IS NOT NULL",),
    ("age IN ('45-54')", "income IN ('50-74K', '75-99K')"),
)


def _households() -> Iterator[Statement]:
    name = "households, Superset"
    for filters in ((), *HOUSEHOLD_FILTERS):
        for table, chart in HOUSEHOLDS:
            yield name, "filtered" if filters else "opened", *_superset(chart, table, filters)


# A cube of three dimensions, and what is asked over it.

CUBE_ROWS = "transactions t JOIN products p USING (product_id) JOIN households h USING (household_id)"
QUARTER = "date_trunc('quarter', transaction_timestamp)"
CUBE = (
    f"SELECT {QUARTER} AS quarter, brand, age, SUM(sales_value) AS sales, COUNT(*) AS n "
    f"FROM {CUBE_ROWS} GROUP BY 1, 2, 3"
)
OVER_CUBE: tuple[tuple[str, tuple[str, ...], str, str], ...] = (
    ("total sales", (), "SUM(sales_value) AS sales", ""),
    ("total rows", (), "COUNT(*) AS n", ""),
    ("sales by quarter", ("quarter",), "SUM(sales_value) AS sales", ""),
    ("rows by quarter", ("quarter",), "COUNT(*) AS n", ""),
    ("sales by brand", ("brand",), "SUM(sales_value) AS sales", ""),
    ("sales by age", ("age",), "SUM(sales_value) AS sales", ""),
    ("rows by age", ("age",), "COUNT(*) AS n", ""),
    ("sales by quarter and brand", ("quarter", "brand"), "SUM(sales_value) AS sales", ""),
    ("sales by age and brand", ("age", "brand"), "SUM(sales_value) AS sales", ""),
    ("rows by age and quarter", ("age", "quarter"), "COUNT(*) AS n", ""),
    ("sales of private brands", (), "SUM(sales_value) AS sales", "brand = 'Private'"),
    (
        "sales of private brands, by FILTER",
        (),
        "SUM(sales_value) FILTER (WHERE brand = 'Private') AS sales",
        "",
    ),
    ("sales of private brands by quarter", ("quarter",), "SUM(sales_value) AS sales", "brand = 'Private'"),
    ("sales to those aged 35-54", (), "SUM(sales_value) AS sales", "age IN ('35-44', '45-54')"),
    ("sales to them by quarter", ("quarter",), "SUM(sales_value) AS sales", "age IN ('35-44', '45-54')"),
    ("rows of national brands by age", ("age",), "COUNT(*) AS n", "brand = 'National'"),
    ("sales of the second half", (), "SUM(sales_value) AS sales", "transaction_timestamp >= '2017-07-01'"),
    (
        "sales of the second half by age",
        ("age",),
        "SUM(sales_value) AS sales",
        "transaction_timestamp >= '2017-07-01'",
    ),
    ("sales to known ages by brand", ("brand",), "SUM(sales_value) AS sales", "age IS NOT NULL"),
    ("sales and rows by brand", ("brand",), "SUM(sales_value) AS sales, COUNT(*) AS n", ""),
)


def over_cube() -> Iterator[Question]:
    """20 questions over the cube."""
    for number, (what, keys, metrics, condition) in enumerate(OVER_CUBE):
        groups = [f"{QUARTER} AS quarter" if key == "quarter" else key for key in keys]
        sql = f"SELECT {', '.join((*groups, metrics))} FROM {CUBE_ROWS}"
        sql += f" WHERE {condition}" if condition else ""
        sql += f" GROUP BY {', '.join(map(str, range(1, len(keys) + 1)))}" if keys else ""
        yield Question(f"c{number:02}", what, sql, keys)
