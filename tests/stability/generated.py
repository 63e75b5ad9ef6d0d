"""Random statements: no crash, no refusal without a name, no answer that breaks a bound."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

import psycopg

from rewriter.refusal import Refusal
from rewriter.scalar.typecheck import Parameter
from tests.rewriter.grammar_whole import Whole
from tests.stability.engine import PostgresEngine
from tests.stability.harness import Tally, Violation, check
from tests.stability.question import Question, questions
from tests.stability.world import World

SQLSTATE = re.compile(r"PV0\d\d|0A000|22\w\d\d|42\w\d\d|54\d\d\d|2201[WX]")
AT_ONCE = 100
RAISED = (psycopg.errors.DataError, psycopg.errors.FeatureNotSupported)
"""What PostgreSQL says about a value in a domain: the query gets that error from the front."""


@dataclass
class Outcome:
    """How many statements PostgreSQL takes, how many are answered, what the others are refused with."""

    tally: Tally = field(default_factory=Tally)
    statements: int = 0
    answered: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    def refuse(self, sql: str, refusal: Refusal) -> None:
        """Counts a refusal; one without a name of the catalogue is a violation."""
        self.refused[refusal.code] += 1
        if not SQLSTATE.fullmatch(refusal.code) or not refusal.message:
            self.tally.violations.append(Violation(sql, "rewriter", None, f"unnamed: {refusal.code}"))

    def add(self, other: Outcome) -> None:
        """Takes over what another run has found."""
        self.tally.add(other.tally)
        self.statements += other.statements
        self.answered += other.answered
        self.refused += other.refused


def generated(
    world: World, number: int, units: int, seed: int, advance: Callable[[int], None] = lambda n: None
) -> Outcome:
    """`number` statements by `seed`, each of `units` removed from what is answered."""
    outcome, whole = Outcome(), Whole(Random(seed))
    for start in range(0, number, AT_ONCE):
        size = min(AT_ONCE, number - start)
        asked: list[Question] = []
        for _ in range(size):
            sql = whole.statement()
            asked += nodes(sql, whole.parameters, world, outcome)
        outcome.tally.add(check(world, asked, world.some(units, seed + start), agree=False))
        advance(size)
    return outcome


def nodes(sql: str, parameters: Sequence[Parameter], world: World, outcome: Outcome) -> Iterator[Question]:
    """The nodes of a statement that PostgreSQL takes, where it is answered."""
    if not readable(sql, parameters, world.postgres):
        return
    outcome.statements += 1
    try:
        found = questions(sql, world.policy, world.postgres, parameters)
    except Refusal as refusal:
        outcome.refuse(sql, refusal)
        return
    except RAISED:
        outcome.refused["domain"] += 1
        return
    except Exception as error:
        what = f"crash: {type(error).__name__}: {error} {parameters}"
        outcome.tally.violations.append(Violation(sql, "rewriter", None, what))
        return
    outcome.answered += 1
    yield from found


def readable(sql: str, parameters: Sequence[Parameter], front: PostgresEngine) -> bool:
    """Whether PostgreSQL describes the statement."""
    types = f"({', '.join(p.type for p in parameters)})" if parameters else ""
    try:
        with front.connection.transaction():
            front.connection.execute(f"PREPARE g {types} AS {sql}".encode())
            front.connection.execute("DEALLOCATE g")
    except psycopg.Error:
        return False
    return True
