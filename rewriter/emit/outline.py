"""What a node's measures are of, apart from its groups and filters, and other groups as functions of its cells.

In:  SUM(x) of t WHERE week < 5 GROUP BY month, and the known values of a key, month
Out: SELECT n, month FROM <the values>: which of them a question by month is made of; None where week is no key

A public table of which a row has one row at most can be left out of the rows: it is joined to the cells then.

Why: docs/decisions/implied-answers.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import chain, combinations, islice
from typing import Literal

from sqlglot import exp

from rewriter.binder.contribution_bounds import equated_to_key
from rewriter.canonical.normalize import canonical, canonical_conjuncts, text_of
from rewriter.emit.histogram import Scanned, node_text, node_texts
from rewriter.ir.measure import Count, Joint, Measure, Moment, Total
from rewriter.ir.measure import parts as read_by
from rewriter.ir.relation import Leaf, Relation, Source, conjuncts, leaf, leaves
from rewriter.ir.trees import and_, copied, walk
from rewriter.ir.types import INTEGERS, Type
from rewriter.logical.aggregate_calls import conjunction, present
from rewriter.logical.alias_order import apart
from rewriter.logical.plan import AggregateNode
from rewriter.plan import Cell
from rewriter.policy import Policy
from rewriter.scalar.parameter_literal import with_constants
from rewriter.scalar.typecheck import Parameters, type_of

Role = Literal["itself", "joint", "totals", "sum", "rows", "average"]
Identity = tuple[str, ...]
"""A text that equal expressions have, and how the columns are declared that it reads."""
MOST_APART = 4
"""Of the sets of public tables that are left out of a question's rows."""
MOST_TRIED = 64
"""So many sets are looked at, the largest first: their number doubles with each table."""
_EXACT = (*INTEGERS, Type.NUMERIC)
"""Types of which a value that is not NULL is a number."""


@dataclass(frozen=True)
class Part:
    """A key or a filter: its expression without parameters, and what tells whether another one is the same."""

    value: exp.Expr
    identity: Identity


@dataclass(frozen=True)
class Measured:
    """A measure over a node's rows before filters and groups: its text, the stored columns that it reads, and the
    filters on the rows that it counts, its own FILTER among them.

    `met`: the conditions that read tables which its rows are without. `others`: the measures that it could be made of:
    an average of a sum and of rows, or of one that was bought beside these; a sum of such an average, a number of rows
    of such an average of a value that they have.
    `counted`: of such an average the number of rows, as that is looked for.
    """

    text: str
    scanned: Scanned
    filters: tuple[Part, ...]
    met: tuple[Part, ...] = ()
    others: Mapping[Role, Measured] = field(default_factory=dict)
    counted: Measured | None = None


@dataclass(frozen=True)
class Outline:
    """The measures and keys of a node. A filter reads one source, and no other query.

    Attributes:
        relation: the node's rows.
        parameters: the values of parameters in it.
        column: how a column is declared, or computed.
        apart: the public sources that the measures' rows are without, the last ones of the relation.
        measures: None for those of which other groups tell nothing.
        keys: the node's keys.
    """

    relation: Relation
    parameters: Parameters
    column: Callable[[Leaf], str]
    apart: frozenset[str] = frozenset()
    measures: tuple[Measured | None, ...] = ()
    keys: tuple[Part, ...] = ()

    def identity(self, value: exp.Expr) -> Identity:
        """The identity of an expression over the columns."""
        return self._identity(canonical(value, self.relation))

    def _identity(self, value: exp.Expr) -> Identity:
        """That of an expression in canonical form."""
        return text_of(value), *map(self.column, sorted(leaves(value)))

    def gaps(self, cells: Sequence[Cell]) -> tuple[int, ...] | None:
        """The keys that are NULL in rows of no cell: nothing keeps them from it, and no cell is for NULL.

        None where such a key is computed, since then it is not known in what cells, if in any, these rows are; and
        where a key reads no column: nothing proves that its one cell has all rows.
        """
        found = []
        for place, key in enumerate(self.keys):
            if not leaves(key.value):
                return None
            columns = [self.relation.source(alias).column(name) for alias, name in leaves(key.value)]
            if all(column is not None and column.required for column in columns):
                continue
            if any(cell[place] is None for cell in cells):
                continue
            if not isinstance(key.value, exp.Column):
                return None
            found.append(place)
        return tuple(found)

    def parts(self, conditions: Iterable[exp.Expr]) -> tuple[Part, ...]:
        """The conjuncts of conditions."""
        values = (with_constants(c, self.parameters) for c in conditions)
        found = canonical_conjuncts(values, self.relation)
        return tuple(Part(value, self._identity(value)) for value in found)

    def part(self, value: exp.Expr) -> Part:
        return Part(value, self.identity(value))


def outline(node: AggregateNode, policy: Policy, parameters: Parameters) -> Outline | None:
    """The outline of a node; None where its rows are not those of its relation alone."""
    if node.relation.filled is not None or node.relation.limit is not None:
        return None
    return _outline(node, frozenset(), policy, parameters)


def outlines_apart(node: AggregateNode, policy: Policy, parameters: Parameters) -> Iterator[Outline]:
    """The outlines of a node whose rows are without public tables that cells can be joined to in their place, the
    fewest tables first."""
    if node.relation.filled is None and node.relation.limit is None:
        for aliases in islice(_separable(node.relation), MOST_APART):
            yield _outline(*apart(node, aliases), policy, parameters)


def listed(source: Source) -> bool:
    """Whether a source has the rows of a public table that the front has."""
    return source.derived is None and source.table.public and source.table.in_front


def one_each(relation: Relation, aliases: Iterable[str], given: Iterable[str]) -> bool:
    """Whether a row of the `given` sources meets one row at most of each of the others: by its key, one after the
    other."""
    return _in_turn({name: _found_by(relation, name) for name in aliases}, given)


def _in_turn(found_by: Mapping[str, set[str] | None], given: Iterable[str]) -> bool:
    left, known = set(found_by), set(given)
    while left:
        found = {name for name in left if (by := found_by[name]) is not None and by <= known}
        if not found:
            return False
        left, known = left - found, known | found
    return True


def _found_by(relation: Relation, alias: str) -> set[str] | None:
    """The sources whose columns are equated to the key of a public one; None for none."""
    others = {s.alias for s in relation.sources} - {alias}
    partners = equated_to_key(relation, relation.source(alias), others)
    return None if partners is None else {name for name, _ in partners}


def _separable(relation: Relation) -> Iterator[frozenset[str]]:
    """The sets of public sources without which the others' rows are the same, but for those that do not meet them."""
    if any(walk(condition, exp.Query) for condition in relation.conditions):
        return  # it may read them
    outside = {name for name, _ in leaves(*chain(*(join.outside for join in relation.semi_joins)))}
    public = [s.alias for s in relation.sources if listed(s) and s.alias not in outside]
    found_by = {alias: _found_by(relation, alias) for alias in public}
    needs = {s.alias: {name for name, _ in leaves(*(s.on or ()))} for s in relation.sources}
    needs |= {alias: needs[alias] | (by or set()) for alias, by in found_by.items()}
    sizes = (combinations(public, size) for size in range(len(public), 0, -1))
    for chosen in islice(chain.from_iterable(sizes), MOST_TRIED):
        aliases = frozenset(chosen)
        others = [s.alias for s in relation.sources if s.alias not in aliases]
        needed = set[str]().union(*(needs[name] for name in others))
        if not aliases & needed and _in_turn({alias: found_by[alias] for alias in chosen}, others):
            yield aliases


def _outline(node: AggregateNode, without: frozenset[str], policy: Policy, parameters: Parameters) -> Outline:
    relation = node.relation
    met = [c for c in relation.conditions if reads(c, without)]
    others = [c for c in relation.conditions if not reads(c, without)]
    rows = replace(
        relation,
        sources=tuple(s for s in relation.sources if s.alias not in without),
        conditions=tuple(c for c in others if not filters(c)),
    )
    alone = replace(node, relation=rows, outputs=(), k=None, order_by=None)

    @cache
    def column(at: Leaf) -> str:
        source = relation.source(at[0])
        if source.derived is None:
            return repr(source.column(at[1]))
        return node_text(replace(alone, keys=(leaf(*at),), measures=()), policy, parameters)[0]

    found = Outline(relation, parameters, column, without)
    common = cache(partial(found.parts, (*filter(filters, others), *met)))
    texts = cache(partial(node_texts, replace(alone, keys=()), policy, parameters))

    def measured(measure: Measure) -> Measured | None:
        whole, own = _apart(measure, relation)
        if without and any(reads(part, without) or walk(part, exp.Query) for part in read_by(whole)):
            return None
        text, scanned = texts()((whole,))
        parts = _in_order((*common(), *found.parts(own)))
        return Measured(
            text,
            scanned,
            tuple(part for part in parts if not reads(part.value, without)),
            tuple(part for part in parts if reads(part.value, without)),
        )

    def forms(measure: Measure | None) -> Measured | None:
        made = {role: measured(m) for role, m in _forms(measure, relation, parameters).items()}
        itself, counted = made.pop("itself", None), made.get("rows")
        known = {role: one for role, one in made.items() if one is not None}
        if "average" in known:
            known["average"] = _averaged(known["average"])
        alone = isinstance(measure, Joint) and measure.averages
        counted = None if counted is None or alone else _averaged(counted)
        return None if itself is None else replace(itself, others=known, counted=counted)

    return replace(
        found,
        measures=tuple(forms(plain(m)) for m in node.measures),
        keys=tuple(found.part(with_constants(k, parameters)) for k in node.keys),
    )


def _in_order(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Conjuncts in the order of their texts, each once."""
    found = {part.identity[0]: part for part in parts}
    return tuple(found[text] for text in sorted(found))


def reads(value: exp.Expr, aliases: frozenset[str]) -> bool:
    """Whether an expression reads one of some sources."""
    return any(name in aliases for name, _ in leaves(value))


def _forms(measure: Measure | None, relation: Relation, parameters: Parameters) -> dict[Role, Measure]:
    """A measure, and those that it could be made of; nothing for one of which groups cannot be added up."""
    if measure is None:
        return {}
    found: dict[Role, Measure] = {"itself": measure}
    if isinstance(measure, Total) and measure.value is None:
        found["average"] = measure
    if isinstance(measure, Joint) and measure.averages:
        found["totals"] = replace(measure, averages=False)
    value = measure.value if isinstance(measure, (Total, Joint)) else None
    if value is None or type_of(value.value, relation, parameters) not in _EXACT:
        return found
    if isinstance(measure, Total):
        found["joint"] = Joint(value, measure.argument, squares=False, least=1)
    elif isinstance(measure, Joint) and not measure.squares:
        rows = conjunction(measure.argument, present(value.value, relation))
        found |= {"sum": Total(value, measure.argument, 1), "rows": Total(None, rows, 1)}
    return found


def _averaged(rows: Measured) -> Measured:
    """A number of rows as a part of an average of one of their values, whichever that is."""
    return replace(rows, text=f"of an average\n{rows.text}")


def _apart(measure: Measure, relation: Relation) -> tuple[Measure, tuple[exp.Expr, ...]]:
    """A measure without the conditions of its FILTER that filter rows, and these; none that always hold."""
    own = [c for c in conjuncts(measure.argument) if not _certain(c, relation)]
    kept = [copied(c) for c in own if not filters(c)]
    return replace(measure, argument=and_(*kept) if kept else None), tuple(filter(filters, own))


def _certain(condition: exp.Expr, relation: Relation) -> bool:
    """Whether a condition says of a column that it is not NULL, which the backend's schema says as well."""
    if not isinstance(condition, exp.Not) or not isinstance(condition.this, exp.Is):
        return False
    return isinstance(condition.this.expression, exp.Null) and relation.required(condition.this.this)


def plain(measure: Measure) -> Measure | None:
    """A measure of rows, sums, joint moments or units; None for the others, of which groups cannot be added up.

    What its least length is says nothing of what is measured.
    """
    if isinstance(measure, Total) and measure.once:
        return None if measure.items else Count(measure.argument, 1)
    if isinstance(measure, (Count, Total)) and measure.items:
        return None
    if isinstance(measure, Total):
        return replace(measure, anchor=1)
    if isinstance(measure, Joint):
        return replace(measure, least=1)
    return measure if isinstance(measure, (Count, Moment)) else None


def of_units(measure: Measure) -> bool:
    """Whether a measure counts each unit once, in a group or at all."""
    counted = plain(measure)
    return isinstance(counted, Count) and counted.tau == 1


def filters(condition: exp.Expr) -> bool:
    """Whether a condition filters the rows of one source, and joins none."""
    return len({name for name, _ in leaves(condition)}) == 1 and not walk(condition, exp.Query)
