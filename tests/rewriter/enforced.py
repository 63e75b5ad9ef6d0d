"""Reads a backend's query, its text alone, and says whether it bounds by itself what one unit can do.

A unit is in at most `groups` cells, by a rank over its cells, and each of its values there is clamped. There is one
exception to each rank: where the rows are those of stored tables, read with nothing but filters and inner joins, and
keys that the backend keeps say that a unit has no more than one row, or one cell. What the plan believes is not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import sqlglot
from sqlglot import exp

from rewriter.measure import Count, DistinctItems, Measure, Moment, Quantiles, Running
from rewriter.policy import Policy

UNIT = "_o"


class Walk:
    """A query's parts by name. `keys`: how many columns a cell has; `policy`: which keys the backend keeps."""

    def __init__(self, sql: str, dialect: str, policy: Policy, keys: int) -> None:
        tree = sqlglot.parse_one(sql, read=dialect)
        assert isinstance(tree, exp.Select)
        self.whole = tree
        self.parts: dict[str, exp.Expr] = {c.alias: c.this for c in tree.ctes}
        self._tables = {t.backend_name: t for t in policy.tables.values()}
        self._keys = [f"g{n}" for n in range(keys)]

    def histogram(self, measures: Sequence[Measure], groups: int | None) -> Iterator[str]:
        """What a histogram of counts and sums does not bound, `groups` being the most cells of one unit."""
        last = self._select("h")
        source = _from(last)
        if _names(last.args.get("group")) != set(self._keys):
            yield "the last aggregation is not by the cell"
        if (
            groups is not None
            and self._keys
            and not self._ranked_cells(source, groups)
            and not self._one_cell()
        ):
            yield f"nothing keeps a unit to {groups} cells"
        if source != "pu":
            source = self._below(source)
        per_unit = self._select("pu")
        if source != "pu" or _names(per_unit.args.get("group")) != {UNIT, *self._keys}:
            yield "the last aggregation is not over one row a unit and cell"
        values = {e.alias: e.this for e in per_unit.expressions if isinstance(e, exp.Alias)}
        for number, measure in enumerate(measures):
            what = self._clamped(values[f"v{number}"], measure, _from(per_unit))
            if what is not None:
                yield f"measure {number}: {what}"

    def bins(self, measure: Quantiles, groups: int | None) -> Iterator[str]:
        """What bins of quantiles do not bound."""
        yield from self._kept("b", {"_k": measure.tau}, groups)
        yield from self._numbered_rows("k", "_k", measure.tau)

    def items(self, measure: DistinctItems, most: int, groups: int | None) -> Iterator[str]:
        """What a unit's items do not bound."""
        assert measure.items
        yield from self._kept(None, {"_k": most}, groups)
        yield from self._numbered_rows("k", "_k", most)

    def running(self, measure: Running) -> Iterator[str]:
        """What a running count does not bound."""
        if not self._window("k", "_k", exp.RowNumber, {UNIT}):
            yield "events are not numbered by unit"
        yield from self._kept(None, {"_k": measure.events}, None)

    def weights(self, most: int) -> Iterator[str]:
        """What a round of partition selection does not bound."""
        counted = self._select("c")
        windows = [w for w in counted.find_all(exp.Window) if isinstance(w.this, exp.Count)]
        if (
            not windows
            or {p.name for p in windows[0].args["partition_by"]} != {UNIT}
            or _from(counted) != "e"
        ):
            yield "a unit's groups are not counted"
        if not self._select("e").args.get("distinct"):
            yield "a unit's groups are not taken once each"
        union = self.parts["w"]
        assert isinstance(union, exp.Union)
        whole, cut = union.this, union.expression
        if not _at_most(whole, "n", most) or not _at_most(cut, "_k", most):
            yield f"nothing keeps a unit to {most} groups"
        ranks = [w for w in cut.find_all(exp.Window) if isinstance(w.this, exp.RowNumber)]
        if not ranks or {p.name for p in ranks[0].args["partition_by"]} != {UNIT}:
            yield "groups are not ranked by unit"

    def _select(self, name: str) -> exp.Select:
        found = self.parts[name]
        assert isinstance(found, exp.Select), name
        return found

    def _ranked_cells(self, name: str, groups: int) -> bool:
        """Whether part `name` keeps of each unit the cells (rows of `pu`) of the first ranks up to `groups`."""
        part = self._select(name)
        inner = part.args["from_"].this
        if not isinstance(inner, exp.Subquery) or not _at_most(part, "_n", groups):
            return False
        ranked = inner.this
        ranks = [w for w in ranked.find_all(exp.Window) if isinstance(w.this, exp.RowNumber)]
        return _from(ranked) == "pu" and len(ranks) == 1 and _partition(ranks[0]) == {UNIT}

    def _below(self, name: str) -> str:
        inner = self._select(name).args["from_"].this
        return _from(inner.this) if isinstance(inner, exp.Subquery) else name

    def _kept(self, name: str | None, most: Mapping[str, int], groups: int | None) -> Iterator[str]:
        """Whether rows of `k` come out of part `name`, or of the whole query, under their ranks alone."""
        reader = self.parts[name] if name else self.whole
        for column, bound in most.items():
            if not _at_most(reader, column, bound):
                yield f"nothing keeps {column} to {bound}"
        if groups is None or not self._keys:
            return
        if not _at_most(reader, "_d", groups):
            if not self._one_cell():
                yield f"nothing keeps a unit to {groups} cells"
        elif not any(self._window(p, "_d", exp.DenseRank, {UNIT}) for p in ("p", "c") if p in self.parts):
            yield "cells are not ranked by unit"

    def _window(self, part: str, column: str, function: type[exp.Expr], partition: set[str]) -> bool:
        """Whether a column of a part is this window function over rows of these together."""
        windows = [a.this for a in self.parts[part].find_all(exp.Alias) if a.alias == column]
        return any(
            isinstance(w, exp.Window) and isinstance(w.this, function) and _partition(w) == partition
            for w in windows
        )

    def _numbered_rows(self, name: str, column: str, tau: int) -> Iterator[str]:
        """Whether rows are numbered by unit and cell in part `name`, those of few rows all by 1."""
        union, together = self.parts[name], {UNIT, *self._keys}
        if not isinstance(union, exp.Union):
            yield f"{column} is no number of rows"
            return
        whole, cut = union.this, union.expression
        few = [
            c for c in (whole.args.get("where") or exp.Where()).find_all(exp.LTE) if c.this.name == "_rows"
        ]
        if not few or int(few[0].expression.name) > tau:
            yield f"more than {tau} rows of a unit and cell are not numbered"
        ranks = {a.alias: a.this for a in cut.find_all(exp.Alias) if isinstance(a.this, exp.Window)}
        if column not in ranks or _partition(ranks[column]) != together:
            yield f"{column} does not number the rows of a unit and cell"
        sizes = [w for w in self._select("n").find_all(exp.Window) if isinstance(w.this, exp.Count)]
        if not sizes or _partition(sizes[0]) != together:
            yield "the rows of a unit and cell are not counted"

    def _clamped(self, value: exp.Expr, measure: Measure, source: str) -> str | None:
        """Why a measure's value of a unit and cell is not clamped, or None."""
        if isinstance(measure, Count):
            if isinstance(value, exp.Least) and any(_is(e, measure.tau) for e in value.expressions):
                return None
            return "the count is not clamped"
        assert isinstance(measure, Moment)
        sums = list(value.find_all(exp.Sum))
        if not sums:
            return "no sum"
        if measure.whole:
            return (
                None
                if sums[0].find_ancestor(exp.Least) and sums[0].find_ancestor(exp.Greatest)
                else "not clamped"
            )
        columns = [c for s in sums for c in s.find_all(exp.Column) if c.name.startswith("y")]
        rows = {e.alias: e.this for e in self._select("r").expressions}
        for column in columns:
            if not _between_constants(rows[column.name]):
                return "the value of a row is not clamped"
        ranks = [c for s in sums for c in s.find_all(exp.LTE) if c.this.name.startswith("_k")]
        if not ranks:
            return None if self._one_row() else f"nothing keeps a unit to {measure.tau} rows"
        if any(int(r.expression.name) > measure.tau for r in ranks):
            return "more rows are added than are paid for"
        return next(self._numbered_rows(source, ranks[0].this.name, measure.tau), None)

    # The exception: stored tables with keys that the backend keeps.

    def _one_row(self) -> bool:
        """Whether `r` has at most one row of a unit by keys of the backend."""
        scans = self._scans()
        return scans is not None and set(scans) == self._determined(scans)

    def _one_cell(self) -> bool:
        """Whether all rows of a unit in `r` are in one cell by keys of the backend."""
        scans = self._scans()
        if scans is None:
            return False
        known = self._determined(scans)
        items = {e.alias: e for e in self._select("r").expressions}
        return all(c.table in known for k in self._keys for c in items[k].find_all(exp.Column))

    def _scans(self) -> dict[str, exp.Expr] | None:
        """What `r` reads, by alias: stored tables under inner joins; None where it reads anything else."""
        rows = self._select("r")
        joins = rows.args.get("joins") or []
        if any(j.args.get("side") or j.args.get("kind") not in ("CROSS", "INNER", "", None) for j in joins):
            return None
        found: dict[str, exp.Expr] = {}
        for item in (rows.args["from_"].this, *(j.this for j in joins)):
            if not isinstance(item, exp.Table) and not _plain(item):
                return None
            found[item.alias_or_name] = item
        return found

    def _determined(self, scans: Mapping[str, exp.Expr]) -> set[str]:
        """The aliases of which the unit determines the row: by its own key, or by a key that those are joined on."""
        rows = self._select("r")
        unit = next(e.this.table for e in rows.expressions if e.alias == UNIT)
        where = rows.args.get("where")
        equal = [c for c in _conjuncts(where.this if where else None) if isinstance(c, exp.EQ)]
        pairs = [(a, b) for c in equal for a, b in ((c.this, c.expression), (c.expression, c.this))]
        owned, known, grown = {unit}, set[str](), True
        while grown:
            before = len(owned) + len(known)
            for one, other in pairs:
                if self._is_unit(one, scans) and self._is_unit(other, scans) and other.table in owned:
                    owned.add(one.table)
            known |= {a for a in owned if self._keyed(scans[a])}
            for alias, item in scans.items():
                given = {
                    one.name
                    for one, other in pairs
                    if isinstance(one, exp.Column) and one.table == alias and _within(other, known)
                }
                table = self._tables.get(_stored(item))
                if table is not None and table.public and any(key <= given for key in table.keys):
                    known.add(alias)
            grown = len(owned) + len(known) > before
        return known

    def _is_unit(self, column: exp.Expr, scans: Mapping[str, exp.Expr]) -> bool:
        item = scans.get(column.table) if isinstance(column, exp.Column) else None
        if not isinstance(item, exp.Subquery) or not isinstance(item.this, exp.Select):
            return False
        shown = {e.alias_or_name: e.unalias().sql() for e in item.this.expressions}
        return UNIT in shown and shown.get(column.name) == shown[UNIT]

    def _keyed(self, item: exp.Expr) -> bool:
        """Whether a scan has one row a unit: by a key of the backend, or by the first row of each, ranked here."""
        if not isinstance(item, exp.Subquery):
            return False
        scan = item.this
        owner = next(e.unalias() for e in scan.expressions if e.alias_or_name == UNIT)
        inner = scan.args["from_"].this
        if isinstance(inner, exp.Subquery):
            return _first_rows(inner)
        table = self._tables.get(_stored(inner))
        name = next((c.name for c in owner.find_all(exp.Column)), "")
        return table is not None and not scan.args.get("joins") and frozenset({name}) in table.keys


def _from(select: exp.Expr) -> str:
    item = select.args["from_"].this
    return str(item.name) if isinstance(item, exp.Table) else str(item.alias)


def _names(group: exp.Expr | None) -> set[str]:
    return set() if group is None else {e.name for e in group.expressions}


def _partition(window: exp.Expr) -> set[str]:
    return {p.name for p in window.args.get("partition_by") or ()}


def _is(literal: exp.Expr, number: int) -> bool:
    return isinstance(literal, exp.Literal) and literal.name == str(number)


def _conjuncts(condition: exp.Expr | None) -> Iterator[exp.Expr]:
    if condition is None:
        return
    condition = condition.unnest()
    if isinstance(condition, exp.And):
        yield from _conjuncts(condition.this)
        yield from _conjuncts(condition.expression)
    else:
        yield condition


def _at_most(select: exp.Expr, column: str, most: int) -> bool:
    """Whether WHERE keeps a column to `most`, as one of its conjuncts."""
    where = select.args.get("where")
    return any(
        isinstance(c, exp.LTE)
        and c.this.name == column
        and isinstance(c.expression, exp.Literal)
        and int(c.expression.name) <= most
        for c in _conjuncts(where.this if where else None)
    )


def _between_constants(value: exp.Expr) -> bool:
    """Whether a value is NULL or LEAST(GREATEST(x, constant), constant), under what makes a whole number of it."""
    while isinstance(value, exp.Case):
        value = value.args["ifs"][0].args["true"]
    clamp = value.find(exp.Least)
    if clamp is None or not isinstance(clamp.this, exp.Greatest):
        return False
    ends = (*clamp.expressions, *clamp.this.expressions)
    return len(ends) == 2 and not any(e.find(exp.Column) for e in ends)


def _within(value: exp.Expr, aliases: set[str]) -> bool:
    columns = list(value.find_all(exp.Column))
    return bool(columns) and all(c.table in aliases for c in columns)


def _plain(item: exp.Expr) -> bool:
    """Whether a FROM item is a scan of a stored table: columns and filters, and inner joins along a path."""
    select = item.this if isinstance(item, exp.Subquery) else None
    if not isinstance(select, exp.Select) or select.args.get("distinct") or select.args.get("group"):
        return False
    joins = select.args.get("joins") or []
    inner = select.args["from_"].this
    windows = any(e.find(exp.Window, exp.AggFunc) for e in select.expressions)
    return (
        not windows
        and (isinstance(inner, exp.Table) or _first_rows(inner))
        and all(isinstance(j.this, exp.Table) and not j.args.get("side") for j in joins)
    )


def _first_rows(item: exp.Expr) -> bool:
    """Whether a FROM item is the first row of each unit of a stored table."""
    select = item.this if isinstance(item, exp.Subquery) else None
    if not isinstance(select, exp.Select) or not isinstance(select.args["from_"].this, exp.Subquery):
        return False
    where = select.args.get("where")
    first = where is not None and isinstance(where.this, exp.EQ) and where.this.sql().endswith("_n = 1")
    inner = select.args["from_"].this.this
    ranks = [w for w in inner.find_all(exp.Window) if isinstance(w.this, exp.RowNumber)]
    return first and isinstance(inner.args["from_"].this, exp.Table) and len(ranks) == 1


def _stored(item: exp.Expr) -> tuple[str, ...]:
    """The name of a stored table as the policy has it."""
    if isinstance(item, exp.Subquery):
        return _stored(item.this.args["from_"].this)
    parts = (item.args.get(k) for k in ("catalog", "db", "this"))
    return tuple(p.name for p in parts if p is not None)
