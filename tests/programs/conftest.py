"""What is not collected: the programs' actions, which import what only their own environments have."""

from __future__ import annotations

from pathlib import Path

OURS = {"__main__.py", "actions.py", "conftest.py", "register.py", "table.py"}
collect_ignore = [
    file.name
    for file in Path(__file__).parent.glob("*.py")
    if file.name not in OURS and not file.name.startswith("test_")
]
