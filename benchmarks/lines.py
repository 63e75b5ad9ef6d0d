"""How much code each room has: `make lines`, or `python -m benchmarks.lines FOLDER...` to compare checkouts.

Lines can be had by writing them longer or shorter. So what counts is logical statements, as the parser sees them,
without docstrings, and rows: the elements of tuples, lists, sets and dictionaries that a module or a class holds.
What grew, and why: docs/decisions/the-rewriter-grew.md.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path

PACKAGES = ("rewriter", "dpproxy", "mechanisms", "budget")


def counted(text: str) -> int:
    """The logical statements and rows of a module's text.

    >>> counted('''"A docstring."
    ... A = ("row", "row")
    ... def f(x):
    ...     "Another."
    ...     return x; pass
    ... ''')
    6
    """
    tree = ast.parse(text)
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and not _is_text(node)]
    rows = 0
    for holder in ast.walk(tree):
        if isinstance(holder, (ast.Module, ast.ClassDef)):
            values = [node.value for node in holder.body if isinstance(node, (ast.Assign, ast.AnnAssign))]
            rows += sum(_rows(value) for value in values if value is not None)
    return len(statements) + rows


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _rows(value: ast.expr) -> int:
    if isinstance(value, ast.Call):
        return sum(map(_rows, value.args))
    if isinstance(value, ast.Dict):
        return len(value.keys)
    return len(value.elts) if isinstance(value, (ast.Tuple, ast.List, ast.Set)) else 0


def rooms(root: Path) -> Counter[str]:
    """The statements and rows of every room, a folder of a package or the package's own files."""
    found = Counter[str]()
    for package in PACKAGES:
        for file in (root / package).rglob("*.py"):
            inner = file.relative_to(root).parts
            found["/".join(inner[: 2 if len(inner) > 2 else 1])] += counted(file.read_text())
    return found


def main() -> None:
    """Prints a table of rooms, a column for each checkout."""
    roots = [Path(name) for name in sys.argv[1:] or ["."]]
    columns = [rooms(root) for root in roots]
    names = sorted(set().union(*columns))
    print("| room |" + "".join(f" {root} |" for root in roots) + "\n|---|" + "--:|" * len(roots))
    for name in names:
        print(f"| {name} |" + "".join(f" {column[name]:,} |" for column in columns))
    print("| all |" + "".join(f" {column.total():,} |" for column in columns))


if __name__ == "__main__":
    main()
