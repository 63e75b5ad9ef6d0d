"""Patterns that are allowed: no engine fails at one when a row arrives, and PostgreSQL and DuckDB find the same."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable

import duckdb
import psycopg
import pytest
from sqlglot import exp

from rewriter.ir.parameter import Parameter
from rewriter.ir.relation import leaf
from rewriter.refusal import Refusal
from rewriter.scalar.regexp import either_case, extracts, may_be_empty, settled, tokens
from rewriter.scalar.typecheck import check
from tests.rewriter.values import RELATION

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


ATOMS = [
    *(
        "a",
        "b",
        "C",
        "x",
        "7",
        "é",
        ".",
        "-",
        r"\d",
        r"\.",
        r"\-",
        "[a-z]",
        "[^a-c]",
        "[-a]",
        "[^-b-d]",
        "[-]",
    ),
    *("[B-X0-9-]", "[[:digit:]]", "[-[:digit:]_é]", "[^-]", "[a-c_e-k%-]", "[à-ý]", "[^Ā-ſß]", "ſ", "Ж"),
]
QUANTIFIERS = ["", "", "", "*", "+", "?", "{0}", "{2}", "{7}", "{99}", "{3,}", "{0,2}", "{0,9}", "{1,99}"]
UNITS = [".?", "a?", "[a-z]?", "[^a-c]*", "(^|$)", "(^|a*)", "(a$|^b*)", "(a|b?)", "(a?b*)", "(a+)", "^a$|"]


def any_pattern(rng: random.Random) -> str:
    """A pattern that may be allowed: parts in groups, many of one part, or groups in groups."""
    kind, times = rng.randrange(4), rng.randint(1, 60)
    if kind == 0:
        return "(" * times + rng.choice(ATOMS) + "".join(")" + rng.choice(QUANTIFIERS) for _ in range(times))
    if kind == 1:
        return f"({rng.choice(UNITS) * times}a){rng.choice(QUANTIFIERS)}"
    return nested(rng, rng.randrange(5))


def nested(rng: random.Random, depth: int) -> str:
    """Up to four parts, some of them groups of such patterns."""
    parts: list[str] = []
    for _ in range(rng.randint(1, 4)):
        group = depth and rng.random() < 0.45
        part = f"({nested(rng, depth - 1)})" if group else rng.choice(ATOMS) * rng.choice([1, 1, 1, 9])
        parts.append(
            rng.choice(["^", *["$|", "|"] * bool(parts), *[""] * 9]) + part + rng.choice(QUANTIFIERS)
        )
    return "".join(parts)


@pytest.mark.service
def test_engines_compile_every_allowed_pattern(postgres: psycopg.Connection) -> None:
    rng, found = random.Random(11), dict[str, None]()
    while len(found) < 2_000:
        pattern = any_pattern(rng)
        parts = tokens(pattern)
        if parts is not None:
            found |= dict.fromkeys([pattern, either_case(parts)])
    with duckdb.connect() as connection:
        for number, pattern in enumerate(found):
            postgres.execute(
                b'SELECT t COLLATE "C" ~ %s, substring(t COLLATE "C" from %s) FROM (VALUES (\'aab7\')) v(t)',
                (pattern, pattern),
            )
            if number % 10 == 0:
                connection.execute("SELECT regexp_matches('aab7', ?)", (f"(?s){pattern}",))


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "[z-a]",
            "[9-0]",
            "[a-b-c]",
            "a[b-c-d]",
            "[z->]",
            "[z-)]",
            "[a--]",
            "[a-+]",
            "[z-<]",
            "[--a]",
            "[--]",
        ),
        *(
            "[[:digit:]-z]",
            "[a-[:digit:]]",
            "[A-z]",
            "[Z-a]",
            "[a-9]",
            "[a-é]",
            "[ü-é]",
            "[[.a.]]",
            "[[:<:]]",
        ),
        *("[[:alpha:]]", "[[:upper:]]", "[[:space:]]", r"\w", r"\s", r"\m", "[一-龥]"),
        *(
            f"({'.?' * 95}){{99}}",
            f"^({'.?' * 90}){{0,99}}$",
            f"^({'.' * 90}){{0,99}}$",
            f"({'.?' * 90}){{2}}",
        ),
        *("(" * 60 + "a" + ")+" * 60, "(^|$)" * 14, "(^a)*", "((a$)b)?", "((a{99}){99}){99}", "(a{99}b){99}"),
    ],
)
def test_a_pattern_that_an_engine_could_not_compile_is_not_allowed(pattern: str) -> None:
    assert tokens(pattern) is None


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+[.][a-zA-Z]{2,4}",
            "^https?://(www[.])?[^/]+(/.*)?$",
            "^([a-z]+ ?)+$",
        ),
        *(
            "^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$",
            r"^(\d{1,3}\.){3}\d{1,3}$",
            "^[A-Za-z0-9 ]{0,99}$",
        ),
        *(
            "(^|,)foo(,|$)",
            "(^a$|^b$|^c$)",
            "|".join(["^abc$"] * 10),
            "^(jan|feb|mar|apr)(uary|ruary|ch|il)?$",
        ),
    ],
)
def test_a_pattern_that_people_write_is_allowed(pattern: str) -> None:
    assert tokens(pattern) is not None


@pytest.mark.service
def test_engines_find_either_case_as_postgresql_does(postgres: psycopg.Connection) -> None:
    """PostgreSQL's own ~* in the locale of the front, which has Unicode's letters."""
    rng, letters = random.Random(5), "aKkSsſßẞåÅÅéÉσςΣıiIİǆǅǄᾳᾼﬁжЖⓐⒶⅷⅧ1-"
    texts = [*letters, *("".join(rng.choices(letters, k=3)) for _ in range(200))]
    atoms = [
        *letters.replace("-", ""),
        "[a-k]",
        "[Å-é]",
        "[^Å-é]",
        "[α-ω]",
        "[^ſéд]",
        "[Ā-ƿ]",
        "[sς]",
        "[ǅᾼ1-]",
    ]
    with duckdb.connect() as connection:
        for _ in range(TRIED):
            pattern = "".join(rng.choice(atoms) + rng.choice(["", "", "+"]) for _ in range(rng.randint(1, 2)))
            parts = tokens(pattern)
            assert parts is not None, pattern
            expected = postgres.execute(
                b"SELECT t FROM unnest(%s::text[]) AS t WHERE t ~* %s", (texts, pattern)
            ).fetchall()
            own = postgres.execute(
                b'SELECT t FROM unnest(%s::text[]) AS t WHERE t COLLATE "C" ~ %s', (texts, either_case(parts))
            ).fetchall()
            found = connection.execute(
                "SELECT t FROM (SELECT unnest($1::varchar[]) AS t) WHERE regexp_matches(t, $2)",
                (texts, f"(?s){either_case(parts)}"),
            ).fetchall()
            assert own == expected, pattern
            assert found == expected, pattern


@pytest.mark.parametrize(
    ("pattern", "either"),
    [
        ("[-[:digit:]b-d1]", "[[:digit:]b-d1B-D-]"),
        ("[а-яё]", "[а-яёЁА-Я]"),
        ("[^ſß-âk]", "[^ſß-âkKSÀ-Â]"),
        ("[^x-]", "[^xX-]"),
        ("[^-]", "[^-]"),
        ("[A-C_]", "[A-C_a-c]"),
    ],
)
def test_a_set_for_either_case(pattern: str, either: str) -> None:
    parts = tokens(pattern)
    assert parts is not None
    assert either_case(parts) == either
    assert tokens(either) == [either]


@pytest.mark.parametrize("kind", [exp.Like, exp.ILike])
@pytest.mark.parametrize("parameter", [False, True])
@pytest.mark.parametrize("escaped", [False, True])
def test_a_long_pattern_of_like_is_not_allowed(
    kind: type[exp.Binary], parameter: bool, escaped: bool
) -> None:
    for pattern, allowed in (
        ("%a" * 100, True),
        ("%a" * 101, False),
        ("a" * 1000, True),
        ("a" * 1001, False),
    ):
        one = exp.Parameter(this=exp.Literal.number(1)) if parameter else exp.Literal.string(pattern)
        like: exp.Expr = kind(this=leaf("t0", "s"), expression=one)
        if escaped:
            like = exp.Escape(this=like, expression=exp.Literal.string("#"))
        parameters = [Parameter("text", pattern)] if parameter else []
        if allowed:
            check(like, RELATION, parameters)
            continue
        with pytest.raises(Refusal, match="more than 1,000 characters or 100 signs %"):
            check(like, RELATION, parameters)
