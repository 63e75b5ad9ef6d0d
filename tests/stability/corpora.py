"""The statements of the query corpora that the rewriter accepts."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import yaml

from rewriter.refusal import Refusal
from tests.stability.question import Question, questions
from tests.stability.world import World

FILES = ("legit.yaml", "queries-by-others.yaml", "attacks.yaml")


def entries(path: Path) -> list[dict[str, Any]]:
    """The entries of a corpus that hold a statement."""
    return [e for e in yaml.safe_load(path.read_text()) if e.get("sql")]


def accepted(world: World, corpora: Path) -> Iterator[Question]:
    """The DP nodes of every statement of the three corpora that is not refused; the first of those that ask alike."""
    asked = set[Hashable]()
    for file in FILES:
        for entry in entries(corpora / file):
            try:
                found = questions(entry["sql"], world.policy, world.postgres)
            except (Refusal, psycopg.errors.DataError):
                continue
            for question in found:
                if question.asked not in asked:
                    asked.add(question.asked)
                    yield question
