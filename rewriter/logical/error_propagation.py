"""The size of what the noise does to an expression over released rows, as an expression of PostgreSQL.

In:  100.0 * r.c0 / r.c1, where e_c0 and e_c1 are the standard deviations of c0 and c1
Out: sqrt((100.0 / r.c1 * r.e_c0)^2 + (100.0 * r.c0 / r.c1 / r.c1 * r.e_c1)^2)

First order: exact where an expression is linear, else right where the noise is small beside the values (the delta
method). Intervals of products and quotients hold where it is not, too: a product has the product of both errors added,
a quotient is divided by the least that its divisor may be, and has no interval (NULL) where that is not above 0. What
may depend on each other is added up, which is at least the true size: the columns of a subquery, two windows, the
columns of two tables, outputs that are read from one measure. MIN and MAX over released rows are bounded by what the
noise of all of them does at most, with probability 95%.

Counts of units may have a noise that all rows of a node share, besides that of each row: e_ is then made of own_e_ and
common_e_. By how much an expression changes with it is followed exactly: it adds up in SUM(c0) and cancels in
c0 - LAG(c0) OVER (...).

Half widths of 95% intervals (w_) are propagated as standard deviations (e_) are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Literal

from sqlglot import exp

from rewriter.binder.names import item_name, output_name
from rewriter.effort import spend
from rewriter.ir.texts import sql_text
from rewriter.ir.trees import Node, alias, case, cast, copied, folded, func, paren, walk
from rewriter.logical.plan import NODE, SETS
from rewriter.plan import INTERVAL_CALLS, SIZES, Asked, Size

SHOWN = re.compile("((own_|common_)?[ewlh]_)?c[0-9]+")
"""The names of released outputs and of what is known of their noise."""
_ROUNDED = (exp.Round, exp.Ceil, exp.Floor, exp.Trunc)
_KEEPING = (*_ROUNDED, exp.Paren, exp.Abs)
"""What an error passes through."""
_FIRST = (exp.Coalesce, exp.Nullif, exp.Greatest, exp.Least)
"""The same, where everything behind the first argument is constant: a bound makes an error no larger."""
_OTHER_ROW = (exp.Lag, exp.Lead)
_ANY_ROW = (exp.FirstValue, exp.LastValue)
_WHOLE = frozenset((exp.DType.BIGINT, exp.DType.INT, exp.DType.SMALLINT))
_NUMERIC = _WHOLE | {exp.DType.DECIMAL, exp.DType.DOUBLE, exp.DType.FLOAT}


Sizes = frozenset[Size]


@dataclass(frozen=True)
class ReleasedNoise:
    """What is known of the noise of a released output.

    `own`: none of it is in another output of the row; `apart`: none of it is in another row; `common`: there may be one
    more noise, which is the same in all rows.
    """

    sizes: Sizes
    own: bool = True
    apart: bool = True
    common: bool = False


Released = Mapping[int, Mapping[str, ReleasedNoise]]
"""The outputs of each node, by name."""


class Noise(Enum):
    """How the noise of a column goes with that of the other columns of its row."""

    OWN = "independent"
    SHARED = "perhaps not independent"
    MIXED = "perhaps not independent, nor of that of other rows"
    UNKNOWN = "of unknown size"


@dataclass(frozen=True)
class NoisyRows:
    """The noise in the rows of a FROM.

    Attributes:
        columns: by alias and name, those with noise.
        opaque: aliases of items of which nothing is known.
        apart: the noise of each row is independent of that of the others.
        whole: no row is missing because of noise.
        common: the names of the noises that are the same in all rows, by the columns that have one besides their own.
    """

    columns: Mapping[tuple[str, str], Noise]
    opaque: frozenset[str] = frozenset()
    apart: bool = True
    whole: bool = True
    common: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @property
    def noisy(self) -> bool:
        """Whether there is any noise in them."""
        return bool(self.columns or self.opaque)

    def of(self, column: exp.Column) -> tuple[str, Noise] | None:
        """The item of FROM that a column is of, and its noise; None for an exact one."""
        name, table = folded(column.this), folded(column.args.get("table"))
        found = [(a, noise) for (a, n), noise in self.columns.items() if n == name and table in ("", a)]
        if len(found) == 1:
            return found[0]
        hidden = table in self.opaque if table else bool(self.opaque)
        whole_row = not table and name in {a for a, _ in self.columns}
        return (table, Noise.UNKNOWN) if found or hidden or whole_row else None


Kind = Literal["own", "window", "shared", "common", "everywhere"]
Build = Callable[[], exp.Expr]


@dataclass(frozen=True)
class _Source:
    """One noise in an expression: by how much that changes with it, and its size, both written when asked for.

    `kind`: "own" is independent of all others of the row, "window" of all but other windows, "shared" of none; "common"
    neither, nor of those of other rows, as "window". "everywhere" is one noise in all rows, independent of "own",
    "window" and "shared": its slope is by how much the value changes with one standard deviation of it.
    """

    slope: Build
    size: Build
    kind: Kind = "own"


_Sources = dict[str, _Source]


@dataclass(frozen=True)
class Expressions:
    """The expressions of one SELECT over `rows`, of whose noise the size is asked for.

    `inner`: the rows of a subquery; `has_noise`: whether anything in a subquery has noise.
    """

    rows: NoisyRows
    size: Size = "e"
    inner: Callable[[exp.Select], NoisyRows | None] = field(default=lambda _: None)
    has_noise: Callable[[exp.Query], bool] = field(default=lambda _: True)
    _found: dict[int, tuple[exp.Expr, _Sources | None]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def of(self, node: exp.Expr) -> exp.Expr | None:
        """The size of what the noise does to `node`, None where that is not known; 0 where there is no noise.

        >>> from sqlglot import parse_one
        >>> one = Expressions(NoisyRows({("r", "c0"): Noise.OWN}))
        >>> one.of(parse_one("r.c0 / 100", read="postgres")).sql("postgres")
        'ABS(CAST(1 AS DOUBLE PRECISION) / CAST(100 AS DOUBLE PRECISION)) * "r"."e_c0"'
        >>> one.of(parse_one("r.c0", read="postgres")).sql(), one.of(parse_one("LN(r.c0)"))
        ('"r"."e_c0"', None)
        >>> one.of(parse_one("r.g0")).sql()
        '0'
        """
        found = self.sources(node)
        return None if found is None else _total(found)

    def exact(self, *nodes: exp.Expr | None) -> bool:
        """Whether there is no noise in any of them."""
        return all(self.sources(node) == {} for node in nodes if node is not None)

    def sources(self, node: exp.Expr) -> _Sources | None:
        """The noise in an expression, by what makes it; None where that is not known."""
        if id(node) not in self._found:
            self._found[id(node)] = node, self._sources(node)
        return self._found[id(node)][1]

    def _sources(self, node: exp.Expr) -> _Sources | None:
        if isinstance(node, exp.Column):
            return self._column(node)
        if isinstance(node, exp.Query):
            return self._query(node)
        if isinstance(node, exp.Window):
            return self._window(node)
        if isinstance(node, exp.AggFunc):
            return self._aggregate(node)
        if self.exact(*node.iter_expressions()):
            return {}
        if isinstance(node, _KEEPING) or (isinstance(node, exp.Cast) and node.to.this in _NUMERIC):
            return self._rounded(node)
        if isinstance(node, _FIRST):
            return self.sources(node.this) if self.exact(*_behind(node)) else None
        if isinstance(node, exp.Neg):
            return _scaled(self.sources(node.this), _negative)
        if isinstance(node, (exp.Add, exp.Sub, exp.Mul, exp.Div)):
            return self._operands(node)
        return self._branches(node) if isinstance(node, exp.Case) and node.this is None else None

    def _column(self, node: exp.Column) -> _Sources | None:
        found = self.rows.of(node)
        if found is None:
            return {}
        table, noise = found
        if noise is Noise.UNKNOWN:
            return None
        name, common = folded(node.this), self.rows.common.get((table, folded(node.this)))
        kind: Kind = "own" if noise is Noise.OWN else "common" if noise is Noise.MIXED else "shared"
        if common is None:
            return {f"{table}.{name}": _Source(_unchanged, lambda: sized(self.size, table, name), kind)}
        own, everywhere = SIZES[f"own_{self.size}"], SIZES[f"common_{self.size}"]
        return {
            f"{table}.{name}": _Source(_unchanged, lambda: sized(own, table, name), kind),
            common: _Source(lambda: sized(everywhere, table, name), _unchanged, "everywhere"),
        }

    def _query(self, node: exp.Query) -> _Sources | None:
        """A scalar subquery's value, by the same subquery with the size in place of the value."""
        select = node.unnest()
        rows = self.inner(select) if isinstance(select, exp.Select) else None
        known = rows or NoisyRows({})
        if any(self.rows.of(c) and not known.of(c) for c in walk(node, exp.Column)):
            return None
        if not self.has_noise(node):
            return {}
        if rows is None or not isinstance(select, exp.Select) or len(select.expressions) != 1:
            return None
        found = replace(self, rows=rows).sources(select.expressions[0].unalias())
        if not found or not rows.whole or any(select.args.get(part) for part in ("limit", "offset")):
            return None

        def size() -> exp.Expr:
            asked = _copy(select)
            asked.set("expressions", [_total(found)])
            return asked.subquery(copy=False)

        return _one(node, size, "common")

    def _rounded(self, node: exp.Expr) -> _Sources | None:
        """A value errs by up to one more of the last digit that is kept of it."""
        found, digits = self.sources(node.this), node.args.get("decimals")
        cut = isinstance(node, _ROUNDED) or (isinstance(node, exp.Cast) and node.to.this in _WHOLE)
        if not found or self.size != "w" or not cut:
            return found

        def step() -> exp.Expr:
            if digits is None:
                return case((_is_integer(node.this), exp.Literal.number(0)), otherwise=exp.Literal.number(1))
            return func("POWER", cast(exp.Literal.string("0.1"), "DOUBLE"), _double(digits))

        return _together(found, _one(node, step, "common"))

    def _operands(self, node: exp.Binary) -> _Sources | None:
        left, right = self.sources(node.left), self.sources(node.right)
        if isinstance(node, exp.Mul):
            return self._product(node, left, right)
        if isinstance(node, exp.Div):
            return self._quotient(node, left, right)
        return _together(left, _scaled(right, _negative) if isinstance(node, exp.Sub) else right)

    def _product(self, node: exp.Mul, left: _Sources | None, right: _Sources | None) -> _Sources | None:
        """A product errs by each factor's error times the other, and by the product of both errors."""
        whole = _together(
            _scaled(left, lambda slope: exp.Mul(this=paren(slope), expression=_double(node.right))),
            _scaled(right, lambda slope: exp.Mul(this=paren(slope), expression=_double(node.left))),
        )
        if not left or not right or self.size == "e":
            return whole

        def both() -> exp.Expr:
            return exp.Mul(this=paren(_total(left)), expression=paren(_total(right)))

        return _together(whole, _one(node, both, "common"))

    def _quotient(self, node: exp.Div, left: _Sources | None, right: _Sources | None) -> _Sources | None:
        """a / b errs by (b da - a db) / (b (b - db)): there is no interval where that may divide by 0."""

        def divided(value: exp.Expr) -> exp.Expr:
            return exp.Div(this=value, expression=_double(node.right), typed=True)

        def within(value: exp.Expr) -> exp.Expr:
            if not right:
                return value
            size, divisor = paren(_total(right)), func("ABS", _double(node.right))
            if self.size == "e":
                far = exp.GT(this=divisor, expression=exp.Mul(this=exp.Literal.number(2), expression=size))
                return case((far, value))
            least = paren(exp.Sub(this=_copy(divisor), expression=_copy(size)))
            more = exp.Div(this=_copy(divisor), expression=least, typed=True)
            return case((exp.GT(this=divisor, expression=size), exp.Mul(this=paren(value), expression=more)))

        def ratio(slope: exp.Expr) -> exp.Expr:
            whole = divided(divided(_double(node.left)))
            return exp.Mul(this=paren(slope), expression=_negative(whole))

        whole = _together(
            _scaled(left, lambda slope: within(divided(slope))),
            _scaled(right, lambda slope: within(ratio(slope))),
        )
        return _together(
            whole, _one(node, lambda: _cut_off(node), "common") if whole and self.size == "w" else {}
        )

    def _branches(self, node: exp.Case) -> _Sources | None:
        """Each branch's noise where its condition holds; without noise, another condition might hold."""
        branches = [(branch.this, branch.args["true"]) for branch in node.args["ifs"]]
        if any(calls(condition) for condition, _ in branches):
            return None  # what is shown where its noise is small enough
        branches.append((exp.true(), node.args.get("default") or exp.null()))
        whole: _Sources | None = {}
        for number, (_, value) in enumerate(branches):
            conditions = [condition for condition, _ in branches[: number + 1]]

            def held(slope: exp.Expr, conditions: list[exp.Expr] = conditions) -> exp.Expr:
                *before, here = map(_copy, conditions)
                nothing = [(condition, exp.Literal.number(0)) for condition in before]
                return case(*nothing, (here, slope), otherwise=exp.Literal.number(0))

            whole = _together(whole, _scaled(self.sources(value), held))
        values = [value for _, value in branches if not isinstance(value, exp.Null)]
        if len(values) > 1 and not self.exact(*(condition for condition, _ in branches)):
            return whole if whole and self.size == "e" else None
        return whole

    def _window(self, node: exp.Window) -> _Sources | None:
        """Sums over a window add variances up; LAG and its like pick a row's error with its value."""
        function, parts = node.this, _behind(node)
        if not self.exact(*parts, *_behind(function)) or not isinstance(function, exp.Func):
            return None
        found = {} if function.this is None else self.sources(function.this)
        if not found:
            return found if self.rows.whole else None
        own, everywhere = _parted(found)
        apart = self.rows.apart and _by_row(own)
        if isinstance(function, (*_OTHER_ROW, *_ANY_ROW)):

            def picked(value: exp.Expr) -> exp.Expr:
                made = _copy(node)
                made.this.set("this", value)
                made.this.set("default", None)
                return made

            other = isinstance(function, _OTHER_ROW) and _is_ahead(function.args.get("offset"))
            kind: Kind = "window" if apart and other else "common"
            return _together(_one(node, lambda: picked(_total(own)), kind), _scaled(everywhere, picked))
        if not isinstance(function, (exp.Sum, exp.Avg)):
            return None

        def over(aggregate: exp.Expr) -> exp.Expr:
            whole = _copy(node)
            whole.set("this", aggregate)
            return whole

        def mean(value: exp.Expr) -> exp.Expr:
            if isinstance(function, exp.Sum):
                return value
            number = over(exp.Count(this=_copy(function.this)))
            return exp.Div(this=value, expression=cast(number, "DOUBLE"), typed=True)

        def squares() -> exp.Expr:
            return over(exp.Sum(this=_square(_total(own))))

        everywhere = _scaled(everywhere, lambda slope: mean(over(exp.Sum(this=slope)))) or {}
        if not apart:
            return _together(_one(node, lambda: mean(over(exp.Sum(this=_total(own)))), "common"), everywhere)
        if (spec := node.args.get("spec")) is not None and not _has_own_row(spec):
            return _together(_one(node, lambda: mean(exp.Sqrt(this=squares())), "common"), everywhere)

        def others() -> exp.Expr:
            rest = exp.Sub(this=squares(), expression=_square(_total(own)))
            return mean(exp.Sqrt(this=func("GREATEST", rest, exp.Literal.number(0))))

        # The own row's noise is in the sum, too; what is left is independent of it.
        row = _together(_scaled(own, lambda slope: mean(paren(slope))), _one(node, others, "window"))
        return _together(row, everywhere)

    def _aggregate(self, node: exp.AggFunc) -> _Sources | None:
        """Of released rows: SUM and AVG add variances up, MIN and MAX are no further off than some row's value."""
        if not self.rows.noisy:
            return {} if self.exact(*node.iter_expressions()) else None
        if not isinstance(node, (exp.Sum, exp.Avg, exp.Min, exp.Max)) or not self.rows.whole:
            return None
        found = self.sources(node.this)
        if not found or not self.exact(*_behind(node)):
            return None
        if isinstance(node, (exp.Min, exp.Max)) and self.size == "e":
            return None  # an interval that holds is known, a deviation is not
        own, everywhere = _parted(found)
        apart = self.rows.apart and _by_row(own)

        def number() -> exp.Expr:
            return cast(exp.Count(this=_copy(node.this)), "DOUBLE")

        def mean(whole: exp.Expr) -> exp.Expr:
            return (
                exp.Div(this=whole, expression=number(), typed=True) if isinstance(node, exp.Avg) else whole
            )

        def size() -> exp.Expr:
            if isinstance(node, (exp.Min, exp.Max)):
                return exp.Mul(this=_most(number()), expression=exp.Max(this=_total(found)))
            return mean(
                exp.Sqrt(this=exp.Sum(this=_square(_total(own)))) if apart else exp.Sum(this=_total(own))
            )

        if isinstance(node, (exp.Min, exp.Max)):
            return _one(node, size, "shared" if apart and not everywhere else "common")
        rows = _one(node, size, "shared" if apart else "common")
        return _together(rows, _scaled(everywhere, lambda slope: mean(exp.Sum(this=slope))))


def sized(size: Size, table: str, name: str) -> exp.Column:
    """The column with the size of a column's noise.

    >>> sized("w", "r", "c0").sql()
    '"r"."w_c0"'
    """
    return exp.Column(
        this=exp.to_identifier(f"{size}_{name}", quoted=True), table=exp.to_identifier(table, quoted=True)
    )


def _most(number: exp.Expr) -> exp.Expr:
    """How many times its own interval the largest of `number` errors is at most, with probability 95%.

    By the union bound: sqrt(2 ln(20 n)) standard deviations of a Gaussian distribution, whose interval is 1.96 of them,
    and ln(20 n) scales of a Laplace distribution, whose interval is ln 20.
    """
    twenty = func(
        "LN", exp.Mul(this=exp.Literal.number(20), expression=func("GREATEST", number, exp.Literal.number(1)))
    )
    gauss = exp.Div(
        this=exp.Sqrt(this=exp.Mul(this=exp.Literal.number(2), expression=twenty)),
        expression=exp.Literal.number("1.96"),
    )
    laplace = exp.Div(this=copied(twenty), expression=func("LN", exp.Literal.number("20.0")))
    return func("GREATEST", gauss, laplace)


def _cut_off(quotient: exp.Div) -> exp.Expr:
    """By how much less a quotient may be for the digits that PostgreSQL cuts off, if it is one of integers."""
    return case((_is_integer(quotient), exp.Literal.number(1)), otherwise=exp.Literal.number(0))


def _is_integer(node: exp.Expr) -> exp.Expr:
    """Whether PostgreSQL gives an expression as an integer."""
    kind = cast(exp.Anonymous(this="pg_typeof", expressions=[_copy(node)]), "TEXT")
    return exp.In(this=kind, expressions=[exp.Literal.string(n) for n in ("smallint", "integer", "bigint")])


def _is_ahead(offset: exp.Expr | None) -> bool:
    """Whether LAG or LEAD by this offset reads another row than its own."""
    return offset is None or (isinstance(offset, exp.Literal) and offset.is_int and int(offset.name) > 0)


def _has_own_row(spec: exp.Expr) -> bool:
    """Whether a frame has the row that it is of."""
    sides = [
        str(spec.args.get(f"{end}_side") or spec.args.get(end) or "").upper() for end in ("start", "end")
    ]
    return (
        sides[0] in ("CURRENT ROW", "PRECEDING")
        and sides[1] in ("CURRENT ROW", "FOLLOWING", "")
        and not spec.args.get("exclude")
    )


def _behind(node: exp.Expr) -> list[exp.Expr]:
    return [part for part in node.iter_expressions() if part is not node.this]


def _one(node: exp.Expr, size: Build, kind: Kind) -> _Sources:
    return {sql_text(node): _Source(_unchanged, size, kind)}


def _unchanged() -> exp.Expr:
    """The slope of an expression that is the noisy value itself."""
    return cast(exp.Literal.number(1), "DOUBLE")


def _negative(node: exp.Expr) -> exp.Expr:
    return exp.Neg(this=paren(node))


def _by_row(found: _Sources) -> bool:
    """Whether the noise is that of the row alone."""
    return all(source.kind in ("own", "shared") for source in found.values())


def _parted(found: _Sources) -> tuple[_Sources, _Sources]:
    """The noise of rows, and that which is the same in all of them."""
    parts: tuple[_Sources, _Sources] = {}, {}
    for name, source in found.items():
        parts[source.kind == "everywhere"][name] = source
    return parts


def _total(found: _Sources) -> exp.Expr:
    """The size of all noise together."""
    rows, everywhere = _parted(found)
    if len(everywhere) == 1 and rows:
        apart = {name: one for name, one in rows.items() if one.kind != "common"}
        squares = [_square(_total(part)) for part in (apart, everywhere) if part]
        mixed = [_size(one) for one in rows.values() if one.kind == "common"]
        return _added([exp.Sqrt(this=_added(squares)), *mixed])
    windows = [source for source in found.values() if source.kind == "window"]
    alone = [s for s in found.values() if s.kind == "own" or (s.kind == "window" and len(windows) == 1)]
    sizes = [_size(source) for source in found.values() if source not in alone]
    if len(alone) == 1:
        sizes.append(_size(alone[0]))
    elif alone:
        squares = [_square(_size(source)) for source in alone]
        sizes.append(exp.Sqrt(this=_added(squares)))
    return _added(sizes) if sizes else exp.Literal.number(0)


def _size(source: _Source) -> exp.Expr:
    if source.slope is _unchanged:
        return source.size()
    if source.size is _unchanged:
        return func("ABS", source.slope())
    return exp.Mul(this=func("ABS", source.slope()), expression=source.size())


def _slope(everywhere: _Sources) -> exp.Expr:
    """By how much a value changes with the one noise that is the same in all rows."""
    (source,) = everywhere.values()
    return source.slope()


def _added(parts: list[exp.Expr]) -> exp.Expr:
    total = parts[0]
    for part in parts[1:]:
        total = exp.Add(this=total, expression=part)
    return total


def _square(node: exp.Expr) -> exp.Expr:
    return exp.Mul(this=paren(node), expression=paren(_copy(node)))


def _scaled(found: _Sources | None, by: Callable[[exp.Expr], exp.Expr]) -> _Sources | None:
    if found is None:
        return None
    return {name: replace(one, slope=_chained(one.slope, by)) for name, one in found.items()}


def _chained(slope: Build, by: Callable[[exp.Expr], exp.Expr]) -> Build:
    return lambda: by(slope())


def _together(left: _Sources | None, right: _Sources | None) -> _Sources | None:
    """Both parts' noise; what is in both changes the whole by the sum of both."""
    if left is None or right is None:
        return None
    whole = dict(left)
    for name, one in right.items():
        other = whole.get(name)
        whole[name] = one if other is None else replace(one, slope=_sum(other.slope, one.slope))
    return whole


def _sum(one: Build, other: Build) -> Build:
    return lambda: exp.Add(this=paren(one()), expression=paren(other()))


def _double(node: exp.Expr) -> exp.Expr:
    return cast(_copy(node), "DOUBLE")


def _copy(node: Node) -> Node:
    """A copy that counts against the budget of planning: what is written may be much longer than what is read."""
    return copied(node, _counted)


def _counted(_: exp.Expr) -> None:
    spend()


_SIZE = "size"
"""The mark of a column that a subquery was given."""
_ASKED = re.compile("((?:own_|common_)?[ewlh])_c([0-9]+)")


def calls(tree: exp.Expr) -> list[exp.Anonymous]:
    """The calls of the functions that show the size of noise, without those inside of others."""
    return [call for call in walk(tree, exp.Anonymous, stop=_shows_size) if _shows_size(call)]


def _shows_size(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() in INTERVAL_CALLS


@dataclass(frozen=True)
class _Item:
    """The noise in an item of FROM: of its columns by name, and as in NoisyRows."""

    columns: Mapping[str, Noise]
    apart: bool = True
    whole: bool = True
    common: Mapping[str, str] = field(default_factory=dict)


class StatementErrors:
    """Follows the noise through the queries of one statement; subqueries get columns for what is asked of theirs.

    `released`: what is known of released outputs; `writes`: the tree is changed.
    """

    def __init__(self, tree: exp.Expr, released: Released, *, writes: bool = True) -> None:
        self._tree, self._released, self._writes = tree, released, writes
        self._rows: dict[tuple[int, Size], NoisyRows] = {}
        self._exported: dict[tuple[int, Size], _Item] = {}
        self._places: dict[str, tuple[int, ...]] = {}

    @cached_property
    def _open(self) -> bool:
        """Whether subqueries may get further columns: nothing reads all that they have."""
        tree = self._tree
        counted = [star for star in walk(tree, exp.Star) if not isinstance(star.parent, exp.Count)]
        natural = any(join.args.get("method") for join in walk(tree, exp.Join))
        recursive = any(clause.args.get("recursive") for clause in walk(tree, exp.With))
        items = {item_name(item) for item in walk(tree, exp.Subquery, exp.Table) if item_name(item)}
        rows = any(not c.table and folded(c.this) in items for c in walk(tree, exp.Column))
        return not (counted or natural or recursive or rows)

    def of(self, select: exp.Select, node: exp.Expr, size: Size) -> exp.Expr | None:
        """The size of the noise in an expression of a SELECT of the statement, None where it is not known."""
        return self._expressions(select, size).of(node)

    def has_size(self, select: exp.Select, node: exp.Expr, size: Size) -> bool | None:
        """Whether there is noise in an expression, None where its size is not known; nothing is written."""
        found = self._expressions(select, size).sources(node)
        return None if found is None else bool(found)

    def ends(self, select: exp.Select, node: exp.Expr) -> tuple[exp.Expr, exp.Expr] | None:
        """The ends of the interval of an expression, None where it is not known."""
        width = self.of(select, node, "w")
        if width is None:
            return None
        column, value = node.unnest(), _double(node)
        if isinstance(column, exp.Column):
            table, name = folded(column.args.get("table")), folded(column.this)
            known = [self._released.get(n, {}).get(name) for n in self._places.get(table, ())]
            if any(one is not None and "l" in one.sizes for one in known):
                return sized("l", table, name), sized("h", table, name)
        return exp.Sub(this=value, expression=paren(width)), exp.Add(
            this=_copy(value), expression=paren(_copy(width))
        )

    @property
    def asked(self) -> tuple[Asked, ...]:
        """What the statement reads of the sizes of released outputs."""
        found: dict[Asked, None] = {}
        for column in walk(self._tree, exp.Column):
            read = _ASKED.fullmatch(column.name)
            for node in self._places.get(column.table, ()) if read else ():
                assert read is not None
                found[SIZES[read[1]], node, int(read[2])] = None
        return tuple(found)

    def _expressions(self, select: exp.Select, size: Size) -> Expressions:
        return self._over(self.rows(select, size), size)

    def _over(self, rows: NoisyRows, size: Size) -> Expressions:
        return Expressions(rows, size, lambda inner: self.rows(inner, size), self._has_noise)

    def rows(self, select: exp.Select, size: Size) -> NoisyRows:
        """The noise in the rows of a SELECT's FROM."""
        key = (id(select), size)
        if key not in self._rows:
            self._rows[key] = self._read(select, size)
        return self._rows[key]

    def _read(self, select: exp.Select, size: Size) -> NoisyRows:
        source, joins = select.args.get("from_"), select.args.get("joins") or []
        listed = [] if source is None else [source.this, *(join.this for join in joins)]
        columns: dict[tuple[str, str], Noise] = {}
        common: dict[tuple[str, str], str] = {}
        opaque, apart, whole = set(), not joins, True
        for item in listed:
            found = self._item(item, size)
            if found is None or (isinstance(item, exp.Lateral) and columns):
                opaque.add(item_name(item))
                continue
            first = not columns
            for name, noise in found.columns.items():
                kept = first or noise in (Noise.MIXED, Noise.UNKNOWN)
                columns[item_name(item), name] = noise if kept else Noise.SHARED
            common |= {(item_name(item), name): one for name, one in found.common.items()}
            apart, whole = apart and found.apart, whole and found.whole
        rows = NoisyRows(columns, frozenset(opaque), apart, whole, common)
        inside = self._over(rows, size)
        conditions = [select.args.get("where"), *(join.args.get("on") for join in joins)]
        using = [exp.column(name.copy()) for join in joins for name in join.args.get("using") or ()]
        if not inside.exact(*(c.this if isinstance(c, exp.Where) else c for c in conditions), *using):
            rows = replace(rows, whole=False)
        if rows.noisy and not inside.exact(*_keys(select)):
            rows = replace(rows, columns=dict.fromkeys(columns, Noise.UNKNOWN), whole=False)
        return rows

    def _item(self, item: exp.Expr, size: Size) -> _Item | None:
        """What is known of an item of FROM; None where it has noise of which nothing is known."""
        query: exp.Expr | None = None
        if isinstance(item, exp.Table) and item.meta_get(NODE) is not None:
            return self._node(item, size)
        if isinstance(item, exp.Table):
            cte = _cte(item)
            if cte is None:
                return _Item({})
            query, named = cte.this, cte.args["alias"]
        else:
            query, named = item.this if isinstance(item, exp.Subquery) else None, item.args.get("alias")
        plain = query is not None and not (named is not None and named.args.get("columns"))
        inner = query.unnest() if query is not None else None
        if plain and isinstance(inner, exp.Select) and not item.args.get("joins"):
            return self._export(inner, size)
        return None if self._has_noise(item if query is None else query) else _Item({})

    def _node(self, table: exp.Table, size: Size) -> _Item:
        index, sets = table.meta[NODE], table.meta_get(SETS, ())
        self._places[item_name(table)] = tuple(range(index, index + max(1, len(sets))))
        known = self._released.get(index, {})
        columns = {
            name: Noise.UNKNOWN if size not in one.sizes else Noise.OWN if one.own else Noise.SHARED
            for name, one in known.items()
        }
        apart = len(sets) <= 1 and all(one.apart for one in known.values())
        common = {name: f"{index}.{name}" for name, one in known.items() if one.common and len(sets) <= 1}
        return _Item(columns, apart=apart, common=common)

    def _has_noise(self, part: exp.Expr) -> bool:
        for table in walk(part, exp.Table):
            if self._released.get(table.meta_get(NODE, -1)):
                return True
            cte = None if table.meta_get(NODE) is not None else _cte(table)
            if cte is not None and self._has_noise(cte.this):
                return True
        return False

    def _export(self, select: exp.Select, size: Size) -> _Item | None:
        key = (id(select), size)
        if key not in self._exported:
            if not self._has_noise(select):
                self._exported[key] = _Item({})
            elif not self._open or select.args.get("distinct"):
                return None
            else:
                self._exported[key] = self._columns(select, size)
        return self._exported[key]

    def _columns(self, select: exp.Select, size: Size) -> _Item:
        """Gives a SELECT a column with the size of each output that has one."""
        rows, inside = self.rows(select, size), self._expressions(select, size)
        columns: dict[str, Noise] = {}
        common: dict[str, str] = {}
        apart = rows.apart
        shown: set[str] = set()
        listed = [item for item in select.expressions if item.meta_get(_SIZE) is None]
        for item in listed:
            name, found = output_name(item), inside.sources(item.unalias())
            if found == {} and name not in columns:
                continue
            if not found or name in columns:
                columns[name] = Noise.UNKNOWN
                continue
            own, everywhere = _parted(found)
            written = {size: found}
            if len(everywhere) == 1:
                (common[name],) = everywhere
                written = {SIZES[f"own_{size}"]: own, SIZES[f"common_{size}"]: everywhere}
            by_row = _by_row(own if len(everywhere) == 1 else found)
            apart = apart and by_row
            for of, sources in written.items() if self._writes else ():
                value = _slope(sources) if sources is everywhere else _total(sources)
                added = alias(value, f"{of}_{name}", quoted=True)
                added.meta[_SIZE] = True
                select.append("expressions", added)
            plain = isinstance(item.unalias().unnest(), exp.Column) and not shown & own.keys()
            alone = plain and all(source.kind == "own" for source in own.values())
            columns[name] = Noise.OWN if alone else Noise.SHARED if by_row else Noise.MIXED
            shown |= own.keys()
        having = select.args.get("having")
        cut = any(select.args.get(part) for part in ("limit", "offset")) or (
            having is not None and not inside.exact(having.this)
        )
        return _Item(columns, apart, rows.whole and not cut, common)


def _keys(select: exp.Select) -> Iterator[exp.Expr]:
    """What a SELECT groups by, positions and output names as what they stand for."""
    group = select.args.get("group")
    for key in group.expressions if group is not None else ():
        yield key
        for number, item in enumerate(select.expressions, 1):
            named = isinstance(key, exp.Column) and not key.table and folded(key.this) == output_name(item)
            if named or (isinstance(key, exp.Literal) and key.name == str(number)):
                yield item.unalias()


def _cte(table: exp.Table) -> exp.CTE | None:
    """The WITH query that a table's name means, None for a table."""
    if table.args.get("db"):
        return None
    within, node = None, table.parent
    while node is not None:
        if isinstance(node, exp.CTE):
            within = node
        clause = node.args.get("with_")
        listed: list[exp.CTE] = [] if clause is None else clause.expressions
        for cte in listed:
            if cte is within:
                break
            if folded(cte.args["alias"].this) == folded(table.this):
                return cte
        node = node.parent
    return None
