"""Windows over the rows of one unit: their order is made total, so that no engine chooses between ties.

In:  SELECT user_id, amount, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY ts) AS n FROM events
Out: a source with the columns x1 = amount and w0 = ROW_NUMBER() OVER (PARTITION BY unit ORDER BY ts, amount)

Rows that are equal in all columns that the subquery shows or its windows read are interchangeable:
with these columns at the end of ORDER BY, the result depends on the unit's rows alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from rewriter.binder.composite_units import per_unit
from rewriter.binder.contribution_bounds import one_row_per_unit
from rewriter.binder.names import item_name, of_a_column, output_name, plainly, resolve, starred
from rewriter.binder.output_columns import computed_column, refuse_intervals, row_column
from rewriter.binder.rejections import mixes, stored_column, top_values
from rewriter.binder.subquery_source import derived_source
from rewriter.binder.suggestions import distinct_windows, over_same_rows
from rewriter.binder.value_ranges import bounded
from rewriter.ir.relation import (
    UNIT,
    Field,
    Relation,
    RowSubquery,
    is_event,
    is_inner_unit,
    is_unit,
    leaf,
    leaves,
)
from rewriter.ir.texts import sql_text
from rewriter.ir.trees import copied, folded, walk
from rewriter.ir.types import NUMBERS, ZONELESS
from rewriter.refusal import Refusal
from rewriter.scalar.aggregates import AGGREGATES, CONDITION, words
from rewriter.scalar.functions import check_row_local
from rewriter.scalar.typecheck import Parameters, check, check_condition, check_extreme, check_order, type_of
from rewriter.syntax.allowlist import describe, position, surplus
from rewriter.syntax.pasted import identifier, instead, table_name, written

PLACES = (exp.RowNumber, exp.Rank, exp.DenseRank, exp.Ntile)
"""Functions that say where a row stands among the rows of its partition."""
WHOLE = ("UNBOUNDED", "CURRENT ROW")
WINDOW = frozenset({"this", "partition_by", "order", "spec", "over"})
FRAME = frozenset({"kind", "start", "start_side", "end", "end_side"})


@dataclass
class Windows:
    """The columns of a subquery with windows, which will be source `alias`; `base` is the base form of a part."""

    alias: str
    base: Callable[[exp.Expr], exp.Expr]
    fields: dict[str, Field] = field(default_factory=dict)
    windows: dict[str, tuple[Field, exp.Expr]] = field(default_factory=dict)

    def value(self, node: exp.Expr) -> exp.Expr:
        """The base form of an item of the SELECT list over the subquery."""
        if isinstance(node, exp.Window):
            window = self._window(node)
            found, _ = self.windows.setdefault(
                sql_text(window), (Field(f"w{len(self.windows)}", window), node)
            )
            return leaf(self.alias, found.name)
        if node.find(exp.Window) is None and not isinstance(node, exp.If):
            value = self.base(node)
            return self.shown(value) if leaves(value) else value
        copy = node.copy()
        for key, part in node.args.items():
            if isinstance(part, exp.Expr):
                copy.set(key, self.value(part) if _computes(part) else part.copy())
            elif isinstance(part, list):
                copy.set(key, [self.value(p) if isinstance(p, exp.Expr) else p for p in part])
        check_row_local(copy)
        return copy

    def shown(self, value: exp.Expr) -> exp.Expr:
        """The column of the subquery that a base form of its rows becomes."""
        found = self.fields.setdefault(sql_text(value), Field(f"x{len(self.fields)}", value))
        return leaf(self.alias, found.name)

    def _window(self, node: exp.Window) -> exp.Window:
        function, condition = node.this, None
        if isinstance(function, exp.Filter):
            function, condition = function.this, function.expression.this
        known = AGGREGATES.get(type(function))
        if (
            known is None
            or not known.windowed
            or function.expressions
            or surplus(node, WINDOW)
            or (node.args.get("spec") and surplus(node.args["spec"], FRAME))
        ):
            raise Refusal(
                "PV018",
                f"{describe(function)} as a window over private rows is not available yet",
                hint=f"Available: {', '.join(words(windowed=True))}; each partitioned by the privacy unit.",
                position=position(node),
            )
        order = node.args.get("order")
        spec = node.args.get("spec")
        if spec is not None:
            _check_frame(spec, order)
        return exp.Window(
            this=self._function(function, condition),
            partition_by=[self.base(p) for p in node.args.get("partition_by") or []],
            order=None
            if order is None
            else exp.Order(expressions=[self.ordered(o) for o in order.expressions]),
            spec=None if spec is None else spec.copy(),
            over="OVER",
        )

    def ordered(self, item: exp.Expr) -> exp.Ordered:
        """An item of ORDER BY in base form, NULLs where PostgreSQL puts them."""
        if isinstance(item.this, exp.Literal):
            raise Refusal(
                "PV014",
                "ORDER BY a constant does not order private rows",
                hint="Order by columns: in a window a number is a constant, not an output column.",
                position=position(item),
            )
        desc = bool(item.args.get("desc"))
        nulls_first = bool(item.args.get("nulls_first"))
        return exp.Ordered(this=self.base(item.this), desc=desc, nulls_first=nulls_first)

    def _function(self, function: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
        if isinstance(function, (exp.Lag, exp.Lead)):
            offset = function.args.get("offset")
            if offset is not None and not _small(offset):
                raise _open("the distance of LAG and LEAD", offset, "Write a whole number.")
            if function.args.get("default") is not None:
                raise _open(
                    "the default of LAG and LEAD",
                    function.args["default"],
                    "Leave it out: COALESCE around the window gives a default.",
                )
            moved = type(function)(this=of_a_column(self.base(function.this)))
            moved.set("offset", None if offset is None else offset.copy())
            return moved
        if isinstance(function, exp.Ntile):
            if not _small(function.this) or not int(function.this.this):
                raise _open("the number of NTILE's buckets", function, "Write a whole number above 0.")
            return function.copy()
        if isinstance(function, PLACES):
            return type(function)()
        only = None if condition is None else self.base(condition)
        if isinstance(function.this, exp.Star):
            return exp.Count(
                this=exp.Star() if only is None else exp.case().when(only, exp.Literal.number(1))
            )
        if isinstance(function.this, exp.Distinct):
            raise _open(
                "DISTINCT in a window", function, "Leave it out, or group by the privacy unit in a subquery."
            )
        value = of_a_column(self.base(function.this))
        return type(function)(this=value if only is None else exp.case().when(only, value))


def _small(number: exp.Expr) -> bool:
    """Whether an expression is a whole number that is written down and fits 32 bits."""
    digits = number.this if isinstance(number, exp.Literal) and not number.is_string else ""
    return digits.isdecimal() and len(digits) < 10


def _computes(part: exp.Expr) -> bool:
    """Whether a part of an expression is a value itself, not a type or a name."""
    return not isinstance(part, (exp.DataType, exp.Var, exp.Identifier))


def _open(what: str, node: exp.Expr, hint: str) -> Refusal:
    return Refusal(
        "PV018",
        f"{what} is not available on private rows",
        hint=hint,
        position=position(node),
    )


def _check_frame(spec: exp.Expr, order: exp.Expr | None) -> None:
    bounds = [spec.args.get("start"), spec.args.get("end")]
    whole = all(b is None or b in WHOLE for b in bounds)
    rows = spec.args.get("kind") == "ROWS" and order is not None
    numbers = all(b is None or b in WHOLE or _small(b) for b in bounds)
    if not (whole or (rows and numbers)):
        raise _open(
            "this frame of a window",
            spec,
            "Count rows in whole numbers, as in ROWS BETWEEN 6 PRECEDING AND CURRENT ROW, or leave the frame out.",
        )


def _aggregated(window: exp.Expr, at: exp.Expr, relation: Relation, parameters: Parameters) -> str | None:
    """A hint to what a window over the rows of all units is written for, most often; `at` is the client's window.

    In:  SELECT country, age, ROW_NUMBER() OVER (PARTITION BY country ORDER BY age) AS n FROM users
    Out: SELECT country, PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age) FROM users GROUP BY country
    """
    select, order = at.parent_select, window.args.get("order")
    if order is None:
        return None if select is None else _of_partitions(select, window, at, relation, parameters)
    if select is None or any(select.args.get(p) for p in ("group", "limit", "offset")):
        return None
    if not isinstance(window.this, PLACES):
        return _running(select, window, at, relation)
    if select.args.get("distinct"):
        return None
    value = order.expressions[0].this
    of = type_of(value, relation, parameters)
    if is_unit(value, relation) or of not in NUMBERS | ZONELESS:
        return None
    shown = bounded(value, written(at.args["order"].expressions[0].this), relation, parameters)
    function = "PERCENTILE_CONT" if of in NUMBERS else "PERCENTILE_DISC"
    median = exp.var(f"{function}(0.5) WITHIN GROUP (ORDER BY {shown})")
    keys = [key.copy() for key in at.args.get("partition_by") or []]
    query = over_same_rows(select, keys, [median])
    return f"For the median, `{written(query)}`; other percentiles likewise."


def _running(select: exp.Select, window: exp.Expr, at: exp.Expr, relation: Relation) -> str | None:
    """A hint to a running total over the groups of what it is ordered by, whose rows PostgreSQL takes together, too.

    In:  SELECT week, SUM(sales) OVER (ORDER BY week) FROM transactions
    Out: SELECT week, SUM(SUM(sales)) OVER (ORDER BY week) FROM transactions GROUP BY week
    """
    keys = [*window.args["partition_by"], *(o.this for o in window.args["order"].expressions)]
    if not isinstance(window.this, (exp.Sum, exp.Count)) or at.args.get("spec") is not None:
        return None
    if any(is_unit(key, relation) or is_event(key, relation) or not leaves(key) for key in keys):
        return None
    total = at.copy()
    total.set("this", exp.Sum(this=total.this))
    shown = [*(at.args.get("partition_by") or []), *(o.this for o in at.args["order"].expressions)]
    query = over_same_rows(select, [key.copy() for key in shown], [total])
    return f"For a running total, add up groups, `{written(query)}`."


def _of_partitions(
    select: exp.Select, window: exp.Expr, at: exp.Expr, relation: Relation, parameters: Parameters
) -> str | None:
    """A hint to what an aggregate over partitions of all units' rows is written for, None where nothing is said."""
    grouped = distinct_windows(select)
    if grouped is not None:
        return f"Group by the columns, `{grouped}`."
    keys = window.args["partition_by"]
    column = stored_column(keys[0], relation) if len(keys) == 1 else None
    if column is None:
        return None
    averaged = _correlated(select, window, at, relation, parameters)
    if averaged is not None:
        return f"Compare with the average that rows look up, {instead(averaged, written(at))}."
    return f"Group by the column in its stead, e.g. `{top_values(*column)}`."


def _correlated(
    select: exp.Select, window: exp.Expr, at: exp.Expr, relation: Relation, parameters: Parameters
) -> str | None:
    """An average over the partitions of a table by a column of known domain, as a correlated subquery.

    In:  SELECT age, AVG(age) OVER (PARTITION BY country) FROM users
    Out: (SELECT AVG(others.age) FROM users AS others WHERE others.country = users.country)
    """
    table, key = select.args["from_"].this, at.args["partition_by"][0]
    if not (isinstance(at.this, exp.Avg) and isinstance(table, exp.Table) and isinstance(key, exp.Column)):
        return None
    if type_of(window.this.this, relation, parameters) not in NUMBERS:
        return None
    stored = relation.source(window.args["partition_by"][0].table)
    known = stored.column(window.args["partition_by"][0].name)
    if (
        select.args.get("joins")
        or select.args.get("where")
        or not (known.domain or known.domain_from or known.range)
    ):
        return None
    name, alias = identifier(folded(key.this)), identifier(item_name(table))
    value = at.this.this.copy()
    for part in walk(value, exp.Column):
        part.set("table", exp.to_identifier("others"))
        # `written` leaves out tables that have no place in the client's text.
        part.args["table"].meta["start"] = 0
    shown = bounded(window.this.this, written(value), relation, parameters)
    return f"(SELECT AVG({shown}) FROM {table_name(stored.table)} AS others WHERE others.{name} = {alias}.{name})"


def windowed(
    layer: Windows, shown: Sequence[tuple[str, exp.Expr]], relation: Relation, parameters: Parameters
) -> Relation:
    """The relation of `shown` (names and base forms over the layer) with the layer's windows over `relation`'s rows.

    Raises Refusal PV014 for a window that is not partitioned by the unit.
    """
    for one, _ in layer.windows.values():
        one.value.set("partition_by", per_unit(one.value.args["partition_by"], relation))
    fields = tuple(layer.fields.values())
    for one in fields:
        check(one.value, relation, parameters)
    unit = {f.name for f in fields if is_inner_unit(f.value, relation)}
    rest = tuple(f for f in fields if f.name not in unit)
    total = _tie_breaks(rest, [f.value for f, _ in layer.windows.values()], relation, parameters)
    windows, columns = [], [row_column(f.name, f.value, relation, parameters) for f in rest]
    across = [
        (one.value, at)
        for one, at in layer.windows.values()
        if not any(is_inner_unit(p, relation) for p in one.value.args["partition_by"])
    ]
    if across:
        # One that orders the rows says what is asked for, one that counts them beside it does not.
        window, at = next((w for w in across if w[0].args.get("order") is not None), across[0])
        raise mixes("a window", relation, at, _aggregated(window, at, relation, parameters))
    for one, at in layer.windows.values():
        _check_parts(one.value, relation, parameters, at)
        windows.append(Field(one.name, _total(one.value, total)))
        columns.append(computed_column(one.name, one.value.this, relation, parameters))
    copies = frozenset(f.name for f in rest if is_unit(f.value, relation))
    source = derived_source(
        layer.alias,
        RowSubquery(relation, rest, tuple(windows)),
        columns,
        relation,
        single=one_row_per_unit(relation),
        key=_numbered(windows, rest, relation),
        copies=copies,
    )
    found = Relation((source,))
    values = [(name, plainly(_with_unit(value, layer.alias, unit), found)) for name, value in shown]
    for _, value in values:
        check(value, found, parameters)
    return replace(found, scope=(("", tuple(Field(n, v) for n, v in values)),))


def _with_unit(value: exp.Expr, alias: str, names: set[str]) -> exp.Expr:
    def unit(node: exp.Expr) -> exp.Expr | None:
        own = isinstance(node, exp.Column) and node.table == alias and node.name in names
        return leaf(alias, UNIT) if own else None

    return copied(value, unit)


def _check_parts(window: exp.Expr, relation: Relation, parameters: Parameters, at: exp.Expr) -> None:
    function = window.this
    keys = [o.this for o in window.args["order"].expressions] if window.args.get("order") else []
    read = [] if isinstance(function.this, (exp.Star, type(None))) else [function.this]
    for part in (*window.args["partition_by"], *keys, *read):
        check(part, relation, parameters)
    check_order([*window.args["partition_by"], *keys], relation, parameters, at)
    if isinstance(function, (exp.Min, exp.Max)):
        check_extreme(function, function.this, relation, parameters)
    takes = AGGREGATES[type(function)].takes
    if takes is CONDITION:
        check_condition(function.this, relation, parameters)
    elif takes is not None and type_of(function.this, relation, parameters) not in takes:
        raise Refusal("42883", f"{describe(function)} takes numbers", position=position(function))


def _tie_breaks(
    fields: Sequence[Field], windows: Sequence[exp.Expr], relation: Relation, parameters: Parameters
) -> list[exp.Expr]:
    """All that the subquery shows or its windows read of a row: rows that are equal in it need no order."""
    read: dict[str, exp.Expr] = {sql_text(f.value): f.value for f in fields}
    for window in windows:
        function, order = window.this, window.args.get("order")
        parts = [*window.args["partition_by"], *([o.this for o in order.expressions] if order else [])]
        if not isinstance(function, exp.Ntile) and isinstance(function.this, exp.Expr):
            parts.append(function.this)
        read |= {sql_text(p): p for p in parts if not isinstance(p, exp.Star)}
    found = [v for v in read.values() if leaves(v) and not is_inner_unit(v, relation)]
    for value in found:
        refuse_intervals(value, relation, parameters)
    return found


def _total(window: exp.Expr, read: Sequence[exp.Expr]) -> exp.Expr:
    """The window with a total order, where ties would have different results."""
    spec = window.args.get("spec")
    by_rows = spec is not None and spec.args.get("kind") == "ROWS"
    if not AGGREGATES[type(window.this)].ordered and not by_rows:
        return window
    copy = window.copy()
    order = copy.args["order"].expressions if copy.args.get("order") else []
    known = {sql_text(o.this) for o in order}
    behind = [
        exp.Ordered(this=v.copy(), desc=False, nulls_first=False) for v in read if sql_text(v) not in known
    ]
    if order or behind:
        copy.set("order", exp.Order(expressions=[*order, *behind]))
    return copy


def _numbered(
    windows: Sequence[Field], fields: Sequence[Field], relation: Relation
) -> tuple[str, ...] | None:
    """Columns that no two rows of a unit share: a ROW_NUMBER and its partition keys, or None."""
    shown = {sql_text(f.value): f.name for f in fields}
    for one in windows:
        parts = [p for p in one.value.args["partition_by"] if not is_inner_unit(p, relation)]
        if isinstance(one.value.this, exp.RowNumber) and all(sql_text(p) in shown for p in parts):
            return (one.name, *(shown[sql_text(p)] for p in parts))
    return None


def with_windows(tree: exp.Select, relation: Relation, alias: str, parameters: Parameters) -> Relation:
    """The relation of a SELECT list with windows over the rows of `relation`."""
    layer = Windows(alias, lambda node: resolve(node, relation))
    return windowed(layer, _listed(tree, relation, layer), relation, parameters)


def _listed(tree: exp.Select, relation: Relation, layer: Windows) -> list[tuple[str, exp.Expr]]:
    """The outputs of a SELECT list over the layer, * among them."""
    shown = []
    for item in tree.expressions:
        value = item.unalias()
        if isinstance(value, exp.Star) or (
            isinstance(value, exp.Column) and isinstance(value.this, exp.Star)
        ):
            shown += [(f.name, layer.shown(f.value)) for f in starred(value, relation)]
        else:
            shown.append((output_name(item), layer.value(value)))
    return shown


def first_rows(
    tree: exp.Select, on: exp.Expr, relation: Relation, alias: str, parameters: Parameters
) -> Relation:
    """The relation of SELECT DISTINCT ON (unit, ...): the first row of each, by ORDER BY made total.

    Raises Refusal PV014 where the unit is not among the columns, 42P10 where ORDER BY does not begin with them.
    """
    layer = Windows(alias, lambda node: resolve(node, relation))
    picked = [resolve(e, relation) for e in (on.expressions if isinstance(on, exp.Tuple) else [on])]
    if not any(is_inner_unit(p, relation) for p in per_unit(picked, relation)):
        raise mixes("DISTINCT ON", relation, on)
    order = tree.args.get("order")
    items = [layer.ordered(_meant(o, tree)) for o in order.expressions] if order is not None else []
    texts = {sql_text(p) for p in picked}
    if any(sql_text(o.this) not in texts for o in items[: len(texts)]):
        raise Refusal(
            "42P10",
            "SELECT DISTINCT ON expressions must match initial ORDER BY expressions",
            position=position(order or on),
        )
    shown = _listed(tree, relation, layer)
    kept = exp.Order(expressions=items) if items else None
    window = exp.Window(this=exp.RowNumber(), partition_by=picked, order=kept, over="OVER")
    number = Field(f"w{len(layer.windows)}", window)
    layer.windows[""] = (number, on)
    found = windowed(layer, shown, relation, parameters)
    return replace(found, conditions=(leaf(alias, number.name).eq(1),))


def _meant(item: exp.Expr, tree: exp.Select) -> exp.Expr:
    """An item of ORDER BY whose ordinal or output name is put in place of the output."""
    target, chosen = item.this, None
    if (
        isinstance(target, exp.Literal)
        and target.this.isdigit()
        and 1 <= int(target.this) <= len(tree.expressions)
    ):
        chosen = tree.expressions[int(target.this) - 1]
    elif isinstance(target, exp.Column) and not target.table:
        name = folded(target.this)
        chosen = next(
            (e for e in tree.expressions if isinstance(e, exp.Alias) and output_name(e) == name), None
        )
    if chosen is None:
        return item
    copy = item.copy()
    copy.set("this", chosen.unalias().copy())
    return copy
