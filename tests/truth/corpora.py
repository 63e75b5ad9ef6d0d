"""The corpora's statements by PostgreSQL and by the proxy without noise: `python -m tests.truth.corpora`."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from benchmarks.corpora.errors import (
    Rows,
    answered,
    asking,
    configuration,
    made,
    number,
    queries,
    true_rows,
)
from benchmarks.deployed import ENGINES
from tests.truth.compare import RELATIVE
from tests.truth.exact import make_exact

CORPORA = ("legit.yaml", "queries-by-others.yaml")
USERS, D_BAR = 20_000, 5000
VARIES = re.compile(r"\brandom\s*\(", re.IGNORECASE)
"""What is another number each time."""
COMPUTES = re.compile(r"\b(count|sum|avg|min|max|stddev\w*|var\w*|percentile_\w+)\s*\(", re.IGNORECASE)
Row = tuple[str | None, ...]
PRIVACY = """[privacy]
query_information = 500
usual_information = 500
query_calls = 50
usual_calls = 50
scans = "charge"
"""


def judged(sql: str, told: Rows | str, truth: Rows) -> str:
    """What came of a statement: answered with PostgreSQL's rows or others, refused, or nothing to compare."""
    if isinstance(told, str):
        return "refused"
    if not truth:
        return "no rows in truth"
    if " from " not in sql.lower() or VARIES.search(sql):
        return "of no table, or random"
    if not COMPUTES.search(sql):
        return "a list of values"
    left = list(told)
    missing = []
    for row in truth:
        alike = next((one for one in left if _alike(row, one)), None)
        if alike is None:
            missing.append(row)
        else:
            left.remove(alike)
    # What a known domain adds has 0 or nothing.
    left = [row for row in left if not any(cell is None or number(cell) == 0 for cell in row)]
    if " limit " in sql.lower():
        # Of equal groups any may be the last.
        return "equal" if _tied(missing, left) else "different"
    if missing and not left and len(truth) > D_BAR:
        return "the largest groups"
    return "different" if missing or left else "equal"


def _tied(missing: Rows, more: Rows) -> bool:
    """Whether as many rows are there in place of others, with the same numbers in some column."""
    if len(missing) != len(more):
        return False
    columns = zip(zip(*missing, strict=True), zip(*more, strict=True), strict=True)
    return not missing or any(map(_same_numbers, columns))


def _same_numbers(columns: tuple[Row, Row]) -> bool:
    one, other = (sorted(n for n in map(number, column) if n is not None) for column in columns)
    return bool(one) and len(one) == len(other) and all(map(_near, one, other))


def _alike(row: Row, told: Row) -> bool:
    pairs = list(zip(row, told, strict=False))
    return len(row) == len(told) and all(a == b or _near(number(a), number(b)) for a, b in pairs)


def _near(one: float | None, other: float | None) -> bool:
    return one is not None and other is not None and abs(one - other) <= RELATIVE * max(abs(one), 1)


def main() -> int:
    """Prints what came of the statements, by corpus and engine, and each that differs; 1 where one does."""
    make_exact()
    corpora = Path(os.environ["DPPROXY_SHARED"]) / "corpora"
    policy = (corpora / "dpproxy.toml").read_text()
    policy = policy.replace("[privacy]\n", PRIVACY, 1).replace("d_bar = 1000", f"d_bar = {D_BAR}")
    total: Counter[str] = Counter()
    with ExitStack() as stack:
        world = stack.enter_context(made(corpora, USERS))
        for name in CORPORA:
            listed = queries(corpora, name)
            truths = {e["id"]: true_rows(world.server, world.database, e["sql"]) for e in listed}
            for engine, url in zip(ENGINES, world.urls, strict=True):
                counted: Counter[str] = Counter()
                with asking(configuration(world.folder / engine, url, policy)) as ask:
                    for entry in listed:
                        told, truth = answered(ask, entry["sql"]), truths[entry["id"]]
                        counted[outcome := judged(entry["sql"], told, truth)] += 1
                        if outcome == "different":
                            shown = f"\n    truth {truth[:8]}\n    told  {told[:8]}"
                            print(f"{outcome}: {entry['id']} {entry['sql']}{shown}"[:1500], flush=True)
                print(f"{name} on {engine}: ", dict(sorted(counted.items())), flush=True)
                total += counted
    return int(bool(total["different"]))


if __name__ == "__main__":
    sys.exit(main())
