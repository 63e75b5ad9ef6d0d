"""What one unit can do is bounded by the SQL, also where the calculus is wrong about its rows and groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import duckdb
import psycopg
import pytest

from rewriter.binder.contribution_bounds import Bound
from rewriter.emit import measures
from rewriter.emit.enforcement import reach
from rewriter.emit.engines.base import Engine
from rewriter.emit.engines.duckdb import DUCKDB
from rewriter.emit.engines.postgres import POSTGRES
from rewriter.emit.histogram import histogram_query, node_text
from rewriter.emit.other_queries import QueryContext, bins_query, items_query
from rewriter.ir.measure import Count, DistinctItems, Measure, Moment, Quantiles
from rewriter.ir.relation import Relation, SemiJoin, leaf
from rewriter.logical.plan import UNITS, AggregateNode
from rewriter.logical.split import split_query
from rewriter.plan import HistogramQuery
from tests.rewriter.conftest import load_duckdb
from tests.rewriter.engine import histogram
from tests.rewriter.shop import OUTLIER, POLICY, rows, without

MANY = 1_000_000
Moved = dict[object, tuple[int, ...]]


@pytest.fixture(scope="module")
def fewer() -> Iterator[duckdb.DuckDBPyConnection]:
    """The database without the unit that has most rows."""
    database = load_duckdb(without(rows(), OUTLIER))
    yield database
    database.close()


def node(sql: str) -> AggregateNode:
    found = split_query(sql, POLICY).nodes[0]
    assert isinstance(found, AggregateNode)
    return found


def moved(one: AggregateNode, backend: duckdb.DuckDBPyConnection, fewer: duckdb.DuckDBPyConnection) -> Moved:
    """What the removal of the unit changes, by group."""
    counted = replace(one, measures=(*one.measures, UNITS), order_by=len(one.measures))
    cells = None if one.keys else ((),)
    before, after = (histogram(counted, database, cells) for database in (backend, fewer))
    nothing = (0,) * len(counted.measures)
    differences = {
        key: tuple(b - a for b, a in zip(before.get(key, nothing), after.get(key, nothing), strict=True))
        for key in before.keys() | after.keys()
    }
    return {key: found for key, found in differences.items() if any(found)}


def nested_full_joins(levels: int) -> str:
    """A user who meets nobody is in each side of each join: 2^levels rows, were they not bounded."""
    columns = ("user_id", "country", "job_title", "birth_year")
    both = ", ".join(f"COALESCE(a.{c}, b.{c}) AS {c}" for c in columns)
    ctes = [f"l0 AS (SELECT {', '.join(columns)} FROM users)"]
    on = "a.user_id = b.user_id AND a.country = b.job_title"
    ctes += [
        f"l{n} AS (SELECT {both} FROM l{n - 1} a FULL JOIN l{n - 1} b ON {on})" for n in range(1, levels + 1)
    ]
    return (
        f"WITH {', '.join(ctes)} SELECT SUM(birth_year) FROM l{levels} WHERE birth_year BETWEEN 1940 AND 2010"
    )


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_full_joins_with_a_second_equality(
    levels: int,
    backend: duckdb.DuckDBPyConnection,
    fewer: duckdb.DuckDBPyConnection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = node(nested_full_joins(levels))
    (found,) = moved(one, backend, fewer).values()
    (measure,) = one.measures
    assert isinstance(measure, Moment)
    assert 0 < found[0] <= reach(measure)[1] == 2010 * measure.tau
    with believed(monkeypatch) as wrongly:
        (found,) = moved(wrongly(one), backend, fewer).values()
    assert 0 < found[0] <= 2010


def test_a_full_join_with_a_second_equality_has_two_groups(
    backend: duckdb.DuckDBPyConnection, fewer: duckdb.DuckDBPyConnection
) -> None:
    join = "users a FULL JOIN users b ON a.user_id = b.user_id AND a.country = b.job_title"
    one = node(f"SELECT b.job_title, COUNT(*) FROM {join} GROUP BY 1")
    assert one.bound == Bound(2, True)
    assert len(moved(one, backend, fewer)) == 2
    plain = node("SELECT b.job_title, COUNT(*) FROM users a FULL JOIN users b USING (user_id) GROUP BY 1")
    assert plain.bound == Bound(1, False)


LIKED = "events e LEFT JOIN users u ON e.user_id = u.user_id AND e.action = 'like'"
RANK = "ROW_NUMBER() OVER (PARTITION BY e.user_id ORDER BY e.ts)"
NUMBERED = f"SELECT e.user_id, u.user_id AS x, {RANK} AS n FROM {LIKED}"
UNIT_OR_NULL = {
    "window": f"SELECT x IS NULL, COUNT(DISTINCT user_id) FROM ({NUMBERED}) s GROUP BY 1",
    "left join": "SELECT s.x IS NULL, COUNT(DISTINCT v.user_id) FROM users v LEFT JOIN "
    f"(SELECT e.user_id, u.user_id AS x FROM {LIKED}) s ON s.user_id = v.user_id GROUP BY 1",
    "distinct on": "SELECT x IS NULL, COUNT(DISTINCT user_id) FROM (SELECT DISTINCT ON (e.user_id, e.event_id) "
    f"e.user_id, u.user_id AS x FROM {LIKED} ORDER BY e.user_id, e.event_id) s GROUP BY 1",
    "full join": "SELECT a.user_id IS NULL, COUNT(DISTINCT COALESCE(a.user_id, b.user_id)) "
    "FROM users a FULL JOIN events b ON a.user_id = b.user_id AND a.country = b.device GROUP BY 1",
}


@pytest.mark.parametrize("sql", UNIT_OR_NULL.values(), ids=UNIT_OR_NULL.keys())
def test_whether_a_copy_of_the_unit_is_null_makes_groups(
    sql: str, backend: duckdb.DuckDBPyConnection, fewer: duckdb.DuckDBPyConnection
) -> None:
    one = node(sql)
    assert one.bound.value is None or one.bound.value > 1
    assert one.bound.value is None or len(moved(one, backend, fewer)) <= one.bound.value


def test_on_the_unit_alone_a_copy_of_a_full_join_is_null_for_all_rows_of_a_unit() -> None:
    join = "users a FULL JOIN events b ON a.user_id = b.user_id"
    one = node(
        f"SELECT a.user_id IS NULL, COUNT(DISTINCT COALESCE(a.user_id, b.user_id)) FROM {join} GROUP BY 1"
    )
    assert one.bound == Bound(1, False)


@contextmanager
def believed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[AggregateNode], AggregateNode]]:
    """The calculus says of whatever node that a unit has one row in it, in one group."""
    with monkeypatch.context() as patched:
        patched.setattr(measures, "one_row_per_unit", lambda *_: True)
        yield lambda one: replace(one, bound=Bound(1, False), measures=tuple(map(_one, one.measures)))


def _one(measure: Measure) -> Measure:
    return replace(measure, tau=1) if isinstance(measure, (Count, Moment)) else measure


WRONG = (
    "SELECT device, action, COUNT(*) FROM events GROUP BY 1, 2",
    "SELECT device, SUM(quantity), AVG(quantity), COUNT(*) FROM events WHERE quantity BETWEEN 1 AND 10 GROUP BY 1",
    "SELECT article_id, VARIANCE(quantity) FROM events WHERE quantity BETWEEN -5 AND 10 GROUP BY 1",
    "SELECT quantity > 2, COUNT(*) FROM events GROUP BY 1",
    "SELECT ts::date, COUNT(DISTINCT user_id) FROM events GROUP BY 1",
    "SELECT SUM(quantity) FROM events WHERE quantity BETWEEN 1 AND 10",
)


@pytest.mark.parametrize("sql", WRONG)
def test_an_inference_that_is_wrong_costs_accuracy_alone(
    sql: str,
    backend: duckdb.DuckDBPyConnection,
    fewer: duckdb.DuckDBPyConnection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert len(moved(node(sql), backend, fewer)) > 1 or not node(sql).keys
    with believed(monkeypatch) as wrongly:
        one = wrongly(node(sql))
        found = moved(one, backend, fewer)
    assert len(found) == 1
    (values,) = found.values()
    for measure, value in zip((*one.measures, UNITS), values, strict=True):
        low, high = reach(measure) if isinstance(measure, Moment) else (0, 1)
        assert min(low, 0) <= value <= max(high, 0)


CELLS = (("phone",), ("tv",), ("web",), ("car",), ("watch",), (None,))


@pytest.mark.service
@pytest.mark.parametrize("dialect", [DUCKDB, POSTGRES])
def test_bins_and_items_of_a_unit_are_of_one_group(
    dialect: Engine,
    backend: duckdb.DuckDBPyConnection,
    fewer: duckdb.DuckDBPyConnection,
    postgres: psycopg.Connection,
) -> None:
    sql = (
        "SELECT device, PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY quantity), COUNT(DISTINCT article_id) "
        "FROM events WHERE quantity BETWEEN 1 AND 10 GROUP BY 1"
    )
    several = node(sql)
    assert several.bound == Bound(3, True)
    on = QueryContext(POLICY, (), dialect)
    for one, groups in ((several, 3), (replace(several, bound=Bound(1, False)), 1)):
        delta0 = one.bound.value
        bins, items = (
            next(n for n, m in enumerate(one.measures) if isinstance(m, k))
            for k in (Quantiles, DistinctItems)
        )
        binned, listed = (
            bins_query(one, bins, CELLS, 16, delta0, on),
            items_query(one, items, CELLS, 3, delta0, on),
        )
        assert (
            len({row[0] for row in asked(listed, backend, postgres, dialect) if int(row[1]) == OUTLIER})
            == groups
        )
        if dialect is DUCKDB:
            before, after = (set(asked(binned, database, postgres, dialect)) for database in (backend, fewer))
            assert len({row[0] for row in before ^ after}) == groups


def asked(
    query: HistogramQuery, backend: duckdb.DuckDBPyConnection, postgres: psycopg.Connection, dialect: Engine
) -> list[tuple[Any, ...]]:
    """The rows of an emitted query."""
    values = [list(a) for a in query.arrays] + (["secret"] if query.rank_key else [])
    if dialect is DUCKDB:
        return backend.execute(query.sql, values).fetchall()
    return psycopg.RawCursor(postgres).execute(query.sql.encode(), values).fetchall()


@pytest.mark.service
@pytest.mark.parametrize(("key", "count"), [("birth_year > 1980", 2), ("country", 3), ("signup_date", 3)])
def test_the_least_of_a_units_keys_is_its_key_on_postgresql(
    key: str, count: int, backend: duckdb.DuckDBPyConnection, postgres: psycopg.Connection
) -> None:
    one = node(f"SELECT {key}, COUNT(*) FROM users GROUP BY 1")
    assert one.bound == Bound(1, False)
    query = histogram_query(one, POLICY, (), None, 1, MANY, POSTGRES)
    found = psycopg.RawCursor(postgres).execute(query.sql.encode(), ["secret"]).fetchall()
    ours = backend.execute(histogram_query(one, POLICY, (), None, 1, MANY, DUCKDB).sql, ["secret"]).fetchall()
    assert len(found) >= count
    assert sorted(map(str, found)) == sorted(map(str, ours))


def test_rows_of_several_units_are_not_written() -> None:
    sql = "SELECT COUNT(*) FROM users u, events e WHERE u.user_id = e.user_id"
    one = node(sql)
    apart = replace(one, relation=replace(one.relation, conditions=()))
    with pytest.raises(ValueError, match="joined on something else"):
        node_text(apart, POLICY, ())
    users = node("SELECT COUNT(*) FROM users").relation
    inner = Relation((replace(users.sources[0], alias="t9"),))
    looks = SemiJoin(leaf(users.sources[0].alias, "birth_year"), inner, leaf("t9", "birth_year"), False)
    with pytest.raises(ValueError, match="looked up by something else"):
        node_text(
            replace(node("SELECT COUNT(*) FROM users"), relation=replace(users, semi_joins=(looks,))),
            POLICY,
            (),
        )


@pytest.mark.service
def test_of_several_keys_that_are_one_cell_a_unit_has_the_items_of_one(
    backend: duckdb.DuckDBPyConnection, postgres: psycopg.Connection
) -> None:
    key = "CASE WHEN quantity > 1 THEN 0.00000000001 ELSE 0.00000000002 END"
    one = node(f"SELECT {key}, COUNT(DISTINCT article_id) FROM events GROUP BY 1")
    cells = (("0.00000000001",), ("0.00000000002",))
    query = items_query(one, 0, cells, 3, one.bound.value, QueryContext(POLICY, (), DUCKDB))
    found = [row for row in asked(query, backend, postgres, DUCKDB) if int(row[1]) == OUTLIER]
    assert len(found) == 3
