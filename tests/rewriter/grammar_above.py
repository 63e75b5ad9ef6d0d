"""Random statements around the grammar's queries: parameters, CTEs and derived tables below, all of SELECT above."""

from __future__ import annotations

from rewriter.scalar.typecheck import Parameter
from tests.rewriter.grammar import CONSTANTS, DATES, FIGURES, Grammar, grouped

NUMERIC = (
    ("smallint", ("-7", "32767", None)),
    ("integer", ("0", "-3", "1980", "2147483647", None)),
    ("bigint", ("7", "9223372036854775807", "-9223372036854775808", None)),
    ("numeric", ("1990.5", "-0.5", "0." + "0" * 26 + "1", "9" * 40, "NaN", None)),
    ("double precision", ("0.1", "-3", "1e+300", "-Infinity", "NaN", None)),
)
TEXTUAL = (("text", ("US", "like", "", "%", "it's", None)), ("character varying", ("Nurse", "tv", None)))
TEMPORAL = (
    ("date", ("2024-02-01", "0044-03-15 BC", "infinity", None)),
    ("timestamp without time zone", ("2024-01-15 12:30:00", "2023-06-30 00:00:00.000001", "-infinity", None)),
)
Typed = tuple[tuple[str, tuple[str | None, ...]], ...]


class Wide(Grammar):
    """Statements drawn by the generator's number; `parameters` are those of the last one."""

    parameters: tuple[Parameter, ...] = ()

    def statement(self) -> str:
        """One statement, in which each count may be private."""
        self.parameters = ()
        shapes = (self._sorted, self._windowed, self._combined, self._scalars, self._distinct, self._nested)
        text = self._rng.choice(shapes)()
        return self._shared(text) if self._rng.random() < 0.3 else text

    def parts(self, keys: int) -> tuple[list[str], list[str], str]:
        """As in a plain query, with a derived table here and there, which may hold a semi-join."""
        listed, counts, rest = super().parts(keys)
        for table, alias in (("events", "e"), ("users", "u")):
            if self._rng.random() < 0.25:
                condition = self.condition((alias,), 1)
                if self._rng.random() < 0.5:
                    condition += f" AND {self.subquery((alias,))}"
                rest = rest.replace(
                    f"{table} {alias}", f"(SELECT * FROM {table} {alias} WHERE {condition}) {alias}", 1
                )
        return listed, counts, rest

    def figure(self) -> str:
        return self._or_parameter(NUMERIC, self._rng.choice(FIGURES))

    def constant(self) -> str:
        return self._or_parameter(TEXTUAL, self._rng.choice(CONSTANTS))

    def date(self) -> str:
        return self._or_parameter(TEMPORAL, self._rng.choice(DATES))

    def _or_parameter(self, typed: Typed, otherwise: str) -> str:
        if self._rng.random() < 0.7:
            return otherwise
        name, values = self._rng.choice(typed)
        self.parameters = (*self.parameters, Parameter(name, self._rng.choice(values)))
        return f"${len(self.parameters)}"

    def _sorted(self) -> str:
        keys, counts, rest = self.parts(self._rng.choice((0, 1, 2)))
        text = grouped(keys, counts, rest)
        if self._rng.random() < 0.5:
            text += f" HAVING {self._rng.choice(counts)} {self._compare()} {self._rng.choice((-1, 3, 20))}"
        columns = list(range(1, len(keys + counts) + 1))
        order = [f"{len(keys) + 1} DESC", *(str(n) for n in columns if n != len(keys) + 1)]
        text += " ORDER BY " + ", ".join(order)
        return text + self._rng.choice(("", " LIMIT 3", " LIMIT 2 OFFSET 1", " FETCH FIRST 4 ROWS ONLY"))

    def _windowed(self) -> str:
        keys, counts, rest = self.parts(self._rng.choice((1, 2)))
        windows = [
            f"RANK() OVER (ORDER BY {counts[0]} DESC)",
            f"SUM({counts[0]}) OVER (PARTITION BY {keys[0]})",
            f"MAX({counts[-1]}) OVER ()",
        ]
        return grouped(keys, [*counts, self._rng.choice(windows)], rest)

    def _combined(self) -> str:
        operator = self._rng.choice(("UNION", "UNION ALL", "INTERSECT", "EXCEPT"))
        single = [grouped([], counts[:1], rest) for _, counts, rest in (self.parts(0), self.parts(0))]
        return f"{single[0]} {operator} {single[1]}"

    def _scalars(self) -> str:
        _, counts, rest = self.parts(0)
        first = f"({grouped([], counts[:1], rest)})"
        _, counts, rest = self.parts(0)
        second = f"({grouped([], counts[:1], rest)})"
        forms = (
            f"SELECT {first} AS a, {second} + 1 AS b",
            f"SELECT topic, {first} FROM articles WHERE {second} > 5",
            f"SELECT COUNT(*) - {first} FROM articles a JOIN tags t USING (article_id)",
            f"{grouped(*self.parts(1))} HAVING {first} > 100",
        )
        return self._rng.choice(forms)

    def _distinct(self) -> str:
        listed, counts, rest = self.parts(1)
        inner = grouped(listed, [f"{counts[0]} AS n"], rest)
        forms = (
            f"SELECT DISTINCT n FROM ({inner}) s",
            f"SELECT DISTINCT {grouped(listed, counts, rest)[7:]}",
            f"SELECT COALESCE(SUM(n), 0), COALESCE(MAX(n), 0) FROM ({inner}) s",
        )
        return self._rng.choice(forms)

    def _nested(self) -> str:
        value, other = self.value(("e",), 1), self.value(("e",), 0)
        inner = f"SELECT user_id, {value} AS x, COUNT({other}) AS n FROM events e"
        inner += f" WHERE {self.condition(('e',), 1)} GROUP BY 1, 2"
        per_unit = f"SELECT user_id, COUNT(*) AS m, MAX(n) AS n FROM ({inner}) q GROUP BY user_id"
        rest = self._rng.choice(
            (f"({inner}) s", f"({per_unit}) s", f"users u JOIN ({per_unit}) s USING (user_id)")
        )
        key = self._rng.choice(("n", "n > 2", "n"))
        counts = ["COUNT(*)", "COUNT(DISTINCT s.user_id)"]
        conditions = self._rng.choice(("", " WHERE n < 4", f" WHERE {self.subquery(('s',))}"))
        return grouped(
            [key] * self._rng.randint(0, 1), [self._rng.choice(counts)], f"FROM {rest}{conditions}"
        )

    def _shared(self, text: str) -> str:
        """The statement with its events, or users, read from one CTE."""
        table, alias = self._rng.choice((("events", "e"), ("users", "u")))
        condition = self.condition((alias,), 1)
        cte = f"WITH w AS (SELECT * FROM {table} {alias} WHERE {condition})"
        return f"{cte} {text.replace(f'{table} {alias}', f'w {alias}')}"
