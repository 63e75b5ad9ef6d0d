"""The tables of docs/sql.md, generated from the grammar and the refusals: `python -m dpproxy.cli.sql_reference`.

Only the parts between the page's marks are replaced.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from rewriter.refusal import CATALOGUE
from rewriter.scalar import aggregates
from rewriter.scalar.functions import fields, truncations, words

_MARKED = re.compile(r"(<!-- made: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def page(text: str) -> str:
    """The page with its made parts as they are now.

    >>> page("<!-- made: truncations -->\\nold<!-- end -->").splitlines()[1]
    '`second`, `minute`, `hour`, `day`, `week`, `month`, `quarter`, `year`'
    """
    made = {
        "functions": _code(words()),
        "known_fields": _code(fields()[0]),
        "other_fields": _code(fields()[1]),
        "truncations": _code(truncations()),
        "aggregates": _code(aggregates.words(windowed=False)),
        "windows": _code(aggregates.words(windowed=True)),
        "refusals": _refusals(),
    }
    return _MARKED.sub(lambda m: f"{m[1]}{made[m[2]]}\n{m[3]}", text)


def _code(listed: list[str] | tuple[str, ...]) -> str:
    return ", ".join(f"`` {w} ``" if "`" in w else f"`{w}`" for w in listed)


def _refusals() -> str:
    rows = [f"| {code} | {m.meaning} | {m.instead} |" for code, m in CATALOGUE.items()]
    return "\n".join(["| SQLSTATE | what it means | what to write instead |", "|---|---|---|", *rows])


def main(path: Path) -> None:
    """Updates the page."""
    path.write_text(page(path.read_text()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
