"""Great Expectations: a data source, and expectations that are validated in it."""

from __future__ import annotations

from typing import Any

import great_expectations as gx
from great_expectations import expectations as gxe

from tests.programs.actions import COUNTRIES, URL, action, run

CONTEXT: Any = gx.get_context(mode="ephemeral")
HELD: dict[str, Any] = {}


def holds(expectation: Any, shown: str = "BOOLEAN_ONLY") -> None:
    """Validates one in the table of users, by default without a look at rows that do not satisfy it."""
    result = HELD["users"].validate(expectation, result_format=shown)
    raised = [one["exception_message"] for one in result.exception_info.values() if isinstance(one, dict)]
    assert result.success, raised or result.result


@action("connect")
def connect() -> None:
    HELD["source"] = CONTEXT.data_sources.add_postgres(
        "shop", connection_string=URL.replace("postgresql:", "postgresql+psycopg2:")
    )


@action("a table as asset, with its test query")
def table() -> None:
    asset = HELD["source"].add_table_asset("users", table_name="users", schema_name="app")
    HELD["users"] = asset.add_batch_definition_whole_table("all").get_batch()


@action("table columns")
def columns() -> None:
    holds(gxe.ExpectTableColumnsToMatchSet(column_set=["user_id", "country", "age", "balance", "mood"]))


@action("a column of a type")
def of_type() -> None:
    holds(gxe.ExpectColumnValuesToBeOfType(column="age", type_="INTEGER"))


@action("row count between")
def row_count() -> None:
    holds(gxe.ExpectTableRowCountToBeBetween(min_value=3900, max_value=4100))


@action("values not null, mostly")
def not_null() -> None:
    holds(gxe.ExpectColumnValuesToNotBeNull(column="age", mostly=0.95))


@action("values in a set, mostly")
def value_set() -> None:
    holds(gxe.ExpectColumnValuesToBeInSet(column="country", value_set=sorted(COUNTRIES), mostly=0.95))


@action("values between, mostly")
def between() -> None:
    holds(gxe.ExpectColumnValuesToBeBetween(column="age", min_value=18, max_value=97, mostly=0.95))


@action("distinct values in a set")
def distinct() -> None:
    holds(gxe.ExpectColumnDistinctValuesToBeInSet(column="country", value_set=sorted(COUNTRIES)))


@action("mean between")
def mean() -> None:
    holds(gxe.ExpectColumnMeanToBeBetween(column="age", min_value=55, max_value=60))


@action("examples of unexpected values")
def examples() -> None:
    holds(gxe.ExpectColumnValuesToBeBetween(column="age", min_value=18, max_value=97, mostly=0.95), "BASIC")


@action("median between")
def median() -> None:
    holds(gxe.ExpectColumnMedianToBeBetween(column="age", min_value=50, max_value=65))


@action("quantiles between")
def quantiles() -> None:
    ranges = {"quantiles": [0.25, 0.75], "value_ranges": [[30, 45], [70, 85]]}
    holds(gxe.ExpectColumnQuantileValuesToBeBetween(column="age", quantile_ranges=ranges))


@action("standard deviation between")
def deviation() -> None:
    holds(gxe.ExpectColumnStdevToBeBetween(column="age", min_value=15, max_value=30))


@action("minimum and maximum between")
def extremes() -> None:
    holds(gxe.ExpectColumnMinToBeBetween(column="age", min_value=17, max_value=25))
    holds(gxe.ExpectColumnMaxToBeBetween(column="age", min_value=90, max_value=98))


@action("sum between")
def total() -> None:
    holds(gxe.ExpectColumnSumToBeBetween(column="age", min_value=200_000, max_value=260_000))


@action("number of different values")
def unique_count() -> None:
    holds(gxe.ExpectColumnUniqueValueCountToBeBetween(column="country", min_value=3, max_value=5))


@action("values unique, mostly")
def unique() -> None:
    holds(gxe.ExpectColumnValuesToBeUnique(column="user_id", mostly=0.95))


@action("values match a pattern, mostly")
def pattern() -> None:
    holds(gxe.ExpectColumnValuesToMatchRegex(column="country", regex="^[A-Z]{2}$", mostly=0.95))


@action("a query as asset")
def query() -> None:
    asset = HELD["source"].add_query_asset(
        "counted", query="SELECT country, COUNT(*) AS n FROM app.users GROUP BY country"
    )
    batch = asset.add_batch_definition_whole_table("all").get_batch()
    result = batch.validate(gxe.ExpectColumnValuesToBeBetween(column="n", min_value=900, max_value=1100))
    assert result.success, result


if __name__ == "__main__":
    run("great_expectations")
