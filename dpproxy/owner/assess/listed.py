"""The statements of a file, with its format detected."""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from dpproxy.reporting.rows import OutputError
from rewriter.refusal import Refusal
from rewriter.statements.comments import attributed
from rewriter.statements.lexer import pieces

MOST_BYTES = 64 * 1024 * 1024
MOST_STATEMENTS = 10_000
MOST_OF_NAME = 100
"""Characters of who sent a statement."""
_TEXTS = ("query", "sql", "statement")
"""The columns that hold a statement, in the order in which they are looked for."""
_USERS = ("user", "usename", "username", "user_name", "rolname", "analyst", "userid", "user_id")
"""The columns that say who sent a statement, in the order in which they are looked for."""
_NAMES = ("label", "name", "title", "queryid", "id", "uuid")
_OPTIONAL = re.compile(r"\[\[.*?\]\]", re.S)
_TAG = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.S)


@dataclass(frozen=True)
class Listed:
    """A statement of the file: what it is called there, and how often it was sent.

    `open`: a part of it that a tool fills in before it is sent, such as {{country}}, "" without one; `users`: who has
    sent it, as the file or the tool's comment says, none where neither does.
    """

    text: str
    name: str = ""
    times: int = 1
    open: str = ""
    users: tuple[str, ...] = ()

    def merged(self, other: Listed) -> Listed:
        """This statement, sent by others as well."""
        users = tuple(dict.fromkeys((*self.users, *other.users)))
        return replace(self, times=self.times + other.times, users=users)


@dataclass(frozen=True)
class StatementFile:
    """What a file holds: its `format` in words, its statements, each text once, and what was passed over."""

    format: str
    statements: tuple[Listed, ...]
    passed_over: tuple[str, ...] = ()


def read(path: Path) -> StatementFile:
    """The statements of a pg_stat_statements, Metabase or Superset export, or of a file of SQL.

    Raises OutputError for a file that cannot be read, is larger than 64 MB or has no statement.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise OutputError(f"{path} is larger than {MOST_BYTES // 1024**2} MB")
        content = path.read_bytes()
    except OSError as error:
        raise OutputError(f"{path} cannot be read: {error.strerror}") from error
    listing = _parsed(path, content)
    merged: dict[str, Listed] = {}
    for one in listing.statements:
        known = merged.get(one.text)
        merged[one.text] = one if known is None else known.merged(one)
    if not merged:
        raise OutputError(f"{path} ({listing.format}) has no SQL statement")
    if len(merged) > MOST_STATEMENTS:
        raise OutputError(f"{path} has more than {MOST_STATEMENTS:,} different statements")
    return replace(listing, statements=tuple(merged.values()))


def _parsed(path: Path, content: bytes) -> StatementFile:
    if content.startswith(b"PK"):
        return _zipped(path, content)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise OutputError(f"{path} is neither text in UTF-8 nor a ZIP file") from None
    if path.suffix.lower() in (".yaml", ".yml"):
        return _documents([(path.name, text)])
    if text.lstrip()[:1] in ("{", "["):
        return _json(path, text)
    table = _table(text)
    return _sql(text) if table is None else _rows(table, "CSV")


def _json(path: Path, text: str) -> StatementFile:
    """One document, or one a line."""
    try:
        found = json.loads(text)
    except ValueError:
        try:
            found = [json.loads(line) for line in text.splitlines() if line.strip()]
        except ValueError:
            raise OutputError(f"{path} begins like JSON and is none") from None
    return _values(found)


def _values(found: object) -> StatementFile:
    if isinstance(found, dict):
        inner = next((found[key] for key in ("result", "data", "cards") if key in found), None)
        return _values(inner if isinstance(inner, list) else [found])
    rows = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    if any("dataset_query" in one for one in rows):
        return _cards(rows)
    return _rows(rows, "JSON")


def _zipped(path: Path, content: bytes) -> StatementFile:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [m for m in archive.infolist() if m.filename.lower().endswith((".yaml", ".yml"))]
            if sum(m.file_size for m in members) > MOST_BYTES:
                raise OutputError(f"{path} holds more than {MOST_BYTES // 1024**2} MB")
            return _documents([(m.filename, archive.read(m).decode()) for m in members])
    except (zipfile.BadZipFile, UnicodeDecodeError):
        raise OutputError(f"{path} cannot be read as a ZIP file of YAML") from None


def _documents(files: Sequence[tuple[str, str]]) -> StatementFile:
    """YAML: Superset's saved queries and datasets, or Metabase's cards."""
    rows: list[dict[str, Any]] = []
    for name, text in files:
        try:
            found = yaml.safe_load(text)
        except yaml.YAMLError:
            raise OutputError(f"{name} cannot be read as YAML") from None
        rows += [one for one in (found if isinstance(found, list) else [found]) if isinstance(one, dict)]
    if any("dataset_query" in one for one in rows):
        return _cards(rows)
    asked = [one for one in rows if isinstance(one.get("sql"), str) and one["sql"].strip()]
    return replace(_rows(asked, "YAML"), format="Superset export (YAML)")


def _cards(rows: Sequence[Mapping[str, Any]]) -> StatementFile:
    """Metabase's cards: native SQL; those of the query builder hold none."""
    found, builder = [], 0
    for row in rows:
        query = row.get("dataset_query")
        native = _native(query) if isinstance(query, dict) else None
        if native is None:
            builder += isinstance(query, dict)
        else:
            found.append(_filled(native[0], native[1], str(row.get("name", ""))))
    over = f"{builder} made in the query builder: they hold no SQL until Metabase runs them"
    return StatementFile("Metabase export", tuple(found), (over,) if builder else ())


def _native(query: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    """The SQL of a card and its tags, as old and new versions write it."""
    stages = query.get("stages")
    native = query.get("native", stages[0] if isinstance(stages, list) and len(stages) == 1 else None)
    if isinstance(native, dict):
        text = native.get("query", native.get("native"))
        if isinstance(text, str):
            return text, native.get("template-tags") or {}
    return None


def _filled(text: str, tags: Mapping[str, Any], name: str) -> Listed:
    """A card as Metabase sends it when nothing is filled in: optional parts go, defaults stand."""
    text = _OPTIONAL.sub("", text)
    for tag, said in tags.items():
        default = said.get("default") if isinstance(said, dict) else None
        if isinstance(default, (str, int, float)) and said.get("type") in ("text", "number", "date"):
            quoted = "'" + str(default).replace("'", "''") + "'"
            literal = str(default) if said["type"] == "number" else quoted
            text = literal.join(re.split(r"\{\{\s*" + re.escape(tag) + r"\s*\}\}", text))
    return _one(text, name)


def _one(text: str, name: str = "", times: int = 1, user: str = "") -> Listed:
    left, user = _TAG.search(text), " ".join((user or attributed(text)).split())[:MOST_OF_NAME]
    stripped = text.strip().rstrip(";").rstrip()
    return Listed(stripped, name, times, left[0] if left else "", (user,) if user else ())


def _table(text: str) -> list[dict[str, Any]] | None:
    """The rows of CSV whose header names a column of statements, None for what is no such thing."""
    head = next(csv.reader([text.splitlines()[0] if text.strip() else ""]), [])
    names = [name.strip().lower() for name in head]
    if len(names) < 2 or not set(names) & set(_TEXTS):
        return None
    csv.field_size_limit(MOST_BYTES)
    reader = csv.DictReader(io.StringIO(text, newline=""), fieldnames=names)
    next(reader)
    return list(reader)


def _rows(rows: Sequence[Mapping[str, Any]], form: str) -> StatementFile:
    """Rows with a column that holds a statement; pg_stat_statements says how often it was sent, too."""
    column = next((name for name in _TEXTS if any(isinstance(row.get(name), str) for row in rows)), None)
    if column is None:
        raise OutputError(f"{form} without a column or key {' or '.join(_TEXTS)}: where are the statements?")
    statements = tuple(
        _one(row[column], _first(row, _NAMES), _times(row.get("calls")), _first(row, _USERS))
        for row in rows
        if isinstance(row.get(column), str) and row[column].strip()
    )
    if column == "query" and any("calls" in row for row in rows):
        return StatementFile(f"pg_stat_statements ({form})", statements)
    return StatementFile(f"{'Superset export' if column == 'sql' else 'statements'} ({form})", statements)


def _first(row: Mapping[str, Any], names: Sequence[str]) -> str:
    return next((str(row[name]) for name in names if row.get(name) not in (None, "")), "")


def _times(written: object) -> int:
    try:
        return max(int(str(written)), 0)
    except ValueError:
        return 1


def _sql(text: str) -> StatementFile:
    """Plain SQL, its statements apart by semicolons; the comments before one may name who sent it."""
    found, end = [], 0
    try:
        for part in pieces(text, MOST_BYTES):
            before = text[end : part.offset]
            found.append(_one(part.text, user=attributed(before.partition(";")[2] if end else before)))
            end = part.offset + len(part.text)
    except Refusal as refusal:
        raise OutputError(f"the file is no SQL that can be cut into statements: {refusal.message}") from None
    return StatementFile("SQL", tuple(found))
