"""Constants: an expression among private rows that reads none of them is evaluated once, by the front.

In:  SELECT COUNT(*) FROM users WHERE birth_year > (SELECT AVG(birth_year) FROM users) AND signup_date < now()
Out: the constants (SELECT AVG(birth_year) FROM users), over released rows, and now(), and a node with
     WHERE birth_year > $1 AND signup_date < $2

Why: docs/decisions/constants-do-not-change.md.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from rewriter.binder.group_by import aggregates
from rewriter.binder.listed_rows import rounded
from rewriter.binder.rejections import uncorrelated
from rewriter.effort import EXPANDED, spend
from rewriter.ir.relation import Relation
from rewriter.ir.texts import sql_text
from rewriter.ir.trees import copied, folded, kinds, walk
from rewriter.ir.types import CASTS, Type, type_named
from rewriter.policy import labels
from rewriter.refusal import Refusal
from rewriter.scalar.array_literal import elements
from rewriter.scalar.blanks import without_blanks
from rewriter.scalar.functions import CHANGING, FOLDED, PLAIN, check_row_local
from rewriter.scalar.interval import interval_text
from rewriter.scalar.typecheck import Parameter, Parameters, check, spelt
from rewriter.syntax.allowlist import CONSTANT, is_constant, own_parts, position
from rewriter.syntax.desugar import plain

MAX_ELEMENTS = 1000
"""The most elements of an array or rows of a list that stands for constants."""
TIMES = (exp.DType.DATE, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIME)
_LISTS = (exp.Array, exp.Tuple, exp.Any, exp.All, exp.Connector)
"""Expressions that consist of constants without being one."""
READ = (
    *(exp.DType.ARRAY, exp.DType.VARBINARY, exp.DType.JSONB),
    *(exp.DType.TIME, exp.DType.TIMESTAMPTZ, exp.DType.USERDEFINED),
)
"""Types whose constants the front reads, and prints as both engines read them."""
LISTED = (exp.Array, exp.Identifier, exp.Dot)
UNKNOWN_NAME = ("42P01", "42703")
"""PostgreSQL's errors for a correlated subquery that is evaluated alone."""

ConstantReader = Callable[[int, str], Sequence[Parameter]]
"""Gives constant number i, counted from 0, from the statement that the client's words for it make: its type, and
its values (one, for a list any number) where they are known already."""


@dataclass(frozen=True)
class Constant:
    """A constant of a statement: `node` in its tree, which reads the first `nodes` nodes' released rows at most.

    `column`: the one column that is meant where `node` stands in FROM; `listed`: all rows of `node` are meant, which
    has one column; `whole`: all rows and columns of `node`, which stands in FROM.
    """

    node: exp.Expr
    nodes: int
    ctes: tuple[exp.CTE, ...]
    column: str | None = None
    listed: bool = False
    whole: bool = False

    @property
    def calls(self) -> bool:
        """Whether the expression calls a function that only PostgreSQL can evaluate."""
        if self.whole:
            return True
        if self.column is not None or self.listed or walk(self.node, exp.Query):
            return False
        return not (FOLDED | PLAIN).issuperset(map(type, walk(self.node)))

    def statement(
        self, above: Callable[[exp.Expr], exp.Expr] = copied, dropped: Container[int] = ()
    ) -> exp.Select:
        """SELECT of the constant alone, with the CTEs that it can see and whose ids are not `dropped`.

        `above` gives what stands for a part of the client's tree, without it a copy of that part.
        """
        body = above(self.node)
        if self.whole:
            select = exp.select(exp.Star()).from_(body)
        elif self.column is not None or self.listed:
            item = body if isinstance(body, exp.Table) else _subquery(body)
            name = exp.column(exp.to_identifier(self.column, quoted=True)) if self.column else exp.Star()
            select = exp.select(name).from_(item)
        else:
            select = exp.select(body)
        ctes = [above(cte) for cte in self.ctes if id(cte) not in dropped]
        if ctes:
            select.set("with_", exp.With(expressions=ctes, recursive=_recursive(self.ctes)))
        return select


def unknown(_: int, sql: str) -> Sequence[Parameter]:
    """Refuse (PV020) every constant: for callers without a front."""
    raise Refusal(
        "PV020",
        "an expression that PostgreSQL has to evaluate is not allowed on private rows",
        hint="Write its value as a constant.",
    )


def no_rows(_: int, sql: str) -> Sequence[Parameter]:
    """Refuse (0A000) all rows that PostgreSQL has to evaluate: for callers without a front."""
    raise Refusal("0A000", "rows that PostgreSQL has to evaluate cannot be joined with private tables here")


@dataclass
class Constants:
    """The constants of one statement in the order in which they were found.

    `read` gives the type and value of each, `read_rows` of rows the name, type and array of each column. `parameters`
    are the client's parameters and, behind them, the constants': base forms name them $1, $2, ...
    """

    parameters: tuple[Parameter, ...]
    read: ConstantReader
    read_rows: ConstantReader
    found: list[Constant] = field(default_factory=list)
    _known: dict[str, exp.Expr] = field(default_factory=dict)

    def mark(self, node: exp.Expr, nested: Callable[[exp.Expr], None], nodes: Callable[[], int]) -> None:
        """Mark the largest parts of `node` that read no column; `nested` analyses a query, `nodes` counts nodes."""
        if is_constant(node):
            return
        if isinstance(node, exp.Parameter):
            form = self._form(int(node.name))
            if not isinstance(form, exp.Parameter):
                node.meta[CONSTANT] = form
        elif isinstance(node, exp.Subquery):
            nested(node)
            self._scalar(node, nodes())
        elif isinstance(node, (exp.Query, exp.Exists)) or (
            isinstance(node, (exp.In, exp.Any, exp.All)) and walk(node, exp.Query)
        ):
            return
        elif (array := _operand(node)) is not None:
            self._spread(node, array, nodes())
        elif _foldable(node, self.parameters) or _whole_array(node):
            text = sql_text(node)
            if text not in self._known:
                self._scalar(node, nodes())
                self._known[text] = node.meta[CONSTANT]
            node.meta[CONSTANT] = self._known[text]
        else:
            for part in _parts(node):
                self.mark(part, nested, nodes)

    def truth(self, node: exp.Expr, nodes: int) -> None:
        """Mark a condition that reads no private row, such as EXISTS over public ones."""
        self._scalar(node, nodes)

    def column(self, item: exp.Expr, name: str, nodes: int) -> exp.Expr:
        """The base form of a column of an item of FROM that has exactly one row."""
        return self._add(Constant(item, nodes, visible(item), column=name), item)[0]

    def listed(self, query: exp.Expr, nodes: int) -> list[exp.Expr]:
        """The base forms of the rows of a query with one column; one where they are not known yet."""
        return self._add(Constant(query, nodes, visible(query), listed=True), query)

    def rows(self, item: exp.Expr, nodes: int) -> list[tuple[Parameter, exp.Parameter]]:
        """The columns of an item of FROM that reads no private rows: each with the base form of its array.

        Exact numbers are rounded to the decimals that every engine holds.
        """
        forms = self._add(Constant(item, nodes, visible(item), whole=True), item)
        return [(self.parameters[int(f.name) - 1], f) for f in forms if isinstance(f, exp.Parameter)]

    def _spread(self, node: exp.Expr, array: exp.Expr, nodes: int) -> None:
        """Mark ANY, SOME or ALL of an array without columns as that of its elements; one of no value is NULL."""
        found: Sequence[exp.Expr]
        if isinstance(array, exp.Literal):
            texts = _elements(array.this, array)
            found = [exp.null() if t is None else exp.Literal.string(t) for t in texts]
        else:
            known = (
                array if isinstance(array, exp.Parameter) else self._add(_constant(array, nodes), array)[0]
            )
            parameter = self.parameters[int(known.name) - 1]
            texts = [None] if parameter.value is None else _elements(parameter.value, array)
            element = parameter.type.removesuffix("[]")
            found = self._appended([without_blanks(Parameter(element, text)) for text in texts])
        if len(found) > MAX_ELEMENTS:
            raise Refusal(
                "54000",
                f"an array of more than {MAX_ELEMENTS} elements",
                hint="Split the query, or join with a public table that lists the values.",
                position=position(array),
            )
        spread, listed = node.copy(), exp.Array(expressions=list(found))
        spread.set(*(("expressions", [listed]) if isinstance(node, exp.Anonymous) else ("this", listed)))
        node.meta[CONSTANT] = spread

    def _scalar(self, node: exp.Expr, nodes: int) -> None:
        node.meta[CONSTANT] = self._add(_constant(node, nodes), node)[0]

    def _add(self, constant: Constant, at: exp.Expr) -> list[exp.Expr]:
        spend(EXPANDED)
        read = self.read_rows if constant.whole else self.read
        try:
            values = read(len(self.found), sql_text(constant.statement(), "postgres"))
        except Refusal as refusal:
            if refusal.code in UNKNOWN_NAME:
                raise uncorrelated(at) from None
            refusal.position = position(at)
            raise
        values = [rounded(value) if constant.whole else in_utc(without_blanks(value)) for value in values]
        self.found.append(constant)
        return self._appended(values)

    def _appended(self, values: Sequence[Parameter]) -> list[exp.Expr]:
        """The base forms of values behind all parameters."""
        start = len(self.parameters) + 1
        self.parameters = (*self.parameters, *values)
        return [self._form(start + n) for n in range(len(values))]

    def _form(self, number: int) -> exp.Expr:
        """The base form of parameter `number`: of an enumerated type its label, once that is known."""
        parameter = self.parameters[number - 1]
        if labels(parameter.type) is None or (parameter.value is None and not parameter.null):
            return exp.Parameter(this=exp.Literal.number(number))
        return exp.null() if parameter.value is None else exp.Literal.string(parameter.value)


def in_utc(value: Parameter) -> Parameter:
    """A timestamp with time zone, which the front prints in UTC, as a timestamp without one.

    PostgreSQL compares the two alike where the session's time zone is UTC, and every engine's is.

    >>> in_utc(Parameter("timestamp with time zone", "2024-01-01 00:00:00+00")).value
    '2024-01-01 00:00:00'
    """
    if type_named(value.type) is not Type.TIMESTAMPTZ:
        return value
    text = value.value
    if text is not None and not text.endswith("infinity"):
        moment, found, era = text.partition("+00")
        if not found:
            raise Refusal("0A000", "the front's time zone is not UTC")
        text = moment + era
    return Parameter("timestamp without time zone", text)


def unread(node: exp.Expr) -> exp.Expr | None:
    """A query in `node` that is no constant, or None."""
    return next((n for n in own_parts(node) if isinstance(n, exp.Query)), None)


def one_row(query: exp.Expr) -> exp.Select | None:
    """The SELECT of a query that gives exactly one row whatever the data: aggregates without GROUP BY."""
    select = query.unnest() if isinstance(query, exp.Subquery) else query
    if not isinstance(select, exp.Select) or any(
        select.args.get(p) for p in ("group", "having", "limit", "offset", "distinct")
    ):
        return None
    return select if any(aggregates(e) for e in select.expressions) else None


def _parts(node: exp.Expr) -> Iterator[exp.Expr]:
    """What may be a constant inside of `node`: of a window the arguments of its function, not the function."""
    for part in node.iter_expressions():
        if isinstance(node, (exp.Window, exp.Filter)) and part is node.this:
            yield from _parts(part)
        else:
            yield part


def _constant(node: exp.Expr, nodes: int) -> Constant:
    return Constant(node, nodes, visible(node))


def _operand(node: exp.Expr) -> exp.Expr | None:
    """The array of ANY, SOME or ALL where it reads no column and is not written as a list; None for all else."""
    if isinstance(node, (exp.Any, exp.All)):
        array = node.this.unnest()
    elif _some_or_all(node) and len(node.expressions) == 1:
        array = node.expressions[0].unnest()
    else:
        return None
    given = isinstance(array, exp.Parameter) or (isinstance(array, exp.Literal) and array.is_string)
    computed = type(array) in _FOLDABLE and not walk(array, *_READING)
    return array if given or _written(array) or computed else None


def _some_or_all(node: exp.Expr) -> bool:
    """Whether `node` is the side of a comparison that the parser reads as a call: a value by itself it is not."""
    return isinstance(node, exp.Anonymous) and node.name.lower() in ("some", "all")


def _whole_array(node: exp.Expr) -> bool:
    """Whether `node` is an array of constants that is compared as a whole, not with its elements."""
    if not isinstance(node, exp.Array):
        return False
    around = node.parent
    while isinstance(around, exp.Paren):
        around = around.parent
    compared = not isinstance(around, (exp.Any, exp.All, exp.Anonymous, exp.Array))
    return compared and (PLAIN | {exp.Array}).issuperset(map(type, walk(node)))


def _elements(text: str, at: exp.Expr) -> list[str | None]:
    found = elements(text)
    if found is None:
        raise Refusal(
            "PV020", "an array in this spelling is not allowed on private rows", position=position(at)
        )
    return found


def _written(node: exp.Expr) -> bool:
    """Whether `node` is a cast of constants to a type of a size, which may cut or round them, or to one whose texts the
    front has to read."""
    if not isinstance(node, exp.Cast):
        return False
    if sized(node):
        return not walk(node, *_READING)
    if not _CAST.issuperset(map(type, walk(node))):
        return False
    if node.to.this == exp.DType.INTERVAL:
        return isinstance(node.this, exp.Literal) and interval_text(node, ()) is None
    return node.to.this in READ


def sized(cast: exp.Cast) -> bool:
    """Whether a cast is to a type with a length, a precision or a scale, such as varchar(3)."""
    return any(isinstance(size, exp.DataTypeParam) for size in cast.to.expressions)


_CAST = FOLDED | PLAIN | kinds(*LISTED)
_FOLDABLE = (FOLDED | kinds(exp.Func)) - kinds(*_LISTS, exp.If, exp.DataType)
"""Without what is only a part of an expression, such as a branch of CASE or the type of a cast."""
_READING = (exp.Column, exp.Query, exp.Star, exp.AggFunc, exp.Window)
"""What reads rows."""
_MATCHES = (exp.Like, exp.ILike, exp.RegexpLike, exp.RegexpILike)


def _foldable(node: exp.Expr, parameters: Parameters) -> bool:
    """Whether `node` reads no column and only PostgreSQL can compute it; the front finds volatile functions."""
    if _written(node):
        return True
    if type(node) not in _FOLDABLE or _some_or_all(node):
        return False
    if walk(node, *_READING, *_LISTS):
        return False
    return _is_pattern(node) or any(map(_timed, walk(node))) or not _written_out(node, parameters)


def _is_pattern(node: exp.Expr) -> bool:
    """Whether a row's text is matched with `node`, which has to be one text: `x LIKE '%' || $1 || '%'`."""
    whole = isinstance(node.unnest(), (exp.Literal, exp.Parameter))
    return isinstance(node.parent, _MATCHES) and node.arg_key == "expression" and not whole


def _written_out(node: exp.Expr, parameters: Parameters) -> bool:
    """Whether every backend computes a constant expression as PostgreSQL does, whatever the parameters' values."""
    unbound = [replace(p, value=None) for p in parameters]
    try:
        check_row_local(node)
        check(plain(node.copy()), Relation(()), unbound)
    except Refusal:
        return False
    return True


def _timed(node: exp.Expr) -> bool:
    """Whether `node` computes with time: an interval, the present, or days added to a date."""
    if isinstance(node, (exp.Interval, *CHANGING)) or _unusual(node):
        return True
    sides = [node.this, node.expression] if isinstance(node, (exp.Add, exp.Sub)) else []
    return any(isinstance(s, exp.Cast) and s.to.this in TIMES for s in sides)


def _unusual(node: exp.Expr) -> bool:
    """Whether `node` is a text as a value in a spelling that is PostgreSQL's alone, such as DATE 'today'."""
    if not isinstance(node, exp.Cast) or not isinstance(node.this, exp.Literal) or not node.this.is_string:
        return False
    return not spelt(node.this.this, CASTS.get(node.to.this, Type.TIMESTAMPTZ))


def _subquery(query: exp.Expr) -> exp.Subquery:
    inner = query if isinstance(query, exp.Subquery) else exp.Subquery(this=query)
    inner.set("alias", exp.TableAlias(this=exp.to_identifier("x")))
    return inner


def _recursive(ctes: Sequence[exp.CTE]) -> bool:
    """Whether CTEs of one or several clauses are written as one WITH RECURSIVE. Raises Refusal where one that was not
    would read itself there, and not a table of its name."""
    clauses = {bool(cte.parent and cte.parent.args.get("recursive")) for cte in ctes}
    if clauses == {True, False}:
        for cte in ctes:
            if folded(cte.args["alias"].this) in map(folded, (t.this for t in walk(cte, exp.Table))):
                raise Refusal(
                    "0A000",
                    "WITH RECURSIVE beside a CTE that reads a table of its own name is not supported",
                    hint="Give the CTE another name.",
                    position=position(cte),
                )
    return True in clauses


def visible(node: exp.Expr) -> tuple[exp.CTE, ...]:
    """The CTEs that `node` can see, the outermost first."""
    found: list[list[exp.CTE]] = []
    for inner, outer in _ancestors(node):
        clause = outer.args.get("with_")
        if isinstance(outer, exp.With):
            found.append(outer.expressions[: outer.expressions.index(inner)])
        elif clause is not None and clause is not inner:
            found.append(clause.expressions)
    return tuple(cte for listed in reversed(found) for cte in listed)


def _ancestors(node: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    while node.parent is not None:
        yield node, node.parent
        node = node.parent
