"""`dpproxy find`: whether a person's key, or any other value, stands in anything that dpproxy keeps.

What is kept of a person: docs/operating.md.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from budget.search import LedgerSearch, pattern, stands_in
from budget.store import Pool, PostgresStore
from dpproxy.config.key_file import load_keys
from dpproxy.config.sections import Config
from dpproxy.engine.published_tables import rows_of
from dpproxy.engine.result.released_table import ReleasedTable
from dpproxy.engine.sealed_texts import SealedTexts
from dpproxy.owner.backup import ledger_server
from dpproxy.reporting.rows import OutputError
from dpproxy.reporting.tables import print_json, print_table

Found = Counter[tuple[str, int]]
"""How often, by place and number of the value."""
_SHORTEST = 5
"""Characters of a value that is looked for in files of the front: shorter ones stand in any binary file."""
_AT_ONCE, _OVERLAP = 1 << 24, 1 << 12


def find(config: Config, values: Sequence[str], *, as_json: bool) -> None:
    """Prints where values stand, by their number and not by themselves; raises OutputError where one stands anywhere.

    Reads ledger, configuration, and the files beside the key; changes nothing.
    """
    if not values or any(len(value) > _OVERLAP // 8 for value in values):
        raise OutputError("give one value a line, of at most 512 characters")
    found = Found()
    with ledger_server(config) as conninfo, closing(Pool(conninfo, 2)) as pool:
        search = LedgerSearch(PostgresStore(pool))
        for one in search.occurrences(values):
            found[f"ledger: {one.column}", one.value] += one.times
        found.update(_in_answers(search, values))
        found.update(_in_texts(config, search, values))
    for path in _files(config):
        found.update(_in_file(config, path, values))
    short = [n + 1 for n, value in enumerate(values) if len(value) < _SHORTEST]
    rows = [(str(number + 1), place, str(times)) for (place, number), times in sorted(found.items())]
    if as_json:
        print_json(
            {
                "found": [
                    {"line": int(line), "place": place, "times": int(times)} for line, place, times in rows
                ],
                "not_looked_for_in_binary_files": short,
            }
        )
    elif rows:
        print_table("Found", ("line", "place", "times"), rows, right=(0, 2))
    if short and not as_json:
        print(f"Too short to be looked for in files of the front: line {', '.join(map(str, short))}.")
    if found:
        raise OutputError("some of the values stand in what dpproxy keeps")
    if not as_json:
        print("None of the values stands in ledger, configuration, logs, or the front's files.")


def _in_answers(search: LedgerSearch, values: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Labels of groups, and what is published; what is counted about groups is noise and numbers."""
    for answer in search.answers():
        yield from _in_labels("ledger: answers", values, ReleasedTable.load(answer).keys)
    for answer in search.published():
        yield from _in_labels("ledger: published answers", values, rows_of(answer))


def _in_labels(
    place: str, values: Sequence[str], labels: Iterable[Iterable[str | None]]
) -> Iterator[tuple[str, int]]:
    known = {label for some in labels for label in some if label is not None}
    for number, value in enumerate(values):
        if any(stands_in(value, label) for label in known):
            yield place, number


def _in_texts(config: Config, search: LedgerSearch, values: Sequence[str]) -> Iterator[tuple[str, int]]:
    texts = SealedTexts(*load_keys(config.path(config.privacy.key_file), may_make=False).all)
    told = [("texts of statements", *one) for one in search.sealed()]
    told += [("messages of the backend", who, id.bytes, sealed) for who, id, sealed in search.messages()]
    for what, account, key, sealed in told:
        text = texts.open(sealed, account, key) or ""
        for number, value in enumerate(values):
            if stands_in(value, text):
                yield f"ledger: {what}", number


def _files(config: Config) -> Iterator[Path]:
    """The configuration, and all that lies beside the key and in the front's folder, but for the ledger's cluster."""
    ledger = config.path(config.ledger.data_dir) / "cluster"
    folders = {config.path(config.privacy.key_file).parent, config.path(config.front.data_dir), ledger.parent}
    yield config.file
    seen = {config.file.resolve()}
    for top in folders:
        for folder, inner, names in os.walk(top):
            inner[:] = [name for name in inner if Path(folder, name) != ledger]
            for path in (Path(folder, name) for name in names):
                if path.is_file() and (real := path.resolve()) not in seen:
                    seen.add(real)
                    yield path


def _in_file(config: Config, path: Path, values: Sequence[str]) -> Iterator[tuple[str, int]]:
    text = path == config.file or path.name == "log"
    wanted = {
        number: re.compile(pattern(value).encode())
        for number, value in enumerate(values)
        if text or len(value) >= _SHORTEST
    }
    before = b""
    with path.open("rb") as file:
        while wanted and (part := file.read(_AT_ONCE)):
            for number in [n for n, one in wanted.items() if one.search(before + part)]:
                del wanted[number]
                yield f"file: {path}", number
            before = part[-_OVERLAP:]
