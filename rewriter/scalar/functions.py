"""The operators and functions that may stand on private rows: what is known of each, in one row.

What has no row in `FUNCTIONS` is refused (PV020). What the rewriter knows of a function follows from its row: the
allow-list, type of its value, which calls are refused, whether it is NULL where an operand is, whether the
front may compute it once, how the engines write it, its word in docs/sql.md. To add a function, add a
row; and a check and a form where it needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from rewriter.effort import spend
from rewriter.ir.parameter import Parameters
from rewriter.ir.trees import kinds
from rewriter.ir.types import CASTS, DATED, SPAN, Type, common, moved
from rewriter.refusal import Refusal
from rewriter.scalar import function_checks as checks
from rewriter.scalar import function_domains as domains
from rewriter.scalar import function_ranges as ranges
from rewriter.scalar.function_checks import Check, Of
from rewriter.scalar.function_ranges import Ranging
from rewriter.scalar.value_interval import Interval
from rewriter.syntax.allowlist import (
    EXTRACTED,
    TRUNCATIONS,
    describe,
    describe_surplus,
    own_parts,
    position,
    surplus,
)

Parts = Callable[[exp.Expr], list[exp.Expr]]
Rule = Callable[[exp.Expr, Ranging], Interval]
Values = Callable[[exp.Expr, Of, Parameters], list[exp.Expr] | None]
Result = Callable[[exp.Expr, Of], Type]


@dataclass(frozen=True)
class Function:
    """An operator or function of private rows.

    Attributes:
        node: its type in a tree.
        arguments: what it may be called with.
        written: its words in docs/sql.md; where it is empty, the function's name.
        result: the type of its value: one, a function of the node and the types of its parts, or, where it is None,
            what the `operands` have in common.
        operands: the parts that have the type of the value.
        check: refuses a call that a row could make raise, or that engines read differently.
        operand: the part that the value is computed from.
        strict: the value is NULL where its operand is; of an operator where one of both is.
        folds: where it reads no column, the front may compute it once.
        range: between which bounds its value lies, by those of its parts; None where nothing is known.
        defaults: what arguments are where they are left out.
        values: the values that it can have whatever its operands; None where they are many.
        grain: the period of a time within which its value is the same, where that is its operand.
        form: the method of an engine that writes it; where it is empty, its parts are written.
        total: no value of the types that it may be called with makes an engine raise as its parts are written
            (tests/rewriter/test_spoiled.py).
    """

    node: type[exp.Expr]
    arguments: tuple[str, ...] = ("this",)
    written: str = ""
    result: Type | Result | None = Type.BOOL
    operands: Parts | None = None
    operand: str = "this"
    check: Check | None = None
    strict: bool = False
    folds: bool = False
    range: Rule | None = None
    defaults: Mapping[str, object] = field(default_factory=dict)
    values: Values | None = None
    grain: Callable[[exp.Expr], str | None] | None = None
    form: str = ""
    total: bool = False

    def parts(self, node: exp.Expr) -> list[exp.Expr]:
        """The parts of a call that have the type of its value."""
        return [] if self.operands is None else self.operands(node)

    @property
    def computes(self) -> bool:
        """Whether its form computes numbers or times, where engines may raise; what makes texts tries its own parts.

        >>> BY_TYPE[exp.Round].computes, BY_TYPE[exp.Lower].computes
        (True, False)
        """
        return self.form not in ("", "arithmetic") and self.result not in (
            Type.BOOL,
            Type.TEXT,
            Type.INTERVAL,
        )

    @property
    def words(self) -> str:
        """What analysts write.

        >>> Function(exp.Lower).words, Function(exp.Pad, written="lpad, rpad").words
        ('lower', 'lpad, rpad')
        """
        name = self.node.sql_names()[0].lower() if issubclass(self.node, exp.Func) else self.node.__name__
        return self.written or name


BOTH = ("this", "expression")
BY_NAME = {
    "age": Type.AGE,
    "make_date": Type.DATE,
    "to_timestamp": Type.TIMESTAMPTZ,
    "date_part": Type.OTHER,
    "log10": Type.OTHER,
    "num_nulls": Type.OTHER,
    "num_nonnulls": Type.OTHER,
    "some": Type.OTHER,
    "all": Type.OTHER,
}
"""The types of functions and operators that the parser knows by their name only."""


def _first(node: exp.Expr) -> list[exp.Expr]:
    return [node.this]


def _sides(node: exp.Expr) -> list[exp.Expr]:
    return [node.this, node.expression]


def _all(node: exp.Expr) -> list[exp.Expr]:
    return [node.this, *node.expressions]


def _branches(node: exp.Expr) -> list[exp.Expr]:
    default = node.args.get("default")
    return [*(i.args["true"] for i in node.args["ifs"]), *([] if default is None else [default])]


def _same(node: exp.Expr, of: Of) -> Type:
    return of(node.this)


def _negative(node: exp.Expr, of: Of) -> Type:
    # PostgreSQL reads the sign of a constant before its type: the least integer is one.
    whole = isinstance(node.this, exp.Literal) and not node.this.is_string and node.this.this.isdigit()
    held = [of for of in (Type.INT4, Type.INT8) if whole and int(node.this.this) <= SPAN[of]]
    return held[0] if held else of(node.this)


def _sum(node: exp.Expr, of: Of) -> Type:
    left, right = of(node.this), of(node.expression)
    if {left, right} & (DATED | {Type.INTERVAL}):
        return moved(left, right, subtracted=isinstance(node, exp.Sub))
    return common([left, right])


def _rounded(node: exp.Expr, of: Of) -> Type:
    exact = node.args.get("decimals") is not None or of(node.this) is Type.NUMERIC
    return Type.NUMERIC if exact else Type.FLOAT8


def _truncated(node: exp.Expr, of: Of) -> Type:
    return Type.TIMESTAMPTZ if of(node.this) is Type.DATE else of(node.this)


def _binned(node: exp.Expr, of: Of) -> Type:
    return of(node.expression)


def _zoned(node: exp.Expr, of: Of) -> Type:
    return Type.TIMESTAMP if of(node.this) is Type.TIMESTAMPTZ else Type.TIMESTAMPTZ


def _cast(node: exp.Expr, _: Of) -> Type:
    return CASTS.get(node.args["to"].this, Type.OTHER)


def _named(node: exp.Expr, _: Of) -> Type:
    return BY_NAME.get(node.name.lower(), Type.OTHER)


F = Function
FUNCTIONS = (
    F(exp.And, BOTH, "AND", total=True),
    F(exp.Or, BOTH, "OR", total=True),
    F(exp.Not, written="NOT", strict=True, total=True),
    F(exp.EQ, BOTH, "=", strict=True, form="compared"),
    F(exp.NEQ, BOTH, "<>", strict=True, form="compared"),
    F(exp.LT, BOTH, "<", strict=True, form="compared"),
    F(exp.LTE, BOTH, "<=", strict=True, form="compared"),
    F(exp.GT, BOTH, ">", strict=True, form="compared"),
    F(exp.GTE, BOTH, ">=", strict=True, form="compared"),
    F(exp.NullSafeEQ, BOTH, "IS NOT DISTINCT FROM", form="compared"),
    F(exp.NullSafeNEQ, BOTH, "IS DISTINCT FROM", form="compared"),
    F(exp.Between, ("this", "low", "high", "symmetric"), "BETWEEN", strict=True, form="compared"),
    F(exp.In, ("this", "expressions"), "IN (...)", strict=True, form="compared"),
    F(exp.Is, (*BOTH, "negate"), "IS", total=True),
    F(exp.Like, (*BOTH, "negate"), "LIKE", check=checks.pattern, strict=True, form="like"),
    F(exp.SimilarTo, BOTH, "SIMILAR TO", check=checks.similar, total=True),
    F(exp.ILike, (*BOTH, "negate"), "ILIKE", check=checks.pattern, strict=True, form="like"),
    F(
        exp.Add,
        BOTH,
        "+",
        _sum,
        _sides,
        check=checks.arithmetic,
        strict=True,
        folds=True,
        range=ranges.sum_of,
        form="date_form",
    ),
    F(
        exp.Sub,
        BOTH,
        "-",
        _sum,
        _sides,
        check=checks.arithmetic,
        strict=True,
        folds=True,
        range=ranges.difference,
        form="date_form",
    ),
    F(
        exp.Mul,
        BOTH,
        "*",
        None,
        _sides,
        check=checks.arithmetic,
        strict=True,
        folds=True,
        range=ranges.product,
        form="arithmetic",
    ),
    F(
        exp.Div,
        (*BOTH, "typed", "safe"),
        "/",
        None,
        _sides,
        check=checks.arithmetic,
        strict=True,
        folds=True,
        range=ranges.quotient,
        form="arithmetic",
    ),
    F(
        exp.Mod,
        BOTH,
        "%",
        None,
        _sides,
        check=checks.arithmetic,
        strict=True,
        folds=True,
        range=ranges.remainder,
        form="arithmetic",
    ),
    F(
        exp.Neg,
        written="-",
        result=_negative,
        operands=_first,
        check=checks.arithmetic,
        strict=True,
        folds=True,
        range=ranges.negated,
        form="arithmetic",
    ),
    F(
        exp.BitwiseAnd,
        BOTH,
        "&",
        None,
        _sides,
        check=checks.integers,
        strict=True,
        folds=True,
        range=ranges.masked,
        form="bitwise",
    ),
    F(exp.BitwiseOr, BOTH, "|", None, _sides, check=checks.integers, strict=True, folds=True, form="bitwise"),
    F(
        exp.BitwiseXor,
        BOTH,
        "#",
        None,
        _sides,
        check=checks.integers,
        strict=True,
        folds=True,
        form="bitwise",
    ),
    F(
        exp.Abs,
        result=_same,
        operands=_first,
        check=checks.arithmetic,
        strict=True,
        folds=True,
        range=ranges.size,
        form="arithmetic",
    ),
    F(
        exp.Floor,
        result=_rounded,
        check=checks.number,
        strict=True,
        folds=True,
        range=ranges.whole,
        form="rounded_to_whole",
    ),
    F(
        exp.Ceil,
        result=_rounded,
        check=checks.number,
        strict=True,
        folds=True,
        range=ranges.whole,
        form="rounded_to_whole",
    ),
    F(
        exp.Case,
        ("this", "ifs", "default"),
        "CASE",
        None,
        _branches,
        check=checks.branches,
        folds=True,
        range=ranges.branches,
        values=domains.branches,
        form="branches",
    ),
    F(
        exp.Coalesce,
        ("this", "expressions"),
        "",
        None,
        _all,
        check=checks.alike,
        folds=True,
        range=ranges.any_of,
        form="branches",
    ),
    F(
        exp.Nullif,
        BOTH,
        "",
        _same,
        _first,
        check=checks.typed,
        folds=True,
        range=ranges.first,
        form="nullif",
    ),
    F(exp.Lower, result=Type.TEXT, check=checks.text, strict=True, folds=True, form="cased"),
    F(exp.Upper, result=Type.TEXT, check=checks.text, strict=True, folds=True, form="cased"),
    F(exp.MD5, result=Type.TEXT, check=checks.text, strict=True, folds=True, total=True),
    F(exp.Length, result=Type.INT4, check=checks.text, strict=True, range=ranges.length, total=True),
    F(exp.Ascii, result=Type.INT4, check=checks.text, strict=True, range=ranges.length, total=True),
    F(
        exp.Trim,
        ("this", "position", "expression"),
        result=Type.TEXT,
        check=checks.text,
        strict=True,
        defaults={"position": "BOTH", "expression": exp.Literal.string(" ")},
        form="trim",
    ),
    F(
        exp.Substring,
        ("this", "start", "length"),
        result=Type.TEXT,
        check=checks.substring,
        strict=True,
        form="part",
    ),
    F(
        exp.DPipe,
        (*BOTH, "safe"),
        "||",
        Type.TEXT,
        check=checks.joined,
        strict=True,
        folds=True,
        form="joined",
    ),
    F(
        exp.Extract,
        BOTH,
        "",
        Type.NUMERIC,
        operand="expression",
        check=checks.extract,
        strict=True,
        folds=True,
        range=ranges.field,
        values=domains.fields,
        grain=domains.grain_of_field,
        form="extract",
    ),
    F(
        exp.TimestampTrunc,
        ("this", "unit", "zone"),
        "date_trunc",
        _truncated,
        check=checks.truncated,
        strict=True,
        folds=True,
        range=ranges.period,
        grain=domains.grain_of_period,
        form="truncated_time",
    ),
    F(
        exp.DateTrunc,
        ("this", "unit", "zone"),
        "date_trunc",
        _truncated,
        check=checks.truncated,
        strict=True,
        folds=True,
        range=ranges.period,
        grain=domains.grain_of_period,
        form="truncated_time",
    ),
    F(
        exp.DateBin,
        (*BOTH, "origin"),
        "date_bin",
        _binned,
        operand="expression",
        check=checks.binned,
        strict=True,
        grain=domains.grain_of_bin,
        form="binned",
    ),
    F(
        exp.AtTimeZone,
        ("this", "zone"),
        "AT TIME ZONE",
        _zoned,
        check=checks.zoned,
        strict=True,
        folds=True,
        range=ranges.moment,
        form="zoned",
    ),
    F(
        exp.Cast,
        ("this", "to", "_type"),
        "CAST",
        _cast,
        check=checks.cast,
        strict=True,
        folds=True,
        range=ranges.cast,
        grain=domains.grain_of_cast,
        form="cast",
    ),
    F(exp.Date, result=Type.OTHER, total=True),
    F(
        exp.Interval,
        ("this", "unit"),
        "INTERVAL",
        Type.INTERVAL,
        check=checks.interval,
        folds=True,
        form="interval",
    ),
    F(exp.Any, written="= ANY (...)", check=checks.only_listed, total=True),
    F(exp.ArrayContains, BOTH, "= ANY (column)", check=checks.searched, form="searched"),
    F(exp.All, written="<> ALL (...)", check=checks.only_listed, total=True),
    F(
        exp.Array,
        ("expressions", "bracket_notation"),
        "ARRAY[...]",
        Type.OTHER,
        check=checks.only_listed,
        total=True,
    ),
    F(exp.Escape, BOTH, "ESCAPE", check=checks.escape, form="escape"),
    F(
        exp.Round,
        ("this", "decimals"),
        "",
        _rounded,
        check=checks.rounded,
        strict=True,
        folds=True,
        range=ranges.rounded,
        form="rounded",
    ),
    F(
        exp.Trunc,
        ("this", "decimals"),
        "",
        _rounded,
        check=checks.rounded,
        strict=True,
        range=ranges.rounded,
        form="truncated_number",
    ),
    F(
        exp.Sign,
        result=_rounded,
        check=checks.number,
        strict=True,
        range=ranges.sign,
        form="sign",
    ),
    F(
        exp.Sqrt,
        result=Type.FLOAT8,
        check=checks.floating,
        strict=True,
        folds=True,
        range=ranges.not_negative,
        form="root",
    ),
    F(exp.Cbrt, result=Type.FLOAT8, check=checks.number, strict=True, folds=True, form="cube_root"),
    F(exp.Ln, result=Type.FLOAT8, check=checks.floating, strict=True, form="logarithm"),
    F(exp.Log, result=Type.FLOAT8, check=checks.floating, strict=True, form="logarithm"),
    F(
        exp.Exp,
        result=Type.FLOAT8,
        check=checks.floating,
        strict=True,
        range=ranges.not_negative,
        form="exponential",
    ),
    F(
        exp.Pow,
        BOTH,
        "power",
        _rounded,
        check=checks.power,
        strict=True,
        folds=True,
        form="power",
    ),
    F(
        exp.Greatest,
        ("this", "expressions", "ignore_nulls"),
        "",
        None,
        _all,
        check=checks.alike,
        folds=True,
        range=ranges.extreme,
        form="branches",
    ),
    F(
        exp.Least,
        ("this", "expressions", "ignore_nulls"),
        "",
        None,
        _all,
        check=checks.alike,
        folds=True,
        range=ranges.extreme,
        form="branches",
    ),
    F(
        exp.WidthBucket,
        ("this", "min_value", "max_value", "num_buckets"),
        result=Type.INT4,
        check=checks.bucket,
        strict=True,
        range=ranges.bucket,
        values=domains.buckets,
        form="bucket",
    ),
    F(
        exp.Concat,
        ("expressions", "safe", "coalesce"),
        "",
        Type.TEXT,
        check=checks.joined,
        folds=True,
        form="joined",
    ),
    F(
        exp.ConcatWs,
        ("expressions", "safe", "coalesce"),
        "",
        Type.TEXT,
        check=checks.separated,
        folds=True,
        form="joined",
    ),
    F(exp.Left, BOTH, "", Type.TEXT, check=checks.cut, strict=True, form="cut"),
    F(exp.Right, BOTH, "", Type.TEXT, check=checks.cut, strict=True, form="cut"),
    F(
        exp.Replace,
        (*BOTH, "replacement"),
        "",
        Type.TEXT,
        check=checks.replaced,
        strict=True,
        form="replaced",
    ),
    F(
        exp.SplitPart,
        ("this", "delimiter", "part_index"),
        "",
        Type.TEXT,
        check=checks.split,
        strict=True,
        form="cut",
    ),
    F(
        exp.Pad,
        (*BOTH, "fill_pattern", "is_left"),
        "lpad, rpad",
        Type.TEXT,
        check=checks.padded,
        strict=True,
        defaults={"fill_pattern": exp.Literal.string(" ")},
        total=True,
    ),
    F(
        exp.StrPosition,
        ("this", "substr"),
        "strpos",
        Type.INT4,
        check=checks.found,
        strict=True,
        range=ranges.length,
        total=True,
    ),
    F(exp.StartsWith, BOTH, check=checks.found, strict=True, total=True),
    F(exp.RegexpLike, BOTH, "~", check=checks.matched, strict=True, form="matched"),
    F(exp.RegexpILike, BOTH, "~*", check=checks.matched, strict=True, form="matched"),
    F(
        exp.RegexpReplace,
        (*BOTH, "replacement", "modifiers", "single_replace"),
        "",
        Type.TEXT,
        check=checks.matched,
        strict=True,
        form="regexp_replaced",
    ),
    F(
        exp.TimeToStr,
        ("this", "format"),
        "to_char",
        Type.TEXT,
        check=checks.shown,
        strict=True,
        values=domains.texts,
        grain=domains.grain_of_text,
        form="shown",
    ),
    F(
        exp.Anonymous,
        ("this", "expressions"),
        "log10, num_nulls, num_nonnulls, age, make_date, to_timestamp, date_part",
        _named,
        check=checks.named,
        range=ranges.named,
        form="named",
    ),
)
"""In the order of docs/sql.md."""

BY_TYPE = {function.node: function for function in FUNCTIONS}
CHECKED = kinds(*(f.node for f in FUNCTIONS if f.check))
COMPARISONS = kinds(*(f.node for f in FUNCTIONS if f.form == "compared"))
"""What can raise only where DuckDB converts a value to compare it."""
LOGICAL = kinds(exp.Predicate, exp.Boolean, *(f.node for f in FUNCTIONS if f.result is Type.BOOL))
PARTS: Mapping[type[exp.Expr], tuple[str, ...]] = {
    exp.Column: ("this", "table"),
    exp.Identifier: ("this", "quoted"),
    exp.Literal: ("this", "is_string"),
    exp.Boolean: ("this",),
    exp.Null: (),
    exp.Parameter: ("this",),
    exp.Paren: ("this",),
    exp.If: ("this", "true"),
    exp.Var: ("this",),
    exp.DataType: ("this", "nested", "expressions"),
    exp.DataTypeParam: ("this",),
}
"""The parts of an expression other than operators and functions, with their arguments."""
_ALLOWED = {k: frozenset(v) for k, v in {**PARTS, **{f.node: f.arguments for f in FUNCTIONS}}.items()}
PLAIN = kinds(
    exp.Literal,
    exp.Parameter,
    exp.Null,
    exp.Boolean,
    exp.Neg,
    exp.Paren,
    exp.Cast,
    exp.DataType,
    exp.DataTypeParam,
    exp.Var,
)
"""A constant that is written down as such."""
CHANGING = (exp.CurrentDate, exp.CurrentTimestamp, exp.Localtimestamp)
"""What has another value in the next statement."""
FOLDED = kinds(exp.Paren, exp.DataType, exp.If, *CHANGING, *(f.node for f in FUNCTIONS if f.folds))
"""Expressions that the front evaluates once where they read no column; none of them changes within a statement."""


def strict_operands(node: exp.Expr) -> list[exp.Expr]:
    """The parts of which one that is NULL makes the value NULL.

    >>> strict_operands(exp.column("a") + exp.column("b")) == [exp.column("a"), exp.column("b")]
    True
    >>> strict_operands(exp.Coalesce(this=exp.column("a")))
    []
    """
    function = BY_TYPE.get(type(node))
    if function is None or not function.strict:
        return []
    if isinstance(node, exp.Binary) and not isinstance(node, (exp.Like, exp.ILike)):
        return _sides(node)
    return [node.args[function.operand]]


def check_function(part: exp.Expr, of: Of, parameters: Parameters) -> None:
    """Refuse (PV020) an operator or function with values that it may not be called with."""
    function = BY_TYPE.get(type(part))
    why = (
        function.check(part, of, parameters) if function is not None and function.check is not None else None
    )
    if why is not None:
        raise checks.not_allowed(part, why)


def check_row_local(node: exp.Expr) -> None:
    """Refuse (PV020) an expression over private rows that has a node or an argument outside the allow-list."""
    parts = own_parts(node)
    spend(len(parts))
    for part in parts:
        allowed = _ALLOWED.get(type(part))
        if allowed is None or (isinstance(part, exp.Anonymous) and part.name.lower() not in BY_NAME):
            raise not_row_local(part)
        extra = surplus(part, allowed)
        if extra is not None:
            raise Refusal(
                "PV020",
                f"{describe_surplus(part, extra)} is not allowed on private rows",
                position=position(part),
            )


def not_row_local(part: exp.Expr) -> Refusal:
    """PV020 for what is not on the allow-list."""
    return Refusal(
        "PV020",
        f"{describe(part)} is not allowed on private rows",
        hint="Use comparisons, AND/OR/NOT, IN, BETWEEN, LIKE, ~, CASE, COALESCE, EXTRACT, date_trunc, "
        "LOWER, UPPER, SUBSTRING, ROUND and arithmetic; other functions work on the released rows.",
        position=position(part),
    )


def words() -> list[str]:
    """The operators and functions in the order of the documentation, each once.

    >>> words()[:3]
    ['AND', 'OR', 'NOT']
    """
    return list(dict.fromkeys(f.words for f in FUNCTIONS))


def fields() -> tuple[list[str], list[str]]:
    """The fields of EXTRACT that have values of their own whatever the date, and those that need a declared range.

    >>> fields()[0][:2]
    ['quarter', 'month']
    """
    return [f for f, values in EXTRACTED.items() if values], [f for f, v in EXTRACTED.items() if not v]


def truncations() -> tuple[str, ...]:
    """The units of date_trunc."""
    return TRUNCATIONS
