"""Planning costs nothing, so it is bounded: in turns, in time, in memory, and only for as long as anybody waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import psycopg
import pytest

from dpproxy.backends.base import Cancellation
from dpproxy.engine.kept import MOST_BYTES, MOST_PLANS, Kept
from dpproxy.front.connection_pool import ConnectionPool
from dpproxy.front.front import Front
from dpproxy.front.waiting import working_for
from dpproxy.pgwire import messages as m
from dpproxy.server.fair_pool import Turns
from rewriter import effort
from rewriter.refusal import Refusal
from tests.dpproxy.wire import BY_COUNTRY, EXPECTED, SLOW, Planned, Served, eventually, served

ENDLESS = "SELECT count(*) FROM generate_series(1, 1000000000)"
BUSY = "SELECT country, count(*) AS busy FROM people GROUP BY country"


def _query(text: str) -> bytes:
    return m.message("Q", m.cstring(text))


@contextmanager
def planning(proxy: Served) -> Iterator[list[str]]:
    """Meanwhile BUSY is planned for as long as it may be; the codes with which that ends are gathered."""
    ended: list[str] = []
    prepare = proxy.answering.prepare

    def prepared(text: str, oids: tuple[int, ...], errors: bool = False) -> Planned:
        if text == BUSY:
            proxy.answering.begun.set()
            try:
                _plan_for_ever()
            except Refusal as refusal:
                ended.append(refusal.code)
                raise
        return prepare(text, oids, errors)

    proxy.answering.prepare = prepared  # type: ignore[method-assign]
    yield ended


def _plan_for_ever() -> None:
    pause = threading.Event()
    with effort.bounded() as budget:
        budget.left = budget.look = 1 << 62
        while True:
            pause.wait(0.001)
            effort.spend(1000)


@pytest.mark.service
def test_planning_ends_with_its_client(proxy: Served) -> None:
    with planning(proxy) as ended:
        raw = proxy.raw()
        raw.send(_query(BUSY))
        assert proxy.answering.begun.wait(10)
        raw.close()
        eventually(lambda: ended == ["57014"])


def cancel(proxy: Served, connection: psycopg.Connection) -> None:
    # A request that comes before planning has begun is lost, as in PostgreSQL.
    assert proxy.answering.begun.wait(10)
    connection.cancel_safe()


@pytest.mark.service
@pytest.mark.parametrize("by", ["request", "timeout"])
def test_planning_ends_when_its_statement_is_cancelled(wire_front: Front, by: str) -> None:
    seconds = 0.3 if by == "timeout" else 60.0
    with served(wire_front, statement_timeout=seconds) as proxy, planning(proxy) as ended:
        with proxy.connect() as connection:
            if by == "request":
                threading.Thread(target=cancel, args=(proxy, connection)).start()
            with pytest.raises(psycopg.errors.QueryCanceled):
                connection.execute(BUSY.encode())
        eventually(lambda: ended == ["57014"])


@pytest.mark.service
def test_planning_ends_with_the_server(wire_front: Front) -> None:
    with served(wire_front) as proxy, planning(proxy) as ended:
        raw = proxy.raw()
        raw.send(_query(BUSY))
        assert proxy.answering.begun.wait(10)
        proxy.drain(0.1)
        proxy.loop.call_soon_threadsafe(proxy.session().abort)
        eventually(lambda: ended == ["57014"])
        raw.close()


@pytest.mark.service
def test_who_plans_much_keeps_nobody_else_from_planning(proxy: Served) -> None:
    with planning(proxy) as ended:
        crowd = [proxy.raw(user="bob") for _ in range(12)]
        for one in crowd:
            one.send(_query(BUSY))
        assert proxy.answering.begun.wait(10)
        with proxy.connect(autocommit=True) as connection:
            assert connection.execute(BY_COUNTRY.encode()).fetchall() == EXPECTED
        for one in crowd:
            one.close()
        eventually(lambda: proxy.sessions == 0 and not proxy.server._jobs)
        # Two at once: of the others some began as those before them went, and most never did.
        assert set(ended) == {"57014"}
        assert len(ended) < len(crowd)


@pytest.mark.service
def test_who_asks_much_keeps_nobody_else_from_an_answer(proxy: Served) -> None:
    crowd = [proxy.raw(user="bob") for _ in range(34)]
    for one in crowd:
        one.send(_query(SLOW))
    eventually(lambda: len(proxy.answering.steps) == 8)
    with proxy.connect(autocommit=True) as connection:
        assert connection.execute(BY_COUNTRY.encode()).fetchall() == EXPECTED
    proxy.answering.go_on.set()
    for one in crowd:
        assert [kind for kind, _ in one.until("Z")][-2:] == ["C", "Z"]
        one.close()


def test_logins_take_turns() -> None:
    began: list[str] = []
    gate = threading.Event()

    def work(name: str) -> str:
        began.append(name)
        gate.wait(10)
        return name

    async def run() -> list[str]:
        turns = Turns[str]("test", threads=2, each=1, ended=lambda: "ended")
        never, gone = Cancellation(), Cancellation()
        first = [turns.run("bob", partial(work, f"bob {n}"), never) for n in range(3)]
        left = turns.run("bob", partial(work, "gone"), gone)
        other = turns.run("ann", partial(work, "ann"), never)
        gone.cancel()
        more = turns.run("eve", partial(work, "eve"), never)
        assert left.done()
        await asyncio.to_thread(eventually, lambda: len(began) == 2)
        assert began == ["bob 0", "ann"]
        gate.set()
        found = [await one for one in (*first, left, other, more)]
        turns.shutdown()
        return found

    assert asyncio.run(run()) == ["bob 0", "bob 1", "bob 2", "ended", "ann", "eve"]
    assert began.index("eve") < began.index("bob 2")


def test_what_fails_in_its_turn_makes_room_for_the_next() -> None:
    async def run() -> int:
        turns = Turns[int]("test", threads=1, each=1, ended=lambda: 0)
        failing = turns.run("bob", lambda: 1 // 0, Cancellation())
        with pytest.raises(ZeroDivisionError):
            await failing
        found = await turns.run("bob", lambda: 7, Cancellation())
        turns.shutdown()
        return found

    assert asyncio.run(run()) == 7


def test_a_pool_gives_one_to_each_caller_at_a_time() -> None:
    pool = ConnectionPool(make=object, usable=lambda one: True, end=lambda one: None, most=4, uses=9)
    asked = []

    def waits() -> None:
        asked.append(1)
        raise TimeoutError

    with pool.use("bob"):
        with pytest.raises(TimeoutError), pool.use("bob", waits):
            pass
        with pool.use("ann"), pool.use(), pool.use(), pytest.raises(TimeoutError), pool.use("eve", waits):
            pass
    with pool.use("bob"):
        assert len(asked) == 2


def test_a_pool_ends_what_was_used_often_enough() -> None:
    ended: list[object] = []
    pool = ConnectionPool(make=object, usable=lambda one: True, end=ended.append, most=4, uses=3)
    used = []
    for _ in range(7):
        with pool.use() as one:
            used.append(one)
    assert [used.index(one) for one in used] == [0, 0, 0, 3, 3, 3, 6]
    assert ended == [used[0], used[3]]


@pytest.mark.service
def test_constants_of_one_login_hold_up_no_other(wire_front: Front) -> None:
    began, cancellation = threading.Barrier(9), Cancellation()

    def evaluate() -> str:
        with working_for("bob", cancellation):
            began.wait(10)
            try:
                wire_front.evaluate(ENDLESS, (), (), (), 1)
            except Refusal as refusal:
                return refusal.code
        return ""

    with ThreadPoolExecutor(8) as threads:
        crowd = [threads.submit(evaluate) for _ in range(8)]
        began.wait(10)
        with working_for("ann", Cancellation()):
            for _ in range(3):
                assert wire_front.evaluate("SELECT 7", (), (), (), 1) == (("7",),)
        assert not any(one.done() for one in crowd)
        cancellation.cancel()
        assert {one.result(10) for one in crowd} == {"57014"}
    assert wire_front.evaluate("SELECT 8", (), (), (), 1) == (("8",),)


@pytest.mark.service
def test_a_constant_is_computed_for_a_short_time(wire_front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    assert wire_front.evaluate("SELECT current_setting('statement_timeout')", (), (), (), 1) == (("5s",),)
    monkeypatch.setattr("dpproxy.front.front.CONSTANT_TIMEOUT", "200ms")
    with pytest.raises(Refusal) as raised:
        wire_front.evaluate(ENDLESS, (), (), (), 1)
    assert raised.value.code == "57014"


def test_plans_are_kept_for_what_they_weigh() -> None:
    kept = Kept()
    for number in range(3 * MOST_PLANS):
        kept.get(("x", number), partial(int, number))
    assert kept.known(("x", 3 * MOST_PLANS - 1)) == 3 * MOST_PLANS - 1
    assert len(kept._values) == MOST_PLANS
    for number in range(100):
        kept.get(("y" * 1000, number), partial(int, number), lambda _: MOST_BYTES // 20)
    assert len(kept._values) == 19
    kept.get("z" * (2 * MOST_BYTES), lambda: 0)
    assert list(kept._values) == ["z" * (2 * MOST_BYTES)]
    kept.clear()
    assert kept._held == 0
