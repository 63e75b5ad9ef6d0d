"""Random statements of the whole surface: every aggregate, set operations, per-unit windows, grouping sets."""

from __future__ import annotations

from tests.rewriter.grammar import grouped
from tests.rewriter.grammar_above import Wide
from tests.rewriter.grammar_rows import COMBINED, PLAIN

NUMERIC = ("SUM", "AVG", "MIN", "MAX", "VAR_SAMP", "VAR_POP", "STDDEV", "STDDEV_POP", "VARIANCE")
REFUSED = ("SUM(DISTINCT {})", "STRING_AGG({}::text, ',')", "BIT_AND({}::int)", "CORR({}, {})", "MODE({})")


class Whole(Wide):
    """Statements drawn by the generator's number, with all that a policy's mechanisms answer."""

    froms = (*PLAIN, *COMBINED, *COMBINED)

    def statement(self) -> str:
        """One statement of the whole surface, or of the part without aggregates other than counts."""
        self.parameters = ()
        shapes = (
            super().statement,
            self.query,
            self.query,
            self._sorted,
            self._grouping_sets,
            self._selection,
            self._staged,
            self._running,
            self._zero_filled,
        )
        text = self._rng.choice(shapes)()
        return self._shared(text) if self._rng.random() < 0.1 else text

    def count(self, scope: tuple[str, ...]) -> str:
        """An aggregate: a count in half of the cases."""
        if self._rng.random() < 0.5:
            return super().count(scope)
        value = self._bounded(scope)
        forms = [f"{self._rng.choice(NUMERIC)}({value})" for _ in range(4)]
        forms.append(
            f"SUM(CASE WHEN {self.condition(scope, 1)} THEN {self._rng.choice(('1', value))} ELSE 0 END)"
        )
        forms.append(
            f"PERCENTILE_CONT({self._rng.choice(('0.5', '0.25', '0.99'))}) WITHIN GROUP (ORDER BY {value})"
        )
        forms.append(
            f"PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY {self._rng.choice((value, self.time(scope)))})"
        )
        forms.append(f"{self._rng.choice(('MIN', 'MAX'))}({self.time(scope)})")
        forms.append(f"COUNT(DISTINCT {self.value(scope, 1)})")
        forms.append(f"COUNT(DISTINCT ({self.number(scope, 0)}, {self.text(scope, 0)}))")
        forms.append(self._rng.choice(REFUSED).replace("{}", value))
        chosen = self._rng.choice(forms)
        if self._rng.random() < 0.2 and "STRING" not in chosen:
            chosen += f" FILTER (WHERE {self.condition(scope, 1)})"
        return chosen

    def _bounded(self, scope: tuple[str, ...]) -> str:
        """A number, of known bounds or not."""
        value, low = self.number(scope, self._rng.choice((0, 1))), self._rng.choice((0, -3, 10))
        clamped = f"LEAST(GREATEST({value}, {low}), {low + self._rng.choice((1, 50, 90.5))})"
        return self._rng.choice((value, clamped, clamped, f"0.95 * {clamped}", f"({clamped} + 1)"))

    def _grouping_sets(self) -> str:
        keys, counts, rest = self.parts(2)
        sets = (
            f"ROLLUP ({', '.join(keys)})",
            f"CUBE ({', '.join(keys)})",
            f"GROUPING SETS (({keys[0]}), ({', '.join(keys)}), ())",
            f"{keys[0]}, ROLLUP ({keys[1]})",
        )
        bits = [f"GROUPING({keys[0]})"] if self._rng.random() < 0.5 else []
        return f"SELECT {', '.join([*keys, *counts, *bits])} {rest} GROUP BY {self._rng.choice(sets)}"

    def _selection(self) -> str:
        keys, _, rest = self.parts(self._rng.choice((1, 2)))
        listed = ", ".join(keys)
        return self._rng.choice(
            (f"SELECT DISTINCT {listed} {rest}", f"SELECT {listed} {rest} GROUP BY {listed}")
        )

    def _staged(self) -> str:
        """A noisy constant that a private condition compares with."""
        scope, table = self._rng.choice(((("u",), "users u"), (("e",), "events e")))
        column = "birth_year" if table == "users u" else "amount"
        inner = self.count((scope[0],))
        condition = f"{scope[0]}.{column} {self._compare()} (SELECT {inner} FROM {table})"
        keys = [self.key(scope)] if self._rng.random() < 0.5 else []
        return grouped(keys, [self.count(scope)], f"FROM {table} WHERE {condition}")

    def _running(self) -> str:
        unit = self._rng.choice(("day", "week", "month"))
        day = f"date_trunc('{unit}', e.ts)"
        key, count = self.key(("e",)), self._rng.choice(("COUNT(*)", "SUM(e.quantity)"))
        window = f"SUM({count}) OVER (PARTITION BY {key} ORDER BY {day})"
        return f"SELECT {key}, {day}, {window} FROM events e GROUP BY 1, 2"

    def _zero_filled(self) -> str:
        """Public rows kept by an outer join: answered where only they are the groups."""
        table, key = self._rng.choice(
            (("articles a", "a.topic"), ("articles a", "a.article_id"), ("tags a", "a.tag"))
        )
        join = f"{table} LEFT JOIN events e ON e.article_id = a.article_id"
        if self._rng.random() < 0.5:
            join += f" AND {self.condition(('e',), 1)}"
        where = self._rng.choice(("", " WHERE a.article_id < 9", " WHERE e.action = 'view'"))
        counts = ("COUNT(e.user_id)", "COUNT(DISTINCT e.user_id)", "COUNT(*)", self.count(("e",)))
        return f"SELECT {key}, {self._rng.choice(counts)} FROM {join}{where} GROUP BY {key}"
