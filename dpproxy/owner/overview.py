"""What a policy lets analysts ask, table by table, and which line of the file would let them ask more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from dpproxy.backends.base import BackendSchema
from dpproxy.config.sections import AccountLimit, Privacy
from dpproxy.config.values import NUMBERS, TEXTS, base
from dpproxy.engine.options import usual_terms
from dpproxy.owner.assess.advice import PolicyLine, written
from dpproxy.owner.attacker_advantage import lessons
from dpproxy.owner.check import rows_per_unit, shown_name
from dpproxy.owner.init.toml import toml_key
from dpproxy.owner.people import KEY_WORDS, words
from mechanisms.choose import choose
from rewriter.policy import Column, Policy, Table, TableName

TOGETHER = 10
"""Analysts in the example of those who join forces."""
_INTEGERS = ("smallint", "integer", "bigint")
_TIMES = ("date", "timestamp without time zone", "timestamp with time zone")


@dataclass(frozen=True)
class Answered:
    """What can be asked of a table, by column.

    Attributes:
        table: its name; `rows`: how many rows of a unit count.
        listed: groups by these columns are shown whole.
        parted: so are groups by their days, months or intervals.
        found: groups by these columns are shown where enough units have them.
        summed: sums and averages.
        ranked: medians and other quantiles, MIN and MAX.
        keys: values that single rows have: to join and to count by, never shown.
    """

    table: str
    rows: str
    listed: tuple[str, ...] = ()
    parted: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    summed: tuple[str, ...] = ()
    ranked: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class Change:
    """What is not answered, of which columns of a table or of which tables, and the lines of the file, as an example,
    that would change it for the first of them."""

    table: str
    what: str
    names: tuple[str, ...]
    lines: tuple[str, ...]


def answered(policy: Policy, privacy: Privacy) -> Iterator[Answered]:
    """What each private table answers.

    >>> table = Table("public", "u", (Column("id", "bigint"), Column("c", "text", True, ("x", "y")),
    ...     Column("n", "integer")), False, ("u",), privacy_unit="id", keys=(frozenset({"id"}),))
    >>> one = next(answered(Policy({("public", "u"): table}, unit_clips=True), Privacy()))
    >>> one.listed, one.found, one.summed, one.ranked
    (('c',), ('n',), ('n',), ())
    """
    for table in policy.tables.values():
        if not table.public:
            columns = _asked(table)
            keys = {column.name for column in columns if _is_key(table, column)}
            rest = [column for column in columns if column.name not in keys]
            numbers = [column for column in rest if _is_amount(column)]
            yield Answered(
                shown_name(table),
                rows_per_unit(table, policy),
                _names(column for column in rest if _is_listed(column)),
                _names(column for column in rest if column.range is not None and not _is_listed(column)),
                _names(c for c in rest if privacy.delta_per and not _is_listed(c) and c.range is None),
                _names(column for column in numbers if policy.unit_clips or _is_bounded(column)),
                _names(column for column in rest if _has_order(column) and _is_bounded(column)),
                tuple(sorted(keys)),
            )


def changes(policy: Policy, schema: BackendSchema, privacy: Privacy) -> Iterator[Change]:
    """What a line of the file would change: table by table, then the tables that the file does not name."""
    for table in policy.tables.values():
        if table.public:
            continue
        columns = [column for column in _asked(table) if not _is_key(table, column)]
        numbers = [c for c in columns if _is_amount(c) and not _is_bounded(c)]
        codes = [c for c in columns if c.type in _INTEGERS and not _is_amount(c) and not _is_listed(c)]
        integers = [c for c in numbers if c.type in _INTEGERS and not _is_listed(c)]
        others = [c for c in numbers if c not in integers]
        rare = "groups that few units have" if privacy.delta_per else "groups, since delta_per is 0"
        ranked = "medians, MIN and MAX" if policy.unit_clips else "sums, averages, medians, MIN and MAX"
        texts = [c for c in columns if base(c.type) in TEXTS and not _is_listed(c)]
        times = [c for c in columns if c.type in _TIMES and c.range is None and c.domain is None]
        yield from _change(table, rare, texts, {"domain": ["A", "B"]})
        yield from _change(table, rare, codes, {"domain": [1, 2]})
        yield from _change(
            table, f"{rare}; medians, MIN and MAX", times, {"range": ["2024-01-01", "2024-12-31"]}
        )
        yield from _change(table, f"{rare}; {ranked}", integers, {"range": [0, 30]})
        yield from _change(table, ranked, others, {"bounds": [0, 100]})
        warned = "leave what names a person hidden"
        yield from _change(table, "hidden from analysts", [c for c in table.columns if c.hidden], {}, warned)
    for what, relations, line in (
        (
            "tables",
            schema.tables,
            "public = true  # if its rows are nobody's; else privacy_unit or privacy_unit_path",
        ),
        ("views", schema.views, None),
    ):
        names = tuple(_shown(name) for name in sorted(relations.keys() - policy.tables.keys()))
        if names:
            head = f"[tables.{toml_key(names[0])}]"
            yield Change("", what, names, (head,) if line is None else (head, line))


def enough(privacy: Privacy) -> int | None:
    """About how many units a group of unknown domain needs where a unit is in one group; None where none is shown."""
    if not privacy.delta_per:
        return None
    settings = usual_terms(privacy).settings
    return choose(settings, domain_size=None, delta0=1, tau=1, k=None, counts=True).threshold


def learnt(privacy: Privacy, limits: list[AccountLimit]) -> Iterator[str]:
    """What each account's limits guarantee, in words, and what they guarantee against analysts who join forces."""
    for limit in limits:
        yield from (one.words for one in lessons(privacy, limit))
    if any(limit.account == "dataset" and limit.mode == "enforce" for limit in limits):
        return
    own = limits[0]
    if own.mode == "enforce":
        name = f"{TOGETHER} analysts who join forces, since no [budget.dataset] limits all"
        joined = replace(
            own, account=name, information=TOGETHER * own.information, calls=TOGETHER * own.calls
        )
        yield [*lessons(privacy, joined)][-1].words


def _change(
    table: Table,
    what: str,
    columns: list[Column],
    said: dict[str, Any],
    warned: str = "an example: write your own values",
) -> Iterator[Change]:
    """`warned`: what stands in a comment behind the line, which is an example."""
    if columns:
        line = PolicyLine(("tables", shown_name(table), "columns"), columns[0].name, said, "")
        *head, last = written([line], {})
        yield Change(shown_name(table), what, _names(columns), (*head, f"{last}  # {warned}"))


def _asked(table: Table) -> list[Column]:
    """The columns that analysts see, without the unit's."""
    unit = {*table.unit, *(column for hop in table.path[:1] for column, _ in hop.pairs)}
    return [c for c in table.columns if not c.hidden and c.name not in unit and not c.virtual]


def _is_key(table: Table, column: Column) -> bool:
    return column.of_unit or frozenset({column.name}) in (*table.keys, *table.declared_keys)


def _is_listed(column: Column) -> bool:
    whole = column.range is not None and column.type in (*_INTEGERS, "date")
    return whole or column.domain is not None or column.domain_from is not None


def _is_bounded(column: Column) -> bool:
    return any(part is not None for part in (column.domain, column.range, column.bounds))


def _is_amount(column: Column) -> bool:
    """A number that is no key by its name: store_id is none to add up."""
    return base(column.type) in NUMBERS and not {*words(column.name)[-1:]} & KEY_WORDS


def _has_order(column: Column) -> bool:
    return _is_amount(column) or column.type in _TIMES


def _shown(name: TableName) -> str:
    return name[1] if name[0] == "public" else ".".join(name)


def _names(columns: Iterable[Column]) -> tuple[str, ...]:
    return tuple(column.name for column in columns)
