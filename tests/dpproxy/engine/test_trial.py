"""What is computed from an answer fails before it is bought, or is NULL; what the answer alone decides is said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dpproxy.deployment.service import Service, configured
from dpproxy.server.local_client import ClientError
from tests.dpproxy.engine.test_row_filters import Analyst
from tests.dpproxy.serving import POLICY, make

pytestmark = pytest.mark.service


@pytest.fixture(scope="module")
def ann(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Analyst]:
    folder: Path = tmp_path_factory.mktemp("trial")
    with Service.start(configured(make(folder, POLICY)), alone=True) as running:
        yield Analyst(running)


def used(ann: Analyst) -> list[tuple[str | None, ...]]:
    return ann.ask("SELECT unit, used FROM dpproxy.budget ORDER BY unit").rows


TOWNS = "(SELECT town, COUNT(*) AS n FROM people GROUP BY town) AS t"


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT COUNT(*) / 0 FROM people", "22012"),
        ("SELECT town, COUNT(*) % (1 - 1) FROM people GROUP BY town", "22012"),
        (f"SELECT AVG(n * 1e200::float8 * 1e200::float8) FROM {TOWNS}", "22003"),
        ("SELECT (COUNT(*) * 1000000)::smallint / 7 FROM people", "22003"),
        ("SELECT COUNT(*) FROM people HAVING COUNT(*) / 0 > 1", "22012"),
        (f"SELECT sqrt(-abs(n) - 1) FROM {TOWNS}", "2201F"),
        ("SELECT (COUNT(*) || 'x')::int FROM people", "22P02"),
        (f"SELECT (SELECT n FROM {TOWNS})", "21000"),
        ("SELECT COUNT(*) FROM people WHERE person_id > (SELECT COUNT(*) / 0 FROM people)", "22012"),
        (f"SELECT COUNT(*) FROM people WHERE person_id > (SELECT n FROM {TOWNS})", "21000"),
    ],
)
def test_what_fails_whatever_the_answer_is_costs_nothing(ann: Analyst, sql: str, code: str) -> None:
    before = used(ann)
    with pytest.raises(ClientError) as caught:
        ann.ask(sql)
    assert caught.value.code == code
    assert caught.value.detail == (
        "What is computed from the answer fails whatever the answer is. Nothing was charged."
    )
    assert used(ann) == before


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) / (COUNT(*) - COUNT(*)) FROM people",
        "SELECT COUNT(*) % (COUNT(*) - COUNT(*)), mod(7, COUNT(*) - COUNT(*)) FROM people",
        f"SELECT SUM(n) / SUM(n - n) FROM {TOWNS}",
        f"SELECT 1.5 / (SELECT SUM(n - n) FROM {TOWNS})",
        f"SELECT 1 / n FROM (SELECT n - n AS n FROM {TOWNS}) AS u",
    ],
)
def test_what_is_divided_by_a_released_zero_is_null(ann: Analyst, sql: str) -> None:
    rows = ann.ask(sql).rows
    assert rows
    assert {value for row in rows for value in row} == {None}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT acos(COUNT(*) / 1e9) FROM people",
        "SELECT ln(COUNT(*)), sqrt(COUNT(*)), chr(65 + (COUNT(*) % 26)::int) FROM people",
        "SELECT 100000 / (COUNT(*) - 1) FROM people",
        "SELECT town, ln(-SUM(-n)) FROM (SELECT town, COUNT(*) AS n FROM people GROUP BY town) AS t GROUP BY town",
        f"SELECT (SELECT n FROM {TOWNS} ORDER BY n LIMIT 1) + 1",
        "SELECT to_char(COUNT(*), '999999'), random() > COUNT(*) FROM people",
    ],
)
def test_what_can_be_computed_is_answered(ann: Analyst, sql: str) -> None:
    assert all(value is not None for row in ann.ask(sql).rows for value in row)


def test_what_only_the_answer_decides_is_said_to_be_free_in_another_form(ann: Analyst) -> None:
    with pytest.raises(ClientError) as caught:
        ann.ask("SELECT COUNT(*), (COUNT(*) * 400)::smallint FROM people WHERE person_id > 1")
    assert (caught.value.code, caught.value.message) == ("22003", "smallint out of range")
    assert caught.value.detail == (
        "You have paid for the answer that this is computed from: without the computation it is free."
    )
    assert "NULLIF" in str(caught.value.hint)
    before = used(ann)
    assert ann.ask("SELECT COUNT(*) FROM people WHERE person_id > 1").rows
    assert used(ann) == before
