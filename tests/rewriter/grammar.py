"""Random queries over the shop: what analysts write, and what nobody would, from a grammar."""

from __future__ import annotations

from random import Random

from tests.rewriter.grammar_rows import NUMBERS, PLAIN, TEXTS, TIMES, UNITS, From

CONSTANTS = ("'US'", "'DE'", "'like'", "'share'", "'Nurse'", "'tv'", "''", "NULL")
FIGURES = (
    "0",
    "1",
    "7",
    "1980",
    "1990.5",
    "-3",
    "2147483647",
    "0.000000000000000000000000001",
    "NULL",
    "'5'",
)
DATES = ("'2024-02-01'", "DATE '2023-06-30'", "TIMESTAMP '2024-01-15 12:30'", "'2024-03-05 01:02:03'")

ASKED_OF_A_UNIT = ("COUNT(*)", "COUNT(y.amount) + 1", "SUM(y.quantity)", "MAX(y.amount) - MIN(y.amount)")


def grouped(keys: list[str], counts: list[str], rest: str) -> str:
    """SELECT keys and counts, grouped by the keys."""
    text = f"SELECT {', '.join(keys + counts)} {rest}"
    return text + (" GROUP BY " + ", ".join(str(n + 1) for n in range(len(keys))) if keys else "")


class Grammar:
    """Queries drawn by `rng`."""

    froms: tuple[From, ...] = PLAIN

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def query(self) -> str:
        """One SELECT with counts, over a FROM of the list, filtered and grouped."""
        keys, counts, rest = self.parts(self._rng.choice((0, 0, 1, 1, 2)))
        return grouped(keys, counts, rest)

    def parts(self, keys: int) -> tuple[list[str], list[str], str]:
        """The keys, the counts, and FROM with WHERE of one SELECT."""
        scope, written = self._rng.choice(self.froms)
        written = self._filled(scope, written)
        conditions = [self.condition(scope, 2) for _ in range(self._rng.randint(0, 2))]
        if self._rng.random() < 0.25 and scope[0] in UNITS:
            conditions.append(self.subquery(scope))
        where = " AND " if " WHERE " in written and not written.startswith("(") else " WHERE "
        rest = f"FROM {written}" + (where + " AND ".join(conditions) if conditions else "")
        counts = [self.count(scope) for _ in range(self._rng.choice((1, 1, 2)))]
        return [self.key(scope) for _ in range(keys)], counts, rest

    def _filled(self, scope: tuple[str, ...], written: str) -> str:
        """A source with its {} filled: by conditions after WHERE, AND or ON, else by one value a name."""
        while "{}" in written:
            before, _, after = written.partition("{}")
            inner = scope
            if "(SELECT" in written:
                inner = ("u",) if "FROM users u" in after or before.endswith("users u WHERE ") else ("e",)
            if before.endswith(("WHERE ", "AND ", "ON ")):
                written = before + self.condition(inner, 1) + after
                continue
            part = self.value(inner, 1)
            repeated = "AS x FROM users u GROUP" in after
            written = before + part + (after.replace("{}", part) if repeated else after)
        return written

    def figure(self) -> str:
        """A number, now and then no number."""
        return self._rng.choice(FIGURES)

    def constant(self) -> str:
        """A text or NULL."""
        return self._rng.choice(CONSTANTS)

    def date(self) -> str:
        """A date or a timestamp."""
        return self._rng.choice(DATES)

    def count(self, scope: tuple[str, ...]) -> str:
        kinds = ["COUNT(*)", f"COUNT({self.value(scope, 1)})", f"COUNT(DISTINCT {self.unit(scope)})"]
        kinds.append(f"COUNT(*) FILTER (WHERE {self.condition(scope, 1)})")
        return self._rng.choice(kinds)

    def unit(self, scope: tuple[str, ...]) -> str:
        return f"{self._rng.choice([s for s in scope if s in UNITS])}.user_id"

    def key(self, scope: tuple[str, ...]) -> str:
        return self.condition(scope, 1) if self._rng.random() < 0.2 else self.value(scope, 2)

    def subquery(self, scope: tuple[str, ...]) -> str:
        negated = self._rng.choice(("", "NOT "))
        inner, unit = self.condition(("e",), 1).replace("e.", "y."), self.unit(scope)
        outer = self._rng.choice(("y", "y", "x"))
        rows = "events y" if outer == "y" else "users x LEFT JOIN events y ON y.user_id = x.user_id"
        if self._rng.random() < 0.3:
            asked = self._rng.choice(ASKED_OF_A_UNIT)
            compared = f"{self._compare()} {self.figure()}"
            return f"(SELECT {asked} FROM {rows} WHERE y.user_id = {unit} AND {inner}) {compared}"
        if self._rng.random() < 0.5:
            return f"{unit} {negated}IN (SELECT y.user_id FROM {rows} WHERE {inner})"
        return f"{negated}EXISTS (SELECT 1 FROM {rows} WHERE y.user_id = {unit} AND {inner})"

    def condition(self, scope: tuple[str, ...], depth: int) -> str:
        pick = self._rng.randrange(9 if depth > 0 else 6)
        number, text, compare = self.number(scope, depth - 1), self.text(scope, depth - 1), self._compare()
        match pick:
            case 0:
                return f"{number} {compare} {self.figure()}"
            case 1:
                return f"{text} {compare} {self.constant()}"
            case 2:
                return f"{number} IS {self._rng.choice(('', 'NOT '))}NULL"
            case 3:
                return f"{number} {self._not()}IN (1, {self.figure()}, 2000)"
            case 4:
                return f"{text} {self._not()}LIKE {self._rng.choice(('%e%', 'N_rse', 'US', '%%'))!r}"
            case 5:
                return f"{self.time(scope)} {compare} {self.date()}"
            case 6:
                return f"({self.condition(scope, depth - 1)} OR {self.condition(scope, depth - 1)})"
            case 7:
                return f"NOT ({self.condition(scope, depth - 1)})"
        return f"{number} {self._not()}BETWEEN {self.figure()} AND {self.number(scope, 0)}"

    def value(self, scope: tuple[str, ...], depth: int) -> str:
        draw = self._rng.choice((self.number, self.text, self.bucket))
        return draw(scope, depth)

    def bucket(self, scope: tuple[str, ...], depth: int) -> str:
        unit = self._rng.choice(("year", "month", "day", "dow", "isodow", "hour", "week", "quarter", "doy"))
        time = self.time(scope)
        if self._rng.random() < 0.5:
            return self._rng.choice((f"EXTRACT({unit} FROM {time})", f"date_part('{unit}', {time})"))
        return f"date_trunc('{self._rng.choice(('month', 'week', 'year', 'quarter'))}', {time})"

    def number(self, scope: tuple[str, ...], depth: int) -> str:
        name = self._rng.choice([f"{s}.{c}" for s in scope for c in NUMBERS[s]])
        figure = self._rng.choice(FIGURES[:-2])
        if depth <= 0:
            return name
        inner = self.number(scope, depth - 1)
        forms = [name, f"({inner} + {figure})", f"({inner} / {figure})", f"({inner} % 7)", f"(-{inner})"]
        forms += [f"floor({inner})", f"abs({inner})", f"coalesce({inner}, {figure})", f"({inner} * {name})"]
        forms.append(f"CASE WHEN {self.condition(scope, 0)} THEN {inner} ELSE {figure} END")
        forms.append(f"length({self.text(scope, 0)})")
        return self._rng.choice(forms)

    def text(self, scope: tuple[str, ...], depth: int) -> str:
        names = [f"{s}.{c}" for s in scope for c in TEXTS[s]] or ["'x'"]
        name = self._rng.choice(names)
        if depth <= 0:
            return name
        inner, number = self.text(scope, depth - 1), self._rng.choice(("-1", "0", "1", "2"))
        forms = [name, f"upper({inner})", f"trim({inner})", f"coalesce({inner}, 'none')", f"({inner} || '!')"]
        forms += [f"substring({inner}, {number}, 3)", f"nullif({inner}, 'US')"]
        first, second = self.condition(scope, 0), self.condition(scope, 0)
        forms.append(f"CASE WHEN {first} THEN 'p' WHEN {second} THEN 'q' END")
        return self._rng.choice(forms)

    def time(self, scope: tuple[str, ...]) -> str:
        names = [f"{s}.{c}" for s in scope for c in TIMES.get(s, ())]
        return self._rng.choice(names) if names else "DATE '2024-01-01'"

    def _compare(self) -> str:
        return self._rng.choice(("=", "<>", "<", ">=", "IS DISTINCT FROM"))

    def _not(self) -> str:
        return self._rng.choice(("", "NOT "))
