"""A shop of 100,000 customers, made from a seed: few have most of the rows, and few spend most of the money."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np

CUSTOMERS = 100_000
SEED = 20_260_701
LEAST_ROWS, SHAPE, MOST_ROWS = 3, 1.5, 2_000
"""Of a customer who buys at all: Pareto's distribution, cut."""
BUYING = 2 / 3
WHOLESALE, TIMES = 0.01, 100
"""The share of customers whose values are so many times as large."""
RETURNED = 0.05
"""The share of rows that are returns: negative values."""
CATEGORIES, PRODUCTS, REGIONS, DAYS = 8, 500, 10, 364

SCHEMA = """
CREATE TABLE customers (customer_id INTEGER PRIMARY KEY, region VARCHAR NOT NULL);
CREATE TABLE purchases (customer_id INTEGER NOT NULL REFERENCES customers, day DATE NOT NULL, week INTEGER NOT NULL,
    product INTEGER NOT NULL, category VARCHAR NOT NULL, value DECIMAL(12, 2) NOT NULL);
"""
POLICY = f"""
[tables.customers]
privacy_unit = "customer_id"
unique = ["customer_id"]
[tables.customers.columns]
region = {{ domain = [{", ".join(f'"R{n}"' for n in range(REGIONS))}] }}

[tables.purchases]
privacy_unit = "customer_id"
privacy_unit_path = ["customer_id -> customers.customer_id"]
[tables.purchases.columns]
day = {{ range = ["2025-01-01", "2025-12-30"] }}
week = {{ range = [1, 52] }}
category = {{ domain = [{", ".join(f'"K{n}"' for n in range(CATEGORIES))}] }}
"""
"""Neither row caps nor bounds of values."""


def make(file: Path, customers: int = CUSTOMERS) -> None:
    """Makes the DuckDB file of the shop."""
    draw = np.random.default_rng(SEED)
    rows = np.minimum(LEAST_ROWS * (1 + draw.pareto(SHAPE, customers)), MOST_ROWS).astype(np.int64)
    rows[draw.random(customers) >= BUYING] = 0
    heavy = np.where(draw.random(customers) < WHOLESALE, TIMES, 1)
    customer = np.repeat(np.arange(customers), rows)
    size = len(customer)
    product = (PRODUCTS * draw.random(size) ** 3).astype(np.int64)
    value = draw.lognormal(np.log(20), 0.8, size) * heavy[customer]
    value[draw.random(size) < RETURNED] *= -1
    # More is bought towards the end of the year.
    day = (DAYS * np.sqrt(draw.uniform(0.25, 1, size)) * 2 - DAYS).astype(np.int64).clip(0, DAYS - 1)
    purchases = {"customer": customer, "day": day, "product": product, "value": value}
    regions = {"customer": np.arange(customers), "region": draw.integers(0, REGIONS, customers)}
    with duckdb.connect(file) as connection:
        connection.execute(SCHEMA)
        connection.register("drawn_regions", regions)
        connection.register("drawn", purchases)
        connection.execute("INSERT INTO customers SELECT customer, 'R' || region FROM drawn_regions")
        connection.execute(
            "INSERT INTO purchases SELECT customer, DATE '2025-01-01' + day::INTEGER, 1 + day // 7, product, "
            f"'K' || product % {CATEGORIES}, value FROM drawn"
        )
