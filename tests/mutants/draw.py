"""Draws the mutants of a tool: by_tool.toml, made once, before any test was run on them.

Usage, in an environment with cosmic-ray 8.4.4: python -m tests.mutants.draw > tests/mutants/by_tool.toml

The rule: of all mutants that cosmic-ray makes of each file of FILES, by all its operators and in its order, one is
drawn by `random.Random(SEED)`, file after file. One that does not parse, or that changes nothing but annotations and
docstrings, is drawn again.
"""

from __future__ import annotations

import ast
import difflib
import json
import random
from collections.abc import Iterator
from pathlib import Path

SEED, COMMIT = 28, "6d98439b"
FILES = (
    "rewriter/binder/contribution_bounds.py",
    "rewriter/binder/joins.py",
    "rewriter/binder/value_ranges.py",
    "rewriter/emit/clipped_totals.py",
    "rewriter/emit/enforcement.py",
    "rewriter/emit/histogram.py",
    "rewriter/emit/measures.py",
    "mechanisms/exact.py",
    "mechanisms/known_domain.py",
    "mechanisms/noise.py",
    "mechanisms/numeric.py",
    "mechanisms/tails.py",
    "mechanisms/unit_clip.py",
    "mechanisms/unknown_domain.py",
    "budget/account.py",
    "budget/accounting.py",
    "budget/highwater.py",
    "dpproxy/engine/purchase.py",
    "dpproxy/engine/rollback_guard.py",
    "dpproxy/server/impersonation.py",
)


def mutants(source: str) -> Iterator[tuple[str, int]]:
    """All mutants of a file: an operator's name, and which of its places."""
    from cosmic_ray import plugins
    from cosmic_ray.ast import ast_nodes, get_ast

    tree = get_ast(source)
    for name in plugins.operator_names():
        kind = plugins.get_operator(name)
        if not kind.arguments():
            places = sum(1 for node in ast_nodes(tree) for _ in kind().mutation_positions(node))
            yield from ((name, place) for place in range(places))


def mutated(source: str, name: str, place: int) -> str:
    """The file with one mutant."""
    from cosmic_ray import plugins
    from cosmic_ray.mutating import mutate_code

    found: str | None = mutate_code(source, plugins.get_operator(name)(), place)
    assert found is not None
    return found


def executed(source: str) -> str | None:
    """What Python runs of a file, its tree without annotations and docstrings; None for what does not parse."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        for part in ("annotation", "returns"):
            if getattr(node, part, None) is not None:
                setattr(node, part, None if part == "returns" else ast.Constant(0))
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [  # type: ignore[attr-defined]
                n for n in body if not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))
            ]
    return ast.dump(tree)


def edit(source: str, mutant: str) -> tuple[str, str]:
    """The old and the new text of a mutant: the lines that differ, and as many around as make the old one unique."""
    before, after = source.splitlines(), mutant.splitlines()
    matcher = difflib.SequenceMatcher(None, before, after, False)
    changes = [spans for kind, *spans in matcher.get_opcodes() if kind != "equal"]
    start, new_start = changes[0][0], changes[0][2]
    end, new_end = changes[-1][1], changes[-1][3]
    around = 0
    while True:
        old = "\n".join(before[max(0, start - around) : end + around])
        if source.count(old) == 1:
            return old, "\n".join(after[max(0, new_start - around) : new_end + around])
        around += 1


def main() -> None:
    """Writes one mutant of each file."""
    drawn = random.Random(SEED)
    print(
        "# Drawn by tests/mutants/draw.py, whose docstring says by which rule, before any test was run on them."
    )
    print(f"# The code was that of commit {COMMIT}.")
    for file in FILES:
        source = Path(file).read_text()
        made = list(mutants(source))
        text = source
        while executed(text) in (None, executed(source)):
            name, place = drawn.choice(made)
            text = mutated(source, name, place)
        old, new = edit(source, text)
        print(f"\n# One of {len(made)}.\n[[mutant]]\nname = {json.dumps(f'{name} {place} of {file}')}")
        print(
            f"[[mutant.edits]]\nfile = {json.dumps(file)}\nold = {json.dumps(old)}\nnew = {json.dumps(new)}"
        )


if __name__ == "__main__":
    main()
