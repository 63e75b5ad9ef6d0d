"""The rows of a statement, and the error of a command that cannot produce its output."""

from __future__ import annotations

from dataclasses import dataclass, field


class OutputError(Exception):
    """A command cannot do what its user wants; the message is one line."""


@dataclass
class RowSet:
    """The rows of a statement as text, with the names and type OIDs of their columns, and its notices."""

    columns: list[str] = field(default_factory=list)
    oids: list[int] = field(default_factory=list)
    rows: list[tuple[str | None, ...]] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
