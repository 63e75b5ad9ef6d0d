"""Random statements over the oracle's tables, made of relations that contain each other.

Each relation is a subquery with the unit in `person` and other columns by role, so that any may stand in any other.
What becomes of a statement is not known here: nothing in this module is about how the rewriter answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from tests.oracle.productions import COPY, DATE, FLOAT, INT, SPELLINGS, TEXT, TIME
from tests.oracle.statement import LINES, PRIVATE

KINDS = (
    "table",
    "inner join",
    "left join",
    "full join",
    "set operation",
    "window",
    "distinct on",
    "grouped",
    "semi join",
    "public join",
    "nested",
)
"""The kinds of relations that a statement may be asked to have."""

BIT = "bit"
MOSTLY = (*["visits"] * 5, *["notes"] * 3, *["people"] * 2, "cards")
"""How often each table is drawn."""
PUBLIC = {
    "places": ("place", {"town": TEXT, "area": TEXT}),
    "words": ("word", {"topic": TEXT}),
    "tags": ("place", {"tag": TEXT}),
}
CONSTANTS = ("berlin", "CALM", "abc", "a", "like", "")


@dataclass(frozen=True)
class Rel:
    """A FROM item without its alias, whose unit is `person`; `columns` by name and role, `base` where each comes from;
    `kinds` of all that is in it, `depth` of subqueries in each other."""

    text: str
    columns: Mapping[str, str]
    kinds: frozenset[str]
    depth: int
    base: Mapping[str, str] = field(default_factory=dict)

    def of(self, *roles: str) -> list[str]:
        """The columns of these roles."""
        return [name for name, role in self.columns.items() if role in roles]


class Generator:
    """Statements drawn by `rng` over the `visible` columns of each table."""

    def __init__(self, rng: Random, visible: Mapping[str, frozenset[str]]) -> None:
        self._rng = rng
        self._visible = visible
        self._tables = [t for t in PRIVATE if t in visible and "person" in visible[t]]
        self._ctes: list[str] = []
        self._named: list[Rel] = []
        self._names = 0

    def statement(self, kind: str) -> tuple[str, frozenset[str]]:
        """A statement that has a relation of `kind`, and all kinds of relations in it."""
        self._ctes, self._named, self._names = [], [], 0
        roll = self._rng.random()
        if kind == "table" and roll < 0.1:
            text, kinds = self._running()
        elif kind == "public join" and roll < 0.3:
            text, kinds = self._zero_filled()
        elif kind == "grouped" and roll < 0.2:
            text, kinds = self._of_events()
        else:
            text, kinds = self._asked(kind)
        if self._ctes:
            text = f"WITH {', '.join(self._ctes)} {text}"
        return text, kinds

    def _asked(self, kind: str) -> tuple[str, frozenset[str]]:
        depth = (
            self._rng.choice((0, 1, 1, 2))
            if kind not in ("nested", "table")
            else 3
            if kind == "nested"
            else 0
        )
        rel = self._rel(kind, depth)
        kinds = rel.kinds | ({"nested"} if rel.depth >= 2 else frozenset())
        rest = f"FROM {rel.text} t"
        conditions = [self._condition("t", rel) for _ in range(self._rng.choice((0, 0, 0, 0, 1)))]
        if kind == "semi join" and rel.text in PRIVATE and not conditions:
            conditions.append(self._semi("t", rel))
        keys, listed = self._keys("t", rel)
        conditions += listed
        if conditions:
            rest += f" WHERE {' AND '.join(conditions)}"
        return self._select(keys, "t", rel, rest), kinds

    # What is asked of the rows.

    def _select(self, keys: list[str], alias: str, rel: Rel, rest: str) -> str:
        roll = self._rng.random()
        if keys and roll < 0.06:
            return f"SELECT DISTINCT {', '.join(keys)} {rest}"
        if keys and roll < 0.1:
            return f"SELECT {', '.join(keys)} {rest} GROUP BY {', '.join(keys)}"
        calls = [self._call(alias, rel) for _ in range(self._rng.choice((1, 1, 1, 2, 3)))]
        shown = f"SELECT {', '.join([*keys, *calls])} {rest}"
        if not keys:
            return shown
        if len(keys) > 1 and self._rng.random() < 0.2:
            listed = ", ".join(keys)
            sets = (f"ROLLUP ({listed})", f"CUBE ({listed})", f"GROUPING SETS (({keys[0]}), ({listed}), ())")
            return f"{shown} GROUP BY {self._rng.choice(sets)}"
        shown += f" GROUP BY {', '.join(keys)}"
        if self._rng.random() < 0.35:
            shown += f" ORDER BY {len(keys) + 1} DESC LIMIT {self._rng.choice((3, 20))}"
        return shown

    def _call(self, alias: str, rel: Rel) -> str:
        numbers = rel.of(INT, FLOAT)
        roll = self._rng.random()
        if roll < 0.24 or not numbers:
            return self._rng.choice(("COUNT(*)", f"COUNT(DISTINCT {alias}.person)"))
        number = f"{alias}.{self._rng.choice(numbers)}"
        if roll < 0.32:
            call = f"COUNT({alias}.{self._rng.choice(list(rel.columns))})"
        elif roll < 0.34 and len(rel.columns) > 1:
            pair = ", ".join(f"{alias}.{c}" for c in self._rng.sample(list(rel.columns), 2))
            return f"COUNT(DISTINCT ({pair}))"
        elif roll < 0.42:
            return f"COUNT(DISTINCT {alias}.{self._rng.choice([*rel.of(TEXT, INT)] or numbers)})"
        elif roll < 0.56:
            value = self._bounded(number)
            fraction = self._rng.choice(("0.5", "0.1", "0.95"))
            return f"PERCENTILE_CONT({fraction}) WITHIN GROUP (ORDER BY {value})"
        else:
            function = self._rng.choice(("SUM", "SUM", "SUM", "AVG", "VARIANCE", "STDDEV_POP"))
            call = f"{function}({self._bounded(number)})"
        if self._rng.random() < 0.15:
            call += f" FILTER (WHERE {self._condition(alias, rel)})"
        return call

    def _bounded(self, number: str) -> str:
        low = self._rng.choice((0, -5, 1, 10))
        high = low + self._rng.choice((1, 9, 80))
        if self._rng.random() < 0.25:
            return number
        return f"LEAST(GREATEST({number}, {low}), {high})"

    def _keys(self, alias: str, rel: Rel) -> tuple[list[str], list[str]]:
        """Keys of groups, and conditions that list spellings of one of them."""
        keys: list[str] = []
        conditions: list[str] = []
        number = self._rng.choice((0, 0, 1, 1, 1, 2, 2))
        for _ in range(number):
            key = self._key(alias, rel)
            if key not in keys:
                keys.append(key)
        if keys and self._rng.random() < 0.3:
            column = keys[0].removeprefix(f"{alias}.")
            spelt = SPELLINGS.get(rel.base.get(column, ""))
            if spelt is not None:
                conditions.append(f"{keys[0]} IN ({self._list(spelt)})")
        copies = rel.of(COPY)
        if len(copies) > 1 and self._rng.random() < 0.3:
            keys = [f"{alias}.{c} IS NULL" for c in copies[:4]]
        return keys, conditions

    def _list(self, spelt: Sequence[str]) -> str:
        return ", ".join(f"'{s}'" for s in self._rng.sample(spelt, self._rng.randint(2, len(spelt))))

    def _key(self, alias: str, rel: Rel) -> str:
        texts, copies, roll = rel.of(TEXT), rel.of(COPY), self._rng.random()
        if copies and roll < 0.4:
            return self._of_copy(f"{alias}.{self._rng.choice(copies)}", alias, rel)
        if texts and roll < 0.75:
            column = f"{alias}.{self._rng.choice(texts)}"
            return self._rng.choice(
                (
                    column,
                    column,
                    column,
                    column,
                    f"lower({column})",
                    f"coalesce({column}, 'none')",
                    f"upper(trim({column}))",
                )
            )
        if rel.of(INT, DATE, TIME, BIT) and roll < 0.92:
            name = self._rng.choice(rel.of(INT, DATE, TIME, BIT))
            role, column = rel.columns[name], f"{alias}.{name}"
            if role == TIME:
                return f"date_trunc('month', {column})"
            if role == DATE:
                return self._rng.choice(
                    (column, f"date_trunc('month', {column})", f"EXTRACT(dow FROM {column})")
                )
            if role == BIT:
                return column
            return self._rng.choice((column, f"{column} % 3", f"{column} IS NULL", f"({column} > 3)"))
        if rel.of(FLOAT) and roll < 0.96:
            return f"{alias}.{self._rng.choice(rel.of(FLOAT))}"
        return f"CASE WHEN {self._condition(alias, rel)} THEN 'p' ELSE 'q' END"

    def _of_copy(self, column: str, alias: str, rel: Rel) -> str:
        forms = [
            f"{column} IS NULL",
            f"{column} IS NOT NULL",
            f"CASE WHEN {column} IS NULL THEN 0 ELSE 1 END",
            f"({column} IS NULL OR {self._condition(alias, rel)})",
            f"COALESCE({column} = {alias}.person, false)",
        ]
        return self._rng.choice(forms)

    def _condition(self, alias: str, rel: Rel) -> str:
        name = self._rng.choice(list(rel.columns) or ["person"])
        role, column = rel.columns.get(name, COPY), f"{alias}.{name}"
        if role == TEXT:
            spelt = SPELLINGS.get(rel.base.get(name, ""), CONSTANTS)
            forms = [
                f"{column} = '{self._rng.choice(spelt)}'",
                f"{column} <> '{self._rng.choice(spelt)}'",
                f"{column} IN ({self._list(spelt)})",
                f"{column} LIKE '%{self._rng.choice('abclA')}%'",
                f"{column} IS NOT NULL",
                f"{column} > 'C'",
            ]
        elif role == INT:
            bound = self._rng.choice((0, 1, 3, 5, 20, 1990))
            forms = [f"{column} > {bound}", f"{column} <= {bound}", f"{column} % 2 = 0", f"{column} IS NULL"]
        elif role == FLOAT:
            forms = [f"{column} >= 0", f"{column} < 50", f"{column} IS NOT NULL", f"{column} = 0"]
        elif role in (DATE, TIME):
            forms = [f"{column} >= '2024-01-15'", f"{column} < '2024-02-10'"]
        elif role == BIT:
            forms = [column, f"NOT {column}"]
        else:
            forms = [f"{column} IS NULL", f"{column} IS NOT NULL"]
        return self._rng.choice(forms)

    def _running(self) -> tuple[str, frozenset[str]]:
        key = self._rng.choice(("v.mood", "v.kind", "v.place"))
        unit = self._rng.choice(("day", "week", "month"))
        day = f"date_trunc('{unit}', v.seen)"
        source, kinds = "visits v", frozenset({"table"})
        if self._rng.random() < 0.3:
            source, kinds = "visits v JOIN people p ON p.person = v.person", frozenset({"inner join"})
        where = self._rng.choice(("", " WHERE v.points > 0"))
        call = f"SUM(COUNT(*)) OVER (PARTITION BY {key} ORDER BY {day})"
        return f"SELECT {key}, {day}, {call} FROM {source}{where} GROUP BY 1, 2", kinds

    def _zero_filled(self) -> tuple[str, frozenset[str]]:
        table = self._rng.choice(("places", "words", "tags"))
        column = PUBLIC[table][0]
        rel = self._rel(self._rng.choice(("table", "window", "semi join")), 1)
        matching = [c for c in rel.columns if rel.base.get(c) == column] or rel.of(
            TEXT if column == "word" else INT
        )
        if not matching:
            rel = self._table("notes" if column == "word" else "visits")
            matching = [column]
        on = f"r.{self._rng.choice(matching)} = q.{column}"
        if self._rng.random() < 0.4:
            on += f" AND {self._condition('r', rel)}"
        keys = self._rng.sample([column, *PUBLIC[table][1]], self._rng.choice((1, 1, 2)))
        listed = ", ".join(f"q.{k}" for k in keys if k in self._visible.get(table, ()))
        calls = ("COUNT(r.person)", "COUNT(DISTINCT r.person)", "COUNT(*)", self._call("r", rel))
        count = self._rng.choice(calls)
        text = f"SELECT {listed}, {count} FROM {table} q LEFT JOIN {rel.text} r ON {on} GROUP BY {listed}"
        return text, rel.kinds | {"public join"}

    def _of_events(self) -> tuple[str, frozenset[str]]:
        """What is said of events, or of their groups, without a word of their units."""
        rel = self._part(1)
        events = self._events(rel) or self._events(rel := self._table("notes"))
        if not events:
            return self._asked("grouped")
        event = f"s.{self._rng.choice(events)}"
        where = f"WHERE {self._condition('s', rel)}" if self._rng.random() < 0.3 else ""
        if self._rng.random() < 0.4:
            keys = [self._key("s", rel)] if self._rng.random() < 0.6 else []
            listed = ", ".join([*keys, f"COUNT(DISTINCT {event})"])
            grouped = f" GROUP BY {keys[0]}" if keys else ""
            return f"SELECT {listed} FROM {rel.text} s {where}{grouped}", rel.kinds | {"grouped"}
        groups = self._rng.choice(
            (
                f"SELECT {event} AS k, COUNT(*) AS n FROM {rel.text} s {where} GROUP BY {event}",
                f"SELECT MAX({event}) AS n FROM {rel.text} s {where} GROUP BY {event} HAVING COUNT(*) > 1",
                f"SELECT DISTINCT {event} AS k, {event} % 3 AS n FROM {rel.text} s {where}",
            )
        )
        call = self._rng.choice(("COUNT(*)", "SUM(LEAST(n, 9))", "AVG(n)"))
        grouped = self._rng.choice(("", " GROUP BY n % 2"))
        return f"SELECT {call} FROM ({groups}) t{grouped}", rel.kinds | {"grouped"}

    @staticmethod
    def _events(rel: Rel) -> list[str]:
        """The columns of events of one unit each, as the policy has it; the rows are others'."""
        return [c for c in rel.columns if rel.base.get(c) == "visit"]

    def _linked(self, one: str, rel: Rel, other: str, of: Rel) -> str:
        """An equality by which rows are of one unit: its own or that of an event."""
        events = self._events(rel), self._events(of)
        if all(events) and self._rng.random() < 0.25:
            return f"{one}.{self._rng.choice(events[0])} = {other}.{self._rng.choice(events[1])}"
        return f"{one}.person = {other}.person"

    # Relations.

    def _rel(self, kind: str, depth: int) -> Rel:
        """A relation of `kind` whose parts have at most `depth` subqueries in each other."""
        makers: dict[str, Callable[[int], Rel]] = {
            "table": lambda _: self._table(),
            "inner join": self._inner,
            "left join": self._left,
            "full join": self._full,
            "set operation": self._combined,
            "window": self._window,
            "distinct on": self._distinct_on,
            "grouped": self._grouped,
            "semi join": self._semi_joined,
            "public join": self._public,
            "nested": self._nested,
        }
        rel = makers[kind](depth)
        if rel.text.startswith("(") and self._rng.random() < 0.2:
            self._names += 1
            name = f"w{self._names}"
            self._ctes.append(f"{name} AS {rel.text}")
            self._named.append(Rel(name, rel.columns, rel.kinds, rel.depth, rel.base))
            return self._named[-1]
        return rel

    def _part(self, depth: int) -> Rel:
        """A part of another relation; now and then a CTE that has been read before."""
        if self._named and self._rng.random() < 0.1:
            return self._rng.choice(self._named)
        if depth <= 0 or self._rng.random() < 0.4:
            return self._table()
        return self._rel(self._rng.choice(KINDS[1:-1]), depth - 1)

    def _nested(self, depth: int) -> Rel:
        """At least two subqueries in each other."""
        rel = self._rel(self._rng.choice(KINDS[1:-1]), 1)
        for _ in range(self._rng.choice((1, 1, 2))):
            wrap = self._rng.choice(
                (self._projected, self._windowed, self._filtered, self._joined, self._per_unit)
            )
            rel = wrap(rel)
        return rel

    def _table(self, name: str | None = None) -> Rel:
        name = name or self._rng.choice([t for t in MOSTLY if t in self._tables])
        columns = {c: role for c, role in PRIVATE[name].items() if c in self._visible.get(name, ())}
        return Rel(name, columns, frozenset({"table"}), 0, {c: c for c in columns})

    def _shown(
        self, parts: Sequence[tuple[str, Rel]], most: int = 5
    ) -> tuple[list[str], dict[str, str], dict[str, str]]:
        """Some columns of the parts under new names: how they are written, their roles and what they come from."""
        picked = [
            (a, c, r) for a, r in parts for c in self._rng.sample(list(r.columns), min(len(r.columns), 3))
        ]
        self._rng.shuffle(picked)
        copies = [(a, c, r) for a, r in parts for c in r.of(COPY)]
        if copies and self._rng.random() < 0.6:
            picked.insert(0, self._rng.choice(copies))
        items: list[str] = []
        roles: dict[str, str] = {}
        base: dict[str, str] = {}
        for number, (alias, column, rel) in enumerate(picked[:most]):
            name = f"c{number}"
            items.append(f"{alias}.{column} AS {name}")
            roles[name] = rel.columns[column]
            if column in rel.base:
                base[name] = rel.base[column]
        return items, roles, base

    def _made(
        self, text: str, roles: Mapping[str, str], base: Mapping[str, str], kind: str, *parts: Rel
    ) -> Rel:
        kinds = frozenset({kind}).union(*(p.kinds - {"table"} for p in parts))
        return Rel(f"({text})", roles, kinds - {""}, 1 + max(p.depth for p in parts), base)

    def _pairs(self, one: Rel, other: Rel) -> list[tuple[str, str]]:
        """The columns of two relations that are of one role."""
        return [
            (a, b)
            for a, r in one.columns.items()
            for b, q in other.columns.items()
            if r == q and r in (TEXT, INT, FLOAT)
        ]

    def _equalities(self, one: Rel, other: Rel) -> list[str]:
        """Second equalities of columns of one role; those that rarely hold as well as those that often do."""
        pairs = self._pairs(one, other)
        self._rng.shuffle(pairs)
        return [f"a.{x} = b.{y}" for x, y in pairs[: self._rng.choice((0, 1, 1, 2))]]

    def _inner(self, depth: int) -> Rel:
        if self._rng.random() < 0.15 and "lines" in self._visible:
            lines = {c: r for c, r in LINES.items() if c in self._visible["lines"]}
            rel = Rel("lines", lines, frozenset({"table"}), 0, {c: c for c in lines})
            visits = self._table("visits")
            items, roles, base = self._shown((("a", visits), ("b", rel)))
            text = f"SELECT a.person, {', '.join(items)} FROM visits a JOIN lines b ON b.visit = a.visit"
            return self._made(text, roles, base, "inner join", visits, rel)
        one, other = self._part(depth), self._part(depth)
        on = [self._linked("a", one, "b", other)]
        on += self._equalities(one, other) if self._rng.random() < 0.5 else []
        if self._rng.random() < 0.2:
            on.append(self._condition("b", other))
        items, roles, base = self._shown((("a", one), ("b", other)))
        text = f"SELECT {', '.join(['a.person', *items])} FROM {one.text} a JOIN {other.text} b ON {' AND '.join(on)}"
        return self._made(text, roles, base, "inner join", one, other)

    def _left(self, depth: int) -> Rel:
        """A LEFT or RIGHT JOIN, with copies of the unit of one or several right sides."""
        one = self._part(depth)
        text, items, roles, base = f"{one.text} a", *self._shown((("a", one),), 3)
        others = [self._part(depth - 1) for _ in range(self._rng.choice((1, 1, 1, 2, 3)))]
        for number, other in enumerate(others):
            alias = f"b{number}"
            on = [
                self._linked("a", one, alias, other),
                *(e.replace("b.", f"{alias}.") for e in self._equalities(one, other)),
            ]
            if self._rng.random() < 0.6:
                on.append(self._condition(*self._rng.choice(((alias, other), ("a", one)))))
            if number == 0 and len(others) == 1 and self._rng.random() < 0.25:
                text = f"{other.text} {alias} RIGHT JOIN {one.text} a ON {' AND '.join(on)}"
            else:
                text += f" LEFT JOIN {other.text} {alias} ON {' AND '.join(on)}"
            items.append(f"{alias}.person AS x{number}")
            roles[f"x{number}"] = COPY
            if other.columns and self._rng.random() < 0.6:
                column = self._rng.choice(list(other.columns))
                items.append(f"{alias}.{column} AS d{number}")
                roles[f"d{number}"] = other.columns[column]
                if column in other.base:
                    base[f"d{number}"] = other.base[column]
        return self._made(
            f"SELECT {', '.join(['a.person', *items])} FROM {text}", roles, base, "left join", one, *others
        )

    def _full(self, depth: int) -> Rel:
        """A FULL JOIN, of relations of one row a unit in half of the cases; with columns of both sides merged."""
        part = self._one_row if self._rng.random() < 0.5 else self._part
        one, other = part(depth), part(depth)
        items, roles, base = self._shown((("a", one), ("b", other)))
        if self._rng.random() < 0.5:
            items += ["a.person AS x0", "b.person AS x1"][: self._rng.choice((1, 2))]
            roles |= {i.rpartition(" ")[2]: COPY for i in items if i.startswith(("a.person", "b.person"))}
        pairs = self._pairs(one, other)
        if pairs and self._rng.random() < 0.5:
            left, right = self._rng.choice(pairs)
            items.append(f"COALESCE(a.{left}, b.{right}) AS m0")
            roles["m0"] = one.columns[left]
        more = self._equalities(one, other)
        if not more and self._rng.random() < 0.3:
            text = f"SELECT {', '.join(['person', *items])} FROM {one.text} a FULL JOIN {other.text} b USING (person)"
        else:
            on = " AND ".join(["a.person = b.person", *more])
            unit = "COALESCE(a.person, b.person) AS person"
            text = f"SELECT {', '.join([unit, *items])} FROM {one.text} a FULL JOIN {other.text} b ON {on}"
        return self._made(text, roles, base, "full join", one, other)

    def _one_row(self, depth: int) -> Rel:
        """A relation that has one row a unit, or is declared to: a table, a group, a row that is picked."""
        roll = self._rng.random()
        if roll < 0.5 or depth <= 0:
            return self._table(
                self._rng.choice([t for t in ("people", "people", "cards") if t in self._tables])
            )
        rel = self._part(depth - 1)
        if roll < 0.65:
            return self._per_unit(rel, keyed=False)
        items, roles, base = self._shown((("s", rel),), 4)
        order = (
            ", ".join(f"s.{c}" for c in self._rng.sample(list(rel.columns), min(2, len(rel.columns))))
            or "s.person"
        )
        listed = ", ".join(["s.person", *items])
        if roll < 0.8:
            text = f"SELECT DISTINCT ON (s.person) {listed} FROM {rel.text} s ORDER BY s.person, {order}"
            return self._made(text, roles, base, "distinct on", rel)
        number = f"ROW_NUMBER() OVER (PARTITION BY s.person ORDER BY {order}) AS n"
        columns = ", ".join(["q.person", *(f"q.{c}" for c in roles)])
        text = f"SELECT {columns} FROM (SELECT {listed}, {number} FROM {rel.text} s) q WHERE q.n = 1"
        return self._made(text, roles, base, "window", rel)

    def _combined(self, depth: int) -> Rel:
        """Two or three relations, each shown by a text and a number, put together."""
        sides: list[Rel] = []
        texts: list[str] = []
        for _ in range(self._rng.choice((2, 2, 2, 3))):
            side = self._part(depth)
            text = self._rng.choice([f"s.{c}" for c in side.of(TEXT)] or ["'none'"])
            number = self._rng.choice([f"s.{c}" for c in side.of(INT)] or ["1"])
            where = f" WHERE {self._condition('s', side)}" if self._rng.random() < 0.25 else ""
            texts.append(f"SELECT s.person, {text} AS c0, {number} AS c1 FROM {side.text} s{where}")
            sides.append(side)
        made = texts[0]
        for text in texts[1:]:
            operator = self._rng.choice(
                ("UNION", "UNION ALL", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL")
            )
            made = f"({made}) {operator} ({text})" if made is not texts[0] else f"{made} {operator} {text}"
        return self._made(made, {"c0": TEXT, "c1": INT}, {}, "set operation", *sides)

    def _window(self, depth: int) -> Rel:
        return self._windowed(self._part(depth))

    def _windowed(self, rel: Rel) -> Rel:
        items, roles, base = self._shown((("s", rel),), 4)
        texts, ordered = rel.of(TEXT, INT), list(rel.columns)
        partition = "s.person" + (
            f", s.{self._rng.choice(texts)}" if texts and self._rng.random() < 0.3 else ""
        )
        order = ", ".join(f"s.{c}" for c in self._rng.sample(ordered, min(2, len(ordered)))) or "s.person"
        forms = [
            f"ROW_NUMBER() OVER (PARTITION BY {partition} ORDER BY {order})",
            f"ROW_NUMBER() OVER (PARTITION BY {partition} ORDER BY {order} DESC)",
            f"COUNT(*) OVER (PARTITION BY {partition})",
            f"RANK() OVER (PARTITION BY {partition} ORDER BY {order})",
        ]
        if rel.of(INT):
            column = self._rng.choice(rel.of(INT))
            forms.append(f"LAG(s.{column}) OVER (PARTITION BY {partition} ORDER BY {order})")
            forms.append(f"MAX(s.{column}) OVER (PARTITION BY {partition})")
        copies = [c for c in rel.of(COPY) if f"s.{c} AS" not in " ".join(items)]
        for number, copied in enumerate(copies):
            items.append(f"s.{copied} AS y{number}")
            roles[f"y{number}"] = COPY
        text = (
            f"SELECT {', '.join(['s.person', *items, f'{self._rng.choice(forms)} AS n'])} FROM {rel.text} s"
        )
        roles["n"] = INT
        made = self._made(text, roles, base, "window", rel)
        if self._rng.random() < 0.45:
            keep = self._rng.choice(("n = 1", "n <= 2", "n <= 3", "n > 1"))
            columns = ", ".join(["person", *roles])
            made = Rel(
                f"(SELECT {columns} FROM {made.text} s WHERE {keep})", roles, made.kinds, made.depth + 1, base
            )
        return made

    def _distinct_on(self, depth: int) -> Rel:
        rel = self._part(depth)
        columns = list(rel.columns)
        on = [
            "s.person",
            *(f"s.{c}" for c in self._rng.sample(columns, min(len(columns), self._rng.choice((0, 0, 1, 2))))),
        ]
        order = [*on, *(f"s.{c}" for c in self._rng.sample(columns, min(len(columns), 2)))]
        items, roles, base = self._shown((("s", rel),), 5)
        text = f"SELECT DISTINCT ON ({', '.join(on)}) {', '.join(['s.person', *items])} FROM {rel.text} s"
        return self._made(
            f"{text} ORDER BY {', '.join(dict.fromkeys(order))}", roles, base, "distinct on", rel
        )

    def _grouped(self, depth: int) -> Rel:
        return self._per_unit(self._part(depth))

    def _per_unit(self, rel: Rel, keyed: bool = True) -> Rel:
        """One row a unit, or (`keyed`) a unit and some columns; or SELECT DISTINCT."""
        columns = rel.of(TEXT, INT, DATE, BIT) if keyed else []
        keys = self._rng.sample(columns, min(len(columns), self._rng.choice((0, 0, 1, 2))))
        items = [f"s.{k} AS k{n}" for n, k in enumerate(keys)]
        roles = {f"k{n}": rel.columns[k] for n, k in enumerate(keys)}
        base = {f"k{n}": rel.base[k] for n, k in enumerate(keys) if k in rel.base}
        if keys and self._rng.random() < 0.25:
            text = f"SELECT DISTINCT {', '.join(['s.person', *items])} FROM {rel.text} s"
            return self._made(text, roles, base, "grouped", rel)
        numbers, texts, copies = rel.of(INT), rel.of(TEXT), rel.of(COPY)
        calls = [("COUNT(*)", INT)]
        calls += (
            [(f"{self._rng.choice(('SUM', 'MAX', 'MIN'))}(s.{self._rng.choice(numbers)})", INT)]
            if numbers
            else []
        )
        calls += [(f"{self._rng.choice(('MAX', 'MIN'))}(s.{self._rng.choice(texts)})", TEXT)] if texts else []
        calls += [(f"bool_or(s.{copies[0]} IS NULL)", BIT), (f"COUNT(s.{copies[0]})", INT)] if copies else []
        for number, (call, role) in enumerate(self._rng.sample(calls, min(len(calls), 2))):
            items.append(f"{call} AS a{number}")
            roles[f"a{number}"] = role
        text = f"SELECT {', '.join(['s.person', *items])} FROM {rel.text} s"
        text += f" GROUP BY {', '.join(['s.person', *(f's.{k}' for k in keys)])}"
        if self._rng.random() < 0.2:
            text += f" HAVING COUNT(*) {self._rng.choice(('> 1', '< 4', '>= 1'))}"
        return self._made(text, roles, base, "grouped", rel)

    def _semi_joined(self, depth: int) -> Rel:
        rel = self._part(depth)
        items, roles, base = self._shown((("s", rel),), 5)
        text = f"SELECT {', '.join(['s.person', *items])} FROM {rel.text} s WHERE {self._semi('s', rel)}"
        return self._made(text, roles, base, "semi join", rel)

    def _semi(self, alias: str, rel: Rel) -> str:
        """A condition on other rows of the unit."""
        inner = self._part(1)
        condition, negated = self._condition("i", inner), self._rng.choice(("", "NOT "))
        pairs = [
            f"i.{x} = {alias}.{y}"
            for x, r in inner.columns.items()
            for y, q in rel.columns.items()
            if r == q and r in (TEXT, INT)
        ]
        linked = self._linked("i", inner, alias, rel)
        if pairs and self._rng.random() < 0.4:
            linked += f" AND {self._rng.choice(pairs)}"
        numbers = inner.of(INT)
        asked = self._rng.choice(["COUNT(*)", *(f"MAX(i.{n})" for n in numbers)])
        forms = [
            f"{alias}.person {negated}IN (SELECT i.person FROM {inner.text} i WHERE {condition})",
            f"{negated}EXISTS (SELECT 1 FROM {inner.text} i WHERE {linked} AND {condition})",
            f"{negated}EXISTS (SELECT 1 FROM {inner.text} i WHERE {linked})",
            f"(SELECT {asked} FROM {inner.text} i WHERE {linked} AND {condition}) > 1",
        ]
        events = self._events(rel), self._events(inner)
        if all(events):
            listed, value = self._rng.choice(events[1]), self._rng.choice(events[0])
            forms.append(
                f"{alias}.{value} {negated}IN (SELECT i.{listed} FROM {inner.text} i WHERE {condition})"
            )
        return self._rng.choice(forms)

    def _public(self, depth: int) -> Rel:
        """A join with public rows, on a key of theirs or on none."""
        table = self._rng.choice(("places", "words", "tags"))
        column, others = PUBLIC[table]
        rel = self._part(depth)
        matching = [c for c in rel.columns if rel.base.get(c) == column] or rel.of(
            TEXT if column == "word" else INT
        )
        if not matching:
            rel = self._table("notes" if column == "word" else "visits")
            matching = [c for c in rel.columns if c == column] or [*rel.columns][:1]
        seen = {
            c: r
            for c, r in {column: TEXT if column == "word" else INT, **others}.items()
            if c in self._visible.get(table, ())
        }
        rows = f"{table} q"
        if column in seen and self._rng.random() < 0.5:
            rows, seen = self._evaluated(table, column, seen)
        public = Rel(table, seen, frozenset(), 0, {c: c for c in seen})
        side = self._rng.choice(("JOIN", "JOIN", "LEFT JOIN"))
        compared = self._rng.choice(("=", "=", "=", "<="))
        on = f"s.{self._rng.choice(matching)} {compared} q.{column}"
        if self._rng.random() < 0.2 and seen:
            on += f" AND {self._condition('q', public)}"
        items, roles, base = self._shown((("s", rel), ("q", public)))
        text = f"SELECT {', '.join(['s.person', *items])} FROM {rel.text} s {side} {rows} ON {on}"
        return self._made(text, roles, base, "public join", rel)

    def _evaluated(self, table: str, column: str, seen: dict[str, str]) -> tuple[str, dict[str, str]]:
        """Rows that the front evaluates, as an item of FROM called q, and their columns."""
        others = [c for c in seen if c != column]
        listed = ", ".join([column, *others])
        least = ", ".join([column, *(f"MIN({c}) AS {c}" for c in others)])
        forms = [
            f"(SELECT DISTINCT {listed} FROM {table}) q",
            f"(SELECT {least} FROM {table} GROUP BY {column}) q",
            f"(SELECT {listed} FROM {table} ORDER BY 1 LIMIT 3) q",
            f"(SELECT {listed} FROM {table} UNION ALL SELECT {listed} FROM {table}) q",
            f"(SELECT {listed}, ROW_NUMBER() OVER (ORDER BY {listed}) AS nr FROM {table}) q",
        ]
        if seen[column] == INT:
            plain = f"generate_series({self._rng.randrange(3)}, 7) q({column})", {column: INT}
            values = f"(VALUES (1, 'a'), (2, NULL), (2, 'b')) q({column}, mark)", {column: INT, "mark": TEXT}
            if self._rng.random() < 0.4:
                return self._rng.choice((plain, values))
        return self._rng.choice(forms), seen

    # What stands around a relation.

    def _projected(self, rel: Rel) -> Rel:
        """Columns computed from those of `rel`."""
        items, roles, base = self._shown((("s", rel),), 4)
        for number, column in enumerate(rel.of(COPY)):
            items += [f"s.{column} IS NULL AS b{number}", f"s.{column} AS y{number}"]
            roles |= {f"b{number}": BIT, f"y{number}": COPY}
        if rel.of(TEXT):
            text = f"s.{self._rng.choice(rel.of(TEXT))}"
            form = self._rng.choice(
                (
                    f"lower({text})",
                    f"coalesce({text}, 'none')",
                    f"trim({text})",
                    f"{text} || 'x'",
                    f"nullif({text}, 'a')",
                )
            )
            items.append(f"{form} AS e0")
            roles["e0"] = TEXT
        if rel.of(INT):
            value = f"s.{self._rng.choice(rel.of(INT))}"
            items.append(f"CASE WHEN {self._condition('s', rel)} THEN {value} ELSE 1 END AS e1")
            roles["e1"] = INT
        text = f"SELECT {', '.join(['s.person', *items])} FROM {rel.text} s"
        return self._made(text, roles, base, "", rel)

    def _filtered(self, rel: Rel) -> Rel:
        columns = ", ".join(["s.person", *(f"s.{c}" for c in rel.columns)])
        text = f"SELECT {columns} FROM {rel.text} s WHERE {self._condition('s', rel)}"
        return self._made(text, rel.columns, rel.base, "", rel)

    def _joined(self, rel: Rel) -> Rel:
        """The relation as the right side of a LEFT JOIN, as a side of a FULL JOIN, or under the unit alone."""
        table = self._table()
        items, roles, base = self._shown((("a", table), ("s", rel)), 5)
        for number, column in enumerate(rel.of(COPY)):
            items.append(f"s.{column} AS y{number}")
            roles[f"y{number}"] = COPY
        kind = self._rng.choice(("inner join", "left join", "left join", "full join"))
        words = {"inner join": "JOIN", "left join": "LEFT JOIN", "full join": "FULL JOIN"}[kind]
        unit = "COALESCE(a.person, s.person) AS person" if kind == "full join" else "a.person"
        more = [e.replace("b.", "s.") for e in self._equalities(table, rel)]
        on = " AND ".join(["a.person = s.person", *more])
        text = f"SELECT {', '.join([unit, *items])} FROM {table.text} a {words} {rel.text} s ON {on}"
        return self._made(text, roles, base, kind, table, rel)
