"""TPC-DS: its tables and queries out of the generator, and the policy that an owner of them might write."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.corpora.suite import Suite
from benchmarks.corpora.tpch import statements

SCALE = 0.1
CUSTOMER_OF = {
    "store_sales": "ss_customer_sk",
    "store_returns": "sr_customer_sk",
    "catalog_sales": "cs_bill_customer_sk",
    "catalog_returns": "cr_refunded_customer_sk",
    "web_sales": "ws_bill_customer_sk",
    "web_returns": "wr_refunded_customer_sk",
}
"""The customer to whom a row belongs: who pays or is refunded, not who gets the goods or sends them back."""
DIMENSIONS = {
    "date": "date_dim.d_date_sk",
    "time": "time_dim.t_time_sk",
    "item": "item.i_item_sk",
    "cdemo": "customer_demographics.cd_demo_sk",
    "hdemo": "household_demographics.hd_demo_sk",
    "addr": "customer_address.ca_address_sk",
    "store": "store.s_store_sk",
    "promo": "promotion.p_promo_sk",
    "call_center": "call_center.cc_call_center_sk",
    "catalog_page": "catalog_page.cp_catalog_page_sk",
    "ship_mode": "ship_mode.sm_ship_mode_sk",
    "warehouse": "warehouse.w_warehouse_sk",
    "reason": "reason.r_reason_sk",
    "web_page": "web_page.wp_web_page_sk",
    "web_site": "web_site.web_site_sk",
}
"""The public table to which a foreign key leads, by the word before `_sk`."""
PUBLIC = (*(place.partition(".")[0] for place in DIMENSIONS.values()), "income_band", "inventory")
DATES = "range = [2450815, 2453005]"
"""The keys of the days from 1998 to 2003."""
POLICY = """
[privacy]
epsilon_per = 0.15
[budget]
information = 1000000
calls = 100000
period = "none"

[tables.customer]
privacy_unit = "c_customer_sk"
[tables.customer.columns]
c_preferred_cust_flag = { domain = ["N", "Y"], nullable = true }
c_birth_day = { range = [1, 31] }
c_birth_month = { range = [1, 12] }
c_birth_year = { range = [1924, 1992] }
c_current_cdemo_sk = { domain_from = "customer_demographics.cd_demo_sk" }
c_current_hdemo_sk = { domain_from = "household_demographics.hd_demo_sk" }
c_current_addr_sk = { domain_from = "customer_address.ca_address_sk" }
"""
PREFACE = f"""The 99 queries and the data are those of DuckDB's extension `tpcds`, at scale factor {SCALE:g}: 10,000
customers, 504,000 rows of sales, 50,000 of returns. The privacy unit is the customer. A sale belongs to the customer
who pays, a return to the one who is refunded; rows without one are dropped. The other tables are public:
customer_demographics and household_demographics hold every combination of their columns, whether a customer has it or
not; customer_address is taken for a register of addresses, since several customers share one. The policy is in
[benchmarks/corpora/tpcds.py](../benchmarks/corpora/tpcds.py): of foreign keys it names the table that they lead to,
of dates the years, and a ticket or an order is of one customer (of which 73% of the returns to stores, 97% of those
by catalog and 0.5% of those by web name the customer of the sale in these data; others are not joined to it). Queries
that are empty or far off ask for small groups.

What is refused of the answerable, and the least that would turn it:

| queries | why | what would turn it |
|---|---|---|
| 10, 35, 69 | goods go to another customer than the one who pays (EXISTS under OR, NOT) | rows of two customers |
| 14, 75 | INTERSECT and UNION DISTINCT of several customers' rows | sets of released rows |
| 91 | it joins the customer who returns, the policy names the one who is refunded | the other column in the policy |"""
LISTS_CUSTOMERS = "lists customers"
LISTS_PURCHASES = "lists the purchases of customers with their names"
UNANSWERABLE = {
    1: LISTS_CUSTOMERS,
    4: LISTS_CUSTOMERS,
    11: LISTS_CUSTOMERS,
    23: LISTS_CUSTOMERS,
    24: LISTS_CUSTOMERS,
    30: LISTS_CUSTOMERS,
    34: LISTS_PURCHASES,
    46: LISTS_PURCHASES,
    64: "lists purchases with the addresses of their customers",
    68: LISTS_PURCHASES,
    73: LISTS_PURCHASES,
    74: LISTS_CUSTOMERS,
    78: "lists customers with what they bought of an item",
    79: LISTS_PURCHASES,
    81: LISTS_CUSTOMERS,
    84: LISTS_CUSTOMERS,
    93: LISTS_CUSTOMERS,
}
"""Queries that no differentially private system can answer, and why."""
_TABLE = re.compile(r"CREATE TABLE (\w+)\((.*)\);")


@contextmanager
def data(python: Path, scale: float = SCALE) -> Iterator[tuple[Suite, Mapping[str, Path], list[str]]]:
    """The suite, its tables as CSV files and its queries, made by the Python of the generator's environment."""
    with TemporaryDirectory() as folder:
        script = Path(__file__).with_name("tpcds_export.py")
        subprocess.run([python, script, folder, str(scale)], check=True)
        yield read(Path(folder))


def read(folder: Path) -> tuple[Suite, Mapping[str, Path], list[str]]:
    """What `tpcds_export.py` wrote into a folder."""
    schema = (folder / "schema.sql").read_text()
    suite = Suite("TPC-DS", PREFACE, schema, policy(schema), UNANSWERABLE)
    files = {file.stem: file for file in folder.glob("*.csv")}
    return suite, files, statements((folder / "queries.sql").read_text())


def policy(schema: str) -> str:
    """The policy over the tables of a schema: whose a row is, and the domains of its foreign keys."""
    lines = [POLICY]
    for name, columns in _TABLE.findall(schema):
        if name in CUSTOMER_OF:
            path = f"{CUSTOMER_OF[name]} -> customer.c_customer_sk"
            lines += [f"[tables.{name}]", f'privacy_unit_path = ["{path}"]', "max_rows_per_unit = 100"]
            lines += [f"[tables.{name}.columns]", *_declared(columns)]
    return "\n".join([*lines, *(f"[tables.{name}]\npublic = true" for name in PUBLIC)])


def _declared(columns: str) -> Iterator[str]:
    """What is declared of the integer columns of a table."""
    for column in re.findall(r"\w+(?= BIGINT)", columns):
        word = next((word for word in DIMENSIONS if column.endswith(f"_{word}_sk")), None)
        if column.endswith(("_ticket_number", "_order_number")):
            yield f"{column} = {{ of_unit = true }}"
        elif column.endswith("_quantity"):
            yield f"{column} = {{ range = [1, 100] }}"
        elif word == "date":
            yield f"{column} = {{ {DATES} }}"
        elif word is not None:
            yield f'{column} = {{ domain_from = "{DIMENSIONS[word]}" }}'
