"""TPC-H, TPC-DS and ClickBench for `make coverage`, small: a few queries over hundreds of rows, on both backends."""

from __future__ import annotations

import io
import tarfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

import duckdb
import pytest
from rich.console import Console

from benchmarks.corpora import clickbench, tpcds, tpch
from benchmarks.corpora.coverage import CorpusStatement, Outcome
from benchmarks.corpora.suite import QueryOutcome, Suite, part, run, summary
from benchmarks.page_parts import rewritten

CUSTOMERS = 400
MADE = {
    "region": "SELECT 0, 'ASIA', ''",
    "nation": "SELECT i, 'NATION ' || i, 0, '' FROM range(2) AS r(i)",
    "supplier": "SELECT 1, 'Supplier', '', 0, '', 0, ''",
    "part": "SELECT 1, 'part', '', '', '', 1, '', 1, ''",
    "partsupp": "SELECT 1, 1, 7, 2, ''",
    "customer": f"SELECT i, 'C', '', i % 2, '13-', 100, 'BUILDING', '' FROM range({CUSTOMERS}) AS r(i)",
    "orders": f"SELECT i, i, 'F', 1000, DATE '1994-01-01', '1-URGENT', '', 0, '' FROM range({CUSTOMERS}) AS r(i)",
    "lineitem": "SELECT i // 2, 1, 1, i % 2, 10, 50000, 0.05, 0, 'R', 'F', DATE '1994-02-01', DATE '1994-03-01', "
    f"DATE '1994-04-01', 'NONE', 'MAIL', '' FROM range({2 * CUSTOMERS}) AS r(i)",
}
QUERIES = (
    "SELECT n_name, SUM(l_extendedprice * (1 - l_discount)) AS revenue FROM customer, orders, lineitem, nation "
    "WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND c_nationkey = n_nationkey "
    "AND o_orderdate < DATE '1995-01-01' GROUP BY n_name ORDER BY revenue DESC",
    "SELECT SUM(ps_supplycost * ps_availqty) FROM partsupp",
    "SELECT c_custkey, COUNT(*) FROM customer GROUP BY c_custkey",
    "SELECT CAST(COUNT(*) AS string) FROM customer",
    "SELECT o_clerk FROM orders GROUP BY o_clerk",
)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[QueryOutcome]:
    folder: Path = tmp_path_factory.mktemp("tpch")
    return run(tpch.SUITE, _made(folder), QUERIES, Console(quiet=True))


def _made(folder: Path) -> Mapping[str, Path]:
    with duckdb.connect() as connection:
        for name in tpch.TABLES:
            connection.execute(f"COPY ({MADE[name]}) TO '{folder / name}.csv' (FORMAT csv, HEADER)")
    return {name: folder / f"{name}.csv" for name in tpch.TABLES}


@pytest.mark.service
def test_answers_prices_and_refusals_on_both_engines(found: list[QueryOutcome]) -> None:
    joined, public, unit, misspelt, _ = found
    for one in joined.outcomes:
        assert (one.code, one.released, one.price) == ("", 2, 1)
        assert one.error is not None
        assert one.error > 0
    assert [(one.released, one.price, one.error) for one in public.outcomes] == [(1, 0, 0)] * 2
    assert [one.code for one in unit.outcomes] == ["PV011"] * 2
    assert "cannot be released" in unit.outcomes[0].why
    assert [one.code for one in misspelt.outcomes] == ["42704"] * 2
    assert not any(one.unnamed for one in found)


@pytest.mark.service
def test_the_page_has_a_line_for_each_engine_and_query(found: list[QueryOutcome]) -> None:
    page = part(tpch.SUITE, found)
    assert (
        "- PostgreSQL: of 5 queries 2 answered, 0 empty although the true answer has rows, 3 refused" in page
    )
    assert "| Q2 | 1 of 1 | 0 | 0.00% |  |" in page
    assert "| Q3 | refused |  |  | PV011 " in page


@pytest.mark.service
def test_what_a_line_of_policy_would_turn_is_said(found: list[QueryOutcome]) -> None:
    assert [one.code for one in found[4].outcomes] == ["PV024"] * 2
    assert found[4].lines == '[tables.orders.columns] o_clerk = { domain = ["A", "B", "C"] }'
    assert f"→ `{found[4].lines}` |" in part(tpch.SUITE, found)


def test_an_error_without_a_name_is_counted() -> None:
    statement = CorpusStatement("x", "SELECT 1", True)
    named, unnamed = (Outcome(statement, code=code, why="no") for code in ("PV010", "XX000"))
    one = QueryOutcome([], (named, unnamed))
    assert one.unnamed == ["XX000"]
    duck, postgres = summary([one])
    assert "errors with an undocumented code 0" in duck
    assert "errors with an undocumented code 1" in postgres


def test_users_have_several_hits_and_the_same_ones_every_time() -> None:
    rows = clickbench.rows_query(100)
    with duckdb.connect() as connection:
        users = "SELECT COUNT(*), MAX(n) FROM (SELECT COUNT(*) AS n FROM ({}) GROUP BY userid)"
        assert connection.execute(users.format(rows)).fetchone() == (100, 60)
        assert connection.execute(f"({rows}) EXCEPT ({rows})").fetchall() == []


def test_queries_are_read_from_a_file_and_from_a_package(tmp_path: Path) -> None:
    plain = tmp_path / "queries.sql"
    plain.write_text("SELECT 1;\nSELECT 2;\n")
    assert tpch.queries(plain) == ["SELECT 1", "SELECT 2"]
    text = b"---\n-- TPC-H 1\n---\nselect 1;\nSELECT 'optimized';\n"
    packed = tmp_path / "package.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        member = tarfile.TarInfo("package/tests/tpc-h/tpc-h.sql")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
    assert tpch.queries(packed) == ["select 1"]


def test_each_part_of_the_page_stays_when_another_is_written() -> None:
    page = rewritten(rewritten("# Coverage\n", "tpch", "## TPC-H"), "clickbench", "## ClickBench")
    assert rewritten(page, "tpch", "## New") == page.replace("## TPC-H", "## New")
    assert rewritten(page, "", "# New") == page.replace("# Coverage", "# New")


SALES = """CREATE TABLE customer(c_customer_sk BIGINT, c_current_addr_sk BIGINT, PRIMARY KEY(c_customer_sk));
CREATE TABLE item(i_item_sk BIGINT, i_brand VARCHAR, PRIMARY KEY(i_item_sk));
CREATE TABLE web_sales(ws_sold_date_sk BIGINT, ws_item_sk BIGINT, ws_bill_customer_sk BIGINT, \
ws_order_number BIGINT, ws_quantity BIGINT);"""


def test_the_policy_of_tpcds_names_customers_and_what_keys_lead_to() -> None:
    declared = tomllib.loads(tpcds.policy(SALES))["tables"]
    assert declared["customer"]["privacy_unit"] == "c_customer_sk"
    assert declared["item"] == {"public": True}
    sales = declared["web_sales"]
    assert sales["privacy_unit_path"] == ["ws_bill_customer_sk -> customer.c_customer_sk"]
    assert sales["columns"] == {
        "ws_sold_date_sk": {"range": [2450815, 2453005]},
        "ws_item_sk": {"domain_from": "item.i_item_sk"},
        "ws_order_number": {"of_unit": True},
        "ws_quantity": {"range": [1, 100]},
    }


def test_what_the_generator_of_tpcds_writes_is_read(tmp_path: Path) -> None:
    (tmp_path / "schema.sql").write_text(SALES)
    (tmp_path / "queries.sql").write_text("SELECT 1;\nSELECT 2;\n")
    (tmp_path / "item.csv").write_text("i_item_sk,i_brand\n")
    suite, files, queries = tpcds.read(tmp_path)
    assert (suite.schema, files, queries) == (
        SALES,
        {"item": tmp_path / "item.csv"},
        ["SELECT 1", "SELECT 2"],
    )
    assert len(suite.unanswerable) == 17


def test_queries_that_cannot_be_answered_are_told_from_those_that_are_not() -> None:
    refused = Outcome(CorpusStatement("x", "SELECT 1", True), code="PV011", why="no")
    whole = Outcome(CorpusStatement("x", "SELECT 1", True), rows=True, released=1, price=1)
    found = [
        QueryOutcome([("1",)], (one, one), unanswerable=why) for one, why in ((whole, ""), (refused, "lists"))
    ]
    page = part(Suite("TPC-DS", "", "", ""), found)
    assert "of 2 queries 1 answered" in page
    assert "of the 1 that can be answered at all 1 are." in page
    assert "| Q2 | refused |  |  | PV011 no (cannot be answered: it lists) |" in page
