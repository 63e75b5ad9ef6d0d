"""Every expression that is computed on private rows has been checked, wherever it stands in a statement.

One of a type that engines cannot convert without raising is put in the place of each column of each golden statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from sqlglot import exp, parse_one

from rewriter.emit.engines.postgres import POSTGRES
from rewriter.emit.histogram import Emitter, histogram_query
from rewriter.ir.measure import Count, Moment
from rewriter.ir.relation import Relation, Source, leaf
from rewriter.logical.plan import AggregateNode, LogicalPlan
from rewriter.logical.split import split_query
from rewriter.policy import Column
from rewriter.refusal import Refusal
from rewriter.scalar.typecheck import check
from rewriter.statements.classify import Verdict, classify
from tests.rewriter.queries import ANSWERED
from tests.rewriter.shop import POLICY, USERS
from tests.rewriter.test_golden import FILES, GUARDED, ROWS

TYPES = {
    column.name: column.type
    for table in POLICY.tables.values()
    for column in table.columns
    if not table.public
}
SPOILED = re.compile(r"AS (TEXT|UUID)\) AS")
GOLDEN = [block.split("\n")[0] for file in FILES for block in file.read_text().split("\n\n")]


def accepted(sql: str) -> LogicalPlan | None:
    """The plan of a statement, None where it is refused."""
    try:
        statement = classify(sql, GUARDED)
        if statement.verdict is Verdict.RELAY:
            return None
        return split_query(statement.body, POLICY, read_rows=lambda *_: ROWS)
    except Refusal:
        return None


def spoiled(sql: str) -> Iterator[str]:
    """The statement with a conversion of a text in place of one of its columns, which keeps its type."""
    tree = parse_one(sql, dialect="postgres")
    for place in range(len(_columns(tree))):
        copy = tree.copy()
        column = _columns(copy)[place]
        of = TYPES[column.name]
        value = exp.cast(exp.cast(column.copy(), "uuid" if of == "text" else "text"), of)
        column.replace(exp.alias_(value, column.name) if isinstance(column.parent, exp.Select) else value)
        yield copy.sql("postgres")


def _columns(tree: exp.Expr) -> list[exp.Column]:
    return [column for column in tree.find_all(exp.Column) if column.name in TYPES]


def written(plan: LogicalPlan) -> Iterator[str]:
    """The backend's SQL of a plan's counts and sums."""
    for node in plan.nodes:
        if isinstance(node, AggregateNode) and any(isinstance(m, (Count, Moment)) for m in node.measures):
            cells = None if node.keys else ((),)
            yield histogram_query(node, POLICY, plan.values, cells, node.bound.value, 1001, POSTGRES).sql


def test_what_could_raise_stands_nowhere_on_private_rows() -> None:
    plans = 0
    for sql in dict.fromkeys((*GOLDEN, *ANSWERED)):
        if "SELECT" not in sql or accepted(sql) is None:
            continue
        for text in spoiled(sql):
            plan = accepted(text)
            plans += 1
            # Where it is accepted it stands above the aggregates, and the backend's SQL has none of it.
            assert plan is None or not any(SPOILED.search(query) for query in written(plan)), text
    assert plans > 1000


def test_what_the_analysis_misses_is_not_written() -> None:
    emitter = Emitter(POLICY, (), 1, POSTGRES)
    relation = Relation((Source("t0", USERS, True),))
    emitter.written(leaf("t0", "signup_date"), relation)
    with pytest.raises(Refusal, match="not allowed on private rows"):
        emitter.written(exp.cast(leaf("t0", "country"), "date"), relation)


def test_elements_without_an_order_are_not_computed_with() -> None:
    table = replace(USERS, columns=(*USERS.columns, Column("tags", "json[]")))
    relation = Relation((Source("t0", table, True),))
    with pytest.raises(Refusal, match="of this type"):
        check(exp.Max(this=leaf("t0", "tags")), relation, ())
