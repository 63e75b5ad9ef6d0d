"""Every question asked of every neighbouring database, on both engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from tests.stability.compare import violations
from tests.stability.engine import BackendRaised, Engine
from tests.stability.question import Histogram, Question
from tests.stability.world import World


@dataclass(frozen=True)
class Violation:
    """A broken promise: which statement, on which engine, with whom removed (None: on all the data)."""

    sql: str
    engine: str
    unit: int | None
    what: str


@dataclass
class Tally:
    """How much was checked, and what was found."""

    questions: int = 0
    units: int = 0
    comparisons: int = 0
    cells: int = 0
    violations: list[Violation] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Takes over what another run of other questions has found."""
        self.questions += other.questions
        self.units = max(self.units, other.units)
        self.comparisons += other.comparisons
        self.cells += other.cells
        self.violations += other.violations


def check(
    world: World,
    questions: Sequence[Question],
    units: Sequence[int],
    advance: Callable[[], None] = lambda: None,
    agree: bool = True,
) -> Tally:
    """Removes each of `units` in turn and compares; `advance` is called once a unit and engine.

    `agree`: that the engines' histograms differ is a violation too; DuckDB has fewer digits than PostgreSQL's numeric.
    """
    tally = Tally(len(questions), len(units))
    wholes = []
    for engine in world.engines:
        answered = _histograms(engine, None, questions, tally)
        wholes.append(answered)
        for unit in units:
            _compare(engine, unit, answered, tally)
            advance()
    if agree:
        tally.violations += _disagreements(questions, wholes)
    return tally


Answered = dict[int, tuple[Question, Histogram]]


def _disagreements(questions: Sequence[Question], wholes: Sequence[Answered]) -> Iterator[Violation]:
    for number, question in enumerate(questions):
        if all(number in whole for whole in wholes):
            first, second = (set(whole[number][1].items()) for whole in wholes)
            if first != second:
                what = f"the engines disagree: {sorted(map(str, first ^ second))[:4]}"
                yield Violation(question.sql, "both", None, what)


def _histograms(engine: Engine, unit: int | None, questions: Sequence[Question], tally: Tally) -> Answered:
    """The questions that the engine answers, by number; an error of it is a violation."""
    answered: Answered = {}
    for number, question in enumerate(questions):
        try:
            answered[number] = (question, question.histogram(engine))
        except BackendRaised as raised:
            tally.violations.append(
                Violation(question.sql, engine.name, unit, f"the backend raised {raised}")
            )
    return answered


def _compare(engine: Engine, unit: int, wholes: Answered, tally: Tally) -> None:
    numbers, asked = list(wholes), [question for question, _ in wholes.values()]
    with engine.without(unit):
        fewer = _histograms(engine, unit, asked, tally)
    with engine.alone(unit):
        alone = _histograms(engine, unit, asked, tally)
    for place in fewer.keys() & alone.keys():
        question, whole = wholes[numbers[place]]
        tally.comparisons += 1
        tally.cells += len(whole)
        for what in violations(question, whole, fewer[place][1], alone[place][1]):
            tally.violations.append(Violation(question.sql, engine.name, unit, what))
