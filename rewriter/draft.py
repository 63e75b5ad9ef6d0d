"""What the cut finds: DP nodes in base form, references to the proxy's own tables, edits of the client's tree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from rewriter.bounds import Bound
from rewriter.constant import Constant
from rewriter.expression import Parameter, Parameters
from rewriter.relation import Relation

SYSTEM = "dpproxy"
SYSTEM_TABLES = ("budget", "releases", "last_release")
NODE = "node"
Edit = Callable[[], None]


@dataclass(frozen=True)
class MeasureDraft:
    """A count of a node: rows (or units, `tau` 1) whose `argument` is true; None counts all."""

    argument: exp.Expr | None
    tau: int


@dataclass(frozen=True)
class NodeDraft:
    """A DP node in base form; `k` is None without a top-k form, `bound` what one unit can do to its groups."""

    relation: Relation
    keys: tuple[exp.Expr, ...]
    measures: tuple[MeasureDraft, ...]
    bound: Bound
    k: int | None
    order_by: int
    counts: bool


@dataclass(frozen=True)
class SystemDraft:
    """A reference to one of the proxy's own tables (dpproxy.budget and the like)."""

    name: str


@dataclass
class Draft:
    """One statement, analysed: `spellings` is our reading of its text, `nodes` what must be released, in order.

    `parameters` are the client's; `values` are these and behind them the `constants`', as base forms name them.
    """

    tree: exp.Query
    spellings: tuple[str, ...]
    nodes: list[NodeDraft | SystemDraft]
    edits: list[Edit]
    parameters: Parameters
    constants: tuple[Constant, ...]
    values: tuple[Parameter, ...]


def released(index: int) -> str:
    """The name of node `index`'s released rows in the presentation."""
    return f"_r{index}"


def released_rows(index: int) -> exp.Table:
    """The place of node `index`'s released rows in FROM; no name of the client's is taken for it."""
    table = exp.to_table(released(index))
    table.meta[NODE] = index
    return table


def replace_later(node: exp.Expr, new: exp.Expr) -> Edit:
    """The edit that puts `new` in the place of `node`."""

    def edit() -> None:
        node.replace(new)

    return edit
