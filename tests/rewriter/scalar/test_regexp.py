"""What regexp_replace and substring find is the same in PostgreSQL and DuckDB for every pattern that is allowed."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable

import duckdb
import psycopg
import pytest

from rewriter.scalar.regexp import extracts, may_be_empty, settled, tokens

TEXTS = ["".join(letters) for size in range(6) for letters in itertools.product("ab\n", repeat=size)]
TRIED = int(os.environ.get("DPPROXY_PATTERNS", "150"))
"""How many patterns are tried; `DPPROXY_PATTERNS=5000` tries more."""


def patterns(allowed: Callable[[list[str]], bool], grouped: bool = False) -> list[str]:
    """Patterns of the common part whose parts are short enough to be found in the texts."""
    rng, found = random.Random(7), dict[str, None]()
    while len(found) < TRIED:
        atoms = [
            rng.choice("aab.") + rng.choice(["", "", "*", "+", "?", "{2}", "{0,2}", "{0}"])
            for _ in range(rng.randint(1, 4))
        ]
        if grouped:
            first, last = sorted(rng.sample(range(len(atoms) + 1), 2))
            atoms[first:last] = [f"({''.join(atoms[first:last])})"]
        ends = rng.choice(["", "", "^"]), rng.choice(["", "", "$", ".*", ".+", ".*$"])
        pattern = f"{ends[0]}{''.join(atoms)}{ends[1]}"
        parts = tokens(pattern)
        if parts is not None and allowed(parts):
            found[pattern] = None
    return list(found)


@pytest.mark.service
@pytest.mark.parametrize(("replacement", "flags"), [("#", ""), ("", "g"), ("#", "g")])
def test_engines_replace_the_same(replacement: str, flags: str, postgres: psycopg.Connection) -> None:
    with duckdb.connect() as connection:
        fragile = bool(replacement and flags)
        for pattern in patterns(lambda parts: settled(parts) and not (fragile and may_be_empty(parts))):
            expected = postgres.execute(
                b'SELECT regexp_replace(t COLLATE "C", %s, %s, %s) FROM unnest(%s::text[]) t',
                (pattern, replacement, flags, TEXTS),
            ).fetchall()
            found = connection.execute(
                f"SELECT regexp_replace(t, ?, ?, '{flags}') FROM (SELECT unnest(?::varchar[]) AS t)",
                (f"(?s){pattern}", replacement, TEXTS),
            ).fetchall()
            assert found == expected, pattern


@pytest.mark.service
@pytest.mark.parametrize("grouped", [False, True])
def test_engines_extract_the_same(grouped: bool, postgres: psycopg.Connection) -> None:
    with duckdb.connect() as connection:
        for pattern in patterns(extracts, grouped):
            expected = postgres.execute(
                b'SELECT substring(t COLLATE "C" from %s) FROM unnest(%s::text[]) t', (pattern, TEXTS)
            ).fetchall()
            found = connection.execute(
                f"SELECT CASE WHEN regexp_matches(t, $1) THEN regexp_extract(t, $1, {int(grouped)}) END "
                "FROM (SELECT unnest($2::varchar[]) AS t)",
                (f"(?s){pattern}", TEXTS),
            ).fetchall()
            assert found == expected, pattern
