"""The standard deviation of what the noise does to an expression over released columns, as an expression of PostgreSQL.

In:  100.0 * c0 / c1, where e0 and e1 are the standard deviations of c0 and c1
Out: sqrt((100.0 / c1 * e0)^2 + (100.0 * c0 / c1 / c1 * e1)^2)

First order: exact where an expression is linear, else right where the noise is small beside the values (the delta
method). The columns' noise is taken for independent, that of a sum over a window for independent of its row's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from rewriter.ir.trees import case, cast, copied, func, paren, walk

OUTPUT = re.compile("c[0-9]+")
_KEEPING = (exp.Paren, exp.Round, exp.Ceil, exp.Floor, exp.Trunc, exp.Abs)
"""What an error passes through: a rounded value is as far off as the value."""
_FIRST = (exp.Coalesce, exp.Nullif, exp.Greatest, exp.Least)
"""The same, where everything behind the first argument is constant: a bound makes an error no larger."""
_PICKING = (exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue)
_NUMERIC = frozenset(
    (
        exp.DType.BIGINT,
        exp.DType.INT,
        exp.DType.SMALLINT,
        exp.DType.DECIMAL,
        exp.DType.DOUBLE,
        exp.DType.FLOAT,
    )
)


@dataclass(frozen=True)
class _Source:
    """One noise in an expression: by how much that changes with it, and its standard deviation."""

    slope: exp.Expr
    deviation: exp.Expr


_Sources = dict[str, _Source]


def stddev(node: exp.Expr, rows: str) -> exp.Expr | None:
    """The standard deviation of `node` over the columns c0.. and e0.. of `rows`; None where it has no noise or none
    that is known.

    >>> from sqlglot import parse_one
    >>> stddev(parse_one("r.c0 / 100", read="postgres"), "r").sql("postgres")
    'ABS(CAST(1 AS DOUBLE PRECISION) / CAST(100 AS DOUBLE PRECISION)) * r.e0'
    >>> stddev(parse_one("r.c0", read="postgres"), "r").sql(), stddev(parse_one("rank() over ()"), "r")
    ('r.e0', None)
    """
    found = _sources(node, rows)
    if not found:
        return None
    if isinstance(node.unnest(), exp.Column):
        return next(iter(found.values())).deviation
    if len(found) == 1:
        (only,) = found.values()
        return exp.Mul(this=func("ABS", only.slope), expression=only.deviation)
    return exp.Sqrt(this=_variance(found))


def noisy(node: exp.Expr, rows: str) -> list[exp.Column]:
    """The released outputs of `rows` in an expression."""
    return [c for c in walk(node, exp.Column) if c.table == rows and OUTPUT.fullmatch(c.name)]


def _sources(node: exp.Expr, rows: str) -> _Sources | None:
    """The noise in an expression, by what makes it; None where that is not known."""
    if not noisy(node, rows):
        return {}
    if isinstance(node, exp.Column):
        return {
            node.name: _Source(_double(exp.Literal.number(1)), exp.column(f"e{node.name[1:]}", table=rows))
        }
    if isinstance(node, _KEEPING) or (isinstance(node, exp.Cast) and node.to.this in _NUMERIC):
        return _sources(node.this, rows)
    if isinstance(node, _FIRST):
        return None if any(noisy(part, rows) for part in _behind(node)) else _sources(node.this, rows)
    if isinstance(node, exp.Neg):
        return _scaled(_sources(node.this, rows), lambda slope: exp.Neg(this=paren(slope)))
    if isinstance(node, (exp.Add, exp.Sub, exp.Mul, exp.Div)):
        return _of_operands(node, rows)
    if isinstance(node, exp.Case) and node.this is None:
        return _of_branches(node, rows)
    return _of_window(node, rows) if isinstance(node, exp.Window) else None


def _of_operands(node: exp.Binary, rows: str) -> _Sources | None:
    left, right = _sources(node.left, rows), _sources(node.right, rows)
    here, there = _double(node.left), _double(node.right)
    if isinstance(node, exp.Sub):
        right = _scaled(right, lambda slope: exp.Neg(this=paren(slope)))
    elif isinstance(node, exp.Mul):
        left = _scaled(left, lambda slope: exp.Mul(this=paren(slope), expression=copied(there)))
        right = _scaled(right, lambda slope: exp.Mul(this=paren(slope), expression=copied(here)))
    elif isinstance(node, exp.Div):

        def quotient(value: exp.Expr) -> exp.Expr:
            return exp.Div(this=value, expression=copied(there), typed=True)

        left = _scaled(left, quotient)
        ratio = exp.Neg(this=paren(quotient(quotient(here))))
        right = _scaled(right, lambda slope: exp.Mul(this=paren(slope), expression=copied(ratio)))
    return _together(left, right)


def _of_branches(node: exp.Case, rows: str) -> _Sources | None:
    """Each branch's noise where its condition holds."""
    branches = [(branch.this, branch.args["true"]) for branch in node.args["ifs"]]
    branches.append((exp.true(), node.args.get("default") or exp.null()))
    whole: _Sources | None = {}
    for number, (_, value) in enumerate(branches):
        conditions = [condition for condition, _ in branches[: number + 1]]

        def held(slope: exp.Expr, conditions: list[exp.Expr] = conditions) -> exp.Expr:
            *before, here = map(copied, conditions)
            nothing = [(condition, exp.Literal.number(0)) for condition in before]
            return case(*nothing, (here, slope), otherwise=exp.Literal.number(0))

        whole = _together(whole, _scaled(_sources(value, rows), held))
    return whole


def _of_window(node: exp.Window, rows: str) -> _Sources | None:
    """Sums over a window add variances up; LAG and its like pick a row's error with its value."""
    inner = _sources(node.this.this, rows) if isinstance(node.this, (exp.Sum, exp.Avg, *_PICKING)) else None
    if not inner or any(noisy(p, rows) for p in _behind(node)):
        return None
    if isinstance(node.this, (exp.Sum, exp.Avg)):
        added = copied(node)
        added.set("this", exp.Sum(this=_variance(inner)))
        deviation: exp.Expr = exp.Sqrt(this=added)
        if isinstance(node.this, exp.Avg):
            number = copied(node)
            number.set("this", exp.Count(this=copied(node.this.this)))
            deviation = exp.Div(this=deviation, expression=_double(number), typed=True)
    elif not any(noisy(p, rows) for p in _behind(node.this)):
        deviation = copied(node)
        deviation.this.set("this", exp.Sqrt(this=_variance(inner)))
        deviation.this.set("default", None)
    else:
        return None
    return {node.sql(): _Source(_double(exp.Literal.number(1)), deviation)}


def _behind(node: exp.Expr) -> list[exp.Expr]:
    return [part for part in node.iter_expressions() if part is not node.this]


def _variance(found: _Sources) -> exp.Expr:
    total: exp.Expr | None = None
    for one in found.values():
        error = paren(exp.Mul(this=paren(one.slope), expression=one.deviation))
        square = exp.Mul(this=error, expression=copied(error))
        total = square if total is None else exp.Add(this=total, expression=square)
    assert total is not None
    return total


def _scaled(found: _Sources | None, by: Callable[[exp.Expr], exp.Expr]) -> _Sources | None:
    if found is None:
        return None
    return {name: _Source(by(one.slope), one.deviation) for name, one in found.items()}


def _together(left: _Sources | None, right: _Sources | None) -> _Sources | None:
    """Both parts' noise; what is in both changes the whole by the sum of both."""
    if left is None or right is None:
        return None
    whole = dict(left)
    for name, one in right.items():
        other = whole.get(name)
        slope = one.slope if other is None else exp.Add(this=paren(other.slope), expression=paren(one.slope))
        whole[name] = _Source(slope, one.deviation)
    return whole


def _double(node: exp.Expr) -> exp.Expr:
    return cast(copied(node), "DOUBLE")
