"""Every mechanism over units that two columns name, end to end on both backends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rewriter.refusal import Refusal
from tests.dpproxy.engine.test_executor import Analyst
from tests.dpproxy.on_both import ENGINES, service_on

pytestmark = pytest.mark.service

SCHEMA = (
    "CREATE TABLE patients (hospital VARCHAR(9), patient_no INTEGER, ward VARCHAR(2), "
    "PRIMARY KEY (hospital, patient_no))",
    "CREATE TABLE visits (hospital VARCHAR(9), patient_no BIGINT, seen TIMESTAMP, minutes INTEGER, page VARCHAR(9))",
    # A number is one person in each hospital: 300 numbers, 600 persons.
    "INSERT INTO patients SELECT 'h' || i % 2, i / 2, 'A' FROM generate_series(0, 599) AS r(i)",
    "INSERT INTO visits SELECT 'h' || i % 2, (i / 2) % 300, TIMESTAMP '2024-01-01 00:00:00' + "
    "(i % 10) * INTERVAL '1 day', i % 100, 'page' || i % 3 FROM generate_series(0, 1199) AS r(i)",
)
POLICY = """
[backend]
url = "{}"
[privacy]
epsilon_per = 8
delta_per = 1e-6
query_information = 8
[budget]
mode = "track"
[tables.patients]
privacy_unit = ["hospital", "patient_no"]
[tables.patients.columns]
ward = {{ domain = ["A", "B"], nullable = false }}
[tables.visits]
privacy_unit_path = ["(hospital, patient_no) -> patients (hospital, patient_no)"]
max_rows_per_unit = 10
[tables.visits.columns]
seen = {{ range = ["2024-01-01", "2024-01-31"] }}
minutes = {{ bounds = [0, 99] }}
page = {{}}
"""


@pytest.fixture(scope="module", params=ENGINES)
def ann(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Analyst]:
    folder: Path = tmp_path_factory.mktemp(f"composite_{request.param}")
    with service_on(request.param, folder, SCHEMA, POLICY) as running:
        yield Analyst(running, "ann")


@pytest.mark.parametrize(
    ("sql", "truth"),
    [
        ("SELECT COUNT(DISTINCT (hospital, patient_no)) FROM visits", 600),
        ("SELECT COUNT(*) FROM visits", 1200),
        ("SELECT SUM(minutes) / 100 FROM visits", 594),
        ("SELECT 10 * AVG(minutes) FROM visits", 495),
        ("SELECT 10 * PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY minutes) FROM visits", 495),
        ("SELECT COUNT(DISTINCT minutes) FROM visits", 100),
        ("SELECT COUNT(*) FROM (SELECT DISTINCT page FROM visits) t", 3),
        (
            "SELECT SUM(n) FROM (SELECT page, COUNT(*) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 3) t",
            1200,
        ),
        (
            "SELECT n FROM (SELECT seen::date AS d, COUNT(*) AS n FROM visits GROUP BY 1) t WHERE d = '2024-01-02'",
            120,
        ),
        (
            "SELECT n FROM (SELECT seen::date AS d, SUM(COUNT(*)) OVER (ORDER BY seen::date) AS n FROM visits "
            "GROUP BY 1) t WHERE d = '2024-01-02'",
            240,
        ),
        ("SELECT COUNT(*) FROM patients JOIN visits USING (hospital, patient_no) WHERE ward = 'A'", 1200),
        (
            "SELECT COUNT(*) FROM patients WHERE (hospital, patient_no) IN (SELECT hospital, patient_no FROM visits)",
            600,
        ),
        (
            "SELECT SUM(k) FROM (SELECT n, COUNT(*) AS k FROM (SELECT hospital, patient_no, COUNT(*) AS n FROM visits "
            "GROUP BY hospital, patient_no) t WHERE n < 9 GROUP BY n) s",
            600,
        ),
    ],
)
def test_each_mechanism(ann: Analyst, sql: str, truth: int) -> None:
    ((number,),) = ann.ask(sql)
    # The noise of an estimate from below is that of the length that was chosen.
    (deviation,) = re.findall(r"count standard deviation ([\d.]+); an estimate", ann.notices[0]) or [0]
    assert abs(float(number) - truth) < 40 + 6 * float(deviation)


def test_a_part_is_a_column(ann: Analyst) -> None:
    rows = ann.ask("SELECT hospital, COUNT(*) FROM visits GROUP BY hospital ORDER BY 2 DESC LIMIT 5")
    assert {name for name, _ in rows} == {"h0", "h1"}


def test_hints_name_all_parts(ann: Analyst) -> None:
    with pytest.raises(Refusal) as refused:
        ann.ask("SELECT COUNT(*) FROM patients p JOIN visits v ON p.hospital = v.hospital")
    assert "Add `p.hospital = v.hospital AND p.patient_no = v.patient_no` to WHERE" in str(refused.value.hint)
    with pytest.raises(Refusal) as refused:
        ann.ask("SELECT * FROM visits")
    assert "COUNT(DISTINCT (hospital, patient_no))" in str(refused.value.hint)
