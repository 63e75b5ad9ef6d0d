"""The front's schema as statements: a clone of what the policy shows, and the guard on private tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from dpproxy.backends.base import BackendSchema, BackendTable, ForeignKey
from dpproxy.front.comments import column_words, table_words
from dpproxy.pgwire.identifiers import identifier, literal, qualified
from rewriter.plan import INTERVAL_CALLS
from rewriter.policy import Policy, Table, TableName, enum_name, front_name, labels, shown_type
from rewriter.statements.published_table import SCHEMA as PUBLISHED

Shown = tuple[Policy, BackendSchema]
"""A policy, and the schema that NOT NULL, foreign keys and comments come from."""

SYSTEM = "dpproxy"
"""The schema of our own functions and of the relations that the ledger answers."""

BUDGET = (
    ("account", "text"),
    ("unit", "text"),
    ("limit", "numeric"),
    ("used", "numeric"),
    ("reserved", "numeric"),
    ("left", "numeric"),
    ("refreshes_at", "timestamp with time zone"),
)
RELEASES = (
    ("at", "timestamp with time zone"),
    ("query", "text"),
    ("mechanism", "text"),
    ("noise", "text"),
    ("information", "numeric"),
    ("calls", "numeric"),
    ("replayed", "boolean"),
    ("attributed", "text"),
)
LAST_RELEASE = (
    ("mechanism", "text"),
    ("stddev", "text"),
    ("noise", "text"),
    ("threshold", "numeric"),
    ("information", "numeric"),
    ("calls", "numeric"),
    ("information_left", "numeric"),
    ("calls_left", "numeric"),
    ("replayed", "boolean"),
    ("notice", "text"),
    ("warning", "text"),
    ("at", "timestamp with time zone"),
)
_SYSTEM_TABLES = (
    ("budget", BUDGET, "What you may spend, by account and unit of the budget"),
    ("releases", RELEASES, "Your releases, and what they cost"),
    (
        "last_release",
        LAST_RELEASE,
        "Mechanism, noise and charge of the session's last answer, or of your last",
    ),
)

_PUBLISHED = (
    ("name", "text", "The table in the schema published"),
    ("publisher", "text", "Whose account pays"),
    ("refresh", "text", "When it is refreshed: each epoch, each period of the account, or once"),
    ("refreshed_at", "timestamp with time zone", "When these rows were released"),
    ("next_refresh", "timestamp with time zone", "When they are refreshed next"),
    ("information", "numeric", "What the publisher paid for these rows, in information units"),
    ("calls", "numeric", "and in calls"),
    ("last_error", "text", "Why the last refresh failed, so that the old rows stayed"),
    ("query", "text", "What was asked"),
    ("version", "uuid", "Changes with every change of the table"),
)

_FUNCTIONS = f"""
CREATE FUNCTION {SYSTEM}.refuse(code text, message text, detail text, hint text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF detail IS NULL AND hint IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message;
  ELSIF hint IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message, DETAIL = detail;
  ELSIF detail IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message, HINT = hint;
  END IF;
  RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message, DETAIL = detail, HINT = hint;
END $$;
CREATE FUNCTION {SYSTEM}.text_of(anyelement) RETURNS text LANGUAGE sql STABLE
SET datestyle = 'ISO, YMD' SET timezone = 'UTC' SET intervalstyle = 'postgres'
SET extra_float_digits = 1 SET bytea_output = 'hex' AS 'SELECT $1::text';
CREATE FUNCTION {SYSTEM}.guard(message text, hint text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = message, HINT = hint;
END $$;
"""
"""guard is IMMUTABLE so that planning a read calls it, even of no rows; Parse and Describe don't plan."""


_COLUMNS = f"""
CREATE TABLE {SYSTEM}.columns (table_schema text, table_name text, column_name text, data_type text, class text);
COMMENT ON TABLE {SYSTEM}.columns IS 'The role of each column in queries';
"""

COLUMN_DESCRIPTION = f"""
CREATE OR REPLACE FUNCTION pg_catalog.col_description(table_oid oid, column_number integer) RETURNS text
LANGUAGE sql STABLE STRICT PARALLEL SAFE AS $$
  SELECT CASE WHEN k.class IS NULL OR k.class IN ('', d.description) THEN d.description
    ELSE pg_catalog.concat_ws(': ', d.description, k.class) END
  FROM pg_catalog.pg_attribute AS a
  JOIN pg_catalog.pg_class AS c ON c.oid = a.attrelid
  JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
  LEFT JOIN pg_catalog.pg_description AS d
    ON d.objoid = a.attrelid AND d.classoid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objsubid = a.attnum
  LEFT JOIN {SYSTEM}.columns AS k
    ON k.table_schema = n.nspname AND k.table_name = c.relname AND k.column_name = a.attname
  WHERE a.attrelid = $1 AND a.attnum = $2
$$"""
"""What psql prints next to a column: the comment of the backend (pg_description has no more), and the class."""


INTERVALS = "".join(
    f"""
CREATE OR REPLACE FUNCTION pg_catalog.{name}(double precision) RETURNS double precision LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = '{name} shows the noise of aggregates of the same query only',
    HINT = 'Write it where private rows are aggregated: {name}(COUNT(*)).';
END $$;"""
    for name in INTERVAL_CALLS
)
"""So that PostgreSQL knows their types; a presentation has what they show in their place. VOLATILE, since a constant
would be evaluated before it is refused."""


def clone_statements(policy: Policy, schema: BackendSchema, group: str) -> tuple[str, ...]:
    """The statements that make the clone in an empty database, run as the tables' owner.

    `schema`: where NOT NULL, foreign keys and comments come from; `group`: the role that analysts are in.
    Guarded are the tables that are private, or public and not copied into the front, and the ledger's.
    """
    return tuple(_statements(policy, schema, group))


def _statements(policy: Policy, schema: BackendSchema, group: str) -> Iterator[str]:
    reader = identifier(group)
    yield f"CREATE SCHEMA {SYSTEM}"
    yield _FUNCTIONS
    for relation, columns, comment in _SYSTEM_TABLES:
        written = ", ".join(f"{identifier(column)} {kind}" for column, kind in columns)
        yield f"CREATE TABLE {SYSTEM}.{relation} ({written})"
        yield f"COMMENT ON TABLE {SYSTEM}.{relation} IS {literal(comment)}"
        yield _guard((SYSTEM, relation), *_system_refusal(relation))
    yield _COLUMNS
    yield from _published_answers(reader)
    enums = _enums(policy)
    for where in dict.fromkeys(name[0] for name in (*policy.tables, *enums)):
        if where != "public":
            yield f"CREATE SCHEMA {identifier(where)}"
    yield from _types(enums)
    yield from _tables(policy.tables, policy, schema)
    for where in dict.fromkeys((SYSTEM, *(name[0] for name in (*policy.tables, *enums)))):
        if where != "public":
            yield f"GRANT USAGE ON SCHEMA {identifier(where)} TO {reader}"
        yield f"GRANT SELECT ON ALL TABLES IN SCHEMA {identifier(where)} TO {reader}"


def _enums(policy: Policy) -> dict[TableName, tuple[str, ...]]:
    """The enumerated types of the columns that the policy shows, with their labels."""
    shown = (column.type for table in policy.tables.values() for column in table.columns if not column.hidden)
    return {enum_name(of): listed for of in shown if (listed := labels(of)) is not None}


def _types(enums: Mapping[TableName, Sequence[str]]) -> Iterator[str]:
    for name, listed in enums.items():
        yield f"CREATE TYPE {qualified(name)} AS ENUM ({', '.join(map(literal, listed))})"


def _tables(names: Iterable[TableName], policy: Policy, schema: BackendSchema) -> Iterator[str]:
    """The statements that make some tables; foreign keys are checked on tables without rows and guards."""
    names = tuple(names)
    for name in names:
        yield from _table(policy.tables[name], schema.relations[name], clips=policy.unit_clips)
    for name in names:
        for key in schema.relations[name].foreign_keys:
            if _visible_reference(name, key, policy, schema):
                yield _foreign_key(name, key)
    for name in names:
        if not policy.tables[name].in_front:
            yield _guard(name, *_table_refusal(policy.tables[name]))


def changed_tables(before: Shown, after: Shown) -> tuple[list[TableName], list[TableName]]:
    """The tables of a clone that go, and those that are made, where it becomes that of another policy.

    A table that is otherwise in any way goes and is made again, and so do those with foreign keys to it.
    """
    old, new = before[0].tables, after[0].tables
    made = {
        name
        for name in new
        if name not in old
        or [c.type for c in old[name].columns] != [c.type for c in new[name].columns]
        or {*_tables([name], *before)} != {*_tables([name], *after)}
        # Its rows here also depend on what no statement of the clone says: its filter, what computes its columns.
        or (new[name].in_front and new[name] != old[name])
    }
    while True:
        referring = {
            name
            for name in new.keys() - made
            if any(key.target in made for key in after[1].relations[name].foreign_keys)
        }
        if not referring:
            break
        made |= referring
    return [name for name in old if name in made or name not in new], [name for name in new if name in made]


def change_statements(before: Shown, after: Shown, group: str) -> Iterator[str]:
    """The statements that make the clone of one policy that of another, run as the tables' owner."""
    gone, made = changed_tables(before, after)
    if gone:
        yield f"DROP TABLE {', '.join(map(qualified, gone))} CASCADE"
    old, new = _enums(before[0]), _enums(after[0])
    for name in [name for name in old if old[name] != new.get(name)]:
        yield f"DROP TYPE {qualified(name)}"
    for where, table in gone:
        yield f"DELETE FROM {SYSTEM}.columns WHERE (table_schema, table_name) = ({literal(where)}, {literal(table)})"
    made_types = {name: listed for name, listed in new.items() if old.get(name) != listed}
    for where in dict.fromkeys(where for where, _ in made_types if where != "public"):
        yield f"CREATE SCHEMA IF NOT EXISTS {identifier(where)}"
        yield f"GRANT USAGE ON SCHEMA {identifier(where)} TO {identifier(group)}"
    yield from _types(made_types)
    yield from _tables(made, *after)
    for name in made:
        yield f"GRANT SELECT ON {qualified(name)} TO {identifier(group)}"


def _published_answers(reader: str) -> Iterator[str]:
    columns = ", ".join(f"{name} {kind}" for name, kind, _ in _PUBLISHED)
    yield f"CREATE TABLE {SYSTEM}.{PUBLISHED} ({columns})"
    yield f"COMMENT ON TABLE {SYSTEM}.{PUBLISHED} IS 'Answers that were published, and how old they are'"
    for name, _, said in _PUBLISHED:
        yield f"COMMENT ON COLUMN {SYSTEM}.{PUBLISHED}.{name} IS {literal(said)}"
    yield f"CREATE SCHEMA {PUBLISHED}"
    yield f"COMMENT ON SCHEMA {PUBLISHED} IS 'Answers that were paid for once and are free for everybody'"
    yield f"GRANT USAGE ON SCHEMA {PUBLISHED} TO {reader}"


def _table(table: Table, backend: BackendTable, *, clips: bool) -> Iterator[str]:
    name = qualified((table.schema, table.name))
    visible = [column for column in table.columns if not column.hidden]
    filled = {column.name for column in backend.columns if not column.nullable}
    filled |= {column.name for column in visible if column.virtual}
    columns = (
        f"{identifier(column.name)} {front_name(column.type)}{' NOT NULL' if column.name in filled else ''}"
        for column in visible
    )
    yield f"CREATE TABLE {name} ({', '.join(columns)})"
    for kind, key in _keys(table, backend):
        yield f"ALTER TABLE {name} ADD {kind} ({_list(key)})"
    yield f"COMMENT ON TABLE {name} IS {literal(backend.comment or table_words(table, clips=clips))}"
    for column in visible:
        known = backend.column(column.name)
        own, words = known.comment if known else None, column_words(table, column, clips=clips)
        yield f"COMMENT ON COLUMN {name}.{identifier(column.name)} IS {literal(own or words)}"
        told = ", ".join(
            map(literal, (table.schema, table.name, column.name, shown_type(column.type), words))
        )
        yield f"INSERT INTO {SYSTEM}.columns VALUES ({told})"


def _keys(table: Table, backend: BackendTable) -> Iterator[tuple[str, Sequence[str]]]:
    """The primary key as the backend has it, then every other key that clients may rely on."""
    visible = {column.name for column in table.columns if not column.hidden}
    unique = (*backend.unique, *(sorted(key) for key in table.keys))
    seen = set()
    for kind, key in (("PRIMARY KEY", backend.primary_key or ()), *(("UNIQUE", key) for key in unique)):
        columns = frozenset(key)
        if columns and columns <= visible and columns not in seen:
            seen.add(columns)
            yield kind, key


def _visible_reference(name: TableName, key: ForeignKey, policy: Policy, schema: BackendSchema) -> bool:
    here, there = policy.tables[name], policy.tables.get(key.target)
    if there is None or any(here.column(column) is None for column in key.columns):
        return False
    wanted = frozenset(key.target_columns)
    for one, other in zip(key.columns, key.target_columns, strict=True):
        types = {column.type for column in (here.column(one), there.column(other)) if column is not None}
        if len(types) > 1 and any(map(labels, types)):
            return False  # one of DuckDB's is shown as it is, and the other as text
    return any(frozenset(columns) == wanted for _, columns in _keys(there, schema.relations[key.target]))


def _foreign_key(name: TableName, key: ForeignKey) -> str:
    target = f"{qualified(key.target)} ({_list(key.target_columns)})"
    return f"ALTER TABLE {qualified(name)} ADD FOREIGN KEY ({_list(key.columns)}) REFERENCES {target}"


def _list(columns: Iterable[str]) -> str:
    return ", ".join(map(identifier, columns))


def _guard(name: TableName, message: str, hint: str) -> str:
    call = f"{SYSTEM}.guard({literal(message)}, {literal(hint)})"
    table = qualified(name)
    return (
        f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY; ALTER TABLE {table} FORCE ROW LEVEL SECURITY; "
        f"CREATE POLICY guard ON {table} USING ({call})"
    )


def _system_refusal(name: str) -> tuple[str, str]:
    return (
        f'"{SYSTEM}.{name}" cannot be read in this form',
        f"Read it alone: SELECT * FROM {SYSTEM}.{name}",
    )


def _written(name: str) -> str:
    """A name as it can be written in a query."""
    return name if re.fullmatch("[a-z_][a-z0-9_]*", name) else identifier(name)


def _example(table: Table) -> str:
    """A query on a private table that is answered."""
    unit = table.column(table.privacy_unit or "")
    # Without a name for the unit, as where a path leads to it, the rows are counted.
    counted = (
        "*"
        if unit is None or (len(table.path) > 1 and not unit.virtual)
        else f"DISTINCT {_written(unit.name)}"
    )
    schema = "" if table.schema == "public" else f"{_written(table.schema)}."
    return f"SELECT COUNT({counted}) FROM {schema}{_written(table.name)}"


def _table_refusal(table: Table) -> tuple[str, str]:
    if table.public:
        return (
            f'public table "{table.name}" is too large to be read row by row',
            "It can be joined with private tables, and gives them their domains",
        )
    return (
        f'private table "{table.name}" can only be read by a query that dpproxy can rewrite',
        f"Send a single SELECT that aggregates it, e.g. `{_example(table)}`",
    )
