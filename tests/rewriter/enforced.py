"""Reads a backend's query, its text alone, and says whether it bounds by itself what one unit can do.

A unit is in at most `groups` cells: by a rank over its cells, or, where that is one, since its rows are put together
whatever their cells. Each of its values there is clamped, or made of so many ranked rows, each of which is clamped.
What the plan believes is not read, and no key of the backend is relied on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import sqlglot
from sqlglot import exp

from rewriter.ir.measure import ROW, Count, DistinctItems, Measure, Moment, Quantiles, Running
from tests.stability.compare import reach

UNIT = "_o"


class Walk:
    """A query's parts by name. `keys`: how many columns a cell has."""

    def __init__(self, sql: str, dialect: str, keys: int) -> None:
        tree = sqlglot.parse_one(sql, read=dialect)
        assert isinstance(tree, exp.Select)
        self.whole = tree
        self.parts: dict[str, exp.Expr] = {c.alias: c.this for c in tree.ctes}
        self._keys = [f"g{n}" for n in range(keys)]

    def most_rows(self, sizes: Mapping[str, int]) -> int | None:
        """The most rows that the query can give, None where its text bounds them by nothing; `sizes`: how many values
        the numbers have that rows are grouped by, such as those of cells and bins."""
        limit, group = self.whole.args.get("limit"), self.whole.args.get("group")
        if limit is not None:
            return int(limit.expression.name)
        if group is not None:
            by = [
                self.whole.expressions[int(e.name) - 1].alias_or_name if e.is_int else e.name
                for e in group.expressions
            ]
            return math.prod(sizes[name] for name in by) if sizes.keys() >= {*by} else None
        if _from(self.whole) == "d" and "h" in self.parts:
            # A row of cells meets one of groups: on all keys, by which the groups are grouped.
            (join,) = self.whole.args["joins"]
            whole = _names(self._select("h").args.get("group")) == set(self._keys)
            alone = join.side == "LEFT" and join.this.name == "h" and whole
            met = {c.name for c in join.args["on"].find_all(exp.Column) if c.table == "h"}
            return sizes["cell"] if alone and met == set(self._keys) else None
        return 1 if _from(self.whole) == "h" and not self._select("h").args.get("group") else None

    def histogram(self, measures: Sequence[Measure], groups: int | None) -> Iterator[str]:
        """What a histogram of counts and sums does not bound, `groups` being the most cells of one unit."""
        last, per_unit = self._select("h"), self._select("pu")
        source = _from(last)
        if _names(last.args.get("group")) != set(self._keys):
            yield "the last aggregation is not by the cell"
        together = _names(per_unit.args.get("group"))
        if (
            groups is not None
            and self._keys
            and not self._ranked_cells(source, groups)
            and together != {UNIT}
        ):
            yield f"nothing keeps a unit to {groups} cells"
        if source != "pu":
            source = self._below(source)
        if source != "pu" or together not in ({UNIT, *self._keys}, {UNIT}):
            yield "the last aggregation is not over one row a unit and cell"
        values = {e.alias: e.this for e in per_unit.expressions if isinstance(e, exp.Alias)}
        if together == {UNIT} and not all(k in values and values[k].find(exp.AggFunc) for k in self._keys):
            yield "a cell is not one of those of all rows of a unit"
        for number, measure in enumerate(measures):
            what = self._clamped(values[f"v{number}"], measure, _from(per_unit), together)
            if what is not None:
                yield f"measure {number}: {what}"

    def bins(self, measure: Quantiles, groups: int | None) -> Iterator[str]:
        """What bins of quantiles do not bound."""
        yield from self._kept("b", {"_k": measure.tau}, groups)
        yield from self._numbered_rows("k", "_k", measure.tau, {UNIT, *self._keys})

    def weighted(self, measure: Quantiles) -> Iterator[str]:
        """What weights of bins do not bound."""
        if _names(self._select("n").args.get("group")) != {UNIT} or _from(self._select("n")) != "u":
            yield "the rows of a unit are not counted over all cells"
        yield from self._by_unit({"cell", UNIT, "bin"})
        (weight,) = (e for e in self.whole.expressions if e.alias == "c")
        (share,) = weight.find_all(exp.IntDiv, exp.Div)
        whole = share.expression.find(exp.Greatest)
        if (
            int(share.this.name) > ROW * measure.tau
            or whole is None
            or not _is(whole.expressions[0], measure.tau)
        ):
            yield f"the rows of a unit count for more than {measure.tau}"
        if {c.sql() for c in weight.find_all(exp.Column)} != {"u.m", "n.n"}:
            yield "a row's weight is not that of its unit"

    def places(self, anchors: Sequence[float] = ()) -> Iterator[str]:
        """What the numbers of units by length or average do not bound."""
        names = {c.name for c in self._select("l").find_all(exp.Column)}
        if _names(self.whole.args.get("group")) != {"1", "2"} or self.whole.args.get("joins"):
            yield "units are not counted by vector and place"
        yield from self._by_unit({UNIT})
        turns = self._select("l").args["joins"][0].this
        if _from(self._select("l")) != "n" or len(turns.expressions) != len({*turns.expressions}):
            yield "a unit is counted more than once for a vector"
        if anchors and not {f"q{n}" for n in range(len(anchors))} <= names:
            yield "a length is not that of its vector"

    def clipped(self, parts: Sequence[int], clips: Sequence[tuple[int, int]]) -> Iterator[str]:
        """What sums of vectors do not bound; `parts`: how many each vector has, `clips`: their lengths and scales."""
        yield from self._by_unit({"cell"})
        columns = [e for e in self.whole.expressions if e.alias != "" and e.alias.startswith("c")]
        squares = {e.alias: e.this for e in self._select("n").expressions if e.alias}
        place = 0
        for number, (size, (length, scale)) in enumerate(zip(parts, clips, strict=True)):
            own = _squared(squares[f"q{number}"], alone=self._alone)
            if own is None or len(own) != size:
                yield f"the square {number} is not one of whole numbers of all parts"
                return
            for column in columns[place : place + size]:
                yield from self._shortened(column, number, own, length, scale)
            place += size
        if place != len(columns):
            yield "there are sums of no vector"

    def _shortened(
        self, column: exp.Expr, number: int, own: set[str], length: int, scale: int
    ) -> Iterator[str]:
        """Whether a part is multiplied where the vector is short enough, else rounded towards 0 by its length."""
        (total,) = column.find_all(exp.Sum)
        case = total.find(exp.Case)
        assert case is not None
        (short,) = case.args["ifs"]
        root = case.args["default"].find(exp.Sqrt)
        of_vector = {f"{'n' if self._alone else self._vectors}.{name}" for name in own}
        if {c.sql() for c in total.find_all(exp.Column)} - {f"n.q{number}"} - of_vector:
            yield f"sum {number} has parts of another vector"
        if (
            short.this.sql() != f"n.q{number} <= {length**2}"
            or int(short.args["true"].expression.name) > scale
        ):
            yield f"vector {number} is not compared with its length"
        if root is None or root.find(exp.Column).sql() != f"n.q{number}":
            yield f"vector {number} is not divided by its length"
            return
        factor = root.parent
        assert isinstance(factor, exp.Div)
        if float(factor.this.this.name) > scale * length * (1 - 1e-12):
            yield f"vector {number} may be longer than {length}"
        if not case.args["default"].find(exp.Floor):
            yield f"parts of vector {number} are not rounded unit by unit"

    @property
    def _vectors(self) -> str:
        """Where the parts of vectors are: of one unit and cell, as in `u`, from which they are made row by row."""
        return "t" if "t" in self.parts else "u"

    @property
    def _alone(self) -> bool:
        """Whether a unit has one row of `pu`, which groups by the unit alone, and no more of `u`."""
        if self._keys or "n" not in self.parts or not _row_by_row(self._select("n")):
            return False
        units = self._select("u")
        by_unit = "pu" in self.parts and _names(self._select("pu").args.get("group")) == {UNIT}
        return by_unit and _from(units) == "pu" and not units.args.get("joins") and not units.find(exp.UDTF)

    def _by_unit(self, together: set[str]) -> Iterator[str]:
        """Whether totals are of one unit and cell, lengths of one unit, and meet by unit alone."""
        if "pu" in self.parts and _names(self._select("pu").args.get("group")) != {UNIT, *self._keys}:
            yield "totals are not of one unit and group"
        lengths = self._select("n")
        by_row = self._alone and _row_by_row(lengths)
        if (not by_row and _names(lengths.args.get("group")) != {UNIT}) or _from(lengths) != self._vectors:
            yield "lengths are not of one unit"
        if self._alone and (
            not by_row or self.whole.args.get("joins") or _from(self.whole) not in ("n", "a", "l")
        ):
            yield "a unit's own row is not read once"
        if self._keys and not any("_n" in j.sql() for j in self._select("u").args["joins"]):
            yield "a group is in several cells"
        if self._vectors != "u" and not _row_by_row(self._select("t")):
            yield "parts are not made row by row"
        if self._vectors != "u" and _from(self._select("t")) != "u":
            yield "parts are not of one unit and cell"
        for join in self.whole.args.get("joins") or ():
            on = join.args.get("on")
            if on is None or on.sql() != f"{self._vectors}.{UNIT} = n.{UNIT}" or join.side:
                yield "a vector does not meet its own length"
        if "cell" in together and not together >= _names(self.whole.args.get("group")) > set():
            yield "sums are not by cell"

    def items(self, measure: DistinctItems, most: int, groups: int | None) -> Iterator[str]:
        """What a unit's items do not bound."""
        assert measure.items
        yield from self._kept(None, {"_k": most}, groups)
        yield from self._numbered_rows("k", "_k", most, {UNIT, *self._keys})

    def running(self, measure: Running) -> Iterator[str]:
        """What a running count does not bound."""
        if not self._window("k", "_k", exp.RowNumber, {UNIT}):
            yield "events are not numbered by unit"
        yield from self._kept(None, {"_k": measure.events}, None)

    def weights(self, most: int, largest: int | None = None) -> Iterator[str]:
        """What a round of partition selection does not bound; `largest`: to what a unit's set is cut first."""
        if not self._select("e").args.get("distinct"):
            yield "a unit's groups are not taken once each"
        if largest is not None:
            yield from self._first_groups("e", "s0", "s", largest)
        source = "s" if largest is not None else "e"
        if "f" in self.parts:
            source, read = "f", source
            if _from(self._select("f")) != read:
                yield "groups are left out of others than a unit's"
        yield from self._first_groups(source, "c", "w", most)

    def _first_groups(self, source: str, number: str, name: str, most: int) -> Iterator[str]:
        """What keeps no unit to `most` groups of `source` in part `name`, which reads their `number`."""
        counted = self._select(number)
        windows = [w for w in counted.find_all(exp.Window) if isinstance(w.this, exp.Count)]
        if (
            not windows
            or {p.name for p in windows[0].args["partition_by"]} != {UNIT}
            or _from(counted) != source
        ):
            yield "a unit's groups are not counted"
        union = self.parts[name]
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

    def _numbered_rows(self, name: str, column: str, tau: int, together: set[str]) -> Iterator[str]:
        """Whether rows are numbered by unit and cell in part `name`, those of few rows all by 1."""
        union = self.parts[name]
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

    def _clamped(self, value: exp.Expr, measure: Measure, source: str, together: set[str]) -> str | None:
        """Why a measure's value of a unit and cell is not clamped, or None."""
        if isinstance(measure, Count):
            if isinstance(value, exp.Least) and any(_is(e, measure.tau) for e in value.expressions):
                return None
            return "the count is not clamped"
        assert isinstance(measure, Moment)
        sums = list(value.find_all(exp.Sum))
        if not sums:
            return "no sum"
        ranks = [c for s in sums for c in s.find_all(exp.LTE) if c.this.name.startswith("_k")]
        if not ranks:
            low, high = reach(measure)
            clamp = value.find(exp.Least)
            ends = None if clamp is None else _ends(clamp)
            return (
                None if ends is not None and low <= ends[0] <= ends[1] <= high else "the sum is not clamped"
            )
        columns = [c for s in sums for c in s.find_all(exp.Column) if c.name.startswith("y")]
        rows = {e.alias: e.this for e in self._select("r").expressions}
        if not all(_between_constants(rows[c.name]) for c in columns):
            return "the value of a row is not clamped"
        if any(int(r.expression.name) > measure.tau for r in ranks):
            return "more rows are added than are paid for"
        return next(self._numbered_rows(source, ranks[0].this.name, measure.tau, together), None)


def _row_by_row(part: exp.Select) -> bool:
    """Whether each row of a part is made of one row of another."""
    made = {k for k, v in part.args.items() if v} == {"expressions", "from_"}
    return made and not part.find(exp.AggFunc, exp.Window)


def _squared(total: exp.Expr, *, alone: bool) -> set[str] | None:
    """The columns whose squares, of whole numbers, are added up, over rows unless `alone`; None for another form."""
    if not alone and not isinstance(total, exp.Sum):
        return None
    names = set()
    squares = total if alone else total.this
    for term in squares.flatten() if isinstance(squares, exp.Add) else [squares]:
        cast = term.this
        if not isinstance(term, exp.Mul) or term.expression != cast or not isinstance(cast, exp.Cast):
            return None
        if cast.to.is_type("double", "float") or not isinstance(cast.this, exp.Column):
            return None
        names.add(cast.this.name)
    return names


def _ends(clamp: exp.Least) -> tuple[int, int] | None:
    """The constants of LEAST(GREATEST(x, low), high); None for another form."""
    if not isinstance(clamp.this, exp.Greatest) or not clamp.this.find(exp.Sum):
        return None
    low, high = (int(e.expressions[0].sql().strip("() ")) for e in (clamp.this, clamp))
    return low, high


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
