"""The cut: every aggregate over private rows becomes a DP node, all above it stays a statement for the front.

In:  SELECT country, COUNT(DISTINCT user_id) AS n FROM users GROUP BY country HAVING COUNT(*) > 9 ORDER BY n DESC
Out: node (country; persons), and SELECT _r0.g0 AS country, _r0.c0 AS n FROM <released> AS _r0 WHERE _r0.c0 > 9 ORDER BY n DESC
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from rewriter.aggregate import count_measure, limit_of, per_unit_column
from rewriter.bounds import Bound, groups_per_unit
from rewriter.expression import Parameters, check
from rewriter.grammar import describe, position
from rewriter.parse import parse_query
from rewriter.policy import Policy, Table
from rewriter.refusal import Refusal
from rewriter.relation import Field, Relation, is_unit, leaf, leaves
from rewriter.resolve import folded, output_name, resolve
from rewriter.stability import aliases, exists, join, per_unit, require_unit_joins, scan, semi_join, where

SYSTEM = "dpproxy"
SYSTEM_TABLES = ("budget", "releases")


@dataclass(frozen=True)
class MeasureDraft:
    """A count of a node: rows (or units, `tau` 1) whose `argument` is true; None counts all."""

    argument: exp.Expression | None
    tau: int


@dataclass(frozen=True)
class NodeDraft:
    """A DP node in base form; `k` is None without a top-k form, `bound` what one unit can do to its groups."""

    relation: Relation
    keys: tuple[exp.Expression, ...]
    measures: tuple[MeasureDraft, ...]
    bound: Bound
    k: int | None
    order_by: int
    counts: bool


@dataclass(frozen=True)
class SystemDraft:
    """A reference to one of the proxy's own tables (dpproxy.budget, dpproxy.releases)."""

    name: str


@dataclass
class Draft:
    """One statement, analysed: `regenerated` is our reading of its text, `nodes` what must be released, in order."""

    tree: exp.Query
    regenerated: str
    nodes: list[NodeDraft | SystemDraft]
    edits: list[Callable[[], None]]
    parameters: Parameters


def draft(text: str, policy: Policy, parameters: Parameters = ()) -> Draft:
    """The analysis of one query text.

    Raises Refusal for what is not answered. Pure: `parameters` are the bound values (value None before they are known;
    nodes and presentation have the same shape with any values).
    """
    tree = parse_query(text)
    cutter = _Cutter(policy, parameters)
    relation = cutter.query(tree, {})
    if relation is not None:
        raise _row_level(relation, tree)
    _spell_units(tree)
    return Draft(tree, tree.sql("postgres"), cutter.nodes, cutter.edits, parameters)


def _spell_units(tree: exp.Expression) -> None:
    """Write the units of date_trunc as analysts do; the parser keeps them in upper case."""
    for node in tree.find_all(exp.TimestampTrunc, exp.DateTrunc):
        node.set("unit", exp.var(node.args["unit"].name.lower()))


def released(index: int) -> str:
    """The name of node `index`'s released rows in the presentation."""
    return f"_r{index}"


Ctes = dict[str, exp.Query | None]
"""CTE name -> its query where it is private rows, None where it stays in the presentation."""


@dataclass
class _Cutter:
    policy: Policy
    parameters: Parameters
    nodes: list[NodeDraft | SystemDraft] = field(default_factory=list)
    edits: list[Callable[[], None]] = field(default_factory=list)
    names: Iterator[str] = field(default_factory=aliases)

    def query(self, tree: exp.Expression, ctes: Ctes, outer: Relation | None = None) -> Relation | None:
        """None where the query's rows are public or released; else the private relation it stands for."""
        if isinstance(tree, exp.Subquery):
            return self.query(tree.this, self._with(tree, ctes), outer)
        ctes = self._with(tree, ctes)
        if isinstance(tree, exp.SetOperation):
            for side in (tree.this, tree.expression):
                relation = self.query(side, ctes)
                if relation is not None:
                    raise _row_level(relation, side)
            self._presented(tree, ctes, skip=("this", "expression", "with_"))
            return None
        if not isinstance(tree, exp.Select):
            raise Refusal("0A000", f"{describe(tree)} is not supported on private tables", position=position(tree))
        relation = self._from(tree, ctes)
        if relation is None:
            self._presented(tree, ctes, skip=("from_", "joins", "with_"))
            return None
        return self._private(tree, relation, ctes, outer)

    def _with(self, tree: exp.Expression, ctes: Ctes) -> Ctes:
        clause = tree.args.get("with_")
        if clause is None:
            return ctes
        ctes = dict(ctes)
        private = []
        for cte in clause.expressions:
            name = folded(cte.args["alias"].this)
            is_private = self.query(cte.this, ctes) is not None
            if is_private and cte.args["alias"].columns:
                raise Refusal("0A000", f'column names of CTE "{name}" are not supported', position=position(cte))
            ctes[name] = cte.this if is_private else None
            private += [cte] if is_private else []
        self.edits.append(lambda: _drop(tree, private))
        return ctes

    def _presented(self, tree: exp.Expression, ctes: Ctes, skip: Sequence[str]) -> None:
        """Analyse the queries nested in the expressions of a statement that stays in the presentation."""
        for key, value in tree.args.items():
            if key not in skip:
                for part in value if isinstance(value, list) else [value]:
                    if isinstance(part, exp.Expression):
                        self._nested(part, ctes)

    def _nested(self, node: exp.Expression, ctes: Ctes) -> None:
        if isinstance(node, exp.Query):
            relation = self.query(node, ctes)
            if relation is not None:
                raise _row_level(relation, node, "PV015" if isinstance(node.parent, (exp.In, exp.Exists)) else "PV010")
            return
        for part in node.iter_expressions():
            self._nested(part, ctes)

    def _from(self, tree: exp.Select, ctes: Ctes) -> Relation | None:
        """The relation of FROM and JOIN where a private table is in it, None where all of it is public or released."""
        clause = tree.args.get("from_")
        if clause is None:
            return None
        joins = tree.args.get("joins") or []
        items = [clause.this, *(j.this for j in joins)]
        found = [self._item(i, ctes) for i in items]
        if not any(r is not None and r.private for r in found):
            for node in joins:
                self._presented(node, ctes, skip=("this",))
            return None
        for item, relation in zip(items, found, strict=True):
            if relation is None:
                raise Refusal(
                    "0A000",
                    "private tables can be joined with private tables on the unit and with public tables",
                    hint="Aggregate the private rows in a subquery and join its result.",
                    position=position(item),
                )
        relations = [r for r in found if r is not None]
        whole = relations[0]
        for node, right in zip(joins, relations[1:], strict=True):
            whole = join(whole, right, node, self.parameters)
        return whole

    def _item(self, item: exp.Expression, ctes: Ctes) -> Relation | None:
        alias = item.args.get("alias")
        shown = folded(alias.this) if alias is not None and alias.this is not None else ""
        renamed = [folded(c) for c in alias.columns] if alias is not None else []
        if isinstance(item, exp.Table) and isinstance(item.this, exp.Identifier):
            return self._table(item, shown, renamed, ctes)
        if isinstance(item, exp.Subquery):
            return _shown(self.query(item, ctes), shown, renamed)
        self._nested(item, ctes)
        return None

    def _table(self, item: exp.Table, shown: str, renamed: list[str], ctes: Ctes) -> Relation | None:
        name, schema = folded(item.this), folded(item.args.get("db"))
        if not schema and name in ctes:
            body = ctes[name]
            return None if body is None else _shown(self.query(body, ctes), shown or name, renamed)
        if schema == SYSTEM and name in SYSTEM_TABLES:
            self._system(item, name, shown or name)
            return None
        table = self.policy.find(schema or None, name)
        return None if table is None else scan(table, next(self.names), shown or name, renamed)

    def _system(self, item: exp.Table, name: str, shown: str) -> None:
        index = len(self.nodes)
        self.nodes.append(SystemDraft(name))
        alias = exp.TableAlias(this=exp.to_identifier(shown, quoted=True))
        self.edits.append(_replace_later(item, exp.Table(this=exp.to_identifier(released(index)), alias=alias)))

    def _private(self, tree: exp.Select, relation: Relation, ctes: Ctes, outer: Relation | None) -> Relation | None:
        relation = self._where(tree, relation, ctes, outer)
        if outer is None:
            require_unit_joins(relation, tree.args["from_"])
        group = tree.args.get("group")
        aggregated = group is not None or any(
            _aggregates(tree.args.get(part)) for part in ("expressions", "having", "order")
        )
        if tree.args.get("distinct") is not None and not aggregated:
            return self._distinct(tree, relation)
        if not aggregated:
            return self._rows(tree, relation)
        keys = self._keys(tree, relation)
        if any(_inner_unit(k, relation) for k in keys):
            return self._per_unit(tree, relation, keys)
        self._node(tree, relation, keys, ctes)
        return None

    def _where(self, tree: exp.Select, relation: Relation, ctes: Ctes, outer: Relation | None) -> Relation:
        clause = tree.args.get("where")
        for condition in _split(clause.this if clause else None):
            negated = isinstance(condition, exp.Not)
            inner = condition.this.unnest() if negated else condition
            if isinstance(inner, exp.In) and inner.args.get("query") is not None:
                relation = self._in(relation, inner, ctes, negated, outer)
            elif isinstance(inner, exp.Exists):
                body = inner.this.this if isinstance(inner.this, exp.Subquery) else inner.this
                found = self.query(body, ctes, relation)
                if found is None:
                    raise _uncorrelated(inner)
                relation = exists(relation, found, negated, inner)
            elif condition.find(exp.Query):
                raise _uncorrelated(condition.find(exp.Query) or condition)
            else:
                relation = where(relation, condition, self.parameters, outer)
        return relation

    def _in(self, relation: Relation, node: exp.In, ctes: Ctes, negated: bool, outer: Relation | None) -> Relation:
        value = resolve(node.this, relation, outer)
        query = node.args["query"]
        inner = self.query(query, ctes)
        if inner is None:
            inner = self._public_rows(query, ctes)
        fields = [f for _, fields in inner.scope for f in fields]
        if len(fields) != 1:
            raise Refusal("42601", "subquery has too many columns", position=position(node))
        return semi_join(relation, value, inner, fields[0].value, negated)

    def _public_rows(self, query: exp.Expression, ctes: Ctes) -> Relation:
        """The relation of a plain selection from public tables, for use in the backend."""
        select = query.unnest() if isinstance(query, exp.Subquery) else query
        if not isinstance(select, exp.Select) or select.args.get("with_") or select.args.get("joins"):
            raise _uncorrelated(query)
        clause = select.args.get("from_")
        found = self._item(clause.this, ctes) if clause is not None else None
        if found is None or any(select.args.get(p) for p in ("group", "having", "limit", "offset", "order")):
            raise _uncorrelated(query)
        condition = select.args.get("where")
        for part in _split(condition.this if condition else None):
            found = where(found, part, self.parameters)
        return _projected(found, select, self.parameters)

    def _rows(self, tree: exp.Select, relation: Relation) -> Relation:
        for part in ("limit", "offset"):
            if tree.args.get(part) is not None:
                raise _mixes(part.upper(), relation, tree.args[part])
        window = next((e for e in tree.expressions if e.find(exp.Window)), None)
        if window is not None:
            raise _mixes("a window", relation, window)
        return _projected(relation, tree, self.parameters)

    def _distinct(self, tree: exp.Select, relation: Relation) -> Relation:
        rows = self._rows(tree, relation)
        fields = [f for _, fields in rows.scope for f in fields]
        if not any(_inner_unit(f.value, relation) for f in fields):
            raise Refusal(
                "PV018",
                "SELECT DISTINCT over private rows (partition selection) is not available yet",
                hint="Count the units of each value: SELECT x, COUNT(DISTINCT <unit>) ... GROUP BY x "
                "ORDER BY 2 DESC LIMIT 10.",
                position=position(tree),
            )
        outputs = [(f.name, f.value, None if _inner_unit(f.value, relation) else per_unit_column(f, relation, self.parameters)) for f in fields]
        return per_unit(relation, next(self.names), outputs, None)

    def _keys(self, tree: exp.Select, relation: Relation) -> tuple[exp.Expression, ...]:
        group = tree.args.get("group")
        keys: dict[str, exp.Expression] = {}
        for item in group.expressions if group is not None else []:
            chosen = _group_item(item, tree, relation)
            if _aggregates(chosen):
                raise Refusal("42803", "aggregate functions are not allowed in GROUP BY", position=position(item))
            value = resolve(chosen, relation)
            check(value, relation, self.parameters)
            keys.setdefault(value.sql(), value)
        return tuple(keys.values())

    def _per_unit(self, tree: exp.Select, relation: Relation, keys: tuple[exp.Expression, ...]) -> Relation:
        for part in ("limit", "offset", "distinct"):
            if tree.args.get(part) is not None:
                raise _mixes(part.upper(), relation, tree.args[part])
        outputs = []
        texts = {k.sql() for k in keys}
        for item in tree.expressions:
            value = resolve_aggregates(item.unalias(), relation, self.parameters)
            if value.find(exp.AggFunc) is None and leaves(value) and value.sql() not in texts:
                raise _not_grouped(item)
            name = output_name(item)
            unit = _inner_unit(value, relation)

            outputs.append((name, value, None if unit else per_unit_column(Field(name, value), relation, self.parameters)))
        for key in keys:
            if key.sql() not in {v.sql() for _, v, _ in outputs} and not _inner_unit(key, relation):
                raise Refusal("0A000", "select every GROUP BY column of a per-unit subquery", position=position(tree))
        having = tree.args.get("having")
        condition = None if having is None else resolve_aggregates(having.this, relation, self.parameters)
        return per_unit(relation, next(self.names), outputs, condition)

    def _node(self, tree: exp.Select, relation: Relation, keys: tuple[exp.Expression, ...], ctes: Ctes) -> None:
        _refuse_unit_keys(tree, relation, keys)
        index = len(self.nodes)
        bound = groups_per_unit(relation, keys)
        writer = _Released(self, relation, keys, bound, index, ctes)
        for number, item in enumerate(tree.expressions):
            if isinstance(item, exp.Star):
                raise Refusal("42803", "SELECT * cannot be grouped: name the grouping columns", position=1)
            if not isinstance(item, exp.Alias):
                self.edits.append(_alias_later(tree, number, output_name(item)))
            writer.rewrite(item.unalias())
        having, order = tree.args.get("having"), tree.args.get("order")
        if having is not None:
            writer.rewrite(having.this)
        shown = bool(writer.measures)
        names = {output_name(e) for e in tree.expressions}
        for item in order.expressions if order is not None else []:
            target = item.this
            if not (isinstance(target, exp.Literal) or (isinstance(target, exp.Column) and not target.table and folded(target.this) in names)):
                writer.rewrite(target)
        for part in ("limit", "offset"):
            if tree.args.get(part) is not None:
                self._nested(tree.args[part], ctes)
        ordering = _ordering_measure(tree, writer)
        if not writer.measures:
            raise Refusal(
                "PV018",
                "GROUP BY without an aggregate (partition selection) is not available yet",
                hint="Add COUNT(DISTINCT <unit>), and ORDER BY it DESC LIMIT k where the values are unknown.",
                position=position(tree),
            )
        k = limit_of(tree, self.parameters) if ordering is not None else None
        node = NodeDraft(relation, keys, tuple(writer.measures.values()), bound, k, ordering or 0, shown)
        self.nodes.append(node)
        self.edits.append(lambda: _above(tree, index))


@dataclass
class _Released:
    """Rewrites the expressions of a node's SELECT over its released columns."""

    cutter: _Cutter
    relation: Relation
    keys: tuple[exp.Expression, ...]
    bound: Bound
    index: int
    ctes: Ctes
    measures: dict[str, MeasureDraft] = field(default_factory=dict)
    places: dict[int, int] = field(default_factory=dict)

    def rewrite(self, node: exp.Expression) -> None:
        if isinstance(node, exp.Query):
            self.cutter._nested(node, self.ctes)
            return
        key = self._key(node)
        if key is not None:
            self._replace(node, f"g{key}")
            return
        if isinstance(node, exp.Window):
            function = node.this.this if isinstance(node.this, exp.Filter) else node.this
            others = [v for k, v in node.args.items() if k != "this" and isinstance(v, exp.Expression)]
            listed = [p for p in node.args.get("partition_by") or []]
            condition = [node.this.expression] if isinstance(node.this, exp.Filter) else []
            for part in [*function.iter_expressions(), *others, *listed, *condition]:
                self.rewrite(part)
            return
        if isinstance(node, (exp.AggFunc, exp.Filter, exp.WithinGroup)):
            self._aggregate(node)
            return
        if isinstance(node, exp.Column):
            raise _not_grouped(node)
        for part in node.iter_expressions():
            self.rewrite(part)

    def _key(self, node: exp.Expression) -> int | None:
        if node.find(exp.AggFunc, exp.Window, exp.Query) or (not node.find(exp.Column) and not self._constant(node)):
            return None
        try:
            text = resolve(node.copy(), self.relation).sql()
        except Refusal:
            return None
        found = next((n for n, k in enumerate(self.keys) if k.sql() == text), None)
        if found is not None:
            resolve(node, self.relation)
        return found

    def _constant(self, node: exp.Expression) -> bool:
        return any(k.sql() == node.sql() for k in self.keys)

    def _aggregate(self, node: exp.Expression) -> None:
        measure = count_measure(node, self.relation, self.keys, self.bound, self.cutter.parameters)
        name = f"{measure[1]}:{measure[0].sql() if measure[0] is not None else '*'}"
        self.measures.setdefault(name, MeasureDraft(*measure))
        place = list(self.measures).index(name)
        self.places[id(node)] = place
        self._replace(node, f"c{place}")

    def _replace(self, node: exp.Expression, name: str) -> None:
        column = exp.column(name, table=released(self.index))
        self.cutter.edits.append(_replace_later(node, column))


def resolve_aggregates(node: exp.Expression, relation: Relation, parameters: Parameters) -> exp.Expression:
    """The base form of a per-unit SELECT or HAVING expression: row-local parts and exact aggregates of one unit."""
    if isinstance(node, exp.Count):
        inner = node.this
        if isinstance(inner, exp.Star):
            return exp.Count(this=exp.Star())
        if isinstance(inner, exp.Distinct) and len(inner.expressions) == 1:
            value = resolve_aggregates(inner.expressions[0], relation, parameters)
            return exp.Count(this=exp.Distinct(expressions=[value]))
        return exp.Count(this=resolve_aggregates(inner, relation, parameters))
    if isinstance(node, (exp.Min, exp.Max)) and not node.expressions:
        return type(node)(this=resolve_aggregates(node.this, relation, parameters))
    if isinstance(node, exp.AggFunc):
        raise Refusal("PV018", f"{describe(node)} in a per-unit subquery is not available yet", position=position(node))
    if node.find(exp.AggFunc) is None:
        value = resolve(node, relation)
        check(value, relation, parameters)
        return value
    if not isinstance(node, (exp.Paren, exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between)):
        raise Refusal("PV018", f"{describe(node)} over per-unit aggregates is not available yet", position=position(node))
    copy = node.copy()
    for key, part in node.args.items():
        if isinstance(part, exp.Expression):
            copy.set(key, resolve_aggregates(part, relation, parameters))
    return copy


def _split(condition: exp.Expression | None) -> tuple[exp.Expression, ...]:
    """The analyst's own AND-ed conditions, not copied: they are qualified in place."""
    if condition is None:
        return ()
    inner = condition
    while isinstance(inner, exp.Paren):
        inner = inner.this
    if isinstance(inner, exp.And):
        return _split(inner.this) + _split(inner.expression)
    return (inner,)


def _aggregates(part: object) -> bool:
    """Whether an aggregate of this very query stands in `part` (window functions and nested queries have their own)."""
    if isinstance(part, list):
        return any(_aggregates(p) for p in part)
    if not isinstance(part, exp.Expression) or isinstance(part, exp.Query):
        return False
    if isinstance(part, (exp.AggFunc, exp.WithinGroup)):
        return True
    if isinstance(part, exp.Window):
        function = part.this.this if isinstance(part.this, exp.Filter) else part.this
        return any(_aggregates(p) for p in function.iter_expressions())
    return any(_aggregates(p) for p in part.iter_expressions())


def _inner_unit(value: exp.Expression, relation: Relation) -> bool:
    """The unit itself, from a source that cannot be NULL-extended by a LEFT JOIN."""
    return is_unit(value, relation) and relation.source(value.unnest().table).on is None


def _group_item(item: exp.Expression, tree: exp.Select, relation: Relation) -> exp.Expression:
    """What a GROUP BY item means: an output's ordinal, an input column, else an output's alias."""
    if isinstance(item, exp.Literal) and not item.is_string:
        number = int(item.this) if item.this.isdigit() else 0
        if not 1 <= number <= len(tree.expressions):
            raise Refusal("42P10", f"GROUP BY position {item.this} is not in select list", position=position(item))
        return tree.expressions[number - 1].unalias()
    if isinstance(item, (exp.Rollup, exp.Cube, exp.GroupingSets)):
        raise Refusal("PV018", "grouping sets are not available yet", hint="Ask one query a set.", position=position(item))
    if isinstance(item, exp.Column) and not item.table:
        name = folded(item.this)
        if name not in relation.merged and not any(f.name == name for _, fs in relation.scope for f in fs):
            for output in tree.expressions:
                if isinstance(output, exp.Alias) and folded(output.args["alias"]) == name:
                    return output.this
    return item


def _refuse_unit_keys(tree: exp.Select, relation: Relation, keys: tuple[exp.Expression, ...]) -> None:
    for key in keys:
        columns = leaves(key)
        if not columns:
            continue
        if all(is_unit(leaf(a, c), relation) for a, c in columns) and not isinstance(key, (exp.Predicate, exp.Case)):
            table = relation.source(next(iter(columns))[0]).table
            unit = table.privacy_unit
            raise Refusal(
                "PV011",
                f'privacy unit column "{table.name}.{unit}" cannot be released or be a final grouping key',
                hint=f"Use COUNT(DISTINCT {unit}), or GROUP BY {unit} in a subquery and aggregate its result.",
                position=position(tree.args["group"]),
            )
        for alias in {a for a, _ in columns}:
            source = relation.source(alias)
            own = frozenset(c for a, c in columns if a == alias)
            declared = (*source.table.keys, *source.table.declared_keys)
            if source.private and isinstance(key, exp.Column) and own in declared:
                raise Refusal(
                    "PV010",
                    f'every group of "{source.table.name}.{key.name}" is one row',
                    hint="Group by a column that many rows share.",
                    position=position(tree.args["group"]),
                )


def _ordering_measure(tree: exp.Select, writer: _Released) -> int | None:
    """The measure that ORDER BY puts first, descending, or None."""
    order = tree.args.get("order")
    if order is None or not order.expressions[0].args.get("desc"):
        return None
    target = order.expressions[0].this
    if isinstance(target, exp.Literal) and target.this.isdigit() and 1 <= int(target.this) <= len(tree.expressions):
        target = tree.expressions[int(target.this) - 1].unalias()
    elif isinstance(target, exp.Column) and not target.table:
        name = folded(target.this)
        target = next((e.unalias() for e in tree.expressions if output_name(e) == name), target)
    return writer.places.get(id(target))


def _projected(relation: Relation, tree: exp.Select, parameters: Parameters) -> Relation:
    """The relation with the SELECT list's fields as its scope."""

    fields: list[Field] = []
    for item in tree.expressions:
        value = item.unalias()
        if isinstance(value, exp.Star):
            fields += [f for _, fs in relation.scope for f in fs if f.name not in relation.merged]
            fields += [Field(n, v) for n, v in relation.merged.items()]
        elif isinstance(value, exp.Column) and isinstance(value.this, exp.Star):
            fields += [f for alias, fs in relation.scope if alias == folded(value.args["table"]) for f in fs]
        else:
            base = resolve(value, relation)
            check(base, relation, parameters)
            fields.append(Field(output_name(item), base))
    return replace(relation, scope=(("", tuple(fields)),), merged={})


def _shown(relation: Relation | None, name: str, renamed: Sequence[str]) -> Relation | None:
    """A subquery's relation under the analyst's name for it."""

    if relation is None:
        return None
    fields = [f for _, fs in relation.scope for f in fs]
    names = [*renamed, *(f.name for f in fields[len(renamed) :])]
    shown = tuple(Field(n, f.value) for n, f in zip(names, fields, strict=False))
    return replace(relation, scope=((name, shown),), merged={})


def _replace_later(node: exp.Expression, new: exp.Expression) -> Callable[[], None]:
    def edit() -> None:
        node.replace(new)

    return edit


def _drop(tree: exp.Expression, ctes: list[exp.Expression]) -> None:
    clause = tree.args["with_"]
    if clause is None:
        return
    clause.set("expressions", [c for c in clause.expressions if c not in ctes])
    if not clause.expressions:
        tree.set("with_", None)


def _alias_later(tree: exp.Select, number: int, name: str) -> Callable[[], None]:
    def edit() -> None:
        items = list(tree.expressions)
        items[number] = exp.Alias(this=items[number], alias=exp.to_identifier(name, quoted=True))
        tree.set("expressions", items)

    return edit


def _above(tree: exp.Select, index: int) -> None:
    """Put the released rows in the place of FROM, WHERE and GROUP BY; HAVING becomes WHERE."""
    having = tree.args.get("having")
    tree.set("from_", exp.From(this=exp.to_table(released(index))))
    for part in ("joins", "group", "having", "where"):
        tree.set(part, None)
    if having is not None:
        tree.set("where", exp.Where(this=having.this))


def _row_level(relation: Relation, tree: exp.Expression, code: str = "PV010") -> Refusal:
    table = _base_table(relation)
    column = next((c.name for c in table.columns if not c.hidden and c.name != table.privacy_unit), "x")
    name = table.name
    return Refusal(
        code,
        f'row-level output from private table "{name}" is not allowed'
        if code == "PV010"
        else f'subquery reads private table "{name}" across units',
        hint=f"Aggregate it, e.g. SELECT {column}, COUNT(DISTINCT {table.privacy_unit}) FROM {name} "
        f"GROUP BY {column} ORDER BY 2 DESC LIMIT 10.",
        position=position(tree),
    )


def _base_table(relation: Relation) -> Table:
    source = next(s for s in relation.sources if s.private)
    return source.table if source.derived is None else _base_table(source.derived.relation)


def _uncorrelated(node: exp.Expression) -> Refusal:
    return Refusal(
        "PV015",
        "this subquery in WHERE is not supported on private rows",
        hint="Use <unit> IN (SELECT <unit> FROM ...), EXISTS correlated on the unit, or a plain SELECT from a public table.",
        position=position(node),
    )


def _mixes(what: str, relation: Relation, node: exp.Expression) -> Refusal:
    unit = next((s.table.privacy_unit for s in relation.sources if s.private), "the unit")
    return Refusal(
        "PV014",
        f"{what} over private rows mixes different units",
        hint=f"Move it outside the aggregate, or GROUP BY {unit} in a subquery.",
        position=position(node),
    )


def _not_grouped(node: exp.Expression) -> Refusal:
    return Refusal(
        "42803",
        "this column must appear in the GROUP BY clause or be used in an aggregate function",
        hint="Add it to GROUP BY, or count it.",
        position=position(node),
    )
