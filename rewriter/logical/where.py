"""WHERE: every conjunct is row-local, a semi-join per unit or with public rows, or a constant; else it is refused."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from sqlglot import exp

from rewriter.binder.constants import UNKNOWN_NAME, Constants, unread
from rewriter.binder.group_by import aggregates
from rewriter.binder.joins import join
from rewriter.binder.names import resolve
from rewriter.binder.rejections import refuse_limited, uncorrelated, unlike
from rewriter.binder.scan_filter import aliases, exists, row_in, semi_join, where
from rewriter.binder.select_parts import correlated, projected, split
from rewriter.ir.relation import Relation, leaves
from rewriter.ir.trees import walk
from rewriter.ir.types import TEXTUAL, padded
from rewriter.logical.above import Replacements
from rewriter.logical.empty import leaves_a_row
from rewriter.logical.plan import AggregateNode, SystemTableNode
from rewriter.policy import Policy
from rewriter.refusal import Refusal
from rewriter.scalar.comparable import alike
from rewriter.scalar.typecheck import Parameters, check, check_condition, type_of
from rewriter.syntax.allowlist import CONSTANT, is_constant, position
from rewriter.syntax.desugar_rows import plain_lists


@dataclass(frozen=True)
class Cte:
    """A CTE: its query, the CTEs that this one can see, its columns' names; one of private rows is not presented.

    `read`: its private rows, for the first reference. Another one needs its own sources: the CTE is read again.
    `public`: neither private nor released rows are in it.
    """

    query: exp.Query
    ctes: Ctes
    columns: tuple[str, ...]
    read: list[Relation]
    private: bool
    public: bool


Ctes = dict[str, Cte]


NOT_PLAIN = ("with_", "group", "having", "limit", "offset", "order", "distinct")
"""What a selection in the backend has not."""


@dataclass
class Conditions(ABC):
    """The state of the analysis of a statement, and the analysis of its conditions."""

    policy: Policy
    constants: Constants
    nodes: list[AggregateNode | SystemTableNode] = field(default_factory=list)
    replacements: Replacements = field(default_factory=Replacements)
    names: Iterator[str] = field(default_factory=aliases)

    @property
    def parameters(self) -> Parameters:
        """The client's parameters and the constants found so far."""
        return self.constants.parameters

    @abstractmethod
    def query(self, tree: exp.Expr, ctes: Ctes, outer: Relation | None = None) -> Relation | None:
        """None where the query's rows are public or released; else the private relation it stands for."""

    @abstractmethod
    def item(self, item: exp.Expr, ctes: Ctes) -> Relation | None:
        """The relation of an item of FROM, None where its rows are released rows or come from no table."""

    def where(self, tree: exp.Select, relation: Relation, ctes: Ctes, outer: Relation | None) -> Relation:
        clause = tree.args.get("where")
        for condition in map(plain_lists, split(clause.this if clause else None)):
            negated = isinstance(condition, exp.Not)
            inner = condition.this.unnest() if negated else condition
            if isinstance(inner, exp.In) and inner.args.get("query") is not None:
                relation = self._in(relation, inner, ctes, negated, outer)
            elif isinstance(inner, exp.Exists):
                relation = self._exists(relation, inner, ctes, condition, outer)
            else:
                self._read_within(relation, condition, ctes, outer)
                if unread(condition) is not None:
                    raise uncorrelated(unread(condition) or condition)
                relation = where(relation, condition, self.parameters, outer)
        return relation

    def _read_within(self, relation: Relation, node: exp.Expr, ctes: Ctes, outer: Relation | None) -> None:
        """Mark IN and EXISTS under OR, NOT and CASE that read public and released rows alone: they are constants."""
        query = node.args.get("query") if isinstance(node, exp.In) else None
        if is_constant(node) or isinstance(node, exp.Query):
            return
        row = isinstance(node.this, exp.Tuple)
        if isinstance(node, exp.Exists) and self._inner(node.this.unnest(), ctes, relation, outer) is None:
            self.constants.truth(node, len(self.nodes))
        elif query is None:
            for part in node.iter_expressions():
                self._read_within(relation, part, ctes, outer)
        elif not row and unread(node.this) is None and self._inner(query, ctes, relation, outer) is None:
            node.meta[CONSTANT] = self._listed(resolve(node.this, relation, outer), query)

    def _inner(
        self, query: exp.Expr, ctes: Ctes, relation: Relation, outer: Relation | None
    ) -> Relation | None:
        """The private rows of a subquery in WHERE, which reads the rows around it, but not those further out."""
        try:
            return self.query(query, ctes, relation)
        except Refusal as refusal:
            if outer is not None and refusal.code in UNKNOWN_NAME:
                raise uncorrelated(query) from None
            raise

    def _exists(
        self, relation: Relation, node: exp.Exists, ctes: Ctes, condition: exp.Expr, outer: Relation | None
    ) -> Relation:
        body = node.this.this if isinstance(node.this, exp.Subquery) else node.this
        found = self._inner(body, ctes, relation, outer)
        if found is None:
            found = self.public_rows(body, ctes, relation, any_row=True)
            if found is None or not correlated(found):
                self.constants.truth(node, len(self.nodes))
                return where(relation, condition, self.parameters, outer)
        if leaves_a_row(body.unnest()):
            found = replace(found, limit=None)
        refuse_limited(found)
        return exists(relation, found, isinstance(condition, exp.Not), node)

    def _in(
        self, relation: Relation, node: exp.In, ctes: Ctes, negated: bool, outer: Relation | None
    ) -> Relation:
        query = node.args["query"]
        inner = self._inner(query, ctes, relation, outer)
        if inner is None:
            inner = self.public_rows(query, ctes, relation)
        if isinstance(node.this, exp.Tuple):
            return self._row_in(relation, node, inner, negated)
        value = resolve(node.this, relation, outer)
        own = {a for a, _ in leaves(value)} <= {s.alias for s in relation.sources}
        if own:
            check(value, relation, self.parameters)
        if inner is None:
            return self._in_list(relation, value, query, negated)
        refuse_limited(inner)
        fields = [f for _, fields in inner.scope for f in fields]
        if len(fields) != 1:
            raise Refusal("42601", "subquery has too many columns", position=position(node))
        output = fields[0].value
        if own and not self._alike(value, relation, output, inner):
            raise unlike(node)
        return semi_join(relation, value, inner, output, negated, node)

    def _row_in(self, relation: Relation, node: exp.In, inner: Relation | None, negated: bool) -> Relation:
        if inner is None:
            raise uncorrelated(node)
        refuse_limited(inner)
        values = [resolve(v, relation) for v in node.this.expressions]
        for value, output in zip(values, inner.fields, strict=False):
            check(value, relation, self.parameters)
            if not self._alike(value, relation, output.value, inner):
                raise unlike(node)
        return row_in(relation, values, inner, negated, node)

    def _alike(self, value: exp.Expr, relation: Relation, output: exp.Expr, inner: Relation) -> bool:
        """Whether a value can be looked up among the outputs of another relation without raising."""
        if isinstance(value, exp.Column) and isinstance(output, exp.Column):
            columns = (
                relation.source(value.table).column(value.name),
                inner.source(output.table).column(output.name),
            )
            one, other = (column.type for column in columns)
            if one == other:
                return True
            if padded(one) != padded(other) and "character varying" in f"{one} {other}":
                return False
        types = {type_of(value, relation, self.parameters), type_of(output, inner, self.parameters)}
        return alike(types) or types <= TEXTUAL

    def _in_list(self, relation: Relation, value: exp.Expr, query: exp.Expr, negated: bool) -> Relation:
        """`value [NOT] IN` the rows of a query over public and released rows, which the front evaluates."""
        found = self._listed(value, query)
        condition = exp.not_(found) if negated else found
        check_condition(condition, relation, self.parameters)
        return replace(relation, conditions=(*relation.conditions, condition))

    def _listed(self, value: exp.Expr, query: exp.Expr) -> exp.Expr:
        rows = self.constants.listed(query, len(self.nodes))
        return exp.In(this=value, expressions=rows) if rows else exp.false()

    def public_rows(
        self, query: exp.Expr, ctes: Ctes, outer: Relation | None = None, *, any_row: bool = False
    ) -> Relation | None:
        """The relation of a plain selection from public tables, for use in the backend; None for others. `any_row`: it
        is asked for no more than whether there is one."""
        select = query.unnest() if isinstance(query, exp.Subquery) else query
        idle = ("limit", "order") if any_row and leaves_a_row(select) else ()
        if not isinstance(select, exp.Select) or any(select.args.get(p) for p in NOT_PLAIN if p not in idle):
            return None
        clause = select.args.get("from_")
        found = self._public_joined(clause.this, select.args.get("joins") or [], ctes) if clause else None
        if found is None or any(
            aggregates(e) or walk(e, exp.Window) or unread(e) for e in select.expressions
        ):
            return None
        if unread(select.args.get("where") or exp.null()):
            return None
        condition = select.args.get("where")
        for part in split(condition.this if condition else None):
            found = where(found, part, self.parameters, outer)
        return projected(found, select, self.parameters)

    def _public_joined(self, first: exp.Expr, joins: list[exp.Join], ctes: Ctes) -> Relation | None:
        found = [self.item(i, ctes) for i in (first, *(j.this for j in joins))]
        relations = [r for r in found if r is not None and not r.private]
        if len(relations) < len(found) or any(j.args.get("side") for j in joins):
            return None
        whole = relations[0]
        for node, right in zip(joins, relations[1:], strict=True):
            whole = join(whole, right, node, self.names, self.parameters)
        return whole
