"""A dashboard of six tiles over published answers, opened by many sessions at once: what it costs, how long it takes.

`python -m tests.published.dashboard` prints the table.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import psycopg

from dpproxy.config.epoch import epoch_name
from dpproxy.deployment.service import Service, configured
from tests.dpproxy.serving import POLICY, make

SETTINGS = """
[server]
auth = "trust"
port = 0
[budget.dataset]
information = 3000
calls = 300
[budget.analysts.ann]
publish = true
"""
TILES = {
    "people_by_town": "SELECT town, COUNT(*) AS n FROM people GROUP BY town",
    "people": "SELECT COUNT(*) AS n FROM people",
    "large_ids": "SELECT town, COUNT(*) AS n FROM people WHERE person_id >= 450 GROUP BY town",
    "visitors_by_room": "SELECT room, COUNT(DISTINCT person_id) AS n FROM visits GROUP BY room ORDER BY n DESC LIMIT 3",
    "seconds_by_town": "SELECT town, SUM(seconds) AS s FROM visits JOIN people USING (person_id) GROUP BY town",
    "visitors_by_floor": "SELECT floor, COUNT(DISTINCT person_id) AS n FROM visits JOIN rooms USING (room) GROUP BY 1",
}


@dataclass(frozen=True)
class Figure:
    """What a step has cost and how long it took: queries charged to anybody, units of the publisher, seconds."""

    step: str
    sessions: int
    statements: int
    charged: int
    publisher: float
    median: float
    slowest: float


class Clock:
    """The time of a service, which can be moved on."""

    def __init__(self, service: Service) -> None:
        # Noon: a wait of minutes stays within the day, whenever the tests run.
        self.now = datetime.now(UTC).replace(hour=12, minute=0)
        length = service.config.privacy.epoch
        # What turns at midnight cannot be waited for: both ask this clock what time it is.
        service.answering.epochs.name = lambda: epoch_name(length, self.now)  # type: ignore[method-assign]
        service.publishing._now = lambda: self.now  # type: ignore[method-assign]

    def tomorrow(self, service: Service) -> None:
        """The next epoch begins, and the server turns to it."""
        self.now += timedelta(days=1)
        service.publishing.refresh_due(self.now)


@contextmanager
def listening(service: Service) -> Iterator[int]:
    """Serves in a thread with its own event loop; gives the port."""
    loop = asyncio.new_event_loop()
    ready: Future[int] = Future()
    server = service.server()

    async def begin() -> None:
        ready.set_result((await server.start())[1])

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(begin())
        loop.run_forever()
        loop.run_until_complete(server.drain(1))
        loop.run_until_complete(asyncio.sleep(0.05))
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield ready.result(20)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def connect(port: int, user: str) -> psycopg.Connection[Any]:
    """A session of an analyst."""
    return psycopg.connect(host="127.0.0.1", port=port, user=user, dbname="dpproxy", autocommit=True)


def figures(folder: Path, sessions: int) -> list[Figure]:
    """The whole course, on a deployment of its own in `folder`."""
    make(folder, POLICY + SETTINGS)
    with duckdb.connect(folder / "people.duckdb") as connection:
        connection.execute("UPDATE visits SET room = person_id % 4")
    with ExitStack() as stack:
        service = stack.enter_context(Service.start(configured(folder / "dpproxy.toml"), alone=True))
        clock = Clock(service)
        port = stack.enter_context(listening(service))
        course = _Course(service, port)
        views = [f"SELECT * FROM published.{name}" for name in TILES]
        publish = [f"CREATE TABLE published.{name} AS {query}" for name, query in TILES.items()]
        viewers = [f"viewer {number}" for number in range(sessions)]
        found = [course.step("publish the six tiles", ["ann"], ["SET dpproxy.refresh = 'epoch'", *publish])]
        found.append(course.step("open the dashboard", viewers, views))
        found.append(course.turn("the epoch turns", lambda: clock.tomorrow(service)))
        found.append(course.step("open the dashboard", viewers, views))
        fresh = ["SET dpproxy.reuse = off", *TILES.values()]
        found.append(course.step("the same, not published", viewers, fresh))
    return found


class _Course:
    def __init__(self, service: Service, port: int) -> None:
        self._service, self._port = service, port

    def _charged(self) -> tuple[int, float]:
        """How many queries were charged so far, to whomever, and the publisher's information units."""
        accounts = [
            row.account for row in self._service.ledger.accounts.all() if row.account.startswith("analyst:")
        ]
        entries = [entry for account in accounts for entry in self._service.ledger.history.entries(account)]
        paid = sum(entry.kind == "settle" and entry.charged.information > 0 for entry in entries)
        used = sum(e.charged.information for e in entries if e.account == "analyst:ann") / 10**6
        return paid, used

    def step(self, name: str, users: list[str], statements: list[str]) -> Figure:
        """All users send all statements, at once, each in a session of their own."""
        before = self._charged()

        def opened(user: str) -> list[float]:
            took = []
            with connect(self._port, user) as connection:
                for sql in statements:
                    begun = time.perf_counter()
                    done = connection.execute(sql.encode())
                    assert done.description is None or done.fetchall(), f"{user} got nothing for {sql}"
                    took.append(time.perf_counter() - begun)
            return took

        with ThreadPoolExecutor(min(len(users), 16)) as threads:
            seconds = [second for took in threads.map(opened, users) for second in took]
        return self._figure(name, len(users), seconds, before)

    def turn(self, name: str, work: Any) -> Figure:
        """Something that the server does by itself."""
        before, begun = self._charged(), time.perf_counter()
        work()
        return self._figure(name, 0, [time.perf_counter() - begun], before)

    def _figure(self, name: str, sessions: int, seconds: list[float], before: tuple[int, float]) -> Figure:
        after = self._charged()
        return Figure(
            name,
            sessions,
            len(seconds) if sessions else 0,
            after[0] - before[0],
            after[1] - before[1],
            statistics.median(seconds),
            max(seconds),
        )


def main() -> None:
    """Prints the table."""
    with tempfile.TemporaryDirectory() as folder:
        found = figures(Path(folder), 50)
    print("| step | sessions | statements | queries charged | publisher pays | median ms | slowest ms |")
    print("|---|---|---|---|---|---|---|")
    for one in found:
        print(
            f"| {one.step} | {one.sessions} | {one.statements} | {one.charged} | {one.publisher:g} units "
            f"| {1000 * one.median:.1f} | {1000 * one.slowest:.0f} |"
        )


if __name__ == "__main__":
    main()
