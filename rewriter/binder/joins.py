"""FROM: joins of relations. Every row of the result belongs to one unit, or the join is refused.

| left JOIN right on p | result |
|---|---|
| inner, either public | sources side by side under p; m, g, b by bounds.py |
| private x private | the same, if p (or WHERE, later) makes the units equal, or a declared FK implies it; else PV012 |
| private LEFT any | the right side's rows or NULLs under p; the unit is the left's; RIGHT is LEFT turned round |
| private FULL private | one source with the unit of either side; p must have the units' equality |
| public LEFT private | zero-fill: the inner join, where the groups are the public rows (zero_fill.py); else PV021 |

Why: docs/decisions/events-bring-their-unit.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from rewriter.binder.composite_units import units_equated
from rewriter.binder.contribution_bounds import apart_on_unit, one_row_per_unit
from rewriter.binder.names import resolve
from rewriter.binder.output_columns import row_column
from rewriter.binder.rejections import refuse_two_kinds, unit_name, visible_unit
from rewriter.binder.subquery_source import as_rows, derived_source
from rewriter.binder.zero_fill import refuse_kept
from rewriter.ir.relation import (
    UNIT,
    Field,
    FullJoin,
    Relation,
    Source,
    ZeroFill,
    conjuncts,
    equated,
    is_event,
    is_inner_unit,
    is_unit,
    leads_to_unit,
    leaf,
    leaves,
    shown_name,
    stored_name,
    unit_column,
)
from rewriter.ir.texts import sql_text
from rewriter.ir.trees import folded
from rewriter.policy import TableName
from rewriter.refusal import Refusal
from rewriter.scalar.typecheck import Parameters, check_condition
from rewriter.syntax.allowlist import position
from rewriter.syntax.desugar_rows import plain_lists
from rewriter.syntax.pasted import identifier


def join(
    left: Relation, right: Relation, node: exp.Join, names: Iterator[str], parameters: Parameters
) -> Relation:
    """The join of two relations; `names` are aliases for new sources.

    Raises Refusal: PV013 for two kinds of units, PV021 for joins that keep public rows that no unit owns, 0A000 for
    unsupported kinds of joins.
    """
    refuse_two_kinds(left, right, node)
    side, kind, method = (str(node.args.get(k) or "").upper() for k in ("side", "kind", "method"))
    if kind not in ("", "INNER", "CROSS", "OUTER") or method not in ("", "NATURAL"):
        raise Refusal("0A000", f"{kind or method} JOIN is not supported", position=position(node))
    if side == "FULL":
        return _full(left, right, node, names, parameters)
    sides = {"LEFT": (left, right), "RIGHT": (right, left)}.get(side)
    if sides is not None and sides[1].private and not sides[0].private:
        return _filled(*sides, _both(left, right, node, side), node, parameters)
    if side == "LEFT":
        right = _outer(right, names, node, parameters)
    elif side == "RIGHT":
        left = _outer(left, names, node, parameters)
    both = _both(left, right, node, side)
    on = _on(both, left, right, node, parameters)
    if side == "":
        return replace(both, conditions=left.conditions + right.conditions + on)
    kept, added = (left, right) if side == "LEFT" else (right, left)
    outer = replace(added.sources[0], on=(*added.conditions, *on))
    return replace(both, sources=(*kept.sources, outer), conditions=kept.conditions)


def _both(left: Relation, right: Relation, node: exp.Join, side: str) -> Relation:
    """Both relations' sources and names side by side, without conditions."""
    if left.filled is not None and right.filled is not None:
        raise _keeps(right, side or "INNER", node)
    chosen = right if side == "RIGHT" else left
    merged = {name: _named(chosen, name) for name in _columns(left, right, node)}
    earlier = [*left.merged.items(), *right.merged.items()]
    return replace(
        left,
        sources=left.sources + right.sources,
        conditions=(),
        scope=left.scope + right.scope,
        merged={**merged, **{n: v for n, v in earlier if n not in merged}},
        semi_joins=left.semi_joins + right.semi_joins,
        filled=left.filled or right.filled,
    )


def _columns(left: Relation, right: Relation, node: exp.Join) -> list[str]:
    """The columns that USING or NATURAL joins."""
    if str(node.args.get("method") or "").upper() == "NATURAL":
        there = set(_names(right))
        return [n for n in dict.fromkeys(_names(left)) if n in there]
    return [folded(i) for i in node.args.get("using") or ()]


def _on(
    both: Relation, left: Relation, right: Relation, node: exp.Join, parameters: Parameters
) -> tuple[exp.Expr, ...]:
    """The conjuncts of ON, USING or NATURAL in base form."""
    equal = [exp.EQ(this=_named(left, n), expression=_named(right, n)) for n in _columns(left, right, node)]
    for condition in equal:
        check_condition(condition, both, parameters)
    on = node.args.get("on")
    written = conjuncts(None if on is None else plain_lists(on))
    return (*equal, *(_condition(c, both, parameters) for c in written))


def _outer(relation: Relation, names: Iterator[str], node: exp.Join, parameters: Parameters) -> Relation:
    """The side of a LEFT JOIN that NULLs stand for, as one source whose columns are NULL together.

    The conditions of a single table move into ON.
    """
    plain = all(isinstance(f.value, exp.Column) for f in relation.fields)
    single = len(relation.sources) == 1 and relation.sources[0].on is None
    if plain and single and not relation.semi_joins and relation.filled is None:
        return relation
    refuse_kept(relation, node)
    if not relation.private:
        raise Refusal(
            "0A000",
            "LEFT JOIN of a subquery over several public tables is not supported on private rows",
            hint="LEFT JOIN the tables themselves, one after the other.",
            position=position(node),
        )
    return as_rows(owned(relation, node), next(names), parameters)


def _full(
    left: Relation, right: Relation, node: exp.Join, names: Iterator[str], parameters: Parameters
) -> Relation:
    """FULL JOIN on the unit: a row without a partner has the unit of the side that it comes from."""
    public = next((r for r in (left, right) if not r.private), None)
    if public is not None:
        raise _keeps(public, "FULL", node)
    for side in (left, right):
        refuse_kept(side, node)
    sides = [as_rows(owned(r, node), next(names), parameters) for r in (left, right)]
    both = _both(sides[0], sides[1], node, "FULL")
    on = units_equated(_on(both, sides[0], sides[1], node, parameters), both)
    rest = tuple(c for c in on if not _unit_equality(c, both))
    if len(rest) == len(on):
        raise _apart(sides[0], sides[1], on, node)
    if not all(_equality(c, both) for c in rest):
        raise Refusal(
            "0A000",
            "FULL JOIN is supported on equalities of columns alone",
            hint="Put other conditions into a subquery on either side.",
            position=position(node),
        )
    return _outer_source(sides[0], sides[1], rest, both, node, next(names), parameters)


def _outer_source(
    left: Relation,
    right: Relation,
    on: tuple[exp.Expr, ...],
    both: Relation,
    node: exp.Join,
    alias: str,
    parameters: Parameters,
) -> Relation:
    values: dict[str, exp.Expr] = {}
    for value in (*(f.value for f in both.fields), *left.merged.values(), *right.merged.values()):
        values.setdefault(sql_text(value), value)
    fields = {text: Field(f"x{n}", v) for n, (text, v) in enumerate(values.items())}
    columns = [replace(row_column(f.name, f.value, both, parameters), nullable=True) for f in fields.values()]
    copies = frozenset(f.name for f in fields.values() if is_unit(f.value, both))
    one, other = left.sources[0], right.sources[0]
    source = derived_source(
        alias,
        FullJoin(one, other, on, tuple(fields.values())),
        columns,
        both,
        # A unit whose rows do not match under a further equality has a row of each side.
        single=not on and one_row_per_unit(left) and one_row_per_unit(right),
        copies=copies,
    )

    def shown(value: exp.Expr) -> exp.Expr:
        return leaf(alias, fields[sql_text(value)].name)

    merged = {n: shown(v) for n, v in (*left.merged.items(), *right.merged.items())}
    for name in _columns(left, right, node):
        sides = _named(left, name), _named(right, name)
        unit = all(is_inner_unit(s, both) for s in sides)
        either = exp.Coalesce(this=shown(sides[0]), expressions=[shown(sides[1])])
        merged[name] = leaf(alias, UNIT) if unit else either
    scope = tuple((name, tuple(Field(f.name, shown(f.value)) for f in fs)) for name, fs in both.scope)
    return Relation((source,), scope=scope, merged=merged)


def _filled(
    kept: Relation, private: Relation, both: Relation, node: exp.Join, parameters: Parameters
) -> Relation:
    """Public rows LEFT JOIN private rows, as the inner join with the public rows as groups."""
    sides = (kept, private) if str(node.args["side"]).upper() == "LEFT" else (private, kept)
    if private.filled is not None:
        raise _keeps(kept, str(node.args["side"]).upper(), node)
    on = _on(both, sides[0], sides[1], node, parameters)
    filled = ZeroFill(frozenset(s.alias for s in kept.sources), (*private.conditions, *on))
    return replace(both, conditions=kept.conditions, filled=filled)


def _keeps(public: Relation, side: str, node: exp.Expr) -> Refusal:
    table = next((s.table for s in public.sources if s.table.public), None)
    name = f'public table "{table.name}"' if table is not None else "a subquery"
    return Refusal(
        "PV021",
        f"{side} JOIN keeps rows of {name} that belong to no unit",
        hint="Use INNER JOIN, or LEFT JOIN with the private table on the left.",
        position=position(node),
    )


def _names(relation: Relation) -> list[str]:
    return [f.name for f in relation.fields]


def _named(relation: Relation, name: str) -> exp.Expr:
    return resolve(exp.column(exp.to_identifier(name, quoted=True)), relation)


def _condition(node: exp.Expr, relation: Relation, parameters: Parameters) -> exp.Expr:
    resolved = resolve(node, relation)
    check_condition(resolved, relation, parameters)
    return resolved.unnest()


def _equality(condition: exp.Expr, both: Relation) -> bool:
    """Whether a condition is the equality of a column of each side."""
    columns = equated(condition)
    return columns is not None and {c.table for c in columns} == {s.alias for s in both.sources}


def _unit_equality(condition: exp.Expr, both: Relation) -> bool:
    return _equality(condition, both) and all(is_inner_unit(s, both) for s in condition.iter_expressions())


def owned(relation: Relation, at: exp.Expr) -> Relation:
    """The relation with the equality of units that declared references and events imply, each row then of one unit.

    A row of items that refers to a row of events belongs to its unit: `items.event_id = events.event_id` with items'
    path through events.event_id implies that the units are equal, and so does a declaration that an event_id belongs to
    one unit. The SQL says so: what is declared only decides whether the join is accepted. Raises PV012 where private
    tables are not joined on the unit.
    """
    relation = _with_implied(relation)
    apart = apart_on_unit(relation)
    if apart is None:
        return relation
    met = (*relation.met, *(c for s in relation.sources for c in s.on or ()))
    raise _not_joined(apart, (relation, relation), met, at)


def _apart(left: Relation, right: Relation, on: Sequence[exp.Expr], at: exp.Expr) -> Refusal:
    sources = [next(s for s in r.sources if s.private) for r in (left, right)]
    return _not_joined(sources, (left, right), on, at, "ON")


def _not_joined(
    sources: Sequence[Source],
    relations: Sequence[Relation],
    met: Sequence[exp.Expr],
    at: exp.Expr,
    clause: str = "WHERE",
) -> Refusal:
    """PV012 for two sources, each of its relation, joined under `met`; the hint names what equates their units, if
    anything can and asks the same."""
    found = list(zip(sources, relations, strict=True))
    one, other = (shown_name(s, r) for s, r in found)
    units = [unit_name(r, s, qualified=True) for s, r in found]
    equal = None if None in units else " = ".join(map(str, units))
    equal = (
        equal
        or _parts_equal(one, other, sources)
        or _reference(one, other, sources)
        or _reference(other, one, sources[::-1])
    )
    clause = "WHERE" if clause == "WHERE" and sources[1].on is None else "ON"
    own = {s.alias for s in sources}
    hint = of_another_unit([c for c in met if {a for a, _ in leaves(c)} <= own], *relations)
    if hint is None and equal is not None:
        hint = f"Add `{equal}` to {clause} (an equality under OR, or through a function, does not count)."
    return Refusal(
        "PV012",
        f'private tables "{one}" and "{other}" must be joined on the privacy unit',
        detail="A join on anything else would let one person's rows decide about another's.",
        hint=hint or "Join each along the references that lead to its privacy unit.",
        position=position(at),
    )


def of_another_unit(conditions: Sequence[exp.Expr], *relations: Relation) -> str | None:
    """A hint where conditions compare rows by a column that names another unit than theirs: rows of the same unit would
    be another question. None where no condition does."""
    for columns in map(equated, conditions):
        for here, there in (columns, columns[::-1]) if columns is not None else ():
            rows = next((r for r in relations if any(s.alias == here.table for s in r.sources)), None)
            if rows is None or is_unit(here, rows) or not rows.source(here.table).private:
                continue
            source = rows.source(here.table)
            if frozenset({here.name}) in source.table.keys:
                continue  # the rows' own key names nobody
            other = here.name == _other_unit(source) and not is_event(here, rows)
            if other or any(is_unit(there, r) for r in relations):
                shown, name = shown_name(source, rows), stored_name(rows, here.table, here.name)
                return (
                    f'A row of "{shown}" belongs to {_owner(source)}, whatever is in "{name}": no statement asks about '
                    "both. The data owner decides whose the rows are."
                )
    return None


def _other_unit(source: Source) -> str | None:
    """The column of a scan that is called as the unit is where the path to it ends, and names another one."""
    table = source.table
    if source.derived is not None or not table.path or table.composite:
        return None
    last = table.path[-1].target_column
    return None if last == table.privacy_unit else last


def _owner(source: Source) -> str:
    """Which unit the rows of a source belong to, by what analysts see."""
    table, path = source.table, source.table.path if source.derived is None else ()
    if len(path) > 1 and table.column(path[0].column) is not None:
        return f'the unit that "{path[0].column}" leads to'
    unit = visible_unit(table)
    return "a unit of its own" if unit is None else f'the unit in "{unit}"'


def _parts_equal(one: str, other: str, sources: Sequence[Source]) -> str | None:
    """The equality of two scans' units that several columns name."""
    tables = [s.table for s in sources]
    if not all(t.unit_parts and all(t.column(part) for part in t.unit_parts) for t in tables):
        return None
    if any(s.derived is not None for s in sources):
        return None
    names = [[identifier(part) for part in t.unit_parts] for t in tables]
    pairs = zip(*names, strict=True)
    return " AND ".join(f"{identifier(one)}.{here} = {identifier(other)}.{there}" for here, there in pairs)


def _reference(one: str, other: str, sources: Sequence[Source]) -> str | None:
    """The equality by which the first source refers to the second on the way to its unit."""
    path, target = sources[0].table.path, sources[1].table
    if (
        any(s.derived is not None for s in sources)
        or not path
        or path[0].more
        or path[0].target != (target.schema, target.name)
    ):
        return None
    if sources[0].table.column(path[0].column) is None or target.column(path[0].target_column) is None:
        return None
    here, there = (identifier(name) for name in (path[0].column, path[0].target_column))
    return f"{identifier(one)}.{here} = {identifier(other)}.{there}"


def _with_implied(relation: Relation) -> Relation:
    sources = tuple(
        s if s.on is None else replace(s, on=(*units_equated(s.on, relation), *implied(s.on, relation)))
        for s in relation.sources
    )
    return replace(
        relation,
        sources=sources,
        conditions=(*units_equated(relation.conditions, relation), *implied(relation.met, relation)),
    )


def implied(conditions: Sequence[exp.Expr], relation: Relation) -> list[exp.Expr]:
    """The equalities of units that equalities of references and events among `conditions` imply."""
    found: list[exp.Expr] = []
    known = {s.alias for s in relation.sources}
    for condition in conditions:
        columns = equated(condition)
        if columns is None or not {c.table for c in columns} <= known:
            continue
        one, other = ((relation.source(c.table), c.name) for c in columns)
        same = _same_owner(one, other) or _same_event(columns, relation)
        if one[0].alias != other[0].alias and same:
            found.append(exp.EQ(this=leaf(one[0].alias, UNIT), expression=leaf(other[0].alias, UNIT)))
    return [*found, *_implied_by_keys(conditions, relation)]


def _implied_by_keys(conditions: Sequence[exp.Expr], relation: Relation) -> Iterator[exp.Expr]:
    """The equalities of units that references of several columns imply, each column equated with the key's."""
    equal = {pair for c in map(equated, conditions) if c for pair in (c, c[::-1])}
    named = {((a.table, a.name), (b.table, b.name)) for a, b in equal}
    scans = [s for s in relation.sources if s.private and s.derived is None]
    for source in scans:
        hop = source.table.path[0] if source.table.path and not source.table.unit_parts else None
        for other in scans if hop is not None and hop.more else ():
            if hop is None or hop.target != (other.table.schema, other.table.name):
                continue
            if all(((source.alias, c), (other.alias, t)) in named for c, t in hop.pairs):
                yield exp.EQ(this=leaf(source.alias, UNIT), expression=leaf(other.alias, UNIT))


def _same_event(columns: Sequence[exp.Column], relation: Relation) -> bool:
    """Whether equal values of two columns are one event: both are events, and not keys of rows alone."""
    declared = any(relation.source(c.table).column(c.name).of_unit for c in columns)
    return declared and all(is_event(c, relation) for c in columns)


def _hop(source: Source, column: str) -> tuple[TableName, str] | None:
    """The (table, column) that `column` of a private scan refers to on the way to its unit, which it is not itself."""
    if not source.private or not leads_to_unit(source, column) or column == unit_column(source.table):
        return None
    hop = source.table.path[0]
    return hop.target, hop.target_column


def _same_owner(one: tuple[Source, str], other: tuple[Source, str]) -> bool:
    """Whether rows with equal values in these columns belong to one unit by a declared reference."""
    hops = _hop(*one), _hop(*other)
    if hops[0] is not None and hops[0] == hops[1]:
        return True
    for hop, (source, column) in ((hops[0], other), (hops[1], one)):
        table = source.table
        if hop is not None and source.derived is None and hop == ((table.schema, table.name), column):
            return True
    return False
