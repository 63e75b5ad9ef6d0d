"""Statements one after the other, each drawn by what became of those before it.

A statement that reaches something new is kept and mutated from then on: a branch of the rewriter, or a pair of
operators that no accepted statement had.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from random import Random

from sqlglot.errors import SqlglotError

from tests.branches import Branches
from tests.oracle.derivation import Node, Weights, mutated
from tests.oracle.generator import KINDS, Generator
from tests.oracle.pairs import Pair, pairs
from tests.oracle.statement import Statements

AUTHORED = 0.5
"""The share of statements that generator.py writes: half of its nodes exercise a bound, of the grammar's a third."""
MUTATED = 0.5
"""The share of statements that are mutations."""
FEW = 3
"""Of so many pairs of operators the rarest is mutated."""
KEPT_REFUSED = 0.1
"""How often one is a mutation of a refused statement, which only shows other ways to be refused."""


@dataclass
class Reached:
    """Of a pair of operators: statements that had it, those that were accepted, and how the others were refused."""

    statements: int = 0
    accepted: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    def add(self, other: Reached) -> None:
        """Takes over what another process has found."""
        self.statements += other.statements
        self.accepted += other.accepted
        self.refused += other.refused


class Explorer:
    """Draws statements, and learns from each. `examples`: of each accepted pair the first statement that had it."""

    def __init__(self, seed: str) -> None:
        self.rng = Random(seed)
        self.branches = Branches("rewriter")
        self.reached: dict[Pair, Reached] = {}
        self.examples: dict[Pair, str] = {}
        self._weights = Weights()
        self._trees: dict[Pair, Node] = {}
        self._accepted: list[Node] = []
        self._refused: list[Node] = []
        self._before = 0

    def statement(self, visible: Mapping[str, frozenset[str]]) -> tuple[str, Node]:
        """The next statement over these columns of tables, and its derivation."""
        if self.rng.random() < AUTHORED:
            return Generator(self.rng, visible).statement(self.rng.choice(KINDS))[0], Node("statement")
        guide = None
        if self._trees and self._accepted and self.rng.random() < MUTATED:
            kept = self._refused if self._refused and self.rng.random() < KEPT_REFUSED else self._accepted
            guide = mutated(self._rare() if kept is self._accepted else self.rng.choice(kept), kept, self.rng)
        return Statements(visible, self._weights).statement(self.rng, guide)

    def _rare(self) -> Node:
        """An accepted statement with the rarest of a few pairs of operators."""
        few = self.rng.sample(list(self._trees), min(FEW, len(self._trees)))
        return self._trees[min(few, key=lambda pair: self.reached[pair].accepted)]

    @contextmanager
    def watched(self) -> Iterator[None]:
        """What the rewriter does with the statement runs inside."""
        self._before = len(self.branches.seen)
        with self.branches.watched():
            yield

    def learn(self, sql: str, tree: Node, refusal: str = "") -> None:
        """Takes note of what became of the statement that was watched: accepted, or refused with a code."""
        new = len(self.branches.seen) > self._before
        if tree.children:
            self._weights.learn(tree, not refusal)
        with suppress(SqlglotError):
            for pair in pairs(sql):
                found = self.reached.setdefault(pair, Reached())
                if not refusal and not found.accepted:
                    self.examples[pair], new = sql, True
                if not refusal and tree.children:
                    self._trees.setdefault(pair, tree)
                found.statements += 1
                found.accepted += not refusal
                found.refused[refusal] += bool(refusal)
        if new and tree.children:
            (self._refused if refusal else self._accepted).append(tree)
