"""connectorx: read_sql by protocol, into each kind of frame."""

from __future__ import annotations

from typing import Any

import connectorx as cx

from tests.programs.actions import COUNTRIES, URL, action, near, run

BY_COUNTRY = "SELECT country, COUNT(*) AS n FROM app.users GROUP BY country"
BY_AGE = "SELECT age, COUNT(*) AS n FROM app.users GROUP BY age"


def counted(frame: Any) -> None:
    """Asserts the answer to BY_COUNTRY."""
    assert set(frame["country"]) == COUNTRIES
    near(sum(frame["n"]), 4000)


@action("pandas")
def pandas() -> None:
    counted(cx.read_sql(URL, BY_COUNTRY))


@action("polars")
def polars() -> None:
    counted(cx.read_sql(URL, BY_COUNTRY, return_type="polars"))


@action("arrow")
def arrow() -> None:
    counted(cx.read_sql(URL, BY_COUNTRY, return_type="arrow").to_pydict())


@action("protocol binary")
def binary() -> None:
    counted(cx.read_sql(URL, BY_COUNTRY, protocol="binary"))


@action("protocol cursor")
def cursor() -> None:
    counted(cx.read_sql(URL, BY_COUNTRY, protocol="cursor"))


@action("protocol csv")
def csv() -> None:
    counted(cx.read_sql(URL, BY_COUNTRY, protocol="csv"))


@action("partitions of an answer")
def partitioned() -> None:
    frame = cx.read_sql(URL, BY_AGE, partition_on="age", partition_range=(18, 97), partition_num=2)
    near(sum(frame["n"]), 4000)


@action("partitions of a public table")
def public() -> None:
    assert (
        len(cx.read_sql(URL, "SELECT * FROM app.articles", partition_on="article_id", partition_num=3)) == 50
    )


@action("several queries")
def several() -> None:
    halves = [
        f"SELECT country, COUNT(*) AS n FROM app.users WHERE age {sign} 58 GROUP BY country"
        for sign in ("<", ">=")
    ]
    assert len(cx.read_sql(URL, halves)) == 8


@action("metadata of a query")
def metadata() -> None:
    assert list(cx.get_meta(URL, BY_COUNTRY).columns) == ["country", "n"]


@action("times and numerics")
def times() -> None:
    text = "SELECT DATE_TRUNC('month', ts) AS month, AVG(amount) AS mean FROM app.events GROUP BY 1"
    assert len(cx.read_sql(URL, text)) == 12


@action("rows of a table")
def rows() -> None:
    cx.read_sql(URL, "SELECT * FROM app.users")


if __name__ == "__main__":
    run("connectorx")
