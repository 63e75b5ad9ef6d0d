"""What removing a unit does to a node, without noise, beside what its price assumes.

The unit may move as many cells as the bound says, each by its reach, and nothing else may move: what the whole database
has in a cell is what the others have in it and what the unit alone has in it. Of every other unit, the rows that enter
the last aggregation are the same with and without it; so are the labels of cells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from dpproxy.backends.base import text
from dpproxy.engine.planner import BoundNode
from rewriter.emit.other_queries import ONE
from rewriter.ir.measure import ROW, Count, DistinctItems, Joint, Measure, Moment, Quantiles, Running, Total
from rewriter.plan import Cells
from tests.oracle.ask import (
    MOST_ITEMS,
    Query,
    clamps,
    counted,
    most_groups,
    others,
    selected,
    streamed,
    unclamped,
)
from tests.oracle.world import WHOLE, Found, TooSlow, World, alone, without
from tests.stability.compare import reach
from tests.stability.engine import BackendRaised

CELLS_MEASURED = 40
"""Of an unknown domain so many groups are measured as known ones."""
ANOTHER = 0.3
WITHIN = {"spark": 0.2}
"""Of the nodes in which no unit is beyond a bound so many are compared, in an engine whose queries take long."""
Row = dict[str, object]
Histogram = dict[tuple[object, ...], tuple[int, ...]]


@dataclass
class Outcome:
    """What was found of a node: whether a removed unit exceeds the bounds before ranks and clips, whether it reaches
    half of them after, and what is broken, each with its query. `failed`: in which databases the backend raised;
    `slow`: a query was ended."""

    exceeds: bool = False
    half: bool = False
    failed: Literal["", "some", "all"] = ""
    slow: bool = False
    broken: list[tuple[str, str]] = field(default_factory=list)


def check(node: BoundNode, world: World, rng: Random) -> Outcome:
    """Removes a unit, chosen for being beyond the bounds, from a node's queries; now and then another one, too."""
    outcome, queries = Outcome(), list[Query]()
    try:
        queries += _queries(node, world)
        rows = [_part(world, WHOLE, query, "r") for query in queries]
        outcome.broken += _inferred(node, queries, rows, world)
        removed = _chosen(queries, rows, world, rng, outcome)
        if not outcome.exceeds and rng.random() >= WITHIN.get(world.engine.name, 1):
            return outcome
        for query in queries:
            _compare(query, removed, world, outcome)
    except BackendRaised as raised:
        _note_failures(queries, str(raised), world, outcome)
    except TooSlow:
        outcome.slow = True
    return outcome


def _note_failures(queries: list[Query], first: str, world: World, outcome: Outcome) -> None:
    """Which queries fail in which databases: where not in all, a unit decides it. `first`: what was said first."""
    units = {
        f"{words} {_named(unit)}": of(place)
        for place, unit in enumerate(world.removed)
        for words, of in (("without", without), ("with nobody but", alone))
    }
    databases = {"as it is": WHOLE, **units}
    outcome.failed = "all"
    for query in queries:
        failed = {
            name: said for name, database in databases.items() if (said := _failure(query, database, world))
        }
        if failed:
            said, others = next(iter(failed.values())), [name for name in databases if name not in failed]
            outcome.failed = "some" if others else outcome.failed
            where = f"{', '.join(failed)}; not {', '.join(others)}" if others else "whatever the units"
            outcome.broken.append((f"{query.asked}: the backend raised {said}: {where}", query.written.sql))
    if not outcome.broken:
        outcome.broken.append((f"the backend raised {first}", ""))


def _failure(query: Query, database: str, world: World) -> str:
    """What the backend says against a query in a database; nothing where it answers, or was too slow."""
    try:
        world.engine.run(database, query.written.sql, query.values())
    except BackendRaised as raised:
        return str(raised)
    except TooSlow:
        pass
    return ""


def _inferred(
    node: BoundNode, queries: list[Query], rows: list[list[Row]], world: World
) -> Iterator[tuple[str, str]]:
    """Where a unit is in more groups than was inferred, so that what the SQL keeps it to makes the answer wrong."""
    bound = node.aggregate.bound
    if bound.enforce or bound.value is None or not queries or queries[0].asked != "histogram":
        return
    keys = [f"g{n}" for n in range(len(node.aggregate.keys))]
    for unit in world.removed:
        groups = {tuple(text(row[key]) for key in keys) for row in rows[0] if row["_o"] in unit}
        if len(groups) > bound.value:
            what = f"{_named(unit)} is in {len(groups)} groups, where {bound.value} was inferred"
            yield what, queries[0].part("r")
            return


def _queries(node: BoundNode, world: World) -> list[Query]:
    if node.cells == ():
        return []
    measures = node.aggregate.measures
    if measures and isinstance(measures[0], Running):
        return [streamed(node)] if node.times else []
    if not measures:
        return [selected(node, (), 0), selected(node, _some(node, world), 1)]
    query = counted(node)
    cells = node.cells
    if cells is None and any(isinstance(m, (Quantiles, DistinctItems, Total, Joint)) for m in measures):
        cells = _labels(_histogram(query, world, WHOLE))
    return [query, *others(node, cells)] if cells else [query]


def _chosen(
    queries: list[Query], rows: list[list[Row]], world: World, rng: Random, outcome: Outcome
) -> list[int]:
    """The places of the units that are removed: one that is beyond a bound, where there is one."""
    places = range(len(world.removed))
    owned = [[[r for r in rs if r["_o"] in unit] for rs in rows] for unit in world.removed]
    beyond = [n for n in places if any(map(_exceeds, queries, owned[n]))]
    if not beyond and any(clamps(m) for query in queries for m in query.measures):
        beyond = [n for n in places if _clamped(queries, world.removed[n], world)]
    outcome.exceeds = bool(beyond)
    first = max(beyond or places, key=lambda n: (sum(map(len, owned[n])), rng.random()))
    another = rng.choice(places)
    return list(dict.fromkeys([first, another] if rng.random() < ANOTHER else [first]))


def _clamped(queries: list[Query], unit: frozenset[object], world: World) -> bool:
    """Whether a unit has values beyond those to which they are clamped."""
    for query in queries:
        if any(map(clamps, query.measures)):
            wide = unclamped(query)
            own = [r for r in _part(world, WHOLE, wide, "r") if r["_o"] in unit]
            if any(_values_beyond(wide, n, m, own) for n, m in enumerate(query.measures)):
                return True
    return False


def _values_beyond(wide: Query, number: int, measure: Measure, own: list[Row]) -> bool:
    if not isinstance(measure, (Moment, Quantiles)):
        return False
    values = _values(wide, number, own)
    low, high = measure.value.lo or 0, measure.value.hi or 0
    if isinstance(measure, Moment) and measure.whole:
        return bool(values) and not low <= sum(values) <= high
    return any(not low <= v <= high for v in values)


def _values(query: Query, number: int, rows: list[Row]) -> list[int]:
    """The values of rows that measure `number` adds up or cuts into bins."""
    measure = query.measures[number]
    assert isinstance(measure, (Moment, Quantiles))
    pairs = [(m.value, m.argument) for m in query.measures if isinstance(m, (Moment, Quantiles))]
    place = list(dict.fromkeys(pairs)).index((measure.value, measure.argument))
    return [v for row in rows if isinstance(v := row[f"y{place}"], int)]


def _some(node: BoundNode, world: World) -> list[str]:
    """The marks of groups that a first round might release: of every second one."""
    query = selected(node, (), 0, marked=True)
    _, found = world.engine.run(WHOLE, query.written.sql, query.values())
    return sorted(row[-1] for row in found)[::2][:CELLS_MEASURED]


def _labels(histogram: Histogram) -> Cells:
    return tuple(tuple(None if v is None else str(v) for v in cell) for cell in histogram)[:CELLS_MEASURED]


def _part(world: World, database: str, query: Query, name: str) -> list[Row]:
    """The rows of a part of a query, with their columns' names."""
    columns, rows = world.engine.run(database, query.part(name), query.values())
    return [dict(zip(columns, row, strict=True)) for row in rows]


_ENTERING: dict[tuple[str, ...], str | None] = {}
"""By engine, kind of query and its parts the last part that has the unit."""


def _last(world: World, query: Query) -> str | None:
    """The last part of a query that has the unit in its rows: what enters the last aggregation."""
    key = (world.engine.name, query.asked, *query.ctes)
    if key not in _ENTERING:
        _ENTERING[key] = next((name for name in reversed(query.ctes) if _owned(world, query, name)), None)
    return _ENTERING[key]


def _owned(world: World, query: Query, name: str) -> bool:
    columns, _ = world.engine.run(WHOLE, f"{query.part(name)} LIMIT 0", query.values())
    return "_o" in columns


def _check_rows(query: Query, name: str, removed: list[int], world: World, outcome: Outcome) -> None:
    """The rows of all other units are the same with and without a removed one."""
    whole = _part(world, WHOLE, query, name)
    for place in removed:
        unit, fewer = world.removed[place], _part(world, without(place), query, name)
        before, after = (Counter(_shown(r) for r in rows if r["_o"] not in unit) for rows in (whole, fewer))
        if before != after:
            changed = [*(before - after), *(after - before)]
            what = f"without {_named(unit)}, {len(changed)} rows of others in {name} change: {changed[:2]}"
            outcome.broken.append((what, query.part(name)))


def _named(unit: frozenset[object]) -> str:
    return "unit " + " ".join(sorted(map(repr, unit)))


def _shown(row: dict[str, object]) -> tuple[tuple[str, str | None], ...]:
    return tuple((name, text(value)) for name, value in row.items())


def _compare(query: Query, removed: list[int], world: World, outcome: Outcome) -> None:
    """Compares the whole database's answer with those without each unit and of it alone."""
    last = _last(world, query)
    if last is None:
        outcome.broken.append(("no part of the query has the unit", query.written.sql))
    else:
        _check_rows(query, last, removed, world, outcome)
    whole = _histogram(query, world, WHOLE)
    for place in removed:
        fewer, own = (_histogram(query, world, of(place)) for of in (without, alone))
        for what in _moved(query, whole, fewer, own):
            outcome.broken.append(
                (f"{query.asked} without {_named(world.removed[place])}: {what}", query.written.sql)
            )
        outcome.half |= _reaches_half(query, own)


def _histogram(query: Query, world: World, database: str) -> Histogram:
    """An answer as numbers by cell: of bins and items a cell is (cell, bin) and (cell, unit, item)."""
    _, found = world.engine.run(database, query.written.sql, query.values())
    histogram: Histogram = {}
    for cell, values in _SHAPES[query.asked](query, found):
        before = histogram.get(cell, (0,) * len(values))
        histogram[cell] = tuple(a + b for a, b in zip(before, values, strict=True))
    return histogram


Cell = tuple[tuple[object, ...], tuple[int, ...]]


def _groups(query: Query, found: Found) -> Iterator[Cell]:
    cells = query.node.cells
    width = len(query.node.aggregate.keys)
    for row in found:
        if cells is not None:
            yield cells[row[0] - 1], tuple(row[1:])
        else:
            yield tuple(map(text, row[:width])), tuple(row[width:])


def _weights(query: Query, found: Found) -> Iterator[Cell]:
    for *key, value in found:
        yield tuple(map(text, key)), (value,)


def _items(query: Query, found: Found) -> Iterator[Cell]:
    for cell, unit, item in found:
        yield (cell, unit, text(item)), (1,)


def _clipped(query: Query, found: Found) -> Iterator[Cell]:
    for cell, *values in found:
        yield (cell,), tuple(values)


_SHAPES: dict[str, Callable[[Query, Found], Iterator[Cell]]] = {
    "histogram": _groups,
    "bins": _weights,
    "items": _items,
    "weights": _weights,
    "running": _weights,
    "places": _weights,
    "clipped": _clipped,
}


def _moved(query: Query, whole: Histogram, fewer: Histogram, own: Histogram) -> Iterator[str]:
    """What is wrong with an answer beside those without a unit and of it alone."""
    nothing: tuple[int, ...] = (0,) * max((len(v) for v in whole.values()), default=1)
    for cell in whole.keys() | fewer.keys() | own.keys():
        before, after, alone_ = (h.get(cell, nothing) for h in (whole, fewer, own))
        if tuple(b - a for b, a in zip(before, after, strict=True)) != alone_:
            yield f"cell {cell} has {before}, without the unit {after}, of it alone {alone_}"
            break
    yield from _beyond(query, {cell: values for cell, values in own.items() if any(values)})


def _beyond(query: Query, own: Histogram) -> Iterator[str]:
    """What of a unit alone is more than the bounds say."""
    delta0 = query.node.delta0
    cells = {cell[0] for cell in own} if query.asked in ("bins", "items") else set(own)
    if query.asked == "weights":
        delta0 = most_groups(query.node)
        if sum(v * v for (v,) in own.values()) > ONE * ONE:
            yield "the weights of one unit are more than 1"
    if query.asked == "places":
        times = Counter(vector for vector, _ in own)
        if max(times.values(), default=0) > 1 or any(v > 1 for (v,) in own.values()):
            yield "one unit is in several places"
    elif query.asked == "clipped":
        for number, length, square in _squares(query, own):
            if square > length**2:
                yield f"vector {number} of one unit is longer than {length}"
    elif _weighted(query):
        if sum(v for (v,) in own.values()) > ROW * _tau(query.measures[0]):
            yield "the rows of one unit count for more than their bound"
    elif query.asked == "running":
        (measure,) = query.measures
        assert isinstance(measure, Running)
        events = sum(v for (v,) in own.values())
        if events > measure.events:
            yield f"one unit has {events} events, the bound is {measure.events}"
    elif delta0 is not None and len(cells) > delta0:
        yield f"one unit is in {len(cells)} cells, the bound is {delta0}: {sorted(map(str, cells))[:5]}"
    if query.asked == "histogram":
        for number, measure in enumerate(query.measures):
            low, high = reach(measure)
            beyond = [v[number] for v in own.values() if not low <= v[number] <= high]
            if beyond:
                yield f"measure {number} moves by {beyond[0]}, its reach is {low} to {high}"
    if query.asked in ("bins", "items") and not _weighted(query):
        most = MOST_ITEMS if query.asked == "items" else _tau(query.measures[0])
        of_cells = Counter[object]()
        for cell, (value,) in own.items():
            of_cells[cell[0]] += value
        if of_cells and max(of_cells.values()) > most:
            yield f"one unit has {max(of_cells.values())} in a cell, the bound is {most}"


def _squares(query: Query, own: Histogram) -> Iterator[tuple[int, int, int]]:
    """Each clipped vector's number, its length and the square of what a unit has of it."""
    for number, length in dict.fromkeys(query.lengths):
        columns = [n for n, (vector, _) in enumerate(query.lengths) if vector == number]
        yield number, length, sum(values[n] ** 2 for values in own.values() for n in columns)


def _weighted(query: Query) -> bool:
    measure = query.measures[0] if query.measures else None
    return isinstance(measure, Quantiles) and measure.weighted


def _tau(measure: Measure) -> int:
    assert isinstance(measure, (Count, Moment, Quantiles))
    return measure.tau


def _exceeds(query: Query, own: list[Row]) -> bool:
    """Whether a unit is beyond a bound before anything is ranked: in groups, rows, items or a sum of rows."""
    node, measures = query.node, query.measures
    if query.asked == "running":
        (measure,) = measures
        assert isinstance(measure, Running)
        return len(own) > measure.events
    if query.asked in ("places", "clipped"):
        return len(own) > 1
    if _weighted(query):
        return len(own) > _tau(measures[0])
    keys = [f"g{n}" for n in range(len(node.aggregate.keys))]
    groups: dict[tuple[str | None, ...], list[Row]] = {}
    for row in own:
        groups.setdefault(tuple(text(row[k]) for k in keys), []).append(row)
    most = most_groups(node) if query.asked == "weights" else node.delta0
    if most is not None and len(groups) > most:
        return True
    return any(_too_much(query, n, group) for group in groups.values() for n in range(len(measures)))


def _too_much(query: Query, number: int, group: list[Row]) -> bool:
    """Whether a measure of a unit's rows in one group is beyond its bound."""
    measure = query.measures[number]
    if isinstance(measure, (Moment, Quantiles)):
        values = _values(query, number, group)
        if isinstance(measure, Moment) and measure.whole:
            return bool(values) and not (measure.value.lo or 0) <= sum(values) <= (measure.value.hi or 0)
        return len(values) > measure.tau
    column = f"x{number}"
    present = [row[column] for row in group if row[column] is not None] if column in group[0] else group
    if isinstance(measure, DistinctItems):
        return len(set(map(str, present))) > MOST_ITEMS
    assert isinstance(measure, Count)
    return len(set(map(str, present)) if measure.items else present) > measure.tau


def _reaches_half(query: Query, own: Histogram) -> bool:
    """Whether a unit alone moves an answer by half of what it may, in the Euclidean norm over cells of some measure."""
    own = {cell: values for cell, values in own.items() if any(values)}
    if not own:
        return False
    delta0 = query.node.delta0
    groups = delta0 if delta0 is not None else len(query.node.cells or ()) or 1
    if query.asked == "histogram":
        for number, measure in enumerate(query.measures):
            most = max(map(abs, reach(measure)))
            if 4 * sum(v[number] ** 2 for v in own.values()) >= groups * most**2:
                return True
        return False
    if query.asked == "weights":
        return 4 * sum(v * v for (v,) in own.values()) >= ONE * ONE
    if query.asked == "places":
        return True
    if query.asked == "clipped":
        return any(4 * square >= length**2 for _, length, square in _squares(query, own))
    total = sum(v for (v,) in own.values())
    measure = query.measures[0]
    if _weighted(query):
        return 2 * total >= ROW * _tau(measure)
    if isinstance(measure, Running):
        return 2 * total >= measure.events
    most = MOST_ITEMS if isinstance(measure, DistinctItems) else _tau(measure)
    return 2 * total >= groups * most
