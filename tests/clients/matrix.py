"""The matrix of types: each as a grouping key, a parameter, an element of an array and a literal, in every format."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product

from dpproxy.pgwire import messages as m
from dpproxy.pgwire.startup import startup_packet
from tests.clients.data import TOLERANCE, USERS
from tests.clients.kinds import KINDS, MOODS, Kind
from tests.clients.world import ANALYST, DATABASE, PASSWORD, World
from tests.dpproxy.wire import SYNC, Raw, errors

TEXT, BINARY = 0, 1
FORMATS = {"text": TEXT, "binary": BINARY}
GROUPED = "SELECT {}, COUNT(*) FROM app.typed WHERE user_id > $1 GROUP BY 1 ORDER BY 2 DESC LIMIT 4"
STORED = "SELECT {} FROM app.samples WHERE id < 2 ORDER BY id"
ONE = "(SELECT {} FROM app.samples WHERE id = {})"
COUNTED = "SELECT COUNT(*) FROM app.typed WHERE user_id > $1 AND {}"
Cells = tuple[bytes | None, ...]


class Refused(Exception):
    """The proxy said no: its code and message."""


@contextmanager
def wired(world: World) -> Iterator[Raw]:
    """A connection that speaks messages, logged in."""
    with Raw.open(world.port) as raw:
        raw.secure()
        raw.send(startup_packet({"user": ANALYST, "database": DATABASE}))
        raw.scram(PASSWORD)
        yield raw


def asked(
    wire: Raw, text: str, *values: bytes, given: int = TEXT, formats: tuple[int, ...] = ()
) -> list[Cells]:
    """The rows of one Execute, as they come; `formats`: of the results, `given`: of all parameters but the first.

    Raises Refused.
    """
    kinds = (TEXT, *[given] * (len(values) - 1)) if values else ()
    sent = m.Values(kinds, len(values), m.encoded(values))
    results = struct.pack(f">H{len(formats)}h", len(formats), *formats)
    wire.send(m.parse("", text), m.bind("", "", sent, results), m.describe("P", ""), m.execute(""), SYNC)
    seen = wire.until("Z")
    for found in errors(seen):
        raise Refused(f"{found['C']}: {found['M']}")
    return [_cells(raw) for kind, raw in seen if kind == "D"]


def _cells(raw: bytes) -> Cells:
    place, cells = 7, []
    for _ in range(int.from_bytes(raw[5:7], "big")):
        (length,) = struct.unpack_from(">i", raw, place)
        place += 4
        cells.append(None if length < 0 else raw[place : place + length])
        place += max(length, 0)
    return tuple(cells)


def number(cell: bytes | None, written: int) -> int:
    """A count in a format."""
    assert cell is not None
    return int(cell) if written == TEXT else int(struct.unpack(">q", cell)[0])


def shown(world: World, kind: Kind) -> str:
    """The type of a column as analysts see it."""
    return kind.front if world.backend == "DuckDB" else kind.type


def compared(world: World, kind: Kind) -> str:
    """What of a column PostgreSQL can compare: the text of json, which has no equality."""
    return f"{kind.name}::text" if shown(world, kind) == "json" else kind.name


def key(world: World, wire: Raw, kind: Kind, written: int) -> None:
    """GROUP BY, its results in a format and mixed ones; asked once, and free from then on."""
    value = compared(world, kind)
    question, fresh = GROUPED.format(value), str(world.fresh()).encode()
    possible = {None, *(mood.encode() for mood in MOODS)} if kind.name == "e" else {None}
    with world.counts.expected(2, fetched=1):
        for count in (TEXT, BINARY):
            found = {k: number(n, count) for k, n in asked(wire, question, fresh, formats=(written, count))}
            wanted = {row[0] for row in asked(wire, STORED.format(value), formats=(written,))}
            assert wanted <= found.keys() <= wanted | possible, found
            assert all(abs(n - (USERS // 2 if k in wanted else 0)) < TOLERANCE for k, n in found.items()), (
                found
            )


def parameter(world: World, wire: Raw, kind: Kind, given: int) -> None:
    """`= $1` and `IS DISTINCT FROM $1`, each of which holds for half of the rows."""
    value = compared(world, kind)
    for row, condition in product((0, 1), (f"{value} = $2", f"{value} IS DISTINCT FROM $2")):
        ((sent,),) = asked(wire, f"SELECT {ONE.format(value, row)}", formats=(given,))
        half(world, wire, condition, sent, given)


def member(world: World, wire: Raw, kind: Kind, given: int) -> None:
    """`= ANY($2)`, `<> ALL($2)`: arrays with a value in them, with NULL beside it or alone, and without any."""
    value, of = compared(world, kind), element(world, kind)
    any_of, all_of = f"{value} = ANY($2)", f"{value} <> ALL($2)"
    for row in (0, 1):
        one = f"{ONE.format(value, row)}::{of}"
        arrays = f"SELECT ARRAY[{one}, NULL], ARRAY[[{one}], [{one}]]"
        ((beside_null, nested),) = asked(wire, arrays, formats=(given,))
        half(world, wire, any_of, beside_null, given)
        half(world, wire, all_of, nested, given)
    ((none, null),) = asked(wire, f"SELECT '{{}}'::{of}[], '{{NULL}}'::{of}[]", formats=(given,))
    # A condition that no row can meet.
    counted(world, wire, any_of, 0, none, given, fetched=0)
    counted(world, wire, all_of, USERS, none, given)
    counted(world, wire, all_of, 0, null, given)


def listed(world: World, wire: Raw, kind: Kind, given: int) -> None:
    """`IN ($2,$3)` without a blank, as drivers write lists: each of two values holds for half of the rows."""
    value = compared(world, kind)
    ((sent,), (other,)) = asked(wire, STORED.format(value), formats=(given,))
    assert sent is not None
    assert other is not None
    text = COUNTED.format(f"{value} IN ($2,$3)")
    for pair, wanted in (((sent, other), USERS), ((other, other), USERS // 2)):
        with world.counts.expected(1):
            ((n,),) = asked(wire, text, str(world.fresh()).encode(), *pair, given=given)
        assert abs(number(n, TEXT) - wanted) < TOLERANCE, (pair, n)


def literal(world: World, wire: Raw, kind: Kind, _: int) -> None:
    """The same values as texts, plain, cast and in arrays, as drivers without parameters write them."""
    value, of = compared(world, kind), element(world, kind)
    first, second = ("'" + text.replace("'", "''") + "'" for text in kind.values)
    half(world, wire, f"{value} = {first}")
    half(world, wire, f"{value} <> {second}::{of}")
    if not kind.type.endswith("[]"):
        half(world, wire, f"{value} = ANY(ARRAY[{first}, NULL]::{of}[])")


def element(world: World, kind: Kind) -> str:
    """The type of a constant that a column is compared with."""
    found = "text" if "::" in compared(world, kind) else shown(world, kind).partition("(")[0]
    return "text" if found == "character varying" else found


def half(world: World, wire: Raw, condition: str, value: bytes | None = None, given: int = TEXT) -> None:
    """Asserts that half of the rows satisfy a condition."""
    counted(world, wire, condition, USERS // 2, value, given)


def counted(
    world: World,
    wire: Raw,
    condition: str,
    wanted: int,
    value: bytes | None = None,
    given: int = TEXT,
    fetched: int | None = None,
) -> None:
    """Asserts how many rows satisfy a condition, up to noise, in one execution, and how often they are fetched."""
    values = [str(world.fresh()).encode()] + ([] if value is None else [value])
    with world.counts.expected(1, fetched):
        ((n,),) = asked(wire, COUNTED.format(condition), *values, given=given)
    assert abs(number(n, TEXT) - wanted) < TOLERANCE, (condition, value, n)


Use = Callable[[World, Raw, Kind, int], None]
USES: dict[str, tuple[Use, Sequence[str]]] = {
    "key": (key, ("text", "binary")),
    "parameter": (parameter, ("text", "binary")),
    "array": (member, ("text", "binary")),
    "list": (listed, ("text", "binary")),
    "literal": (literal, ("text",)),
}
"""Each use of a type and the formats in which it can be sent or read."""


def cells(kinds: Sequence[Kind] = KINDS) -> Iterator[tuple[Kind, str, str]]:
    """Kind, use and format of every cell; ANY of an array of arrays means its elements, not them."""
    for kind in kinds:
        for use, (_, formats) in USES.items():
            if use != "array" or not kind.type.endswith("[]"):
                yield from ((kind, use, written) for written in formats)


def tried(world: World, kind: Kind, use: str, written: str) -> None:
    """One cell; raises AssertionError or Refused."""
    with wired(world) as wire:
        USES[use][0](world, wire, kind, FORMATS[written])


def outcome(world: World, kind: Kind, use: str, written: str) -> str:
    """What came of a cell: "ok", or why not."""
    try:
        tried(world, kind, use, written)
    except (AssertionError, Refused) as error:
        return " ".join(str(error).split())[:200] or type(error).__name__
    return "ok"


def printed(world: World, say: Callable[[str], None] = print) -> bool:
    """Prints the matrix of a backend, then what is missing; tells whether nothing is."""
    columns = [f"{use} {written}" for use, (_, formats) in USES.items() for written in formats]
    found = {
        (kind.name, f"{use} {written}"): outcome(world, kind, use, written)
        for kind, use, written in cells()
        if shown(world, kind) != "jsonb"  # which is compared with nothing
    }
    say(" ".join([f"{'type':30}", *(f"{column:>17}" for column in columns)]))
    for kind in KINDS:
        outcomes = (found.get((kind.name, column), "-") for column in columns)
        marks = ("FAILED" if one not in ("ok", "-") else one for one in outcomes)
        say(" ".join([f"{shown(world, kind):30}", *(f"{mark:>17}" for mark in marks)]))
    bad = {cell: why for cell, why in found.items() if why != "ok"}
    for (name, column), why in bad.items():
        say(f"{name} {column}: {why}")
    return not bad
