"""The split: every aggregate over private rows becomes a DP node, all above it stays a statement for the front.

In:  SELECT country, AVG(birth_year) AS a FROM users GROUP BY country HAVING COUNT(*) > 9 ORDER BY a DESC
Out: node 0, over the rows of users: key country; measures the sum and number of birth years, and the number of rows;
     outputs AVG (c0) and COUNT(*) (c1). And the presentation
     SELECT _r0.g0 AS country, _r0.c0 AS a FROM <released rows of node 0> AS _r0 WHERE _r0.c1 > 9 ORDER BY a DESC

Why it exists. A client writes one statement. Its aggregates over private rows have to be computed by the backend and
released with noise; everything else is post-processing of released rows, which is free and which PostgreSQL does best.
This module finds the border between the two, or refuses the statement.

Model. Queries are read from the inside out (`query`). Each is one of two things:

- `None`: its rows are public or released. Its text stays in the presentation.
- a `Relation`: private rows that nothing has aggregated yet, each of one unit, with every expression over the columns
  of its sources (base form). Nothing of its text stays. The query around it filters, joins or aggregates it further.

A SELECT that aggregates a relation turns it into nodes, one a grouping set, and is `None` from then on: the query
around it reads released rows. A plain `GROUP BY` with the privacy unit among its keys makes no node, because each of
its groups belongs to one unit: it is a relation again, with exact aggregates. A statement that is a relation at the end
asks for rows of persons, and is refused (PV010).

What happens in order, in `split_query`: parse; remove tools' casts; read the tree, which collects nodes, constants and
what takes the place of private rows (above.py); return all of it. In `_private`, for a SELECT over a relation:
1. scalar subqueries that read the row around them are joined to the relation (`_with_lookups`);
2. parts that read no column are marked as constants (`_fold`), which PostgreSQL evaluates before the node;
3. WHERE is split into conditions on a row, semi-joins and constants (where.py);
4. `owned` checks that private sources meet on the unit, since every row has to belong to one;
5. the SELECT is rows, DISTINCT or groups of a unit (a relation), or else groups over units (nodes, aggregate_node.py).

Invariants.
1. Private rows reach the presentation through a node alone. Private rows are joined with private rows, public tables,
   and rows that PostgreSQL evaluates before; a set operation of private and other rows is refused.
2. The reading is pure. What needs PostgreSQL comes by `read` and `read_rows`: the types of a constant, or of the
   columns of rows, and their values once these are known.
3. Nodes and presentation have one shape, whatever the values of parameters and constants: a statement is planned before
   its parameters are bound. A value that the reading did not ask for (`Unbound`) is put beside the nodes as they are;
   with one that it asked for the statement is read again.
4. A constant reads nodes of lower number only, so that execution can go in stages: nodes, constants, further nodes.
5. The text of a node does not depend on where in a statement it stands (`numbered`): equal questions replay one answer.

Traps.
- The tree is not changed while it is read, but for names of tables that its columns get: keys and clauses are compared
  by text, and a CTE may be read again.
- Constants are marked before the condition or key around them is resolved: base forms take the mark in their place.
- A CTE of private rows is read for each place that names it, since each needs sources with names of their own.
- The places of nodes are taken (`SystemTableNode("")`) before their expressions are read, as a query nested in those
  adds nodes behind them.
- Reading costs steps (rewriter/effort.py): a CTE named twice within a CTE named twice grows exponentially.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from sqlglot import exp

from rewriter.binder.composite_units import per_unit
from rewriter.binder.constants import (
    UNKNOWN_NAME,
    ConstantReader,
    Constants,
    no_rows,
    one_row,
    unknown,
    visible,
)
from rewriter.binder.correlated_groups import (
    Pair,
    across_units,
    grouped,
    looked_up_above,
    looked_up_rows,
)
from rewriter.binder.group_by import aggregates, grouping, named_keys
from rewriter.binder.joins import join, owned
from rewriter.binder.listed_rows import listed_rows
from rewriter.binder.names import item_name, output_name
from rewriter.binder.per_unit_groups import distinct_with_unit, grouped_by_unit
from rewriter.binder.rejections import mixed, recursive, refuse_limited, row_level, uncorrelated
from rewriter.binder.scalar_subqueries import looked_up, looks_around, may_look_around, scalars
from rewriter.binder.scan_filter import scan
from rewriter.binder.select_parts import correlated, projected, refuse_outer, shown_as
from rewriter.binder.set_operations import combined
from rewriter.binder.suggestions import first_row_of_units
from rewriter.binder.tool_spellings import drop_casts, drop_schemas
from rewriter.binder.views import view_query, view_rows
from rewriter.binder.windows import first_rows, with_windows
from rewriter.binder.zero_fill import check_zero_fill, refuse_kept
from rewriter.effort import EXPANDED, bounded, spend
from rewriter.ir.relation import Field, Relation, is_inner_unit, leaves
from rewriter.ir.texts import sql_text
from rewriter.ir.trees import folded, walk
from rewriter.logical.aggregate_node import dp_nodes
from rewriter.logical.alias_order import numbered
from rewriter.logical.key_domains import domain_queries
from rewriter.logical.limit import check_not_negative, page_of
from rewriter.logical.plan import (
    SYSTEM,
    SYSTEM_TABLES,
    AggregateNode,
    LogicalPlan,
    SystemTableNode,
    released_rows,
)
from rewriter.logical.where import Conditions, Cte, Ctes
from rewriter.policy import Policy, Table
from rewriter.refusal import Refusal
from rewriter.scalar.typecheck import Parameters
from rewriter.statements.value_listing import ValueListing, listing
from rewriter.syntax.allowlist import CONSTANT, describe, is_constant, position
from rewriter.syntax.parse import parse_query

_WITH_UNITS = frozenset({exp.TimestampTrunc, exp.DateTrunc})


@bounded()
def split_query(
    text: str,
    policy: Policy,
    parameters: Parameters = (),
    read: ConstantReader = unknown,
    read_rows: ConstantReader = no_rows,
    orders: Sequence[Sequence[int]] = (),
) -> LogicalPlan:
    """Split one query text into nodes and presentation. Raises Refusal for what is not answered.

    `parameters` are the client's, with value None before they are bound; `read` gives the type of each constant that
    PostgreSQL has to evaluate, and its value once that is known; `read_rows` of rows the same for each column; `orders`
    are those of the plan that was made before there were values, which keys keep.
    """
    tree = parse_query(text)
    nodes = walk(tree)
    drop_schemas(nodes)
    _check_parameters(nodes, parameters)
    check_not_negative(tree)
    if parameters:
        drop_casts(tree, parameters)
    listed = listing(tree, nodes)
    cutter = QueryAnalyzer(policy, Constants(tuple(parameters), read, read_rows), before=orders)
    relation = cutter.query(tree, {})
    if relation is not None:
        raise row_level(relation, tree)
    if not _WITH_UNITS.isdisjoint(map(type, nodes)):
        _spell_units(tree)
    constants, replacements = cutter.constants, cutter.replacements
    return LogicalPlan(
        tree,
        tuple(_listing(node, listed) for node in cutter.nodes),
        cast(exp.Query, replacements.above(tree)),
        tuple(parameters),
        tuple(constants.found),
        tuple(c.statement(replacements.above, replacements.dropped) for c in constants.found),
        constants.parameters,
        tuple(cutter.orders),
    )


def _listing(
    node: AggregateNode | SystemTableNode, listed: ValueListing | None
) -> AggregateNode | SystemTableNode:
    """The node, marked with `listed` if the whole statement is a bare list of values: that may be a tool's scan."""
    if isinstance(node, SystemTableNode) or node.measures or listed is None:
        return node
    return replace(node, listing=listed)


def _check_parameters(nodes: Sequence[exp.Expr], parameters: Parameters) -> None:
    for node in nodes:
        if isinstance(node, exp.Parameter) and not 1 <= int(node.name) <= len(parameters):
            raise Refusal("42P02", f"there is no parameter ${node.name}", position=position(node))


def _spell_units(tree: exp.Expr) -> None:
    """Write the units of date_trunc in lower case, as PostgreSQL does; the parser turns them into upper case."""
    for node in walk(tree, *_WITH_UNITS):
        node.set("unit", exp.Var(this=node.args["unit"].name.lower()))


@dataclass
class QueryAnalyzer(Conditions):
    """Reads a whole statement. `before`: the orders of keys that are kept; `orders`: those that were found."""

    before: Sequence[Sequence[int]] = ()
    orders: list[Sequence[int]] = field(default_factory=list)

    def _fold(self, ctes: Ctes, *parts: object) -> None:
        """Mark the constants in expressions over private rows, for PostgreSQL to evaluate."""
        for part in parts:
            if isinstance(part, list):
                self._fold(ctes, *part)
            elif isinstance(part, exp.Expr):
                self.constants.mark(part, lambda n: self._alone(n, ctes), lambda: len(self.nodes))

    def _alone(self, query: exp.Expr, ctes: Ctes) -> None:
        """Analyse a subquery that is to be a constant; PV015 if it is correlated with the rows around it."""
        try:
            self._nested(query, ctes)
        except Refusal as refusal:
            if refusal.code in UNKNOWN_NAME:
                raise uncorrelated(query) from None
            raise

    def query(self, tree: exp.Expr, ctes: Ctes, outer: Relation | None = None) -> Relation | None:
        """None where the query's rows are public or released; else the private relation it stands for."""
        spend(EXPANDED)
        if isinstance(tree, exp.Subquery):
            return self.query(tree.this, self._with(tree, ctes), outer)
        ctes = self._with(tree, ctes)
        if isinstance(tree, exp.SetOperation):
            return self._combined(tree, ctes)
        if not isinstance(tree, exp.Select):
            raise Refusal(
                "0A000", f"{describe(tree)} is not supported on private tables", position=position(tree)
            )
        relation = self._from(tree, ctes)
        if relation is None:
            self._presented(tree, ctes, skip=("from_", "joins", "with_"))
            return None
        return self._private(tree, relation, ctes, outer)

    def _combined(self, tree: exp.SetOperation, ctes: Ctes) -> Relation | None:
        """A set operation: both sides are private rows, or neither is."""
        left, right = (self.query(side, ctes) for side in (tree.this, tree.expression))
        if left is None and right is None:
            self._presented(tree, ctes, skip=("this", "expression", "with_"))
            return None
        if left is None or right is None:
            raise mixed(tree, left or right)
        return combined(left, right, tree, next(self.names), self.parameters)

    def _with(self, tree: exp.Expr, ctes: Ctes) -> Ctes:
        clause = tree.args.get("with_")
        if clause is None:
            return ctes
        names = [folded(cte.args["alias"].this) for cte in clause.expressions]
        visible_to_all = bool(clause.args.get("recursive"))
        for place, (name, cte) in enumerate(zip(names, clause.expressions, strict=True)):
            columns = tuple(folded(c) for c in cte.args["alias"].columns)
            tables = [t for t in walk(cte.this, exp.Table) if not t.args.get("db")]
            read = {folded(t.this) for t in tables if isinstance(t.this, exp.Identifier)}
            ahead = read.intersection(names[place:]) if visible_to_all else set()
            others = [t for t in walk(cte.this, exp.Table) if t.args.get("db") or folded(t.this) not in ahead]
            if ahead and any(self._is_private(table, ctes) for table in others):
                raise recursive(cte)
            itself = {name: Cte(cte.this, ctes, columns, [], False, True)} if ahead else {}
            count = len(self.nodes)
            rows = self.query(cte.this, ctes | itself)
            public = rows is None and count == len(self.nodes)
            public = public and all(ctes[other].public for other in read & ctes.keys())
            if ahead and not (public and ahead == {name}):
                raise recursive(cte)
            found = [] if rows is None else [rows]
            ctes = {**ctes, name: Cte(cte.this, ctes, columns, found, rows is not None, public)}
            if rows is not None:
                self.replacements.dropped.add(id(cte))
        return ctes

    def _is_private(self, item: exp.Table, ctes: Ctes) -> bool:
        """Whether an item of FROM is a CTE of private rows, or a private table that no CTE hides."""
        name, schema = folded(item.this), folded(item.args.get("db"))
        if not schema and name in ctes:
            return ctes[name].private
        table = self.policy.find(schema or None, name)
        return table is not None and not table.public

    def _presented(self, tree: exp.Expr, ctes: Ctes, skip: Sequence[str]) -> None:
        """Analyse the queries nested in the expressions of a statement that stays in the presentation."""
        for key, value in tree.args.items():
            if key not in skip:
                for part in value if isinstance(value, list) else [value]:
                    if isinstance(part, exp.Expr):
                        self._nested(part, ctes)

    def _nested(self, node: exp.Expr, ctes: Ctes) -> None:
        if isinstance(node, exp.Query):
            relation = self._by_itself(node, ctes)
            if relation is not None:
                raise row_level(
                    relation, node, "PV015" if isinstance(node.parent, (exp.In, exp.Exists)) else "PV010"
                )
            return
        for part in node.iter_expressions():
            self._nested(part, ctes)

    def _by_itself(self, query: exp.Query, ctes: Ctes) -> Relation | None:
        """A subquery in an expression over public or released rows; PV015 for a correlated one over private rows, if it
        is no aggregate that public rows look up by equal values."""
        around = query.parent_select
        if isinstance(query, exp.Subquery) and around is not None and self._looked_up(around, query, ctes):
            return None
        try:
            return self.query(query, ctes)
        except Refusal as refusal:
            if refusal.code not in UNKNOWN_NAME or around is None or around.args.get("from_") is None:
                raise
            # PostgreSQL, which has described the statement before, knows the name: it is of the rows around.
            raise Refusal(
                "PV015",
                "a subquery on private rows cannot be correlated with the rows around it",
                hint=first_row_of_units(query.unnest(), self.policy, ctes)
                or "Group by the column within the subquery, and join its result.",
                position=refusal.position,
            ) from None

    def _looked_up(self, tree: exp.Select, subquery: exp.Subquery, ctes: Ctes) -> bool:
        """Whether public tables look up an aggregate of private rows, which is then of released ones."""
        clause, joins = tree.args.get("from_"), tree.args.get("joins") or []
        if clause is None or not all(self._public(item) for item in (clause.this, *(j.this for j in joins))):
            return False
        relation = self._public_joined(clause.this, joins, ctes)
        select = None if relation is None else may_look_around(subquery, relation)
        inner = None if select is None else self._from(select, ctes)
        if relation is None or select is None or inner is None or not looks_around(select, inner, relation):
            return False
        pairs = across_units(select, inner, relation)
        if pairs is None:
            return False
        rows = self._grouped(tree, subquery, relation, inner, pairs, ctes)
        self.replacements.parts[id(subquery)] = self.replacements.above(
            looked_up_above(rows, pairs, subquery)
        )
        return True

    def _public(self, node: exp.Expr) -> bool:
        """Whether an item of FROM, or a query, reads public tables alone."""
        tables = [(folded(t.args.get("db")), folded(t.this)) for t in walk(node, exp.Table)]
        found = [self.policy.find(schema or None, name) for schema, name in tables]
        return bool(found) and all(table is not None and table.public for table in found)

    def _from(self, tree: exp.Select, ctes: Ctes) -> Relation | None:
        """The relation of FROM and JOIN, None where all of it is public or released."""
        clause = tree.args.get("from_")
        if clause is None:
            return None
        return self._joined(clause.this, tree.args.get("joins") or [], ctes)

    def _joined(self, first: exp.Expr, joins: list[exp.Join], ctes: Ctes) -> Relation | None:
        items = [first, *(j.this for j in joins)]
        # PostgreSQL, which joins what is public or released, takes longer than in proportion.
        spend(len(items) ** 2 // 8)
        found = [self.item(i, ctes) for i in items]
        if not any(r is not None and r.private for r in found):
            for node in joins:
                self._presented(node, ctes, skip=("this",))
            return None
        self._fold(ctes, [j.args.get("on") for j in joins])
        found = [self._public_item(i, ctes) if r is None else r for i, r in zip(items, found, strict=True)]
        for item, relation in zip(items, found, strict=True):
            if relation is None:
                raise Refusal(
                    "0A000",
                    "published answers, catalogs and the proxy's own tables cannot be joined with private tables",
                    hint="Aggregate the private rows in a subquery and join its result with them.",
                    position=position(item),
                )
        relations = [r for r in found if r is not None]
        whole = relations[0]
        for node, right in zip(joins, relations[1:], strict=True):
            whole = join(whole, right, node, self.names, self.parameters)
        return whole

    def _public_item(self, item: exp.Expr, ctes: Ctes) -> Relation | None:
        """An item without private rows that is joined with private ones; None for tables of no policy.

        A plain selection from public tables is read by the backend; all other rows are evaluated before.
        """
        alias = item.args.get("alias")
        shown = item_name(item)
        renamed = [folded(c) for c in alias.columns] if alias is not None else []
        if isinstance(item, exp.Table) and not item.args.get("db") and shown and folded(item.this) in ctes:
            body = ctes[folded(item.this)]
            found = shown_as(self.public_rows(body.query, body.ctes), shown, body.columns)
        else:
            found = self.public_rows(item, ctes) if isinstance(item, exp.Subquery) else None
        if found is not None:
            return shown_as(found, shown, renamed)
        found = self._one_row(item)
        if found is None and self._evaluable(item):
            columns = self.constants.rows(item, len(self.nodes))
            found = listed_rows(item, columns, next(self.names))
        return found

    def _evaluable(self, item: exp.Expr) -> bool:
        """Whether an item reads public tables and released rows alone: published answers and catalogs may be others
        when the statement is asked again."""
        bodies = [item, *visible(item)]
        ctes = {folded(body.args["alias"].this) for body in bodies if isinstance(body, exp.CTE)}
        ctes |= {folded(cte.args["alias"].this) for body in bodies for cte in walk(body, exp.CTE)}
        tables = [t for body in bodies for t in walk(body, exp.Table) if isinstance(t.this, exp.Identifier)]
        names = ((folded(t.args.get("db")), folded(t.this)) for t in tables)
        return all(
            (not schema and name in ctes) or self.policy.find(schema or None, name) for schema, name in names
        )

    def _one_row(self, item: exp.Expr) -> Relation | None:
        """Released or public rows that are one row, as constants; None for others."""
        name = item_name(item)
        body = next((c.this for c in visible(item) if folded(c.args["alias"].this) == name), item)
        select = one_row(body)
        if select is None or (item.args.get("alias") and item.args["alias"].columns):
            return None
        number = len(self.nodes)
        names = [output_name(e) for e in select.expressions]
        fields = tuple(Field(n, self.constants.column(item, n, number)) for n in names)
        return Relation((), scope=((name, fields),))

    def item(self, item: exp.Expr, ctes: Ctes) -> Relation | None:
        alias = item.args.get("alias")
        shown = folded(alias.this) if alias is not None and alias.this is not None else ""
        renamed = [folded(c) for c in alias.columns] if alias is not None else []
        if isinstance(item, exp.Table) and isinstance(item.this, exp.Identifier):
            return self._table(item, shown, renamed, ctes)
        if isinstance(item, exp.Subquery) and isinstance(item.this, (exp.Table, exp.Subquery)):
            whole = self._joined(item.this, item.this.args.get("joins") or [], ctes)
            return shown_as(whole, shown, renamed) if shown else whole
        if isinstance(item, exp.Subquery):
            return shown_as(self.query(item, ctes), shown, renamed)
        self._nested(item, ctes)
        return None

    def _table(self, item: exp.Table, shown: str, renamed: list[str], ctes: Ctes) -> Relation | None:
        name, schema = folded(item.this), folded(item.args.get("db"))
        if not schema and name in ctes:
            body = ctes[name]
            if not body.private:
                return None
            rows = body.read.pop() if body.read else self.query(body.query, body.ctes)
            return shown_as(shown_as(rows, name, body.columns), shown or name, renamed)
        if schema == SYSTEM and name in SYSTEM_TABLES:
            self._system(item, name, shown or name)
            return None
        table = self.policy.find(schema or None, name)
        if table is None:
            return None
        if table.view is not None:
            return shown_as(self._view(table), shown or name, renamed)
        return scan(table, next(self.names), shown or name, renamed)

    def _view(self, view: Table) -> Relation:
        """The rows of a view, whose text sees none of the client's names."""
        rows = self.query(view_query(view), {})
        assert rows is not None, "a view of the policy gives private rows"
        return view_rows(rows, view, next(self.names), self.parameters)

    def _system(self, item: exp.Table, name: str, shown: str) -> None:
        index = len(self.nodes)
        most, newest = page_of(item, "at", self.parameters) if name == "releases" else (None, False)
        self.nodes.append(SystemTableNode(name, most, newest))
        alias = exp.TableAlias(this=exp.to_identifier(shown, quoted=True))
        rows = released_rows(index)
        rows.set("alias", alias)
        self.replacements.parts[id(item)] = rows

    def _private(
        self, tree: exp.Select, relation: Relation, ctes: Ctes, outer: Relation | None
    ) -> Relation | None:
        # Each source is compared with all others, and a join writes the fields of all.
        spend(len(relation.sources) ** 2 + len(relation.fields))
        relation = self._with_lookups(tree, relation, ctes)
        self._fold(ctes, tree.args.get("where"))
        self._fold_keys(tree, ctes)
        relation = self.where(tree, relation, ctes, outer)
        if not correlated(relation):
            relation = owned(relation, tree.args["from_"])
        grouped = any(tree.args.get(part) is not None for part in ("group", "having"))
        grouped = grouped or any(aggregates(tree.args.get(part)) for part in ("expressions", "order"))
        windows = any(walk(e, exp.Window) for e in tree.expressions)
        if grouped or windows or tree.args.get("distinct") is not None:
            refuse_outer(tree, relation)
        counted = [tree.expressions, *(tree.args.get(p) for p in ("having", "order"))]
        self._fold(ctes, *_counted(counted) if grouped else tree.expressions)
        if not grouped:
            rows = self.rows(tree, relation)
            distinct = tree.args.get("distinct")
            if distinct is None or distinct.args.get("on") is not None:
                return rows
            if any(is_inner_unit(v, rows) for v in per_unit([f.value for f in rows.fields], rows)):
                refuse_limited(rows)
                return distinct_with_unit(tree, relation, rows, next(self.names), self.parameters)
        before = self.before[len(self.orders)] if self.before else None
        groups = grouping(tree, relation, self.parameters, before)
        self.orders.append(groups.order)
        keys = groups.keys
        if len(groups.sets) == 1 and any(is_inner_unit(k, relation) for k in per_unit(keys, relation)):
            refuse_kept(relation, tree)
            self._fold(ctes, tree.expressions, tree.args.get("having"))
            names = next(self.names), next(self.names)
            return grouped_by_unit(tree, relation, keys, names, self.parameters)
        check_zero_fill(tree, relation, keys)
        index = len(self.nodes)
        self.nodes += [SystemTableNode("")] * len(groups.sets)
        nodes = dp_nodes(
            tree,
            relation,
            groups,
            index,
            self.parameters,
            lambda node: self._nested(node, ctes),
            self._further,
            lambda keys: self._known(relation, keys),
            self.policy.unit_clips,
            self.replacements,
        )
        self.nodes[index : index + len(nodes)] = map(numbered, nodes)
        return None

    def _further(self, node: AggregateNode) -> int:
        """The place of a node that a part of a SELECT's expressions reads."""
        self.nodes.append(numbered(node))
        return len(self.nodes) - 1

    def _fold_keys(self, tree: exp.Select, ctes: Ctes) -> None:
        """Mark the constants in the keys of GROUP BY, and wherever the SELECT repeats such a key."""
        keys = list(named_keys(tree))
        self._fold(ctes, keys)
        said = {sql_text(key) for key in keys if any(map(is_constant, walk(key)))}
        if said:
            clauses = [*tree.expressions, tree.args.get("having"), tree.args.get("order")]
            parts = [part for clause in clauses if clause is not None for part in walk(clause)]
            self._fold(ctes, [part for part in parts if sql_text(part) in said])

    def _with_lookups(self, tree: exp.Select, relation: Relation, ctes: Ctes) -> Relation:
        """The relation joined with its correlated scalar subqueries, each marked with the value that replaces it."""
        known: dict[str, exp.Expr] = {}
        for subquery in scalars([tree.args.get(part) for part in ("where", "group", "expressions")]):
            text = sql_text(subquery)
            if text in known:
                subquery.meta[CONSTANT] = known[text]
                continue
            # Lookups of an earlier reading of a CTE belong to the rows of that reading.
            constant = is_constant(subquery) and not leaves(subquery.meta[CONSTANT])
            select = None if constant else may_look_around(subquery, relation)
            inner = None if select is None else self._from(select, ctes)
            if select is not None and inner is None:
                inner = self._public_joined(select.args["from_"].this, select.args.get("joins") or [], ctes)
            if select is None or inner is None or not looks_around(select, inner, relation):
                continue
            pairs = across_units(select, inner, relation)
            if pairs is not None:
                refuse_kept(relation, tree)
                rows = self._public_item(self._grouped(tree, subquery, relation, inner, pairs, ctes), ctes)
                if rows is None:
                    raise uncorrelated(subquery)
                compared = [there for _, there in pairs]
                relation, value = looked_up_rows(relation, rows, compared, subquery, self.parameters)
            else:
                self._fold(ctes, select.args["where"], list(_counted(select.expressions)))
                inner = self.where(select, inner, ctes, relation)
                name = next(self.names)
                relation, value = looked_up(relation, inner, subquery, name, self.parameters)
            subquery.meta[CONSTANT] = known[text] = value
        return relation

    def _grouped(
        self,
        tree: exp.Select,
        subquery: exp.Subquery,
        relation: Relation,
        inner: Relation,
        pairs: Sequence[Pair],
        ctes: Ctes,
    ) -> exp.Subquery:
        """The groups that rows of `tree` look their aggregate up in, analysed; PV015 if their domain is not known."""
        item = grouped(tree, subquery, relation, inner, pairs, f"_v{len(self.nodes)}", self._public)
        released = self.item(item, ctes) is None
        nodes = self.nodes[-1:] if inner.private else []
        known = all(isinstance(n, AggregateNode) and self._known(n.relation, n.keys) for n in nodes)
        if not released or not known:
            raise uncorrelated(subquery)
        return item

    def _known(self, relation: Relation, keys: tuple[exp.Expr, ...]) -> bool:
        """Whether keys have a known domain, whatever the values of parameters are."""
        # Without values: the answer decides the shape of the plan, which is the same for all of them.
        unbound = [replace(p, value=None) for p in self.parameters]
        return domain_queries(relation, keys, self.policy, unbound) is not None

    def rows(self, tree: exp.Select, relation: Relation) -> Relation:
        refuse_kept(relation, tree)
        limit = tree.args.get("limit") or tree.args.get("offset")
        distinct = tree.args.get("distinct")
        picked = distinct.args.get("on") if distinct is not None else None
        if picked is not None:
            found = first_rows(tree, picked, relation, next(self.names), self.parameters)
        elif any(walk(e, exp.Window) for e in tree.expressions):
            found = with_windows(tree, relation, next(self.names), self.parameters)
        else:
            found = projected(relation, tree, self.parameters)
        return replace(found, limit=limit)


def _counted(part: object) -> Iterator[exp.Expr]:
    """The arguments of aggregates in `part`, except those of nested queries."""
    if isinstance(part, list):
        for one in part:
            yield from _counted(one)
    elif isinstance(part, (exp.AggFunc, exp.Filter, exp.WithinGroup)):
        yield from part.iter_expressions()
    elif isinstance(part, exp.Expr) and not isinstance(part, exp.Query):
        for one in part.iter_expressions():
            yield from _counted(one)
