"""Patients and doctors in one configuration: each is protected in their own tables, and one account pays for both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dpproxy.catalog.build_policy import unit_name, unit_words
from dpproxy.deployment.service import Service
from dpproxy.owner.check_warnings import warnings
from dpproxy.owner.explain_policy import in_words
from rewriter.refusal import Refusal
from tests.dpproxy.engine.test_executor import Analyst
from tests.dpproxy.on_both import ENGINES, service_on

pytestmark = pytest.mark.service

SCHEMA = (
    "CREATE TABLE patients (id BIGINT PRIMARY KEY, ward VARCHAR(2))",
    "CREATE TABLE doctors (id BIGINT PRIMARY KEY, ward VARCHAR(2), salary INTEGER)",
    "CREATE TABLE visits (visit_id BIGINT PRIMARY KEY, patient_id BIGINT REFERENCES patients (id), "
    "seen_by BIGINT REFERENCES doctors (id), minutes INTEGER)",
    "CREATE TABLE shifts (doctor_id BIGINT REFERENCES doctors (id), hours INTEGER)",
    "INSERT INTO patients SELECT i, 'A' FROM generate_series(0, 599) AS r(i)",
    "INSERT INTO doctors SELECT i, 'A', 50 FROM generate_series(0, 399) AS r(i)",
    "INSERT INTO visits SELECT i, i % 600, i % 400, i % 100 FROM generate_series(0, 1199) AS r(i)",
    "INSERT INTO shifts SELECT i % 200, 8 FROM generate_series(0, 399) AS r(i)",
)
POLICY = """
[backend]
url = "{}"
[privacy]
epsilon_per = 8
query_information = 8
[budget]
information = 100
calls = 10
[tables.patients]
privacy_unit = "id"
[tables.patients.columns]
ward = {{ domain = ["A", "B"], nullable = false }}
[tables.visits]
privacy_unit_path = ["patient_id -> patients.id"]
[tables.visits.columns]
minutes = {{ bounds = [0, 99] }}
[tables.doctors]
privacy_unit = "id"
privacy_unit_kind = "doctor"
[tables.doctors.columns]
ward = {{ domain = ["A", "B"], nullable = false }}
salary = {{ bounds = [0, 100] }}
[tables.shifts]
privacy_unit_path = ["doctor_id -> doctors.id"]
"""


@pytest.fixture(scope="module", params=ENGINES)
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder: Path = tmp_path_factory.mktemp(f"kinds_{request.param}")
    with service_on(request.param, folder, SCHEMA, POLICY) as running:
        yield running


@pytest.mark.parametrize(
    ("sql", "truth"),
    [
        ("SELECT COUNT(*) FROM patients", 600),
        ("SELECT COUNT(*) FROM doctors", 400),
        ("SELECT COUNT(DISTINCT doctor_id) FROM shifts WHERE hours = 8", 200),
        ("SELECT COUNT(*) FROM doctors WHERE id IN (SELECT doctor_id FROM shifts)", 200),
        ("SELECT COUNT(*) FROM patients p JOIN visits v ON v.patient_id = p.id WHERE v.minutes < 50", 600),
        # A released number of the other kind is a number.
        ("SELECT COUNT(*) FROM patients WHERE id < (SELECT COUNT(*) FROM doctors WHERE ward = 'A')", 400),
        (
            "SELECT p.n + d.n FROM (SELECT ward, COUNT(*) AS n FROM patients GROUP BY ward) p JOIN "
            "(SELECT ward, COUNT(*) AS n FROM doctors GROUP BY ward) d ON d.ward = p.ward WHERE p.ward = 'A'",
            1000,
        ),
    ],
)
def test_each_kind_is_answered(service: Service, sql: str, truth: int) -> None:
    ((number,),) = Analyst(service, "ann").ask(sql)
    assert abs(float(number) - truth) < 30


def test_one_account_pays_for_all_kinds(service: Service) -> None:
    bob = Analyst(service, "bob")
    bob.ask("SELECT COUNT(*) FROM patients")
    assert bob.used() == (1, 0)
    bob.ask("SELECT COUNT(*) FROM doctors")
    assert bob.used() == (2, 0)


def test_a_statement_over_rows_of_both_is_refused_and_free(service: Service) -> None:
    eve = Analyst(service, "eve")
    for sql in (
        "SELECT COUNT(*) FROM visits v JOIN doctors d ON v.seen_by = d.id",
        "SELECT COUNT(*) FROM patients p JOIN doctors d ON p.id = d.id",
        "SELECT COUNT(*) FROM visits WHERE seen_by IN (SELECT id FROM doctors WHERE salary > 60)",
        "SELECT COUNT(*) FROM (SELECT id FROM patients UNION ALL SELECT id FROM doctors) t",
    ):
        with pytest.raises(Refusal) as refused:
            eve.ask(sql)
        assert refused.value.code == "PV013"
    assert eve.used() == (0, 0)


def test_the_owner_reads_whose_rows_they_are(service: Service) -> None:
    checked = service.checked
    assert (unit_name(checked.policy), unit_words(checked.policy)) == ("id", "id or doctor")
    (told,) = [t for t in warnings(checked, [], checked.config.privacy) if "seen_by" in t]
    assert told.startswith("visits.seen_by leads to doctors: only the id of patients is protected")
    lines = in_words(service, "SELECT COUNT(DISTINCT doctor_id) FROM shifts")
    assert lines[0].endswith("each doctor is protected with all its rows.")
    lines = in_words(service, "SELECT COUNT(*) FROM visits")
    assert lines[0].endswith("each id is protected with all its rows.")
