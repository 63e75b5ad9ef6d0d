"""The SQL of every query bounds by itself what one unit can do: read from the text, whatever was planned."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import duckdb
import pytest

from dpproxy.catalog.build_policy import build_policy, open_backend
from dpproxy.deployment.service import configured
from rewriter.emit.clipped_totals import Vectors, averages_query, clipped_query, lengths_query
from rewriter.emit.engines.base import Engine
from rewriter.emit.engines.duckdb import DUCKDB
from rewriter.emit.engines.postgres import POSTGRES
from rewriter.emit.histogram import histogram_query
from rewriter.emit.other_queries import QueryContext, bins_query, items_query, running_query, weights_query
from rewriter.ir.measure import Count, DistinctItems, Joint, Moment, Quantiles, Running, Total, Vector
from rewriter.logical.key_domains import domain_queries
from rewriter.logical.plan import AggregateNode
from rewriter.logical.split import split_query
from rewriter.plan import Cells, HistogramQuery
from rewriter.policy import Policy
from rewriter.refusal import Refusal
from rewriter.scalar.typecheck import Parameter
from tests.oracle import data
from tests.oracle.data import Shape
from tests.oracle.generator import KINDS, Generator
from tests.rewriter.bounded import MEASURED
from tests.rewriter.enforced import Walk
from tests.rewriter.fuzz import READ
from tests.rewriter.queries import ANSWERED, TRUNCATED
from tests.rewriter.shop import POLICY
from tests.stability.corpora import FILES, entries

STATEMENTS = 99
BINS, ITEMS, GROUPS = 64, 3, 3
CENTRE, LENGTH, SCALE = -7, 3, 1024
DIALECTS = (("duckdb", DUCKDB), ("postgres", POSTGRES))
Nodes = list[tuple[AggregateNode, tuple[Parameter, ...]]]


def nodes_of(sql: str, policy: Policy) -> Nodes:
    """The nodes of a statement that is not refused, its constants made up."""
    try:
        found = split_query(sql, policy, (), lambda n, _: [READ[n % len(READ)]])
    except Refusal:
        return []
    return [
        (n, found.values)
        for n in found.nodes
        if isinstance(n, AggregateNode)
        and not any(
            isinstance(m, (Moment, Total, Joint, Quantiles)) and m.value is not None and m.value.lo is None
            for m in n.measures
        )
    ]


def unbounded(sql: str, nodes: Nodes, policy: Policy, change: Callable[[str], str] = str) -> Iterator[str]:
    """What the queries of a statement's nodes do not bound, on each engine; `change` is done to their texts."""
    for node, values in nodes:
        for name, dialect in DIALECTS:
            try:
                found = list(_unbounded(node, policy, values, name, dialect, change))
            except Refusal:
                continue
            yield from (f"{name}: {what}: {sql}" for what in found)


def _unbounded(
    node: AggregateNode,
    policy: Policy,
    values: tuple[Parameter, ...],
    name: str,
    dialect: Engine,
    change: Callable[[str], str],
) -> Iterator[str]:
    delta0, backend = node.bound.value, QueryContext(policy, values, dialect)
    wide = len(node.keys)

    def walk(query: HistogramQuery, **sizes: int) -> Walk:
        walked = Walk(change(query.sql), name, wide)
        found = walked.most_rows({"cell": len(listed), **sizes})
        if found != query.most:
            said.append(f"at most {query.most} rows are said, and {found} found")
        return walked

    said: list[str] = []
    cells = _cells(node, policy, values)
    listed = cells or (("x",) * wide,)
    if node.measures and isinstance(node.measures[0], Running):
        yield from walk(running_query(node, ("2024-01-01",), backend)).running(node.measures[0])
        yield from said
        return
    if not node.measures:
        most = GROUPS if delta0 is None else min(delta0, GROUPS)
        for floor, largest in ((0, 10 * most), (1, None)):
            for left_out in ((), ("mark",)):
                query = weights_query(node, left_out, most, 0, backend, floor, largest, marked=not left_out)
                yield from walk(query).weights(most, largest)
        yield from said
        return
    numbers = tuple(m for m in node.measures if isinstance(m, (Count, Moment)))
    if numbers:
        counted = replace(node, measures=numbers, order_by=0)
        query = histogram_query(counted, policy, values, cells, delta0, 10, dialect)
        yield from walk(query).histogram(numbers, delta0)
    for place, measure in enumerate(node.measures):
        if isinstance(measure, Quantiles):
            binned = walk(bins_query(node, place, listed, BINS, delta0, backend), bin=BINS)
            yield from binned.weighted(measure) if measure.weighted else binned.bins(measure, delta0)
        elif isinstance(measure, DistinctItems):
            query = items_query(node, place, listed, ITEMS, delta0, backend)
            yield from walk(query).items(measure, ITEMS, delta0)
    yield from _totals(node, listed, backend, walk)
    units = tuple(
        Total(None, m.argument, 1, once=True)
        for m in numbers
        if isinstance(m, Count) and m.tau == 1 and not m.items
    )
    # Counts of units are totals, too, where nothing bounds the groups of a unit.
    yield from _totals(replace(node, measures=units), listed, backend, walk)
    yield from said


def _totals(
    node: AggregateNode, cells: Cells, backend: QueryContext, walk: Callable[..., Walk]
) -> Iterator[str]:
    """What the queries of a node's clipped totals do not bound, all of them together."""
    measures = [(n, m) for n, m in enumerate(node.measures) if isinstance(m, (Total, Joint))]
    if not measures:
        return
    vectors = [Vector(n) if isinstance(m, Total) else Vector(n, CENTRE, m.least) for n, m in measures]
    every = Vectors(node, vectors, cells, backend)
    joint = [v for v in vectors if isinstance(node.measures[v.place], Joint)]
    if (
        backend.dialect is DUCKDB
    ):  # how they count units is the same text on all engines, and takes long to read
        lengths = lengths_query(every, 4, BINS)
        yield from walk(lengths, i=len(vectors), bin=BINS + 1).places(every.anchors)
        if joint:
            averages = averages_query(replace(every, vectors=joint), 4, BINS)
            yield from walk(averages, i=len(joint), place=2 * BINS + 1).places()
    clips = [(LENGTH * anchor, SCALE) for anchor in every.anchors]
    parts = [1 if isinstance(m, Total) else 2 + m.squares for _, m in measures]
    yield from walk(clipped_query(every, clips)).clipped(parts, clips)


def _cells(node: AggregateNode, policy: Policy, values: tuple[Parameter, ...]) -> Cells | None:
    """Some cell of a known domain, None for an unknown one."""
    if not node.keys:
        return ((),)
    known = domain_queries(node.relation, node.keys, policy, values) is not None
    return (("1",) * len(node.keys),) if known else None


def none(statements: list[str], policy: Policy) -> int:
    """How many of the statements have nodes; none of them may leave a unit unbounded."""
    nodes = [(sql, nodes_of(sql, policy)) for sql in statements]
    found = [what for sql, its in nodes for what in unbounded(sql, its, policy)]
    assert not found, f"{len(found)} queries do not bound a unit, such as:\n" + "\n".join(found[:5])
    return sum(bool(its) for _, its in nodes)


@pytest.mark.statistical
def test_the_sql_of_answered_queries_bounds_a_unit() -> None:
    assert none([*ANSWERED, *TRUNCATED], POLICY) > 100


@pytest.mark.statistical
def test_the_sql_of_the_corpora_bounds_a_unit(shared: Path, tmp_path: Path) -> None:
    corpora = shared / "corpora"
    schema = (corpora / "schema.sql").read_text()
    written = (corpora / "dpproxy.toml").read_text()
    statements = [str(e["sql"]) for f in FILES for e in entries(corpora / f)]
    assert none(statements, built(schema, written, tmp_path)) > 100


@pytest.mark.statistical
def test_the_sql_of_generated_statements_bounds_a_unit(tmp_path: Path) -> None:
    tables = data.tables(Shape(dict.fromkeys(data.TEXTS, "VARCHAR"), "bigint"), "duckdb")
    schema = ";".join(f"CREATE TABLE {name} ({columns})" for name, columns in tables.items())
    policy = built(schema, data.policy(), tmp_path)
    visible = {t.name: frozenset(c.name for c in t.columns if not c.hidden) for t in policy.tables.values()}
    statements = [
        Generator(Random(f"enforced {n}"), visible).statement(KINDS[n % len(KINDS)])[0]
        for n in range(STATEMENTS)
    ]
    assert none(statements, policy) > STATEMENTS // 2


def built(schema: str, tables: str, folder: Path) -> Policy:
    """The policy of a file's tables over an empty DuckDB file."""
    with duckdb.connect(folder / "empty.duckdb") as connection:
        connection.execute(schema)
    file = folder / "dpproxy.toml"
    file.write_text('[backend]\nurl = "duckdb:///empty.duckdb"\n' + tables)
    config = configured(file)
    backend = open_backend(config, slots=1)
    try:
        policy = build_policy(config, backend.schema(), backend)
    finally:
        backend.close()
    found = {key: replace(table, backend_name=(table.name,)) for key, table in policy.tables.items()}
    return replace(policy, tables=found)


GROUPED = "SELECT e.device, COUNT(*), SUM(LEAST(GREATEST(e.quantity, 0), 9)) FROM events e GROUP BY e.device"


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("q._n <= 3", "q._n <= 4"),
        ("q._n <= 3", "q._n > 3"),
        ("_k0 <= 500", "_k0 <= 501"),
        ("LEAST(COUNT(*), 500)", "COUNT(*)"),
        ("_rows <= 500\n", "_rows <= 600\n"),
        ("PARTITION BY _o, g0", "PARTITION BY g0"),
        ("PARTITION BY _o\n", "PARTITION BY g0\n"),
        ("_o,\n    g0\n)", "_o\n)"),
    ],
)
def test_a_query_that_bounds_less_is_noticed(right: str, wrong: str) -> None:
    ((node, values),) = nodes_of(GROUPED, POLICY)
    sql = histogram_query(node, POLICY, values, None, node.bound.value, 10, DUCKDB).sql
    assert right in sql
    assert not list(Walk(sql, "duckdb", 1).histogram(node.measures, 3))
    found = list(Walk(sql.replace(right, wrong), "duckdb", 1).histogram(node.measures, 3))
    assert found


@pytest.mark.parametrize(
    ("sql", "right", "wrong"),
    [
        (
            "SELECT device, PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY amount) FROM events GROUP BY device",
            r,
            w,
        )
        for r, w in (
            ("_d <= 3", "_d <= 9"),
            ("_k <= 400", "_k <= 500"),
            ("PARTITION BY _o\n", "PARTITION BY 1\n"),
        )
    ]
    + [
        ("SELECT device, COUNT(DISTINCT article_id) FROM events GROUP BY device", r, w)
        for r, w in (("_d <= 3", "_d > 3"), ("_k <= 3", "_k <= 4"), ("PARTITION BY _o\n", "PARTITION BY 1\n"))
    ]
    + [
        ("SELECT DISTINCT article_id FROM events", r, w)
        for r, w in (
            ("_k <= 3", "_k <= 4"),
            ("  n <= 3", "  n <= 4"),
            ("PARTITION BY _o\n", "PARTITION BY 1\n"),
        )
    ]
    + [
        (
            "SELECT device, date_trunc('month', ts), SUM(COUNT(*)) OVER (PARTITION BY device"
            " ORDER BY date_trunc('month', ts)) FROM events GROUP BY 1, 2",
            r,
            w,
        )
        for r, w in (("_k <= 400", "_k <= 500"), ("PARTITION BY _o\n", "PARTITION BY 1\n"))
    ],
)
def test_a_query_of_another_measure_that_bounds_less_is_noticed(sql: str, right: str, wrong: str) -> None:
    assert nodes_of(sql, MEASURED)
    nodes = nodes_of(sql, MEASURED)
    assert not list(unbounded(sql, nodes, MEASURED))
    assert list(unbounded(sql, nodes, MEASURED, lambda text: text.replace(right, wrong)))


UNITS = (
    "SELECT device, COUNT(DISTINCT user_id), COUNT(DISTINCT user_id) FILTER (WHERE quantity > 1) FROM events"
    " GROUP BY device"
)
CLIPPED = "SELECT device, COUNT(*), SUM(quantity), AVG(amount) FROM events GROUP BY device"
WHOLE = "SELECT COUNT(*), SUM(quantity), AVG(amount) FROM events"
WEIGHTED = "SELECT device, PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY amount) FROM events GROUP BY device"


@pytest.mark.parametrize(
    ("sql", "right", "wrong"),
    [
        (UNITS, r, w)
        for r, w in (
            ("n.q1 <= ", "n.q1 < 1 OR n.q1 > "),
            ("JOIN n\n", "LEFT JOIN n\n"),
            ("3071.999999996928", "3072.5"),
            ("ON d._n = 1 AND ", "ON "),
        )
    ]
    + [
        (CLIPPED, r, w)
        for r, w in (
            ("n.q0 <= ", "n.q0 < 1 OR n.q0 > "),
            ("n.q1 <= ", "n.q0 <= "),
            ("t._o = n._o", "TRUE"),
            ("JOIN n\n", "LEFT JOIN n\n"),
            ("FROM t\n  GROUP BY\n    _o\n", "FROM t\n  GROUP BY\n    _o,\n    cell\n"),
            ("FROM u\n", "FROM u, u AS x\n"),
            ("AS INT128", "AS DOUBLE"),
            ("FLOOR(", "ABS("),
            (") AS q1", ") * 0 AS q1"),
            ("CAST(w1 AS INT128) * CAST(w1 AS INT128)", "CAST(v1 AS INT128) * CAST(v1 AS INT128)"),
            ("3071.999999996928", "3072.5"),
            ("ON d._n = 1 AND ", "ON "),
            ("FROM n\n  CROSS", "FROM u\n  CROSS"),
        )
    ]
    + [
        (WHOLE, r, w)
        for r, w in (
            ("n.q0 <= ", "n.q0 < 1 OR n.q0 > "),
            ("n.q1 <= ", "n.q0 <= "),
            ("FROM r\n  GROUP BY\n    _o\n", "FROM r\n  GROUP BY\n    _o,\n    y2\n"),
            ("FROM pu\n", "FROM pu, pu AS x\n"),
            ("FROM u\n", "FROM u, u AS x\n"),
            ("FROM t\n", "FROM t, t AS x\n"),
            ("FROM t\n", "FROM u\n"),
            ("FROM n\n", "FROM n, n AS x\n"),
            ("AS INT128", "AS DOUBLE"),
            ("FLOOR(", "ABS("),
            (") AS q1", ") * 0 AS q1"),
            ("3071.999999996928", "3072.5"),
        )
    ]
    + [
        (WEIGHTED, r, w)
        for r, w in (
            ("GREATEST(n.n,", "GREATEST(u.m,"),
            ("FROM u\n  GROUP BY\n    _o\n", "FROM u\n  GROUP BY\n    _o,\n    cell\n"),
            ("67108864", "67108865"),
            ("u._o = n._o", "TRUE"),
        )
    ],
)
def test_a_clipped_query_that_bounds_less_is_noticed(sql: str, right: str, wrong: str) -> None:
    policy = replace(MEASURED, unit_clips=True)
    nodes = nodes_of(sql, policy)
    assert nodes
    assert not list(unbounded(sql, nodes, policy))
    assert list(unbounded(sql, nodes, policy, lambda text: text.replace(right, wrong)))


def test_what_is_believed_of_a_derived_table_is_no_bound() -> None:
    sql = "SELECT s.n, COUNT(*) FROM (SELECT user_id, COUNT(*) AS n FROM events GROUP BY user_id) s GROUP BY s.n"
    ((node, values),) = nodes_of(sql, POLICY)
    text = histogram_query(node, POLICY, values, None, 1, 10, DUCKDB).sql
    assert not list(Walk(text, "duckdb", 1).histogram(node.measures, 1))
    apart = text.replace("MIN(g0) AS g0", "g0").replace("GROUP BY\n    _o\n", "GROUP BY\n    _o,\n    g0\n")
    assert list(Walk(apart, "duckdb", 1).histogram(node.measures, 1))
    unclamped = text.replace("LEAST(COUNT(*), 1)", "COUNT(*)")
    assert list(Walk(unclamped, "duckdb", 1).histogram(node.measures, 1))


@pytest.mark.parametrize(
    ("sql", "right", "wrong"),
    [
        (GROUPED, "LIMIT 10", ""),
        (GROUPED, "LIMIT 10", "LIMIT 11"),
        (WEIGHTED, "GROUP BY\n  u.cell,\n  u.bin", "GROUP BY\n  u.cell,\n  u.bin,\n  u._o"),
        (UNITS, "GROUP BY\n  u.cell", "GROUP BY\n  u.cell,\n  u._o"),
    ],
)
def test_a_query_that_gives_more_rows_is_noticed(sql: str, right: str, wrong: str) -> None:
    policy = replace(MEASURED, unit_clips=sql is not GROUPED)
    nodes = nodes_of(sql, policy)
    assert not list(unbounded(sql, nodes, policy))
    found = list(unbounded(sql, nodes, policy, lambda text: text.replace(right, wrong)))
    assert any("rows are said, and" in what for what in found), found
