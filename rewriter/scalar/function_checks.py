"""Checks of function arguments: a call that a row could make raise, or that engines read differently, is refused.

Why: docs/decisions/errors-become-null.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from rewriter.effort import spend
from rewriter.ir.parameter import Parameters
from rewriter.ir.trees import walk
from rewriter.ir.types import CASTS, DATED, FLOATS, INTEGERS, NUMBERS, STAMPS, TEXTUAL, ZONELESS, Type
from rewriter.refusal import Refusal
from rewriter.scalar import regexp, time_format, time_zones
from rewriter.scalar.interval import interval_text, measured
from rewriter.scalar.timestamps import DAY, moment_of
from rewriter.syntax.allowlist import FIELDS, TRUNCATIONS, describe, position

CAST_FROM = {
    **dict.fromkeys(NUMBERS, NUMBERS),
    **dict.fromkeys(INTEGERS, NUMBERS | {Type.BOOL}),
    Type.TEXT: INTEGERS | ZONELESS | {Type.TEXT, Type.BOOL, Type.UUID, Type.JSON},
    **dict.fromkeys(DATED, DATED),
    Type.TIME: STAMPS | {Type.TIME},
    Type.BOOL: {Type.BOOL},
    Type.UUID: {Type.UUID},
}
"""What is cast to each type, beside constants."""
JOINED = TEXTUAL | INTEGERS | ZONELESS | {Type.UUID}
"""What is joined to texts: a truth value is `t` there, and `true` where it is cast."""
DIGITS = 10
"""The most digits behind the point that ROUND and TRUNC keep."""
MOST_JOINED = 100
"""Columns in a text that is joined: each has a length, and the whole has to be one that engines can hold."""
LONGEST = 100
"""Characters of a constant that is put into texts."""
LONGEST_PATTERN, MOST_WILDCARDS = 1_000, 100
"""Characters of a pattern of LIKE, and signs % among them: PostgreSQL calls itself for each %, while a row goes on."""
TO_CHAR = re.compile(r"(?!.*%S%S)(%[YmdHMSj]|[-/:., _0-9])+")
NOT_DOUBLE = "of another type than double precision"
NOT_TEXT = "on values that are no text"
PADDED = "of character(n)"
FRACTION = "of a number with a fraction to text"
UNREAD = "with a pattern beyond characters, sets, ( ) | . ^ $ * + ? and {m,n}"
LOCAL = "with a class such as [[:alpha:]] or \\w, which depends on the locale,"
UNSETTLED = "with groups or several repeated characters or sets"
UNSETTLED_PART = "with alternatives, several groups, or several repeated characters or sets"
UNORDERED = "of an enumerated type"
HINTS = {
    LOCAL: "Write the characters that are meant, as [A-Za-z] or [A-Za-zÀ-ÖØ-öø-ÿ]; digits are [0-9].",
    UNSETTLED: "Repeat one of them, or let the pattern reach the end of the text by $.",
    UNSETTLED_PART: "Repeat one of them, or let a character follow that what is repeated cannot be, as s?: does.",
    PADDED: "PostgreSQL would see the blanks at its end, or ignore those of others: CAST it to text.",
    NOT_DOUBLE: "Cast its argument to double precision.",
    NOT_TEXT: "Cast numbers to integer and truth values to text, and show times by to_char.",
    UNORDERED: "Compare two values, or a column and a label, by <, <=, > or >=; or CAST both to text.",
    FRACTION: "Cast the number to integer first, or show it as a text on the released rows.",
}
"""What to write where a call is refused for a reason; for other reasons there is nothing to write in its place."""
Of = Callable[[exp.Expr], Type]
"""The type of a part of an expression."""
Check = Callable[[exp.Expr, Of, Parameters], str | None]
"""Why a call is refused, None where it is not."""


def constant_text(node: exp.Expr, parameters: Parameters) -> str | None:
    """The text of a constant; None for what is none, "" for a parameter without its value yet."""
    node = node.unnest()
    if isinstance(node, exp.Parameter):
        return parameters[int(node.name) - 1].value or ""
    return str(node.this) if isinstance(node, exp.Literal) else None


def plain_pattern(text: str, escape: str) -> str:
    r"""A pattern of LIKE with `\` as its escape, before wildcards and itself only.

    >>> plain_pattern("a#%%#b", "#"), plain_pattern("a\\b", "#")
    ('a\\%%b', 'a\\\\b')
    """
    found, escaped = "", False
    for character in text:
        if not escaped and character == escape:
            escaped = True
            continue
        plain = character == "\\" or (escaped and character in "%_")
        found += f"\\{character}" if plain else character
        escaped = False
    return found


def whole_constant(node: exp.Expr | None, parameters: Parameters) -> int | None:
    """The value of a constant whole number, or None.

    >>> whole_constant(exp.Neg(this=exp.Literal.number(3)), ())
    -3
    """
    if isinstance(node, exp.Neg):
        inner = whole_constant(node.this, parameters)
        return None if inner is None else -inner
    text = None if node is None else constant_text(node, parameters)
    return int(text) if text is not None and re.fullmatch(r"-?\d{1,9}", text) else None


def not_allowed(part: exp.Expr, why: str) -> Refusal:
    """PV020 for what would be allowed with other values."""
    hint = HINTS.get(why, "It could fail on one person's row; compute it on the released rows instead.")
    if isinstance(part, exp.Anonymous) and part.name.lower() == "age":
        hint = "EXTRACT its years or months, which are numbers, or compare the dates themselves."
    return Refusal(
        "PV020",
        f"{describe(part)} {why} is not allowed on private rows",
        hint=hint,
        position=position(part),
    )


def arithmetic(part: exp.Expr, of: Of, parameters: Parameters) -> str | None:
    parts = [p for p in (part.this, part.args.get("expression")) if p is not None]
    types = {of(p) for p in parts}
    if isinstance(part, (exp.Add, exp.Sub)) and types & (DATED | {Type.INTERVAL}):
        return _dates(part, of, parameters)
    if isinstance(part, exp.Mod) and types & FLOATS:
        return "on floating point numbers"
    numbers = types - {Type.LITERAL}
    return None if numbers and numbers <= NUMBERS else "on values that are no numbers"


def _dates(part: exp.Expr, of: Of, parameters: Parameters) -> str | None:
    if of(part) is Type.OTHER:
        return "between these types"
    moves = [p for p in (part.this, part.expression) if of(p) is Type.INTERVAL]
    if any(interval_text(p, parameters) is None for p in moves):
        return "with an interval that is no plain constant of at most 1000 years"
    return None


def integers(part: exp.Expr, of: Of, parameters: Parameters) -> str | None:
    return None if {of(part.this), of(part.expression)} <= INTEGERS else "on values that are no integers"


def number(part: exp.Expr, of: Of, parameters: Parameters) -> str | None:
    return None if of(part.this) in NUMBERS else "on values that are no numbers"


def rounded(part: exp.Expr, of: Of, parameters: Parameters) -> str | None:
    decimals = part.args.get("decimals")
    if decimals is not None:
        digits = whole_constant(decimals, parameters)
        if (
            of(part.this) not in INTEGERS | {Type.NUMERIC}
            or digits is None
            or not -DIGITS <= digits <= DIGITS
        ):
            return f"of another type than numeric, or to other than {-DIGITS} to {DIGITS} digits,"
    return number(part, of, parameters)


def whole(node: exp.Expr, of: Of, parameters: Parameters) -> bool:
    """Whether PostgreSQL prints each value of an expression below 10^15 as a whole number: no fraction, and no -0.

    >>> hour = exp.Extract(this=exp.Var(this="HOUR"), expression=exp.column("t"))
    >>> whole(hour, lambda _: Type.NUMERIC, ()), whole(exp.column("x"), lambda _: Type.NUMERIC, ())
    (True, False)
    """
    node, found = node.unnest(), of(node)
    parts = [p for p in (node.this, node.args.get("expression")) if isinstance(p, exp.Expr)]
    if found in INTEGERS or found not in (Type.NUMERIC, Type.FLOAT8):
        return found in INTEGERS
    if isinstance(node, exp.Extract):
        return node.name.lower() not in ("second", "epoch")
    if isinstance(node, (exp.Floor, exp.Ceil, exp.Round, exp.Trunc)):
        decimals = node.args.get("decimals")
        digits = 0 if decimals is None else whole_constant(decimals, parameters)
        return (found is Type.NUMERIC and digits is not None and digits <= 0) or whole(
            node.this, of, parameters
        )
    if isinstance(node, exp.Cast):
        return not node.args["to"].expressions and whole(node.this, of, parameters)
    if isinstance(node, exp.Mul) and found is Type.FLOAT8:
        # A zero times a negative number would be -0.
        constants = [whole_constant(p, parameters) or 0 for p in parts]
        return max(constants) > 0 and all(whole(p, of, parameters) for p in parts)
    if isinstance(node, (exp.Add, exp.Sub, exp.Mul)):
        return all(whole(p, of, parameters) for p in parts)
    return False


def floating(part: exp.Expr, of: Of, parameters: Parameters) -> str | None:
    return None if of(part.this) in INTEGERS | FLOATS else NOT_DOUBLE


def power(part: exp.Expr, of: Of, parameters: Parameters) -> str | None:
    exponent = part.expression.unnest()
    value = constant_text(exponent.this if isinstance(exponent, exp.Neg) else exponent, parameters)
    if value is None or not re.fullmatch(r"(\d{1,3}(\.\d{1,9})?)?", value):
        return "with an exponent that is no plain constant"
    if of(part.this) is Type.NUMERIC or (of(part.this) in INTEGERS and of(exponent) is Type.NUMERIC):
        return NOT_DOUBLE
    return number(part, of, parameters)


def extract(part: exp.Expr, of: Of, parameters: Parameters) -> str | None:
    found = of(part.expression)
    if found is Type.INTERVAL and not isinstance(part.expression.unnest(), exp.Sub):
        return "of this interval"
    return None if part.name.lower() in FIELDS.get(found, ()) else "of this field"


def truncated(part: exp.Expr, of: Of, parameters: Parameters) -> str | None:
    unit, found = part.args["unit"], of(part.this)
    if unit.find(exp.Parameter) is not None:
        raise Refusal(
            "PV020",
            "function date_trunc with a parameter as its unit is not allowed on private rows",
            hint="The unit decides which groups there are: write it in the text, as 'month'.",
            position=position(part),
        )
    return None if unit.name.lower() in TRUNCATIONS and found in DATED else "with this unit or type"


def zoned(part: exp.Expr, of: Of, parameters: Parameters) -> str | None:
    zone = constant_text(part.args["zone"], parameters)
    if of(part.this) not in STAMPS:
        return "of other than a timestamp"
    if zone is None or not (zone == "" or zone.upper() in time_zones.UTC or time_zones.known(zone)):
        return "with other than a zone such as 'UTC' or 'Europe/Berlin'"
    others = not all(time_zones.at_utc(one) for one in part.this.find_all(exp.AtTimeZone))
    if others and zone.upper() not in time_zones.UTC and time_zones.begun(part) is None:
        return "of a time that is in another zone, or of hours in one,"
    return None


def cast(part: exp.Expr, of: Of, parameters: Parameters) -> str | None:
    to = part.args["to"]
    target, source = CASTS.get(to.this), of(part.this)
    constant = isinstance(part.this, exp.Literal) and to.this == exp.DType.INTERVAL
    if constant:
        return None if interval_text(part, parameters) is not None else "to an interval"
    printed = target is Type.TEXT and source in NUMBERS - INTEGERS
    if printed and not whole(part.this, of, parameters):
        return FRACTION
    if to.this == exp.DType.BPCHAR and not isinstance(part.this, exp.Literal):
        return PADDED
    if target is None or not (printed or source in CAST_FROM[target] | {Type.LITERAL}):
        return "between these types"
    sizes = [whole_constant(size.this, parameters) for size in to.expressions]
    return None if not sizes or _sized(to.this, sizes) else "to a type of this size"


def _sized(target: object, sizes: list[int | None]) -> bool:
    if any(size is None for size in sizes):
        return False
    known = [size for size in sizes if size is not None]
    if target == exp.DType.DECIMAL:
        precision, scale = known[0], known[-1] if len(known) > 1 else 0
        return 0 <= scale <= min(precision, DIGITS) and precision - scale <= 28
    return target == exp.DType.VARCHAR and len(known) == 1 and known[0] > 0


def pattern(part: exp.Expr, of: Of, parameters: Parameters) -> str | None:
    above = part.parent
    while isinstance(above, (exp.Paren, exp.Not)):
        above = above.parent
    return None if isinstance(above, exp.Escape) else _like(part, "\\", of, parameters)


def escape(part: exp.Expr, of: Of, parameters: Parameters) -> str | None:
    escape, inner = constant_text(part.expression, parameters), part.this.unnest()
    if isinstance(inner, exp.Not):
        # The canonical form of NOT LIKE.
        inner = inner.this.unnest()
    if not isinstance(inner, (exp.Like, exp.ILike)) or escape is None or len(escape) != 1:
        return "with this escape"
    return _like(inner, escape, of, parameters)


def _like(part: exp.Expr, escape: str, of: Of, parameters: Parameters) -> str | None:
    if isinstance(part.expression, exp.Null):
        return None
    text = constant_text(part.expression, parameters)
    if text is None:
        return "with a pattern that is no constant"
    if of(part.this) is Type.BYTEA:
        return "of bytes"
    if len(text) > LONGEST_PATTERN or text.count("%") > MOST_WILDCARDS:
        return f"with a pattern of more than {LONGEST_PATTERN:,} characters or {MOST_WILDCARDS} signs %"
    if (len(text) - len(text.rstrip(escape))) % 2:
        raise Refusal("22025", "LIKE pattern must not end with escape character", position=position(part))
    return None


def matched(part: exp.Expr, of: Of, parameters: Parameters) -> str | None:
    text = constant_text(part.expression, parameters)
    if of(part.this) not in TEXTUAL or text is None:
        return "with a pattern that is no constant"
    found = regexp.tokens(text or "x")
    if found is None:
        return _unread(text)
    if not isinstance(part, exp.RegexpReplace):
        return None
    replacement = constant_text(part.args["replacement"], parameters)
    modifiers = part.args.get("modifiers")
    if modifiers is not None and constant_text(modifiers, parameters) != "g":
        return "with other flags than g"
    if not regexp.settled(found):
        return UNSETTLED
    # Engines differ on whether an empty part follows one that is not.
    if modifiers is not None and replacement and regexp.may_be_empty(found):
        return "with the flag g, a replacement and a pattern that is found between characters"
    plain = replacement is not None and "\\" not in replacement and len(replacement) <= LONGEST
    return None if plain else "with this replacement"


def _unread(pattern: str) -> str:
    return LOCAL if re.search(r"\[:|\\[wWsSmMyY]", pattern) else UNREAD


def substring(part: exp.Expr, of: Of, parameters: Parameters) -> str | None:
    if part.args.get("start") is None:
        return "without the place where it starts"
    places = [p for p in (part.args["start"], part.args.get("length")) if p is not None]
    if len(places) == 1 and of(places[0]) in TEXTUAL:
        return _extracted(part, of, parameters)
    return "with these places" if any(of(p) not in INTEGERS for p in places) else text(part, of, parameters)


def _extracted(part: exp.Expr, of: Of, parameters: Parameters) -> str | None:
    pattern = constant_text(part.args["start"], parameters)
    if of(part.this) not in TEXTUAL or pattern is None:
        return "with a pattern that is no constant"
    found = regexp.tokens(pattern or "x")
    if found is None:
        return _unread(pattern)
    return None if regexp.extracts(found) else UNSETTLED_PART


def text(part: exp.Expr, of: Of, parameters: Parameters) -> str | None:
    return None if of(part.this) in TEXTUAL else NOT_TEXT


def joined(part: exp.Expr, of: Of, parameters: Parameters) -> str | None:
    parts = part.expressions or [part.this, part.expression]
    nodes = walk(part)
    spend(len(nodes))
    if sum(isinstance(node, exp.Column) for node in nodes) > MOST_JOINED:
        return f"of more than {MOST_JOINED} columns"
    known = all(of(p) in JOINED or whole(p, of, parameters) for p in parts)
    return None if known else NOT_TEXT


def separated(part: exp.Expr, of: Of, parameters: Parameters) -> str | None:
    if len(part.expressions) < 2:
        return "with fewer than two arguments"
    separator = part.expressions[0].unnest()
    text = constant_text(separator, parameters)
    null = isinstance(separator, exp.Parameter) and parameters[int(separator.name) - 1].null
    if text is None or null or len(text) > LONGEST or of(separator) not in TEXTUAL:
        return f"with another separator than a constant of at most {LONGEST} characters"
    return joined(part, of, parameters)


def cut(part: exp.Expr, of: Of, parameters: Parameters) -> str | None:
    return "with this length" if of(part.expression) not in INTEGERS else text(part, of, parameters)


def replaced(part: exp.Expr, of: Of, parameters: Parameters) -> str | None:
    texts = [constant_text(part.args[name], parameters) for name in ("expression", "replacement")]
    if any(text is None or len(text) > LONGEST for text in texts):
        return f"with other than constants of at most {LONGEST} characters"
    return text(part, of, parameters)


def split(part: exp.Expr, of: Of, parameters: Parameters) -> str | None:
    delimiter = constant_text(part.args["delimiter"], parameters)
    index = part.args["part_index"]
    known = isinstance(index, exp.Parameter) and not constant_text(index, parameters)
    if delimiter is None or (not known and whole_constant(index, parameters) in (None, 0)):
        return "with other than constants"
    waiting = isinstance(part.args["delimiter"].unnest(), exp.Parameter)
    return text(part, of, parameters) if delimiter or waiting else "with an empty delimiter"


def padded(part: exp.Expr, of: Of, parameters: Parameters) -> str | None:
    length, fill = part.expression, part.args.get("fill_pattern")
    plain = isinstance(length, exp.Literal) and 0 < (whole_constant(length, parameters) or 0) <= LONGEST
    if length.args.get("is_string") or not plain:
        return f"to other than a written length of 1 to {LONGEST}"
    # With an empty padding, DuckDB raises for texts that are too short.
    if fill is not None and not (isinstance(fill, exp.Literal) and fill.is_string and fill.this):
        return "with other than a written text"
    return text(part, of, parameters)


def found(part: exp.Expr, of: Of, parameters: Parameters) -> str | None:
    other = part.args.get("substr") or part.args["expression"]
    return text(part, of, parameters) if of(other) in TEXTUAL else NOT_TEXT


def bucket(part: exp.Expr, of: Of, parameters: Parameters) -> str | None:
    given = [part.args.get(name) for name in ("min_value", "max_value", "num_buckets")]
    if any(one is None for one in given):
        return "with fewer than four arguments"
    low, high = (_plain_number(part.args[name], parameters) for name in ("min_value", "max_value"))
    buckets = whole_constant(part.args["num_buckets"], parameters)
    if low is None or high is None or buckets is None or not low < high or not 0 < buckets <= 10**6:
        return "with other than constants low < high and a number of buckets"
    return number(part, of, parameters)


def _plain_number(node: exp.Expr, parameters: Parameters) -> float | None:
    node = node.unnest()
    text = constant_text(node.this if isinstance(node, exp.Neg) else node, parameters)
    if text is None or not re.fullmatch(r"-?\d{1,15}(\.\d{1,9})?", text):
        return None
    return -float(text) if isinstance(node, exp.Neg) else float(text)


def shown(part: exp.Expr, of: Of, parameters: Parameters) -> str | None:
    text = part.args["format"].name if isinstance(part.args["format"], exp.Literal) else ""
    plain = TO_CHAR.fullmatch(text) if "%" in text else time_format.pieces(text)
    if of(part.this) not in DATED or not plain:
        return f"of other than dates with {', '.join(time_format.PATTERNS)}"
    return None


def binned(part: exp.Expr, of: Of, parameters: Parameters) -> str | None:
    if of(part.expression) not in STAMPS:
        return "of other than a timestamp"
    if bins(part, parameters) is None:
        return (
            "with other than a constant stride without months, and a constant origin of the years 1 to 9999,"
        )
    return None


def bins(node: exp.Expr, parameters: Parameters) -> tuple[int, int] | None:
    """The stride of date_bin and its origin, counted since 1970, in microseconds; None for those that are not allowed.

    Parameters without their values yet have some.

    >>> day, since = exp.Literal.string("1 day"), exp.Literal.string("1970-01-02")
    >>> bins(exp.DateBin(this=day, expression=exp.column("x"), origin=since), ())
    (86400000000, 86400000000)
    """
    texts = [_text_of(part, parameters) for part in (node.this, node.args["origin"])]
    stride = measured("1 day" if texts[0] == "" else texts[0] or "")
    origin = moment_of("1970-01-01" if texts[1] == "" else texts[1] or "")
    if (
        stride is None
        or origin is None
        or stride[0]
        or not 0 < (micros := stride[1] * DAY * 10**6 + stride[2]) <= 10**16
    ):
        return None
    return micros, int(origin * 10**6)


def _text_of(node: exp.Expr, parameters: Parameters) -> str | None:
    """The text of a constant of a type."""
    node = node.unnest()
    if isinstance(node, exp.Interval):
        return interval_text(node, parameters)
    return constant_text(node.this if isinstance(node, exp.Cast) else node, parameters)


def similar(part: exp.Expr, of: Of, parameters: Parameters) -> str | None:
    return "with a pattern that is not written down, or has more than characters, sets, % _ ( ) | * + ? and {m,n},"


def named(part: exp.Expr, of: Of, parameters: Parameters) -> str | None:
    types, name = [of(p) for p in part.expressions], part.name.lower()
    if name == "age":
        within = isinstance(part.parent, exp.Extract) and len(types) == 2
        return None if within and DATED.issuperset(types) else "outside of EXTRACT, or of these types,"
    if name == "to_timestamp":
        return None if len(types) == 1 and NUMBERS.issuperset(types) else "of other than seconds since 1970"
    if name == "make_date":
        return None if len(types) == 3 and INTEGERS.issuperset(types) else "with these arguments"
    return "with other than a list of constants" if name in ("some", "all") else "with these arguments"


def alike(part: exp.Expr, of: Of, parameters: Parameters) -> str | None:
    return _one_of([part.this, *part.expressions], of)


def branches(part: exp.Expr, of: Of, parameters: Parameters) -> str | None:
    default = part.args.get("default")
    return _one_of([*(i.args["true"] for i in part.args["ifs"]), *([] if default is None else [default])], of)


def _one_of(values: list[exp.Expr], of: Of) -> str | None:
    """Why a value cannot be one of several: engines convert values of other types than these as rows have them."""
    types = {of(value) for value in values} - {Type.LITERAL}
    return None if len(types) <= 1 or types <= NUMBERS or types <= DATED else "of different types"


def typed(part: exp.Expr, of: Of, parameters: Parameters) -> str | None:
    return "of a constant without a type" if of(part.this) is Type.LITERAL else None


def interval(part: exp.Expr, of: Of, parameters: Parameters) -> str | None:
    return None if interval_text(part, parameters) is not None else "of this length"


def searched(part: exp.Expr, of: Of, parameters: Parameters) -> str | None:
    text = part.expression.unnest()
    # NULL is in no array and not known to be outside of one, but it is outside of an empty one.
    null = isinstance(text, exp.Parameter) and parameters[int(text.name) - 1].null
    known = isinstance(text, (exp.Literal, exp.Parameter)) and of(text) in TEXTUAL and not null
    return None if known and of(part.this) is Type.TEXT_ARRAY else "of other than a text in a column of texts"


def only_listed(part: exp.Expr, of: Of, parameters: Parameters) -> str | None:
    return "with other than a list of constants"
