"""`dpproxy explain` in words: the sentence of the policy, the mechanism, the price, the error, and what costs less."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dpproxy.cli.app import app
from dpproxy.config.sections import load
from dpproxy.deployment.service import Service
from dpproxy.owner.explain_policy import in_words
from rewriter.refusal import Refusal
from tests.dpproxy.serving import POLICY, make

pytestmark = pytest.mark.service

VISITS = "SELECT {0}, COUNT(DISTINCT person_id) FROM visits GROUP BY 1"
TOP = VISITS + " ORDER BY 2 DESC LIMIT 7"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    file: Path = make(tmp_path_factory.mktemp("words"), POLICY)
    with Service.start(load(file), alone=False) as running:
        yield running
        told = CliRunner().invoke(app, ["explain", "-c", str(file), "--json", VISITS.format("room")])
        assert json.loads(told.stdout)["words"] == in_words(running, VISITS.format("room"))


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (
            "SELECT town, COUNT(*) FROM people GROUP BY town",
            [
                "[tables.people.columns] town has a domain of 3 values",
                "One person_id is in 1 of them",
                "KnownGauss",
            ],
        ),
        (
            VISITS.format("room"),
            ['max_groups_per_unit says "room" = 2', "UnkGauss", "1 information unit and 1 call"],
        ),
        (
            TOP.format("seconds"),
            ["neither domain nor range", "unrestricted", "UnkGumb", "a smaller LIMIT", ", here 7"],
        ),
        (VISITS.format("seconds"), ["as many as its allowance pays for", "ORDER BY the count DESC LIMIT 10"]),
        (
            "SELECT COUNT(*) FROM visits",
            ["one group, all rows", "found privately", "UnitClip", "times the length"],
        ),
        ("SELECT DISTINCT seconds FROM visits", ["no number"]),
        ("SELECT DISTINCT town FROM people", ["nothing private is read"]),
        (
            "SELECT room, COUNT(DISTINCT person_id) FROM visits JOIN rooms USING (room) GROUP BY 1",
            ["room is bound to public values", "there are 4 groups"],
        ),
    ],
)
def test_each_class_has_its_sentences(service: Service, query: str, said: list[str]) -> None:
    told = "\n".join(in_words(service, query))
    for part in said:
        assert part in told


def test_errors_are_in_the_units_of_the_answer(tmp_path: Path) -> None:
    """Sums of up to 60.5 in tenths: 5 rows of a unit, one group."""
    file = make(tmp_path, POLICY + '[privacy]\nmechanisms = "paper"\n')
    with Service.start(load(file), alone=True) as service:
        told = "\n".join(in_words(service, "SELECT SUM(seconds), COUNT(*) FROM visits"))
    (of_sums,) = re.findall(r"95% of the sums lie within ([\d,.]+) of", told)
    (of_counts,) = re.findall(r"95% of the counts lie within ([\d,.]+) of", told)
    assert math.isclose(float(of_sums.replace(",", "")), 1.96 * 2 * 5 * 60.5 / 0.15, rel_tol=0.01)
    assert math.isclose(float(of_counts), 1.96 * 2 * 5 / 0.15, rel_tol=0.01)


def test_the_error_is_the_one_that_the_answer_tells(service: Service) -> None:
    """Of a top k: counts with the noise of a single one, of which a part is the same on all."""
    told = "\n".join(in_words(service, TOP.format("seconds")))
    (within,) = re.findall(r"95% of the counts lie within ([\d,.]+) of", told)
    assert math.isclose(float(within), 1.96 * 2 / 0.15, rel_tol=0.01)


def test_what_reads_nothing_private_needs_no_words(service: Service) -> None:
    assert in_words(service, "SELECT floor, COUNT(*) FROM rooms GROUP BY 1") == []
    with pytest.raises(Refusal):
        in_words(service, "SELECT * FROM people")
