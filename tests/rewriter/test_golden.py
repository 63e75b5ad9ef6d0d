"""Golden files, one a feature: a query, then what becomes of it, refusals word for word.

DPPROXY_UPDATE_GOLDEN=1 writes what the rewriter says now; read the difference before you commit it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rewriter.emit.engines.duckdb import DUCKDB
from rewriter.emit.histogram import histogram_query
from rewriter.emit.readable import readable
from rewriter.ir.measure import (
    Count,
    DistinctItems,
    Joint,
    Measure,
    Moment,
    Output,
    Quantiles,
    Running,
    Total,
    named,
)
from rewriter.ir.parameter import Parameter, Parameters
from rewriter.logical.key_domains import domain_queries
from rewriter.logical.plan import AggregateNode, SystemTableNode
from rewriter.logical.presentation import ReleasedColumn, node_columns, present
from rewriter.logical.split import split_query
from rewriter.refusal import Refusal
from rewriter.statements.classify import Verdict, classify
from tests.rewriter.shop import POLICY

ROWS = [Parameter("integer[]", "{2,1,1}", name="n"), Parameter("text[]", "{a,NULL,b}", name="label")]
"""What all rows are that the front would evaluate."""
FILES = sorted((Path(__file__).parent / "golden").rglob("*.txt"))
GUARDED = {"users", "events", "budget", "releases"}


def rendered(sql: str) -> Iterator[str]:
    try:
        statement = classify(sql, GUARDED)
        if statement.verdict is Verdict.RELAY:
            yield "relayed to the front"
            return
        logical = split_query(statement.body, POLICY, read_rows=lambda *_: ROWS)
        columns = []
        for number, node in enumerate(logical.nodes):
            yield from node_lines(number, node, logical.values)
            if isinstance(node, AggregateNode):
                assert " of " in readable(node, logical.values)
                columns.append(node_columns(node, ["text"] * len(node.keys) + ["bigint"] * len(node.outputs)))
            else:
                columns.append((ReleasedColumn("account", "text"),))
        yield f"presentation: {present(logical, columns, None).sql}"
    except Refusal as refusal:
        at = f" at {refusal.position}" if refusal.position is not None else ""
        yield f"REFUSED {refusal.code}{at}: {refusal.message}"
        for part in (refusal.detail, refusal.hint):
            if part:
                yield f"  {part}"


def node_lines(number: int, node: AggregateNode | SystemTableNode, values: Parameters = ()) -> Iterator[str]:
    if isinstance(node, SystemTableNode):
        yield f"node {number}: dpproxy.{node.name}"
        return
    groups = "unrestricted" if node.bound.value is None else f"at most {node.bound.value} groups of one unit"
    enforced = ", enforced" if node.bound.enforce and node.bound.value is not None else ""
    top = "" if node.k is None else f", top {node.k}"
    yield f"node {number}: {groups}{enforced}{top}, {'; '.join(map(measured, node.measures)) or 'groups alone'}"
    if any(o.function != "count" or o.factor != 1 for o in node.outputs):
        yield f"  outputs: {', '.join(map(made, node.outputs))}"
    domain = domain_queries(node.relation, node.keys, POLICY, values) if node.keys else None
    if node.keys:
        written = [query.sql("postgres") for _, query in domain or ()]
        yield f"  domain: {'unknown' if domain is None else ' x '.join(written)}"
    cells = ((),) if not node.keys else None if domain is None else (("x",) * len(node.keys),)
    counted = [m for m in node.measures if isinstance(m, (Count, Moment))]
    if counted:
        query = histogram_query(node, POLICY, values, cells, node.bound.value, 1001, DUCKDB)
        yield f"  backend: {' '.join(query.sql.split())}"


def measured(measure: Measure) -> str:
    """A measure with its bounds."""
    text = named(measure)
    if isinstance(measure, (Moment, Quantiles)):
        value = measure.value
        text += f" of {value.value.sql()} in [{value.lo}, {value.hi}] 10^-{value.scale}"
    text += " centred" if isinstance(measure, Moment) and measure.centred else ""
    text += " of each unit" if isinstance(measure, Moment) and measure.whole else ""
    if isinstance(measure, (Count, DistinctItems)) and measure.items:
        text += f" of {', '.join(i.sql() for i in measure.items)}"
    if isinstance(measure, Running):
        return f"{text}, {measure.events} events of one unit"
    if isinstance(measure, Total):
        return f"{text}, anchor {measure.anchor}"
    if isinstance(measure, Joint):
        return f"{text}, least {measure.least}"
    return text if isinstance(measure, DistinctItems) else f"{text}, tau {measure.tau}"


def made(output: Output) -> str:
    """An output with the places of its measures."""
    factor = "" if output.factor == 1 else f"{output.factor} "
    fraction = "" if output.fraction is None else f" {output.fraction}"
    return f"{factor}{output.function}{fraction} of {list(output.measures)}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_golden_file(path: Path) -> None:
    kept = path.read_text()
    queries = [block.splitlines()[0] for block in kept.strip().split("\n\n")]
    now = "\n\n".join("\n".join([sql, *rendered(sql)]) for sql in queries) + "\n"
    if os.environ.get("DPPROXY_UPDATE_GOLDEN") == "1":
        path.write_text(now)
    assert now == kept


def test_every_refusal_tells_what_to_do() -> None:
    for path in FILES:
        for block in path.read_text().strip().split("\n\n"):
            lines = block.splitlines()
            if lines[1].startswith("REFUSED PV"):
                assert len(lines) > 2, block
