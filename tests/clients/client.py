"""What every client is asked to do: one method a feature, each of which says how often it reads private data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar

from tests.clients.data import COUNTRIES, TOLERANCE, USERS
from tests.clients.kinds import KINDS
from tests.clients.native import assert_same
from tests.clients.world import ANALYST, World

BY_COUNTRY = (
    "SELECT country, COUNT(*) AS n FROM app.users WHERE user_id > {} GROUP BY country ORDER BY country"
)
BY_AGE = "SELECT age, COUNT(*) AS n FROM app.users WHERE user_id > {} GROUP BY age ORDER BY age"
AMONG = "SELECT COUNT(*) AS n FROM app.users WHERE country = ANY({}) AND user_id > {}"
CHOSEN = list(COUNTRIES[:2])
ROWS = "SELECT * FROM app.users"
REFUSED = "PV010"
PUBLIC = "SELECT COUNT(*) FROM app.articles"
SAMPLES = f"SELECT {', '.join(kind.name for kind in KINDS)} FROM app.samples WHERE id < 2 ORDER BY id"
AGES = tuple(range(18, 98))
USERS_COLUMNS = ["user_id", "country", "age", "balance", "mood"]
FEATURES = (
    "connect",
    "browse",
    "ask",
    "parameters",
    "arrays",
    "describe",
    "portions",
    "replay",
    "refused",
    "transaction",
    "types",
    "copy",
)


class Client:
    """One client through its real driver.

    Each of FEATURES is a method that raises AssertionError, or whatever the driver does, where the proxy is not
    what the client takes it for. `without`: what this client cannot do with any PostgreSQL, and why.
    """

    name: ClassVar[str]
    without: ClassVar[Mapping[str, str]] = {}

    def __init__(self, world: World) -> None:
        self.world = world

    def close(self) -> None:
        """Hangs up."""

    @classmethod
    def missing(cls) -> str | None:
        """What is not installed, None if all is there."""
        return None


class PythonClient(Client):
    """A DB-API driver, or what looks like one; `package` is what pip installs, `module` what is imported."""

    module: ClassVar[str]
    package: ClassVar[str]
    placeholder: ClassVar[str] = "%s"

    @classmethod
    def missing(cls) -> str | None:
        """The package, where it is not installed."""
        try:
            import_module(cls.module)
        except ImportError:
            return f"Python package {cls.package}"
        return None

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.driver: Any = import_module(self.module)
        self.connection: Any = self.open()

    def open(self) -> Any:
        """A connection in autocommit, over TLS and with a password."""
        raise NotImplementedError

    def close(self) -> None:
        """Hangs up."""
        self.connection.close()

    def rows(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Executes and fetches everything."""
        cursor = self.connection.cursor()
        try:
            cursor.execute(sql, parameters) if parameters else cursor.execute(sql)
            return [tuple(row) for row in cursor.fetchall()]
        finally:
            cursor.close()

    def run(self, sql: str) -> None:
        """Executes what gives no rows."""
        cursor = self.connection.cursor()
        cursor.execute(sql)
        cursor.close()

    def code(self, error: Exception) -> str:
        """The SQLSTATE of the driver's error."""
        return str(getattr(error, "sqlstate", None) or getattr(error, "pgcode", None))

    def failing(self, sql: str) -> str:
        """The SQLSTATE that a statement is refused with."""
        try:
            self.rows(sql)
        except Exception as error:
            return self.code(error)
        raise AssertionError(f"{sql} was answered")

    def connect(self) -> None:
        """Logs in and knows who it is."""
        assert self.rows("SELECT current_user, 1 + 1") == [(ANALYST, 2)]

    def browse(self) -> None:
        """Finds tables and columns."""
        with self.world.counts.expected(0):
            found = self.rows(
                "SELECT column_name FROM information_schema.columns "
                "WHERE table_schema = 'app' AND table_name = 'users' ORDER BY ordinal_position"
            )
        assert [name for (name,) in found] == USERS_COLUMNS

    def ask(self) -> None:
        """One question, one execution."""
        with self.world.counts.expected(1):
            check_countries(self.rows(BY_COUNTRY.format(self.world.fresh())))

    def parameters(self) -> None:
        """One execution for each set of parameters."""
        with self.world.counts.expected(3):
            for _ in range(3):
                check_countries(self.rows(BY_COUNTRY.format(self.placeholder), self.world.fresh()))

    def arrays(self) -> None:
        """A list as a parameter."""
        with self.world.counts.expected(1):
            check_chosen(self.rows(AMONG.format(self.placeholder, self.world.fresh()), self.array(CHOSEN)))

    def array(self, values: list[str]) -> object:
        """A list as the driver takes it."""
        return values

    def describe(self) -> None:
        """The columns of a statement that is not executed."""
        raise NotImplementedError

    def portions(self) -> None:
        """Many rows of one execution, a few at a time."""
        with self.world.counts.expected(1):
            cursor = self.connection.cursor()
            cursor.execute(BY_AGE.format(self.world.fresh()))
            check_ages(iter(lambda: cursor.fetchone(), None))
            cursor.close()

    def replay(self) -> None:
        """The same question has the same answer, which the backend is not asked for again."""
        question = BY_COUNTRY.format(self.world.fresh())
        with self.world.counts.expected(2, fetched=1):
            assert self.rows(question) == self.rows(question)

    def refused(self) -> None:
        """A refusal has its own code, and the connection goes on."""
        with self.world.counts.expected(1):
            assert self.failing(ROWS) == REFUSED
            check_countries(self.rows(BY_COUNTRY.format(self.world.fresh())))

    def transaction(self) -> None:
        """A savepoint outlives a refusal."""
        with self.world.counts.expected(2):
            self.run("BEGIN")
            check_countries(self.rows(BY_COUNTRY.format(self.world.fresh())))
            self.run("SAVEPOINT here")
            assert self.failing(ROWS) == REFUSED
            assert self.failing("SELECT 1") == "25P02"
            self.run("ROLLBACK TO SAVEPOINT here")
            check_countries(self.rows(BY_COUNTRY.format(self.world.fresh())))
            self.run("COMMIT")

    def types(self) -> None:
        """Every type, as the driver reads it."""
        assert_same(self.rows(SAMPLES))

    def copy(self) -> None:
        """COPY (query) TO STDOUT."""
        raise NotImplementedError


def check_countries(rows: Iterable[Sequence[Any]]) -> None:
    """Asserts the answer to BY_COUNTRY, up to noise."""
    found = [tuple(row) for row in rows]
    assert [country for country, _ in found] == list(COUNTRIES), found
    assert all(abs(int(n) - USERS // len(COUNTRIES)) < TOLERANCE for _, n in found), found


def check_chosen(rows: Iterable[Sequence[Any]]) -> None:
    """Asserts the answer to AMONG, up to noise."""
    ((n,),) = rows
    assert abs(int(n) - USERS * len(CHOSEN) // len(COUNTRIES)) < TOLERANCE, n


def check_ages(rows: Iterable[Sequence[Any]]) -> None:
    """Asserts the answer to BY_AGE, up to noise."""
    found = [tuple(row) for row in rows]
    assert [int(age) for age, _ in found] == list(AGES), found
    assert all(abs(int(n) - USERS // len(AGES)) < TOLERANCE for _, n in found), found
