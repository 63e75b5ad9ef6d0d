"""Derivations by a grammar: which rule is picked at each nonterminal, learned weights, and mutations of whole trees.

A derivation may have a guide, another one's tree: wherever the guide's rule is to be had, it is picked. So a mutated
tree is always grammatical, whatever became of its scopes (parametric generators, as in Zest, ISSTA 2019).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from tests.oracle.productions import Rule

LEAST, MOST = 0.4, 2.0
"""How far acceptance may change a rule's weight: none dies out, since a refusal has branches of its own."""
SURE = 8
"""As many statements of average acceptance a rule is taken to have had at first."""


@dataclass
class Node:
    """A nonterminal's derivation: the rules or names that were picked in it, and the nonterminals below."""

    symbol: str
    picked: list[str] = field(default_factory=list)
    children: list[Node] = field(default_factory=list)

    def nodes(self) -> Iterator[Node]:
        """This one and all below."""
        yield self
        for child in self.children:
            yield from child.nodes()

    def copy(self) -> Node:
        """The tree again."""
        return Node(self.symbol, [*self.picked], [child.copy() for child in self.children])


class Weights:
    """How often each rule of a nonterminal was in a statement, and how often that statement was accepted."""

    def __init__(self) -> None:
        self._asked: Counter[tuple[str, str]] = Counter()
        self._accepted: Counter[tuple[str, str]] = Counter()
        self._all = [1, 2]

    def learn(self, tree: Node, accepted: bool) -> None:
        """Takes note of what became of a statement."""
        rules = {(node.symbol, rule) for node in tree.nodes() for rule in node.picked}
        self._asked.update(rules)
        self._all[1] += 1
        if accepted:
            self._accepted.update(rules)
            self._all[0] += 1

    def of(self, symbol: str, rule: Rule) -> float:
        """The weight of a rule: its first one, times the acceptance that it has had as a share of that of all."""
        key, share = (symbol, rule.name), self._all[0] / self._all[1]
        rate = (self._accepted[key] + SURE * share) / (self._asked[key] + SURE)
        return rule.weight * min(MOST, max(LEAST, rate / share))


class Derivation:
    """A derivation under way, drawn by `rng`, along `guide` where it can be."""

    def __init__(self, rng: Random, weights: Weights, guide: Node | None = None) -> None:
        self.rng = rng
        self.tree = Node("statement")
        self._weights = weights
        self._path: list[tuple[Node, Node | None]] = [(self.tree, guide)]

    @contextmanager
    def node(self, symbol: str) -> Iterator[None]:
        """What is picked inside is below a nonterminal."""
        parent, guide = self._path[-1]
        place, made = len(parent.children), Node(symbol)
        along = guide.children[place] if guide is not None and place < len(guide.children) else None
        parent.children.append(made)
        self._path.append((made, along if along is not None and along.symbol == symbol else None))
        try:
            yield
        finally:
            self._path.pop()

    def rule(self, symbol: str, rules: Sequence[Rule]) -> Rule:
        """One of a nonterminal's rules."""
        named = {rule.name: rule for rule in rules}
        guided = self._guided()
        if guided is not None and guided in named:
            picked = named[guided]
        else:
            (picked,) = self.rng.choices(rules, [self._weights.of(symbol, rule) for rule in rules])
        self._path[-1][0].picked.append(picked.name)
        return picked

    def name(self, names: Sequence[str]) -> str:
        """One of the names in a scope, or of constants."""
        guided = self._guided()
        picked = guided if guided is not None and guided in names else self.rng.choice(names)
        self._path[-1][0].picked.append(picked)
        return picked

    def _guided(self) -> str | None:
        node, guide = self._path[-1]
        place = len(node.picked)
        return guide.picked[place] if guide is not None and place < len(guide.picked) else None


def mutated(tree: Node, others: Sequence[Node], rng: Random) -> Node:
    """A tree with one nonterminal derived again, or as it is in another tree, or with another rule."""
    made = tree.copy()
    place = rng.choice([*made.nodes()])
    donors = [node for node in rng.choice(others).nodes() if node.symbol == place.symbol] if others else []
    if donors and rng.random() < 0.5:
        donor = rng.choice(donors).copy()
        place.picked, place.children = donor.picked, donor.children
    elif rng.random() < 0.5:
        place.picked, place.children = [], []
    else:
        place.picked = []
    return made
