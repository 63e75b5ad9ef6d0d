"""Random statements over the data set, of parts that can be left out one by one."""

from __future__ import annotations

import datetime as dt
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from random import Random

from tests.truth.data import KINDS, LEVELS

TEXT, CHAR, ENUM, INT, NUM, FLOAT, DATE, TIME, ZONED, BOOL = (
    *("text", "char", "enum", "int", "num", "float", "date", "time", "zoned", "bool"),
)
COLUMNS = {
    "people": {
        **{"colour": TEXT, "lev": ENUM, "code": CHAR, "name": TEXT, "age": INT, "bal": NUM, "score": FLOAT},
        **{"born": DATE, "ok": BOOL},
    },
    "events": {
        **{"kind": TEXT, "item": INT, "amount": NUM, "n": INT, "seen": TIME, "stamp": ZONED},
    },
    "items": {"title": TEXT, "class": TEXT, "weight": NUM, "since": DATE, "lev": ENUM},
    "classes": {"family": TEXT, "code": CHAR},
}
CONSTANTS: dict[str, tuple[str, ...]] = {
    TEXT: (
        *(
            "'red'",
            "'redx'::varchar(3)",
            "CAST('bluegreen' AS varchar(4))",
            "'re' || 'd'",
            "'view'::text",
            "'Buy'",
        ),
        *(
            "E'bu\\x79'",
            "U&'\\0062uy'",
            "upper('straße')",
            "lower('RED')",
            "'Straße'",
            "left('redness', 3)",
            "'food'",
        ),
        *(
            "trim('  red ')",
            "concat('gre', 'en')",
            "$$blue$$",
            "initcap('tee')",
            "'Öl'",
            "'müller'",
            "'MÜLLER'",
        ),
        *(
            "'redx'::char(3)",
            "'ab  '::char(4)",
            "substring('viewer' from 1 for 4)",
            "'rot'::bpchar",
            "''",
            "'x'",
        ),
        *(
            "replace('rod', 'o', 'e')",
            "'σας'",
            "(SELECT 'red')",
            "CASE WHEN true THEN 'blue' END",
            "'greens'::name",
        ),
        *(
            "(ARRAY['red','blue'])[2]",
            "coalesce(NULL, 'green')",
            "format('%s', 'red')",
            "12::text",
            "'12.50'",
        ),
    ),
    CHAR: (
        "'ab'",
        "'ab  '",
        "'abcd'",
        "'ab'::char(4)",
        "'abcdef'::char(4)",
        "'x '::char(2)",
        "'Ä'",
        "'ab '::varchar",
    ),
    ENUM: ("'low'", "'medium'", "'high'", "'none'", "'medium'::level", "CAST('high' AS level)"),
    INT: (
        *(
            "0",
            "3",
            "5",
            "-1",
            "7 / 2",
            "'4'",
            "2.5::int",
            "3.5::int",
            "CAST('7' AS smallint)",
            "5 % 3",
            "1e1::int",
        ),
        *(
            "length('straße')",
            "ascii('a') - 90",
            "round(4.5)::int",
            "(SELECT 6)",
            "abs(-8)",
            "b'101'::int",
            "0x9",
        ),
    ),
    NUM: (
        *(
            "0",
            "12.5",
            "-3.25",
            "12.345::numeric(10,1)",
            "CAST(99.95 AS numeric(3,0))",
            "'2.500'",
            "7 / 2.0",
            "1e2",
        ),
        *(
            "round(2.345, 2)",
            "2 ^ 3",
            "sqrt(16.0)",
            "0.1 + 0.2",
            "'1.005'::numeric(4,2)",
            "div(9, 2)",
            "-0.004::numeric(3,2)",
        ),
    ),
    FLOAT: (
        "0",
        "2.5",
        "-0.5",
        "1e1",
        "'0.1'::real",
        "0.1::double precision + 0.2",
        "CAST(2.4999 AS real)",
        "sqrt(6.25)",
    ),
    DATE: (
        *("'1990-02-01'", "date '1990-03-01'", "'1990-06-30'::date", "to_date('01.02.1990', 'DD.MM.YYYY')"),
        *(
            "make_date(1990, 1, 31)",
            "(date '1990-01-31' + interval '1 month')::date",
            "'1990-12-31 23:59'::date",
        ),
        *(
            "date '1990-05-01' + 7",
            "date_trunc('month', date '1990-07-20')::date",
            "'19900401'",
            "'infinity'::date",
        ),
        *("'Feb 1, 1990'::date", "'2023-06-28'", "(date '1990-03-31' - interval '1 month')::date"),
    ),
    TIME: (
        *("'2024-02-29'", "timestamp '2024-02-28 23:59:59'", "'2024-02-28 23:59:59.6'::timestamp(0)"),
        *(
            "'2024-07-01 12:00'::timestamp",
            "timestamp '2024-01-31' + interval '1 month'",
            "date '2024-05-05'",
        ),
        *(
            "'2024-03-31 02:30+02'::timestamp",
            "date_trunc('week', timestamp '2024-08-08')",
            "'-infinity'::timestamp",
        ),
        *(
            "interval '36 hours' day + timestamp '2024-09-01'",
            "timestamp(2) '2024-02-28 23:59:58.999'",
            "to_timestamp(0)::timestamp",
        ),
    ),
    ZONED: (
        *(
            "'2024-03-31 01:30 Europe/Berlin'",
            "timestamptz '2024-06-01'",
            "'2024-02-28 23:59:59.6+00'::timestamptz(0)",
        ),
        *(
            "timestamp '2024-07-01' AT TIME ZONE 'America/New_York'",
            "to_timestamp(1711846800)",
            "'2024-10-27 01:00Z'",
        ),
    ),
    BOOL: ("true", "false", "'t'::bool", "'no'::boolean", "1 = 1", "NULL::bool"),
}
"""Constants by type, in the spellings that people write."""
PARAMETERS: dict[str, tuple[str, ...]] = {
    TEXT: ("text:red", "text:Buy", "text:MÜLLER", "text:"),
    CHAR: ("text:ab", "text:ab  "),
    ENUM: ("text:medium", "text:none"),
    INT: ("int:3", "text:5", "int:-1"),
    NUM: ("numeric:12.5", "text:-3.25", "numeric:2.5004"),
    FLOAT: ("float:2.5", "text:0.1"),
    DATE: ("date:1990-03-01", "text:1990-06-30"),
    TIME: ("timestamp:2024-02-28 23:59:59.500", "text:2024-07-01"),
    ZONED: ("text:2024-03-31 01:30+00",),
    BOOL: ("bool:true", "text:f"),
}
"""Parameters by type of what they are compared with: a value, as a text of unknown type or binary in a type."""
PARAMETER = re.compile(r"\?\[(\w+):([^\]]*)\]")
"""A parameter where it stands."""
READ: dict[str, Callable[[str], object]] = {
    **{"text": str, "int": int, "numeric": Decimal, "float": float, "bool": "true".__eq__},
    **{"date": dt.date.fromisoformat, "timestamp": dt.datetime.fromisoformat},
}
TEXTS: tuple[str, ...] = (
    *(
        "lower({})",
        "upper({})",
        "initcap({})",
        "left({}, 2)",
        "right({}, -1)",
        "substr({}, 2, 3)",
        "trim({})",
    ),
    *(
        "replace({}, 'e', 'E')",
        "reverse({})",
        "{} || 'x'",
        "concat({}, '-', NULL)",
        "lpad({}, 6, '*')",
        "rtrim({}, 'der')",
    ),
    *(
        "translate({}, 'rbe', 'RB')",
        "split_part({}, 'e', 1)",
        "regexp_replace({}, '[aeiou]', '', 'g')",
        "{}::varchar(3)",
    ),
    *(
        "substring({} from '^..')",
        "coalesce({}, 'none')",
        "nullif({}, 'red')",
        "{}::char(3)",
        "overlay({} placing 'X' from 2)",
    ),
    *(
        "repeat(left({}, 1), 2)",
        "md5({})",
        "regexp_replace({}, '(.)(.)', '\\2\\1')",
        "btrim({}, 'rw')",
        "{}::text",
    ),
)
NUMBERS: tuple[str, ...] = (
    *(
        "{} + 1",
        "{} * 2",
        "-{}",
        "abs({})",
        "{} % 3",
        "{} / 2",
        "round({})",
        "ceil({})",
        "floor({})",
        "sign({})",
    ),
    *("{}::numeric(6,1)", "{}::int", "greatest({}, 3)", "least({}, 2.5)", "coalesce({}, 0)", "nullif({}, 0)"),
    *(
        "round({}::numeric, 1)",
        "trunc({}::numeric, -1)",
        "mod({}::int, 4)",
        "width_bucket({}, 0, 10, 5)",
        "{} ^ 2",
    ),
    *(
        "sqrt(abs({}))",
        "{}::text::numeric",
        "power({}, 2)",
        "div({}::numeric, 3)",
        "{}::smallint",
        "{}::real",
    ),
)
PATTERNS = ("'r%'", "'%e%'", "'_u%'", "'%ß%'", "'B%'", "'%\\_%'", "'MÜ%'", "'%a%'", "''", "'%.%'", "'a__d'")
REGEXPS = (
    *(
        "'^r'",
        "'e+d$'",
        "'[[:alpha:]]+'",
        "'^[[:upper:]]'",
        "'\\d'",
        "'\\w{3,}'",
        "'ü'",
        "'M[üÜ]'",
        "'a|b'",
        "'^.{3}$'",
    ),
    *(
        "'(b)uy'",
        "'[^a-z]'",
        "'\\s'",
        "'\\mred\\M'",
        "'ß'",
        "'straSSe'",
        "'^$'",
        "'[[:space:]]'",
        "'Å'",
        "'[a-f]{2}'",
    ),
)
PARTS = (
    "year",
    "month",
    "day",
    "dow",
    "isodow",
    "doy",
    "week",
    "isoyear",
    "quarter",
    "hour",
    "minute",
    "second",
)
CALLS_OF_ONE = ("COUNT({})", "SUM({})", "AVG({})", "COUNT(DISTINCT {})")
SPREADS = ("STDDEV({})", "VAR_POP({})")


@dataclass(frozen=True)
class Source:
    """A FROM clause: the columns by their qualified names; `unit`: the person's column, empty where all is public;
    `ctes`: what stands before it; `without`: the same without conditions on private columns."""

    text: str
    columns: dict[str, str]
    unit: str
    ctes: tuple[str, ...] = ()
    without: str = ""

    def of(self, *types: str) -> list[str]:
        """The columns of these types."""
        return [name for name, of in self.columns.items() if of in types]


@dataclass(frozen=True)
class Statement:
    """A statement of parts; what is left out leaves a statement."""

    source: Source
    keys: tuple[str, ...] = ()
    calls: tuple[str, ...] = ("COUNT(*)",)
    where: tuple[str, ...] = ()
    having: str = ""
    ordered: bool = False

    @property
    def sql(self) -> str:
        """Its text."""
        places = itertools.count(1)
        return PARAMETER.sub(lambda _: f"${next(places)}", self._written)

    @property
    def values(self) -> list[object]:
        """Those of its parameters, in the order of their places."""
        return [READ[of](text) for of, text in PARAMETER.findall(self._written)]

    @property
    def _written(self) -> str:
        with_ = f"WITH {', '.join(self.source.ctes)} " if self.source.ctes else ""
        text = f"{with_}SELECT {', '.join([*self.keys, *self.calls])} FROM {self.source.text}"
        if self.where:
            text += f" WHERE {' AND '.join(self.where)}"
        if self.keys:
            places = ", ".join(str(n + 1) for n in range(len(self.keys)))
            text += f" GROUP BY {places}"
            if self.having:
                text += f" HAVING {self.having}"
            if self.ordered:
                text += f" ORDER BY {places}"
        return text

    def smaller(self) -> list[Statement]:
        """The same with one part less, or with a simpler one."""
        found = []
        for name in ("keys", "where"):
            parts = getattr(self, name)
            found += [replace(self, **{name: parts[:n] + parts[n + 1 :]}) for n in range(len(parts))]
        if len(self.calls) > 1:
            found += [
                replace(self, calls=self.calls[:n] + self.calls[n + 1 :]) for n in range(len(self.calls))
            ]
        if self.calls != ("COUNT(*)",):
            found.append(replace(self, calls=("COUNT(*)",)))
        if self.having:
            found.append(replace(self, having=""))
        if self.ordered:
            found.append(replace(self, ordered=False))
        return found


class Generator:
    """Statements drawn by `rng`. `views`: the owner's views, by name with their columns; `enums`: whether there are
    enumerated types, which are texts otherwise."""

    def __init__(
        self, rng: Random, views: dict[str, dict[str, str]] | None = None, *, enums: bool = True
    ) -> None:
        self._rng, self._views = rng, views or {}
        self._columns = {
            table: {column: of if enums or of != ENUM else TEXT for column, of in columns.items()}
            for table, columns in COLUMNS.items()
        }

    def statement(self) -> Statement:
        """The next one."""
        source = self._source()
        keys = tuple(dict.fromkeys(self._key(source) for _ in range(self._rng.choice((0, 0, 1, 1, 2)))))
        calls = tuple(dict.fromkeys(self._call(source) for _ in range(self._rng.choice((1, 1, 2)))))
        where = tuple(self._condition(source) for _ in range(self._rng.choice((0, 1, 1, 1, 2))))
        having = self._rng.choice(("", "", "", "COUNT(*) > 20")) if keys else ""
        return Statement(source, keys, calls, where, having, bool(keys) and self._rng.random() < 0.5)

    # Where rows come from.

    def _source(self) -> Source:
        makers: tuple[tuple[int, Callable[[], Source]], ...] = (
            (6, lambda: self._table("people", "p")),
            (5, lambda: self._table("events", "e")),
            (3, self._joined),
            (4, self._with_public),
            (2, self._filled),
            (2, self._per_person),
            (2, self._cte),
            (2, self._united),
            (2 if self._views else 0, self._view),
        )
        return self._rng.choice([make for weight, make in makers for _ in range(weight)])()

    def _table(self, name: str, alias: str) -> Source:
        columns = {f"{alias}.{column}": of for column, of in self._columns[name].items()}
        return Source(f"{name} {alias}", columns, f"{alias}.id")

    def _view(self) -> Source:
        name = self._rng.choice(list(self._views))
        return Source(f"{name} v", {f"v.{c}": t for c, t in self._views[name].items()}, "v.id")

    def _joined(self) -> Source:
        people, events = self._table("people", "p"), self._table("events", "e")
        side = self._rng.choice(("JOIN", "LEFT JOIN"))
        on = f"people p {side} events e ON p.id = e.id"
        more = f" AND {self._condition(events)}" if self._rng.random() < 0.3 else ""
        return Source(on + more, people.columns | events.columns, "p.id", without=on)

    def _with_public(self) -> Source:
        """Events beside what the public tables say of them."""
        side, more = self._rng.choice(("JOIN", "LEFT JOIN", "LEFT JOIN")), self._rng.random()
        columns = {f"i.{c}": t for c, t in self._columns["items"].items()}
        text, on = f"events e {side} items i", "i.item = e.item"
        if more < 0.2:
            on += f" AND {self._condition(Source('', columns, ''))}"
        text += f" ON {on}"
        if more > 0.6:
            text += f" {self._rng.choice(('JOIN', 'LEFT JOIN'))} classes c ON c.class = i.class"
            columns |= {f"c.{c}": t for c, t in self._columns["classes"].items()}
        return Source(text, self._table("events", "e").columns | columns, "e.id")

    def _filled(self) -> Source:
        """All rows of a public table, whether somebody has such a row or not."""
        events = self._table("events", "e")
        columns = {f"i.{c}": t for c, t in self._columns["items"].items()} | events.columns
        on = "items i LEFT JOIN events e ON e.item = i.item"
        more = f" AND {self._condition(events)}" if self._rng.random() < 0.5 else ""
        return Source(on + more, columns, "e.id", without=on)

    def _per_person(self) -> Source:
        """What is said of each person."""
        events = self._table("events", "e")
        call = self._rng.choice(
            ("COUNT(*)", "MAX(e.n)", "SUM(e.n)", "MIN(e.amount)", "COUNT(DISTINCT e.kind)")
        )
        where = f" WHERE {self._condition(events)}" if self._rng.random() < 0.5 else ""
        inner = f"SELECT e.id, {call} AS x FROM events e{where} GROUP BY e.id"
        if self._rng.random() < 0.5:
            return Source(f"({inner}) s", {"s.x": INT}, "s.id")
        people = self._table("people", "p")
        side = self._rng.choice(("JOIN", "LEFT JOIN"))
        return Source(f"people p {side} ({inner}) s ON s.id = p.id", people.columns | {"s.x": INT}, "p.id")

    def _cte(self) -> Source:
        """Computed columns, filtered in a WITH."""
        table, alias = self._rng.choice((("people", "p"), ("events", "e")))
        source = self._table(table, alias)
        items, columns = [], {}
        for number in range(self._rng.choice((1, 2, 3))):
            of = self._rng.choice((TEXT, TEXT, INT, NUM, BOOL, DATE))
            items.append(f"{self._value(source, of)} AS c{number}")
            columns[f"w.c{number}"] = of
        where = f" WHERE {self._condition(source)}" if self._rng.random() < 0.5 else ""
        cte = f"w AS (SELECT {alias}.id, {', '.join(items)} FROM {source.text}{where})"
        return Source("w", columns, "w.id", (cte,))

    def _united(self) -> Source:
        """The same columns of two parts."""
        one, other = self._table("people", "p"), self._table("events", "e")
        texts = self._value(one, TEXT), self._value(other, TEXT)
        numbers = self._value(one, INT), self._value(other, INT)
        parts = [
            f"SELECT {source.unit} AS id, {text} AS a, {number} AS b FROM {source.text}"
            f" WHERE {self._condition(source)}"
            for source, text, number in zip((one, other), texts, numbers, strict=True)
        ]
        return Source(f"({' UNION ALL '.join(parts)}) u", {"u.a": TEXT, "u.b": INT}, "u.id")

    # What is asked of them.

    def _key(self, source: Source) -> str:
        roll = self._rng.random()
        if roll < 0.35:
            return self._rng.choice(list(source.columns))
        if roll < 0.5:
            return f"CASE WHEN {self._condition(source)} THEN 'p' ELSE 'q' END"
        if roll < 0.6:
            return f"({self._condition(source)})"
        of = self._rng.choice((TEXT, TEXT, INT, DATE, NUM, CHAR))
        return self._value(source, of)

    def _call(self, source: Source) -> str:
        roll = self._rng.random()
        if roll < 0.3:
            return "COUNT(*)"
        if roll < 0.42:
            return f"COUNT(DISTINCT {source.unit})"
        if roll < 0.5 and source.of(INT):
            call = self._rng.choice(SPREADS).format(self._rng.choice(source.of(INT)))
        else:
            value = self._value(source, self._rng.choice((INT, NUM, NUM)))
            call = self._rng.choice(CALLS_OF_ONE).format(value)
        if self._rng.random() < 0.25:
            call += f" FILTER (WHERE {self._condition(source)})"
        return call

    # Values.

    def _value(self, source: Source, of: str) -> str:
        """An expression about a type; a constant where no column fits."""
        columns = source.of(
            *{TEXT: (TEXT, CHAR), NUM: (NUM, INT, FLOAT), DATE: (DATE, TIME, ZONED)}.get(of, (of,))
        )
        if not columns or self._rng.random() < 0.06:
            return self._constant(of if of in CONSTANTS else TEXT)
        column = self._rng.choice(columns)
        roll = self._rng.random()
        if roll < 0.3:
            return column
        if roll < 0.4:
            other = self._value(source, of) if self._rng.random() < 0.5 else self._constant(of)
            return f"CASE WHEN {self._condition(source)} THEN {column} ELSE {other} END"
        if roll < 0.48:
            return f"COALESCE({column}, {self._constant(of)})"
        if of in (TEXT, CHAR):
            form = self._rng.choice(TEXTS).format(column)
            return self._rng.choice(TEXTS).format(form) if self._rng.random() < 0.2 else form
        if of in (INT, NUM, FLOAT):
            texts, dates = source.of(TEXT, CHAR), source.of(DATE, TIME, ZONED)
            if texts and roll > 0.9:
                text = self._rng.choice(texts)
                return self._rng.choice(
                    ("length({})", "strpos({}, 'e')", "octet_length({})", "ascii({})")
                ).format(text)
            if dates and roll > 0.8:
                return f"EXTRACT({self._rng.choice(PARTS)} FROM {self._rng.choice(dates)})"
            form = self._rng.choice(NUMBERS).format(column)
            return (
                f"({self._rng.choice(NUMBERS).format(f'({form})')})"
                if self._rng.random() < 0.3
                else f"({form})"
            )
        if of in (DATE, TIME, ZONED):
            unit = self._rng.choice(("month", "week", "quarter", "day", "year"))
            return self._rng.choice(
                (
                    *(f"date_trunc('{unit}', {column})", f"{column}::date", f"{column} + interval '1 month'"),
                    *(
                        f"to_char({column}, 'YYYY-MM')",
                        f"{column} - interval '1 day'",
                        f"to_char({column}, 'FMDay DD')",
                    ),
                    *(
                        f"{column}::timestamp",
                        f"({column}::date + 1)",
                        f"({column}::date - date '1990-01-01')",
                    ),
                    *(
                        f"{column}::timestamptz AT TIME ZONE 'Europe/Berlin'",
                        f"{column}::timestamp(0)",
                        f"{column}::text",
                    ),
                )
            )
        return f"({self._condition(source)})" if of == BOOL else column

    def _constant(self, of: str) -> str:
        if self._rng.random() < 0.1:
            return f"?[{self._rng.choice(PARAMETERS[of])}]"
        return self._rng.choice(CONSTANTS[of])

    def _condition(self, source: Source, depth: int = 0) -> str:
        roll = self._rng.random()
        if depth < 2 and roll < 0.08:
            word = self._rng.choice(("AND", "OR", "OR"))
            return f"({self._condition(source, depth + 1)} {word} {self._condition(source, depth + 1)})"
        if depth < 2 and roll < 0.12:
            return f"NOT ({self._condition(source, depth + 1)})"
        if roll < 0.16 and source.unit:
            events = Source("events x", {f"x.{c}": t for c, t in self._columns["events"].items()}, "x.id")
            inner = f"SELECT x.id FROM events x WHERE {self._condition(events, 2)}"
            form = self._rng.choice(("{0} IN ({1})", "EXISTS ({1} AND x.id = {0})", "{0} NOT IN ({1})"))
            return form.format(source.unit, inner)
        column = self._rng.choice(list(source.columns))
        of = source.columns[column]
        value = column
        if roll > 0.7 and of in (TEXT, INT, NUM, CHAR):
            value = self._computed(column, of)
        return self._compared(value, of)

    def _computed(self, column: str, of: str) -> str:
        form = self._rng.choice(TEXTS if of in (TEXT, CHAR) else NUMBERS).format(column)
        return f"({form})"

    def _compared(self, value: str, of: str) -> str:
        one, two = self._constant(of), self._constant(of)
        sign = self._rng.choice(("=", "=", "=", "<>", "<", ">=", "<=", ">"))
        forms: list[str] = [f"{value} {sign} {one}"] * 4 + [
            f"{value} IN ({one}, {two})",
            f"{value} NOT IN ({one}, {two})",
            f"{value} BETWEEN {one} AND {two}",
            f"{value} = ANY (ARRAY[{one}, {two}])",
            f"{value} IS DISTINCT FROM {one}",
            f"{value} IS NULL",
            f"{value} IS NOT NULL",
            f"{one} {sign} {value}",
            f"{value} IN (VALUES ({one}), ({two}))",
            f"COALESCE({value}, {two}) {sign} {one}",
            f"CASE WHEN {value} {sign} {one} THEN 1 ELSE 0 END = 1",
        ]
        if of in (TEXT, CHAR):
            pattern, regexp = self._rng.choice(PATTERNS), self._rng.choice(REGEXPS)
            forms += [
                f"{value} LIKE {pattern}",
                f"{value} ILIKE {pattern}",
                f"{value} NOT LIKE {pattern}",
            ] * 2
            forms += [f"{value} ~ {regexp}", f"{value} ~* {regexp}", f"{value} !~ {regexp}"] * 2
            forms += [
                f"{value} SIMILAR TO '(r|b)%'",
                f"starts_with({value}, 're')",
                f'{value} COLLATE "C" {sign} {one}',
            ]
        if of == BOOL:
            forms += [
                value,
                f"NOT {value}",
                f"{value} IS TRUE",
                f"{value} IS NOT FALSE",
                f"{value} IS UNKNOWN",
            ] * 3
        if of in (DATE, TIME, ZONED):
            forms += [
                f"EXTRACT({self._rng.choice(PARTS)} FROM {value}) = {self._rng.choice(('1', '6', '2024', '30'))}",
                f"date_trunc('month', {value}) {sign} {one}",
                f"{value} - interval '1 day' {sign} {one}",
                f"{value}::text LIKE '%-01%'",
                f"{value} {sign} {one} AND {value} {sign} {two}",
            ]
        return self._rng.choice(forms)


__all__ = ["KINDS", "LEVELS", "Generator", "Sequence", "Source", "Statement"]
