"""Whatever numbers [privacy] takes, every kind of question is answered; what would refuse a kind is not taken."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pydantic import ValidationError

from dpproxy.backends.base import Cancellation
from dpproxy.config.key_file import Keys
from dpproxy.config.sections import Privacy
from dpproxy.deployment.service import Service, configured
from dpproxy.engine.executor import QueryEngine
from dpproxy.engine.last_release import LastRelease
from dpproxy.engine.optimizer import plan_release
from dpproxy.engine.options import terms
from dpproxy.engine.planner import BoundNode, Planner
from dpproxy.engine.release_keys import ReleaseKeys
from dpproxy.engine.request import QueryRequest

pytestmark = pytest.mark.service

POLICY = """
[backend]
url = "duckdb:///orders.duckdb"
[budget]
mode = "track"
[tables.orders]
privacy_unit = "id"
max_rows_per_unit = 12
max_rows_per_unit_per_group = 12
max_groups_per_unit = { "town" = 2 }
[tables.orders.columns]
item = {}
shop = { domain = ["north", "south"] }
amount = { bounds = [0, 100], scale = 2 }
pieces = { range = [0, 9] }
age = { range = [0, 499] }
street = { range = [0, 19999] }
day = { range = ["2024-01-01", "2024-12-31"] }
"""
ROWS = """
CREATE TABLE orders (id INTEGER NOT NULL, shop VARCHAR, item VARCHAR, town VARCHAR, amount DOUBLE, pieces INTEGER,
    age INTEGER, street INTEGER, day DATE);
INSERT INTO orders SELECT i // 2, ['north', 'south'][1 + i % 2], 'item ' || i % 5, 'town ' || i // 2 % 3, i % 100,
    i % 10, i % 50, i % 7, DATE '2024-01-01' + CAST(i % 366 AS INTEGER) FROM range(600) r(i)
"""
KNOWN = (
    "SELECT COUNT(*) FROM orders",
    "SELECT shop, COUNT(DISTINCT id) FROM orders GROUP BY 1",
    "SELECT shop, SUM(amount), AVG(amount), STDDEV(amount) FROM orders GROUP BY 1",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY amount) FROM orders",
    "SELECT MAX(amount) FROM orders",
    "SELECT COUNT(DISTINCT pieces) FROM orders",
    "SELECT age, COUNT(DISTINCT id) FROM orders GROUP BY 1 ORDER BY 2 DESC LIMIT 10",
    "SELECT age, COUNT(DISTINCT id) FROM orders GROUP BY 1",
)
"""Questions whose groups are known."""
SPENDING = (
    "SELECT street, COUNT(DISTINCT id) FROM orders GROUP BY 1",
    "SELECT COUNT(DISTINCT item) FROM orders",
)
"""Further ones, which Laplace noise does not answer."""
UNKNOWN = (
    "SELECT town, SUM(amount) FROM orders GROUP BY 1",
    "SELECT town, COUNT(DISTINCT id) FROM orders GROUP BY 1",
    "SELECT item, COUNT(DISTINCT id) FROM orders GROUP BY 1 ORDER BY 2 DESC LIMIT 100000",
)
"""Questions that need calls."""
UNKNOWN_SPENDING = (
    "SELECT item, COUNT(DISTINCT id) FROM orders GROUP BY 1",
    "SELECT item, COUNT(*), SUM(amount) FROM orders GROUP BY 1",
    "SELECT DISTINCT item FROM orders",
    "SELECT item, day, SUM(COUNT(*)) OVER (PARTITION BY item ORDER BY day) FROM orders GROUP BY item, day",
)
"""Both."""
EDGES: Mapping[str, tuple[object, ...]] = {
    "epsilon_per": (Fraction(1, 1000), Fraction(3)),
    "delta_per": (Fraction(1, 5 * 10**11), Fraction(9, 100)),
    "delta_prime": (Fraction(1, 10**30), Fraction(999, 1000)),
    "relative_error": (Fraction(1, 1000), Fraction(999, 1000)),
    "quantile_bins": (2, 1 << 20),
    "d_bar": (1, 1_000_000),
    "max_k": (1, 100_000),
    "max_items_per_unit": (1, 4096),
    "least_weight": (0, 2048),
}
"""The least and the greatest value, with all else as by default."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder: Path = tmp_path_factory.mktemp("limits")
    with duckdb.connect(folder / "orders.duckdb") as connection:
        connection.execute(ROWS)
    file = folder / "dpproxy.toml"
    file.write_text(POLICY)
    with Service.start(configured(file), alone=True) as running:
        yield running


def questions(privacy: Privacy) -> Iterator[str]:
    """Those that are answered with a noise and a delta_per at all."""
    yield from KNOWN
    gaussian, calls = privacy.noise == "gaussian", privacy.delta_per > 0
    yield from (*(SPENDING if gaussian else ()), *(UNKNOWN if calls else ()))
    yield from UNKNOWN_SPENDING if gaussian and calls else ()


ALONE: list[dict[str, Any]] = [
    *({name: value} for name, values in EDGES.items() for value in values),
    {"delta_per": Fraction(0)},
    {"epsilon_per": Fraction(16), "query_information": Fraction(2)},
    {"epsilon_per": Fraction(16), "noise": "laplace"},
    {"epsilon_per": Fraction(1, 1000), "noise": "laplace"},
    {"delta_per": Fraction(1, 1 << 100), "noise": "laplace"},
    {"delta_per": Fraction(1, 10**22), "query_calls": Fraction(10**11)},
    {"query_information": Fraction(1, 40_000)},
    {"query_information": Fraction(22_755)},
    {"query_calls": Fraction(1, 10)},
    {"query_calls": Fraction(4_999_999_999)},
]


@pytest.mark.parametrize("numbers", ALONE, ids=str)
def test_every_kind_of_question_is_answered_at_the_edges(service: Service, numbers: dict[str, Any]) -> None:
    privacy = Privacy(**numbers)
    config = service.config.model_copy(update={"privacy": privacy})
    planner = Planner(service.checked.policy, service.front, service.checked.backend.dialect)
    engine = QueryEngine(
        config,
        planner,
        service.checked.backend,
        service.ledger,
        Keys(bytes(32)),
        lambda _: None,
        service.generation,
    )
    for sql in questions(privacy):
        engine.prepare(sql, ())
        engine.execute(QueryRequest(sql, (), str(numbers)[:60], (), {}, Cancellation(), LastRelease()))


@pytest.mark.parametrize(
    "numbers",
    [
        {"epsilon_per": Fraction(400)},
        {"epsilon_per": Fraction(17)},
        {"epsilon_per": Fraction(33, 10)},
        {"epsilon_per": Fraction(9, 10_000)},
        {"epsilon_per": Fraction(16), "query_information": Fraction(201, 100)},
        {"delta_per": Fraction(1, 10**400)},
        {"delta_per": Fraction(1, 10**12)},
        {"delta_per": Fraction(14, 100)},
        {"epsilon_per": Fraction(1), "delta_per": Fraction(1, 10)},
        {"delta_prime": Fraction(1, 10**31)},
        {"relative_error": Fraction(9, 10_000)},
        {"quantile_bins": (1 << 20) + 1},
        {"d_bar": 1_000_001},
        {"max_k": 100_001},
        {"max_items_per_unit": 4097},
        {"least_weight": 2049},
        {"query_information": Fraction(0)},
        {"query_information": Fraction(1, 50_000)},
        {"query_information": Fraction(22_756)},
        {"query_calls": Fraction(0)},
        {"query_calls": Fraction(9, 100)},
        {"query_calls": Fraction(5 * 10**9)},
        {"allowances": {"count_release": Fraction(1, 50_000)}},
        {"allowances": {"partition_selection": Fraction(1, 10**9)}},
    ],
    ids=str,
)
def test_what_would_refuse_a_kind_of_question_is_refused(numbers: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Privacy(**numbers)


def test_all_numbers_together(service: Service) -> None:
    """Every combination of edges is either not taken, or has a mechanism for every question."""
    planner = Planner(service.checked.policy, service.front, service.checked.backend.dialect)
    nodes: dict[str, BoundNode] = {}
    for sql in (*KNOWN, *SPENDING, *UNKNOWN, *UNKNOWN_SPENDING):
        planner.prepare(sql, ())
        (node,) = planner.plan(sql, (), ())
        assert isinstance(node, BoundNode)
        nodes[sql] = node
    names = ("epsilon_per", "delta_per", "relative_error", "quantile_bins", "max_items_per_unit")
    values = (
        *((*EDGES[name], getattr(Privacy(), name)) for name in names),
        (Fraction(1, 1000), Fraction(50), Fraction(5000)),
        (Fraction(1, 10), Fraction(5), Fraction(10**6)),
        ("gaussian", "laplace"),
    )
    taken = 0
    for numbers in itertools.product(*values):
        try:
            privacy = Privacy(
                **dict(zip((*names, "query_information", "query_calls", "noise"), numbers, strict=True))
            )
        except ValidationError:
            continue
        taken += 1
        # Planning is slow where new thresholds have to be computed: every seventh stands for all.
        if taken % 7 == 0:
            for sql in questions(privacy):
                plan_release(nodes[sql], terms(privacy, {}), ReleaseKeys(bytes(32), b"nonce", b"streams"))
    assert taken > 1000
