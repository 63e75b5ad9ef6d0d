"""Padded replies: they leave at ticks, whatever happened, and a client's going ends its wait alone."""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import psycopg
import pytest

from dpproxy.backends.base import Cancellation
from dpproxy.front.front import Front
from dpproxy.server.fair_pool import Turns
from dpproxy.server.padding import PaddedTurns, Ticks
from tests.dpproxy.wire import BROKEN, BY_COUNTRY, EXHAUSTED, SLOW, Served, eventually, served

TICK, TIMEOUT = 0.4, 1.0
LATE = 0.25
"""How much later than its tick a reply may arrive on a busy machine."""


class _Skipping(selectors.DefaultSelector):
    """Waits for nothing: what was to be waited is added to the clock."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now += timeout or 0.0
        return super().select(0)


class _Clocked(asyncio.SelectorEventLoop):
    """An event loop whose seconds pass at once."""

    def __init__(self) -> None:
        self._skipping = _Skipping()
        super().__init__(self._skipping)

    def time(self) -> float:
        return self._skipping.now


class _Taken(NamedTuple):
    seconds: float
    result: str


class _Instant(Turns[object]):
    """Turns without threads: work gives how many seconds of the loop's clock it takes, and its result."""

    def run(
        self, login: str, work: Callable[[], object], cancellation: Cancellation
    ) -> asyncio.Future[object]:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[object] = loop.create_future()
        taken = work()
        assert isinstance(taken, _Taken)
        loop.call_later(taken.seconds, done.set_result, taken.result)
        return done


Left = tuple[float, object]


class _World:
    """Padded turns by a clock of their own; `left`: by statement, when its reply left, and with what."""

    def __init__(self) -> None:
        self.left: dict[str, Left] = {}
        self.turns = PaddedTurns(_Instant("test", threads=1, each=1, ended=lambda: "ended"), Ticks(1.0, 6.0))

    async def ask(
        self, name: str, seconds: float, result: str = "answer", *, login: str = "ann", **more: Any
    ) -> None:
        """One statement of a login, whose work takes so long."""
        loop = asyncio.get_running_loop()

        def reply(outcome: object) -> None:
            self.left.setdefault(name, (round(loop.time(), 6), outcome))

        waiting = more.get("waiting", Cancellation())
        outcome = await self.turns.run(
            login,
            loop.time(),
            lambda: _Taken(seconds, result),
            waiting,
            lambda: reply("time-out"),
            lambda out: out == "failed",
        )
        reply(outcome)


def replies(ask: Callable[[_World], Any]) -> dict[str, Left]:
    """What left when, of the statements that `ask` sends."""
    world = _World()
    with asyncio.Runner(loop_factory=_Clocked) as runner:
        runner.run(ask(world))
    return world.left


@pytest.mark.parametrize(
    ("seconds", "result", "left"),
    [
        (0.0, "replay", (1.0, "replay")),
        (0.9, "answer", (1.0, "answer")),
        (1.2, "answer", (2.0, "answer")),
        (3.9, "answer", (4.0, "answer")),
        (4.1, "answer", (6.0, "answer")),
        (0.1, "failed", (6.0, "failed")),
        (4.1, "failed", (6.0, "failed")),
        (7.0, "answer", (6.0, "time-out")),
    ],
)
def test_a_reply_leaves_at_a_tick(seconds: float, result: str, left: Left) -> None:
    assert replies(lambda world: world.ask("one", seconds, result)) == {"one": left}


def test_steps_of_a_login_come_one_after_the_other() -> None:
    async def ask(world: _World) -> None:
        away = Cancellation()
        asked = [
            asyncio.ensure_future(world.ask("first", 0.5)),
            asyncio.ensure_future(world.ask("second", 1.5)),
            asyncio.ensure_future(world.ask("cancelled", 0.5, waiting=away)),
            asyncio.ensure_future(world.ask("third", 0.1)),
            asyncio.ensure_future(world.ask("other", 0.1, login="bob")),
        ]
        await asyncio.sleep(0.7)
        away.cancel()
        await asyncio.gather(*asked)

    left = replies(ask)
    assert {name: when for name, (when, _) in left.items() if name != "cancelled"} == {
        "first": 1.0,
        "second": 3.0,
        "third": 4.0,
        "other": 1.0,
    }
    assert left["cancelled"][1] != "answer"


def test_work_that_ignores_the_time_out_holds_no_turn() -> None:
    async def ask(world: _World) -> None:
        await asyncio.gather(world.ask("endless", 50.0), world.ask("next", 0.1))

    assert replies(ask) == {"endless": (6.0, "time-out"), "next": (7.0, "answer")}


# Over the wire


@pytest.fixture(scope="module")
def padded(wire_front: Front) -> Iterator[Served]:
    """A server that pads."""
    with served(wire_front, tick=TICK, statement_timeout=TIMEOUT) as server:
        yield server


def seconds_of(act: Callable[[], object]) -> tuple[float, str]:
    """How long it takes, and the SQLSTATE that it ends with."""
    begun, code = time.monotonic(), ""
    try:
        act()
    except psycopg.Error as error:
        code = error.sqlstate or "?"
    return time.monotonic() - begun, code


@pytest.mark.service
@pytest.mark.parametrize(
    ("text", "code", "tick"),
    [
        (BY_COUNTRY, "", TICK),
        (EXHAUSTED, "PV001", TICK),
        (BROKEN, "XX000", TIMEOUT),
        (SLOW, "57014", TIMEOUT),
        (f"COPY ({BY_COUNTRY}) TO STDOUT", "", TICK),
    ],
)
def test_replies_leave_at_ticks(padded: Served, text: str, code: str, tick: float) -> None:
    def copy() -> None:
        with cursor.copy(text.encode()) as rows:
            assert list(rows)

    for prepared in (False, True):
        with padded.connect(autocommit=True) as connection, connection.cursor() as cursor:
            took, ended = seconds_of(
                copy if text.startswith("COPY") else partial(cursor.execute, text.encode(), prepare=prepared)
            )
            assert ended == code
            assert tick <= took < tick + LATE


@pytest.mark.service
def test_rows_after_the_first_and_public_statements_do_not_wait(padded: Served) -> None:
    with padded.connect() as connection:
        connection.execute(f"DECLARE c CURSOR FOR {BY_COUNTRY}".encode())
        took, _ = seconds_of(lambda: connection.execute("FETCH ALL FROM c").fetchall())
        assert took < TICK
        took, _ = seconds_of(lambda: connection.execute("SELECT count(*) FROM articles").fetchall())
        assert took < TICK


@pytest.mark.service
def test_a_client_that_gives_up_stops_nothing(padded: Served) -> None:
    answering = padded.answering
    answering.outcomes.clear()
    answering.begun.clear()
    with padded.connect(autocommit=True) as connection:
        connection.execute("SET statement_timeout = '100ms'")
        took, code = seconds_of(lambda: connection.execute(SLOW.encode()))
        assert (code, took < TICK) == ("57014", True)
        assert not answering.outcomes
    eventually(lambda: answering.outcomes == ["cancelled"])  # the server's time-out
    answering.outcomes.clear()
    with padded.connect(autocommit=True) as connection:
        asked = len(answering.steps)
        connection.execute("SET statement_timeout = '100ms'")
        seconds_of(lambda: connection.execute(BY_COUNTRY.encode()))
        # The turn is that of the one before until its tick.
        assert len(answering.steps) == asked + 1
        took, code = seconds_of(lambda: connection.execute(BY_COUNTRY.encode()))
        assert (code, len(answering.steps)) == ("57014", asked + 1)
