"""Pages in parts, each written by a run of its own: docs/benchmarks.md and docs/coverage.md."""

from __future__ import annotations

import re

_MARKER = re.compile(r"^<!-- (\w+) -->$", re.M)


def rewritten(old: str, part: str, text: str) -> str:
    """The page with one of its parts written anew; the others stay as they are.

    `part`: the first one's name is "", the others' stand in a comment before them; a new one comes last.

    >>> print(rewritten(rewritten("", "peers", "new peers"), "", "new figures"))
    new figures
    <BLANKLINE>
    <!-- peers -->
    <BLANKLINE>
    new peers
    <BLANKLINE>
    """
    first, *others = _MARKER.split(old)
    parts = {"": first, **dict(zip(others[::2], others[1::2], strict=True)), part: text}
    lines = [line for name, body in parts.items() for line in (name and f"<!-- {name} -->", body.strip())]
    return "\n\n".join(line for line in lines if line) + "\n"
