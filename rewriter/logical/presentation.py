"""The presentation: the client's statement over released rows instead of private ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from rewriter.effort import PARSED, spend
from rewriter.ir.measure import Output
from rewriter.ir.trees import alias, cast, copied, data_type, select, walk
from rewriter.ir.trees import column as column_of
from rewriter.logical.error_propagation import OUTPUT, noisy, stddev
from rewriter.logical.plan import NODE, SETS, AggregateNode, LogicalPlan, Sets
from rewriter.plan import Presentation


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

    With `errors` the outermost SELECT shows <name>_stddev for each output whose noise is known.
    """
    tree = copied(aggregate.above)
    if names is not None:
        _name_outputs(tree, names)
    transports: list[Literal["int8", "text"]] = []
    asked = _error_columns(tree) if errors else ()
    behind = len(aggregate.parameters) + sum(map(len, columns)) + 1
    bodies, plain = {}, {}
    for index, own in enumerate(columns):
        start = len(aggregate.parameters) + len(transports) + 1
        numbers = [*range(start, start + len(own))]
        added = [(n, place) for n, (node, place) in enumerate(asked, behind) if node == index]
        shown = (*own, *(ReleasedColumn(f"e{place}", "double precision") for _, place in added))
        plain[index] = _rows(own, numbers)
        bodies[index] = _rows(shown, [*numbers, *(n for n, _ in added)]) if added else plain[index]
        transports += [c.transport for c in own]
    transports += ["text"] * len(asked)
    constants = tuple(_filled(copied(s), plain).sql("postgres", copy=False) for s in aggregate.statements)
    return Presentation(
        _filled(tree, bodies).sql("postgres", copy=False), tuple(transports), constants, asked
    )


def _error_columns(tree: exp.Expr) -> tuple[tuple[int, int], ...]:
    """Lists the deviations of a SELECT's outputs behind its columns; node and place of each column that these read."""
    source = tree.args.get("from_") if isinstance(tree, exp.Select) else None
    rows = None if source is None else source.this
    if not isinstance(rows, exp.Table) or NODE not in rows.meta or len(rows.meta.get(SETS, ())) > 1:
        return ()
    if not isinstance(tree, exp.Select) or tree.args.get("distinct") is not None or tree.args.get("joins"):
        return ()
    found: list[tuple[int, int]] = []
    for item in list(tree.expressions):
        inner = item.unalias()
        error = stddev(inner, rows.name)
        if error is not None:
            tree.append("expressions", alias(error, f"{item.alias_or_name}_stddev", quoted=True))
            places = [(rows.meta[NODE], int(c.name[1:])) for c in noisy(inner, rows.name)]
            found += [place for place in dict.fromkeys(places) if place not in found]
    return tuple(found)


def _filled(tree: exp.Query, bodies: Mapping[int, exp.Select]) -> exp.Query:
    """`tree` with the released rows in their places."""
    for table in walk(tree, exp.Table):
        index, sets = table.meta.get(NODE, -1), table.meta.get(SETS, ())
        body = _together(bodies, index, sets) if len(sets) > 1 else bodies.get(index)
        if body is not None:
            alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name))
            table.replace(exp.Subquery(this=copied(body), alias=copied(alias)))
    return tree


def _together(bodies: Mapping[int, exp.Select], index: int, sets: Sets) -> exp.Query:
    """The rows of all grouping sets, with z0.. that say which keys a row is not grouped by (1), whose value is NULL."""
    types = {p: bodies[index + n].selects[own].this.to for n, s in enumerate(sets) for own, p in enumerate(s)}
    selects = []
    for number, places in enumerate(sets):
        body = bodies[index + number]
        columns: list[exp.Expr] = []
        for place, target in sorted(types.items()):
            value: exp.Expr = exp.cast(exp.null(), target.copy())
            if place in places:
                value = exp.column(f"g{places.index(place)}", table="s")
            bit = exp.Literal.number(0 if place in places else 1)
            columns += [exp.alias_(value, f"g{place}"), exp.alias_(bit, f"z{place}")]
        # The row of a set without keys and outputs has a column that only keeps it a row.
        outputs = [c.alias for c in body.selects[len(places) :] if OUTPUT.fullmatch(c.alias)]
        columns += [exp.column(c, table="s") for c in outputs]
        selects.append(exp.select(*columns).from_(body.copy().subquery("s")))
    return exp.union(*selects, distinct=False)


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
    if any(e.find(exp.Star) and not e.find(exp.Count) for e in tree.expressions):
        return
    items = []
    for item, name in zip(tree.expressions, names, strict=True):
        value = item.this if isinstance(item, exp.Alias) else item
        items.append(exp.Alias(this=value, alias=exp.to_identifier(name, quoted=True)))
    tree.set("expressions", items)


def _rows(columns: ReleasedColumns, numbers: Sequence[int]) -> exp.Select:
    """SELECT of the arrays, which are the parameters `numbers`, side by side, each column cast to its type; of no
    arrays one row."""
    if not columns:
        return select(alias(exp.Literal.number(1), "x"))
    arrays = [
        cast(exp.Parameter(this=exp.Literal.number(n)), "BIGINT[]" if c.transport == "int8" else "TEXT[]")
        for n, c in zip(numbers, columns, strict=True)
    ]
    names = [exp.to_identifier(f"x{n}") for n in range(len(columns))]
    shown = exp.TableAlias(this=exp.to_identifier("x"), columns=names)
    rows = exp.Table(this=exp.Anonymous(this="unnest", expressions=arrays), alias=shown)
    values = []
    for number, column in enumerate(columns):
        spend(PARSED)
        value: exp.Expr = column_of(f"x{number}", "x")
        if column.type == "timestamp with time zone":
            # The session of the analyst may be in another zone than those of the backends.
            value = exp.AtTimeZone(this=cast(value, "TIMESTAMP"), zone=exp.Literal.string("UTC"))
        value = cast(value, data_type(column.type, "postgres"))
        values.append(alias(value, column.name, quoted=True))
    return select(*values, source=rows)
