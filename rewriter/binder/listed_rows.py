"""Public rows that PostgreSQL evaluates before the nodes that read them: derived tables, CTEs, VALUES, calendars.

In:  SELECT d.day, COUNT(*) FROM generate_series('2024-01-01'::date, '2024-01-31', '1 day') AS d(day)
     JOIN events e ON e.ts::date <= d.day GROUP BY d.day
Out: the 31 rows of d, evaluated by the front, as a public source of the node

How many there are, and how long that takes, is bounded; so are their values, which every engine must read alike.
Released rows among them are public too: a node reads those of lower number.

Why: docs/decisions/public-rows-are-evaluated-first.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal, localcontext
from itertools import combinations

from sqlglot import exp

from rewriter.binder.names import item_name
from rewriter.ir.parameter import Parameter
from rewriter.ir.relation import Field, ListedRows, Relation, Source, leaf
from rewriter.ir.trees import alias, cast, data_type, select
from rewriter.ir.types import FLOATS, HELD, INTEGERS, STAMPS, Type, padded, type_named
from rewriter.policy import Column, Table
from rewriter.refusal import Refusal
from rewriter.scalar.array_literal import array_text, elements
from rewriter.syntax.allowlist import position
from rewriter.syntax.pasted import identifier

LISTABLE = INTEGERS | FLOATS | STAMPS | {Type.NUMERIC, Type.TEXT, Type.BOOL, Type.DATE, Type.UUID}
WIDE = 8
"""Up to so many columns pairs of them are tried as keys."""
DECIMALS = 10
"""Of the exact numbers in cells, whose type is DECIMAL(38, 10)."""
MOST_DIGITS = 200_000
"""Of a number of PostgreSQL's."""
_LONG = re.compile(r"-?\d+\.\d{11,}")
_ALIKE = {
    **dict.fromkeys(FLOATS, re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?")),
    **dict.fromkeys((*STAMPS, Type.DATE), re.compile(r"\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d(\.\d+)?(\+00)?)?")),
    Type.NUMERIC: HELD,
}
"""The values that every engine reads as PostgreSQL does."""


def listed_rows(item: exp.Expr, columns: Sequence[tuple[Parameter, exp.Parameter]], name: str) -> Relation:
    """The relation of an item of FROM whose `columns` the front evaluates, as the source `name`.

    Raises Refusal 0A000 for types and values that not every engine reads as PostgreSQL does.
    """
    fields, stored, values = [], [], []
    for number, (column, _) in enumerate(columns):
        of = column.type.removesuffix("[]")
        texts = None if column.value is None else elements(column.value) or []
        if type_named(of) not in LISTABLE or padded(of):
            raise _unlike(column.name, of, item)
        alike = _ALIKE.get(type_named(of))
        if alike is not None and not all(alike.fullmatch(text) for text in texts or () if text is not None):
            raise _unlike(column.name, of, item)
        stored.append(Column(f"c{number}", of))
        fields.append(Field(column.name, leaf(name, f"c{number}")))
        values.append(texts)
    shown = item_name(item)
    table = Table("", shown, tuple(stored), public=True, backend_name=(), keys=_keys(stored, values))
    derived = ListedRows(tuple(form for _, form in columns))
    return Relation((Source(name, table, single=False, derived=derived),), scope=((shown, tuple(fields)),))


def in_postgres(columns: Sequence[Column], texts: Sequence[Sequence[str | None]]) -> exp.Select:
    """SELECT of these rows in PostgreSQL's words: `texts` are the values of each column.

    >>> print(in_postgres([Column("c0", "date")], [["2024-01-01", None]]).sql("postgres"))
    SELECT UNNEST(CAST('{"2024-01-01",NULL}' AS DATE[])) AS "c0"
    """
    shown = []
    for column, values in zip(columns, texts, strict=True):
        array = cast(exp.Literal.string(array_text(values)), data_type(f"{column.type}[]", "postgres"))
        value: exp.Expr = exp.Anonymous(this="UNNEST", expressions=[array])
        if "(" in column.type:  # UNNEST forgets the length of a varchar(20).
            value = cast(value, data_type(column.type, "postgres"))
        shown.append(alias(value, column.name, quoted=True))
    return select(*shown)


def rounded(value: Parameter) -> Parameter:
    """An array of exact numbers with as many decimals as the cells of every engine hold; any other as it is.

    >>> rounded(Parameter("numeric[]", '{"0.33333333333","2",NULL}')).value
    '{"0.3333333333","2",NULL}'
    """
    if type_named(value.type) is not Type.NUMERIC_ARRAY or value.value is None:
        return value
    texts = [t if t is None or not _LONG.fullmatch(t) else _cut(t) for t in elements(value.value) or []]
    return replace(value, value=array_text(texts))


def _cut(number: str) -> str:
    with localcontext(prec=MOST_DIGITS):
        return format(Decimal(number).quantize(Decimal(1).scaleb(-DECIMALS), ROUND_HALF_UP), "f")


def _keys(
    columns: Sequence[Column], values: Sequence[Sequence[str | None] | None]
) -> tuple[frozenset[str], ...]:
    """The columns, or pairs of them, whose values do not repeat; of types of which different texts are different."""
    known = [
        (c.name, v)
        for c, v in zip(columns, values, strict=True)
        if v is not None and type_named(c.type) not in FLOATS | {Type.NUMERIC}
    ]
    sets = [*combinations(known, 1), *(combinations(known, 2) if len(known) <= WIDE else ())]
    found: list[frozenset[str]] = []
    for chosen in sets:
        names = frozenset(name for name, _ in chosen)
        if any(key <= names for key in found):
            continue
        rows = list(zip(*(v for _, v in chosen), strict=True))
        if len(set(rows)) == len(rows):
            found.append(names)
    return tuple(found)


def _unlike(column: str, of: str, item: exp.Expr) -> Refusal:
    return Refusal(
        "0A000",
        f'column "{column}" of these rows cannot be joined with private tables',
        detail=f"Not every value of type {of} means the same on every engine.",
        hint=f"Leave the column out, or CAST({identifier(column)} AS text) in the subquery.",
        position=position(item),
    )
