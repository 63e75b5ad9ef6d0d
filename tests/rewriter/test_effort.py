"""What a statement may cost to plan: refused on counts, never on the clock, before any pass takes long over it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from rewriter import effort
from rewriter.emit.engines.duckdb import DUCKDB
from rewriter.emit.histogram import histogram_query, node_text, types_query
from rewriter.logical.plan import AggregateNode
from rewriter.logical.split import split_query
from rewriter.refusal import Refusal
from rewriter.statements.classify import classify
from rewriter.statements.lexer import MAX_TEXT
from tests.rewriter.shop import POLICY

WHERE = "SELECT COUNT(*) FROM users WHERE "


def levels(count: int, body: str, first: str = "SELECT user_id, birth_year AS x FROM users") -> str:
    """A statement of nested CTEs, each `body` over the one before it."""
    listed = ", ".join(f"c{n} AS ({body.format(f'c{n - 1}')})" for n in range(1, count))
    return f"WITH c0 AS ({first}), {listed} SELECT COUNT(*) FROM c{count - 1}"


def nested(opened: str, closed: str, depth: int, inner: str = "1") -> str:
    return f"{WHERE}birth_year = {opened * depth}{inner}{closed * depth}"


TOO_MUCH = {
    "joins of CTEs": levels(24, "SELECT a.* FROM {0} a JOIN {0} b USING (user_id)"),
    "left joins of CTEs": levels(24, "SELECT a.* FROM {0} a LEFT JOIN {0} b USING (user_id)"),
    "full joins of CTEs": levels(24, "SELECT user_id, a.x FROM {0} a FULL JOIN {0} b USING (user_id)"),
    "unions of CTEs": levels(24, "SELECT * FROM {0} UNION ALL SELECT * FROM {0}"),
    "intersections of CTEs": levels(24, "SELECT * FROM {0} INTERSECT SELECT * FROM {0}"),
    "semi-joins of CTEs": levels(24, "SELECT * FROM {0} WHERE user_id IN (SELECT user_id FROM {0})"),
    "expressions of CTEs": levels(24, "SELECT user_id, CASE WHEN x = 1 THEN x END AS x FROM {0}")
    + " WHERE x > 1",
    "groups of CTEs": levels(
        24,
        "SELECT user_id, MAX(x) AS x FROM (SELECT * FROM {0} UNION ALL SELECT * FROM {0}) s GROUP BY user_id",
    ),
    "WITH": "WITH "
    + ", ".join(f"c{n} AS (SELECT * FROM users)" for n in range(450))
    + " SELECT COUNT(*) FROM c1",
    "FROM": "SELECT COUNT(*) FROM users a0"
    + "".join(f" JOIN users a{n} USING (user_id)" for n in range(1, 300)),
    "casts": WHERE + "birth_year" + "::int" * 400 + " = 1",
    "casts of a constant": WHERE + "birth_year > 1900" + "::int" * 400,
    "many casts": WHERE + "birth_year" + "::int" * 3000 + " = 1",
    "subscripts": WHERE + "ARRAY[birth_year]" + "[1]" * 5000 + " = 1",
    "few subscripts": WHERE + "ARRAY[birth_year]" + "[1]" * 1000 + " = 1",
    "compared rows": f"{WHERE}({', '.join(['birth_year'] * 1600)}) > ({', '.join('1' * 1600)})",
    "rows in a list": f"{WHERE}({'birth_year + ' * 900}1, 2) IN ({', '.join(['(1, 2)'] * 900)})",
    "NOT": WHERE + "NOT " * 900 + "true",
    "signs": WHERE + "birth_year > " + "- " * 900 + "1",
    "parentheses": WHERE + "(" * 60 + "birth_year = 1" + ")" * 60,
    "brackets": nested("ARRAY[", "]", 60),
    "array types": nested("", "", 1, "1::int" + "[]" * 2000),
    "arrays": nested("ARRAY[", "]", 30),
    "dates": nested("date(", ")", 30),
    "numbers": nested("decimal(", ")", 30),
    "structs": nested("struct(", ")", 30),
    "limits": "SELECT COUNT(*) FROM users LIMIT " + "(SELECT 1 LIMIT " * 19 + "1" + ")" * 19,
    "calls": nested("abs(", ")", 60),
    "CASE": nested("CASE WHEN true THEN ", " END", 30),
    "deep CASE": nested("CASE WHEN true THEN ", " END", 500),
    "sums": WHERE + "birth_year = " + "+".join(["birth_year"] * 1300),
    "concatenation": WHERE + "country = " + "||".join(["country"] * 1700),
    "collations": WHERE + "country" + ' COLLATE "C"' * 1200 + " = 'x'",
    "JSON": WHERE + "country" + "->1" * 1500 + " = '1'",
    "names": WHERE + "a" + ".a" * 2400,
    "arguments": WHERE + f"birth_year = COALESCE({','.join(['birth_year'] * 1400)})",
    "constants": WHERE + f"birth_year IN ({','.join(f'abs({n})' for n in range(900))})",
    "aggregates": "SELECT " + ",".join(f"SUM(birth_year + {n})" for n in range(400)) + " FROM users",
    "keys": f"SELECT COUNT(*) FROM users GROUP BY {','.join(f'birth_year + {n}' for n in range(700))}",
    "AND": WHERE + " AND ".join(["birth_year > 1"] * 800),
    "comparisons": WHERE + "1" + "=1" * 2400,
    "rows side by side": "WITH c AS (SELECT country, COUNT(*) FROM users GROUP BY country) SELECT 1 FROM c c0"
    + "".join(f", c c{n}" for n in range(1, 1500)),
    "words": "SELECT COUNT(*) FROM users " + "x " * 12_000,
}
"""Each would take seconds, hours or a stack without end."""
COUNTED = ("joins of CTEs", "unions of CTEs", "casts", "CASE")
MOST_CALLS = 2_000_000
"""Of Python functions until a refusal: well under a second, where each of these would make any number of them."""
MOST_UNSEEN = 200_000
"""Of Python functions between two looks at the budget."""


class _Calls:
    """Counts calls of Python functions: all of them, and the most between two of `effort.spend`."""

    def __init__(self) -> None:
        self.total = self.unseen = self.most = 0

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            self.total += 1
            self.unseen += 1
            self.most = max(self.most, self.unseen)
            if frame.f_code is effort.spend.__code__:
                self.unseen = 0

    def of(self, work: Callable[[], object]) -> Refusal | None:
        sys.setprofile(self)
        try:
            work()
        except Refusal as refusal:
            return refusal
        finally:
            sys.setprofile(None)
        return None


def planned(text: str) -> None:
    """Everything that the rewriter makes of a text before it is priced."""
    with effort.bounded():
        logical = split_query(classify(text, {"users", "events"}).body, POLICY)
        for node in logical.nodes:
            assert isinstance(node, AggregateNode)
            types_query(node, logical.values, 0)
            node_text(node, POLICY, logical.values)
            cells = None if node.keys else ((),)
            histogram_query(node, POLICY, logical.values, cells, node.bound.value, 1001, DUCKDB)


@pytest.mark.statistical
@pytest.mark.parametrize("name", TOO_MUCH)
def test_too_much_work_is_refused(name: str) -> None:
    assert len(TOO_MUCH[name]) <= MAX_TEXT
    with pytest.raises(Refusal) as raised:
        planned(TOO_MUCH[name])
    assert raised.value.code == "54001" or name in ("NOT", "signs"), raised.value.message


@pytest.mark.statistical
@pytest.mark.parametrize("name", COUNTED)
def test_it_is_refused_before_the_work_is_done(name: str) -> None:
    calls = _Calls()
    refusal = calls.of(lambda: planned(TOO_MUCH[name]))
    assert refusal is not None
    assert calls.total < MOST_CALLS
    assert calls.most < MOST_UNSEEN


def test_whether_a_statement_is_refused_does_not_depend_on_the_clock() -> None:
    spent = []
    for _ in range(2):
        with effort.bounded():
            split_query(levels(4, "SELECT a.* FROM {0} a JOIN {0} b USING (user_id)"), POLICY)
            current = effort._effort.get()
            assert current is not None
            spent.append(current.left)
    assert spent[0] == spent[1] < effort.MOST_STEPS


@pytest.mark.parametrize(
    "body",
    [
        "SELECT * FROM {0} WHERE x > 1",
        "SELECT user_id, MAX(x) AS x FROM {0} GROUP BY user_id",
        "SELECT {0}.user_id, x FROM {0} JOIN events e ON e.user_id = {0}.user_id",
    ],
)
def test_a_long_pipeline_of_ctes_reads_each_once(body: str) -> None:
    planned(levels(16, body).replace("COUNT(*)", "COUNT(DISTINCT user_id)"))


def test_a_cte_that_is_named_twice_has_sources_of_its_own() -> None:
    (node,) = split_query(
        "WITH c AS (SELECT user_id, action FROM events) SELECT COUNT(DISTINCT a.user_id) FROM c a JOIN c b "
        "USING (user_id) WHERE a.action = 'like' AND b.action = 'view'",
        POLICY,
    ).nodes
    assert isinstance(node, AggregateNode)
    assert len({source.alias for source in node.relation.sources}) == 2


def test_planning_ends_when_nobody_waits_for_it() -> None:
    left = 20

    def waits() -> bool:
        nonlocal left
        left -= 1
        return left > 0

    with pytest.raises(Refusal) as raised, effort.wanted(waits):
        planned(levels(6, "SELECT a.* FROM {0} a JOIN {0} b USING (user_id)"))
    assert raised.value.code == "57014"
    assert left == 0


def test_the_fence_of_time_counts_the_threads_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effort, "MOST_SECONDS", -1.0)
    with pytest.raises(Refusal) as raised:
        planned(levels(6, "SELECT a.* FROM {0} a JOIN {0} b USING (user_id)"))
    assert raised.value.code == "54001"
    assert raised.value.hint


def test_no_pass_takes_the_end_of_the_budget_for_a_refusal() -> None:
    """It would try another way then, and end with a plan that nobody has thought to its end."""

    def tried() -> None:
        with pytest.raises(Refusal):
            effort.spend(effort.MOST_STEPS + 1)

    with pytest.raises(Refusal), effort.bounded():
        tried()


@pytest.mark.parametrize("error", [RecursionError, MemoryError])
def test_what_is_nested_too_deeply_is_54001(error: type[Exception]) -> None:
    with pytest.raises(Refusal) as raised, effort.bounded():
        raise error
    assert raised.value.code == "54001"
