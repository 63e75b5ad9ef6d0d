"""The front: a PostgreSQL with the schema and public rows, which answers catalogs and reads statements."""

from __future__ import annotations

import hashlib
import hmac
import select
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple
from functools import partial
from pathlib import Path
from typing import Self

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from dpproxy.backends.base import BackendSchema, Row, interrupting
from dpproxy.embedded.binaries import share_time_zones
from dpproxy.embedded.server import Embedded
from dpproxy.front.clone import (
    COLUMN_DESCRIPTION,
    INTERVALS,
    SYSTEM,
    Shown,
    change_statements,
    changed_tables,
    clone_statements,
)
from dpproxy.front.connection_pool import ConnectionPool
from dpproxy.front.published_tables import NOTES, Work, depended_on, done, in_use
from dpproxy.front.roles import TAKEN, Roles, grants, lock_down, make_database, make_roles, take
from dpproxy.front.statement import (
    Described,
    Kind,
    alike,
    checked,
    described,
    encoded,
    execute,
    other_than_constant,
    parsed,
    run,
    says_nothing,
    texts,
    type_names,
)
from dpproxy.front.visibility import hidden
from dpproxy.front.waiting import waiting
from dpproxy.pgwire.identifiers import identifier, literal, possible_name, qualified, unusable_name
from rewriter.policy import Policy, Table, TableName
from rewriter.refusal import Refusal
from rewriter.statements.set_statement import SETTINGS

_DATABASE = "dpproxy"
_CHECKERS, _TYPES = 4, 10_000
_CHECKS = 10_000
"""Of one connection: each statement adds 0.2 kB or so to its process, names that were looked up."""
CONSTANT_TIMEOUT = "5s"
"""How long a constant of a statement may be computed, before anything is paid."""
_PATIENCE_SECONDS = 2
_UNCHECKED = "SET LOCAL session_replication_role = replica"
"""Foreign keys of the clone are not checked: those of guarded tables would read these, and they hold in the backend."""
_CHANGE_SECONDS, _LOCK_TIMEOUT, _BETWEEN_SECONDS = 20, "300ms", 0.2
"""How long a change of the clone waits for those who use its tables, at a time, and between two tries."""
_END_THOSE_IN_THE_WAY = """
SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity AS a JOIN pg_roles AS r ON r.oid = a.usesysid
WHERE a.datname = current_database() AND NOT r.rolsuper
    AND clock_timestamp() - a.xact_start > make_interval(secs => %s) AND EXISTS (
        SELECT FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation
        JOIN pg_namespace AS n ON n.oid = c.relnamespace
        JOIN unnest(%s::text[], %s::text[]) AS changed (schema, name)
            ON (changed.schema, changed.name) = (n.nspname, c.relname)
        WHERE l.pid = a.pid AND l.database = a.datid AND l.granted
    )
"""
"""Whoever keeps a transaction open keeps a policy from being narrowed."""
SESSION_MEMORY = 512_000_000
_AROUND = "SELECT * FROM ("
_PINNED = {
    "client_encoding": "UTF8",
    "DateStyle": "ISO,YMD",
    "TimeZone": "UTC",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "standard_conforming_strings": "on",
    "statement_timeout": "30s",
}
_SETTINGS = {
    "shared_buffers": "64MB",
    # Of a session, of which a login may have many: cursors WITH HOLD keep theirs, beside the ledger.
    "temp_file_limit": "128MB",
    "max_locks_per_transaction": "256",
    "max_wal_senders": "0",
    "wal_level": "minimal",
    "jit": "off",
}


class FrontError(Exception):
    """The front could not be prepared; the message is for the owner."""


class Front:
    """A prepared front. Every method may be called from any thread."""

    def __init__(self, conninfo: str, secret: bytes, embedded: Embedded | None) -> None:
        self._conninfo = conninfo
        self._secret = secret
        self._embedded = embedded
        self._administration = threading.RLock()
        self._admin: psycopg.Connection | None = None
        self._checkers = ConnectionPool(
            make=self._open_checker,
            usable=_usable,
            end=lambda checker: checker.close(),
            most=_CHECKERS,
            uses=_CHECKS,
        )
        self._verifiers: dict[str, str] = {}
        self._types: dict[Kind, str] = {}
        self._roles = self._prepare()

    @classmethod
    def start(
        cls, data_dir: Path, *, sessions: int = 200, processes: int = 1, memory: int = SESSION_MEMORY
    ) -> Self:
        """Starts the embedded front of `data_dir`, or attaches to it where another process runs it.

        `sessions`: how many analysts may be connected at once; `processes`: how many use it for them; `memory`: bytes
        that each session of it may have for itself. Raises EmbeddedError, FrontError.
        """
        share_time_zones()
        settings = {**_SETTINGS, "max_connections": str(sessions + 20 * processes)}
        embedded = Embedded.start(data_dir, durable=False, settings=settings, memory=memory)
        try:
            secret = embedded.password.encode()
            return cls(embedded.conninfo(dbname=_DATABASE), secret, embedded)
        except BaseException:
            embedded.stop()
            raise

    @classmethod
    def connect(cls, url: str) -> Self:
        """A front in a dedicated database of another PostgreSQL.

        `url`: names a superuser and a password. Raises FrontError.
        """
        try:
            values = conninfo_to_dict(url)
        except psycopg.Error as error:
            raise FrontError(f"the front's url cannot be read: {error}") from None
        if not values.get("password") or not values.get("dbname"):
            raise FrontError("the front's url has to name a password and a database")
        return cls(url, str(values["password"]).encode(), None)

    @property
    def address(self) -> Path | tuple[str, int]:
        """Where to connect to: the Unix socket itself, or host and port."""
        if self._embedded is not None:
            return self._embedded.socket_path
        values = conninfo_to_dict(self._conninfo)
        host, port = str(values.get("host") or "localhost"), int(values.get("port") or 5432)
        return Path(host) / f".s.PGSQL.{port}" if host.startswith("/") else (host, port)

    @property
    def database(self) -> str:
        """The database that the clone is in."""
        return str(conninfo_to_dict(self._conninfo)["dbname"])

    @property
    def owner(self) -> bool:
        """Whether this process started the server and will stop it."""
        return self._embedded is not None and self._embedded.owner

    def close(self) -> None:
        """Closes the connections and stops the server if it is ours."""
        self._checkers.clear()
        with self._administration:
            if self._admin is not None:
                self._admin.close()
                self._admin = None
        if self._embedded is not None:
            self._embedded.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def clone(self, policy: Policy, schema: BackendSchema) -> None:
        """Makes the clone of what `policy` shows; does nothing if it is there already.

        `schema`: the backend's, for NOT NULL, foreign keys and comments. A new clone has no
        public rows: load_public follows. Raises FrontError.
        """
        statements = clone_statements(policy, schema, self._roles.group)
        path = ", ".join(map(identifier, policy.search_path))
        stamp = _stamp(path, statements)
        owner = identifier(self._roles.owner)
        with self._as_admin() as admin, admin.transaction():
            run(admin, "SELECT pg_advisory_xact_lock(20)")
            found = run(admin, f"SELECT obj_description(to_regnamespace('{SYSTEM}'), 'pg_namespace')")
            if found.fetchall() == [(stamp,)]:
                return
            run(admin, f"DROP OWNED BY {owner} CASCADE")
            for statement in grants(self._roles, self.database):
                run(admin, statement)
            run(admin, f"SET LOCAL ROLE {owner}")
            for statement in statements:
                run(admin, statement)
            run(admin, f"COMMENT ON SCHEMA {SYSTEM} IS {literal(stamp)}")
            run(admin, "RESET ROLE")
            run(admin, "SET LOCAL allow_system_table_mods = on")
            run(admin, COLUMN_DESCRIPTION)
            run(admin, INTERVALS)
            run(admin, f"ALTER DATABASE {identifier(self.database)} SET search_path = {path}")
        self._checkers.clear()

    @contextmanager
    def changing(self, before: Shown, after: Shown, rows: Callable[[Table], Iterable[Row]]) -> Iterator[None]:
        """Makes the clone of one policy that of another for running sessions, once its context ends without an error.

        Within the context nobody reads the tables that change: statements that use them are waited for, and analysts'
        sessions that do not let go of them are ended. `rows`: of a public table. Raises FrontError, also where that is
        to no avail, and has then changed nothing.
        """
        statements = tuple(change_statements(before, after, self._roles.group))
        if not statements:
            yield
            return
        dropped, made = changed_tables(before, after)
        filled = [table for name in made if (table := after[0].tables[name]).in_front]
        path = ", ".join(map(identifier, after[0].search_path))
        stamp = _stamp(path, clone_statements(*after, self._roles.group))
        try:
            with self._open_admin() as admin:
                _begin_patiently(admin, self._roles.owner, statements, {*dropped, *made})
                run(admin, f"COMMENT ON SCHEMA {SYSTEM} IS {literal(stamp)}")
                run(admin, "RESET ROLE")
                for table in filled:
                    _fill(admin, table, rows(table))
                yield
                run(admin, "COMMIT")
        except psycopg.errors.LockNotAvailable:
            raise FrontError("a statement that uses a table of the change does not end: try again") from None
        except psycopg.Error as error:
            raise FrontError(f"the front cannot be changed: {error}") from error
        self._checkers.clear()

    def load_public(self, table: Table, rows: Iterable[Row]) -> None:
        """Replaces the rows of a public table that is copied into the front, all at once.

        `rows`: the visible columns in their order. Raises FrontError, ValueError for another table.
        """
        if not table.public or not table.in_front:
            raise ValueError(f'table "{table.name}" is not copied into the front')
        name = qualified((table.schema, table.name))
        try:
            # A connection of its own: logging in does not wait for it.
            with self._open_admin() as admin, admin.transaction():
                run(admin, f"LOCK TABLE {name} IN SHARE ROW EXCLUSIVE MODE")
                run(admin, _UNCHECKED)
                run(admin, f"DELETE FROM {name}")
                _fill(admin, table, rows)
        except psycopg.Error as error:
            raise FrontError(f'public table "{table.name}" cannot be loaded: {error}') from error

    def role_for(self, analyst: str, may: Callable[[str], bool] | None = None) -> tuple[str, str]:
        """The analyst's own role in the front and its password, made or set right.

        `may`: whether it may take the role of another analyst; those that it could take before and may not are taken
        from it. Raises Refusal: 28000 for a name that PostgreSQL or we keep to ourselves, 57P03 without a front.
        """
        with self._changing_roles(analyst) as admin:
            password = hmac.digest(self._secret, b"analyst " + analyst.encode(), "sha256").hex()
            self._set_right(admin, analyst, password)
            for (role,) in admin.execute(TAKEN, (analyst,)).fetchall() if may else ():
                if role != self._roles.group and may and not may(role):
                    run(admin, f"REVOKE {identifier(role)} FROM {identifier(analyst)}")
        return analyst, password

    def let_take(self, login: str, analyst: str) -> None:
        """Lets the role of a login, which is there, take the role of an analyst, made where it is missing.

        Raises Refusal as `role_for`.
        """
        with self._changing_roles(analyst) as admin:
            if (analyst,) in admin.execute(TAKEN, (login,)).fetchall():
                return
        self.role_for(analyst)
        with self._changing_roles(analyst) as admin:
            run(admin, take(login, analyst, admin.info.server_version))

    @contextmanager
    def _changing_roles(self, analyst: str) -> Iterator[psycopg.Connection]:
        if not possible_name(analyst):
            raise unusable_name(analyst)
        try:
            with self._as_admin() as admin, admin.transaction():
                run(admin, "SELECT pg_advisory_xact_lock(21)")
                yield admin
        except FrontError:
            raise _out_of_reach() from None

    def _set_right(self, admin: psycopg.Connection, analyst: str, password: str) -> None:
        """An analyst may change the role's password and settings; both are put back."""
        found = admin.execute(
            "SELECT pg_has_role(a.oid, %s::name, 'MEMBER') AND NOT rolsuper, rolpassword, "
            "EXISTS (SELECT FROM pg_db_role_setting WHERE setrole = a.oid) "
            "FROM pg_authid AS a WHERE rolname = %s",
            (self._roles.group, analyst),
        ).fetchone()
        role = identifier(analyst)
        if found is None:
            group = identifier(self._roles.group)
            options = " WITH INHERIT TRUE, SET FALSE" if admin.info.server_version >= 160000 else ""
            run(admin, f"CREATE ROLE {role} LOGIN INHERIT")
            run(admin, f"GRANT {group} TO {role}{options}")
        elif not found[0] or analyst in astuple(self._roles):
            raise unusable_name(analyst)
        elif found[2]:
            run(admin, f"ALTER ROLE {role} RESET ALL")
            run(admin, f"ALTER ROLE {role} IN DATABASE {identifier(self.database)} RESET ALL")
        if found is None or found[1] != self._verifiers.get(analyst):
            encrypted = admin.pgconn.encrypt_password(password.encode(), analyst.encode(), b"scram-sha-256")
            self._verifiers[analyst] = encrypted.decode()
            run(admin, f"ALTER ROLE {role} PASSWORD {literal(self._verifiers[analyst])}")

    def agrees(self, text: str, regenerated: str, oids: Sequence[int]) -> bool:
        """Whether PostgreSQL understands the client's text and our own alike.

        Both become the body of an SQL-standard function, which is analysed, never planned, and printed back.
        `oids`: the parameters' types as the client gave them, 0 for unspecified ones. Raises Refusal with the
        front's own code, message and position where the client's text does not parse.
        """
        with self._checker() as checker:
            types = parsed(checker, text, oids)
            try:
                if parsed(checker, regenerated, types) != types:
                    return False
            except Refusal as refusal:
                if says_nothing(refusal):
                    raise
                return False
            return alike(checker, text, regenerated, types)

    def other_than_constant(self, sql: str, oids: Sequence[int], *, rows: bool = False) -> str | None:
        """The name of a function in `sql`, a SELECT of an expression without columns, whose value may change within
        a statement or depends on the session; None where there is none. Raises Refusal.

        `rows`: of any SELECT, with aggregates, windows and functions that give rows.
        """
        with self._checker() as checker:
            return other_than_constant(checker, sql, oids, rows=rows)

    def describe(self, sql: str, oids: Sequence[int]) -> tuple[Described, ...]:
        """The columns of a statement's result, which is neither planned nor run.

        Raises Refusal with the front's own code, message and position.
        """
        with self._checker() as checker:
            return self._described(checker, sql, oids)

    def _described(
        self, connection: psycopg.Connection, sql: str, oids: Sequence[int]
    ) -> tuple[Described, ...]:
        return described(connection, sql, oids, self._known_types())

    def type_names(self, oids: Sequence[int]) -> tuple[str, ...]:
        """The names of types, as `Column.type` has them; raises Refusal."""
        with self._checker() as checker:
            return type_names(checker, [(oid, None) for oid in oids], self._known_types())

    def _known_types(self) -> dict[Kind, str]:
        if len(self._types) > _TYPES:
            # A client can name any number of types: varchar has many lengths.
            self._types = {}
        return self._types

    def parameter_types(self, sql: str, oids: Sequence[int]) -> tuple[int, ...]:
        """The type OIDs of a statement's parameters; raises Refusal like `describe`."""
        with self._checker() as checker:
            return parsed(checker, sql, oids)

    def rows(self, sql: str, *, most: int = 2_000_000) -> tuple[Row, ...]:
        """The rows of a query over public tables and constants, every value as text (ISO dates, UTC).

        Raises Refusal: the front's own, 54000 for more than `most` rows.
        """
        with self._checker() as checker:
            parsed(checker, sql, ())
            with checker.transaction():
                execute(checker, f"DECLARE dpproxy_rows NO SCROLL CURSOR FOR {sql}")
                result = execute(checker, f"FETCH {most + 1} FROM dpproxy_rows")
        return texts(result, most)

    def evaluate(
        self, sql: str, oids: Sequence[int], values: Sequence[str | None], arrays: Sequence[bytes], most: int
    ) -> tuple[Row, ...]:
        """The rows of a query over public tables, constants and released rows, every value as text.

        `oids`: the types of `values`, given as canonical text, and of the binary `arrays` behind them. Raises
        Refusal: the front's own, 54000 for more than `most` rows.
        """
        given = [None if v is None else encoded(v) for v in values] + list(arrays)
        formats = [pq.Format.TEXT] * len(values) + [pq.Format.BINARY] * len(arrays)
        with self._checker() as checker, checker.transaction():
            execute(checker, f"SET LOCAL statement_timeout = '{CONSTANT_TIMEOUT}'")
            result = checked(
                checker.pgconn.exec_params(encoded(f"{sql} LIMIT {most + 1}"), given, list(oids), formats)
            )
        return texts(result, most)

    def evaluate_as(
        self, analyst: str, sql: str, oids: Sequence[int], arrays: Sequence[bytes], most: int
    ) -> tuple[tuple[Described, ...], tuple[Row, ...]]:
        """The columns and rows of a query that runs with no more than an analyst's own rights, as `evaluate`'s.

        `oids`: the types of the binary `arrays`. Raises Refusal: the front's own, 54000 for more than `most` rows.
        """
        role, password = self.role_for(analyst)
        conninfo = make_conninfo(self._conninfo, user=role, password=password)
        try:
            with psycopg.connect(conninfo, autocommit=True, options=_options(_PINNED)) as connection:
                columns = self._described(connection, sql, oids)
                text = encoded(f"{_AROUND}{sql}\n) AS q LIMIT {most + 1}")
                formats = [pq.Format.BINARY] * len(arrays)
                result = connection.pgconn.exec_params(text, list(arrays), list(oids), formats)
        except psycopg.Error:
            raise _out_of_reach() from None
        try:
            checked(result)
        except Refusal as refusal:
            if refusal.position is not None:
                refusal.position -= len(_AROUND)
            raise
        return columns, texts(result, most)

    def published(self) -> dict[str, str]:
        """The version of each published answer that is here, by its name; raises FrontError."""
        with self._as_admin() as admin:
            return dict(run(admin, f"SELECT name, version::text FROM {NOTES}").fetchall())

    def publish(self, work: Work) -> None:
        """Changes published answers as the tables' owner, in one transaction, one process after the other.

        What `work` raises ends it and is passed on. Raises Refusal 55P03 where somebody's transaction uses a table
        that is to go or to be renamed, 2BP01 where another table has its rows as a type, FrontError.
        """
        try:
            # A connection of its own: logging in does not wait for it.
            with self._open_admin() as admin, admin.transaction():
                run(admin, f"SET LOCAL lock_timeout = '{_PATIENCE_SECONDS}s'")
                run(admin, "SELECT pg_advisory_xact_lock(24)")
                run(admin, f"SET LOCAL ROLE {identifier(self._roles.owner)}")
                with suppress(StopIteration):
                    step = next(work)
                    while True:
                        step = work.send(done(admin, step))
        except psycopg.errors.LockNotAvailable:
            raise in_use() from None
        except psycopg.errors.DependentObjectsStillExist:
            raise depended_on() from None
        except psycopg.Error as error:
            raise FrontError(f"published answers cannot be changed: {error}") from error

    @property
    def reader(self) -> str:
        """The role that may read what analysts may."""
        return self._roles.group

    def _prepare(self) -> Roles:
        """Makes the database, roles and revocations; a process that only attaches finds them made."""
        values = conninfo_to_dict(self._conninfo)
        first = self._conninfo
        if self._embedded is not None:
            first = make_conninfo(self._conninfo, dbname="postgres")
        try:
            with psycopg.connect(first, autocommit=True, connect_timeout=10) as admin:
                run(admin, "SELECT pg_advisory_lock(22)")
                if self._embedded is not None:
                    make_database(admin, str(values["dbname"]))
                roles = make_roles(admin)
            # Other processes no longer wait: the following steps may be repeated.
            if self._embedded is None or self._embedded.owner:
                with self._as_admin() as admin, admin.transaction():
                    for statement in (*hidden(SETTINGS), *lock_down(), *grants(roles, self.database)):
                        run(admin, statement)
        except psycopg.Error as error:
            raise FrontError(f"the front cannot be prepared: {error}") from error
        return roles

    def _open_admin(self) -> psycopg.Connection:
        options = _options({**_PINNED, "statement_timeout": "0", "search_path": "pg_catalog"})
        admin = psycopg.connect(self._conninfo, autocommit=True, options=options)
        if self._embedded is not None and admin.info.server_version >= 160000:
            # Roles' passwords are made of 32 random bytes: rounds would only slow connections down. Elsewhere they are
            # made of a password that somebody chose, and who sees a login must not guess it quickly.
            run(admin, "SET scram_iterations = 1")
        return admin

    @contextmanager
    def _as_admin(self) -> Iterator[psycopg.Connection]:
        with self._administration:
            try:
                if self._admin is not None and _gone(self._admin):
                    self._admin.close()
                    self._admin = None
                if self._admin is None:
                    self._admin = self._open_admin()
                yield self._admin
            except psycopg.Error as error:
                raise FrontError(f"the front cannot be changed: {error}") from error

    @contextmanager
    def _checker(self) -> Iterator[psycopg.Connection]:
        """A connection that owns nothing and may read what analysts may, one for a login at a time.

        What it runs ends when nobody waits for it any more. Raises Refusal: 57P03, 57014.
        """
        asked = waiting()

        def go_on() -> None:
            if asked.cancellation.cancelled:
                raise Refusal("57014", "canceling statement due to user request") from None

        try:
            with self._checkers.use(asked.login, go_on) as checker:
                try:
                    with interrupting(asked.cancellation, partial(_interrupt, checker), every=0.05):
                        yield checker
                finally:
                    if asked.cancellation.cancelled:
                        # A cancel request may still be in transit: it must not reach another statement.
                        checker.close()
        except (psycopg.Error, FrontError):
            go_on()
            raise _out_of_reach() from None

    def _open_checker(self) -> psycopg.Connection:
        role = self._roles.checker
        password = hmac.digest(self._secret, b"checker " + role.encode(), "sha256").hex()
        conninfo = make_conninfo(self._conninfo, user=role, password=password)
        options = _options(_PINNED)
        try:
            return psycopg.connect(conninfo, autocommit=True, options=options, prepare_threshold=None)
        except psycopg.OperationalError:
            with self._as_admin() as admin, admin.transaction():
                run(admin, "SELECT pg_advisory_xact_lock(21)")
                run(admin, f"ALTER ROLE {identifier(role)} PASSWORD {literal(password)}")
        return psycopg.connect(conninfo, autocommit=True, options=options, prepare_threshold=None)


def _stamp(path: str, statements: Sequence[str]) -> str:
    """What a clone is made of."""
    return hashlib.sha256("\0".join((path, COLUMN_DESCRIPTION, INTERVALS, *statements)).encode()).hexdigest()


def _begin_patiently(
    admin: psycopg.Connection, owner: str, statements: Sequence[str], tables: Collection[TableName]
) -> None:
    """Begins a transaction with statements, which change `tables`, that nobody's locks are in the way of.

    Whoever waits for a lock holds up all who come after: so it waits for a moment only, often, and never for so long
    that PostgreSQL looks for a deadlock and ends a statement of a client. Analysts' transactions that use the tables
    and began before it did are ended then, and all others after them, since they may take turns. Raises
    LockNotAvailable.
    """
    latest, age = time.monotonic() + _CHANGE_SECONDS, _CHANGE_SECONDS
    while True:
        run(admin, "BEGIN")
        try:
            run(admin, f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")
            run(admin, "SELECT pg_advisory_xact_lock(20)")
            run(admin, f"SET LOCAL ROLE {identifier(owner)}")
            for statement in statements:
                run(admin, statement)
            return
        except psycopg.errors.LockNotAvailable:
            run(admin, "ROLLBACK")
            late = time.monotonic() - latest
            if late > (_PATIENCE_SECONDS if tables else 0):
                raise
            time.sleep(_BETWEEN_SECONDS)
            if late > 0:
                schemas, names = zip(*sorted(tables), strict=True)
                admin.execute(_END_THOSE_IN_THE_WAY.encode(), (age, [*schemas], [*names]))
                age = 0


def _fill(admin: psycopg.Connection, table: Table, rows: Iterable[Row]) -> None:
    """Copies rows into an empty public table, within a transaction of a superuser."""
    name = qualified((table.schema, table.name))
    columns = ", ".join(identifier(column.name) for column in table.columns if not column.hidden)
    run(admin, _UNCHECKED)
    if not columns:
        # Of a table without a column that can be shown, analysts can count the rows.
        number = sum(1 for _ in rows)
        admin.execute(f"INSERT INTO {name} SELECT FROM generate_series(1, %s)".encode(), (number,))
        return
    with admin.cursor().copy(f"COPY {name} ({columns}) FROM STDIN".encode()) as copy:
        for row in rows:
            copy.write_row(row)
    run(admin, f"ANALYZE {name}")


def _out_of_reach() -> Refusal:
    return Refusal("57P03", "the front cannot be reached", hint="Try again in a moment.")


def _interrupt(checker: psycopg.Connection) -> None:
    with suppress(psycopg.Error):
        checker.cancel_safe(timeout=_PATIENCE_SECONDS)


def _usable(checker: psycopg.Connection) -> bool:
    return checker.pgconn.transaction_status == pq.TransactionStatus.IDLE and not _gone(checker)


def _gone(connection: psycopg.Connection) -> bool:
    """Whether the front has ended a connection: it has nothing else to say to an idle one."""
    if connection.closed:
        return True
    if connection.pgconn.transaction_status != pq.TransactionStatus.IDLE:
        return False
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _options(settings: Mapping[str, str]) -> str:
    return " ".join(f"-c {name}={value}" for name, value in settings.items())
