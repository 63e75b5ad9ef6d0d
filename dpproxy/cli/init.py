"""`dpproxy init`: a dpproxy.toml and a key for a database, by its schema alone."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

import typer

from dpproxy.backends import connect
from dpproxy.backends.base import BackendSchema
from dpproxy.catalog.build_policy import build_policy
from dpproxy.config.key_file import load_key
from dpproxy.config.sections import BackendSection, ConfigError, Privacy, load
from dpproxy.owner.init.columns import private_entries, public_entries
from dpproxy.owner.init.toml import written
from dpproxy.owner.init.units import Layout, Place, candidates, layout, place, shown, single_key, table_called
from dpproxy.owner.presets import DEFAULT, PRESETS, Name
from dpproxy.reporting.rows import OutputError
from dpproxy.reporting.tables import print_json
from rewriter.policy import Table


class _NoRows:
    """Stands for the rows of public tables while a proposal is checked: they are not read yet."""

    def count(self, table: Table) -> int:
        return 0

    def repeats(self, table: Table, columns: Sequence[str]) -> bool:
        return False


def init(
    url: str, file: Path, persons: Sequence[str], public: Sequence[str], preset: Name | None, *, as_json: bool
) -> None:
    """Writes the configuration and the key, and tells what is in it.

    `persons`: TABLE.COLUMN of the privacy unit, and of further columns that hold it; `public`: tables of
    nobody's rows; `preset`: whose parameters and budgets, None for the defaults. Raises OutputError for what is
    there already or not known, BackendUnavailable, ConfigError.
    """
    if file.exists():
        raise OutputError(f"{file} is there already, and is not overwritten: name another by --config")
    backend = connect(url, folder=file.absolute().parent, memory=BackendSection(url=url).memory, slots=1)
    try:
        schema = backend.schema()
    finally:
        backend.close()
    if not schema.tables:
        raise OutputError(_no_tables(url))
    unit, *links = [place(schema, one) for one in persons] or [_unit(schema)]
    plan = layout(schema, unit, links, {table_called(schema, name) for name in public})
    chosen = DEFAULT if preset is None else PRESETS[preset]
    with _new_file(file, written(url, schema, plan, chosen)) as draft:
        try:
            build_policy(load(draft), schema, _NoRows())
        except ConfigError as error:
            raise OutputError(f"the proposal would not do: {error.key}: {error.message}") from None
        key = file.absolute().parent / Privacy().key_file
        load_key(key, may_make=True)
    _tell(file, key, schema, plan, as_json=as_json)


def _no_tables(url: str) -> str:
    """
    >>> _no_tables("postgresql://reader@db/shop")
    'the backend shows no tables: GRANT SELECT ON ALL TABLES IN SCHEMA public TO "reader"'
    """
    role = urlsplit(url).username if url.startswith("postgres") else None
    grant = f': GRANT SELECT ON ALL TABLES IN SCHEMA public TO "{unquote(role)}"' if role else ""
    return f"the backend shows no tables{grant}"


def _unit(schema: BackendSchema) -> Place:
    """The privacy unit where names leave no doubt, else what the terminal answers; OutputError without one."""
    found = candidates(schema)
    if len(found) == 1:
        return found[0]
    keys = [Place(name, key) for name, table in schema.tables.items() if (key := single_key(table))]
    options = [str(one) for one in found or keys]
    if not sys.stdin.isatty():
        example = options[0] if options else "users.user_id"
        said = f"it may be {', '.join(options)}" if options else "no table has a key of one column"
        raise OutputError(f"who is protected? {said}; say so: --person {example}")
    print("Who is protected? The column that names one person, household, customer ...:", file=sys.stderr)
    for option in options:
        print(f"  {option}", file=sys.stderr)
    return place(schema, typer.prompt("TABLE.COLUMN", err=True))


@contextmanager
def _new_file(file: Path, text: str) -> Iterator[Path]:
    """A draft beside `file` that takes its name when all went well; only its owner reads it, it may hold a password."""
    handle, name = tempfile.mkstemp(prefix=f"{file.name}.", dir=file.absolute().parent)
    draft = Path(name)
    try:
        with open(handle, "w", encoding="utf-8") as opened:
            opened.write(text)
        yield draft
        os.link(draft, file)
    except FileExistsError:
        raise OutputError(f"{file} is there already, and is not overwritten") from None
    finally:
        draft.unlink()


def _tell(file: Path, key: Path, schema: BackendSchema, plan: Layout, *, as_json: bool) -> None:
    entries = {name: list(private_entries(schema, name, plan)) for name in plan.private}
    entries |= {name: list(public_entries(schema.tables[name])) for name in plan.public}
    hidden = [f"{shown(name)}.{one.column}" for name, of_it in entries.items() for one in of_it if one.hidden]
    private, public = [shown(name) for name in plan.private], [shown(name) for name in plan.public]
    left_out = {shown(name): why for name, why in plan.left_out.items()}
    if as_json:
        print_json(
            {
                "file": str(file),
                "key": str(key),
                "privacy_unit": str(plan.unit),
                "private": private,
                "public": public,
                "left_out": left_out,
                "hidden": hidden,
            }
        )
        return
    print(f"{file} is written, and the key {key}. No row was read.")
    print(f"Protected: {plan.unit}, in {', '.join(private)}.")
    if public:
        print(f"Public, by your word: {', '.join(public)}.")
    for name, why in left_out.items():
        print(f"Left out: {name} ({why}).")
    if hidden:
        print(f"Hidden: {', '.join(hidden)}.")
    option = "" if file.name == "dpproxy.toml" and file.parent == Path() else f" -c {file}"
    print(f"Next: dpproxy check{option}; dpproxy user add NAME{option}; dpproxy serve{option}")
