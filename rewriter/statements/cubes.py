"""Groupings that would answer many statements of a log: the groups and filters of some as the groups of one.

In:  SELECT SUM(x) FROM t WHERE town = 'Ulm'; SELECT month, SUM(x), COUNT(*) FROM t WHERE town = 'Bonn' GROUP BY month
Out: SELECT month AS month, town AS town, SUM(x) AS sum_x, COUNT(*) AS count FROM t GROUP BY 1, 2

The texts are candidates: what they would save is found by asking them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from rewriter.refusal import Refusal
from rewriter.statements.lexer import readable

DIALECT = "postgres"
_PARTS = {"expressions", "from_", "joins", "where", "group", "order", "limit"}
_ADDITIVE = (exp.Sum, exp.Count, exp.Avg)


@dataclass(frozen=True)
class Chart:
    """A statement of groups over one relation; all parts are SQL.

    Attributes:
        relation: its FROM.
        keys: what it groups by.
        filters: the columns that decide which rows it reads or counts.
        reads: the columns of each key.
        measures: its row counts, sums and averages, without their conditions.
    """

    relation: str
    keys: tuple[str, ...]
    filters: frozenset[str]
    reads: tuple[frozenset[str], ...]
    measures: tuple[str, ...]


def chart(text: str) -> Chart | None:
    """A statement as a chart; None for one that is none, or has anything but FROM, WHERE, GROUP BY, ORDER BY, LIMIT.

    >>> found = chart("SELECT a AS k, SUM(x), SUM(CASE c WHEN 1 THEN x END) FROM t WHERE b > 1 GROUP BY k")
    >>> found.relation, found.keys, sorted(found.filters), found.measures
    ('FROM t', ('a',), ['b', 'c'], ('SUM(x)',))
    """
    try:
        tree = parse_one(readable(text), dialect=DIALECT)
    except (SqlglotError, Refusal):
        return None
    if not isinstance(tree, exp.Select) or {name for name, part in tree.args.items() if part} - _PARTS:
        return None
    group, where = tree.args.get("group"), tree.args.get("where")
    if tree.args.get("from_") is None or (
        group and {n for n, part in group.args.items() if part} - {"expressions"}
    ):
        return None
    calls = [call for one in tree.expressions for call in one.find_all(*_ADDITIVE)]
    keys = [_meant(one, tree.expressions) for one in (group.expressions if group else ())]
    if not calls or None in keys:
        return None
    plain = [
        call for call in calls if not call.find(exp.Case, exp.Distinct) and not call.find_ancestor(exp.Filter)
    ]
    conditional = [
        call.find_ancestor(exp.Filter) or call.find(exp.Case) for call in calls if call not in plain
    ]
    conditions = [*([where] if where else []), *chain(*map(_conditions, filter(None, conditional)))]
    return Chart(
        " ".join(_sql(part) for part in (tree.args["from_"], *tree.args.get("joins", ()))),
        tuple(_sql(key) for key in keys if key is not None),
        frozenset().union(*map(_columns, conditions)),
        tuple(_columns(key) for key in keys if key is not None),
        tuple(dict.fromkeys(map(_sql, plain))),
    )


def candidates(charts: Sequence[Chart], most: int) -> tuple[str, ...]:
    """The groupings by the groups and filters of some charts of one relation that could answer most of them.

    A filter on a column that a group is a function of needs the group alone, such as a range of times by month.

    >>> asked = ["SELECT SUM(x) FROM t WHERE town = 'Ulm'", "SELECT month, SUM(x), COUNT(*) FROM t GROUP BY month"]
    >>> asked.append("SELECT month, COUNT(*) FROM t WHERE town = 'Ulm' GROUP BY month")
    >>> candidates([chart(text) for text in asked], 1)
    ('SELECT month AS month, town AS town, SUM(x) AS sum_x, COUNT(*) AS count FROM t GROUP BY 1, 2',)
    """
    functions = Counter(
        (column, key)
        for one in charts
        for key, columns in zip(one.keys, one.reads, strict=True)
        for column in columns
        if key != column
    )
    usual = {column: key for (column, key), _ in reversed(functions.most_common())}

    def groups(one: Chart) -> frozenset[str]:
        left = one.filters - frozenset().union(*one.reads)
        return frozenset((*one.keys, *(usual.get(column, column) for column in left)))

    told = {one: groups(one) for one in charts}
    sizes = Counter({keys: sum(of <= keys for of in told.values()) for keys in set(told.values()) if keys})
    order = sorted(sizes, key=lambda keys: (-sizes[keys], len(keys), sorted(keys)))
    return tuple(
        _grouping(charts[0].relation, sorted(keys), [one for one, of in told.items() if of <= keys])
        for keys in order[:most]
    )


def _grouping(relation: str, keys: Sequence[str], charts: Iterable[Chart]) -> str:
    measures = dict.fromkeys(measure for one in charts for measure in one.measures) or {"COUNT(*)": None}
    shown = ", ".join(_named([*keys, *measures]))
    return f"SELECT {shown} {relation} GROUP BY {', '.join(str(n + 1) for n in range(len(keys)))}"


def _named(values: Iterable[str]) -> Iterator[str]:
    """Expressions with names that differ, as a published table needs them."""
    taken: Counter[str] = Counter()
    for value in values:
        tree = parse_one(value, dialect=DIALECT)
        call = tree.sql_name().lower() if isinstance(tree, _ADDITIVE) else ""
        name = "_".join(filter(None, (call, *(column.name.lower() for column in tree.find_all(exp.Column)))))
        name = name or "value"
        taken[name] += 1
        name += str(taken[name]) if taken[name] > 1 else ""
        yield f"{value} AS {_sql(exp.to_identifier(name))}"


def _meant(key: exp.Expr, shown: Sequence[exp.Expr]) -> exp.Expr | None:
    """What a GROUP BY means by a number or a name of the SELECT list; None for what is no group.

    A name may be a column's as well, which comes first in PostgreSQL: no text says so.
    """
    if isinstance(key, exp.Literal):
        place = int(key.this) - 1 if key.is_int else -1
        return shown[place].unalias() if 0 <= place < len(shown) else None
    if isinstance(key, exp.Column) and not key.table:
        return next(
            (one.unalias() for one in shown if isinstance(one, exp.Alias) and one.alias == key.name), key
        )
    return key


def _conditions(conditional: exp.Expr) -> Iterator[exp.Expr]:
    """What decides the rows that a FILTER or a CASE counts."""
    if isinstance(conditional, exp.Filter):
        yield conditional.expression
    else:
        yield from filter(None, (conditional.this, *(one.this for one in conditional.args["ifs"])))


def _columns(tree: exp.Expr) -> frozenset[str]:
    return frozenset(map(_sql, tree.find_all(exp.Column)))


def _sql(tree: exp.Expr) -> str:
    return tree.sql(DIALECT, comments=False)
