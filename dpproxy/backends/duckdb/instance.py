"""A DuckDB instance in this process that is kept while its file is attached and detached.

Why: docs/decisions/duckdb-is-attached.md.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic

import duckdb

from dpproxy.backends.base import BackendUnavailable, literal
from dpproxy.backends.duckdb.schema import read_schema
from rewriter.plan import UniqueKey

log = logging.getLogger(__name__)

DuckDBSettings = Mapping[str, str | bool | int | float | list[str]]

_DATABASE = "dpproxy_data"
"""What the file is called while it is attached."""
_ARRAY_BITS = (
    "SELECT greatest(12, least(24, floor(log2("
    "parse_formatted_bytes(current_setting('memory_limit')) / (512 * current_setting('threads'))"
    ")))::INTEGER)"
)
"""Where unit and group have so few bits together, DuckDB finds a row's sum in an array instead of a hash table, in a
third to half of the time; by default it does up to 12. An array has a place for each value that its table's statistics
allow, in each thread. DuckDB does not count it towards its limit: arrays of 128 bytes a place, eight sums, take at
most a quarter of that. Queries of more sums have fewer bits (`fitted_arrays`)."""
_AGGREGATES = re.compile(
    r"\b(?:sum|count|min|max|avg|std|var|bool|bit|any_value|arg|first|last|product)\w*\(", re.IGNORECASE
)
LINGER_SECONDS = 0.02
"""How long the file stays attached after its last use: less than a program of the owner needs to start."""
LONG_LINGER_SECONDS = 1.0
"""The same, where the owner has said not to write to it: a session's next statement finds it attached."""


@contextmanager
def fitted_arrays(cursor: duckdb.DuckDBPyConnection, sql: str) -> Iterator[None]:
    """Halves the places of a query's arrays until its aggregates take no more than eight would; raises duckdb.Error.

    The range of the units' names decides whether there is an array. Without this, one unit could decide whether a
    query of many sums fits into the machine's memory, and so whether it fails.
    """
    halvings = (max(0, len(_AGGREGATES.findall(sql)) - 1) >> 3).bit_length()
    if not halvings:
        yield
        return
    ((bits,),) = cursor.execute("SELECT current_setting('perfect_ht_threshold')").fetchall()
    cursor.execute(f"SET SESSION perfect_ht_threshold = {max(bits - halvings, 0)}")
    try:
        yield
    finally:
        cursor.execute("RESET SESSION perfect_ht_threshold")


class Instance:
    """It reads one file, attached only around the time that a cursor is taken: an open file keeps its owner from
    writing.

    The instance that it is attached to stays, since making one takes longer than most queries.
    """

    def __init__(self, path: Path, settings: DuckDBSettings, linger: float) -> None:
        self._path, self._settings, self._linger = path, dict(settings), linger
        self._lock = threading.Lock()
        self._ended = threading.Condition(self._lock)
        self._instance: duckdb.DuckDBPyConnection | None = None
        self._file: Path | None = None
        self._attached: tuple[int, ...] = ()
        self._seen: tuple[int, ...] = ()
        """The file that was attached last: of the same one, changes are no news."""
        self._unique: frozenset[UniqueKey] | None = None
        self._users, self._used = 0, 0.0

    @contextmanager
    def cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor for as long as the block; raises BackendUnavailable."""
        cursor = self.take()
        try:
            yield cursor
        finally:
            self.let_go(cursor)

    def close(self) -> None:
        """Ends the instance, unless a cursor is still taken."""
        with self._lock:
            if self._users == 0:
                self._end()

    def take(self) -> duckdb.DuckDBPyConnection:
        """A cursor, which is to be let go; raises BackendUnavailable.

        An internal error of one query makes all later queries of its instance fail, which would reveal that query's
        rows: they get a new one.
        """
        with self._lock:
            if self._users == 0 and self._attached != _state(self._path):
                self._detach()
            for _ in range(2):
                with suppress(duckdb.Error):
                    cursor = self._connected()
                    self._users += 1
                    return cursor
                self._end()
        raise BackendUnavailable(f"DuckDB file {self._path}: it could not be opened")

    def _connected(self) -> duckdb.DuckDBPyConnection:
        if not self._attached:
            self._attach()
            threading.Thread(target=self._watch, name="detaches DuckDB's file", daemon=True).start()
        assert self._instance is not None
        cursor = self._instance.cursor()
        cursor.execute(f"USE {_DATABASE}")
        return cursor

    def let_go(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Returns what `take` gave."""
        with self._lock:
            cursor.close()
            self._users -= 1
            self._used = monotonic()

    def unique(self, cursor: duckdb.DuckDBPyConnection) -> frozenset[UniqueKey]:
        """The keys that the attached file keeps unique for as long as `cursor` is taken, which nobody writes to
        meanwhile; raises duckdb.Error."""
        with self._lock:
            if self._unique is None:
                self._unique = read_schema(cursor).unique
            return self._unique

    def _watch(self) -> None:
        """Detaches the attached file once it has been unused for this long."""
        with self._ended:
            attached = self._attached
            while self._attached and self._attached is attached:
                left = self._linger if self._users else self._used + self._linger - monotonic()
                if left > 0:
                    self._ended.wait(left)
                else:
                    self._detach()

    def _detach(self) -> None:
        if self._attached and self._instance is not None:
            try:
                self._instance.execute(f"DETACH {_DATABASE}")
            except duckdb.Error:
                self._end()
        self._attached = ()
        self._ended.notify_all()

    def _end(self) -> None:
        if self._instance is not None:
            self._instance.close()
            self._instance = None
        self._attached = ()
        self._ended.notify_all()

    def _started(self, file: Path) -> duckdb.DuckDBPyConnection:
        """An instance that can reach the file and its log, and nothing else, its configuration locked."""
        with suppress(duckdb.Error):
            instance = duckdb.connect(":memory:", config=self._settings)
            allowed = ", ".join(literal(f"{file}{end}") for end in ("", ".wal"))
            instance.execute(f"SET allowed_paths = [{allowed}]")
            instance.execute("SET enable_external_access = false")
            instance.execute("SET GLOBAL timezone = 'UTC'")
            ((bits,),) = instance.execute(_ARRAY_BITS).fetchall()
            instance.execute(f"SET GLOBAL perfect_ht_threshold = {bits}")
            instance.execute("SET allowed_configs = ['perfect_ht_threshold']")
            instance.execute("SET lock_configuration = true")
            return instance
        raise BackendUnavailable("DuckDB could not be started with these settings")

    def _attach(self) -> None:
        """Attaches the file that the path leads to now, which may be a link that its owner turns to another."""
        if not self._path.is_file():
            raise BackendUnavailable(f"there is no DuckDB file {self._path}")
        file, state = self._path.resolve(), _state(self._path)
        if file != self._file:
            self._end()
        if self._seen and state[:2] != self._seen:
            log.warning("another DuckDB file is in the place of %s: it is read from now on", self._path)
        self._seen = state[:2]
        if self._instance is None:
            self._instance, self._file = self._started(file), file
        try:
            self._instance.execute(f"ATTACH {literal(str(file))} AS {_DATABASE} (READ_ONLY)")
            self._attached, self._unique = state, None
            return
        except duckdb.Error as error:
            # Errors of replaying a write-ahead log may quote rows, so only one known text is passed on.
            locked = "Could not set lock on file" in str(error)
            reason = "another process has it open for writing" if locked else "it could not be opened"
        raise BackendUnavailable(f"DuckDB file {self._path}: {reason}")


def _state(path: Path) -> tuple[int, ...]:
    """Identifies the present file at a path: differs for another file, and for the same one after a change."""
    with suppress(OSError):
        found = path.stat()
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
    return ()
