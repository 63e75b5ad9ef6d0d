"""Statements over the oracle's tables, derived by the productions: what scopes hold, and how clauses are put together.

Nothing here is about how the rewriter answers. Private rows are mostly met on their unit, since a grammar of SQL alone
would hardly ever write what is accepted; how often is a matter of weights (productions.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from random import Random

from tests.oracle.derivation import Derivation, Node, Weights
from tests.oracle.productions import (
    BOOL,
    CALLS,
    CLAUSES,
    CONSTANTS,
    COPY,
    DATE,
    EXPRESSIONS,
    FLOAT,
    INT,
    OF_A_UNIT,
    SPELLINGS,
    STRUCTURE,
    TEXT,
    TIME,
    TYPES,
    WINDOWS,
    Rule,
)

PRIVATE: dict[str, dict[str, str]] = {
    "people": {"city": TEXT, "trade": TEXT, "code": TEXT, "born": INT, "height": FLOAT, "joined": DATE},
    "visits": {
        "visit": INT,
        "place": INT,
        "kind": TEXT,
        "mood": TEXT,
        "cost": FLOAT,
        "points": INT,
        "day": DATE,
        "seen": TIME,
    },
    "notes": {"visit": INT, "word": TEXT, "stars": INT, "weight": FLOAT},
    "cards": {"tier": TEXT, "fee": FLOAT, "since": INT},
}
LINES = {"item": TEXT, "amount": INT, "line": INT}
PUBLIC = {
    "places": {"place": INT, "town": TEXT, "area": TEXT},
    "words": {"word": TEXT, "topic": TEXT},
    "tags": {"place": INT, "tag": TEXT},
}
HOLE = re.compile(r"\{(\w+)\}")
COMMA = "\0"
"""Between items of a from_list; CROSS JOIN where they are in another join."""
DEPTH, LEVELS = 2, 3
"""How deep expressions, and relations, are in each other."""


@dataclass(frozen=True)
class Column:
    """A column's type, and the stored column that it is."""

    type: str
    base: str = ""


@dataclass(frozen=True)
class Scope:
    """What a FROM clause, or a relation in it, gives: its text, the unit of its rows, and columns as they are written.

    `unit` is None for public rows. `alias`: the one alias that it has, if it is one relation. `met`: what WHERE has to
    say so that its rows are of one unit.
    """

    text: str
    unit: str | None
    columns: Mapping[str, Column] = field(default_factory=dict)
    alias: str = ""
    met: tuple[str, ...] = ()

    def of(self, *types: str) -> list[str]:
        """The columns of these types."""
        return [name for name, column in self.columns.items() if column.type in types]


def _holes(rule: Rule) -> frozenset[str]:
    return frozenset(HOLE.findall(rule.text))


_SUBQUERIES = ("correlated", "unit_list", "int_of_unit")


class Statements:
    """Statements over the `visible` columns of each table; `weights` are learned from one to the next."""

    def __init__(self, visible: Mapping[str, frozenset[str]], weights: Weights) -> None:
        self._visible = visible
        self._weights = weights
        self._tables = [t for t in PRIVATE if "person" in visible.get(t, ())]

    def statement(self, rng: Random, guide: Node | None = None) -> tuple[str, Node]:
        """A statement and its derivation."""
        derived = _Derived(self._visible, self._tables, Derivation(rng, self._weights, guide))
        return derived.statement().replace(COMMA, ", "), derived.tree


class _Derived:
    """One statement under way."""

    def __init__(
        self, visible: Mapping[str, frozenset[str]], tables: Sequence[str], derivation: Derivation
    ) -> None:
        self._visible = visible
        self._tables = tables
        self._derivation = derivation
        self._scopes: list[Scope] = []
        self._ctes: list[tuple[str, Scope]] = []
        self._keys: list[str] = []
        self._last = 0
        self._aliases = 0
        self._levels, self._depth = LEVELS, DEPTH

    @property
    def tree(self) -> Node:
        """What was picked."""
        return self._derivation.tree

    # Picks.

    def _rule(self, symbol: str, among: Sequence[str] | None = None) -> str:
        rules = STRUCTURE[symbol]
        return self._derivation.rule(symbol, [r for r in rules if among is None or r.name in among]).name

    @contextmanager
    def _scope(self, scope: Scope) -> Iterator[Scope]:
        self._scopes.append(scope)
        try:
            yield scope
        finally:
            self._scopes.pop()

    @contextmanager
    def _below(self) -> Iterator[None]:
        self._levels -= 1
        try:
            yield
        finally:
            self._levels += 1

    def _alias(self) -> str:
        self._aliases += 1
        return f"t{self._aliases}"

    # Expressions.

    def _expanded(self, symbol: str, rules: Sequence[Rule]) -> str:
        """One of the rules that the scope has columns for, with its holes filled."""
        with self._derivation.node(symbol):
            there = self._there(rules)
            shallow = [rule for rule in there if rule.leaf]
            rule = self._derivation.rule(symbol, (shallow if self._depth <= 0 else there) or shallow or there)
            self._depth -= not rule.leaf
            try:
                return HOLE.sub(lambda found: self._filled(found[1]), rule.text)
            finally:
                self._depth += not rule.leaf

    def _there(self, rules: Sequence[Rule]) -> list[Rule]:
        """The rules that the scope has columns for."""
        return [rule for rule in rules if all(map(self._can, _holes(rule)))]

    def _can(self, hole: str) -> bool:
        scope = self._scopes[-1]
        if hole == "any_column":
            return bool(scope.of(*TYPES))
        if hole.endswith("_column"):
            return bool(scope.of(hole.removesuffix("_column")))
        if hole in CLAUSES:
            return bool(self._there(CLAUSES[hole]))
        if hole in _SUBQUERIES:
            return self._levels > 0 and scope.unit is not None
        if hole.endswith(("_subquery", "_list")):
            return self._levels > 0
        if hole == "grouped_key":
            return bool(self._keys)
        return hole != "unit" or scope.unit is not None

    def _filled(self, hole: str) -> str:
        scope = self._scopes[-1]
        if hole in TYPES:
            return self._expression(hole)
        if hole == "any_column":
            return self._derivation.name(scope.of(*TYPES))
        if hole.endswith("_column"):
            return self._derivation.name(scope.of(hole.removesuffix("_column")))
        if hole.endswith("_constant"):
            return self._derivation.name(CONSTANTS[hole.removesuffix("_constant")])
        if hole == "unit":
            return str(scope.unit)
        if hole == "grouped_key":
            return self._derivation.name(self._keys)
        if hole == "last_item":
            return str(self._last)
        if hole in CLAUSES:
            return self._expanded(hole, CLAUSES[hole])
        return self._subquery(hole)

    def _expression(self, of: str) -> str:
        return self._expanded(f"a_expr {of}", EXPRESSIONS[of])

    def _shallow(self, of: str) -> str:
        """A column, or a constant where there is none of the type."""
        depth, self._depth = self._depth, 0
        try:
            return self._expression(of)
        finally:
            self._depth = depth

    def _subquery(self, hole: str) -> str:
        """A select_with_parens in an expression."""
        with self._below(), self._derivation.node(hole):
            if hole == "unit_list":
                with self._scope(self._aliased(self._table_ref())) as inner:
                    return f"(SELECT {inner.unit} FROM {inner.text}{self._where()})"
            if hole == "correlated":
                return self._correlated()
            if hole == "int_of_unit":
                return self._of_the_unit(INT)
            of, _, form = hole.rpartition("_")
            return self._values(of) if form == "list" else self._scalar(of)

    def _correlated(self) -> str:
        outer = self._scopes[-1]
        kind = self._rule("correlated")
        if kind == "public" and (found := self._met(outer, inner := self._aliased(self._public()))):
            return f"(SELECT 1 FROM {inner.text} WHERE {found})"
        with self._scope(self._aliased(self._table_ref())) as inner:
            more = self._equal(inner, outer) if kind == "the unit and a_expr" else ""
            return f"(SELECT 1 FROM {inner.text}{self._where(self._linked(inner, outer) + more)})"

    def _of_the_unit(self, of: str) -> str:
        """What an aggregate says of the unit's rows in another relation."""
        outer = self._scopes[-1]
        with self._scope(self._aliased(self._table_ref())) as inner:
            call = self._expanded(f"func_expr {of}", OF_A_UNIT[of])
            return f"(SELECT {call} FROM {inner.text}{self._where(self._linked(inner, outer))})"

    def _scalar(self, of: str) -> str:
        outer, kind = self._scopes[-1], self._rule("subquery")
        if kind == "the unit's rows" and outer.unit is not None:
            return self._of_the_unit(of)
        if kind == "released" and of in (INT, FLOAT):
            with self._scope(self._aliased(self._table_ref())) as inner:
                call = "COUNT(*)" if of == INT else f"AVG({self._filled('bounded')})"
                return f"(SELECT {call} FROM {inner.text}{self._where()})"
        with self._scope(self._aliased(self._public())) as inner:
            met = self._met(outer, inner) if kind == "public, correlated" else ""
            least = "bool_and" if of == BOOL else "MIN"
            return f"(SELECT {least}({self._shallow(of)}) FROM {inner.text}{f' WHERE {met}' if met else ''})"

    def _values(self, of: str) -> str:
        """A column of rows, for IN and ANY."""
        kind = self._rule("list")
        if kind == "values_clause" and of in CONSTANTS:
            return f"(VALUES ({self._filled(f'{of}_constant')}), ({self._filled(f'{of}_constant')}))"
        rows = self._table_ref() if kind == "private" else self._public()
        with self._scope(self._aliased(rows)) as inner:
            return f"(SELECT {self._shallow(of)} FROM {inner.text}{self._where()})"

    def _where(self, *conditions: str) -> str:
        with self._derivation.node("where_clause"):
            if self._rule("where_clause") != "empty":
                conditions += (self._expression(BOOL),)
        every = (*self._scopes[-1].met, *conditions)
        return f" WHERE {' AND '.join(every)}" if every else ""

    # Relations.

    def _table_ref(self) -> Scope:
        """A relation of private rows, without its alias; a join is in a subquery of its own or in parentheses."""
        with self._derivation.node("table_ref"):
            among = [r.name for r in STRUCTURE["table_ref"] if self._levels > 0 or r.leaf]
            if not self._ctes:
                among.remove("relation_expr: cte")
            match self._rule("table_ref", among):
                case "select_with_parens":
                    with self._below():
                        made = self._simple_select()
                    return replace(made, text=f"({made.text})")
                case "joined_table":
                    with self._below():
                        return self._joined()
                case "'(' joined_table ')'":
                    with self._below():
                        made = self._joined()
                    return replace(made, text=f"({made.text})")
                case "relation_expr: cte":
                    return dict(self._ctes)[self._derivation.name([name for name, _ in self._ctes])]
            return self._table()

    def _table(self) -> Scope:
        name = self._derivation.name([*self._tables, "visits"] if "visits" in self._tables else self._tables)
        return Scope(name, "person", self._stored(name, PRIVATE[name]))

    def _stored(self, name: str, columns: Mapping[str, str]) -> dict[str, Column]:
        seen = self._visible.get(name, ())
        return {c: Column(of, c) for c, of in columns.items() if c in seen}

    def _aliased(self, rows: Scope) -> Scope:
        """A relation as an item of FROM; what has aliases of its own stays as it is."""
        if rows.alias == "joined":
            return rows
        alias = self._alias()
        return Scope(
            f"{rows.text} {alias}",
            rows.unit and f"{alias}.{rows.unit}",
            {f"{alias}.{name}": column for name, column in rows.columns.items()},
            alias,
        )

    def _side(self) -> Scope:
        """A side of a join."""
        made = self._aliased(self._table_ref())
        return replace(made, text=made.text.replace(COMMA, " CROSS JOIN "))

    def _public(self) -> Scope:
        """Rows of no unit, without their alias."""
        with self._derivation.node("public"):
            kind = self._rule("public")
            name = self._derivation.name([t for t in PUBLIC if t in self._visible])
            columns = self._stored(name, PUBLIC[name])
            if kind == "values_clause" or not columns:
                return Scope(
                    "(SELECT * FROM (VALUES (1, 'a'), (2, NULL), (5, 'b')) v(place, town))",
                    None,
                    {
                        "place": Column(INT, "place"),
                        "town": Column(TEXT),
                    },
                )
            if kind == "func_table":
                return Scope(
                    "(SELECT g AS place FROM generate_series(1, 7) g)", None, {"place": Column(INT, "place")}
                )
            listed = ", ".join(columns)
            if kind == "select_with_parens":
                form = self._derivation.name(
                    (
                        f"(SELECT DISTINCT {listed} FROM {name})",
                        f"(SELECT {listed} FROM {name} ORDER BY 1 LIMIT 3)",
                        f"(SELECT {listed} FROM {name} UNION ALL SELECT {listed} FROM {name})",
                    )
                )
                return Scope(form, None, columns)
            return Scope(name, None, columns)

    # Joins.

    def _joined(self) -> Scope:
        """joined_table: two relations, with their aliases."""
        with self._derivation.node("joined_table"):
            one = self._side()
            kind = self._rule("join_type")
            if kind == "LATERAL_P":
                return self._lateral(one)
            word = next(r.text for r in STRUCTURE["join_type"] if r.name == kind)
            if kind == "NATURAL":
                return self._merged(word, one, other := self._side(), f"{one.text} {word} {other.text}")
            visits = [c for c, column in one.columns.items() if column.base == "visit"]
            lines = ["relation_expr: lines"] if visits and "visit" in self._visible.get("lines", ()) else []
            match self._rule("joined with", ["table_ref", "public", *lines]):
                case "public":
                    return self._with_public(one, word)
                case "relation_expr: lines":
                    other = self._aliased(Scope("lines", None, self._stored("lines", LINES)))
                    return self._merged("JOIN", one, other, on=f"{other.alias}.visit = {visits[0]}")
            return self._on_the_unit(one, self._side(), word)

    def _on_the_unit(self, one: Scope, other: Scope, word: str) -> Scope:
        if word in (COMMA, "CROSS JOIN"):
            met = (*one.met, *other.met, self._on(one, other, word))
            text = (
                f"{one.text}{COMMA}{other.text}" if word == COMMA else f"{one.text} CROSS JOIN {other.text}"
            )
            return replace(self._merged("JOIN", one, other, text), met=met)
        named = one.unit == f"{one.alias}.person" and other.unit == f"{other.alias}.person"
        if named and self._rule("join_qual") == "USING '(' name_list ')'":
            return self._merged(word, one, other, f"{one.text} {word} {other.text} USING (person)")
        return self._merged(word, one, other, on=self._on(one, other, word))

    def _on(self, one: Scope, other: Scope, word: str) -> str:
        with self._derivation.node("on"):
            among = [r.name for r in STRUCTURE["on"] if word != "FULL JOIN" or r.leaf]
            kind, linked = self._rule("on", among), self._linked(one, other)
            if kind == "the unit AND a_expr":
                with self._scope(Scope("", other.unit, {**one.columns, **other.columns})):
                    return f"{linked} AND {self._expression(BOOL)}"
            return linked + (self._equal(one, other) if kind != "the unit" else "")

    def _linked(self, one: Scope, other: Scope) -> str:
        """What makes rows of one unit: its own name, or that of an event."""
        events = [
            [c for c, column in side.columns.items() if column.base == "visit"] for side in (one, other)
        ]
        forms = [f"{one.unit} = {other.unit}"] * 4
        if all(events):
            forms.append(f"{events[0][0]} = {events[1][0]}")
        return self._derivation.name(forms)

    def _equal(self, one: Scope, other: Scope) -> str:
        """A second equality of columns of one type."""
        pairs = [
            f"{a} = {b}" for a, x in one.columns.items() for b, y in other.columns.items() if x.type == y.type
        ]
        return f" AND {self._derivation.name(pairs)}" if pairs else ""

    def _met(self, one: Scope, public: Scope) -> str:
        """How rows meet public ones: on the column that both have, else on one of the type."""
        same = [
            f"{a} = {b}"
            for a, x in one.columns.items()
            for b, y in public.columns.items()
            if x.base == y.base != ""
        ]
        typed = [
            f"{a} = {b}"
            for a, x in one.columns.items()
            for b, y in public.columns.items()
            if x.type == y.type
        ]
        return self._derivation.name(same or typed) if same or typed else ""

    def _with_public(self, one: Scope, word: str) -> Scope:
        other = self._aliased(self._public())
        if word in (COMMA, "CROSS JOIN") or not (on := self._met(one, other)):
            return self._merged("JOIN", one, other, f"{one.text} CROSS JOIN {other.text}")
        if word == "FULL JOIN":
            word = self._derivation.name(("LEFT JOIN", "LEFT JOIN", "JOIN", "FULL JOIN"))
        if self._rule("on") == "the unit AND a_expr":
            with self._scope(Scope("", one.unit, {**one.columns, **other.columns})):
                on += f" AND {self._expression(BOOL)}"
        if word == "RIGHT JOIN" and self._derivation.name(("LEFT JOIN", "RIGHT JOIN")) == "LEFT JOIN":
            return self._merged(word, one, other, f"{other.text} LEFT JOIN {one.text} ON {on}")
        return self._merged(word, one, other, on=on)

    @staticmethod
    def _merged(word: str, one: Scope, other: Scope, text: str = "", on: str = "") -> Scope:
        """A join and its scope: which side's unit may be NULL."""
        columns = {**one.columns, **other.columns}
        units = [side.unit for side in (one, other) if side.unit is not None]
        missing = {
            "LEFT JOIN": [other.unit],
            "RIGHT JOIN": [one.unit],
            "FULL JOIN": [one.unit, other.unit],
        }.get(word, [])
        columns |= {unit: Column(COPY) for unit in missing if unit is not None and "COALESCE" not in unit}
        if word == "FULL JOIN" and len(units) == 2:
            unit: str | None = f"COALESCE({units[0]}, {units[1]})"
        elif word == "RIGHT JOIN":
            unit = other.unit or one.unit
        else:
            unit = one.unit or other.unit
        text = text or f"{one.text} {word} {other.text} ON {on}"
        return Scope(text, unit, columns, "joined", (*one.met, *other.met))

    def _lateral(self, one: Scope) -> Scope:
        """A subquery that reads the row at its left."""
        form = self._derivation.name((COMMA, " CROSS JOIN ", " LEFT JOIN "))
        with self._scope(self._aliased(self._table_ref())) as inner:
            where = self._where(self._linked(inner, one))
            if self._derivation.name(("aggregates", "rows")) == "aggregates":
                types = [self._derivation.name((INT, INT, TEXT)) for _ in range(2)]
                items = [
                    f"{self._expanded(f'func_expr {of}', OF_A_UNIT[of])} AS c{n}"
                    for n, of in enumerate(types)
                ]
                columns = {f"c{n}": Column(of) for n, of in enumerate(types)}
                text, unit = f"SELECT {', '.join(items)} FROM {inner.text}{where}", None
            else:
                items, columns = self._target_list()
                limit = self._derivation.name(("", f" ORDER BY {next(iter(columns), 'person')} LIMIT 1"))
                text = (
                    f"SELECT {', '.join([f'{inner.unit} AS person', *items])} FROM {inner.text}{where}{limit}"
                )
                unit = "person"
        made = self._aliased(Scope(f"LATERAL ({text})", unit, columns))
        on = " ON TRUE" if form == " LEFT JOIN " else ""
        return self._merged(form.strip(), one, made, f"{one.text}{form}{made.text}{on}")

    # SELECT of rows.

    def _target_list(self, types: Sequence[str] | None = None) -> tuple[list[str], dict[str, Column]]:
        """Some target_el, named c0, c1, ..., of these types."""
        scope = self._scopes[-1]
        with self._derivation.node("target_list"):
            if types is None:
                there = list(dict.fromkeys(c.type for c in scope.columns.values())) or [INT]
                types = [
                    self._derivation.name([*there, TEXT, INT, *[COPY] * 2 * (COPY in there)])
                    for _ in range(int(self._derivation.name("1233")))
                ]
            items: list[str] = []
            columns: dict[str, Column] = {}
            for number, of in enumerate(types):
                name = f"c{number}"
                if of == COPY and not scope.of(COPY):
                    of = INT
                form = self._derivation.name(("column", "column", "a_expr"))
                if of == COPY:
                    text = self._filled("copy_column")
                else:
                    text = self._shallow(of) if form == "column" else self._expression(of)
                items.append(f"{text} AS {name}")
                columns[name] = Column(of, scope.columns[text].base if text in scope.columns else "")
        return items, columns

    def _simple_select(self) -> Scope:
        """Rows with their unit as `person`."""
        with self._derivation.node("simple_select"):
            kind = self._rule("simple_select")
            if kind == "select_clause":
                types = [
                    self._derivation.name((TEXT, INT, INT, BOOL))
                    for _ in range(int(self._derivation.name("12")))
                ]
                return Scope(
                    self._set_operation(types), "person", {f"c{n}": Column(of) for n, of in enumerate(types)}
                )
            if kind == "WITH":
                rows = self._simple_select()
                return replace(rows, text=f"WITH w AS ({rows.text}) SELECT * FROM w")
            rows = self._table_ref()
            if kind == "SELECT '*'" and rows.alias != "joined":
                with self._scope(self._aliased(rows)) as scope:
                    return replace(rows, text=f"SELECT * FROM {scope.text}{self._where()}")
            with self._scope(self._aliased(rows)) as scope:
                if scope.unit is None:
                    return self._simple_select_of_a_table()
                return self._selected(kind, scope)

    def _simple_select_of_a_table(self) -> Scope:
        with self._scope(self._aliased(self._table())) as scope:
            return self._selected("SELECT target_list", scope)

    def _selected(self, kind: str, scope: Scope) -> Scope:
        where = self._where()
        if kind == "group_clause":
            return self._grouped(scope, where)
        if kind == "group_clause: event" and scope.of(INT):
            event = self._filled("int_column")
            call = self._expanded("func_expr int", OF_A_UNIT[INT])
            listed = f"{event} AS c0, {call} AS c1, MIN({scope.unit}) AS person"
            text = f"SELECT {listed} FROM {scope.text}{where} GROUP BY {event}"
            return Scope(text, "person", {"c0": Column(INT), "c1": Column(INT)})
        items, columns = self._target_list()
        if kind.startswith("over_clause"):
            return self._windowed(kind, scope, items, columns, where)
        listed = ", ".join([f"{scope.unit} AS person", *items])
        if kind == "SELECT distinct_clause":
            return Scope(f"SELECT DISTINCT {listed} FROM {scope.text}{where}", "person", columns)
        if kind == "SELECT distinct_clause: ON":
            there = [c for c in scope.columns if scope.columns[c].type != COPY] or [str(scope.unit)]
            on = [
                str(scope.unit),
                *(self._derivation.name(there) for _ in range(int(self._derivation.name("0012")))),
            ]
            order = ", ".join(
                dict.fromkeys([*on, self._derivation.name(there), self._derivation.name(there)])
            )
            text = f"SELECT DISTINCT ON ({', '.join(dict.fromkeys(on))}) {listed} FROM {scope.text}{where}"
            text += f" ORDER BY {order}"
            return Scope(text, "person", columns)
        return Scope(f"SELECT {listed} FROM {scope.text}{where}", "person", columns)

    def _grouped(self, scope: Scope, where: str) -> Scope:
        """One row a unit, or a unit and some keys."""
        keys = [self._filled("key") for _ in range(int(self._derivation.name("0012")))]
        types = [
            self._derivation.name((INT, INT, INT, TEXT, FLOAT, BOOL, DATE))
            for _ in range(int(self._derivation.name("12")))
        ]
        items = [f"{key} AS k{n}" for n, key in enumerate(keys)]
        columns = {f"k{n}": Column(self._type_of(key, scope)) for n, key in enumerate(keys)}
        for n, of in enumerate(types):
            items.append(f"{self._expanded(f'func_expr {of}', OF_A_UNIT[of])} AS c{n}")
            columns[f"c{n}"] = Column(of)
        having = self._filled("having_clause")
        listed = ", ".join([f"{scope.unit} AS person", *items])
        by = ", ".join([str(scope.unit), *map(str, range(2, len(keys) + 2))])
        columns = {name: column for name, column in columns.items() if column.type}
        return Scope(f"SELECT {listed} FROM {scope.text}{where} GROUP BY {by}{having}", "person", columns)

    @staticmethod
    def _type_of(key: str, scope: Scope) -> str:
        """The type of a key that is a column or a condition; others are not read, since theirs is not known here."""
        if key in scope.columns:
            return scope.columns[key].type
        return BOOL if key.endswith(("IS NULL", "IS NOT NULL")) else ""

    def _windowed(
        self, kind: str, scope: Scope, items: list[str], columns: dict[str, Column], where: str
    ) -> Scope:
        types = (INT, INT, INT, INT, TEXT, DATE, TIME, BOOL, FLOAT)
        of = self._derivation.name([one for one in types if self._there(WINDOWS[one])])
        window = self._expanded(f"over_clause {of}", WINDOWS[of])
        listed = ", ".join([f"{scope.unit} AS person", *items, f"{window} AS n"])
        text, columns = f"SELECT {listed} FROM {scope.text}{where}", {**columns, "n": Column(of)}
        if kind == "over_clause: filtered" and of == INT:
            keep = self._derivation.name(("n = 1", "n <= 2", "n > 1", "n BETWEEN 1 AND 3"))
            alias = self._alias()
            shown = ", ".join(["person", *columns])
            text = f"SELECT {shown} FROM ({text}) {alias} WHERE {keep}"
        return Scope(text, "person", columns)

    def _set_operation(self, types: Sequence[str]) -> str:
        """Two SELECTs of these types, either of which may be a set operation again."""
        with self._derivation.node("set operation"):
            operator, sides = self._rule("set operation"), []
            for _ in range(2):
                if self._levels > 0 and self._rule("select_clause") == "select_with_parens":
                    with self._below():
                        sides.append(self._set_operation(types))
                    continue
                with self._scope(self._aliased(self._table_ref())) as scope:
                    items, _ = self._target_list(types)
                    listed = ", ".join([f"{scope.unit} AS person", *items])
                    sides.append(f"SELECT {listed} FROM {scope.text}{self._where()}")
            return f"({sides[0]}) {operator} ({sides[1]})"

    # Statements.

    def statement(self) -> str:
        """A select_stmt."""
        kind = self._rule("select_stmt")
        if kind == "with_clause select_clause":
            texts = []
            for number in range(int(self._derivation.name("112"))):
                with self._below():
                    made = self._simple_select()
                self._ctes.append((f"w{number}", replace(made, text=f"w{number}")))
                texts.append(f"w{number} AS ({made.text})")
            return f"WITH {', '.join(texts)} {self._released()[0]}"
        if kind == "select_clause UNION ALL select_clause":
            return f"{self._counted()} UNION ALL {self._counted()}"
        if kind == "simple_select: of public rows":
            return self._filled_up()
        if kind == "func_expr over_clause: running" and "visits" in self._tables:
            return self._running()
        if kind == "target_el: released c_expr":
            return f"SELECT ({self._counted()}) AS a, ({self._counted()}) AS b"
        if kind == "simple_select: of a released table":
            text, keys, calls = self._released()
            asked = self._derivation.name(
                (
                    "COUNT(*)",
                    f"COUNT(r.x{keys})",
                    f"MAX(r.x{keys})",
                    f"r.x0, RANK() OVER (ORDER BY r.x{keys})",
                )
            )
            if not calls:
                asked = "COUNT(*)"
            names = ", ".join(f"x{n}" for n in range(keys + calls))
            return f"SELECT {asked} FROM ({text}) r({names})"
        return self._released()[0]

    def _filled_up(self) -> str:
        """Groups of public rows, with what private rows there are of each."""
        with self._derivation.node("released"):
            public = self._aliased(self._public())
            private = self._side()
            if not (on := self._met(public, private)):
                private = self._aliased(self._table())
                on = self._met(public, private)
            scope = Scope("", private.unit, {**private.columns, **public.columns}, met=private.met)
            with self._scope(scope):
                if self._rule("on") == "the unit AND a_expr":
                    on += f" AND {self._expression(BOOL)}"
                columns = list(public.columns)
                keys = list(
                    dict.fromkeys(
                        self._derivation.name(columns) for _ in range(int(self._derivation.name("12")))
                    )
                )
                call = self._expanded("func_expr", CALLS)
                by = ", ".join(map(str, range(1, len(keys) + 1)))
                text = f"{public.text} LEFT JOIN {private.text} ON {on}{self._where()}"
                return f"SELECT {', '.join([*keys, call])} FROM {text} GROUP BY {by}"

    def _running(self) -> str:
        """A count that goes on over a time."""
        with self._derivation.node("running"):
            seen = self._stored("visits", PRIVATE["visits"])
            key = (
                f"v.{self._derivation.name([c for c in ('mood', 'kind', 'place') if c in seen] or ['seen'])}"
            )
            time = f"date_trunc('{self._derivation.name(('day', 'week', 'month'))}', v.seen)"
            joined = self._derivation.name(("", "", " JOIN people p ON p.person = v.person"))
            with self._scope(Scope("", "v.person", {f"v.{name}": column for name, column in seen.items()})):
                call = f"SUM(COUNT(*)) OVER (PARTITION BY {key} ORDER BY {time})"
                return f"SELECT {key}, {time}, {call} FROM visits v{joined}{self._where()} GROUP BY 1, 2"

    def _counted(self) -> str:
        with self._derivation.node("counted"), self._scope(self._aliased(self._table_ref())) as scope:
            call = self._derivation.name(("COUNT(*)", f"COUNT(DISTINCT {scope.unit})"))
            return f"SELECT {call} FROM {scope.text}{self._where()}"

    def _released(self) -> tuple[str, int, int]:
        """Aggregates of many units, the number of keys and that of calls."""
        with self._derivation.node("released"), self._scope(self._aliased(self._table_ref())) as scope:
            where, group = self._where(), self._rule("group_clause")
            spelt = [name for name, column in scope.columns.items() if column.base in SPELLINGS]
            if group == "group_by_item: spellings" and spelt:
                self._keys = [self._derivation.name(spelt)]
                every = SPELLINGS[scope.columns[self._keys[0]].base]
                listed = ", ".join(
                    f"'{one}'" for one in every if self._derivation.name(("in", "in", "out")) == "in"
                )
                if listed:
                    where += f"{' AND' if where else ' WHERE'} {self._keys[0]} IN ({listed})"
                return self._calls(scope, where, group)
            number = {
                "empty": 0,
                "group_by_item": 1,
                "distinct_clause": 1,
                "group_by_item: spellings": 1,
            }.get(group, 2)
            self._keys = list(dict.fromkeys(self._filled("key") for _ in range(number)))
            return self._calls(scope, where, group)

    def _calls(self, scope: Scope, where: str, group: str) -> tuple[str, int, int]:
        """SELECT of keys, and of aggregates."""
        keys = ", ".join(self._keys)
        if group == "distinct_clause":
            return f"SELECT DISTINCT {keys} FROM {scope.text}{where}", len(self._keys), 0
        calls = [self._expanded("func_expr", CALLS) for _ in range(int(self._derivation.name("1112")))]
        text = f"SELECT {', '.join([*self._keys, *calls])} FROM {scope.text}{where}"
        by = {
            "rollup_clause": f"ROLLUP ({keys})",
            "cube_clause": f"CUBE ({keys})",
            "grouping_sets_clause": f"GROUPING SETS (({self._keys[0] if self._keys else ''}), ({keys}), ())",
        }.get(group, ", ".join(map(str, range(1, len(self._keys) + 1))))
        if by:
            self._last = len(self._keys) + len(calls)
            text += f" GROUP BY {by}{self._filled('having_clause')}{self._filled('select_limit')}"
        return text, len(self._keys), len(calls)
