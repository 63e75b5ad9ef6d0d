"""What stands above the nodes: the client's statement, in which released rows take the place of private ones.

In:  SELECT country, COUNT(*) FROM users WHERE birth_year > 1970 GROUP BY country HAVING COUNT(*) > 9
Out: SELECT _r0.g0 AS country, _r0.c0 AS count FROM <released rows of node 0> AS _r0 WHERE _r0.c0 > 9

The analysis of a statement collects what takes the place of what, and leaves the client's tree as it is.

Why: docs/decisions/the-plan-keeps-the-clients-statement.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from rewriter.binder.names import output_name
from rewriter.effort import spend
from rewriter.ir.trees import copied, rebuilt

ANSWERED = ("from_", "joins", "where", "group", "having")
"""The clauses of a SELECT that its nodes answer."""


@dataclass(frozen=True)
class Replacements:
    """What takes the place of parts of a client's tree, by the ids of these: equal parts stand in several places.

    Attributes:
        parts: the new expression, or the released rows of one of the proxy's own tables.
        rows: the released rows that an aggregating SELECT reads; None where its parts alone read some.
        joins: what is joined with them.
        dropped: CTEs of private rows, which nothing reads any more.
    """

    parts: dict[int, exp.Expr] = field(default_factory=dict)
    rows: dict[int, exp.Table | None] = field(default_factory=dict)
    joins: dict[int, list[exp.Join]] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)

    def above(self, node: exp.Expr) -> exp.Expr:
        """A copy of a part of the client's tree with everything replaced in it."""
        spend()
        if id(node) in self.parts:
            return copied(self.parts[id(node)])
        if id(node) in self.rows:
            return self._over(self.rows[id(node)], node)
        if not isinstance(node, exp.With):
            return _without_empty(rebuilt(node, self.above))
        made = rebuilt(node, self.above, ["expressions"])
        made.set("expressions", [self.above(cte) for cte in node.expressions if id(cte) not in self.dropped])
        return made

    def _over(self, rows: exp.Table | None, tree: exp.Expr) -> exp.Expr:
        """An aggregating SELECT over released rows: HAVING is their WHERE, and each output keeps its name."""
        made = rebuilt(tree, self.above, [*ANSWERED, "expressions"])
        outputs = [
            self.above(item)
            if isinstance(item, exp.Alias)
            else exp.Alias(this=self.above(item), alias=exp.to_identifier(output_name(item), quoted=True))
            for item in tree.expressions
        ]
        made.set("expressions", outputs)
        made.set("from_", None if rows is None else exp.From(this=copied(rows)))
        if joins := self.joins.get(id(tree)):
            made.set("joins", [copied(join) for join in joins])
        having = tree.args.get("having")
        if having is not None:
            made.set("where", exp.Where(this=self.above(having.this)))
        return _without_empty(made)


def _without_empty(made: exp.Expr) -> exp.Expr:
    """A query without WITH where all of its CTEs were dropped."""
    clause = made.args.get("with_")
    if clause is not None and not clause.expressions:
        made.set("with_", None)
    return made
