"""A DuckDB in this process that runs on while its file comes and goes."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb

from dpproxy.backends.base import BackendUnavailable

Settings = Mapping[str, str | bool | int | float | list[str]]

_DATABASE = "dpproxy_data"
"""What the file is called while it is attached."""


class Instance:
    """It reads one file, attached only while a cursor is taken: an open file keeps its owner from writing.

    The instance that it is attached to stays, since making one takes longer than most queries.
    """

    def __init__(self, path: Path, settings: Settings) -> None:
        self._path, self._settings = path, dict(settings)
        self._lock = threading.Lock()
        self._instance: duckdb.DuckDBPyConnection | None = None
        self._file: Path | None = None
        self._users = 0

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
        with self._lock:
            if self._users == 0:
                self._attach()
            assert self._instance is not None
            self._users += 1
            cursor = self._instance.cursor()
        try:
            cursor.execute(f"USE {_DATABASE}")
        except BaseException:
            self.let_go(cursor)
            raise
        return cursor

    def let_go(self, cursor: duckdb.DuckDBPyConnection) -> None:
        with self._lock:
            cursor.close()
            self._users -= 1
            if self._users == 0 and self._instance is not None:
                try:
                    self._instance.execute(f"DETACH {_DATABASE}")
                except duckdb.Error:
                    self._end()

    def _end(self) -> None:
        if self._instance is not None:
            self._instance.close()
            self._instance = None

    def _started(self, file: Path) -> duckdb.DuckDBPyConnection:
        """An instance that can reach the file and its log, and nothing else, its configuration locked."""
        with suppress(duckdb.Error):
            instance = duckdb.connect(":memory:", config=self._settings)
            allowed = ", ".join(_literal(f"{file}{end}") for end in ("", ".wal"))
            instance.execute(f"SET allowed_paths = [{allowed}]")
            instance.execute("SET enable_external_access = false")
            instance.execute("SET GLOBAL timezone = 'UTC'")
            instance.execute("SET lock_configuration = true")
            return instance
        raise BackendUnavailable("DuckDB could not be started with these settings")

    def _attach(self) -> None:
        """Attaches the file that the path leads to now, which may be a link that its owner turns to another."""
        if not self._path.is_file():
            raise BackendUnavailable(f"there is no DuckDB file {self._path}")
        file = self._path.resolve()
        if file != self._file:
            self._end()
        if self._instance is None:
            self._instance, self._file = self._started(file), file
        try:
            self._instance.execute(f"ATTACH {_literal(str(file))} AS {_DATABASE} (READ_ONLY)")
            return
        except duckdb.Error as error:
            # Replaying a write-ahead log may quote rows, so that only one known text is told on.
            locked = "Could not set lock on file" in str(error)
            reason = "another process has it open for writing" if locked else "it could not be opened"
        raise BackendUnavailable(f"DuckDB file {self._path}: {reason}")


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
