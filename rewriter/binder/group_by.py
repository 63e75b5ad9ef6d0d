"""GROUP BY: what its items mean, which sets of keys it asks for, and which cannot be keys.

In:  GROUP BY country, ROLLUP (action, 2)
Out: three keys, and the sets (country, action, <output 2>), (country, action), (country)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from sqlglot import exp

from rewriter.binder.names import output_name, resolve
from rewriter.binder.rejections import event_groups, row_groups, stored_column, stored_table, unit_groups
from rewriter.canonical.order import key_order
from rewriter.ir.relation import Relation, is_event, is_unit, leaf, leaves
from rewriter.ir.texts import sql_text
from rewriter.ir.trees import copied, folded
from rewriter.refusal import Refusal
from rewriter.scalar.typecheck import Parameters, check, check_order
from rewriter.syntax.allowlist import position
from rewriter.syntax.pasted import instead

MAX_SETS = 16
"""The most sets of one GROUP BY: each is paid for."""


@dataclass(frozen=True)
class Grouping:
    """The keys of GROUP BY in base form, each once, and the sets of them (by place) that it groups by, one usually.

    `order`: where each key was written, counted from 0.
    """

    keys: tuple[exp.Expr, ...]
    sets: tuple[tuple[int, ...], ...]
    order: Sequence[int]

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The keys as texts, by which expressions are known to be keys."""
        return tuple(sql_text(key) for key in self.keys)


def aggregates(part: object) -> bool:
    """Whether an aggregate of this very query stands in `part`; windows and nested queries have their own."""
    if isinstance(part, list):
        return any(aggregates(p) for p in part)
    if not isinstance(part, exp.Expr) or isinstance(part, exp.Query):
        return False
    if isinstance(part, (exp.AggFunc, exp.WithinGroup)):
        return True
    if isinstance(part, exp.Window):
        function = part.this.this if isinstance(part.this, exp.Filter) else part.this
        return any(aggregates(p) for p in function.iter_expressions())
    return any(aggregates(p) for p in part.iter_expressions())


def grouping(
    tree: exp.Select, relation: Relation, parameters: Parameters, order: Sequence[int] | None = None
) -> Grouping:
    """The keys and sets of GROUP BY. Without GROUP BY: one set without keys, or the selected columns with DISTINCT.

    `order`: that of the same GROUP BY, read before its constants had values; None for that of the texts. Raises Refusal
    for what PostgreSQL refuses, and 54001 for too many sets.
    """
    reader = _KeyReader(tree, relation, parameters)
    group = tree.args.get("group")
    if group is None:
        chosen = tree.expressions if tree.args.get("distinct") is not None and not _aggregated(tree) else []
        return _in_order(*reader.one(chosen), relation, order)
    if group.args.get("all") and not group.expressions:
        raise Refusal(
            "42601",
            "GROUP BY ALL needs the columns",
            hint=_named(tree),
            position=next((at for at in map(position, tree.expressions) if at is not None), None),
        )
    found = [reader.sets(item) for item in group.expressions]
    sets = [tuple(dict.fromkeys(k for part in parts for k in part)) for parts in _products(found, group)]
    if group.args.get("all") is False:
        sets = list({frozenset(s): s for s in reversed(sets)}.values())[::-1]
    if len(sets) == 1:
        sets = [(*sets[0], *reader.dependent())]
    return _in_order(tuple(reader.keys.values()), tuple(sets), relation, order)


def _named(tree: exp.Select) -> str:
    """GROUP BY ALL with its columns said."""
    places = [str(n) for n, item in enumerate(tree.expressions, 1) if not aggregates(item)]
    return f"Write {instead('GROUP BY ' + (', '.join(places) or '()'), 'GROUP BY ALL')}."


def named_keys(tree: exp.Select) -> Iterator[exp.Expr]:
    """What the items of GROUP BY say, and the outputs that they may mean by ordinal or alias."""
    group = tree.args.get("group")
    items = [] if group is None else list(group.expressions)
    for item in items:
        if isinstance(item, (exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple)):
            items += item.expressions
        elif isinstance(item, exp.Paren):
            items.append(item.this)
    said = {
        item.this if isinstance(item, exp.Literal) else folded(item.this) for item in items if _short(item)
    }
    yield from items
    for place, output in enumerate(tree.expressions, 1):
        named = isinstance(output, exp.Alias) and folded(output.args["alias"]) in said
        if (named or str(place) in said) and not aggregates(output):
            yield output.unalias()


def _short(item: exp.Expr) -> bool:
    """Whether an item is an ordinal, or a name that may be an alias."""
    if isinstance(item, exp.Literal):
        return not item.is_string
    return isinstance(item, exp.Column) and not item.table


def same_with_values() -> Refusal:
    """What a statement is refused with in which two expressions are one when constants have their values."""
    return Refusal(
        "0A000",
        "two expressions of this statement are the same once its constants have their values",
        hint="Write the constant in the same way in both.",
    )


def _in_order(
    keys: tuple[exp.Expr, ...],
    sets: tuple[tuple[int, ...], ...],
    relation: Relation,
    order: Sequence[int] | None,
) -> Grouping:
    """The keys and sets in an order independent of how they were written."""
    if order is None:
        order = key_order(keys, relation)
    elif len(order) != len(keys):
        raise same_with_values()
    new = {old: place for place, old in enumerate(order)}
    sets = tuple(tuple(sorted(new[k] for k in s)) for s in sets)
    return Grouping(tuple(keys[old] for old in order), sets, order)


def _aggregated(tree: exp.Select) -> bool:
    parts = ("expressions", "order")
    return tree.args.get("having") is not None or any(aggregates(tree.args.get(p)) for p in parts)


def _products(found: list[list[tuple[int, ...]]], group: exp.Expr) -> Iterator[tuple[tuple[int, ...], ...]]:
    size = 1
    for sets in found:
        size *= len(sets)
    if size > MAX_SETS:
        raise Refusal(
            "54001",
            f"more than {MAX_SETS} grouping sets",
            hint="Ask for fewer: each set is paid for.",
            position=position(group),
        )
    return product(*found)


class _KeyReader:
    """Reads items of GROUP BY; `keys` are those found so far, by text."""

    def __init__(self, tree: exp.Select, relation: Relation, parameters: Parameters) -> None:
        self._tree, self._relation, self._parameters = tree, relation, parameters
        self.keys: dict[str, exp.Expr] = {}

    def one(self, items: list[exp.Expr]) -> tuple[tuple[exp.Expr, ...], tuple[tuple[int, ...], ...]]:
        """The keys and the one set of plain items of a SELECT list."""
        for item in items:
            if isinstance(item, exp.Star) or isinstance(item.this, exp.Star):
                raise Refusal(
                    "0A000",
                    "SELECT DISTINCT * is not supported on private rows",
                    hint="Name the columns.",
                    position=position(self._tree),
                )
        places = tuple(dict.fromkeys(self._key(item.unalias(), item) for item in items))
        return tuple(self.keys.values()), (places,)

    def sets(self, item: exp.Expr) -> list[tuple[int, ...]]:
        """The sets that an item of GROUP BY stands for; a plain one for the set of itself."""
        if isinstance(item, exp.Rollup):
            parts = [self._together(e) for e in item.expressions]
            return [_joined(parts[:n]) for n in range(len(parts), -1, -1)]
        if isinstance(item, exp.Cube):
            parts = [self._together(e) for e in item.expressions]
            if len(parts) > MAX_SETS.bit_length() - 1:
                return [()] * (MAX_SETS + 1)
            return [
                _joined([p for p, chosen in zip(parts, c, strict=True) if chosen])
                for c in _choices(len(parts))
            ]
        if isinstance(item, exp.GroupingSets):
            return [one for inner in item.expressions for one in self.sets(inner)]
        return [self._together(item)]

    def dependent(self) -> Iterator[int]:
        """Keys for the columns of tables that the query shows where a key of theirs is grouped by: each has one value
        in a group. Whether the key is one by which a column may be shown, PostgreSQL decides."""
        columns = [key for key in self.keys.values() if isinstance(key, exp.Column)]
        whole = {
            source.alias
            for source in self._relation.sources
            if source.derived is None
            for key in source.table.keys
            if key <= {c.name for c in columns if c.table == source.alias}
        }
        for column in [column for part in self._clauses() if whole for column in self._shown(part)]:
            value = self._base(column)
            if isinstance(value, exp.Column) and value.table in whole and sql_text(value) not in self.keys:
                yield self._key(column, column)

    def _clauses(self) -> Iterator[exp.Expr]:
        """The expressions over groups; a name in ORDER BY means an output first."""
        yield from self._tree.expressions
        having, order = self._tree.args.get("having"), self._tree.args.get("order")
        if having is not None:
            yield having
        names = {output_name(item) for item in self._tree.expressions}
        for item in order.expressions if order is not None else ():
            target = item.this
            named = isinstance(target, exp.Column) and not target.table and folded(target.this) in names
            if not named:
                yield target

    def _shown(self, node: exp.Expr) -> Iterator[exp.Column]:
        """The columns that an expression shows by themselves: neither aggregated nor part of a key."""
        if isinstance(node, (exp.AggFunc, exp.WithinGroup, exp.Query)):
            return
        base = self._base(node)
        if base is not None and sql_text(base) in self.keys:
            return
        if isinstance(node, exp.Column):
            yield node
        for part in node.iter_expressions():
            yield from self._shown(part)

    def _base(self, node: exp.Expr) -> exp.Expr | None:
        """The base form of an expression, None for one that has none."""
        try:
            return resolve(copied(node), self._relation)
        except Refusal:
            return None

    def _together(self, item: exp.Expr) -> tuple[int, ...]:
        """The keys of one element: (a, b) is both, () none."""
        if isinstance(item, exp.Tuple):
            return _joined([self._together(e) for e in item.expressions])
        if isinstance(item, exp.Paren):
            return self._together(item.this)
        return (self._key(self._meant(item), item),)

    def _key(self, chosen: exp.Expr, item: exp.Expr) -> int:
        if aggregates(chosen):
            raise Refusal("42803", "aggregate functions are not allowed in GROUP BY", position=position(item))
        value = resolve(chosen, self._relation)
        check(value, self._relation, self._parameters)
        check_order([value], self._relation, self._parameters, item)
        text = sql_text(value)
        self.keys.setdefault(text, value)
        return list(self.keys).index(text)

    def _meant(self, item: exp.Expr) -> exp.Expr:
        """What a GROUP BY item means: an output's ordinal, an input column, else an output's alias."""
        outputs, relation = self._tree.expressions, self._relation
        if isinstance(item, exp.Literal) and not item.is_string:
            number = int(item.this) if item.this.isdigit() else 0
            if not 1 <= number <= len(outputs):
                raise Refusal(
                    "42P10", f"GROUP BY position {item.this} is not in select list", position=position(item)
                )
            chosen: exp.Expr = outputs[number - 1].unalias()
            return chosen
        if isinstance(item, exp.Column) and not item.table:
            name = folded(item.this)
            if name not in relation.merged and not any(
                f.name == name for _, fs in relation.scope for f in fs
            ):
                for output in outputs:
                    if isinstance(output, exp.Alias) and folded(output.args["alias"]) == name:
                        value: exp.Expr = output.this
                        return value
        return item


def _joined(parts: list[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(k for part in parts for k in part))


def _choices(size: int) -> Iterator[tuple[bool, ...]]:
    return product((True, False), repeat=size)


def refuse_unit_keys(tree: exp.Select, relation: Relation, keys: tuple[exp.Expr, ...]) -> None:
    """Refuse keys that single out units (PV011) or rows (PV010)."""
    for key in keys:
        columns = leaves(key)
        if not columns:
            continue
        if all(is_unit(leaf(a, c), relation) for a, c in columns) and not isinstance(
            key, (exp.Predicate, exp.Case)
        ):
            raise unit_groups(stored_table(relation.source(next(iter(columns))[0])), tree)
        for alias in {a for a, _ in columns}:
            source = relation.source(alias)
            own = frozenset(c for a, c in columns if a == alias)
            declared = (*source.table.keys, *source.table.declared_keys)
            if source.private and isinstance(key, exp.Column) and own in declared:
                raise row_groups(source.table, key.name, tree)
        if is_event(key, relation):
            stored = stored_column(key, relation)
            raise event_groups(None if stored is None else stored[0], key.name, tree)
