"""Puts named windows where they are used.

In:  SELECT rank() OVER (w ORDER BY b), sum(b) OVER w FROM t WINDOW w AS (PARTITION BY a)
Out: SELECT rank() OVER (PARTITION BY a ORDER BY b), sum(b) OVER (PARTITION BY a) FROM t
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from rewriter.effort import spend
from rewriter.ir.trees import folded, walk
from rewriter.refusal import Refusal
from rewriter.syntax.allowlist import position

PARTS = ("partition_by", "order", "spec")
NAMED = "named"
"""The mark of a query that had a WINDOW clause: its windows as they were written; and of a window that named one: the
name and its own parts."""


def write_out_windows(query: exp.Select) -> None:
    """Completes each window of a query, not of queries within it, by the one that it names; the WINDOW clause is gone.

    PostgreSQL refuses windows that replace a part of the named one. Raises Refusal 42704 for a name that no window has.

    >>> query = exp.maybe_parse("SELECT max(b) OVER w FROM t WINDOW w AS (PARTITION BY a)", into=exp.Select)
    >>> write_out_windows(query)
    >>> query.sql()
    'SELECT MAX(b) OVER (PARTITION BY a) FROM t'
    >>> name_windows(query)
    >>> query.sql()
    'SELECT MAX(b) OVER w FROM t WINDOW w AS (PARTITION BY a)'
    """
    named: dict[str, exp.Window] = {}
    query.meta[NAMED] = [window.copy() for window in query.args["windows"]]
    for window in query.args["windows"]:
        _complete(window, named)
        named[folded(window.this)] = window
    query.set("windows", None)
    for window in walk(query, exp.Window):
        if window.find_ancestor(exp.Select) is query:
            _complete(window, named)


def name_windows(tree: exp.Expr, *, enclosed: bool = False) -> None:
    """Gives all windows of a tree the names that they were written with; `enclosed`: as OVER (w), which the parser does
    not tell from OVER w."""
    for node in walk(tree, exp.Select, exp.Window):
        written = (node._meta or {}).get(NAMED)
        if written is None:
            continue
        if isinstance(node, exp.Select):
            node.set("windows", [window.copy() for window in written])
            continue
        name, own = written
        node.set("alias", exp.var(f"({name.sql('postgres')})") if enclosed and not own else name.copy())
        for part in {*PARTS} - own:
            node.set(part, None)


def _complete(window: exp.Window, named: Mapping[str, exp.Window]) -> None:
    name = window.args.get("alias")
    if name is None:
        return
    if folded(name) not in named:
        raise Refusal("42704", f'window "{folded(name)}" does not exist', position=position(name))
    window.meta[NAMED] = name, {part for part in PARTS if window.args.get(part)}
    window.set("alias", None)
    for part in PARTS:
        given = named[folded(name)].args.get(part)
        if not given or window.args.get(part):
            continue
        parts = given if isinstance(given, list) else [given]
        # Many windows may name a long one.
        spend(sum(len(walk(one)) for one in parts))
        copies = [one.copy() for one in parts]
        window.set(part, copies if isinstance(given, list) else copies[0])
