"""`python -m tests.oracle.operators`: plans generated statements and writes which operators were reached in which.

operators.txt has for each operator those that stood in it: accepted of all statements, or the codes of a pair that was
refused each time. seeds.sql has few statements that have all accepted pairs between them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psycopg

from rewriter.refusal import Refusal
from tests.oracle.ask import TooLarge, planned
from tests.oracle.explore import Explorer, Reached
from tests.oracle.pairs import STATEMENT, Pair, pairs
from tests.oracle.run import server_of_its_own, world_of

WORLD = "plain-duckdb-0"
"""A data set whose policy hides little."""
SECONDS = 600.0
TABLE, SEEDS = (Path(__file__).with_name(name) for name in ("operators.txt", "seeds.sql"))


def explored(seconds: float, seed: str) -> Explorer:
    """Plans statements for so long."""
    explorer, deadline = Explorer(seed), time.monotonic() + seconds
    with server_of_its_own() as (server, folder), world_of(WORLD, server, folder) as world:
        while time.monotonic() < deadline:
            sql, tree = explorer.statement(world.columns)
            refusal = ""
            with explorer.watched():
                try:
                    planned(sql, world)
                except Refusal as refused:
                    refusal = refused.code
                except TooLarge:
                    refusal = "54000"
                except psycopg.Error as error:
                    refusal = str(error.sqlstate)
            explorer.learn(sql, tree, refusal)
    return explorer


def table(reached: Mapping[Pair, Reached]) -> str:
    """Which operators were in which: accepted of all statements, or the codes of a pair that is always refused.

    >>> from collections import Counter
    >>> print(table({("cte", "case"): Reached(3, 2), ("cte", "rank"): Reached(1, 0, Counter(["PV020"]))}), end="")
    cte: case 2/3; rank 0/1 PV020
    """
    lines = []
    for outer in sorted({outer for outer, _ in reached}, key=lambda name: (name != STATEMENT, name)):
        inner = sorted((name, found) for (of, name), found in reached.items() if of == outer)
        shown = (
            f"{name} {found.accepted}/{found.statements}"
            + ("" if found.accepted else f" {' '.join(sorted(found.refused))}")
            for name, found in inner
        )
        lines.append(f"{outer}: {'; '.join(shown)}\n")
    return "".join(lines)


def listed(text: str) -> dict[Pair, tuple[int, list[str]]]:
    """The pairs of a table: how often each was accepted, and the codes of those that never were.

    >>> listed("cte: case 2/3; row number 0/1 PV020")
    {('cte', 'case'): (2, []), ('cte', 'row number'): (0, ['PV020'])}
    """
    found: dict[Pair, tuple[int, list[str]]] = {}
    for line in text.splitlines():
        outer, _, rest = line.partition(": ")
        for entry in rest.split("; "):
            before, _, after = entry.partition("/")
            name, _, accepted = before.rpartition(" ")
            found[outer, name] = int(accepted), after.split()[1:]
    return found


def fewest(examples: Mapping[Pair, str]) -> Sequence[str]:
    """Statements that have all the pairs, few of them: the one with most pairs that are missing comes next."""
    missing, chosen = set(examples), list[str]()
    of = {sql: pairs(sql) for sql in sorted(set(examples.values()))}
    while missing:
        chosen.append(max(of, key=lambda sql: len(of[sql] & missing)))
        missing -= of[chosen[-1]]
    return chosen


def main(arguments: Sequence[str]) -> None:
    """Explores, and writes both files."""
    explorer = explored(float(arguments[0]) if arguments else SECONDS, "operators")
    TABLE.write_text(table(explorer.reached))
    seeds = fewest(explorer.examples)
    SEEDS.write_text("".join(f"{sql}\n" for sql in seeds))
    statements = sum(found.statements for (outer, _), found in explorer.reached.items() if outer == STATEMENT)
    accepted = sum(found.accepted > 0 for found in explorer.reached.values())
    print(
        f"{statements:,} statements, {len(explorer.branches.seen):,} branches of the rewriter, {len(seeds)} seeds"
    )
    print(f"{len(explorer.reached):,} pairs of operators, {accepted:,} accepted")


if __name__ == "__main__":
    main(sys.argv[1:])
