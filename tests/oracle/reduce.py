"""Makes a statement smaller while something remains true of it: delta debugging on the tree.

Each step drops a clause or an item of a list, or puts a part in the place of the whole: a subquery, an operand. What a
step makes may be nonsense: the predicate has to say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

MOST_TRIES = 150


def reduced(sql: str, holds: Callable[[str], bool], tries: int = MOST_TRIES) -> str:
    """The smallest statement that was found for which `holds`, after at most so many tries; `sql` if there is none.

    >>> sql = "SELECT COUNT(*) FROM w JOIN u ON w.a = u.a WHERE w.b IN (1, 2, 3) OR NOT w.a > 2 GROUP BY w.b LIMIT 3"
    >>> reduced(sql, lambda text: text.startswith("SELECT COUNT(*) FROM w") and "NOT w.a > 2" in text)
    'SELECT COUNT(*) FROM w WHERE NOT w.a > 2'
    """
    seen = {sql}
    smaller = True
    while smaller:
        smaller = False
        for text in _steps(sql):
            if text in seen or len(text) >= len(sql):
                continue
            if len(seen) > tries:
                return sql
            seen.add(text)
            if holds(text):
                sql, smaller = text, True
                break
    return sql


def _steps(sql: str) -> Iterator[str]:
    """The statement with one thing less, large things first."""
    try:
        tree = parse_one(sql, read="postgres")
    except SqlglotError:
        return
    for node in [*tree.bfs()]:
        for name, value in [*node.args.items()]:
            for less in _less(value):
                node.set(name, less)
                yield from _written(tree)
                node.set(name, value)
        for part in _parts(node):
            if node is tree:
                yield from _written(part)
                continue
            other = part.copy()
            node.replace(other)
            yield from _written(tree)
            other.replace(node)


def _less(value: object) -> Iterator[object]:
    """What an argument of a node may become: nothing, or a list without one of its items."""
    if isinstance(value, list):
        yield from (value[:n] + value[n + 1 :] for n in range(len(value)))
    elif isinstance(value, exp.Expr) or value is True:
        yield None


def _parts(node: exp.Expr) -> Iterator[exp.Expr]:
    """What may stand in a node's place: a query in a query or a FROM item, an operand for what is computed from it."""
    if isinstance(node, (exp.Query, exp.Table)):
        yield from (part for part in node.find_all(exp.Query, exp.Table) if part is not node)
    elif isinstance(node, exp.Condition) and not isinstance(node, (exp.Column, exp.Literal)):
        yield from (part for part in node.iter_expressions() if isinstance(part, exp.Condition))


def _written(tree: exp.Expr) -> list[str]:
    """The tree's text, if it has one: what a step has left out may be needed."""
    try:
        return [tree.sql("postgres")]
    except Exception:
        return []
