"""What a hospital's analysts ask, after `init` and the owner's row filters, compared with the database itself."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path

import psycopg
import pytest
from psycopg.pq import ExecStatus
from typer.testing import CliRunner

from dpproxy.cli.app import app
from dpproxy.deployment.service import Service, configured
from dpproxy.owner.check import shown_name
from dpproxy.owner.overview import answered, changes
from dpproxy.reporting.rows import RowSet
from dpproxy.server.local_client import ClientError
from rewriter.policy import Table
from tests.dpproxy.hospital import ROWS, SCHEMA, SHOWN_ROWS
from tests.dpproxy.postgres_data import databases

pytestmark = pytest.mark.service

Ask = Callable[[str], RowSet]

SAID = (
    *("--person", "clinic.patients.id"),
    *("--public", "clinic.icd_codes", "--public", "clinic.concepts", "--public", "clinic.doctors"),
)
EDITS = (
    # Answers that can be compared with the true ones.
    ("[budget] ", "[privacy]\nepsilon_per = 8\nquery_information = 8\n\n[budget] "),
    # Soft deletes and consent.
    (
        '[tables."clinic.patients"]\n',
        '[tables."clinic.patients"]\nwhere = "deleted_at IS NULL AND (consents->>\'research\')::boolean"\n',
    ),
    ('[tables."clinic.admissions"]\n', '[tables."clinic.admissions"]\nwhere = "deleted_at IS NULL"\n'),
    # Inside of the jsonb.
    (
        "sex = {}",
        "language = { expression = \"consents->>'language'\", domain = ['de', 'tr', 'en'] }\nsex = {}",
    ),
    # Views.
    ('# [tables."clinic.active_patients"]', '[tables."clinic.active_patients"]'),
    ('# [tables."clinic.stays"]', '[tables."clinic.stays"]'),
    # Since when there are records.
    ("born = {}", 'born = { range = ["1936-01-01", "2014-12-31"] }'),
    ("admitted_at = {}", 'admitted_at = { range = ["2023-01-01", "2024-12-31"] }'),
    ("discharged_at = {}", 'discharged_at = { range = ["2023-01-01", "2025-01-31"], nullable = true }'),
    ("taken_at = {}", 'taken_at = { range = ["2023-01-01", "2025-01-31"] }'),
    ("issuedAt = {}", 'issuedAt = { range = ["2023-01-01", "2025-01-31"] }'),
)
"""All that the owner changes in the file that `init` writes."""


@dataclass(frozen=True)
class Hospital:
    service: Service
    bare: psycopg.Connection
    """The same database as its analysts see it: without what the policy hides."""


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hospital]:
    folder: Path = tmp_path_factory.mktemp("hospital")
    file = folder / "dpproxy.toml"
    with databases(folder / "server") as server:
        name, bare = server.make((*SCHEMA, *ROWS)), server.make((*SCHEMA, *ROWS, *SHOWN_ROWS))
        done = CliRunner().invoke(app, ["init", "--backend", server.url(name), "--config", str(file), *SAID])
        assert done.exit_code == 0, done.output
        text = file.read_text()
        for before, after in EDITS:
            assert text.count(before) == 1, before
            text = text.replace(before, after)
        file.write_text(text)
        with server.owner(bare) as owner, Service.start(configured(file), alone=True) as service:
            owner.execute("SET timezone = 'UTC'")
            yield Hospital(service, owner)


@pytest.fixture
def ask(hospital: Hospital, request: pytest.FixtureRequest) -> Ask:
    """Asks as an analyst of the test's own, with a full budget."""
    analyst = f"ann {sha256(request.node.name.encode()).hexdigest()[:40]}"
    return lambda sql: asyncio.run(hospital.service.ask(analyst, sql))


ANSWERED = {
    "admissions by month": (
        "SELECT date_trunc('month', admitted_at) AS month, COUNT(*) AS admissions FROM clinic.admissions "
        "GROUP BY 1 ORDER BY 1",
        (0.05, 20),
    ),
    "admissions by day": (
        "SELECT admitted_at::date AS day, COUNT(*) FROM clinic.admissions "
        "WHERE admitted_at >= '2024-03-01' AND admitted_at < '2024-04-01' GROUP BY 1 ORDER BY 1",
        (0, 10),
    ),
    "age groups": (
        "SELECT CASE WHEN EXTRACT(YEAR FROM age(DATE '2025-01-01', born)) < 18 THEN '0-17' "
        "WHEN EXTRACT(YEAR FROM age(DATE '2025-01-01', born)) < 65 THEN '18-64' ELSE '65+' END AS age_group, "
        "COUNT(*) AS patients FROM clinic.patients GROUP BY age_group ORDER BY age_group",
        (0.02, 10),
    ),
    "decades of age": (
        "SELECT floor(EXTRACT(YEAR FROM age(DATE '2025-01-01', born)) / 10) * 10 AS decade, COUNT(*) "
        "FROM clinic.patients GROUP BY 1 ORDER BY 1",
        (0, 15),
    ),
    "lab results by ward": (
        "SELECT a.ward, COUNT(*) AS results FROM clinic.lab_results l "
        "JOIN clinic.admissions a ON a.id = l.admission_id GROUP BY a.ward ORDER BY a.ward",
        (0.05, 0),
    ),
    "mean by analyte": (
        "SELECT c.name, c.unit, AVG(l.value) AS mean FROM clinic.lab_results l JOIN clinic.concepts c USING (loinc) "
        "WHERE c.name <> 'creatinine' GROUP BY c.name, c.unit ORDER BY c.name",
        (0.1, 0),
    ),
    "active patients": (
        "SELECT sex, COUNT(*) AS n FROM clinic.active_patients GROUP BY sex ORDER BY n DESC",
        (0.02, 10),
    ),
    "stays by ward": (
        "SELECT ward, COUNT(*) AS stays, AVG(days) AS days FROM clinic.stays GROUP BY ward ORDER BY ward",
        (0.1, 0),
    ),
    "admissions with a diagnosis of the heart": (
        "SELECT COUNT(DISTINCT d.admission_id) AS admissions FROM clinic.diagnoses d "
        "JOIN clinic.icd_codes c ON c.code = d.icd_code WHERE c.chapter = 'circulatory'",
        (0.05, 0),
    ),
    "admissions and patients by ward": (
        "SELECT ward, COUNT(DISTINCT id) AS admissions, COUNT(DISTINCT patient_id) AS patients "
        "FROM clinic.admissions GROUP BY ward ORDER BY ward",
        (0.05, 20),
    ),
    "median glucose": (
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY value) AS median FROM clinic.lab_results "
        "WHERE loinc = '2345-7' AND value BETWEEN 0 AND 500",
        (0.05, 0),
    ),
    "top 10 diagnoses": (
        "SELECT c.code, c.title, COUNT(*) AS n FROM clinic.diagnoses d JOIN clinic.icd_codes c ON c.code = d.icd_code "
        "GROUP BY c.code, c.title ORDER BY n DESC LIMIT 10",
        (0.1, 20),
    ),
    "readmissions within 30 days": (
        "WITH s AS (SELECT patient_id, ward, admitted_at, LAG(discharged_at) OVER "
        "(PARTITION BY patient_id ORDER BY admitted_at) AS before FROM clinic.admissions) "
        "SELECT ward, COUNT(*) AS readmissions FROM s "
        "WHERE admitted_at - before BETWEEN INTERVAL '0' AND INTERVAL '30 days' GROUP BY ward ORDER BY ward",
        (0, 20),
    ),
    "length of stay by month": (
        "SELECT to_char(discharged_at, 'YYYY-MM') AS month, "
        "AVG(EXTRACT(EPOCH FROM (discharged_at - admitted_at)) / 86400) AS days FROM clinic.admissions "
        "WHERE discharged_at >= '2024-01-01' AND discharged_at < '2025-01-01' GROUP BY 1 ORDER BY 1",
        (0.15, 0),
    ),
    "revenue by payer": (
        'SELECT payer, SUM("amountCents") / 100.0 AS euros FROM "Billing"."Invoices" GROUP BY payer ORDER BY payer',
        (0.1, 0),
    ),
    "emergencies and others": (
        "SELECT ward, COUNT(*) FILTER (WHERE emergency) AS emergencies, COUNT(*) FILTER (WHERE NOT emergency) AS "
        "planned FROM clinic.admissions GROUP BY ward ORDER BY ward",
        (0.05, 20),
    ),
    "share of emergencies": (
        "SELECT ward, ROUND(100.0 * SUM(CASE WHEN emergency THEN 1 ELSE 0 END) / COUNT(*), 1) AS percent "
        "FROM clinic.admissions GROUP BY ward ORDER BY ward",
        (0, 3),
    ),
    "busy wards": (
        "SELECT ward, COUNT(*) AS n FROM clinic.admissions GROUP BY ward HAVING COUNT(*) > 2250 ORDER BY n DESC",
        (0.05, 0),
    ),
    "admissions so far": (
        "SELECT month, SUM(n) OVER (ORDER BY month) AS so_far FROM (SELECT date_trunc('month', admitted_at)::date "
        "AS month, COUNT(*) AS n FROM clinic.admissions GROUP BY 1) t ORDER BY month",
        (0.05, 30),
    ),
    "calendar of weeks": (
        "SELECT w.week::date AS week, COUNT(a.id) AS admissions FROM generate_series(timestamptz '2024-01-01', "
        "'2024-06-24', '1 week') AS w(week) LEFT JOIN clinic.admissions a ON a.admitted_at >= w.week "
        "AND a.admitted_at < w.week + INTERVAL '1 week' AND a.ward = 'oncology' GROUP BY 1 ORDER BY 1",
        (0, 12),
    ),
    "occupied beds": (
        "SELECT d.day::date, COUNT(*) AS patients FROM generate_series(DATE '2024-05-01', DATE '2024-05-14', "
        "INTERVAL '1 day') AS d(day) JOIN clinic.admissions a ON a.admitted_at <= d.day AND a.discharged_at > d.day "
        "GROUP BY d.day ORDER BY d.day",
        (0.1, 15),
    ),
    "missing sex": ("SELECT COUNT(*) FROM clinic.patients WHERE sex IS NULL", (0, 0)),
    "columns": ("SELECT * FROM clinic.admissions WHERE 1=0", (0, 0)),
    "language": (
        "SELECT language, COUNT(*) FROM clinic.patients GROUP BY language ORDER BY 2 DESC",
        (0.03, 10),
    ),
    "sex and ward": (
        "SELECT p.sex, a.ward, COUNT(DISTINCT p.id) AS patients FROM clinic.patients p "
        "JOIN clinic.admissions a ON a.patient_id = p.id GROUP BY p.sex, a.ward ORDER BY p.sex, a.ward",
        (0.05, 20),
    ),
    "private invoices": (
        'SELECT date_trunc(\'quarter\', i."issuedAt")::date AS quarter, COUNT(i."invoiceId") AS invoices, '
        'AVG(i."amountCents") / 100 AS mean FROM "Billing"."Invoices" i WHERE i.payer = \'Private\' '
        "AND i.\"issuedAt\" < '2025-01-01' GROUP BY 1 ORDER BY 1",
        (0.2, 10),
    ),
    "dear for their payer": (
        'SELECT COUNT(*) FROM "Billing"."Invoices" i WHERE i."issuedAt" >= \'2024-12-01\' AND i."amountCents" > '
        '(SELECT AVG(j."amountCents") FROM "Billing"."Invoices" j WHERE j.payer = i.payer)',
        (0.05, 15),
    ),
    "patients of oncology": (
        "SELECT sex, COUNT(*) FROM clinic.patients "
        "WHERE id IN (SELECT patient_id FROM clinic.admissions WHERE ward = 'oncology') GROUP BY sex ORDER BY sex",
        (0.05, 15),
    ),
    "admissions without an invoice": (
        'SELECT COUNT(*) FROM clinic.admissions a WHERE NOT EXISTS (SELECT 1 FROM "Billing"."Invoices" i '
        'WHERE i."admissionId" = a.id)',
        (0, 20),
    ),
    "admissions a patient": (
        "SELECT AVG(n) AS mean FROM (SELECT patient_id, COUNT(*) AS n FROM clinic.admissions "
        "GROUP BY patient_id) t",
        (0.05, 0),
    ),
    "patients by number of admissions": (
        "SELECT n AS admissions, COUNT(*) AS patients FROM (SELECT patient_id, COUNT(*) AS n FROM clinic.admissions "
        "WHERE ward = 'cardiology' GROUP BY patient_id) t WHERE n <= 3 GROUP BY n ORDER BY n",
        (0.05, 15),
    ),
    "hours of admission": (
        "SELECT EXTRACT(HOUR FROM admitted_at AT TIME ZONE 'Europe/Berlin') AS hour, COUNT(*) AS n "
        "FROM clinic.admissions GROUP BY 1 ORDER BY 1",
        (0.1, 20),
    ),
    "first ward": (
        "SELECT ward, COUNT(*) AS patients FROM (SELECT ward, ROW_NUMBER() OVER (PARTITION BY patient_id "
        "ORDER BY admitted_at) AS nth FROM clinic.admissions) t WHERE nth = 1 GROUP BY ward ORDER BY ward",
        (0.05, 15),
    ),
    "share of each payer": (
        'SELECT payer, ROUND(100.0 * COUNT(*) / SUM(COUNT(*)) OVER (), 1) AS percent FROM "Billing"."Invoices" '
        "GROUP BY payer ORDER BY payer",
        (0, 3),
    ),
    "abnormal by analyte": (
        "SELECT c.name, AVG(CASE WHEN l.abnormal THEN 1.0 ELSE 0 END) AS abnormal FROM clinic.lab_results l "
        "JOIN clinic.concepts c ON c.loinc = l.loinc GROUP BY c.name ORDER BY c.name",
        (0.1, 0.01),
    ),
    "hours to the first result": (
        "SELECT AVG(EXTRACT(EPOCH FROM first - admitted_at) / 3600) AS hours FROM (SELECT a.id, a.admitted_at, "
        "MIN(l.taken_at) AS first FROM clinic.admissions a JOIN clinic.lab_results l ON l.admission_id = a.id "
        "GROUP BY a.id, a.admitted_at) t",
        (0.1, 0),
    ),
    "unpaid": (
        'SELECT i.payer, SUM(i."amountCents" - COALESCE(p."paidCents", 0)) / 100 AS open FROM "Billing"."Invoices" i '
        'LEFT JOIN "Billing"."Payments" p ON p."invoiceId" = i."invoiceId" GROUP BY i.payer ORDER BY i.payer',
        (0.2, 0),
    ),
    "allergic to penicillin": (
        "SELECT sex, COUNT(*) AS allergic FROM clinic.patients WHERE 'penicillin' = ANY(allergies) "
        "GROUP BY sex ORDER BY sex",
        (0, 10),
    ),
    "long for their ward, in seconds": (
        "SELECT a.ward, COUNT(*) AS long FROM clinic.admissions a "
        "WHERE a.admitted_at >= '2024-12-01' AND EXTRACT(EPOCH FROM a.discharged_at - a.admitted_at) > "
        "(SELECT 2 * AVG(EXTRACT(EPOCH FROM b.discharged_at - b.admitted_at)) FROM clinic.admissions b "
        "WHERE b.ward = a.ward) GROUP BY a.ward ORDER BY a.ward",
        (0, 15),
    ),
    "stay as an interval": (
        "SELECT ward, AVG(discharged_at - admitted_at) AS stay FROM clinic.admissions "
        "GROUP BY ward HAVING AVG(discharged_at - admitted_at) > INTERVAL '1 day' ORDER BY ward",
        (0, 20_000),
    ),
    "latest admission": ("SELECT MAX(admitted_at) FROM clinic.admissions", (0, 3 * 86400)),
}
"""Each with the error that is accepted: a share of the true value and an amount."""

REFUSED = {
    # Intervals are no values of rows that PostgreSQL has evaluated; seconds are, as above.
    "long for their ward": (
        "SELECT a.ward, COUNT(*) AS long FROM clinic.admissions a "
        "WHERE a.admitted_at >= '2024-12-01' AND a.discharged_at - a.admitted_at > "
        "(SELECT 2 * AVG(b.discharged_at - b.admitted_at) FROM clinic.admissions b WHERE b.ward = a.ward) "
        "GROUP BY a.ward ORDER BY a.ward",
        "0A000",
    ),
    "rows": ("SELECT * FROM clinic.patients LIMIT 10", "PV010"),
    # It is the value of one patient, whatever it is, and nobody has said how large it may be.
    "most admissions of a patient": (
        "SELECT MAX(n) FROM (SELECT patient_id, COUNT(*) AS n FROM clinic.admissions GROUP BY patient_id) t",
        "PV016",
    ),
    # A quantile is sought between bounds, and those of the data would tell of one patient.
    "median of what has no bounds": (
        'SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY "riskScore") FROM clinic.patients',
        "PV016",
    ),
    # `init` hides what leads to people who are not protected.
    "by doctor": (
        "SELECT d.specialty, COUNT(*) FROM clinic.admissions a "
        "JOIN clinic.doctors d ON d.id = a.attending_doctor_id GROUP BY d.specialty",
        "42703",
    ),
    # The counts of a view of groups are exact. The owner cannot show it; the same is asked of the table.
    "a view of groups": (
        "SELECT month, SUM(admissions) FROM clinic.monthly GROUP BY month ORDER BY month",
        "42P01",
    ),
}


@pytest.mark.parametrize(("sql", "within"), ANSWERED.values(), ids=ANSWERED)
def test_answered(hospital: Hospital, ask: Ask, sql: str, within: tuple[float, float]) -> None:
    said, true = ask(sql), in_truth(hospital.bare, sql)
    # Now and then a clip is many times longer than it has to be, as the notice says, and the noise with it.
    wider = max(
        [1.0, *(int(rows) / 16 for rows in re.findall(r"(?:at most|about) (\d+) rows", str(said.notices)))]
    )
    assert (said.columns, kinds(said), len(said.rows)) == (true.columns, kinds(true), len(true.rows))
    for row, wanted in zip(said.rows, true.rows, strict=True):
        for value, truth, oid in zip(row, wanted, said.oids, strict=True):
            assert near(value, truth, oid, wider * within[0], wider * within[1]), (row, wanted)


def test_the_interval_of_an_interval_is_in_seconds(ask: Ask) -> None:
    (notice,) = ask("SELECT AVG(discharged_at - admitted_at) AS stay FROM clinic.admissions").notices
    assert re.search(r"; stay \+- [\d.]+ seconds with 95%", notice)
    assert "no interval is known" not in notice


@pytest.mark.parametrize(("sql", "code"), REFUSED.values(), ids=REFUSED)
def test_refused(ask: Ask, sql: str, code: str) -> None:
    with pytest.raises(ClientError) as caught:
        ask(sql)
    assert caught.value.code == code


def test_what_check_says_that_works_is_answered(hospital: Hospital, ask: Ask) -> None:
    """What it says does not is refused: asked is for the price of each use of each column."""
    checked = hospital.service.checked
    policy, privacy = checked.policy, checked.config.privacy
    tables = {shown_name(table): table for table in policy.tables.values()}
    unbounded = set()
    for one in answered(policy, privacy):
        table = tables[one.table]

        def price(select: str, column: str, more: str = "", table: Table = table) -> str:
            sql = f'EXPLAIN SELECT {select} FROM "{table.schema}"."{table.name}" {more}'
            return str(ask(sql.format(f'"{column}"')).rows)

        for column in (*one.listed, *one.found):
            assert price("{0}, COUNT(*)", column, "GROUP BY {0} ORDER BY 2 DESC LIMIT 3")
        for column in one.parted:
            assert "known domain" in price("date_trunc('month', {0}), COUNT(*)", column, "GROUP BY 1")
        for column in one.summed:
            assert price("SUM({0}), AVG({0})", column)
        for column in one.keys:
            assert price("COUNT(DISTINCT {0})", column)
        for column in {*one.ranked, *one.found, *one.listed}:
            ranked = "MAX({0}), percentile_disc(0.5) WITHIN GROUP (ORDER BY {0})"
            if column in one.ranked:
                assert price(ranked, column)
            elif next(c.type for c in table.columns if c.name == column).startswith(
                ("bigi", "d", "i", "n", "s", "ti")
            ):
                unbounded.add(f"{one.table}.{column}")
                with pytest.raises(ClientError) as caught:
                    price(ranked, column)
                assert caught.value.code == "PV016"
    said = [change for change in changes(policy, checked.schema, privacy) if "MIN" in change.what]
    assert {f"{change.table}.{name}" for change in said for name in change.names} == unbounded
    assert "clinic.patients.riskScore" in unbounded


def in_truth(bare: psycopg.Connection, sql: str) -> RowSet:
    """What the database answers without a proxy."""
    result = bare.pgconn.exec_(sql.encode())
    assert result.status == ExecStatus.TUPLES_OK, result.error_message
    columns, rows = range(result.nfields), range(result.ntuples)
    values = [[result.get_value(row, column) for column in columns] for row in rows]
    return RowSet(
        columns=[(result.fname(column) or b"").decode() for column in columns],
        oids=[result.ftype(column) for column in columns],
        rows=[tuple(None if value is None else value.decode() for value in row) for row in values],
    )


def kinds(answer: RowSet) -> list[int]:
    """The types of an answer's columns; the hospital's own have another number in each database."""
    return [min(oid, FIRST_OF_USERS) for oid in answer.oids]


def near(value: str | None, truth: str | None, oid: int, share: float, amount: float) -> bool:
    """Whether a number or time is within the error of the true one, in seconds; texts and days are the true ones."""
    if value is None or truth is None or oid not in MEASURED:
        return value == truth
    found, wanted = (MEASURED[oid](text) for text in (value, truth))
    return abs(found - wanted) <= share * abs(wanted) + amount


def moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def seconds(text: str) -> float:
    days, hours, minutes, rest = text.replace(" days ", ":").split(":")
    return 86400 * int(days) + 3600 * int(hours) + 60 * int(minutes) + float(rest)


FIRST_OF_USERS = 16384
MEASURED: dict[int, Callable[[str], float]] = {
    20: float,
    23: float,
    701: float,
    1700: float,
    1184: moment,
    1186: seconds,
}
"""The types, by their OIDs, whose values have noise."""
