"""A proposal for a database: a configuration and a key, made of its schema alone."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from dpproxy.backends import connect
from dpproxy.backends.base import BackendColumn, BackendSchema, BackendTable
from dpproxy.catalog.build_policy import build_policy
from dpproxy.config.key_file import load_keys
from dpproxy.config.sections import BackendSection, ConfigError, Privacy, load
from dpproxy.owner.init.columns import private_entries, public_entries
from dpproxy.owner.init.guesses import with_guesses, with_views
from dpproxy.owner.init.toml import written
from dpproxy.owner.init.units import Layout, Place, candidates, layout, place, shown, single_key, table_called
from dpproxy.owner.presets import Preset
from dpproxy.reporting.rows import OutputError
from rewriter.policy import Table


@dataclass(frozen=True)
class Proposal:
    """What was written where: the configuration in `file`, its key, and the layout that it says."""

    file: Path
    key: Path
    schema: BackendSchema
    plan: Layout

    def hidden(self) -> list[str]:
        """The columns that analysts do not see, as TABLE.COLUMN."""
        tables, plan = self.schema.tables, self.plan
        entries = {name: list(private_entries(self.schema, name, plan)) for name in plan.private}
        entries |= {name: list(public_entries(tables[name])) for name in plan.public}
        return [
            f"{shown(name)}.{one.column}" for name, of_it in entries.items() for one in of_it if one.hidden
        ]


class _NoRows:
    """Stands for the rows of public tables while a proposal is checked: they are not read yet."""

    def computed(self, table: BackendTable, name: str, expression: str) -> BackendColumn:
        raise ValueError("a proposal computes no columns")

    def count(self, table: Table) -> int:
        return 0

    def repeats(self, table: Table, columns: Sequence[str]) -> bool:
        return False


def propose(
    url: str,
    file: Path,
    persons: Sequence[str],
    public: Sequence[str],
    preset: Preset,
    ask: Callable[[Sequence[str]], str],
) -> Proposal:
    """Writes a configuration that has been checked, and the key.

    `persons`: TABLE.COLUMN of the privacy unit, and of further columns that hold it; `public`: tables of
    nobody's rows; `ask`: which TABLE.COLUMN is the unit, where names leave a doubt. Raises OutputError for what
    is there already or not known, BackendUnavailable, ConfigError.
    """
    if file.exists():
        raise OutputError(f"{file} is there already, and is not overwritten: name another by --config")
    backend = connect(url, folder=file.absolute().parent, memory=BackendSection(url=url).memory, slots=1)
    try:
        schema, views = backend.schema(), backend.views()
    finally:
        backend.close()
    if not schema.tables:
        raise OutputError(_no_tables(url))
    unit, *links = [place(schema, one) for one in persons] or [_unit(schema, ask)]
    plan = layout(schema, unit, links, {table_called(schema, name) for name in public})
    plan = with_views(with_guesses(schema, plan), views)
    with _new_file(file, written(url, schema, plan, preset)) as aggregate:
        try:
            build_policy(load(aggregate), schema, _NoRows())
        except ConfigError as error:
            raise OutputError(f"the proposal would not do: {error.key}: {error.message}") from None
        key = file.absolute().parent / Privacy().key_file
        load_keys(key, may_make=True)
    return Proposal(file, key, schema, plan)


def _no_tables(url: str) -> str:
    """
    >>> _no_tables("postgresql://reader@db/shop")
    'the backend shows no tables: GRANT SELECT ON ALL TABLES IN SCHEMA public TO "reader"'
    """
    role = urlsplit(url).username if url.startswith("postgres") else None
    grant = f': GRANT SELECT ON ALL TABLES IN SCHEMA public TO "{unquote(role)}"' if role else ""
    return f"the backend shows no tables{grant}"


def _unit(schema: BackendSchema, ask: Callable[[Sequence[str]], str]) -> Place:
    """The privacy unit where names leave no doubt, else what is answered."""
    found = candidates(schema)
    if len(found) == 1:
        return found[0]
    keys = [Place(name, key) for name, table in schema.tables.items() if (key := single_key(table))]
    return place(schema, ask([str(one) for one in found or keys]))


@contextmanager
def _new_file(file: Path, text: str) -> Iterator[Path]:
    """A draft beside `file` that takes its name when all went well; only its owner reads it, it may hold a password."""
    handle, name = tempfile.mkstemp(prefix=f"{file.name}.", dir=file.absolute().parent)
    aggregate = Path(name)
    try:
        with open(handle, "w", encoding="utf-8") as opened:
            opened.write(text)
        yield aggregate
        os.link(aggregate, file)
    except FileExistsError:
        raise OutputError(f"{file} is there already, and is not overwritten") from None
    finally:
        aggregate.unlink()
