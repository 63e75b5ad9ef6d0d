"""Every type as a grouping key and as a parameter, in text, binary and mixed formats, from both backends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.client import BY_COUNTRY
from tests.clients.kinds import KINDS, Kind
from tests.clients.matrix import (
    BINARY,
    COUNTED,
    STORED,
    TEXT,
    Refused,
    asked,
    cells,
    number,
    printed,
    shown,
    tried,
    wired,
)
from tests.clients.world import World
from tests.dpproxy.wire import Raw

pytestmark = pytest.mark.client

CELLS = list(cells())
COMPARED = [cell for cell in CELLS if cell[0].type != "jsonb"]
"""Nothing is compared with jsonb, which DuckDB has not."""


@pytest.fixture(params=["on_duckdb", "on_postgres"])
def world(request: pytest.FixtureRequest) -> World:
    """Each backend."""
    found: World = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def wire(world: World) -> Iterator[Raw]:
    """A connection that speaks messages, logged in."""
    with wired(world) as raw:
        yield raw


def test_columns_have_the_types_of_the_backend(world: World, wire: Raw) -> None:
    text = (
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
        "WHERE attrelid = '{}'::regclass AND attnum > 1"
    )
    # The schema app is in the path.
    wanted = [(kind.name.encode(), shown(world, kind).removeprefix("app.").encode()) for kind in KINDS]
    assert asked(wire, text.format("app.typed")) == wanted
    assert asked(wire, text.format("app.samples")) == wanted


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.name))
def test_stored_values_are_printed_as_postgresql_does(wire: Raw, kind: Kind) -> None:
    assert asked(wire, STORED.format(kind.name)) == [(value.encode(),) for value in kind.values]


def named(part: object) -> str:
    """A part of a test's name."""
    return str(getattr(part, "name", part))


@pytest.mark.parametrize(("kind", "use", "written"), CELLS[::4], ids=named)
def test_a_cell_of_the_matrix_on_duckdb(on_duckdb: World, kind: Kind, use: str, written: str) -> None:
    tried(on_duckdb, kind, use, written)


@pytest.mark.parametrize(("kind", "use", "written"), COMPARED[2::4], ids=named)
def test_a_cell_of_the_matrix_on_postgresql(on_postgres: World, kind: Kind, use: str, written: str) -> None:
    tried(on_postgres, kind, use, written)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["on_duckdb", "on_postgres"])
def test_the_whole_matrix_is_good(request: pytest.FixtureRequest, backend: str) -> None:
    lines: list[str] = []
    assert printed(request.getfixturevalue(backend), lines.append), lines


@pytest.mark.parametrize("use", ["SELECT j, COUNT(*) FROM app.typed GROUP BY j", COUNTED.format("j = '{}'")])
def test_json_has_no_equality_as_in_postgresql(wire: Raw, use: str) -> None:
    with pytest.raises(Refused, match=r"42883: .*json"):
        asked(wire, use, *([b"0"] if "$1" in use else []))


@pytest.mark.parametrize("use", ["jb = '{}'", "jb IN ('{}', '[]')", "jb IS DISTINCT FROM '{}'"])
def test_jsonb_is_compared_with_nothing(on_postgres: World, use: str) -> None:
    with wired(on_postgres) as wire, pytest.raises(Refused, match=r"PV020: values of type jsonb"):
        asked(wire, COUNTED.format(use), str(on_postgres.fresh()).encode())


def test_an_array_may_have_a_thousand_elements(world: World, wire: Raw) -> None:
    question = COUNTED.format("i4 = ANY($2)")
    for most, refused in ((1000, False), (1001, True)):
        array = b"{" + b",".join(str(n).encode() for n in range(most)) + b"}"
        with world.counts.expected(1, fetched=not refused):
            if not refused:
                asked(wire, question, str(world.fresh()).encode(), array)
                continue
            with pytest.raises(Refused, match="54000: an array of more than 1000 elements"):
                asked(wire, question, str(world.fresh()).encode(), array)


@pytest.mark.parametrize(
    "condition",
    [
        "ai = ARRAY[1, NULL, 3]",
        "i4 > ALL('{-2147483648,6}'::int[])",
        "t LIKE ANY($2)",
        "i4 = ANY(CAST($2 AS text[])::int[])",
        "NOT (i4 = ANY('{}')) AND i4 = 7",
    ],
)
def test_other_comparisons_with_arrays(world: World, wire: Raw, condition: str) -> None:
    value = {"t": b'{"na%","x"}', "i": b"{7,8}"}[condition[0]] if "$2" in condition else None
    values = [] if value is None else [value]
    ((n,),) = asked(wire, COUNTED.format(condition), str(world.fresh()).encode(), *values)
    assert abs(number(n, TEXT) - 2000) < 30


def test_equal_intervals_are_equal(world: World, wire: Raw) -> None:
    """However they are written: 3 days 04:05:06.789 is 2 days 28:05:06.789."""
    ((n,),) = asked(wire, COUNTED.format("iv = $2"), str(world.fresh()).encode(), b"2 days 28:05:06.789")
    assert abs(number(n, TEXT) - 2000) < 30


def test_the_same_question_in_another_format_is_a_replay(world: World, wire: Raw) -> None:
    question = BY_COUNTRY.format(world.fresh())
    with world.counts.expected(3, fetched=1):
        texts = asked(wire, question)
        binary = asked(wire, question, formats=(BINARY,))
        mixed = asked(wire, question, formats=(TEXT, BINARY))
    assert [(c, number(n, TEXT)) for c, n in texts] == [(c, number(n, BINARY)) for c, n in binary]
    assert mixed == binary
