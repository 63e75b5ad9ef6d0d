"""What all engines write alike, and where they differ.

The same node over the same data has the same histogram on every engine, ties included: a keyed order hashes the texts
of values as PostgreSQL prints them. An expression over private rows has PostgreSQL's meaning, and no error that a row
could decide: a backend error would reveal something about the row that raised it, so every part that could raise is
NULL instead. Strict arithmetic is written as a value with guards, the conditions under which it may be computed,
in their order; what stands around it sees the closed form CASE WHEN guard THEN value END.

What the owner wrote in SQL is evaluated first: docs/decisions/owners-sql-is-secret.md.
"""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from decimal import Decimal
from typing import Self

from sqlglot import exp

from rewriter.effort import spend
from rewriter.emit.engines.parts import (
    Guarded,
    calendar,
    dates,
    divided,
    number,
    operation,
    when,
)
from rewriter.emit.engines.row_expression import called_functions
from rewriter.ir.relation import Relation, leaf
from rewriter.ir.texts import fragment, sql_text, with_queries
from rewriter.ir.trees import (
    alias,
    and_,
    case,
    cast,
    coalesce,
    copied,
    data_type,
    kinds,
    not_,
    or_,
    paren,
    rebuilt,
    select,
    table_named,
    walk,
)
from rewriter.ir.types import (
    DATED,
    FLOATS,
    INTEGERS,
    NUMBERS,
    SPAN,
    STAMPS,
    TEXTUAL,
    UNTOLD,
    Type,
    common,
    longest,
    type_named,
)
from rewriter.policy import Column, Table
from rewriter.scalar import float_guards, regexp, time_format, time_zones
from rewriter.scalar.comparable import CONVERTED, alike_operands
from rewriter.scalar.function_checks import bins, constant_text, plain_pattern, whole_constant
from rewriter.scalar.functions import BY_TYPE, COMPARISONS, LOGICAL
from rewriter.scalar.interval import interval_text
from rewriter.scalar.parameter_literal import plain_constant
from rewriter.scalar.typecheck import Parameter, Parameters, Types, not_compared, operands

ADDENDS = "DECIMAL(28, 0)"
"""Sums of these have 38 digits: 10^10 of the largest BIGINT."""
ARITHMETIC = kinds(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg, exp.Abs)
LONGEST_COMPUTED = 100_000
"""Characters of a text that is joined or replaced in, without constants: a row of as many as there can be in one stays
within the gigabyte that PostgreSQL allocates at most."""
LONGEST = 4 * LONGEST_COMPUTED
"""Bytes of a stored text, of a json, and of the text of bytes or an array: longer ones are NULL from the scan on."""
HELD_DIGITS = 38
"""Of an exact number of the type of cells, in all."""
MOST_ELEMENTS = 1000
"""Of a stored array."""
NOWHERE = Relation(())
_TRIMS = {"LEADING": "LTRIM", "TRAILING": "RTRIM"}


class Engine(ABC):
    """The SQL of an engine, over the rows of `relation` where it writes base-form expressions.

    Its abstract methods are what no two engines write alike. Functions are written by the methods that the `form` of
    their rows in the registry names.

    Attributes:
        name: the engine's name in sqlglot.
        partial: `expression` raises Refusal for some of the grammar.
        numbered: it has parameters $1, $2...
        has_try: TRY(x) is NULL where x raises.
        open: its SQL has what owners wrote; without it, as analysts may see it, it is no SQL to run.
        fenced: conditions around a subquery are evaluated after its own only if it has an OFFSET.
        sums_wrap: a sum of BIGINTs is a BIGINT, without an error where that is too small.
        knows_nan: an exact number can be NaN.
        narrowed: the types of numbers of which a double does not hold all: a cast of others raises.
        adds_stored: stored exact numbers of few digits are added up as they are.
        joins_units: it orders joins better without IN (SELECT ...) among them, so that rows are joined to the key that
            names their unit.
        relates_units: it orders joins of three private tables or more better where each is said to have the same unit.
        joins_in: it finds the rows of IN (SELECT ...) by a join also where that query reads the rows around it.
        kept_table: the name of a table in memory that only the queries of one release see; empty where none can be.
        numeric: the type of exact numbers.
        squares: a type that holds the sums of the squares of whole numbers up to 2^50 in size.
        texts: the type of texts.
        both: the function that trims both ends.
        pretty: its SQL has lines.
        operand_types: in which numbers of a type are computed; DOUBLE for those that are not listed.
        result_types: to which results of a type are cast; those that are not listed stay as they were computed.
    """

    name: str
    partial = False
    numbered = True
    has_try = False
    open = True
    fenced = False
    sums_wrap = False
    knows_nan = True
    narrowed: frozenset[Type] = frozenset()
    adds_stored = True
    joins_units = False
    relates_units = False
    joins_in = True
    kept_table = ""
    numeric = "DECIMAL"
    squares = "DECIMAL(38, 0)"
    texts = "VARCHAR"
    both = "TRIM"
    pretty = True
    operand_types: Mapping[Type, str] = {
        Type.INT2: "SMALLINT",
        Type.INT4: "INT",
        Type.INT8: "BIGINT",
        Type.NUMERIC: Type.NUMERIC.cell,
    }
    result_types: Mapping[Type, str] = {Type.FLOAT4: "REAL"}

    def __init__(self, relation: Relation = NOWHERE, parameters: Parameters = ()) -> None:
        self.relation, self.parameters = relation, parameters
        self.types = Types(relation, parameters)

    def sql(self, query: exp.Expr | str, ctes: Sequence[tuple[str, str]] = ()) -> str:
        """The text of a query, whose tree is used up, or of a fragment, behind the fragments `ctes`."""
        if isinstance(query, exp.Expr):
            query = sql_text(self.settled(query), self.name, pretty=self.pretty)
        return with_queries(ctes, query, self.name, pretty=self.pretty)

    def fragment(self, query: exp.Expr | str) -> str:
        """The text of a query, whose tree is used up, as a part of another one's text."""
        if isinstance(query, str):
            return query
        return fragment(self.settled(query), self.name, pretty=self.pretty)

    def settled(self, query: exp.Expr) -> exp.Expr:
        """A query as the engine wants it on the whole."""
        return query

    def table(self, table: Table) -> Sequence[str]:
        """The parts of a table's name."""
        return table.backend_name

    def rows(self, table: Table, columns: Iterable[str], name: str) -> exp.Expr:
        """The rows of a table that exist for analysts, with these columns, as the item `name` of FROM.

        What the owner wrote is evaluated here, before anything else. A row for which it raises has NULL instead where
        the engine has TRY; where it has not, every query of the table raises, whichever rows it is about.
        """
        read = set(columns)
        computed = {
            c.name: c.expression for c in table.columns if c.expression is not None and c.name in read
        }
        if not self.open or (table.where is None and not computed):
            return table_named(self.table(table), name)
        stored = [exp.column(c, quoted=True) for c in sorted(read - computed.keys())]
        values = [alias(self.owners(text), c, quoted=True) for c, text in sorted(computed.items())]
        shown = [*stored, *values] or [exp.Literal.number(1)]
        # Without an alias: the text may name its table.
        query = select(*shown, source=table_named(self.table(table)))
        if table.where is not None:
            query.where(self.owners(table.where), copy=False)
        if self.fenced:
            query.offset(0, copy=False)
        return query.subquery(name, copy=False)

    def trial(self, table: Table, columns: Iterable[str]) -> str | None:
        """A query that fails if what the owner wrote fails for a row of the table, whatever else is asked of it; None
        where nothing of it is evaluated, or nothing of it fails.

        A query of `rows` need not reach them: nothing is joined with no row.
        """
        if self.has_try or not self.fenced or not self.open:
            return None
        read = set(columns)
        computed = [c.name for c in table.columns if c.expression is not None and c.name in read]
        if table.where is None and not computed:
            return None
        values: list[exp.Expr] = [exp.column(name, "s", quoted=True) for name in computed]
        counts = (exp.Count(this=value) for value in values or [exp.Star()])
        return self.sql(select(*counts, source=self.rows(table, computed, "s")))

    def closed(self) -> Self:
        """The same engine for SQL that analysts see."""
        made = copy(self)
        made.open = False
        return made

    def owners(self, text: str) -> exp.Expr:
        """An expression of the owner's over a row of a table."""
        written = exp.var(text)
        return exp.Anonymous(this="TRY", expressions=[written]) if self.has_try else paren(written)

    def called_functions(self, text: str) -> frozenset[str]:
        """The functions that an owner's expression may call, in lower case; ValueError where it is none of one row."""
        return called_functions(text, self.name)

    def scanned(self, alias: str, column: Column) -> exp.Expr:
        """A stored column as a value of its type in the front, NULL where it is longer than `LONGEST`; texts compare
        and order by their bytes."""
        value, most = leaf(alias, column.name), longest(column.type)
        unbounded = not column.sized and (most is None or most > LONGEST_COMPUTED)
        guards = self.short(value, type_named(column.type)) if unbounded else ()
        return Guarded(self.read(copied(value), column), tuple(guards)).closed()

    @abstractmethod
    def read(self, value: exp.Expr, column: Column) -> exp.Expr:
        """What is stored in a column as a value of its type in the front."""

    @abstractmethod
    def short(self, value: exp.Expr, of: Type) -> Sequence[exp.Expr]:
        """Guards that hold where a stored value of a type of any length is no longer than `LONGEST`, found without
        writing it; none for the types whose values are all short."""

    def printed(self, value: exp.Expr, of: Type) -> exp.Expr:
        """A value as a text, as the engine prints it: nothing else casts a value to one. PV020 where nothing bounds the
        text: long stored values are NULL, computed ones have bounds of their own."""
        if of in UNTOLD:
            raise not_compared(value, of)
        return cast(value, self.texts)

    def row(self, parts: Sequence[tuple[exp.Expr, Type]]) -> exp.Expr:
        """A row of values, none of them NULL, that is equal to another where each value is; in types of one width each,
        since PostgreSQL compares no rows of others."""
        widened = [cast(value, "BIGINT") if of in INTEGERS else value for value, of in parts]
        return exp.Anonymous(this="ROW", expressions=widened)

    def expression(self, node: exp.Expr, relation: Relation, parameters: Parameters) -> exp.Expr:
        """A base-form expression: PostgreSQL's meaning, NULL where PostgreSQL would raise; it never raises."""
        return type(self)(relation, parameters).write(node)

    def cell(self, value: exp.Expr, of: Type) -> exp.Expr:
        """A key's value in the type of its cells, NULL where that cannot hold it."""
        return cast(value, of.cell)

    def label(self, value: exp.Expr, of: Type) -> exp.Expr:
        """A key whose text is a label, NULL where no cell could be read from that."""
        if of is not Type.NUMERIC:
            return value
        return case((not_(exp.Is(this=self.cell(copied(value), of), expression=exp.null())), value))

    def converted(self, value: exp.Expr, own: Type, target: Type) -> exp.Expr:
        """A number of the type `own` on one side of a set operation in the type of both, an exact or a float one; or
        an array of exact numbers. NULL where that type cannot hold it."""
        to = Type.NUMERIC.cell if target.family.startswith(Type.NUMERIC.family) else target.postgres
        return exp.TryCast(this=value, to=data_type(f"{to}[]" if target.element else to, "postgres"))

    def key(self, value: exp.Expr, of: Type) -> exp.Expr:
        """A key as a value of which all of a group have the same text: floats have one zero."""
        return exp.Add(this=value, expression=exp.Literal.number("0.0")) if of in FLOATS else value

    def told(self, value: exp.Expr, of: Type) -> tuple[exp.Expr, Type]:
        """A stored value as one whose text can be joined to others, and that one's type."""
        return value, of

    def least(self, value: exp.Expr, of: Type) -> exp.Expr:
        """The aggregate that gives the least of some keys, NULL aside; of equal keys that key."""
        return exp.Min(this=value)

    def same(self, left: exp.Expr, right: exp.Expr, of: Type) -> exp.Expr:
        """Whether two keys are the same value or both NULL, in a form that can be hashed to join."""
        return exp.NullSafeEQ(this=left, expression=right)

    def text(self, value: exp.Expr, of: Type) -> exp.Expr:
        """A value as PostgreSQL prints it: no zeros behind a number, the bits of a float."""
        if of in FLOATS:
            return self.bits(value)
        if of is Type.NUMERIC:
            return self.digits(value)
        return self.printed(cast(value, "TIMESTAMP") if of is Type.TIMESTAMPTZ else value, of)

    @abstractmethod
    def bits(self, value: exp.Expr) -> exp.Expr:
        """The 64 bits of a float as a text, one for all that are not a number and for both zeros."""

    @abstractmethod
    def digits(self, value: exp.Expr) -> exp.Expr:
        """An exact number's text, without the zeros that end its fraction."""

    def ordered(self, value: exp.Expr, of: Type) -> exp.Expr:
        """The expression that a value is ordered by, with the same order on every engine."""
        return value

    def secret(self, place: int) -> exp.Expr:
        """The secret of the keyed order, which is bound behind the arrays, at `place`."""
        return cast(exp.Parameter(this=exp.Literal.number(place)), "VARCHAR")

    def cells(self, columns: Sequence[tuple[str, str]]) -> exp.Select:
        """The bound cells: `cell`, from 1, and these columns by name and type, one array of texts each."""
        first = cast(exp.Parameter(this=exp.Literal.number(1)), "VARCHAR[]")
        numbered = exp.Anonymous(this="GENERATE_SUBSCRIPTS", expressions=[first, exp.Literal.number(1)])
        shown: list[exp.Expr] = [alias(numbered, "cell")]
        for place, (name, target) in enumerate(columns, 1):
            texts = cast(exp.Parameter(this=exp.Literal.number(place)), "VARCHAR[]")
            typed = exp.Cast(this=self.labels(texts, target), to=data_type(f"{target}[]", "duckdb"))
            shown.append(alias(exp.Anonymous(this="UNNEST", expressions=[typed]), name))
        return select(*shown)

    def labels(self, texts: exp.Expr, target: str) -> exp.Expr:
        """An array of the texts of keys, in PostgreSQL's spelling, in the spelling that the engine reads."""
        return texts

    @abstractmethod
    def listed(self, columns: Sequence[Column], texts: Sequence[Sequence[str | None]]) -> exp.Select:
        """SELECT of public rows that are constants of the query: `texts` are the values of each column."""

    def days(self, value: exp.Expr) -> exp.Expr:
        """A date of the years 1 to 9999 as a whole number of days since 1970."""
        return paren(exp.Sub(this=value, expression=cast(exp.Literal.string("1970-01-01"), "DATE")))

    def seconds(self, value: exp.Expr) -> exp.Expr:
        """A timestamp of the years 1 to 9999 as a double, in seconds since 1970."""
        return cast(exp.Extract(this=exp.var("EPOCH"), expression=value), "DOUBLE")

    def addend(self, value: exp.Expr) -> exp.Expr:
        """A whole number such that the sum of many is right, however large it becomes."""
        return cast(value, ADDENDS) if self.sums_wrap else value

    def whole(self, value: exp.Expr, unit: int) -> exp.Expr:
        """A stored decimal or a sum of them times `unit`, which makes a whole number of it: exact up to 2^50."""
        return exp.Mul(this=value, expression=exp.Literal.number(unit)) if unit > 1 else value

    def exact(self, value: exp.Expr) -> exp.Expr:
        """A whole number up to 2^50 in size in a type that holds the sums of its squares."""
        return cast(value, self.squares)

    def type_of(self, node: exp.Expr) -> Type:
        """The type of a base-form expression."""
        return self.types.of(node)

    def write(self, node: exp.Expr) -> exp.Expr:
        """A base-form expression in the engine's terms; it never raises."""
        spend()
        written = self.formed(node)
        if not self.has_try or isinstance(written, exp.Column) or not self.may_raise(node):
            return written
        return self.tried(written, node)

    def may_raise(self, node: exp.Expr) -> bool:
        """Whether the form of `node` itself converts or computes something, by its row in the registry."""
        function = BY_TYPE.get(type(node))
        if type(node) in COMPARISONS:
            return node.args.get("query") is None and not alike_operands(node, self.types)
        if function is None or not function.computes:
            return False
        of = self.type_of(node)
        if function.form == "cast":
            # Numbers of one family may have more digits than the type that they are cast to.
            same = self.type_of(node.this).family == of.family and of is not Type.NUMERIC
            return not isinstance(node.this, exp.Literal) and not same
        if function.form in ("branches", "nullif"):
            return of in FLOATS | CONVERTED
        return function.form != "date_form" or of not in INTEGERS

    def tried(self, written: exp.Expr, node: exp.Expr) -> exp.Expr:
        """NULL where what is written raises. TRY cannot stand around an aggregate, nor does it twice."""
        twice = isinstance(written, exp.Anonymous) and written.name == "TRY"
        if not self.has_try or twice or walk(node, exp.AggFunc):
            return written
        return exp.Anonymous(this="TRY", expressions=[written])

    def formed(self, node: exp.Expr) -> exp.Expr:
        """A node in its form, without the TRY that it may need."""
        if isinstance(node, exp.Paren):
            return paren(self.write(node.this))
        if isinstance(node, exp.Parameter):
            return self.parameter(self.parameters[int(node.name) - 1])
        if isinstance(node, exp.Literal):
            return self.literal(node)
        if isinstance(node, exp.Query):
            return copied(node)
        if self.is_arithmetic(node):
            return self.close(self.opened(node), node)
        function = BY_TYPE.get(type(node))
        return self.parts(node) if function is None else getattr(self, function.form or "parts")(node)

    def arithmetic(self, node: exp.Expr) -> exp.Expr:
        """What is no arithmetic, such as a negative constant."""
        return self.parts(node)

    def parameter(self, parameter: Parameter) -> exp.Expr:
        """A parameter's value."""
        return self.literal(plain_constant(parameter))

    def parts(self, node: exp.Expr) -> exp.Expr:
        """`node` with its parts written."""
        return rebuilt(node, self.write)

    def literal(self, node: exp.Expr) -> exp.Expr:
        """A constant, as digits alone: with an exponent it would be a double."""
        if isinstance(node, exp.Literal) and not node.is_string and "e" in node.this.lower():
            return exp.Literal.number(format(Decimal(node.this), "f"))
        return copied(node)

    def is_arithmetic(self, node: exp.Expr) -> bool:
        """Whether a node computes a number from numbers; a negative constant is one already."""
        if type(node) not in ARITHMETIC or self.type_of(node) not in NUMBERS:
            return False
        negative = isinstance(node, exp.Neg) and isinstance(node.this.unnest(), exp.Literal)
        return not negative and not (isinstance(node, exp.Sub) and self.type_of(node.this) is Type.DATE)

    def operand(self, node: exp.Expr, of: Type) -> Guarded:
        """A part that is no arithmetic, in the type in which arithmetic of type `of` is computed."""
        value = self.write(node)
        return Guarded(cast(value, self.computed_in(of)) if of in INTEGERS or of is Type.FLOAT4 else value)

    def promoted(self, part: Guarded, before: Type, after: Type) -> Guarded:
        """A number of one type in the one in which those of another are computed."""
        if self.computed_in(before) == self.computed_in(after):
            return part
        target = "DECIMAL(19, 0)" if after is Type.NUMERIC else self.computed_in(after)
        return Guarded(cast(part.value, target), part.guards)

    @abstractmethod
    def computed(self, node: exp.Expr, parts: Sequence[exp.Expr], of: Type) -> Guarded:
        """One operation of integers or numerics over its computed parts."""

    def close(self, part: Guarded, node: exp.Expr) -> exp.Expr:
        """Arithmetic as a value of its type."""
        target = self.result_types.get(self.type_of(node))
        if target is None:
            return part.closed()
        return self.tried(Guarded(cast(part.value, target), part.guards).closed(), node)

    def opened(self, node: exp.Expr) -> Guarded:
        """Arithmetic as a value with guards, in the type in which it is computed."""
        node = node.unnest()
        of = self.type_of(node)
        if not self.is_arithmetic(node):
            return self.operand(node, of)
        sides = [node.this] + ([node.expression] if isinstance(node, exp.Binary) else [])
        parts = [self.fitted(side, of) for side in sides]
        values = [part.value for part in parts]
        result = self.float_computed(node, values) if of in FLOATS else self.computed(node, values, of)
        before = tuple(guard for part in parts for guard in part.guards)
        after = (float_guards.narrows(result.value),) if of is Type.FLOAT4 else ()
        return Guarded(paren(result.value), (*before, *result.guards, *after))

    def fitted(self, node: exp.Expr, of: Type) -> Guarded:
        """A part of arithmetic of type `of`."""
        own = self.type_of(node)
        if own is Type.LITERAL:
            return Guarded(cast(self.write(node), self.computed_in(of)))
        if own is Type.NUMERIC and of is Type.FLOAT8 and isinstance(node.unnest(), exp.Literal):
            return Guarded(float_guards.double(node.unnest().name))
        return self.promoted(self.opened(node), own, of)

    def computed_in(self, of: Type) -> str:
        """The type in which values of a type are computed."""
        return self.operand_types.get(of, "DOUBLE")

    def float_computed(self, node: exp.Expr, values: Sequence[exp.Expr]) -> Guarded:
        """One operation of doubles; the guards are the same on every engine."""
        if not isinstance(node, exp.Binary):
            return Guarded(type(node)(this=values[0]))
        left, right = values
        guard = {
            exp.Add: float_guards.sums,
            exp.Sub: float_guards.sums,
            exp.Mul: float_guards.multiplies,
            exp.Div: float_guards.divides,
        }[type(node)]
        return Guarded(operation(node, left, right), (guard(left, right),))

    def as_float(self, node: exp.Expr) -> Guarded:
        """A number as a double."""
        return self.fitted(node, Type.FLOAT8)

    def function(self, part: Guarded, guard: Callable[[exp.Expr], exp.Expr], value: exp.Expr) -> exp.Expr:
        """A function of a closed part where its guard holds."""
        return Guarded(value, (*part.guards, guard(part.value))).closed()

    def compared(self, node: exp.Expr) -> exp.Expr:
        """A comparison, its operands in one type."""
        if node.args.get("query") is not None:
            return self.parts(node)
        compared = operands(node)
        found = {self.type_of(o) for o in compared} - {Type.LITERAL}
        target = common(found) if found and found <= NUMBERS else None
        beside = self.column_type(compared)
        return rebuilt(node, lambda part: self.beside(part, beside, target))

    def searched(self, node: exp.Expr) -> exp.Expr:
        """A text that is sought in an array: NULL where it is not found beside a NULL."""
        return exp.Anonymous(
            this="ARRAY_CONTAINS", expressions=[self.write(node.this), self.write(node.expression)]
        )

    def column_type(self, compared: Sequence[exp.Expr]) -> str:
        """The type of the first column among operands, "" where there is none."""
        columns = (c for c in (one.unnest() for one in compared) if isinstance(c, exp.Column))
        types = (self.relation.source(c.table).column(c.name).type for c in columns)
        return next(types, "")

    def beside(self, node: exp.Expr, type_name: str, target: Type | None) -> exp.Expr:
        """An operand of a comparison with a column of a type."""
        return self.common(node, target)

    def common(self, node: exp.Expr, target: Type | None) -> exp.Expr:
        """A value as one of the type `target`, of numbers or of timestamps, or as it is."""
        own = self.type_of(node)
        if target in STAMPS:
            return self.stamp(self.write(node)) if own is Type.DATE else self.write(node)
        constant = node.unnest()
        if target is Type.NUMERIC and isinstance(constant, exp.Literal) and constant.is_string:
            # As a text it would be rounded to the other value's scale.
            return self.numeral(constant.this)
        if target is None or own in (target, Type.LITERAL) or {own, target} <= INTEGERS:
            return self.write(node)
        if target is Type.NUMERIC and own in INTEGERS:
            return self.write(node)
        return self.fitted(node, target).closed()

    def numeral(self, text: str) -> exp.Expr:
        """An exact number that is written down."""
        return exp.Literal.number(text)

    def stamp(self, value: exp.Expr) -> exp.Expr:
        """A date as a timestamp."""
        return when(dates(value), cast(value, "TIMESTAMP"))

    def branches(self, node: exp.Expr) -> exp.Expr:
        """CASE, COALESCE, GREATEST, LEAST: the values in one type."""
        if isinstance(node, exp.Case):
            default = node.args.get("default")
            values = [i.args["true"] for i in node.args["ifs"]] + ([] if default is None else [default])
        else:
            values = [node.this, *node.expressions]
        kinds = {self.type_of(value) for value in values}
        own = self.type_of(node)
        target = own if own in FLOATS | {Type.NUMERIC} else None
        if Type.DATE in kinds and kinds & STAMPS:
            target = Type.TIMESTAMP
        written = [self.common(value, target) for value in values]
        if not isinstance(node, exp.Case):
            copy = copied(node)
            copy.set("this", written[0])
            copy.set("expressions", written[1:])
            return copy
        ifs = [
            exp.If(this=self.write(i.this), true=v) for i, v in zip(node.args["ifs"], written, strict=False)
        ]
        return exp.Case(ifs=ifs, default=None if default is None else written[-1])

    def like(self, node: exp.Expr, escape: str = "\\") -> exp.Expr:
        value, pattern = self.write(node.this), self.write(node.expression)
        if isinstance(node, exp.ILike):
            value = self.folding(value)
            if escape != "\\" and isinstance(pattern, exp.Literal):
                # DuckDB looks for the escape in a pattern of small letters.
                pattern, escape = exp.Literal.string(plain_pattern(pattern.this, escape)), "\\"
        found = type(node)(this=value, expression=pattern)
        escaped = exp.Escape(this=found, expression=exp.Literal.string(escape))
        return not_(paren(escaped)) if node.args.get("negate") else escaped

    def escape(self, node: exp.Expr) -> exp.Expr:
        inner = node.this.unnest()
        negated = isinstance(inner, exp.Not)
        like = inner.this.unnest() if negated else inner
        found = self.like(like, constant_text(node.expression, self.parameters) or "\\")
        return not_(paren(found)) if negated else found

    def nullif(self, node: exp.Expr) -> exp.Expr:
        # A condition is compared as a whole: a = b = c is no SQL, and a = b IS NULL is another condition.
        operands = (copied(node.this), copied(node.expression))
        one, other = (exp.Paren(this=v) if type(v) in LOGICAL else v for v in operands)
        equal = self.write(exp.EQ(this=one, expression=other))
        return case((equal, exp.null()), otherwise=self.write(node.this))

    def date_form(self, node: exp.Expr) -> exp.Expr:
        left, right = node.this, node.expression
        types = self.type_of(left), self.type_of(right)
        first, second = self.write(left), self.write(right)
        if types == (Type.DATE, Type.DATE):
            return when(and_(dates(first), dates(second)), self.days_between(first, second))
        if Type.INTERVAL in types:
            moved, by = (first, second) if types[1] is Type.INTERVAL else (second, first)
            return when(calendar(moved), type(node)(this=cast(moved, "TIMESTAMP"), expression=by))
        if {*types} <= DATED:
            ends = [cast(value, "TIMESTAMP") for value in (first, second)]
            return when(and_(calendar(first), calendar(second)), exp.Sub(this=ends[0], expression=ends[1]))
        date, steps = (first, second) if types[0] is Type.DATE else (second, first)
        near = exp.Between(this=steps, low=number(-700_000), high=number(100_000_000))
        added = type(node)(this=date, expression=cast(copied(steps), "INT"))
        return when(and_(dates(date), near), added)

    def rounded_to_whole(self, node: exp.Expr) -> exp.Expr:
        if self.type_of(node.this) in INTEGERS:
            return cast(self.write(node.this), "DOUBLE")
        return type(node)(this=self.write(node.this))

    def rounded(self, node: exp.Expr) -> exp.Expr:
        value, digits = self.write(node.this), node.args.get("decimals")
        if self.type_of(node.this) is Type.NUMERIC or digits is not None:
            places = whole_constant(digits, self.parameters) or 0
            return exp.Round(this=cast(value, self.numeric), decimals=number(places))
        return cast(value, "DOUBLE") if self.type_of(node.this) in INTEGERS else self.half_even(value)

    def truncated_number(self, node: exp.Expr) -> exp.Expr:
        value, digits = self.write(node.this), node.args.get("decimals")
        if self.type_of(node.this) is not Type.NUMERIC and digits is None:
            return exp.Anonymous(this="TRUNC", expressions=[cast(value, "DOUBLE")])
        return self.cut_number(cast(value, self.numeric), whole_constant(digits, self.parameters) or 0)

    def sign(self, node: exp.Expr) -> exp.Expr:
        value = self.write(node.this)
        if self.type_of(node.this) is Type.NUMERIC:
            return cast(exp.Sign(this=value), self.numeric)
        signs = case((self.undefined(value, self.type_of(node.this)), number(0)))
        signs = signs.when(exp.GT(this=copied(value), expression=number(0)), number(1))
        signs = signs.when(exp.LT(this=copied(value), expression=number(0)), number(-1))
        return cast(signs.when(float_guards.zero(value), number(0)), "DOUBLE")

    def undefined(self, value: exp.Expr, of: Type) -> exp.Expr:
        """Whether a value is NaN."""
        if of in INTEGERS:
            return exp.false()
        nan = (
            cast(exp.Literal.string("NaN"), self.numeric)
            if of is Type.NUMERIC
            else float_guards.double("NaN")
        )
        return exp.EQ(this=copied(value), expression=nan)

    def root(self, node: exp.Expr) -> exp.Expr:
        part = self.as_float(node.this)
        return self.function(
            part, lambda v: exp.GTE(this=copied(v), expression=number(0)), exp.Sqrt(this=part.value)
        )

    def cube_root(self, node: exp.Expr) -> exp.Expr:
        part = self.as_float(node.this)
        return Guarded(exp.Cbrt(this=part.value), part.guards).closed()

    def logarithm(self, node: exp.Expr) -> exp.Expr:
        part = self.as_float(node.this)
        # LOG is the natural one on some engines.
        common = exp.Anonymous(this="LOG10", expressions=[part.value])
        found = exp.Ln(this=part.value) if isinstance(node, exp.Ln) else common
        return self.function(part, lambda v: exp.GT(this=copied(v), expression=number(0)), found)

    def bitwise(self, node: exp.Expr) -> exp.Expr:
        """An operator on bits in parentheses: engines disagree on which of them comes first."""

        def held(part: exp.Expr) -> exp.Expr:
            summed = any(self.relation.source(c.table).derived is not None for c in walk(part, exp.Column))
            if not summed or self.type_of(part) is not Type.INT8:
                return self.write(part)
            # A unit's sum of integers is computed as a decimal.
            return self.to_integer(exp.cast(copied(part), "BIGINT"), Type.INT8)

        return paren(rebuilt(node, held))

    def exponential(self, node: exp.Expr) -> exp.Expr:
        part = self.as_float(node.this)

        def within(value: exp.Expr) -> exp.Expr:
            reach = exp.Between(this=copied(value), low=number(-700), high=number(700))
            return or_(float_guards.special(value), reach)

        return self.function(part, within, exp.Exp(this=part.value))

    def power(self, node: exp.Expr) -> exp.Expr:
        exponent = node.expression.unnest()
        negative = isinstance(exponent, exp.Neg)
        text = constant_text(exponent.this if negative else exponent, self.parameters) or "1"
        power = -float(text) if negative else float(text)
        part = self.as_float(node.this)
        raised = exp.Pow(this=part.value, expression=float_guards.double(repr(power)))
        return self.function(part, lambda v: float_guards.power(v, power), raised)

    def bucket(self, node: exp.Expr) -> exp.Expr:
        exact = self.type_of(node.this) is Type.NUMERIC
        value = self.write(node.this) if exact else self.as_float(node.this).closed()
        low, high, count = (copied(node.args[name]) for name in ("min_value", "max_value", "num_buckets"))
        low, high = (self.plain(end, exact) for end in (low, high))
        count = number(whole_constant(count, self.parameters) or 1)
        above = paren(exp.Sub(this=copied(value), expression=copied(low)))
        whole = paren(exp.Sub(this=copied(high), expression=copied(low)))
        step = divided(exp.Mul(this=above, expression=count), whole)
        inside = exp.Add(this=cast(exp.Floor(this=step), "INT"), expression=number(1))
        found = exp.case()
        if not exact or self.knows_nan:
            found = found.when(self.undefined(value, Type.NUMERIC if exact else Type.FLOAT8), exp.null())
        found = found.when(exp.LT(this=copied(value), expression=copied(low)), number(0))
        beyond = exp.Add(this=copied(count), expression=number(1))
        found = found.when(exp.GTE(this=copied(value), expression=copied(high)), beyond)
        if not exact:
            # A smaller value would underflow a double after the division.
            found = found.when(
                exp.LT(this=copied(above), expression=float_guards.double("1e-290")), number(1)
            )
        return found.when(exp.GTE(this=copied(value), expression=copied(low)), inside)

    def plain(self, node: exp.Expr, exact: bool) -> exp.Expr:
        """A constant number in a type."""
        return cast(self.write(node), self.numeric if exact else "DOUBLE")

    def cast(self, node: exp.Expr) -> exp.Expr:
        source, target = self.type_of(node.this), self.type_of(node)
        sizes = [whole_constant(s.this, self.parameters) or 0 for s in node.args["to"].expressions]
        if node.args["to"].this == exp.DType.INTERVAL:
            return self.interval(node)
        if source is Type.LITERAL:
            value = self.write(node.this)
            # A constant of character(n) is a text without the blanks at its end.
            return value if node.args["to"].this == exp.DType.BPCHAR else cast(value, self.stored(node))
        if target in INTEGERS and source is not Type.BOOL:
            return self.to_integer(node, source)
        if target is Type.NUMERIC:
            return self.to_number(node, source, sizes)
        if target in FLOATS:
            part = self.fitted(node.this, target)
            guards = (float_guards.narrows(part.value),) if target is Type.FLOAT4 else ()
            return cast(Guarded(part.value, (*part.guards, *guards)).closed(), self.stored(node))
        value = self.write(node.this)
        if target is Type.TEXT:
            text = self.whole_text(node.this) if source in NUMBERS - INTEGERS else self.spelt(value, source)
            return exp.Left(this=text, expression=number(sizes[0])) if sizes else text
        if target in STAMPS:
            return self.stamp(value) if source is Type.DATE else cast(value, "TIMESTAMP")
        if target is Type.TIME and source in STAMPS:
            return self.within_calendar(node.this, value, cast(cast(value, "TIMESTAMP"), "TIME"))
        if source is Type.TIMESTAMPTZ:
            value = cast(value, "TIMESTAMP")
        return cast(value, self.stored(node))

    def whole_text(self, node: exp.Expr) -> exp.Expr:
        """The text of a number that is a whole one, NULL from 10^15 on, where PostgreSQL prints doubles otherwise."""
        value = self.write(node)
        short = exp.LT(this=float_guards.size(value), expression=number(10**15))
        return when(short, self.printed(cast(value, "BIGINT"), Type.INT8))

    def to_integer(self, node: exp.Expr, source: Type) -> exp.Expr:
        """A number as an integer: PostgreSQL rounds numerics half away from zero, doubles half to even."""
        of, value = self.type_of(node), self.write(node.this)
        most = SPAN[of]
        if source in INTEGERS:
            within: exp.Expr = exp.Between(this=value, low=number(-most), high=number(most - 1))
        elif of is Type.INT8 and source in FLOATS:
            within = and_(
                exp.GTE(this=value, expression=float_guards.double(str(-most))),
                exp.LT(this=copied(value), expression=float_guards.double(str(most))),
            )
        else:
            exact = source is Type.NUMERIC
            low, high = (self.plain_text(f"{end}.5", exact) for end in (-most, most - 1))
            least = (exp.GT if exact else exp.GTE)(this=value, expression=low)
            within = and_(least, exp.LT(this=copied(value), expression=high))
        if source is Type.NUMERIC:
            return when(within, cast(exp.Round(this=copied(value)), self.stored(node)))
        return when(within, cast(copied(value), self.stored(node)))

    def plain_text(self, text: str, exact: bool) -> exp.Expr:
        """A constant number written as a text."""
        return cast(exp.Literal.string(text), self.numeric if exact else "DOUBLE")

    def to_number(self, node: exp.Expr, source: Type, sizes: Sequence[int]) -> exp.Expr:
        value = self.write(node.this)
        if source in FLOATS:
            value = when(
                exp.LT(this=float_guards.size(value), expression=float_guards.double("1e28")),
                self.decimal(value),
            )
        elif source is not Type.NUMERIC:
            value = cast(value, self.numeric)
        if not sizes:
            return value
        rounded = exp.Round(this=value, decimals=number(sizes[1] if len(sizes) > 1 else 0))
        if sizes[0] >= HELD_DIGITS and self.numeric == Type.NUMERIC.cell:
            # No number of the engine's type has more, and the constant would be none of it.
            return rounded
        most = 10 ** (sizes[0] - (sizes[1] if len(sizes) > 1 else 0))
        return when(exp.LT(this=exp.Abs(this=copied(rounded)), expression=number(most)), rounded)

    def extract(self, node: exp.Expr) -> exp.Expr:
        value, field = self.write(node.expression), node.name.lower()
        found = self.type_of(node.expression)
        if found in (Type.INTERVAL, Type.AGE, Type.TIME):
            return self.field(value, field)
        if found is Type.DATE:
            moment = cast(copied(value), "TIMESTAMP") if field == "epoch" else copied(value)
            return when(dates(value), self.field(moment, field))
        return self.within_calendar(node.expression, value, self.field(value, field))

    def truncated_time(self, node: exp.Expr) -> exp.Expr:
        value, copy = self.write(node.this), copied(node)
        zoneless = self.type_of(node.this) is Type.TIMESTAMP
        copy.set("this", value if zoneless else cast(value, "TIMESTAMP"))
        return self.within_calendar(node.this, value, copy)

    def within_calendar(self, node: exp.Expr, value: exp.Expr, computed: exp.Expr) -> exp.Expr:
        """What is computed from the value of a date or timestamp, where that is of the years 1 to 9999."""
        if time_zones.in_zone(node):
            return computed
        return when(dates(value) if self.type_of(node) is Type.DATE else calendar(value), computed)

    def zoned(self, node: exp.Expr) -> exp.Expr:
        """The time in a zone at a moment, or the moment of a time in a zone; the sessions of all engines are in UTC."""
        zone = constant_text(node.args["zone"], self.parameters) or "UTC"
        value, begun = self.write(node.this), time_zones.begun(node)
        if zone.upper() in time_zones.UTC:
            return cast(value, "TIMESTAMP")
        if self.type_of(node.this) is Type.TIMESTAMPTZ:
            return self.shifted(exp.Add, value, value, time_zones.offsets(zone))
        if begun is not None and self.type_of(begun) is Type.TIMESTAMPTZ:
            unit = node.this.unnest().args["unit"].name.lower()
            return self.shifted(exp.Sub, value, self.write(begun), time_zones.period_offsets(zone, unit))
        return self.shifted(exp.Sub, value, value, time_zones.local_offsets(zone))

    def shifted(
        self, operator: type[exp.Binary], value: exp.Expr, at: exp.Expr, steps: time_zones.Steps
    ) -> exp.Expr:
        """A timestamp plus or minus the seconds that hold at another, where that is of the years with known offsets."""
        ends = [
            cast(exp.Literal.string(str(end)), "TIMESTAMP")
            for end in (time_zones.FIRST, time_zones.END - dt.timedelta(microseconds=1))
        ]
        known = exp.Between(this=copied(at), low=ends[0], high=ends[1])
        moved = operator(this=cast(value, "TIMESTAMP"), expression=self.lasting(_chosen(at, steps)))
        return when(known, moved)

    def lasting(self, seconds: exp.Expr) -> exp.Expr:
        """An interval of so many seconds."""
        return exp.Mul(this=paren(seconds), expression=cast(exp.Literal.string("1 second"), "INTERVAL"))

    def interval(self, node: exp.Expr) -> exp.Expr:
        text = interval_text(node, self.parameters) or ""
        return exp.Cast(this=exp.Literal.string(text), to=exp.DataType(this=exp.DType.INTERVAL))

    def shown(self, node: exp.Expr) -> exp.Expr:
        value, pattern = self.write(node.this), node.args["format"].name
        stamp = cast(value, "TIMESTAMP")
        text = self.formatted(stamp, pattern) if "%" in pattern else self.pieced(stamp, pattern)
        return self.within_calendar(node.this, value, text)

    def formatted(self, stamp: exp.Expr, pattern: str) -> exp.Expr:
        """A timestamp in a format of sqlglot's signs."""
        return exp.TimeToStr(this=stamp, format=exp.Literal.string(pattern))

    def pieced(self, stamp: exp.Expr, pattern: str) -> exp.Expr:
        """A timestamp in a format of PostgreSQL's patterns."""
        found, *others = (self.piece(stamp, piece) for piece in time_format.pieces(pattern) or [])
        for other in others:
            found = exp.DPipe(this=found, expression=other)
        return found

    def piece(self, stamp: exp.Expr, piece: time_format.FormatPart) -> exp.Expr:
        """What a part of a format shows."""
        if not piece.pattern:
            return exp.Literal.string(piece.text)
        value = cast(exp.Floor(this=self.field(copied(stamp), piece.field)), "INT")
        if piece.pattern in ("AM", "PM"):
            halves = [
                exp.Literal.string(half.lower() if piece.text.islower() else half) for half in ("AM", "PM")
            ]
            return case((exp.LT(this=value, expression=number(12)), halves[0]), otherwise=halves[1])
        if piece.pattern in time_format.NAMES:
            first = 1 if piece.field == "month" else 0
            ifs = [
                exp.If(this=number(n), true=exp.Literal.string(name))
                for n, name in enumerate(piece.names(), first)
            ]
            return exp.Case(this=value, ifs=ifs)
        digits = self.printed(self.counted(value, piece.pattern), Type.INT4)
        if not piece.filled or piece.width == 1:
            return digits
        return exp.Anonymous(this="LPAD", expressions=[digits, number(piece.width), exp.Literal.string("0")])

    def counted(self, value: exp.Expr, pattern: str) -> exp.Expr:
        """The number that a pattern shows of a field."""
        if pattern == "YY":
            return exp.Mod(this=value, expression=number(100))
        if pattern in ("HH", "HH12"):
            later = paren(exp.Add(this=value, expression=number(11)))
            return exp.Add(this=paren(exp.Mod(this=later, expression=number(12))), expression=number(1))
        if pattern in ("W", "WW"):
            later = paren(exp.Add(this=value, expression=number(6)))
            return cast(exp.Floor(this=divided(later, exp.Literal.number("7.0"))), "INT")
        return exp.Add(this=value, expression=number(1)) if pattern == "D" else value

    def binned(self, node: exp.Expr) -> exp.Expr:
        value, (stride, origin) = self.write(node.expression), bins(node, self.parameters) or (1, 0)
        return self.within_calendar(
            node.expression, value, self.bin_of(cast(value, "TIMESTAMP"), stride, origin)
        )

    @abstractmethod
    def bin_of(self, stamp: exp.Expr, stride: int, origin: int) -> exp.Expr:
        """The begin of a timestamp's bin, of so many microseconds, counted from `origin`, microseconds since 1970."""

    def named(self, node: exp.Expr) -> exp.Expr:
        if node.name.lower() == "to_timestamp":
            return self.since_1970(self.as_float(node.expressions[0]))
        parts = [self.write(e) for e in node.expressions]
        if node.name.lower() == "age":
            ends = [cast(part, "TIMESTAMP") for part in parts]
            finite = and_(*(calendar(part) for part in parts))
            return when(finite, exp.Anonymous(this="AGE", expressions=ends))
        return self.made_date(*parts)

    def since_1970(self, seconds: Guarded) -> exp.Expr:
        """The moment so many seconds after the start of 1970."""
        ends = [float_guards.double(text) for text in ("-62135596800", "253402300800")]
        value = seconds.value
        within = and_(
            exp.GTE(this=copied(value), expression=ends[0]), exp.LT(this=copied(value), expression=ends[1])
        )
        return Guarded(self.moment(value), (*seconds.guards, within)).closed()

    @abstractmethod
    def moment(self, seconds: exp.Expr) -> exp.Expr:
        """The moment so many seconds after the start of 1970, in the years 1 to 9999."""

    def rounded_micros(self, seconds: exp.Expr) -> exp.Expr:
        """Seconds as whole microseconds since 1970, rounded as PostgreSQL does it, which counts from 2000."""
        since = paren(exp.Sub(this=seconds, expression=float_guards.double("946684800")))
        micros = self.half_even(exp.Mul(this=since, expression=float_guards.double("1e6")))
        return exp.Add(this=cast(micros, "BIGINT"), expression=number(946_684_800_000_000))

    def made_date(self, year: exp.Expr, month: exp.Expr, day: exp.Expr) -> exp.Expr:
        def divides(by: int) -> exp.Expr:
            return exp.EQ(this=exp.Mod(this=paren(copied(year)), expression=number(by)), expression=number(0))

        leap = or_(and_(divides(4), not_(divides(100))), divides(400))
        short = case((leap, number(29)), otherwise=number(28))
        last = case((exp.EQ(this=copied(month), expression=number(2)), short))
        months = [number(n) for n in (4, 6, 9, 11)]
        last = last.when(exp.In(this=copied(month), expressions=months), number(30)).else_(number(31))
        known = [
            exp.Between(this=copied(part), low=number(1), high=high)
            for part, high in ((year, number(9999)), (month, number(12)), (day, last))
        ]
        parts = [cast(part, "INT") for part in (year, month, day)]
        return when(and_(*known), exp.Anonymous(this="MAKE_DATE", expressions=parts))

    def trim(self, node: exp.Expr) -> exp.Expr:
        characters = node.args.get("expression")
        removed = exp.Literal.string(" ") if characters is None else self.write(characters)
        name = _TRIMS.get(str(node.args.get("position") or ""), self.both)
        return exp.Anonymous(this=name, expressions=[self.write(node.this), removed])

    def cut(self, node: exp.Expr) -> exp.Expr:
        """LEFT, RIGHT and SPLIT_PART."""
        return self.parts(node)

    def joined(self, node: exp.Expr) -> exp.Expr:
        concat = isinstance(node, (exp.Concat, exp.ConcatWs))
        operands = list(node.expressions if concat else _joined(node))
        separator = operands.pop(0) if isinstance(node, exp.ConcatWs) else None
        parts = [self.joinable(part) for part in operands]
        if separator is not None:
            parts = [exp.DPipe(this=self.joinable(separator), expression=part) for part in parts]
        if concat:
            parts = [coalesce(part, exp.Literal.string("")) for part in parts]
        found = parts[0]
        for part in parts[1:]:
            found = exp.DPipe(this=found, expression=part)
        if separator is not None:
            # A separator stands before each part that is not NULL.
            size = len(constant_text(separator, self.parameters) or "")
            found = exp.Substring(this=found, start=number(size + 1))
        # Written again rather than copied: nested ones then count as many steps as they are long.
        long = [p for p in operands if self.type_of(p) is Type.TEXT and walk(p, exp.Column)]
        # As BIGINT: the lengths of three stored texts can be more than an integer holds.
        lengths: list[exp.Expr] = [cast(exp.Length(this=self.write(part)), "BIGINT") for part in long]
        if concat:
            lengths = [coalesce(length, number(0)) for length in lengths]
        if not lengths:
            return paren(found)
        whole = lengths[0]
        for length in lengths[1:]:
            whole = exp.Add(this=whole, expression=length)
        return when(exp.LTE(this=whole, expression=number(LONGEST_COMPUTED)), found)

    def joinable(self, node: exp.Expr) -> exp.Expr:
        """A value as a text that is joined to others."""
        if self.type_of(node) in TEXTUAL | INTEGERS:
            return self.printed(self.write(node), self.type_of(node))
        return self.write(exp.cast(node, "TEXT"))

    def replaced(self, node: exp.Expr) -> exp.Expr:
        value = self.write(node.this)
        short = exp.LTE(this=exp.Length(this=value), expression=number(self.replaceable(node)))
        texts = [self.write(node.args[name]) for name in ("expression", "replacement")]
        return when(short, exp.Anonymous(this="REPLACE", expressions=[copied(value), *texts]))

    def replaceable(self, node: exp.Expr) -> int:
        """How many characters a text may have that is replaced in, at each of which a pattern may be found."""
        replacement = constant_text(node.args["replacement"], self.parameters) or "x"
        return LONGEST_COMPUTED // (len(replacement) + isinstance(node, exp.RegexpReplace))

    def tokens(self, node: exp.Expr) -> list[str]:
        """The parts of a regular expression; the empty one, which is found everywhere, has none."""
        written = node.args["start"] if isinstance(node, exp.Substring) else node.expression
        return regexp.tokens(constant_text(written, self.parameters) or "") or []

    def pattern(self, node: exp.Expr) -> str:
        found = self.tokens(node)
        return regexp.either_case(found) if isinstance(node, exp.RegexpILike) else "".join(found)

    def folding(self, value: exp.Expr) -> exp.Expr:
        """A text whose letters have two cases."""
        return value

    def cased(self, node: exp.Expr) -> exp.Expr:
        """LOWER and UPPER."""
        return type(node)(this=self.write(node.this))

    def bytewise(self, value: exp.Expr) -> exp.Expr:
        """A text that is compared and searched by its bytes, whatever its own collation."""
        return value

    @abstractmethod
    def days_between(self, first: exp.Expr, second: exp.Expr) -> exp.Expr:
        """How many days a date is after another."""

    @abstractmethod
    def half_even(self, value: exp.Expr) -> exp.Expr:
        """A double rounded to the nearest whole number, halves to even ones."""

    @abstractmethod
    def cut_number(self, value: exp.Expr, places: int) -> exp.Expr:
        """An exact number without the digits behind `places`."""

    @abstractmethod
    def decimal(self, value: exp.Expr) -> exp.Expr:
        """A double as the exact number of its first 15 digits."""

    def spelt(self, value: exp.Expr, of: Type) -> exp.Expr:
        """A value of a type as PostgreSQL prints it."""
        return self.printed(value, of)

    def stored(self, node: exp.Expr) -> exp.DataType:
        """The engine's type of a cast."""
        of = node.args["to"].this
        return data_type(self.numeric) if of == exp.DType.DECIMAL else exp.DataType(this=of)

    @abstractmethod
    def field(self, value: exp.Expr, field: str) -> exp.Expr:
        """EXTRACT of a value of years 1 to 9999, an exact number."""

    def part(self, node: exp.Expr) -> exp.Expr:
        """SUBSTRING."""
        by_pattern = self.type_of(node.args["start"]) in TEXTUAL
        return self.extracted(node) if by_pattern else self.substring(node)

    @abstractmethod
    def substring(self, node: exp.Expr) -> exp.Expr:
        """SUBSTRING by places."""

    @abstractmethod
    def extracted(self, node: exp.Expr) -> exp.Expr:
        """What a regular expression finds first, or its group; NULL where it finds nothing."""

    @abstractmethod
    def matched(self, node: exp.Expr) -> exp.Expr:
        """Whether a regular expression is found."""

    def regexp_replaced(self, node: exp.Expr) -> exp.Expr:
        """What a regular expression finds in a text that is not too long, replaced."""
        value = self.write(node.this)
        short = exp.LTE(this=exp.Length(this=value), expression=number(self.replaceable(node)))
        texts = [exp.Literal.string(self.pattern(node)), self.write(node.args["replacement"])]
        modifiers = node.args.get("modifiers")
        flags = (
            []
            if modifiers is None
            else [exp.Literal.string(constant_text(modifiers, self.parameters) or "g")]
        )
        parts = [self.bytewise(copied(value)), *texts, *flags]
        return when(short, exp.Anonymous(this="REGEXP_REPLACE", expressions=parts))


def _joined(node: exp.Expr) -> Iterator[exp.Expr]:
    """The operands of a chain of ||."""
    if isinstance(node.unnest(), exp.DPipe):
        yield from _joined(node.unnest().this)
        yield from _joined(node.unnest().expression)
    else:
        yield node


def _chosen(at: exp.Expr, steps: time_zones.Steps) -> exp.Expr:
    """The number of the step that a timestamp is in, found by halving."""
    if len(steps) == 1:
        return number(steps[0][1])
    half = len(steps) // 2
    since = cast(exp.Literal.string(str(steps[half][0])), "TIMESTAMP")
    before = exp.LT(this=copied(at), expression=since)
    return case((before, _chosen(at, steps[:half])), otherwise=_chosen(at, steps[half:]))
