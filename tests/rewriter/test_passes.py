"""Golden pairs of each pass by itself: what goes in, and what comes out. Golden files of whole statements: golden/.

DPPROXY_UPDATE_GOLDEN=1 writes what the passes say now; read the difference before you commit it.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlglot import exp, maybe_parse

from rewriter import api
from rewriter.binder.contribution_bounds import rows_per_group
from rewriter.canonical.normalize import canonical
from rewriter.emit.engines.duckdb import DUCKDB
from rewriter.ir.relation import Source
from rewriter.logical.plan import AggregateNode
from rewriter.logical.presentation import node_columns
from rewriter.refusal import Refusal
from rewriter.statements.classify import classify
from rewriter.syntax.desugar import plain
from rewriter.syntax.parse import parse_query
from tests.rewriter.shop import POLICY

FOLDER = Path(__file__).parent / "passes"


def kind(text: str) -> Iterator[str]:
    found = classify(text, {"users", "events"})
    yield found.verdict + (f", EXPLAIN of {found.body}" if found.explain else "")


def tree(text: str) -> Iterator[str]:
    yield parse_query(text).sql("postgres")


def desugared(text: str) -> Iterator[str]:
    yield plain(maybe_parse(text, dialect="postgres")).sql("postgres")


def bound(text: str) -> Iterator[str]:
    for node in nodes(text):
        yield f"sources: {', '.join(map(named, node.relation.sources))}"
        yield from (f"condition: {c.sql()}" for c in node.relation.conditions)
        yield from (f"key: {k.sql()}" for k in node.keys)


def analysed(text: str) -> Iterator[str]:
    for node in nodes(text):
        found = api.groups_per_unit(node.relation, node.keys)
        groups = f"groups of one unit at most: {found.value}"
        rows = rows_per_group(node.relation, found)
        yield f"{groups}{', enforced' if found.enforce else ''}, rows of one unit in a group at most: {rows}"


def split(text: str) -> Iterator[str]:
    plan = api.split_query(text, POLICY)
    yield from (f"node {n}: {api.readable(node, ())}" for n, node in enumerate(nodes(text)))
    yield f"above: {plan.above.sql('postgres')}"


def domains(text: str) -> Iterator[str]:
    for node in nodes(text):
        found = api.domain_queries(node.relation, node.keys, POLICY, ())
        yield "unknown" if found is None else " x ".join(query.sql("postgres") for _, query in found)


def alike(text: str) -> Iterator[str]:
    yield canonical(exp.condition(text, dialect="postgres")).sql()


def presented(text: str) -> Iterator[str]:
    plan = api.split_query(text, POLICY)
    columns = [node_columns(n, ["text"] * len(n.keys) + ["bigint"] * len(n.outputs)) for n in nodes(text)]
    yield api.present(plan, columns, None).sql


def emitted(text: str) -> Iterator[str]:
    for node in nodes(text):
        cells = (("x",),) if node.keys else ((),)
        sql = api.histogram_query(node, POLICY, (), cells, node.bound.value, None, DUCKDB).sql
        yield " ".join(sql.split())


def nodes(text: str) -> list[AggregateNode]:
    return [n for n in api.split_query(text, POLICY).nodes if isinstance(n, AggregateNode)]


def named(source: Source) -> str:
    return f"{source.table.name} {source.alias}"


SHOWN: tuple[Callable[[str], Iterator[str]], ...] = (
    *(kind, tree, desugared, bound, analysed, split, domains, alike, presented, emitted),
)
"""How the results of api.PASSES are shown."""


@pytest.mark.parametrize(
    ("run", "shown"), list(zip(api.PASSES, SHOWN, strict=True)), ids=[run.__name__ for run in api.PASSES]
)
def test_pairs(run: Callable[..., object], shown: Callable[[str], Iterator[str]]) -> None:
    module = inspect.getmodule(run)
    assert module is not None
    said = module.__doc__ or ""
    assert "\nIn:  " in said
    assert "\nOut: " in said
    file = FOLDER / f"{module.__name__.rpartition('.')[2]}.txt"
    kept = file.read_text()
    texts = [block.splitlines()[0] for block in kept.strip().split("\n\n")]
    now = "\n\n".join("\n".join([text, *out(text, shown)]) for text in texts) + "\n"
    if os.environ.get("DPPROXY_UPDATE_GOLDEN") == "1":
        file.write_text(now)
    assert now == kept


def out(text: str, shown: Callable[[str], Iterator[str]]) -> Iterator[str]:
    try:
        yield from shown(text)
    except Refusal as refusal:
        yield f"REFUSED {refusal.code}: {refusal.message}"
