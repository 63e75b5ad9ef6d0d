"""Every type as a grouping key and as a parameter, in text, binary and mixed formats, from both backends."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import product

import pytest

from dpproxy.pgwire import messages as m
from dpproxy.pgwire.startup import startup_packet
from tests.clients.client import BY_COUNTRY
from tests.clients.data import TOLERANCE, USERS
from tests.clients.kinds import KINDS, MOODS, Kind
from tests.clients.world import ANALYST, DATABASE, PASSWORD, World
from tests.dpproxy.wire import SYNC, Raw, errors

TEXT, BINARY = 0, 1
GROUPED = "SELECT {0}, COUNT(*) FROM app.typed WHERE user_id > {1} GROUP BY {0} ORDER BY 2 DESC LIMIT 4"
STORED = "SELECT {} FROM app.samples WHERE id < 2 ORDER BY id"
COUNTED = "SELECT COUNT(*) FROM app.typed WHERE {} = $1 AND user_id > {}"
GROUPS = {kind.name for kind in KINDS} - {"j", "jb"}
COMPARED = GROUPS - {"ba", "ai", "ta"}
Cells = tuple[bytes | None, ...]


@pytest.fixture(params=["on_duckdb", "on_postgres"])
def world(request: pytest.FixtureRequest) -> World:
    """Each backend."""
    found: World = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def wire(world: World) -> Iterator[Raw]:
    """A connection that speaks messages, logged in."""
    with Raw.open(world.port) as raw:
        raw.secure()
        raw.send(startup_packet({"user": ANALYST, "database": DATABASE}))
        raw.scram(PASSWORD)
        yield raw


def asked(
    wire: Raw, text: str, value: bytes | None = None, given: int = TEXT, formats: tuple[int, ...] = ()
) -> list[Cells]:
    """The rows of one Execute, as they come; `formats`: of the results, `given`: of the parameter."""
    values = m.Values((), 0, b"") if value is None else m.Values((given,), 1, m.encoded([value]))
    results = struct.pack(f">H{len(formats)}h", len(formats), *formats)
    wire.send(m.parse("", text), m.bind("", "", values, results), m.describe("P", ""), m.execute(""), SYNC)
    seen = wire.until("Z")
    assert not errors(seen), errors(seen)
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


def groupable(world: World) -> set[str]:
    """The columns that PostgreSQL can group by: DuckDB has no jsonb."""
    return GROUPS | ({"jb"} if world.backend == "PostgreSQL" else set())


def shown(world: World, kind: Kind) -> str:
    """The type of a column as analysts see it."""
    if world.backend == "DuckDB":
        return kind.front
    return "text" if kind.type == "app.mood" else kind.type


def test_columns_have_the_types_of_the_backend(world: World, wire: Raw) -> None:
    text = (
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
        "WHERE attrelid = '{}'::regclass AND attnum > 1"
    )
    wanted = [(kind.name.encode(), shown(world, kind).encode()) for kind in KINDS]
    assert asked(wire, text.format("app.typed")) == wanted
    assert asked(wire, text.format("app.samples")) == wanted


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.name))
def test_stored_values_are_printed_as_postgresql_does(wire: Raw, kind: Kind) -> None:
    assert asked(wire, STORED.format(kind.name)) == [(value.encode(),) for value in kind.values]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.name))
def test_a_grouping_key(world: World, wire: Raw, kind: Kind) -> None:
    if kind.name not in groupable(world):
        pytest.skip(f"PostgreSQL cannot group by {shown(world, kind)}")
    question = GROUPED.format(kind.name, world.fresh())
    possible = {None, *(mood.encode() for mood in MOODS)} if kind.name == "e" else {None}
    with world.counts.expected(4, fetched=1):
        for key, count in product((TEXT, BINARY), repeat=2):
            found = {k: number(n, count) for k, n in asked(wire, question, formats=(key, count))}
            wanted = {row[0] for row in asked(wire, STORED.format(kind.name), formats=(key,))}
            assert wanted <= found.keys() <= wanted | possible
            assert all(abs(n - (USERS // 2 if k in wanted else 0)) < TOLERANCE for k, n in found.items())


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind.name in COMPARED], ids=lambda kind: str(kind.name)
)
def test_a_parameter(world: World, wire: Raw, kind: Kind) -> None:
    """In both formats one question, whose second answer is a replay."""
    for row in (0, 1):
        question = COUNTED.format(kind.name, world.fresh())
        with world.counts.expected(2, fetched=1):
            for given in (TEXT, BINARY):
                value = asked(wire, STORED.format(kind.name), formats=(given,))[row][0]
                ((n,),) = asked(wire, question, value, given)
                assert abs(number(n, TEXT) - USERS // 2) < TOLERANCE


def test_the_same_question_in_another_format_is_a_replay(world: World, wire: Raw) -> None:
    question = BY_COUNTRY.format(world.fresh())
    with world.counts.expected(3, fetched=1):
        texts = asked(wire, question)
        binary = asked(wire, question, formats=(BINARY,))
        mixed = asked(wire, question, formats=(TEXT, BINARY))
    assert [(c, number(n, TEXT)) for c, n in texts] == [(c, number(n, BINARY)) for c, n in binary]
    assert mixed == binary
