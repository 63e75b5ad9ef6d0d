"""A small shop in DuckDB with its policy: what the tests of configuration, backend and front share."""

from __future__ import annotations

from pathlib import Path

import duckdb

from dpproxy.backends.duckdb.adapter import DuckDBBackend
from dpproxy.catalog.build_policy import build_policy, open_backend
from dpproxy.config.sections import Config, load
from rewriter.policy import Policy

SCHEMA = """
CREATE SCHEMA app;
CREATE TYPE size AS ENUM ('small', 'it''s large');
CREATE TABLE users (user_id BIGINT PRIMARY KEY, country VARCHAR, birth_year INTEGER, email VARCHAR);
CREATE TABLE products (product_id INTEGER PRIMARY KEY, name VARCHAR NOT NULL, color VARCHAR);
CREATE TABLE orders (
    order_id BIGINT PRIMARY KEY, user_id BIGINT REFERENCES users (user_id), placed TIMESTAMP, note JSON);
CREATE TABLE items (
    order_id BIGINT REFERENCES orders (order_id), product_id INTEGER REFERENCES products (product_id),
    size size, price DECIMAL(9, 2), extra STRUCT(x INTEGER), UNIQUE (order_id, product_id));
CREATE TABLE app.visits (visitor BIGINT, page VARCHAR, seen TIMESTAMP WITH TIME ZONE);
CREATE TABLE secrets (x INTEGER);
COMMENT ON TABLE users IS 'Who buys';
COMMENT ON COLUMN users.country IS 'Where it''s sent';
INSERT INTO users VALUES (1, 'DE', 1970, 'a@b'), (2, 'FR', NULL, 'c@d'), (3, NULL, 1990, NULL);
INSERT INTO products VALUES (1, 'cup', 'red'), (2, 'plate', 'red'), (3, 'fork', NULL);
INSERT INTO orders VALUES (10, 1, '2024-05-01 10:00:00', '{}'), (11, 2, '2024-06-01', NULL), (12, 1, NULL, NULL);
INSERT INTO items VALUES (10, 1, 'small', 3.50, NULL), (10, 2, 'it''s large', 9, NULL), (11, 1, 'small', 3.25, NULL);
"""

POLICY = """
[backend]
url = "duckdb:///shop.duckdb"
memory = "500MB"

[tables.users]
privacy_unit = "user_id"
[tables.users.columns]
country = { domain = ["DE", "FR", "US"], nullable = true }
birth_year = { range = [1900, 2020], nullable = true }
email = { hidden = true }

[tables.products]
public = true
unique = ["name"]

[tables.orders]
privacy_unit = "user_id"
privacy_unit_path = ["user_id -> users.user_id"]
max_rows_per_unit = 100
[tables.orders.columns]
placed = { range = ["2024-01-01", "2024-12-31"] }

[tables.items]
privacy_unit_path = ["order_id -> orders.order_id"]
unique = ["order_id, product_id"]
max_groups_per_unit = { product_id = 7, "product_id, size" = 9 }
[tables.items.columns]
product_id = { domain_from = "products.product_id" }
size = { domain_from = "type", nullable = true }
price = { bounds = [0, 99.5], scale = 2 }

[tables."app.visits"]
privacy_unit = "visitor"
privacy_unit_path = ["visitor -> users.user_id"]
"""


def make(folder: Path, policy: str = POLICY, schema: str = SCHEMA) -> Path:
    """Writes the database and its dpproxy.toml; gives the latter."""
    with duckdb.connect(folder / "shop.duckdb") as database:
        database.execute(schema)
    return write(folder, policy)


def write(folder: Path, policy: str) -> Path:
    """Writes dpproxy.toml."""
    file = folder / "dpproxy.toml"
    file.write_text(policy, encoding="utf-8")
    return file


def opened(file: Path) -> tuple[Config, DuckDBBackend, Policy]:
    """Configuration, backend and policy of a dpproxy.toml."""
    config = load(file)
    backend = open_backend(config, slots=2)
    assert isinstance(backend, DuckDBBackend)
    return config, backend, build_policy(config, backend.schema(), backend)
