"""Texts of awkward tokens: whether PostgreSQL cuts them as `rewriter.statements.lexer` does, by what it says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random
from time import monotonic

import psycopg
from psycopg import pq

from rewriter.refusal import Refusal
from rewriter.statements.lexer import pieces, tokens

ATOMS = (
    *(
        "1",
        "1.5",
        ".5e-3",
        "1.e5",
        "0x1F",
        "0b1_0",
        "1_000",
        "$1",
        "$2",
        "a",
        "é",
        "a$b$",
        "_x",
        "E",
        "U",
        "x",
    ),
    *(
        "'a'",
        "''",
        "'it''s'",
        "'\\'",
        "E'\\''",
        "E'a\\\\'",
        "e'\\x41'",
        "U&'\\0041'",
        "u&'!'",
        "b'01'",
        "x'1F'",
    ),
    *(
        "n'a'",
        '"a"',
        '"a""b"',
        'U&"a"',
        "$$ ; ' $$",
        "$a$ $b$ ; $a$",
        "$é$ ; $é$",
        "$_1$'$_1$",
        "''''",
        "NULL",
    ),
)
GLUE = (
    *(
        ",",
        ",",
        ",",
        " , ",
        "+",
        " - ",
        "=-",
        "||",
        "->",
        "#",
        "|",
        "@",
        "::",
        "^",
        "%",
        "~",
        "?",
        ";",
        "; ",
        ";;",
    ),
    *(
        "\n",
        "\r",
        "\r\n",
        "\f",
        "\v",
        "\t",
        " ",
        "--",
        "--x\n",
        "-- ' \n",
        "--;\r",
        "/*",
        "*/",
        "/* ' */",
        "/**/",
    ),
    *(
        "/*/**/*/",
        "#-- ' \n",
        "|/* ' */",
        "-- $$\n",
        "\\",
        "$",
        "'",
        '"',
        "$$",
        "$a$",
        "(",
        ")",
        "\xa0",
        "\u3000",
    ),
    *(
        "UESCAPE '!'",
        "E'",
        "U&'",
        "\n'b'",
        " --x\n'\\'",
        "\n-- '\n'b'",
        ".",
        "..",
        ":",
        ":=",
        "[",
        "]",
        "0",
        "e1",
    ),
)
MOST_SHOWN = 20
_CODES = (b"42601", b"22025", b"22P06", b"22021")
"""Of what PostgreSQL's scanner and grammar raise; anything else is said of a text that was cut to its end."""
_NEAR = re.compile(r'at or near "(.*)"$', re.DOTALL)
_SEVERAL = "cannot insert multiple commands into a prepared statement"


def texts(rng: Random) -> Iterator[str]:
    """SELECTs of literals, names and numbers, with what separates them; some are cut or mended at random."""
    while True:
        parts = ["SELECT "]
        for _ in range(rng.randrange(1, 7)):
            parts += [rng.choice(ATOMS), rng.choice((",", ",", rng.choice(GLUE)))]
            if parts[-1].startswith(";"):
                parts.append("SELECT ")
        text = "".join([*parts, rng.choice(ATOMS)])
        if rng.random() < 0.3:
            place = rng.randrange(len(text))
            text = text[:place] + rng.choice((*GLUE, "")) + text[place + rng.randrange(3) :]
        yield text


def difference(connection: psycopg.Connection, text: str) -> str | None:
    """What PostgreSQL reads otherwise in a text, None where nothing."""
    said, place = _parsed(connection, text)
    try:
        found = tokens(text)
    except Refusal:
        # PostgreSQL's parser may have come to a mistake before what is not closed.
        return None if said and said != _SEVERAL else f"not closed here, {said!r} there"
    if said.startswith("unterminated"):
        return f"closed here, {said!r} there"
    cut = pieces(text)
    if said == _SEVERAL:
        several = [piece.text for piece in cut if _parsed(connection, piece.text)[0]]
        return f"{several} there" if several or len(cut) < 2 else None
    near = _NEAR.search(said)
    if near is None or place is None or not said.startswith("syntax error"):
        return f"{len(cut)} statements here, one there" if not said and len(cut) > 1 else None
    # A name in U&"" is read once more, with the UESCAPE behind it.
    here = [token.text for token in found if token.start == place - 1]
    return None if here and near[1].startswith(here[0]) else f"{here} here, {near[1]!r} there"


def differences(
    connection: psycopg.Connection, inputs: Iterator[str], seconds: float
) -> tuple[int, list[str]]:
    """How many of the texts were looked at in this time, and the first that are read otherwise, with what differs."""
    deadline, found, looked = monotonic() + seconds, list[str](), 0
    for text in inputs:
        other = difference(connection, text)
        looked += 1
        if other is not None:
            found.append(f"{text!r}: {other}")
        if monotonic() > deadline or len(found) >= MOST_SHOWN:
            break
    return looked, found


def _parsed(connection: psycopg.Connection, text: str) -> tuple[str, int | None]:
    """What PostgreSQL says of a text's syntax and where, "" where that is right."""
    result = connection.pgconn.prepare(b"", text.encode())
    if result.status == pq.ExecStatus.COMMAND_OK:
        return "", None
    if result.error_field(pq.DiagnosticField.SQLSTATE) not in _CODES:
        return "", None
    said = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode()
    place = result.error_field(pq.DiagnosticField.STATEMENT_POSITION)
    return said, int(place) if place else None
