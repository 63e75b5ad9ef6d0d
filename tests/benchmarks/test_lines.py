"""Lines by room: statements and rows, whatever their layout."""

from __future__ import annotations

from pathlib import Path

from benchmarks.lines import counted, rooms


def test_layout_and_docstrings_count_for_nothing() -> None:
    short = "A = f(1)\n"
    assert counted('"""Text."""\n\n# why\nA = f(\n    1,\n)\n') == counted(short) == 1


def test_a_row_counts_as_much_as_a_statement() -> None:
    assert counted("A = (F(1), F(2))") == 3
    assert counted("A = {1: 2}\nB: C = frozenset({1, 2})") == 5
    assert counted("def f():\n    return (1, 2)") == 2, "no table, but a value"


def test_rooms_are_folders_of_packages(tmp_path: Path) -> None:
    for name in ("rewriter/a.py", "rewriter/emit/b.py", "rewriter/emit/engines/c.py", "tests/d.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    assert rooms(tmp_path) == {"rewriter": 1, "rewriter/emit": 2}
