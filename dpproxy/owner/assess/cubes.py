"""Cubes that would save units: groupings that are bought first, or published, and imply much of a log.

What each saves is counted by asking the log of a deployment that is thrown away, with the cube bought before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from budget.account import Charge
from dpproxy.deployment.service import Service
from dpproxy.owner.assess.listed import Listed
from dpproxy.owner.assess.spending import paid
from rewriter.statements.cubes import Chart, candidates, chart

MOST_CANDIDATES = 4
"""Cubes of one relation that are tried."""


@dataclass(frozen=True)
class Cube:
    """A cube, and what the statements over its tables cost one analyst with `dpproxy.reuse = always`.

    Attributes:
        sql: the query.
        price: of the cube.
        statements: how many are over its tables.
        before: what they cost, with the cubes that are listed before.
        after: what they cost with this one as well, its price included.
    """

    sql: str
    price: Charge
    statements: int
    before: Charge
    after: Charge


def cubes(
    service: Service, statements: Sequence[Listed], watched: Callable[[Sequence[Listed]], Iterable[Listed]]
) -> Iterator[Cube]:
    """The cubes that save units, of each relation first what could answer most.

    `service`: a deployment for this; `watched`: passes the statements on as they are asked.
    """
    relations: dict[str, list[tuple[Listed, Chart]]] = {}
    for one in statements:
        if (found := chart(one.text)) is not None:
            relations.setdefault(found.relation, []).append((one, found))
    names = (f"cubes {number}" for number in count())

    def asked(these: Sequence[Listed]) -> list[Charge]:
        """What each costs somebody who has bought nothing before."""
        who = next(names)
        return [paid(service, one.text, who, "always") or Charge(0, 0) for one in watched(these)]

    for charts in relations.values():
        over = [one for one, _ in charts]
        kept: list[Listed] = []
        before = Charge.sum(asked(over))
        for cube in map(Listed, candidates([of for _, of in charts], MOST_CANDIDATES)):
            charged = asked([*kept, cube, *over])
            after = Charge.sum(charged)
            if after.information < before.information and after.calls <= before.calls:
                yield Cube(cube.text, charged[len(kept)], len(over), before, after)
                kept.append(cube)
                before = after
