"""Asks statements for as long as it is told, and makes what differs as small as it gets."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from random import Random

from tests.truth.compare import Finding, Judge
from tests.truth.generator import Generator, Statement
from tests.truth.world import World

AGAIN = 0.2
"""How often a statement of before is asked again."""
TRIES = 60


def run(world: World, seed: str, seconds: float, most: int = 10**9) -> tuple[Counter[str], list[Finding]]:
    """What came of the statements, and the findings, each as small as it gets."""
    rng, judge = Random(seed), Judge(world)
    generator = Generator(rng, dict(world.views), enums=world.enums)
    findings: list[Finding] = []
    asked: list[Statement] = []
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and len(asked) < most:
        again = asked and rng.random() < AGAIN
        statement = rng.choice(asked) if again else generator.statement()
        asked.append(statement)
        judge.counted["statements"] += 1
        found = judge.difference(statement, "ann")
        if found is None:
            continue
        alone = judge.difference(statement, judge.fresh())
        if alone is None:
            findings.append(replace(found, kind=f"{found.kind}, after other statements"))
        else:
            findings.append(reduced(judge, alone))
        print(findings[-1], flush=True)
    judge.counted["findings"] = len(findings)
    judge.close()
    return judge.counted, findings


def reduced(judge: Judge, finding: Finding) -> Finding:
    """The smallest statement that is found with the same kind of difference."""
    counted = Counter(judge.counted)
    tries = 0
    smaller = True
    while smaller and tries < TRIES:
        smaller = False
        for statement in finding.statement.smaller():
            tries += 1
            again = judge.difference(statement, judge.fresh())
            if again is not None and again.kind == finding.kind:
                finding, smaller = again, True
                break
    judge.counted.clear()
    judge.counted.update(counted)
    return finding
