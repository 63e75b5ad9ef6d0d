"""`python -m tests.rewriter.fuzz [SECONDS [SEED]]`: bytes and mutated statements through the whole rewriter.

Nothing but a Refusal may leave it: not from classify, parse, split, emission or presentation. And PostgreSQL
has to cut texts of awkward tokens as we do. Exit code 1 otherwise.
"""

from __future__ import annotations

import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import psycopg

from dpproxy.front.front import Front
from rewriter.emit.engines.duckdb import DUCKDB
from rewriter.emit.engines.postgres import POSTGRES
from rewriter.emit.histogram import histogram_query, node_text, types_query
from rewriter.logical.key_domains import domain_queries
from rewriter.logical.plan import AggregateNode, SystemTableNode
from rewriter.logical.presentation import ReleasedColumn, ReleasedColumns, node_columns, present
from rewriter.logical.split import split_query
from rewriter.refusal import Refusal
from rewriter.scalar.typecheck import Parameter
from rewriter.statements.classify import Verdict, classify
from tests.rewriter import lexed
from tests.rewriter.grammar_whole import Whole
from tests.rewriter.hints import foreign
from tests.rewriter.queries import ANSWERED, TRUNCATED
from tests.rewriter.shop import POLICY

GUARDED = {"users", "events", "budget", "releases"}
PROCESSES = 2
TOKEN = re.compile(r"\s+|\w+|'(?:[^']|'')*'|.", re.DOTALL)
WORDS = tuple(Path(__file__).with_name("fuzz_words.txt").read_text().split())
SIGNS = (
    *Path(__file__).with_name("fuzz_signs.txt").read_text().split(),
    "\0",
    "\u202e",
    "\ufeff",
    "\n",
    "9" * 5000,
)
READ = (
    Parameter("bigint", "7"),
    Parameter("numeric", "0.5"),
    Parameter("text", "US"),
    Parameter("date", "2024-02-01"),
    Parameter("double precision", None),
    Parameter("timestamp without time zone", "2024-02-01 00:00:00"),
    Parameter("boolean", "t"),
    Parameter("interval", "1 day"),
)
"""What constants of a statement may turn out to be."""


@dataclass
class Found:
    """How many inputs there were, what became of them, and each crash once: where it was, and an input."""

    inputs: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    crashes: dict[str, str] = field(default_factory=dict)
    slowest: tuple[float, str] = (0.0, "")

    def add(self, other: Found) -> None:
        """Takes over what another process has found."""
        self.inputs += other.inputs
        self.outcomes += other.outcomes
        self.crashes = other.crashes | self.crashes
        self.slowest = max(self.slowest, other.slowest)


def through(text: str, parameters: Sequence[Parameter] = (), pick: int = 0) -> str:
    """What becomes of a text: "relay", "answered" or a refusal's code; `pick` chooses what its constants are."""
    try:
        statement = classify(text, GUARDED)
        if statement.verdict is Verdict.RELAY:
            return "relay"
        logical = split_query(statement.body, POLICY, parameters, lambda n, _: [READ[(n + pick) % len(READ)]])
        columns: list[ReleasedColumns] = []
        for node in logical.nodes:
            if isinstance(node, SystemTableNode):
                columns.append((ReleasedColumn("account", "text"),))
            else:
                emitted(node, logical.values)
                columns.append(node_columns(node, ["text"] * (len(node.keys) + len(node.outputs))))
        present(logical, columns, None)
    except Refusal as refusal:
        if named := foreign(refusal, text):
            raise AssertionError(f"{named[0]} in {refusal.message!r}, {refusal.hint!r}") from refusal
        return refusal.code
    return "answered"


def emitted(node: AggregateNode, parameters: Sequence[Parameter]) -> None:
    """Writes all that is written of a node, for both engines."""
    types_query(node, parameters, 0)
    domain = domain_queries(node.relation, node.keys, POLICY, parameters) if node.keys else None
    cells = ((),) if not node.keys else None if domain is None else (("1",) * len(node.keys),)
    node_text(node, POLICY, parameters)
    for dialect in (DUCKDB, POSTGRES):
        histogram_query(node, POLICY, parameters, cells, node.bound.value, 10, dialect)


class Inputs:
    """Texts drawn by `rng`: mutations of statements that make sense, splices of two, bytes."""

    def __init__(self, rng: Random) -> None:
        self._rng, self._whole = rng, Whole(rng)
        golden = sorted((Path(__file__).parent / "golden").rglob("*.txt"))
        blocks = [block for path in golden for block in path.read_text().strip().split("\n\n")]
        self._seeds = [*ANSWERED, *TRUNCATED, *(block.splitlines()[0] for block in blocks)]

    def text(self) -> str:
        """One text."""
        roll = self._rng.random()
        if roll < 0.05:
            return self._rng.randbytes(self._rng.randrange(200)).decode(errors="replace")
        if roll < 0.1:
            return "".join(
                self._rng.choice((*WORDS, *SIGNS, " ", " ")) for _ in range(self._rng.randrange(60))
            )
        text = self._statement()
        if roll < 0.2:
            return self._spliced(text, self._statement())
        if roll < 0.25:
            return self._nested(text)
        tokens = TOKEN.findall(text)
        for _ in range(self._rng.choice((0, 1, 1, 2, 3, 8))):
            self._mutate(tokens)
        return "".join(tokens)

    def _statement(self) -> str:
        return self._whole.statement() if self._rng.random() < 0.5 else self._rng.choice(self._seeds)

    def _mutate(self, tokens: list[str]) -> None:
        place = self._rng.randrange(len(tokens) + 1)
        other = self._rng.randrange(len(tokens)) if tokens else 0
        match self._rng.randrange(6):
            case 0:
                tokens[place : place + self._rng.choice((1, 1, 2, 9))] = []
            case 1:
                tokens[place:place] = [" ", self._rng.choice(WORDS), " "]
            case 2:
                tokens[place:place] = [self._rng.choice(SIGNS)]
            case 3:
                tokens[place:place] = tokens[other : other + self._rng.choice((1, 3, 12))]
            case 4 if place < len(tokens):
                tokens[place], tokens[other] = tokens[other], tokens[place]
            case _ if place < len(tokens):
                tokens[place] = self._rng.choice((*WORDS, *SIGNS))

    def _spliced(self, first: str, second: str) -> str:
        return first[: self._rng.randrange(len(first) + 1)] + second[self._rng.randrange(len(second) + 1) :]

    def _nested(self, text: str) -> str:
        depth = self._rng.choice((3, 25, 60, 500))
        before, after = self._rng.choice(
            (
                ("(", ")"),
                ("SELECT * FROM (", ") x"),
                ("SELECT COUNT(*) FROM users WHERE NOT (", ")"),
                ("- ", ""),
            )
        )
        return before * depth + text + after * depth


def fuzz(inputs: Iterator[str], going: Callable[[], bool]) -> Found:
    """Sends texts through while `going` says so."""
    found = Found()
    while going():
        text, started = next(inputs), time.monotonic()
        try:
            found.outcomes[through(text, READ[:2], found.inputs)] += 1
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}"
            found.crashes.setdefault(place, text)
        found.inputs += 1
        found.slowest = max(found.slowest, (time.monotonic() - started, text))
    return found


def texts(seed: int) -> Iterator[str]:
    """Texts without end, the same for the same seed."""
    drawn = Inputs(Random(seed))
    while True:
        yield drawn.text()


def fuzz_for(seconds: float, seed: int) -> Found:
    """Sends texts through for a time."""
    deadline = time.monotonic() + seconds
    return fuzz(texts(seed), lambda: time.monotonic() < deadline)


def cut_for(seconds: float, seed: int) -> tuple[int, list[str]]:
    """Has PostgreSQL cut texts of awkward tokens for a time; how many, and what it cut otherwise."""
    with TemporaryDirectory() as folder, Front.start(Path(folder) / "front") as front:
        role, password = front.role_for("fuzz")
        with psycopg.connect(
            host=str(Path(str(front.address)).parent), user=role, password=password, dbname=front.database
        ) as connection:
            connection.autocommit = True
            return lexed.differences(connection, lexed.texts(Random(seed)), seconds)


def main(arguments: list[str]) -> int:
    """Runs two processes and prints what they found."""
    seconds = float(arguments[0]) if arguments else 600.0
    seed = int(arguments[1]) if len(arguments) > 1 else time.time_ns() % 10**9
    found = Found()
    with ProcessPoolExecutor(PROCESSES + 1) as pool:
        cutting = pool.submit(cut_for, seconds, seed)
        running = [pool.submit(fuzz_for, seconds, seed + part) for part in range(PROCESSES)]
        for share in running:
            found.add(share.result())
        looked, otherwise = cutting.result()
    for difference in otherwise:
        print(f"CUT OTHERWISE {difference}")
    for place, text in sorted(found.crashes.items()):
        print(f"CRASH {place}: {text!r}")
    outcomes = ", ".join(f"{name} {n:,}" for name, n in found.outcomes.most_common())
    print(f"fuzz: {found.inputs:,} inputs, seed {seed}, {len(found.crashes)} kinds of crash; {outcomes}")
    print(f"slowest: {found.slowest[0]:.2f} s, {len(found.slowest[1])} characters")
    print(f"lexing: {looked:,} texts, {len(otherwise)} cut otherwise by PostgreSQL")
    return 1 if found.crashes or otherwise else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
