"""Events that belong to one unit: private tables joined on them, groups of them, and how many there are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import duckdb
import pytest

from dpproxy.deployment.service import Service, configured
from rewriter.refusal import Refusal
from tests.dpproxy.engine.test_executor import Analyst
from tests.dpproxy.serving import make

pytestmark = pytest.mark.service

POLICY = """
[backend]
url = "duckdb:///people.duckdb"
[privacy]
epsilon_per = 3
[budget]
information = 1000
calls = 20
period = "none"

[tables.stays]
privacy_unit = "patient"
[tables.stays.columns]
ward = { domain = ["A", "B"] }

[tables.findings]
privacy_unit = "patient"
[tables.findings.columns]
stay = { of_unit = true }
code = { domain = ["flu", "gout"] }

[tables.meals]
privacy_unit_path = ["stay -> stays.stay"]

[tables.bills]
privacy_unit = "patient"
[tables.bills.columns]
stay = { of_unit = true }
amount = { bounds = [0, 100] }
"""
PATIENTS = 900
"""Each has two stays, in ward A with three findings of flu and in ward B with one of gout; each stay has two bills
and three meals."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder: Path = tmp_path_factory.mktemp("events")
    file = make(folder, POLICY)
    with duckdb.connect(folder / "people.duckdb") as connection:
        connection.execute(
            f"""
            CREATE TABLE stays (stay INTEGER PRIMARY KEY, patient INTEGER NOT NULL, ward VARCHAR, days INTEGER);
            INSERT INTO stays SELECT 2 * p + w, p, ['A', 'B'][w + 1], 3 + 4 * w
                FROM range({PATIENTS}) a(p), range(2) b(w);
            CREATE TABLE findings (stay INTEGER, patient INTEGER NOT NULL, code VARCHAR);
            INSERT INTO findings SELECT stay, patient, CASE ward WHEN 'A' THEN 'flu' ELSE 'gout' END
                FROM stays, range(3) r(i) WHERE ward = 'A' OR i = 0;
            CREATE TABLE bills (stay INTEGER, patient INTEGER NOT NULL, amount INTEGER);
            INSERT INTO bills SELECT stay, patient, 10 FROM stays, range(2) r(i);
            CREATE TABLE meals (stay INTEGER, dish VARCHAR);
            INSERT INTO meals SELECT stay, 'soup' FROM stays, range(3) r(i);
            """
        )
    with Service.start(configured(file), alone=True) as running:
        yield running


@pytest.fixture
def ann(service: Service, request: pytest.FixtureRequest) -> Analyst:
    """An analyst of the test's own, with a full budget."""
    return Analyst(service, f"ann {sha256(request.node.name.encode()).hexdigest()[:40]}")


def near(ann: Analyst, found: str, wanted: float) -> None:
    """A clip may be much longer than it needs to be; the notice then tells of more noise."""
    spread = max(map(float, re.findall(r"standard deviation ([0-9.]+)", " ".join(ann.notices))))
    assert float(found) == pytest.approx(wanted, rel=0.03, abs=5 * spread)


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        # Joins on the event, one of them on the key of its own table.
        ("stays s JOIN findings f USING (stay) WHERE ward = 'A'", 3),
        ("findings f JOIN bills b ON b.stay = f.stay", 8),
        ("stays s LEFT JOIN findings f ON f.stay = s.stay AND f.code = 'flu'", 4),
        ("stays s, findings f, bills b WHERE s.stay = f.stay AND f.stay = b.stay", 8),
        ("meals m JOIN bills b USING (stay)", 12),
        # Subqueries on it.
        ("bills WHERE stay IN (SELECT stay FROM findings WHERE code = 'flu')", 2),
        ("bills b WHERE EXISTS (SELECT 1 FROM stays s WHERE s.stay = b.stay AND days > 5)", 2),
        ("stays s WHERE NOT EXISTS (SELECT FROM findings f WHERE f.stay = s.stay AND code = 'gout')", 1),
        ("bills WHERE stay IS NOT NULL AND stay NOT IN (SELECT stay FROM stays WHERE ward = 'A')", 2),
        (
            "bills WHERE stay IS NOT NULL "
            "AND stay NOT IN (SELECT stay FROM findings WHERE code = 'flu' AND stay IS NOT NULL)",
            2,
        ),
        ("stays s JOIN meals m USING (stay)", 6),
        ("stays s WHERE EXISTS (SELECT 1 FROM meals m WHERE m.stay = s.stay)", 2),
        ("stays s WHERE (SELECT COUNT(*) FROM findings f WHERE f.stay = s.stay) > 2", 1),
        ("stays s WHERE (SELECT SUM(b.amount) FROM bills b WHERE b.stay = s.stay) = 20", 2),
        # Groups of it.
        ("(SELECT stay FROM meals GROUP BY stay HAVING COUNT(*) = 3) AS t", 2),
        ("(SELECT stay FROM findings GROUP BY stay HAVING COUNT(*) = 3) AS t", 1),
        ("(SELECT DISTINCT stay, code FROM findings) AS t", 2),
        (
            "(SELECT ROW_NUMBER() OVER (PARTITION BY stay ORDER BY amount) AS n FROM bills) AS t WHERE n = 1",
            2,
        ),
        (
            "(SELECT DISTINCT ON (stay) stay, code FROM findings ORDER BY stay, code) AS t WHERE code = 'flu'",
            1,
        ),
        (
            "(SELECT s.stay FROM stays s JOIN bills b USING (stay) GROUP BY s.stay HAVING s.ward = 'A') AS t",
            1,
        ),
    ],
)
def test_rows(ann: Analyst, sql: str, wanted: int) -> None:
    ((found,),) = ann.ask(f"SELECT COUNT(*) FROM {sql}")
    near(ann, found, wanted * PATIENTS)


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("SELECT AVG(n) FROM (SELECT stay, COUNT(*) AS n FROM findings GROUP BY stay) AS t", 2),
        ("SELECT COUNT(DISTINCT stay) FROM findings", 2 * PATIENTS),
        ("SELECT COUNT(DISTINCT stay) FROM meals", 2 * PATIENTS),
        (
            "SELECT COUNT(DISTINCT s.stay) FROM stays s JOIN bills b ON b.stay = s.stay WHERE ward = 'B'",
            PATIENTS,
        ),
        ("SELECT COUNT(DISTINCT (stay, code)) FROM findings", 2 * PATIENTS),
    ],
)
def test_numbers(ann: Analyst, sql: str, wanted: int) -> None:
    ((found,),) = ann.ask(sql)
    near(ann, found, wanted)


def test_numbers_by_group(ann: Analyst) -> None:
    rows = ann.ask(
        "SELECT code, COUNT(DISTINCT stay) AS n FROM findings GROUP BY code ORDER BY n DESC LIMIT 2"
    )
    assert any("different value" in str(notice) for notice in ann.notices)
    assert {code for code, _ in rows} == {"flu", "gout"}
    for _, n in rows:
        near(ann, n, PATIENTS)


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT stay, COUNT(*) FROM findings GROUP BY stay", "PV010"),
        ("SELECT DISTINCT stay FROM findings", "PV010"),
        ("SELECT stay, code, COUNT(*) FROM findings GROUP BY ROLLUP (stay, code)", "PV010"),
        # The rows without a finding, of all patients, would be one group.
        (
            "SELECT AVG(n) FROM (SELECT f.stay, COUNT(*) AS n FROM stays s LEFT JOIN findings f USING (stay) "
            "GROUP BY 1) t",
            "PV010",
        ),
        # A key of rows is no event of another table.
        ("SELECT COUNT(*) FROM stays s JOIN stays t ON s.stay = t.days", "PV012"),
        # The NULL of another patient would decide.
        ("SELECT COUNT(*) FROM bills WHERE stay NOT IN (SELECT stay FROM stays WHERE ward = 'A')", "PV015"),
        ("SELECT COUNT(*) FROM stays WHERE stay NOT IN (SELECT stay FROM findings)", "PV015"),
        ("SELECT COUNT(*) FROM bills b JOIN findings f ON b.stay + 0 = f.stay", "PV012"),
    ],
)
def test_refused(ann: Analyst, sql: str, code: str) -> None:
    with pytest.raises(Refusal) as caught:
        ann.ask(sql)
    assert caught.value.code == code
