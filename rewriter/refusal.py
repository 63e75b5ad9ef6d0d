"""Refusals: errors in place of an answer, which never contain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Meaning:
    """The meaning of a code for an analyst, and what to write `instead`, for the documentation."""

    meaning: str
    instead: str


CATALOGUE: Mapping[str, Meaning] = {
    "PV001": Meaning(
        "The privacy budget does not cover the query, or is frozen; or too many statements have failed at the backend.",
        "Ask for fewer aggregates or lower LIMIT; `SELECT * FROM dpproxy.budget` shows what is left and until when. "
        "After failures the data owner has to look.",
    ),
    "PV010": Meaning(
        "The result would have rows of a private table, or groups that are single rows.",
        "Aggregate: `SELECT column, COUNT(*) FROM t GROUP BY column`; for the values alone `SELECT DISTINCT column`.",
    ),
    "PV011": Meaning(
        "The privacy unit would be released, or be a final grouping key.",
        "`COUNT(DISTINCT unit)`, or GROUP BY the unit in a subquery and aggregate its result.",
    ),
    "PV012": Meaning(
        "Two private tables are not joined on the privacy unit.",
        "Add `AND a.unit = b.unit`; an equality under OR or through a function does not count.",
    ),
    "PV013": Meaning(
        "Private tables of two kinds of privacy units, such as patients and doctors, are read together.",
        "Aggregate each by itself and combine the released numbers: "
        "`SELECT (SELECT COUNT(*) FROM visits) / (SELECT COUNT(*) FROM doctors)`.",
    ),
    "PV014": Meaning(
        "LIMIT, a window, DISTINCT ON, a set operation or recursion would mix rows of different units.",
        "Move it outside of the aggregate, or make it per unit: "
        "`ROW_NUMBER() OVER (PARTITION BY unit ORDER BY ...) <= n`.",
    ),
    "PV015": Meaning(
        "A subquery in a condition reads rows of other units.",
        "`unit IN (SELECT unit FROM ...)`, EXISTS or an aggregate correlated on the unit; an aggregate by itself, "
        "or correlated by equality with columns of known domain: it becomes noisy numbers.",
    ),
    "PV016": Meaning(
        "An aggregate needs finite bounds of its values.",
        "`MAX(LEAST(GREATEST(x, lo), hi))` or `WHERE x BETWEEN lo AND hi`; or ask the data owner to declare bounds.",
    ),
    "PV017": Meaning(
        "One unit can be in any number of the groups.",
        "`ORDER BY COUNT(*) DESC LIMIT k`, or group by fewer columns.",
    ),
    "PV018": Meaning(
        "No mechanism answers this aggregate.",
        "COUNT, COUNT(DISTINCT), SUM, AVG, VARIANCE, STDDEV, PERCENTILE_CONT, PERCENTILE_DISC, "
        "MIN and MAX of bounded numbers, dates and texts.",
    ),
    "PV019": Meaning(
        "UNION ALL mixes private and public rows.",
        "Aggregate the private branch first, or add the public rows outside.",
    ),
    "PV020": Meaning(
        "A function on private rows could fail on one unit's row, is volatile, or has side effects.",
        "Use those listed above; any function works on the released rows, outside of the aggregates.",
    ),
    "PV021": Meaning(
        "An outer join keeps rows of a public table that belong to no unit.",
        "INNER JOIN, or GROUP BY only columns of the public table and `COUNT(private.column)`.",
    ),
    "PV022": Meaning(
        "Groups of an unknown domain need a policy with delta > 0.",
        "Restrict the groups: `WHERE column IN (...)`.",
    ),
    "PV023": Meaning(
        "The groups' domain has too many cells.",
        "Coarser buckets, or a range in WHERE.",
    ),
    "PV024": Meaning(
        "A bare list of the values of a column of unknown domain, as tools send it automatically, where the data owner "
        'has not said `scans = "charge"`.',
        "`SELECT column, COUNT(DISTINCT unit) FROM t GROUP BY column ORDER BY 2 DESC LIMIT 10`; or a list with a "
        "condition, without a LIMIT above `max_k`; or ask the data owner to declare a domain.",
    ),
    "PV025": Meaning(
        "The data owner offers this kind of release for less, or not at all.",
        "Ask for fewer groups, or add `ORDER BY COUNT(DISTINCT unit) DESC LIMIT 10`; or ask the data owner for a "
        "higher allowance.",
    ),
    "PV026": Meaning(
        "The statement may cost more than `dpproxy.max_cost` allows, which the session or the data owner has set.",
        "A lower LIMIT or fewer aggregates; or `SET dpproxy.max_cost` to its price.",
    ),
    "PV027": Meaning(
        "The price of the statement, which is above `dpproxy.price_first`. Nothing was charged.",
        "Send it again to buy it, or `SET dpproxy.price_first = off`.",
    ),
    "PV090": Meaning(
        "The backend failed; the reason is withheld because it may depend on private data. The charge stays.",
        "Simplify expressions and conditions, or ask the data owner, who has to look after three failures.",
    ),
    "0A000": Meaning(
        "A statement or a construct that dpproxy does not support.",
        "One SELECT, written plainly; the hint says what.",
    ),
    "25006": Meaning(
        "The statement would write.",
        "Send a SELECT, or publish an answer: `CREATE TABLE published.name AS SELECT ...`.",
    ),
    "22003": Meaning("A number is out of the range of its type.", "A smaller number."),
    "22012": Meaning(
        "A constant divides by zero, or what is computed from any answer does.", "NULLIF(x, 0)."
    ),
    "22023": Meaning("Invalid value for a setting or function argument.", "See the hint."),
    "22025": Meaning("A LIKE pattern ends with its escape character.", "Write the escape character twice."),
    "2201W": Meaning("LIMIT is negative.", "A number from 0."),
    "2201X": Meaning("OFFSET is negative.", "A number from 0."),
    "22P02": Meaning(
        "A constant is no label of the enumerated type that it is compared with.",
        "SELECT enum_range(NULL::type) shows the labels.",
    ),
    "2BP01": Meaning(
        "Another published table has a column of this table's row type.", "Drop that table first."
    ),
    "40001": Meaning(
        "The owner has changed the policy while the statement was under way, or lets nothing be bought for a while.",
        "Send it again.",
    ),
    "42501": Meaning(
        "Analysts may not change the setting, or the published table is somebody else's.",
        "Analysts may change the settings named in the hint; the data owner grants the right to publish.",
    ),
    "42601": Meaning("The text cannot be read.", "Check quotes, comments and commas."),
    "42701": Meaning("Two columns of a published answer have one name.", "`COUNT(*) AS number`."),
    "42702": Meaning("Several tables have a column of this name.", "Write the table's alias before it."),
    "42703": Meaning("There is no such column.", "The hint names columns that exist."),
    "42704": Meaning(
        "There is no such type.", "PostgreSQL's names: text, integer, numeric, date, timestamp."
    ),
    "42803": Meaning(
        "A column is neither grouped nor aggregated, or aggregates are nested.", "Add it to GROUP BY."
    ),
    "42804": Meaning("Types do not fit.", "CAST(x AS type)."),
    "42883": Meaning("There is no such function for these types.", "See the hint."),
    "42P01": Meaning("There is no such table.", "`\\d` lists the tables."),
    "42P02": Meaning("There is no such parameter.", "Bind as many values as the text has."),
    "42P06": Meaning("The schema published always exists.", "`CREATE SCHEMA IF NOT EXISTS published`."),
    "42P07": Meaning("An answer is already published under this name.", "Another name, or DROP TABLE first."),
    "42P10": Meaning(
        "GROUP BY or ORDER BY names a position that the SELECT list does not have.", "Name the column."
    ),
    "42P16": Meaning("A column of a published answer has a type that no table can have.", "CAST(x AS type)."),
    "54000": Meaning(
        "The statement, or what it declares, is too long; "
        "or it needs more rows of the private data than the owner allows.",
        "Fewer constants; fewer groups, or a narrower WHERE.",
    ),
    "54001": Meaning(
        "The statement is too complex: nesting, constants or planning steps.",
        "IN (...) for alternatives; use a WITH query once or twice.",
    ),
    "55P03": Meaning(
        "A transaction that has read a published table prevents dropping or renaming it.", "End it."
    ),
    "57014": Meaning(
        "The statement was cancelled or timed out; once the backend was reached it stays charged.", "-"
    ),
    "57P03": Meaning("A part of the proxy cannot be reached; nothing was charged.", "Try again in a moment."),
}
"""Every code that a query can be refused with."""


class Refusal(Exception):
    """A statement that gets an error instead of an answer.

    `code` is an SQLSTATE, `position` the 1-based character of the client's text that it is about.
    No text of it may depend on private data: it is decided from the statement and the policy alone.

    >>> Refusal("PV010", "no rows", hint="aggregate").code
    'PV010'
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        detail: str | None = None,
        hint: str | None = None,
        position: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.detail = detail
        self.hint = hint
        self.position = position
