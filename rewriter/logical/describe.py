"""The class of a node: what is public about how it will be answered, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rewriter.ir.measure import named
from rewriter.logical.plan import NodeDraft


@dataclass(frozen=True)
class NodeClass:
    """`domain` of the groups, how many `groups` one unit can be in, and what is measured, each measure once."""

    domain: Literal["one cell", "known", "unknown"]
    groups: Literal["restricted", "unrestricted"]
    measures: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.domain}, {self.groups}: {', '.join(self.measures) or 'the groups alone'}"


def classify(node: NodeDraft, known: bool) -> NodeClass:
    """The class of a node; `known`: whether the domain of its keys is.

    >>> from rewriter.binder.contribution_bounds import Bound
    >>> from rewriter.logical.plan import UNITS
    >>> from rewriter.ir.relation import Relation
    >>> str(classify(NodeDraft(Relation(()), (), (UNITS,), (), Bound(1, False), None, None, True), True))
    'one cell, restricted: count'
    """
    domain: Literal["one cell", "known", "unknown"] = "known" if known else "unknown"
    return NodeClass(
        domain if node.keys else "one cell",
        "unrestricted" if node.bound.value is None else "restricted",
        tuple(named(m) for m in node.measures),
    )
