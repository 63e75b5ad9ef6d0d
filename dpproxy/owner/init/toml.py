"""The commented dpproxy.toml of a proposal."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from budget.accounting import shown_up
from dpproxy.backends.base import BackendSchema, BackendTable
from dpproxy.config.sections import Privacy
from dpproxy.owner.attacker_advantage import lesson
from dpproxy.owner.init.columns import ColumnSetting, person_entries, private_entries, public_entries
from dpproxy.owner.init.units import Layout, Way, shown, single_key
from dpproxy.owner.people import called_after_people, singular, words
from dpproxy.owner.presets import DEFAULT, Preset
from rewriter.policy import TableName

_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")


def written(url: str, schema: BackendSchema, plan: Layout, preset: Preset = DEFAULT) -> str:
    """The file for a backend's URL; what a backend says of itself stays within strings and comments."""
    return "\n".join([*_head(url, plan), *_budget(preset), *_tables(schema, plan, preset)]) + "\n"


def quoted(text: str) -> str:
    """A TOML string.

    >>> print(quoted('a"b'))
    "a\\"b"
    """
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _head(url: str, plan: Layout) -> Iterator[str]:
    unit = plan.unit
    yield from (
        "# Written by `dpproxy init` from names, types, keys and comments; no row was read.",
        f"# Protected: each {unit.column} of {shown(unit.table)}, with all rows that lead there.",
        "# What is not known is left unknown: values of few units are not released, which costs accuracy, not privacy.",
        "# A column is {} until you say what you know of it without looking at the data: its domain, range or bounds",
        "# (docs/configuration.md). `dpproxy check` explains what the file means.",
        "",
        "[backend]",
        f"url = {quoted(url)}",
        "",
        "[server]",
        '# host = "0.0.0.0"            # other machines may connect: needs tls_cert and tls_key',
        'auth = "scram"                # analysts are made by `dpproxy user add NAME`',
        '# error_columns = ["*"]       # logins whose answers have the noise in columns: tools do not show notices',
    )


def _budget(preset: Preset) -> Iterator[str]:
    """[privacy], as far as the preset differs from the defaults, and [budget] with what it guarantees."""
    privacy, budget = preset.privacy, preset.budget
    if preset.words:
        yield from ("", *textwrap.wrap(preset.words, 110, initial_indent="# Preset ", subsequent_indent="# "))
    said = [n for n in Privacy.model_fields if getattr(privacy, n) != getattr(Privacy(), n)]
    if said:
        yield from ("", "[privacy]                     # epsilon_per is pinned in the ledger at its creation")
        yield from (f"{name} = {_value(getattr(privacy, name))}" for name in said)
    (anybody, *shared) = budget.chain("")
    one = lesson(privacy, anybody, 1, "")
    yield from (
        "",
        "[budget]                      # of each analyst",
        "# Whatever one analyst asks in a period, it is differentially private with",
        f"# epsilon {shown_up(one.epsilon, 3)} and delta {shown_up(one.delta, 2)} for each unit.",
        "# `dpproxy advise` explains what that means, and other amounts.",
        f"information = {_decimal(budget.information)}             # a count of one group costs 1, a top 10 about 20",
        f"calls = {_decimal(budget.calls)}                    # a question about values that are not declared costs 1",
        f'period = "{budget.period}"',
        "# max_cost = 25               # most that one statement may cost in a session that says nothing",
        "# price_first = { psql = 5 }  # psql shows a price above that first, and buys when it is sent again",
    )
    if not shared:
        yield "# [budget.dataset]            # a cap over all analysts together, in case they join forces"
        yield from ("# information = 3000", "# calls = 300")
    for cap in shared:
        everybody = lesson(privacy, cap, 1, "")
        yield "[budget.dataset]              # of all analysts together, in case they join forces:"
        yield f"# epsilon {shown_up(everybody.epsilon, 3)} and delta {shown_up(everybody.delta, 2)}"
        yield from (f"information = {_decimal(cap.information)}", f"calls = {_decimal(cap.calls)}")


def _value(value: Fraction | str) -> str:
    return quoted(value) if isinstance(value, str) else _decimal(value)


def _decimal(value: Fraction) -> str:
    return str(value) if value.denominator == 1 else str(float(value))


def _tables(schema: BackendSchema, plan: Layout, preset: Preset) -> Iterator[str]:
    for name, way in plan.private.items():
        yield from ("", *_comment(schema.tables[name]), f"[tables.{toml_key(shown(name))}]")
        yield from _private(schema, name, way, plan, clips=preset.privacy.unit_clips)
    for name in plan.public:
        yield from ("", *_comment(schema.tables[name]), f"[tables.{toml_key(shown(name))}]")
        yield "public = true                 # by --public: anybody may read its rows"
        yield from _columns(name, list(public_entries(schema.tables[name])))
    yield from _to_confirm(schema, plan, preset)
    if plan.left_out:
        yield from ("", "# Left out: these tables do not exist for analysts. Rows of nobody: public = true.")
        yield '# Rows of units: privacy_unit_path = ["column -> table.column"], or --person TABLE.COLUMN.'
        yield '# Rows of other persons: privacy_unit = "column" and privacy_unit_kind = "doctor", or what they are.'
    for name, why in plan.left_out.items():
        yield f"# [tables.{_plain(toml_key(shown(name)))}]  # {_plain(why)}"
        key = single_key(schema.tables[name])
        if key is not None and called_after_people(name[1]):
            kind = singular(words(name[1])[-1])
            yield f"# privacy_unit = {quoted(key)}  # to protect them, too"
            yield f"# privacy_unit_kind = {quoted(kind)}"
            yield from map(_commented, _columns(name, list(person_entries(schema.tables[name]))))


def _to_confirm(schema: BackendSchema, plan: Layout, preset: Preset) -> Iterator[str]:
    """What the owner may uncomment, table by table."""
    if plan.paths:
        yield from (
            "",
            "# To confirm: tables whose rows belong to somebody by the names of columns over a second table.",
        )
        yield '# Is it so? Then take off the "# " of a table\'s lines.'
    for name, way in plan.paths.items():
        guessed = replace(plan, private={**plan.private, name: way})
        lines = _private(schema, name, way, guessed, clips=preset.privacy.unit_clips)
        yield from map(_commented, (f"[tables.{toml_key(shown(name))}]", *lines))
    if plan.dimensions:
        yield from (
            "",
            "# To confirm: tables that private tables refer to. Is every row of one nobody's, such as a product or a",
        )
        yield '# country? Then take off the "# " of its lines, and analysts may read all of it, for good.'
    for name, why in plan.dimensions.items():
        entries = list(public_entries(schema.tables[name]))
        yield f"# [tables.{toml_key(shown(name))}]  # {_plain(why)}"
        yield from map(_commented, ("public = true", *_columns(name, entries)))
    if plan.views:
        yield from ("", "# Views over these tables. Uncomment those that analysts may read:")
        yield from (
            f"# [tables.{toml_key(shown(name))}]  # over {_plain(', '.join(map(shown, bases)))}"
            for name, bases in plan.views.items()
        )


def _commented(line: str) -> str:
    return f"# {line}"


def _private(schema: BackendSchema, name: TableName, way: Way, plan: Layout, *, clips: bool) -> Iterator[str]:
    table = schema.tables[name]
    if way.target is None:
        yield f"privacy_unit = {quoted(way.column)}"
    else:
        guess = (
            "  # a guess by the names: no foreign key says so" if name in {*plan.guessed, *plan.paths} else ""
        )
        yield f"privacy_unit_path = [{quoted(f'{way.column} -> {way.target}')}]{guess}"
    column = table.column(way.column)
    if column is not None and column.nullable:
        yield f"# Rows whose {_plain(way.column)} is NULL are nobody's, and do not count."
    if single_key(table) == way.column and (way.target is None or way.target == plan.unit):
        yield "# One row a unit, so that a unit is in one group at most: a count costs 1."
    elif clips:
        yield "# A unit may have any number of rows: COUNT(*), SUM and AVG need no bound of it."
    else:
        yield "# How many rows of one unit may count? Without an answer COUNT(*) is refused, and"
        yield "# counts of units work. More rows than this do not count:"
        yield "# max_rows_per_unit = 100"
        yield "# max_rows_per_unit_per_group = 10"
    yield from _columns(name, list(private_entries(schema, name, plan)))


def _columns(name: TableName, entries: list[ColumnSetting]) -> Iterator[str]:
    if entries:
        yield f"[tables.{toml_key(shown(name))}.columns]"
    for entry in entries:
        yield f"{toml_key(entry.column)} = {entry.value}  # {_plain(entry.why)}"


def _comment(table: BackendTable) -> Iterator[str]:
    if table.comment:
        yield f"# {_plain(table.comment)}"
    for column in table.columns:
        if column.comment:
            yield f"# {_plain(column.name)}: {_plain(column.comment)}"


def toml_key(name: str) -> str:
    """A key, quoted where it has to be."""
    return name if _BARE.match(name) else quoted(name)


def _plain(text: str) -> str:
    """On one line and without control characters, so that a comment cannot end before it should."""
    return "".join(c for c in " ".join(text.split()) if c.isprintable())
