"""What aggregates become: measures shared and paid once, bounds and scales, classes; and that one unit moves no bin,
item, weight or event beyond what the mechanisms' proofs allow it."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from fractions import Fraction

import duckdb
import psycopg
import pytest

from rewriter.emit.engines.duckdb import DUCKDB
from rewriter.emit.histogram import histogram_query, node_text
from rewriter.emit.other_queries import QueryContext, bins_query, items_query, running_query, weights_query
from rewriter.ir.measure import Count, DistinctItems, Measure, Moment, Output, Quantiles, Running, named
from rewriter.logical.plan import AggregateNode
from rewriter.logical.split import split_query
from rewriter.policy import Policy
from rewriter.refusal import Refusal
from rewriter.scalar.typecheck import Parameter
from tests.rewriter.bounded import MEASURED, MOST_ROWS, TAU, TIGHT
from tests.rewriter.conftest import load_duckdb
from tests.rewriter.shop import OUTLIER, rows, without
from tests.rewriter.unnoised import Judge, cells_of, on_duckdb

RUNNING = (
    "SELECT {0}, ts::date, SUM(COUNT(*)) OVER (PARTITION BY {0} ORDER BY ts::date) FROM events GROUP BY 1, 2"
)


def node(sql: str, policy: Policy = MEASURED, parameters: tuple[Parameter, ...] = ()) -> AggregateNode:
    found = split_query(sql, policy, parameters).nodes[0]
    assert isinstance(found, AggregateNode)
    return found


@pytest.mark.parametrize(
    ("aggregates", "kinds"),
    [
        ("AVG(amount), SUM(amount), COUNT(amount)", [Moment, Count]),
        ("SUM(amount), SUM(0.5 * amount), SUM(-amount / 2.0)", [Moment]),
        ("VAR_POP(amount), VARIANCE(amount), STDDEV(amount), AVG(amount)", [Moment, Moment, Count]),
        ("AVG(amount), AVG(amount) FILTER (WHERE action = 'like')", [Moment, Moment, Count, Count]),
        (
            "SUM(amount) FILTER (WHERE action = 'like'), SUM(CASE WHEN action = 'like' THEN amount ELSE 0 END)",
            [Moment],
        ),
        ("COUNT(*), SUM(1), SUM(CASE WHEN 1 = 1 THEN 2 END), COUNT(1)", [Count, Count]),
        ("COUNT(*) FILTER (WHERE amount > 1), SUM(CASE WHEN amount > 1 THEN 1 ELSE 0 END)", [Count]),
        ("MIN(amount), MAX(amount), PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY amount)", [Quantiles]),
        ("MIN(amount), MIN(article_id) FILTER (WHERE article_id BETWEEN 1 AND 9)", [Quantiles, Quantiles]),
        (
            "COUNT(DISTINCT article_id), COUNT(DISTINCT device), COUNT(DISTINCT article_id)",
            [DistinctItems] * 2,
        ),
        ("COUNT(DISTINCT user_id), COUNT(DISTINCT CASE WHEN amount > 1 THEN user_id END)", [Count, Count]),
    ],
)
def test_each_measure_is_there_once(aggregates: str, kinds: list[type[Measure]]) -> None:
    found = node(f"SELECT {aggregates} FROM events")
    assert Counter(map(type, found.measures)) == Counter(kinds)
    assert all(0 <= p < len(kinds) for o in found.outputs for p in o.measures)


def test_units_and_rows_are_one_measure_where_each_unit_has_one_row() -> None:
    found = node("SELECT COUNT(*), COUNT(DISTINCT user_id), COUNT(user_id) FROM users")
    assert found.measures == (Count(None, 1),)
    assert {o.measures for o in found.outputs} == {(0,)}


def moment(sql: str, policy: Policy = MEASURED) -> Moment:
    return next(m for m in node(sql, policy).measures if isinstance(m, Moment))


@pytest.mark.parametrize(
    ("sql", "scale", "lo", "hi"),
    [
        ("SELECT SUM(amount) FROM events", 2, -500, 10_000),
        ("SELECT SUM(amount) FROM events WHERE amount BETWEEN 0.125 AND 7.999", 2, 12, 800),
        ("SELECT SUM(birth_year) FROM users", 0, 1940, 2010),
        ("SELECT SUM(amount * amount) FROM events", 4, -5_000_000, 100_000_000),
        ("SELECT SUM(amount / 3) FROM events", 2, -500, 10_000),
        ("SELECT SUM(amount) FROM events WHERE amount = 5", 2, 500, 501),
        ("SELECT VAR_POP(amount) FROM events", 2, -500, 10_000),
    ],
)
def test_sums_are_of_integers_that_fit(sql: str, scale: int, lo: int, hi: int) -> None:
    value = moment(sql).value
    assert (value.scale, value.lo, value.hi) == (scale, lo, hi)
    for found in node(sql).measures:
        if isinstance(found, Moment) and found.power == 2:
            assert found.centred
            assert (found.value.hi - found.value.lo) ** 2 <= 1 << 40  # type: ignore[operator]


@pytest.mark.parametrize(
    "value",
    [
        "LEAST(GREATEST(user_id, 0), 4000000000000000)",
        "LEAST(GREATEST(user_id / 7.0, 0), 300000000000000)",
    ],
)
def test_values_too_large_lose_their_last_digits(value: str) -> None:
    for found in node(f"SELECT SUM({value}), MAX({value}), VAR_POP({value}) FROM users").measures:
        if isinstance(found, (Moment, Quantiles)):
            assert found.value.scale < 0
            assert 0 < (found.value.hi or 0) <= 1 << 40


def test_sums_are_centred_where_their_rows_are_counted() -> None:
    alone, counted = (
        node("SELECT SUM(amount) FROM events"),
        node("SELECT SUM(amount), COUNT(amount) FROM events"),
    )
    assert [m.centred for m in alone.measures if isinstance(m, Moment)] == [False]
    assert [m.centred for m in counted.measures if isinstance(m, Moment)] == [True]
    first, second = (counted.measures[p] for p in counted.outputs[0].measures)
    assert isinstance(first, Moment)
    assert isinstance(second, Count)
    assert not moment("SELECT SUM(amount), COUNT(*) FROM events").centred
    assert not moment("SELECT SUM(amount), COUNT(amount) FILTER (WHERE amount > 1) FROM events").centred


def test_a_units_sum_is_clamped_where_the_policy_bounds_that() -> None:
    whole = moment("SELECT action, SUM(quantity) FROM events GROUP BY action")
    assert (whole.whole, whole.tau, whole.value.hi) == (True, 1, 10**12)
    with pytest.raises(Refusal, match=r"AVG\(quantity\) needs finite bounds"):
        node("SELECT AVG(quantity) FROM events")


def test_factors_and_fractions_are_in_outputs() -> None:
    outputs = node(
        "SELECT SUM(-0.5 * (amount * 3)), PERCENTILE_DISC(0.1) WITHIN GROUP (ORDER BY amount DESC), SUM(7) FROM events"
    ).outputs
    assert [(o.function, o.factor, o.fraction) for o in outputs] == [
        ("sum", Fraction(-3, 2), None),
        ("disc", Fraction(1), Fraction(9, 10)),
        ("count", Fraction(7), None),
    ]


def test_bounds_wait_for_the_values_of_parameters() -> None:
    sql = "SELECT SUM(quantity * 2), PERCENTILE_CONT($2) WITHIN GROUP (ORDER BY quantity) FROM events "
    sql += "WHERE quantity < $1 AND quantity > 0"
    unknown = node(sql, MEASURED, (Parameter("integer", None), Parameter("double precision", None)))
    known = node(sql, MEASURED, (Parameter("integer", "9"), Parameter("double precision", "0.25")))
    assert [type(m) for m in unknown.measures] == [type(m) for m in known.measures]
    quantiles = [m for m in (*unknown.measures, *known.measures) if isinstance(m, Quantiles)]
    assert [(q.value.lo, q.value.hi, q.fractions) for q in quantiles] == [
        (None, None, (None,)),
        (0, 9, (Fraction(1, 4),)),
    ]


@pytest.mark.parametrize(
    ("sql", "groups", "measures"),
    [
        ("SELECT AVG(amount) FROM events", "restricted", ["count", "sum"]),
        ("SELECT action, MAX(amount) FROM events GROUP BY action", "unrestricted", ["quantiles"]),
        ("SELECT DISTINCT job_title FROM users", "restricted", []),
        (
            "SELECT device, COUNT(DISTINCT article_id) FROM events GROUP BY 1",
            "restricted",
            ["distinct items"],
        ),
        (RUNNING.format("device"), "unrestricted", ["running counts"]),
    ],
)
def test_class(sql: str, groups: str, measures: list[str]) -> None:
    found = node(sql)
    assert ("unrestricted" if found.bound.value is None else "restricted") == groups
    assert sorted(map(named, found.measures)) == measures


@pytest.mark.parametrize(
    ("aggregates", "selecting", "k"),
    [
        ("SUM(amount), COUNT(*) AS n FROM events GROUP BY 1 ORDER BY n DESC LIMIT 3", MOST_ROWS, 3),
        ("COUNT(amount) FROM events GROUP BY 1", MOST_ROWS, None),
        ("AVG(amount), COUNT(DISTINCT user_id) FROM events GROUP BY 1", 1, None),
        ("AVG(amount) FROM events GROUP BY 1", None, None),
        ("AVG(amount) FROM events GROUP BY 1 ORDER BY COUNT(*) DESC LIMIT 3", MOST_ROWS, 3),
        ("SUM(amount) FROM events GROUP BY 1 ORDER BY 2 DESC LIMIT 3", None, None),
        ("SUM(3) FROM events GROUP BY 1 ORDER BY 2 DESC LIMIT 3", MOST_ROWS, None),
    ],
)
def test_the_ordering_count_selects_groups_or_the_units_do(
    aggregates: str, selecting: int | None, k: int | None
) -> None:
    found = node(f"SELECT device, {aggregates}")
    assert found.k == k
    count = None if found.selecting is None else found.measures[found.selecting]
    assert (
        count == (None if selecting is None else Count(None, selecting, ())) or "COUNT(amount)" in aggregates
    )
    assert isinstance(count, Count) == (selecting is not None)
    assert found.counts != ("ORDER BY COUNT" in aggregates)


def test_a_horizon_makes_a_running_count_of_known_items() -> None:
    sql = RUNNING.format("action")
    assert node(sql).measures == (Running(1, None, MOST_ROWS, horizon=True),)
    assert isinstance(node(sql, TIGHT).measures[0], Count)
    assert node(sql.replace("action", "device"), TIGHT).measures == (Running(1, None, TAU, horizon=False),)


def test_what_is_measured_decides_the_release_key_and_nothing_else() -> None:
    asked = [
        "SUM(amount)",
        "SUM(amount) FILTER (WHERE amount > 1)",
        "SUM(LEAST(amount, 50))",
        "AVG(amount)",
        "MAX(amount)",
        "COUNT(DISTINCT article_id)",
        "COUNT(DISTINCT device)",
        "COUNT(DISTINCT (user_id, article_id))",
        "COUNT(*)",
    ]
    texts = [node_text(node(f"SELECT {a} FROM events"), MEASURED, ()) for a in asked]
    assert len(set(texts)) == len(texts)
    same = (
        "MAX(amount)",
        "MIN(amount)",
        "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY amount)",
        "-MAX(amount) + 1",
    )
    assert len({node_text(node(f"SELECT {a} FROM events"), MEASURED, ()) for a in same}) == 1
    assert texts[0] == node_text(node("SELECT SUM(2 * amount) FROM events"), MEASURED, ())
    assert texts[0] != node_text(node("SELECT SUM(amount) FROM events", TIGHT), TIGHT, ())


@pytest.fixture(scope="module")
def fewer() -> duckdb.DuckDBPyConnection:
    return load_duckdb(without(rows(), OUTLIER))


@pytest.fixture
def judges(
    backend: duckdb.DuckDBPyConnection, fewer: duckdb.DuckDBPyConnection, postgres: psycopg.Connection
) -> tuple[Judge, Judge]:
    """All units, and all but the outlier, under bounds that bind."""
    return on_duckdb(TIGHT, backend, postgres), on_duckdb(TIGHT, fewer, postgres)


def moved(judges: tuple[Judge, Judge], query: object) -> Counter[tuple[object, ...]]:
    """By how much each row's last number differs; rows that are not there count 0."""
    counts: list[Counter[tuple[object, ...]]] = []
    for judge in judges:
        found: Counter[tuple[object, ...]] = Counter()
        for row in judge.run(query):  # type: ignore[arg-type]
            found[row[:-1]] += row[-1]
        counts.append(found)
    counts[0].subtract(counts[1])
    return Counter({k: v for k, v in counts[0].items() if v})


BACKEND = QueryContext(TIGHT, (), on_duckdb(TIGHT, None, None).dialect)  # type: ignore[arg-type]


@pytest.mark.service
def test_a_unit_moves_sums_by_its_clamped_rows(judges: tuple[Judge, Judge]) -> None:
    found = node("SELECT action, SUM(amount), VAR_POP(amount) FROM events GROUP BY action", TIGHT)
    cells = cells_of(found, judges[0])
    for place, measure in enumerate(found.measures):
        one = replace(found, measures=(measure,), order_by=None)
        change = moved(judges, histogram_query(one, TIGHT, (), cells, found.bound.value, None, DUCKDB))
        most = TAU
        if isinstance(measure, Moment):
            lo, hi = measure.value.lo or 0, measure.value.hi or 0
            most = TAU * (hi - lo if measure.centred else max(abs(lo), abs(hi))) ** measure.power
        assert change, place
        assert all(abs(v) <= most for v in change.values())


@pytest.mark.service
def test_a_unit_moves_bins_by_its_rows_all_together(judges: tuple[Judge, Judge]) -> None:
    found = node("SELECT action, MAX(amount) FROM events GROUP BY action", TIGHT)
    cells = cells_of(found, judges[0])
    change = moved(judges, bins_query(found, 0, cells, 64, found.bound.value, BACKEND))
    by_cell: dict[object, int] = defaultdict(int)
    for (cell, bin_number), count in change.items():
        assert 0 <= bin_number < 64  # type: ignore[operator]
        assert count > 0
        by_cell[cell] += count
    assert set(by_cell.values()) == {TAU}


@pytest.mark.service
def test_groups_beyond_a_declared_bound_are_cut_in_bins_and_items(judges: tuple[Judge, Judge]) -> None:
    for sql in ("MAX(amount)", "COUNT(DISTINCT article_id)"):
        found = node(f"SELECT device, {sql} FROM events GROUP BY device", TIGHT)
        cells = (("phone",), ("tv",), ("web",), ("car",), ("watch",), (None,))
        if isinstance(found.measures[0], Quantiles):
            query = bins_query(found, 0, cells, 64, found.bound.value, BACKEND)
        else:
            query = items_query(found, 0, cells, 9, found.bound.value, BACKEND)
        everybody, others = (judge.run(query) for judge in judges)
        touched = {row[0] for row in everybody}
        own = [row for row in everybody if row not in others]
        assert touched == {1, 2, 3, 4, 5, 6}
        assert len({row[0] for row in own}) == 3


@pytest.mark.service
def test_a_unit_has_at_most_so_many_items_and_moves_no_others(judges: tuple[Judge, Judge]) -> None:
    found = node("SELECT COUNT(DISTINCT article_id) FROM events", TIGHT)
    query = items_query(found, 0, ((),), 8, 1, BACKEND)
    everybody, others = ([row[:3] for row in j.run(query)] for j in judges)
    assert set(others) < set(everybody)
    own = set(everybody) - set(others)
    assert {str(unit) for _, unit, _ in own} == {str(OUTLIER)}
    assert len(own) == 8
    assert max(Counter(unit for _, unit, _ in everybody).values()) == 8


@pytest.mark.service
def test_a_units_weights_are_at_most_one_in_length(judges: tuple[Judge, Judge]) -> None:
    found = node("SELECT article_id, device FROM events GROUP BY 1, 2", TIGHT)
    first = weights_query(found, (), 10, 0, BACKEND, marked=True)
    marks = {row[:2]: row[-1] for row in judges[0].run(first)}
    released = [marks[1, "tv"], marks[2, None]]
    rounds = []
    for turn, gone in ((0, ()), (0, released), (1, released)):
        change = moved(judges, weights_query(found, gone, 10, turn, BACKEND))
        assert len(change) == 10
        assert sum(w * w for w in change.values()) <= 1 << 40
        assert set(change.values()) == {331_588}
        assert not gone or not {(1, "tv"), (2, None)} & set(change)
        rounds.append(set(change))
    assert rounds[1] != rounds[2], "another turn keeps others"


@pytest.mark.service
def test_a_unit_is_in_the_first_of_its_events_only(judges: tuple[Judge, Judge]) -> None:
    sql = RUNNING.format("device")
    found = node(sql, TIGHT)
    times = [
        t
        for (t,) in judges[0].front.execute(
            "SELECT (DATE '2024-01-01' + n)::text FROM generate_series(0, 90) AS n ORDER BY 1"
        )
    ]
    change = moved(judges, running_query(found, times, BACKEND))
    assert sum(change.values()) == TAU
    assert all(v > 0 for v in change.values())
    latest = max(int(str(time)) for _, time in change)
    earlier = moved(judges, running_query(found, times[:latest], BACKEND))
    assert earlier == change, "what comes later changes nothing of what was counted"


def test_outputs_name_their_aggregates() -> None:
    outputs: tuple[Output, ...] = node(
        "SELECT AVG(amount), COUNT(DISTINCT (device, action)) FROM events"
    ).outputs
    assert [o.call.sql("postgres").split("(")[0] for o in outputs] == ["AVG", "COUNT"]
