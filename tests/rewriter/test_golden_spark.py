"""What Spark is sent for each feature: histograms, bins, items, weights, events by time, or why it is refused.

DPPROXY_UPDATE_GOLDEN=1 writes what is sent now; read the difference before you commit it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from rewriter.emit.engines.spark import SPARK
from rewriter.emit.histogram import check_dialect, histogram_query
from rewriter.emit.other_queries import (
    ONE,
    QueryContext,
    bins_query,
    items_query,
    running_query,
    weights_query,
)
from rewriter.ir.measure import Count, DistinctItems, Moment, Quantiles, Running
from rewriter.logical.key_domains import domain_queries
from rewriter.logical.plan import AggregateNode
from rewriter.logical.split import split_query
from rewriter.plan import HistogramQuery
from rewriter.refusal import Refusal
from tests.rewriter.bounded import MEASURED as POLICY
from tests.rewriter.queries import TRUNCATED

GOLDEN = Path(__file__).with_name("golden_spark.txt")
FEATURES = (
    "SELECT COUNT(*) FROM users WHERE birth_year / 2 > 990 AND job_title LIKE 'a%'",
    "SELECT COUNT(*) FROM users WHERE COALESCE(birth_year, '1990') > 1980 AND signup_date < '2024-05-01'",
    "SELECT COUNT(*) FROM users WHERE signup_date < 'infinity'",
    "SELECT country, birth_year, COUNT(*) FROM users GROUP BY 1, 2",
    "SELECT signup_date, COUNT(*) FROM users GROUP BY 1",
    "SELECT amount, COUNT(DISTINCT user_id) FROM events GROUP BY amount ORDER BY 2 DESC LIMIT 5",
    "SELECT date_trunc('hour', ts), COUNT(DISTINCT user_id) FROM events GROUP BY 1 ORDER BY 2 DESC LIMIT 5",
    "SELECT action, SUM(quantity), AVG(amount), VARIANCE(amount) FROM events GROUP BY action",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY amount) FROM events",
    "SELECT MIN(ts), MAX(signup_date) FROM events JOIN users USING (user_id)",
    "SELECT device, ts::date, SUM(COUNT(*)) OVER (PARTITION BY device ORDER BY ts::date) FROM events GROUP BY 1, 2",
    "SELECT COUNT(DISTINCT device) FROM events",
    "SELECT DISTINCT device FROM events",
    "SELECT topic, COUNT(*) FROM events JOIN articles USING (article_id) GROUP BY topic",
    "SELECT COUNT(*) FROM users u WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.user_id = u.user_id)",
    "SELECT n, COUNT(*) FROM (SELECT user_id, SUM(quantity) AS n FROM events GROUP BY user_id) t GROUP BY n "
    "ORDER BY 2 DESC LIMIT 5",
    "SELECT COUNT(*) FROM (SELECT user_id, row_number() OVER (PARTITION BY user_id ORDER BY ts) AS k FROM events) t "
    "WHERE k = 2",
    "SELECT COUNT(*) FROM users WHERE job_title ~ '^a'",
    "SELECT COUNT(*) FROM events WHERE power(amount, 2) > 9",
    "SELECT COUNT(*) FROM users WHERE job_title LIKE '%a%b%c%d%'",
    *TRUNCATED,
)


def queries(node: AggregateNode) -> Iterator[tuple[str, HistogramQuery]]:
    """Everything that the backend can be asked about a node."""
    backend = QueryContext(POLICY, (), SPARK)
    keys = len(node.keys)
    domain = domain_queries(node.relation, node.keys, POLICY, ()) if keys else None
    cells = ((),) if not keys else None if domain is None else (("x",) * keys,)
    some = cells or (("x",) * keys,)
    if any(isinstance(m, (Count, Moment)) for m in node.measures):
        yield "histogram", histogram_query(node, POLICY, (), cells, node.bound.value, 21, SPARK)
    for place, measure in enumerate(node.measures):
        if isinstance(measure, Quantiles):
            yield "bins", bins_query(node, place, some, 16, node.bound.value, backend)
        elif isinstance(measure, DistinctItems):
            yield "items", items_query(node, place, some, 2, node.bound.value, backend)
        elif isinstance(measure, Running):
            yield "running", running_query(node, ("2024-01-01",), backend)
    if not node.measures and keys:
        yield "weights", weights_query(node, (), 3, 0, backend)
        yield "weights", weights_query(node, ("mark",), 3, 1, backend, floor=ONE)
        yield "weights", weights_query(node, ("mark",), 3, 1, backend, floor=0, marked=True)


def sent(sql: str) -> Iterator[str]:
    yield sql
    for node in split_query(sql, POLICY).nodes:
        assert isinstance(node, AggregateNode)
        try:
            check_dialect(node, POLICY, (), SPARK)
        except Refusal as refusal:
            yield f"REFUSED {refusal.code} at {refusal.position}: {refusal.message}"
            continue
        for what, query in queries(node):
            yield f"{what}, {len(query.arrays)} columns of cells{', the secret' if query.rank_key else ''}:"
            yield query.sql


def test_what_spark_is_sent() -> None:
    now = "\n\n".join("\n".join(sent(sql)) for sql in FEATURES) + "\n"
    if os.environ.get("DPPROXY_UPDATE_GOLDEN") == "1":
        GOLDEN.write_text(now)
    assert now == GOLDEN.read_text()
    assert " CAST(" not in now, "a cast that is not tried can raise"
    assert re.search(r"\$\d", now) is None, "Spark has no parameters by number"
