"""asyncpg: asynchronous, always prepared, always binary."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable
from typing import Any, TypeVar

from tests.clients.client import BY_AGE, BY_COUNTRY, PythonClient, check_ages, check_countries

T = TypeVar("T")


class Asyncpg(PythonClient):
    """asyncpg, on an event loop of its own."""

    name = "asyncpg"
    module = package = "asyncpg"
    placeholder = "$1"

    def open(self) -> Any:
        self.loop = asyncio.new_event_loop()
        return self.wait(self.driver.connect(self.world.url))

    def wait(self, awaitable: Awaitable[T]) -> T:
        """Runs it to its end."""
        return self.loop.run_until_complete(awaitable)

    def close(self) -> None:
        self.wait(self.connection.close())
        self.loop.close()

    def rows(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.wait(self.connection.fetch(sql, *parameters))]

    def run(self, sql: str) -> None:
        self.wait(self.connection.execute(sql))

    def describe(self) -> None:
        with self.world.counts.expected(0):
            statement = self.wait(self.connection.prepare(BY_COUNTRY.format("$1")))
            assert [(a.name, a.type.name) for a in statement.get_attributes()] == [
                ("country", "text"),
                ("n", "int8"),
            ] or [a.type.name for a in statement.get_attributes()] == ["varchar", "int8"]
            assert [p.name for p in statement.get_parameters()] == ["int8"]

    def portions(self) -> None:
        async def portions() -> list[tuple[Any, ...]]:
            async with self.connection.transaction():
                cursor = self.connection.cursor(BY_AGE.format("$1"), self.world.fresh(), prefetch=7)
                return [tuple(row) async for row in cursor]

        with self.world.counts.expected(1):
            check_ages(self.wait(portions()))

    def copy(self) -> None:
        with self.world.counts.expected(1):
            out = io.BytesIO()
            question = BY_COUNTRY.format(self.world.fresh())
            self.wait(self.connection.copy_from_query(question, output=out))
            check_countries(line.split("\t") for line in out.getvalue().decode().splitlines())
