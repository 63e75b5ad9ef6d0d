"""LIMIT and OFFSET as numbers."""

from __future__ import annotations

from sqlglot import exp

from rewriter.refusal import Refusal
from rewriter.scalar.typecheck import Parameters
from rewriter.syntax.allowlist import position

MAX_LIMIT = 2**62
_PLAIN = (
    exp.Alias,
    exp.Cast,
    exp.Column,
    exp.DataType,
    exp.DataTypeParam,
    exp.Identifier,
    exp.Literal,
    exp.Star,
)


_NEGATIVE = {"limit": "2201W", "offset": "2201X"}


def check_not_negative(tree: exp.Expr) -> None:
    """Raises 2201W and 2201X for a query whose LIMIT or OFFSET is a negative number: all that it asks would be paid
    before PostgreSQL says so."""
    for name in _NEGATIVE:
        clause = tree.args.get(name)
        if clause is not None and clause.find(exp.Parameter) is None:
            _constant(clause, name, ())


def limit_of(tree: exp.Select, parameters: Parameters) -> int | None:
    """LIMIT + OFFSET as a number, None without a constant LIMIT; 2201W and 2201X for negative ones."""
    limit, offset = (_constant(tree.args.get(clause), clause, parameters) for clause in _NEGATIVE)
    if limit is None or limit == 0:
        return limit
    return min(limit + (offset or 0), MAX_LIMIT)


def page_of(item: exp.Table, time: str, parameters: Parameters) -> tuple[int | None, bool]:
    """How many rows of the table `item` its query reads at most in order of the column `time`, None where that is not
    plain to see, and whether it reads the last ones.

    >>> from sqlglot import parse_one
    >>> def page(sql):
    ...     return page_of(parse_one(sql, dialect="postgres").find(exp.Table), "at", ())
    >>> page("SELECT * FROM releases ORDER BY at DESC LIMIT 10 OFFSET 20")
    (30, True)
    >>> page("SELECT * FROM (SELECT at, query FROM releases) AS x LIMIT 10")
    (10, False)
    >>> page("SELECT * FROM releases WHERE replayed LIMIT 10")
    (None, False)
    """
    query = _query_of(item)
    # What tools put around a query keeps its rows, but may give their columns other names.
    while query is not None and _parts(query) == {"expressions", "from_"} and _is_plain(query):
        query, time = _query_of(query.parent), ""
    if query is None or not _is_plain(query) or not isinstance(query.args.get("limit"), exp.Limit):
        return None, False
    newest, offset = _newest(query, time), query.args.get("offset")
    if newest is None or (offset is not None and _constant(offset, "offset", parameters) is None):
        return None, False
    return limit_of(query, parameters), newest


def _query_of(item: exp.Expr | None) -> exp.Select | None:
    """The SELECT whose FROM is a table or a subquery as it is, its columns not renamed."""
    if (
        item is None
        or not isinstance(item, (exp.Table, exp.Subquery))
        or not isinstance(item.parent, exp.From)
    ):
        return None
    alias = item.args.get("alias")
    if _parts(item) - {"this", "db", "alias"} or (alias is not None and alias.columns):
        return None
    return item.parent.parent if isinstance(item.parent.parent, exp.Select) else None


def _is_plain(query: exp.Select) -> bool:
    """Whether it has a row for each row of its FROM: anything else could read more rows than it has."""
    if _parts(query) - {"expressions", "from_", "limit", "offset", "order"}:
        return False
    return all(isinstance(node, _PLAIN) for e in query.expressions for node in e.walk())


def _parts(node: exp.Expr) -> set[str]:
    return {name for name, value in node.args.items() if value}


def _newest(query: exp.Select, time: str) -> bool | None:
    """Whether it is ordered by `time` from the last on; None where it has another order."""
    order = query.args.get("order")
    if order is None:
        return False
    (key, *others), named = order.expressions, [e for e in query.expressions if e.alias_or_name == time]
    by_time = isinstance(key.this, exp.Column) and key.this.name == time
    if others or not by_time or not all(isinstance(e, exp.Column) for e in named):
        return None
    return bool(key.args.get("desc"))


def _constant(clause: exp.Expr | None, name: str, parameters: Parameters) -> int | None:
    if clause is None:
        return None
    value = clause.args.get("count") if isinstance(clause, exp.Fetch) else clause.args.get("expression")
    negative = isinstance(value, exp.Neg)
    value = value.this if isinstance(value, exp.Neg) else value
    if isinstance(value, exp.Parameter):
        text = parameters[int(value.name) - 1].value or ""
    else:
        text = value.this if isinstance(value, exp.Literal) and not value.is_string else ""
    if negative or text.startswith("-"):
        raise Refusal(_NEGATIVE[name], f"{name.upper()} must not be negative", position=position(clause))
    return int(text) if text.isdigit() else None
