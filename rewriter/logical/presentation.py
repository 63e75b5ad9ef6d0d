"""The presentation: the client's statement over released rows instead of private ones.

In:  SELECT _r0.g0, _r0.c0 FROM <released rows of node 0> AS _r0, and what types the released columns have
Out: SELECT _r0.g0 AS country, _r0.c0 AS count FROM (SELECT ... FROM UNNEST($1::text[], $2::bigint[])) AS _r0
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from sqlglot import exp

from rewriter.binder.names import output_name
from rewriter.effort import PARSED, spend
from rewriter.ir.measure import Count, Measure, Output
from rewriter.ir.texts import fragment, sql_text
from rewriter.ir.trees import alias, cast, copied, data_type, paren, select, walk
from rewriter.ir.trees import column as column_of
from rewriter.logical.error_propagation import (
    SHOWN,
    Released,
    ReleasedNoise,
    Sizes,
    StatementErrors,
    calls,
)
from rewriter.logical.paired_values import DECIDED
from rewriter.logical.plan import NODE, SETS, AggregateNode, LogicalPlan, Sets, SystemTableNode
from rewriter.plan import DEVIATION, HIGH, Asked, Presentation
from rewriter.refusal import Refusal
from rewriter.syntax.allowlist import position

_NUMBERS = ("smallint", "integer", "bigint", "numeric", "real", "double precision")
_NULL = "NULL where the noise would decide it: ask about more units, or bound its values more closely"


@dataclass(frozen=True)
class ReleasedColumn:
    """A released column: `name` and `type` in the front, and the array it travels in (counts are never NULL)."""

    name: str
    type: str
    transport: Literal["int8", "text"] = "text"


ReleasedColumns = tuple[ReleasedColumn, ...]
"""The released columns of one node, keys before counts."""


def present(
    aggregate: LogicalPlan,
    columns: Sequence[ReleasedColumns],
    names: Sequence[str] | None,
    errors: bool = False,
) -> Presentation:
    """The statement for the front; `columns` are each node's released columns, `names` the client's output names.

    Calls of dp_stddev, dp_low and dp_high become what they show. With `errors` the outermost SELECT shows <name>_stddev
    for each output whose noise has a known deviation, <name>_low and <name>_high where only an interval is known.
    Raises Refusal (0A000) for a call about an expression without a known interval.
    """
    tree = copied(aggregate.above)
    if names is not None:
        _name_outputs(tree, names)
    if found := [call for statement in aggregate.statements for call in calls(statement)]:
        raise _unknown(found[0])
    asked = _with_sizes(tree, aggregate.nodes, columns, errors) if errors or calls(tree) else ()
    above = _outputs_above(aggregate.above, aggregate.nodes, columns, names)
    transports: list[Literal["int8", "text"]] = []
    behind = len(aggregate.parameters) + sum(map(len, columns)) + 1
    bodies: dict[int, _Rows] = {}
    plain: dict[int, _Rows] = {}
    for index, own in enumerate(columns):
        start = len(aggregate.parameters) + len(transports) + 1
        numbers = range(start, start + len(own))
        added = [(n, size, place) for n, (size, node, place) in enumerate(asked, behind) if node == index]
        sizes = [ReleasedColumn(f"{size}_c{place}", "double precision") for _, size, place in added]
        spend(PARSED * (len(own) + len(sizes)))
        plain[index] = own, (*numbers,)
        bodies[index] = (*own, *sizes), (*numbers, *(n for n, *_ in added))
        transports += [c.transport for c in own]
    transports += ["text"] * len(asked)
    statements = [copied(statement) for statement in aggregate.statements]
    over = [tree, *(s for s, c in zip(statements, aggregate.constants, strict=True) if c.nodes)]
    computes = any(map(_computes, over))
    for statement in over:
        _divide(statement)
    constants = tuple(sql_text(_filled(statement, plain), "postgres") for statement in statements)
    sql = sql_text(_filled(tree, bodies), "postgres")
    return Presentation(sql, tuple(transports), constants, asked, *above, computes=computes)


def _computes(tree: exp.Query) -> bool:
    """Whether a statement over released rows has anything that may fail with some values."""
    found = walk(tree, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg, exp.Func, exp.Subquery)
    return any(not isinstance(node, exp.Connector) and not _item(node) for node in found)


def _item(node: exp.Expr) -> bool:
    return isinstance(node, exp.Subquery) and isinstance(node.parent, (exp.From, exp.Join))


def _divide(tree: exp.Query) -> None:
    """Has what is divided by a 0 that is no constant be NULL in `tree`: it would fail once it was paid for."""
    for node in walk(tree, exp.Div, exp.Mod):
        divisor = node.expression
        if walk(divisor, exp.Column, exp.Query, exp.AggFunc) and not isinstance(divisor.unnest(), exp.Nullif):
            node.set("expression", exp.Nullif(this=divisor, expression=exp.Literal.number(0)))


def _outputs_above(
    tree: exp.Expr,
    nodes: Sequence[AggregateNode | SystemTableNode],
    columns: Sequence[ReleasedColumns],
    names: Sequence[str] | None,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The outermost columns that are made of outputs: those with an interval, and those without a known one."""
    if not isinstance(tree, exp.Select):
        return (), ()
    shown = {name for node in nodes if isinstance(node, AggregateNode) for name in node.names}
    statement = StatementErrors(tree, _known(nodes, columns, quantiles=True), writes=False)
    derived: list[str] = []
    unknown: list[str] = []
    items = tree.expressions
    called = names if names is not None and len(names) == len(items) else [*map(output_name, items)]
    for name, item in zip(called, items, strict=True):
        node = item.unalias()
        if node.is_star or (calls(node) and not any(calls(choice) for choice in walk(node, exp.Case))):
            continue
        noisy = statement.has_size(tree, node, "w")
        if noisy is None:
            decided = any(choice.meta_get(DECIDED) for choice in walk(node, exp.Case))
            unknown.append(f"{name} ({_NULL})" if decided else name)
        elif noisy and not (name in shown and _is_multiple(node)):
            derived.append(name)
    return tuple(derived), tuple(unknown)


def _is_multiple(node: exp.Expr) -> bool:
    """Whether an expression over released rows is a column, perhaps times a constant."""
    columns = walk(node, exp.Column)
    return sum(1 for _ in columns) == 1 and all(isinstance(f, exp.Cast) for f in walk(node, exp.Func))


def _with_sizes(
    tree: exp.Expr,
    nodes: Sequence[AggregateNode | SystemTableNode],
    columns: Sequence[ReleasedColumns],
    errors: bool,
) -> tuple[Asked, ...]:
    """Writes the sizes that are asked for into a statement over released rows; gives what it reads of released ones."""
    statement = StatementErrors(tree, _known(nodes, columns))
    if errors and isinstance(tree, exp.Select) and not tree.args.get("distinct"):
        for item in [i for i in tree.expressions if not isinstance(i, exp.Star)]:
            for name, value in _error_columns(statement, tree, item.unalias()):
                tree.append("expressions", alias(value, f"{item.alias_or_name}_{name}", quoted=True))
    found = calls(tree)
    for call in found:
        shown = _shown(statement, call)
        qualified = call.parent if isinstance(call.parent, exp.Dot) else call
        qualified.replace(shown)
        # What is shown of a value may ask for sizes itself.
        found += calls(shown)
    return statement.asked


def _known(
    nodes: Sequence[AggregateNode | SystemTableNode],
    columns: Sequence[ReleasedColumns],
    quantiles: bool = False,
) -> Released:
    """What is known of the noise of outputs; with `quantiles` of those of dates and of intervals, too, which a
    notice tells."""
    told: Sizes = frozenset(("w",) if quantiles else ())
    known = {}
    for index, node in enumerate(nodes):
        if isinstance(node, AggregateNode):
            measured = Counter(place for output in node.outputs for place in {*output.measures})
            known[index] = {
                column.name: ReleasedNoise(
                    sizes | (told if sizes or output.fraction is not None else sizes),
                    own=all(measured[place] == 1 for place in output.measures),
                    # Running counts at different times are sums of the same noises.
                    apart=output.function != "running",
                    common=_may_have_common_noise(node, output),
                )
                for output, column in zip(node.outputs, columns[index][len(node.keys) :], strict=True)
                for sizes in [_sizes(output.function, column.type)]
            }
    return known


def _may_have_common_noise(node: AggregateNode, output: Output) -> bool:
    """Whether an output may be a count of units of which the mechanism's noise is partly the same in all groups."""
    several = bool(node.keys) and node.bound.value != 1
    return (
        several and output.function in ("count", "sum") and _counts_units(node.measures[output.measures[0]])
    )


def _counts_units(measure: Measure) -> bool:
    return isinstance(measure, Count) and measure.tau == 1


def _sizes(function: str, kind: str) -> Sizes:
    """
    >>> sorted(_sizes("count", "bigint")), sorted(_sizes("cont", "numeric")), sorted(_sizes("disc", "date"))
    (['e', 'w'], ['h', 'l', 'w'], [])
    """
    if function.startswith(("var", "stddev")):
        return frozenset()
    if function in ("cont", "disc"):
        return frozenset(("w", "l", "h") if kind in _NUMBERS else ())
    return frozenset(("e", "w") if kind in _NUMBERS else ("e",))


def _error_columns(
    statement: StatementErrors, select: exp.Select, node: exp.Expr
) -> Iterator[tuple[str, exp.Expr]]:
    """What is shown of the noise in an item, by name: nothing of an exact one, or of one of unknown noise."""
    deviation = statement.of(select, node, "e")
    if deviation is not None:
        yield from () if isinstance(deviation, exp.Literal) else [("stddev", deviation)]
    elif (ends := statement.ends(select, node)) is not None:
        yield from zip(("low", "high"), ends, strict=True)


def _shown(statement: StatementErrors, call: exp.Anonymous) -> exp.Expr:
    """What a call of dp_stddev, dp_low or dp_high shows."""
    select, name = call.find_ancestor(exp.Select), call.name.lower()
    if select is not None and len(call.expressions) == 1:
        if name == DEVIATION:
            shown = statement.of(select, call.expressions[0], "e")
        else:
            ends = statement.ends(select, call.expressions[0])
            shown = None if ends is None else ends[name == HIGH]
        if shown is not None:
            return paren(cast(shown, "DOUBLE"))
    raise _unknown(call)


def _unknown(call: exp.Anonymous) -> Refusal:
    name = call.name.lower()
    return Refusal(
        "0A000",
        f"no {'standard deviation' if name == DEVIATION else 'interval'} is known for this expression",
        hint="It is known for aggregates, for sums, differences, products and ratios of them, and for SUM, AVG and "
        f"(without a standard deviation) MIN and MAX over released rows: `{name}(COUNT(*))`.",
        position=position(call),
    )


_Rows = tuple[ReleasedColumns, tuple[int, ...]]
"""Released columns, and the parameters that are their arrays."""


def _filled(tree: exp.Query, bodies: Mapping[int, _Rows]) -> exp.Query:
    """`tree` with the released rows in their places."""
    for table in walk(tree, exp.Table):
        index, sets = table.meta_get(NODE, -1), table.meta_get(SETS, ())
        if index in bodies:
            rows = exp.Var(this=_rows(*bodies[index])) if len(sets) < 2 else _together(bodies, index, sets)
            alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name))
            table.replace(exp.Subquery(this=rows, alias=copied(alias)))
    return tree


def _together(bodies: Mapping[int, _Rows], index: int, sets: Sets) -> exp.Query:
    """The rows of all grouping sets, with z0.. that say which keys a row is not grouped by (1), whose value is NULL."""
    types = {p: bodies[index + n][0][own].type for n, s in enumerate(sets) for own, p in enumerate(s)}
    selects: list[exp.Query] = []
    for number, places in enumerate(sets):
        own, numbers = bodies[index + number]
        columns: list[exp.Expr] = []
        for place, target in sorted(types.items()):
            value: exp.Expr = cast(exp.null(), data_type(target, "postgres"))
            if place in places:
                value = column_of(f"g{places.index(place)}", "s")
            bit = exp.Literal.number(0 if place in places else 1)
            columns += [alias(value, f"g{place}"), alias(bit, f"z{place}")]
        # The row of a set without keys and outputs has a column that only keeps it a row.
        columns += [column_of(c.name, "s") for c in own[len(places) :] if SHOWN.fullmatch(c.name)]
        rows = exp.Subquery(
            this=exp.Var(this=_rows(own, numbers)), alias=exp.TableAlias(this=exp.to_identifier("s"))
        )
        selects.append(select(*columns, source=rows))
    return exp.union(*selects, distinct=False, copy=False)


def node_columns(node: AggregateNode, types: Sequence[str]) -> ReleasedColumns:
    """The released columns of a node: its keys g0.. and outputs c0.. with their types in the front.

    >>> from rewriter.binder.contribution_bounds import Bound
    >>> from rewriter.ir.measure import Count, Output
    >>> from rewriter.ir.relation import Relation
    >>> count = Output("count", (0,), exp.Count(this=exp.Star()))
    >>> one = AggregateNode(Relation(()), (), (Count(None, 1),), (count,), Bound(1, False), None, None, True)
    >>> node_columns(one, ["bigint"])
    (ReleasedColumn(name='c0', type='bigint', transport='int8'),)
    """
    width = len(node.keys)
    keys = [ReleasedColumn(f"g{n}", t) for n, t in enumerate(types[:width])]
    outputs = zip(node.outputs, types[width:], strict=True)
    return (*keys, *(_output(f"c{n}", o, t) for n, (o, t) in enumerate(outputs)))


def _output(name: str, output: Output, type_name: str) -> ReleasedColumn:
    plain = output.function == "count" and type_name == "bigint" and output.factor == 1
    return ReleasedColumn(name, type_name, "int8" if plain else "text")


def _name_outputs(tree: exp.Expr, names: Sequence[str]) -> None:
    """Give the outermost SELECT list the client's output names, where it lists its outputs one by one."""
    if not isinstance(tree, exp.Select) or len(tree.expressions) != len(names):
        return
    if any(walk(e, exp.Star) and not walk(e, exp.Count) for e in tree.expressions):
        return
    items = []
    for item, name in zip(tree.expressions, names, strict=True):
        value = item.this if isinstance(item, exp.Alias) else item
        items.append(exp.Alias(this=value, alias=exp.to_identifier(name, quoted=True)))
    tree.set("expressions", items)


@lru_cache(maxsize=100)
def _rows(columns: ReleasedColumns, numbers: tuple[int, ...]) -> str:
    """SELECT of the arrays, which are the parameters `numbers`, side by side, each column cast to its type; of no
    arrays one row."""
    if not columns:
        return "SELECT 1 AS x"
    arrays = [
        cast(exp.Parameter(this=exp.Literal.number(n)), "BIGINT[]" if c.transport == "int8" else "TEXT[]")
        for n, c in zip(numbers, columns, strict=True)
    ]
    names = [exp.to_identifier(f"x{n}") for n in range(len(columns))]
    shown = exp.TableAlias(this=exp.to_identifier("x"), columns=names)
    rows = exp.Table(this=exp.Anonymous(this="unnest", expressions=arrays), alias=shown)
    values = []
    for number, column in enumerate(columns):
        value: exp.Expr = column_of(f"x{number}", "x")
        if column.type == "timestamp with time zone":
            # The session of the analyst may be in another zone than those of the backends.
            value = exp.AtTimeZone(this=cast(value, "TIMESTAMP"), zone=exp.Literal.string("UTC"))
        value = cast(value, data_type(column.type, "postgres"))
        values.append(alias(value, column.name, quoted=True))
    return fragment(select(*values, source=rows), "postgres")
