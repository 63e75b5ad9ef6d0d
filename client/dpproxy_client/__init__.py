"""A client of dpproxy for notebooks: answers with their intervals, and prices before they are paid."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from html import escape
from math import floor, isfinite, log10
from threading import RLock
from typing import Any, NamedTuple, Self

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

__all__ = ["Answer", "Client", "Column", "Cost", "Offer", "Refused", "TooExpensive", "connect"]

GAUSSIAN, LAPLACE = 1.96, 2.12
"""How many standard deviations to both sides hold the value without noise with probability 95%."""
ONE_SIDED = ("PersonLevelDistinctCount", "DistinctCountCurve")
"""The mechanisms whose value is a lower bound or an estimate from below, around which there is no interval."""
STDDEV, LOW, HIGH = "_stddev", "_low", "_high"
"""Of the columns that `SET dpproxy.error_columns` adds."""
SHOWN = 60
"""The most rows that are printed or shown in a notebook."""

NUMBERS = (int, float, Decimal, timedelta)
ON_A_SCALE = (int, float, Decimal, date, datetime)
"""Types of values that are plotted, and of keys that a plot puts where they lie, not one beside the other."""

Parameters = Sequence[Any] | Mapping[str, Any]


class Cost(NamedTuple):
    """An amount of budget.

    >>> print(Cost(Decimal("1.250"), Decimal(1)))
    1.25 information units and 1 call
    """

    information: Decimal
    calls: Decimal

    def __str__(self) -> str:
        units, calls = (f"{amount.normalize():f}" for amount in self)
        return f"{units} information unit{'s' * (units != '1')} and {calls} call{'s' * (calls != '1')}"


NOTHING = Cost(Decimal(0), Decimal(0))


class Refused(Exception):
    """A statement that was not answered.

    Attributes:
        code: the SQLSTATE; those of dpproxy begin with PV.
        detail, hint: more about it, and what to write instead; None without one.
    """

    def __init__(self, error: psycopg.Error) -> None:
        super().__init__(f"{error.sqlstate}: {error}")
        self.code = error.sqlstate
        self.detail, self.hint = error.diag.message_detail, error.diag.message_hint


class TooExpensive(Exception):
    """A statement that may cost more than `most_units`; `offer` can still be bought."""

    def __init__(self, offer: Offer) -> None:
        super().__init__(f"it costs at most {offer.cost}; nothing was asked or charged")
        self.offer = offer


@dataclass(frozen=True)
class Column:
    """A column of an answer.

    Attributes:
        values: one for each row.
        low, high: between them lies the value without noise with probability 95%; None where that is not known.
        stddev: the standard deviation of each value's noise, None where it is not known.
        noisy: the values have noise, even where no deviation is known.
    """

    name: str
    values: tuple[Any, ...]
    low: tuple[Any, ...]
    high: tuple[Any, ...]
    stddev: tuple[float | None, ...]
    noisy: bool

    def swamped(self, row: int) -> bool:
        """Whether the interval around a value holds 0, so that it may be noise alone."""
        ends = self.low[row], self.values[row], self.high[row]
        if None in ends:
            return False
        low, value, high = map(_number, ends)
        # As the server's warning has it: a 0 is told where its interval holds no other integer.
        return low <= 0 <= high and (value != 0 or high - low >= 1)

    def text(self, row: int) -> str:
        """A value with half the width of its interval, as it is printed.

        >>> Column("n", (1002, 3), (992.2, -6.8), (1011.8, 12.8), (5.0, 5.0), True).text(0)
        '1002 ± 9.8'
        """
        value, low, high = self.values[row], self.low[row], self.high[row]
        if value is None:
            return "NULL"
        if not self.noisy:
            return str(value)
        if low is None or high is None:
            return f"{value} ± ?"
        width = (_number(high) - _number(low)) / 2
        digits = max(0, 1 - floor(log10(width))) if width else 1
        shown = str(value) if isinstance(value, int | timedelta) else f"{value:.{digits}f}"
        if isinstance(value, timedelta):
            about = f"± {timedelta(seconds=width)}"
        elif self.stddev[row] is None:
            about = f"[{low}, {high}]" if isinstance(value, int) else f"[{low:.{digits}f}, {high:.{digits}f}]"
        else:
            about = f"± {width:.{digits}f}"
        return f"{shown} {about}" + " *" * self.swamped(row)


@dataclass(frozen=True, repr=False)
class Answer:
    """The rows of a statement, what they cost and how much they can be relied on.

    Attributes:
        cost: what was charged; nothing for an answer that was paid for before, or has no private data in it.
        left: what the account had left after it.
        mechanisms: by which the private parts were released.
        notices, warnings: what the server said.
    """

    columns: tuple[Column, ...]
    cost: Cost
    left: Cost
    mechanisms: tuple[str, ...]
    notices: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """The values, row by row."""
        return list(zip(*(column.values for column in self.columns), strict=True))

    def __len__(self) -> int:
        return len(self.columns[0].values) if self.columns else 0

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows)

    def __getitem__(self, name: str) -> Column:
        """The first column of that name; KeyError."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(f"no column {name!r}: there are {', '.join(c.name for c in self.columns)}")

    def to_pandas(self) -> Any:
        """A pandas DataFrame: a noisy column `n` is followed by `n_low` and `n_high`, and decimals are floats."""
        import pandas

        return pandas.DataFrame(self._frame())

    def to_polars(self) -> Any:
        """A polars DataFrame with the columns of `to_pandas`."""
        import polars

        return polars.DataFrame(self._frame(), strict=False)

    def plot(self, x: str | None = None, y: str | None = None, ax: Any = None) -> Any:
        """The values of one column with their intervals as error bars; gives matplotlib's Axes.

        `y` is the first noisy column of numbers unless said otherwise, `x` all columns without noise. Values that may
        be noise alone are hollow. ValueError where there is no such column.
        """
        from matplotlib import pyplot

        noisy = (
            c for c in self.columns if c.noisy and all(v is None or isinstance(v, NUMBERS) for v in c.values)
        )
        shown = self[y] if y else next(noisy, None)
        if shown is None:
            raise ValueError("no column of numbers has noise: name the one to plot, y=...")
        across = [self[x]] if x else [c for c in self.columns if not c.noisy and c is not shown]
        rows = [row for row, value in enumerate(shown.values) if value is not None]
        keys = [[column.values[row] for column in across] for row in rows]
        ax = ax or pyplot.subplots(layout="constrained")[1]
        if all(len(key) == 1 and type(key[0]) in ON_A_SCALE for key in keys):
            at = [key[0] for key in keys]
        else:
            at = list(range(len(rows)))
            labels = [", ".join("NULL" if part is None else str(part) for part in key) for key in keys]
            ax.set_xticks(at, labels, rotation=90 if sum(map(len, labels)) > 60 else 0)
        values = [_number(shown.values[row]) for row in rows]
        low, high = (
            [
                value if ends[row] is None else _number(ends[row])
                for row, value in zip(rows, values, strict=True)
            ]
            for ends in (shown.low, shown.high)
        )
        below = [value - end for value, end in zip(values, low, strict=True)]
        above = [end - value for value, end in zip(values, high, strict=True)]
        ax.errorbar(at, values, yerr=[below, above], fmt="o", capsize=3)
        hollow = [n for n, row in enumerate(rows) if shown.swamped(row)]
        if hollow:
            points = [at[n] for n in hollow], [values[n] for n in hollow]
            ax.plot(*points, "o", color="C0", markerfacecolor="white", zorder=3, label="may be noise alone")
            ax.legend()
        ax.set_ylabel(shown.name)
        ax.set_xlabel(", ".join(c.name for c in across))
        return ax

    def __repr__(self) -> str:
        """The rows with their intervals, as a table of text, and the account below it."""
        head, *rows = self._texts()
        widths = [max(map(len, texts)) for texts in zip(head, *rows, strict=True)]
        lines = [
            "  ".join(t.ljust(w) for t, w in zip(row, widths, strict=True)) for row in (head, *rows) if row
        ]
        return "\n".join(line.rstrip() for line in [*lines, *self._remarks()])

    def _repr_html_(self) -> str:
        head, *rows = self._texts()
        lines = ["".join(f"<td>{escape(text)}</td>" for text in row) for row in rows]
        said = "".join(f"<li>{escape(notice)}</li>" for notice in self.notices)
        return (
            f"<table><tr>{''.join(f'<th>{escape(name)}</th>' for name in head)}</tr>"
            f"{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"
            f"<p>{'<br>'.join(map(escape, self._remarks()))}</p>"
            + (f"<details><summary>How it was made</summary><ul>{said}</ul></details>" if said else "")
        )

    def _texts(self) -> list[list[str]]:
        shown = range(min(len(self), SHOWN))
        return [[c.name for c in self.columns], *([c.text(row) for c in self.columns] for row in shown)]

    def _remarks(self) -> list[str]:
        """What has to be known about the rows, below them."""
        swamped = any(c.swamped(row) for c in self.columns for row in range(len(self)))
        unknown = len(self) and all(low is None for column in self.columns for low in column.low)
        return [
            *([f"... {len(self) - SHOWN} more rows"] if len(self) > SHOWN else []),
            *(["(no rows)"] if self.columns and not len(self) else []),
            *(["* may be noise alone"] if swamped else []),
            *(["no intervals are known: see the notices"] if unknown and self.mechanisms else []),
            *self.warnings,
            f"{f'charged {self.cost}' if any(self.cost) else 'no charge'}; {self.left} left",
        ]

    def _frame(self) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        for column in self.columns:
            bounds = [(LOW, column.low), (HIGH, column.high)] if column.noisy else []
            for name, values in [(column.name, column.values), *((column.name + e, v) for e, v in bounds)]:
                taken, number = name, 2
                while name in found:
                    name, number = f"{taken}_{number}", number + 1
                found[name] = [float(v) if isinstance(v, Decimal) else v for v in values]
        return found


@dataclass(frozen=True, repr=False)
class Offer:
    """A statement with its price, not yet asked.

    Attributes:
        cost: the most that it can cost. What was answered before in this epoch is free, whatever is said here.
        left: what the account has left.
        plan: how it would be answered: mechanisms, noise, thresholds and price, line by line.
    """

    sql: str
    params: Parameters | None
    cost: Cost
    left: Cost
    plan: tuple[str, ...]
    client: Client

    def buy(self) -> Answer:
        """Asks the statement; raises Refused."""
        return self.client.ask(self.sql, self.params)

    def __repr__(self) -> str:
        return "\n".join([f"costs at most {self.cost}; {self.left} left", *self.plan])

    def _repr_html_(self) -> str:
        head, *plan = str(self).splitlines()
        return f"<p><b>{escape(head)}</b></p><pre>{escape(chr(10).join(plan))}</pre>"


class Client:
    """A session with dpproxy; threads can share it, and wait for each other. Made by `connect`."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self.connection = connection
        self._lock = RLock()
        self._heard: list[tuple[str, str]] = []
        connection.add_notice_handler(self._hear)

    def price(self, sql: str, params: Parameters | None = None) -> Offer:
        """What a statement would cost, free of charge; raises Refused, also where the price cannot be read."""
        with self._lock:
            # In the extended protocol, which runs no second statement.
            text = psycopg.ClientCursor(self.connection).mogrify(sql, params)
            lines = [str(line) for (line,) in self._run(f"EXPLAIN {text}", extended=True).fetchall()]
            plan, cost = priced(lines)
            return Offer(sql, params, cost, self._left(), plan, self)

    def ask(
        self, sql: str, params: Parameters | None = None, *, most_units: float | Decimal | None = None
    ) -> Answer:
        """Asks one statement, with parameters as psycopg has them (%s, %(name)s), and pays for it.

        Raises Refused; TooExpensive where it may cost more than `most_units` information units.
        """
        with self._lock:
            if most_units is not None:
                offer = self.price(sql, params)
                if offer.cost.information > most_units:
                    raise TooExpensive(offer)
            # Own columns must not be taken for errors, and own settings hide no charge.
            added = STDDEV not in sql.lower()
            self._run(
                "SET client_min_messages = notice; SET dpproxy.notices = on; "
                f"SET dpproxy.error_columns = {'on' if added else 'off'}"
            )
            self._heard.clear()
            cursor = self._run(sql, params)
            names = [column.name for column in cursor.description or ()]
            rows = cursor.fetchall() if names else []
            if cursor.nextset():
                raise ValueError("several statements: ask one at a time")
            heard = tuple(self._heard)
            said = {text for _, text in heard}
            cursor = self._run(
                "SELECT mechanism, noise, information, calls, notice FROM dpproxy.last_release"
            )
            releases = [row for row in cursor.fetchall() if row[4] in said]
            return Answer(
                _columns(names, rows, releases, added and bool(releases)),
                Cost(sum((r[2] for r in releases), Decimal()), sum((r[3] for r in releases), Decimal())),
                self._left(),
                tuple(dict.fromkeys(r[0] for r in releases)),
                tuple(text for severity, text in heard if severity != "WARNING"),
                tuple(text for severity, text in heard if severity == "WARNING"),
            )

    def budget(self) -> Answer:
        """What the account may spend, has spent and has left, and until when."""
        return self.ask("SELECT * FROM dpproxy.budget")

    def close(self) -> None:
        """Ends the session."""
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _hear(self, said: errors.Diagnostic) -> None:
        self._heard.append((said.severity_nonlocalized or "", said.message_primary or ""))

    def _run(
        self, sql: str, params: Parameters | None = None, *, extended: bool = False
    ) -> psycopg.Cursor[tuple[Any, ...]]:
        # Error columns are those of simple queries, whose parameters are bound here.
        kind = psycopg.Cursor if extended else psycopg.ClientCursor
        try:
            return kind(self.connection, row_factory=tuple_row).execute(sql, params, binary=extended)
        except psycopg.Error as error:
            if self.connection.info.transaction_status == TransactionStatus.ACTIVE:
                # COPY has begun, which psycopg neither takes nor ends here.
                self.connection.close()
            if error.sqlstate is None or self.connection.broken:
                raise
            raise Refused(error) from None

    def _left(self) -> Cost:
        left = dict(self._run('SELECT unit, "left" FROM dpproxy.budget').fetchall())
        return Cost(left["information"], left["calls"])


def connect(conninfo: str = "", *, token: str | None = None, **options: Any) -> Client:
    """Opens a session; `conninfo` and `options` are those of psycopg.connect.

    `token` is that of an identity provider, sent in place of a password. It needs TLS: `sslmode` is verify-full unless
    said otherwise. Raises ValueError where it would be sent without TLS or the server is no dpproxy, and psycopg.Error.
    """
    if token is not None:
        said = conninfo_to_dict(conninfo, **options).get("sslmode") or os.environ.get(
            "PGSSLMODE", "verify-full"
        )
        if said not in ("require", "verify-ca", "verify-full"):
            raise ValueError(f"a token is sent as it is, so it needs TLS: sslmode=verify-full, not {said}")
        options |= {"password": token, "sslmode": said}
    connection = psycopg.connect(conninfo, autocommit=True, **options)
    try:
        connection.execute("SELECT FROM dpproxy.last_release LIMIT 0")
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        connection.close()
        raise ValueError("the server is no dpproxy: what it answers has no noise") from None
    return Client(connection)


def priced(lines: Sequence[str]) -> tuple[tuple[str, ...], Cost]:
    """What EXPLAIN says, without the backend's SQL, and the most that the statement costs; ValueError.

    >>> print(priced(["Groups of known domain", "  Cost: at most 1.25 information units and 1 call"])[1])
    1.25 information units and 1 call
    """
    plan = tuple(line for line in lines if not line.startswith(("  Backend:", "    ")))
    if "(cost=" in lines[0] or lines[0].startswith("Answered by the front"):
        return (), NOTHING
    costs = [line for line in plan if line.startswith("  Cost: ")]
    found = [re.search(r"at most ([\d.]+) information units? and ([\d.]+) calls?$", line) for line in costs]
    amounts = [Cost(Decimal(m[1]), Decimal(m[2])) for m in found if m]
    free = sum(line.startswith("  Cost: nothing") for line in costs)
    if not costs or len(amounts) + free < len(costs):
        raise ValueError("the price cannot be read: the server's version is not this client's")
    return plan, Cost(
        sum((c.information for c in amounts), Decimal()), sum((c.calls for c in amounts), Decimal())
    )


def _columns(
    names: Sequence[str], rows: Sequence[Sequence[Any]], releases: Sequence[Sequence[Any]], added: bool
) -> tuple[Column, ...]:
    """The columns of an answer, each with its error column, if these were `added`."""
    own = error_columns(names) if added else [{}] * len(names)
    noise = ", ".join(["", *(release[1] for release in releases)])
    factor = _factor(noise)
    unknown = _unknown(noise)
    one_sided = any(name in release[0] for release in releases for name in ONE_SIDED)
    found = []
    for place, (name, known) in enumerate(zip(names, own, strict=False)):
        stddev, low, high = (
            [row[known[e]] if e in known else None for row in rows] for e in (STDDEV, LOW, HIGH)
        )
        values = [row[place] for row in rows]
        if STDDEV in known and (not one_sided or f", {name} +- " in noise):
            ends = [
                _interval(v, None if s is None else s * factor) for v, s in zip(values, stddev, strict=True)
            ]
            low, high = [low for low, _ in ends], [high for _, high in ends]
        noisy = bool(known) or name in unknown
        found.append(Column(name, tuple(values), tuple(low), tuple(high), tuple(stddev), noisy))
    return tuple(found)


def error_columns(names: Sequence[str]) -> list[dict[str, int]]:
    """For each of the statement's own columns where its errors are, which the server lists behind all of them.

    >>> error_columns(["country", "n", "n_stddev"]), error_columns(["n", "n", "n_stddev"])
    ([{}, {'_stddev': 2}], [{}, {}])
    >>> error_columns(["n", "n_low", "m", "n_stddev", "m_low", "m_high"])
    [{'_stddev': 3}, {}, {'_low': 4, '_high': 5}]
    """
    for width in range(len(names)):
        found: list[dict[str, int]] = [{} for _ in range(width)]
        behind = width
        for name, places in zip(names, found, strict=False):
            for kinds in ((STDDEV,), (LOW, HIGH)):
                if list(names[behind : behind + len(kinds)]) == [name + kind for kind in kinds]:
                    places.update(zip(kinds, range(behind, len(names)), strict=False))
                    behind += len(kinds)
        if behind == len(names):
            # Of several columns of one name, none can be told apart unless all have errors.
            vague = {name for name, places in zip(names, found, strict=False) if not places}
            return [{} if name in vague else places for name, places in zip(names, found, strict=False)]
    return [{} for _ in names]


def _factor(noise: str) -> float:
    """How many standard deviations half an interval is, by the intervals that the server states.

    >>> _factor("n +- 2.0 with 95% (standard deviation 1.00)")
    1.96
    >>> _factor("n +- 12.7 to 42.4 with 95% (standard deviation 6.0 to 20.0)")
    2.12
    """
    figures = r"(?:[\d.]+ to )?([\d.]+)"
    stated = re.findall(rf"\+- {figures} with 95% \(standard deviation {figures}\)", noise)
    return LAPLACE if any(float(width) > 2 * float(deviation) for width, deviation in stated) else GAUSSIAN


def _unknown(noise: str) -> set[str]:
    """The columns of which the server says that they have noise of unknown size.

    >>> sorted(_unknown("n +- 2.0 with 95% (standard deviation 1.00); no interval is known for a, b; more"))
    ['a', 'b']
    """
    return {
        name for names in re.findall("no interval is known for ([^;]*)", noise) for name in names.split(", ")
    }


def _interval(value: Any, width: float | None) -> tuple[Any, Any]:
    if width is None or value is None or not isfinite(_number(value) + width):
        return None, None
    if isinstance(value, timedelta):
        return value - timedelta(seconds=width), value + timedelta(seconds=width)
    return float(value) - width, float(value) + width


def _number(value: Any) -> float:
    return value.total_seconds() if isinstance(value, timedelta) else float(value)
