"""What regexp_replace finds is the same in PostgreSQL and DuckDB for every pattern that is allowed."""

from __future__ import annotations

import itertools
import os
import random

import duckdb
import psycopg
import pytest

from rewriter.scalar.regexp import may_be_empty, settled, tokens

TEXTS = ["".join(letters) for size in range(6) for letters in itertools.product("ab\n", repeat=size)]
TRIED = int(os.environ.get("DPPROXY_PATTERNS", "150"))
"""How many patterns are tried; `DPPROXY_PATTERNS=5000` tries more."""


def patterns(replaced: bool) -> list[str]:
    """Patterns of the common part whose parts are short enough to be found in the texts."""
    rng, found = random.Random(7), dict[str, None]()
    while len(found) < TRIED:
        atoms = [
            rng.choice("aab.") + rng.choice(["", "", "*", "+", "?", "{2}", "{0,2}", "{0}"])
            for _ in range(rng.randint(1, 4))
        ]
        ends = rng.choice(["", "", "^"]), rng.choice(["", "", "$", ".*", ".+", ".*$"])
        pattern = f"{ends[0]}{''.join(atoms)}{ends[1]}"
        parts = tokens(pattern)
        if parts is not None and settled(parts) and not (replaced and may_be_empty(parts)):
            found[pattern] = None
    return list(found)


@pytest.mark.service
@pytest.mark.parametrize(("replacement", "flags"), [("#", ""), ("", "g"), ("#", "g")])
def test_engines_replace_the_same(replacement: str, flags: str, postgres: psycopg.Connection) -> None:
    with duckdb.connect() as connection:
        for pattern in patterns(bool(replacement and flags)):
            expected = postgres.execute(
                b'SELECT regexp_replace(t COLLATE "C", %s, %s, %s) FROM unnest(%s::text[]) t',
                (pattern, replacement, flags, TEXTS),
            ).fetchall()
            found = connection.execute(
                f"SELECT regexp_replace(t, ?, ?, '{flags}') FROM (SELECT unnest(?::varchar[]) AS t)",
                (f"(?s){pattern}", replacement, TEXTS),
            ).fetchall()
            assert found == expected, pattern
